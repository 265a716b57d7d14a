//! x86-64: SSE2, AVX2 and AVX-512.

use std::arch::x86_64::*;

use super::scattered::Wide;
use super::{LINE, Lane, Matrix, Table, Vector, asks_first, cover, prefetch_first, prefetch_second};
use crate::backend::host::copy::x86::pick;
use crate::backend::host::stream::PAIR;

/// A lane with what the processor has for parts of one: SSE2 and nothing (0), SSSE3 (1), masks (2).
#[derive(Clone, Copy)]
pub struct Sse<const LEVEL: u8>(__m128i);

impl<const LEVEL: u8> Lane for Sse<LEVEL> {
    const SHUFFLES: bool = LEVEL >= 1;
    const LOADS_PARTS: bool = LEVEL >= 2;

    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        // SAFETY: as the caller vouches; level 2 is AVX-512 VL and BW.
        unsafe {
            if LEVEL >= 2 {
                return Sse(_mm_maskz_loadu_epi8(((1u32 << bytes) - 1) as u16, from.cast()));
            }
            if LEVEL == 1 && (8..16).contains(&bytes) {
                let low = _mm_loadl_epi64(from.cast());
                let high = _mm_loadl_epi64(from.add(bytes - 8).cast());
                return Sse(_mm_or_si128(low, _mm_shuffle_epi8(high, shift(8 - bytes as isize))));
            }
            let value = super::read_part(from, bytes);
            Sse(_mm_set_epi64x((value >> 64) as i64, value as i64))
        }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: as the caller vouches; level 2 is AVX-512 VL and BW.
        unsafe {
            if LEVEL >= 2 {
                _mm_mask_storeu_epi8(to.cast(), ((1u32 << bytes) - 1) as u16, self.0);
            } else if LEVEL == 1 && (4..16).contains(&bytes) {
                let end = |bytes: usize| _mm_shuffle_epi8(self.0, shift(bytes as isize));
                if bytes >= 8 {
                    _mm_storel_epi64(to.cast(), self.0);
                    _mm_storel_epi64(to.add(bytes - 8).cast(), end(bytes - 8));
                } else {
                    _mm_storeu_si32(to.cast(), self.0);
                    _mm_storeu_si32(to.add(bytes - 4).cast(), end(bytes - 4));
                }
            } else {
                let low = _mm_cvtsi128_si64(self.0) as u64;
                let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(self.0, self.0)) as u64;
                super::write_part(to, bytes, low as u128 | (high as u128) << 64);
            }
        }
    }

    #[inline(always)]
    unsafe fn load_halves(low: *const u8, high: *const u8) -> Self {
        // SAFETY: as the caller vouches; SSE2 is always there.
        unsafe { Sse(_mm_unpacklo_epi64(_mm_loadl_epi64(low.cast()), _mm_loadl_epi64(high.cast()))) }
    }

    #[inline(always)]
    unsafe fn store_halves(self, low: *mut u8, high: *mut u8) {
        // SAFETY: as the caller vouches; SSE2 is always there.
        unsafe {
            _mm_storel_epi64(low.cast(), self.0);
            _mm_storel_epi64(high.cast(), _mm_unpackhi_epi64(self.0, self.0));
        }
    }
}

impl<const LEVEL: u8> Vector for Sse<LEVEL> {
    const LANES: usize = 1;
    type Lane = Self;
    type Half = Self;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: as the caller vouches.
        unsafe { Sse(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: as the caller vouches.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: as the caller vouches.
        unsafe { _mm_stream_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn from_lanes(lanes: [Self; 4]) -> Self {
        lanes[0]
    }

    #[inline(always)]
    unsafe fn lane(self, _index: usize) -> Self {
        self
    }

    #[inline(always)]
    unsafe fn zip<const SIZE: usize>(self, other: Self) -> (Self, Self) {
        let (a, b) = (self.0, other.0);
        // SAFETY: SSE2 is always there.
        unsafe {
            match SIZE {
                1 => (Sse(_mm_unpacklo_epi8(a, b)), Sse(_mm_unpackhi_epi8(a, b))),
                2 => (Sse(_mm_unpacklo_epi16(a, b)), Sse(_mm_unpackhi_epi16(a, b))),
                4 => (Sse(_mm_unpacklo_epi32(a, b)), Sse(_mm_unpackhi_epi32(a, b))),
                _ => (Sse(_mm_unpacklo_epi64(a, b)), Sse(_mm_unpackhi_epi64(a, b))),
            }
        }
    }

    #[inline(always)]
    unsafe fn exchange(group: [Self; 4]) -> [Self; 4] {
        group
    }

    #[inline(always)]
    unsafe fn shuffle(self, table: &Table) -> Self {
        // SAFETY: level 1 is SSSE3; level 0 does not get here.
        unsafe { Sse(_mm_shuffle_epi8(self.0, _mm_loadu_si128(table.as_ptr().cast()))) }
    }
}

/// What makes a byte of a shuffle the one so many after it, at most fifteen either way, and zero where there is none.
///
/// # Safety
/// SSE2 is always there.
#[inline(always)]
unsafe fn shift(bytes: isize) -> __m128i {
    static PLACES: [u8; 48] = {
        let mut places = [128; 48];
        let mut place = 0;
        while place < 16 {
            places[16 + place] = place as u8;
            place += 1;
        }
        places
    };
    // SAFETY: fifteen places either way are there.
    unsafe { _mm_loadu_si128(PLACES.as_ptr().offset(16 + bytes).cast()) }
}

/// AVX2.
#[derive(Clone, Copy)]
pub struct Avx2(pub __m256i);

impl Vector for Avx2 {
    const LANES: usize = 2;
    type Lane = Sse<1>;
    type Half = Sse<1>;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: as the caller vouches.
        unsafe { Avx2(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: as the caller vouches.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: as the caller vouches.
        unsafe { _mm256_stream_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn from_lanes(lanes: [Sse<1>; 4]) -> Self {
        // SAFETY: the caller has AVX2.
        unsafe { Avx2(_mm256_inserti128_si256(_mm256_castsi128_si256(lanes[0].0), lanes[1].0, 1)) }
    }

    #[inline(always)]
    unsafe fn lane(self, index: usize) -> Sse<1> {
        // SAFETY: the caller has AVX2.
        unsafe {
            match index {
                0 => Sse(_mm256_castsi256_si128(self.0)),
                _ => Sse(_mm256_extracti128_si256(self.0, 1)),
            }
        }
    }

    #[inline(always)]
    unsafe fn zip<const SIZE: usize>(self, other: Self) -> (Self, Self) {
        let (a, b) = (self.0, other.0);
        // SAFETY: the caller has AVX2.
        unsafe {
            match SIZE {
                1 => (Avx2(_mm256_unpacklo_epi8(a, b)), Avx2(_mm256_unpackhi_epi8(a, b))),
                2 => (Avx2(_mm256_unpacklo_epi16(a, b)), Avx2(_mm256_unpackhi_epi16(a, b))),
                4 => (Avx2(_mm256_unpacklo_epi32(a, b)), Avx2(_mm256_unpackhi_epi32(a, b))),
                _ => (Avx2(_mm256_unpacklo_epi64(a, b)), Avx2(_mm256_unpackhi_epi64(a, b))),
            }
        }
    }

    #[inline(always)]
    unsafe fn exchange(group: [Self; 4]) -> [Self; 4] {
        let [a, b, c, d] = group;
        // SAFETY: the caller has AVX2.
        unsafe {
            let low = Avx2(_mm256_permute2x128_si256(a.0, b.0, 0x20));
            let high = Avx2(_mm256_permute2x128_si256(a.0, b.0, 0x31));
            [low, high, c, d]
        }
    }

    #[inline(always)]
    unsafe fn shuffle(self, table: &Table) -> Self {
        // SAFETY: the caller has AVX2.
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            Avx2(_mm256_shuffle_epi8(self.0, table))
        }
    }
}

/// AVX-512 with BW, DQ and VL.
#[derive(Clone, Copy)]
pub struct Avx512(pub __m512i);

impl Vector for Avx512 {
    const LANES: usize = 4;
    type Lane = Sse<2>;
    type Half = Avx2;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: as the caller vouches.
        unsafe { Avx512(_mm512_loadu_si512(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: as the caller vouches.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: as the caller vouches.
        unsafe { _mm512_stream_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn from_lanes(lanes: [Sse<2>; 4]) -> Self {
        let [a, b, c, d] = lanes;
        // SAFETY: the caller has AVX-512.
        unsafe {
            let vector = _mm512_castsi128_si512(a.0);
            let vector = _mm512_inserti32x4(vector, b.0, 1);
            let vector = _mm512_inserti32x4(vector, c.0, 2);
            Avx512(_mm512_inserti32x4(vector, d.0, 3))
        }
    }

    #[inline(always)]
    unsafe fn lane(self, index: usize) -> Sse<2> {
        // SAFETY: the caller has AVX-512.
        unsafe {
            match index {
                0 => Sse(_mm512_castsi512_si128(self.0)),
                1 => Sse(_mm512_extracti32x4_epi32(self.0, 1)),
                2 => Sse(_mm512_extracti32x4_epi32(self.0, 2)),
                _ => Sse(_mm512_extracti32x4_epi32(self.0, 3)),
            }
        }
    }

    #[inline(always)]
    unsafe fn zip<const SIZE: usize>(self, other: Self) -> (Self, Self) {
        let (a, b) = (self.0, other.0);
        // SAFETY: the caller has AVX-512.
        unsafe {
            match SIZE {
                1 => (Avx512(_mm512_unpacklo_epi8(a, b)), Avx512(_mm512_unpackhi_epi8(a, b))),
                2 => (Avx512(_mm512_unpacklo_epi16(a, b)), Avx512(_mm512_unpackhi_epi16(a, b))),
                4 => (Avx512(_mm512_unpacklo_epi32(a, b)), Avx512(_mm512_unpackhi_epi32(a, b))),
                _ => (Avx512(_mm512_unpacklo_epi64(a, b)), Avx512(_mm512_unpackhi_epi64(a, b))),
            }
        }
    }

    #[inline(always)]
    unsafe fn exchange(group: [Self; 4]) -> [Self; 4] {
        let [a, b, c, d] = group;
        // SAFETY: the caller has AVX-512.
        unsafe {
            let ab_low = _mm512_shuffle_i32x4(a.0, b.0, 0x44);
            let ab_high = _mm512_shuffle_i32x4(a.0, b.0, 0xee);
            let cd_low = _mm512_shuffle_i32x4(c.0, d.0, 0x44);
            let cd_high = _mm512_shuffle_i32x4(c.0, d.0, 0xee);
            [
                Avx512(_mm512_shuffle_i32x4(ab_low, cd_low, 0x88)),
                Avx512(_mm512_shuffle_i32x4(ab_low, cd_low, 0xdd)),
                Avx512(_mm512_shuffle_i32x4(ab_high, cd_high, 0x88)),
                Avx512(_mm512_shuffle_i32x4(ab_high, cd_high, 0xdd)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn shuffle(self, table: &Table) -> Self {
        // SAFETY: the caller has AVX-512.
        unsafe {
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
            Avx512(_mm512_shuffle_epi8(self.0, table))
        }
    }

    #[inline(always)]
    unsafe fn channels<const SIZE: usize, const TALL: bool>(matrix: &Matrix, ahead: isize) -> bool {
        // What is between rows is read as more columns, of which nothing is written.
        let (few, are_apart) = match matrix.source_row / SIZE as isize {
            _ if !TALL => (matrix.rows, false),
            wide if wide * SIZE as isize == matrix.source_row && wide >= matrix.columns as isize => {
                (wide as usize, wide > matrix.columns as isize)
            }
            _ => return false,
        };
        // SAFETY: the caller's; the processor has VBMI where it has what is asked for here.
        unsafe {
            match (few, ahead) {
                (3, _) if are_apart => channels::<SIZE, 3, TALL, true, true>(matrix, ahead),
                (4, _) if are_apart => channels::<SIZE, 4, TALL, true, true>(matrix, ahead),
                (5, _) if SIZE <= 8 && are_apart => channels::<SIZE, 5, TALL, true, true>(matrix, ahead),
                (6, _) if SIZE <= 8 && are_apart => channels::<SIZE, 6, TALL, true, true>(matrix, ahead),
                _ if are_apart => return false,
                (2, 0) => channels::<SIZE, 2, TALL, false, false>(matrix, 0),
                (3, 0) => channels::<SIZE, 3, TALL, false, false>(matrix, 0),
                (4, 0) => channels::<SIZE, 4, TALL, false, false>(matrix, 0),
                (5, 0) if SIZE <= 8 => channels::<SIZE, 5, TALL, false, false>(matrix, 0),
                (6, 0) if SIZE <= 8 => channels::<SIZE, 6, TALL, false, false>(matrix, 0),
                (2, ahead) => channels::<SIZE, 2, TALL, false, true>(matrix, ahead),
                (3, ahead) => channels::<SIZE, 3, TALL, false, true>(matrix, ahead),
                (4, ahead) => channels::<SIZE, 4, TALL, false, true>(matrix, ahead),
                (5, ahead) if SIZE <= 8 => channels::<SIZE, 5, TALL, false, true>(matrix, ahead),
                (6, ahead) if SIZE <= 8 => channels::<SIZE, 6, TALL, false, true>(matrix, ahead),
                _ => return false,
            }
        }
        true
    }
}

impl Wide for Avx512 {
    #[inline(always)]
    unsafe fn from_halves(low: Avx2, high: Avx2) -> Self {
        // SAFETY: the caller has AVX-512.
        unsafe { Avx512(_mm512_inserti64x4(_mm512_castsi256_si512(low.0), high.0, 1)) }
    }

    #[inline(always)]
    unsafe fn exchange_halves(self, other: Self) -> (Self, Self) {
        // SAFETY: the caller has AVX-512.
        unsafe {
            let first = _mm512_shuffle_i32x4(self.0, other.0, 0x88);
            (Avx512(first), Avx512(_mm512_shuffle_i32x4(self.0, other.0, 0xdd)))
        }
    }

    #[inline(always)]
    unsafe fn half(self) -> Avx2 {
        // SAFETY: the caller has AVX-512.
        unsafe { Avx2(_mm512_castsi512_si256(self.0)) }
    }
}

/// Of sixteen elements of four rows, which have nothing but their lowest bytes, those side by side for each of them.
///
/// # Safety
/// The processor has AVX-512 with BW.
#[inline(always)]
pub unsafe fn four_rows([a, b, c, d]: [Avx512; 4]) -> Avx512 {
    const PLACES: Table = {
        let mut places = [0; 16];
        let mut at = 0;
        while at < 16 {
            places[at] = (at % 4 * 4 + at / 4) as u8;
            at += 1;
        }
        places
    };
    // SAFETY: the caller's.
    unsafe {
        let (low, high) = (_mm512_packus_epi32(a.0, b.0), _mm512_packus_epi32(c.0, d.0));
        Avx512(_mm512_packus_epi16(low, high)).shuffle(&PLACES)
    }
}

/// Where each piece of as many vectors as there are channels comes from, one vector after another joining those before,
/// as [`pick`] wants it: first is what is there already, then the vector that joins. `TALL`: the channels are in turns, and
/// are taken apart.
const fn joins<const SIZE: usize, const CHANNELS: usize, const TALL: bool>()
-> [[[u8; LINE]; CHANNELS]; CHANNELS] {
    let mut joins = [[[0; LINE]; CHANNELS]; CHANNELS];
    // Counted in what instructions move.
    let piece = if SIZE < 8 { SIZE } else { 8 };
    let (pieces, all) = (SIZE / piece, LINE / piece);
    let mut place = 0;
    while place < CHANNELS * all {
        // What lies there after, if one channel follows the other, or in turns.
        let (element, each) = (place / pieces, LINE / SIZE);
        let from = if TALL {
            element % each * CHANNELS + element / each
        } else {
            element % CHANNELS * each + element / CHANNELS
        };
        let from = from * pieces + place % pieces;
        let mut vector = 0;
        while vector < CHANNELS {
            joins[place / all][vector][place % all * piece] = match from / all {
                joining if joining == vector && vector > 0 => (all + from % all) as u8,
                // The first two join at once.
                0 if vector == 1 => (from % all) as u8,
                _ => (place % all) as u8,
            };
            vector += 1;
        }
        place += 1;
    }
    joins
}

/// Takes apart channels that are in turns, or puts them in turns, as many as a vector has elements at a time, and asks for
/// lines so many bytes away or not. `GAP`: only the first are wanted.
///
/// # Safety
/// As [`Vector::channels`]; the processor has the instructions.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn channels<
    const SIZE: usize,
    const CHANNELS: usize,
    const TALL: bool,
    const GAP: bool,
    const AHEAD: bool,
>(
    matrix: &Matrix,
    ahead: isize,
) {
    let Matrix { source, source_row, destination, destination_row, .. } = *matrix;
    let long = if TALL { matrix.rows } else { matrix.columns };
    let (turn, each) = (LINE as isize, SIZE as isize);
    // From a vector to the next, and from an element to the next.
    let (from, to) = if TALL {
        ((turn, CHANNELS as isize * each), (destination_row, each))
    } else {
        ((source_row, each), (turn, CHANNELS as isize * each))
    };
    let wanted = if GAP { matrix.columns } else { CHANNELS };
    // Behind the last row there may be nothing.
    let last = u64::MAX >> ((CHANNELS - wanted) * SIZE);
    // SAFETY: vectors are within the elements and what is between them; the last ones end where they do.
    unsafe {
        let tables = const { &joins::<SIZE, CHANNELS, TALL>() };
        let mut joins = [[_mm512_setzero_si512(); CHANNELS]; CHANNELS];
        for vector in 0..CHANNELS {
            for joining in 1..CHANNELS {
                joins[vector][joining] = _mm512_loadu_si512(tables[vector][joining].as_ptr().cast());
            }
        }
        let first = asks_first();
        for at in cover(long, LINE / SIZE) {
            let source = source.offset(at as isize * from.1);
            let destination = destination.offset(at as isize * to.1);
            let mut vectors = [_mm512_setzero_si512(); CHANNELS];
            for vector in 0..CHANNELS {
                let source = source.offset(vector as isize * from.0);
                if AHEAD {
                    let line = source.wrapping_offset(ahead);
                    if first { prefetch_first(line) } else { prefetch_second(line) }
                }
                vectors[vector] = if GAP && vector + 1 == CHANNELS {
                    _mm512_maskz_loadu_epi8(last, source.cast())
                } else {
                    _mm512_loadu_si512(source.cast())
                };
            }
            for vector in 0..CHANNELS {
                if GAP && vector == wanted {
                    break;
                }
                let mut joined = vectors[0];
                for joining in 1..CHANNELS {
                    joined = pick::<SIZE>(joined, joins[vector][joining], vectors[joining]);
                }
                _mm512_storeu_si512(destination.offset(vector as isize * to.0).cast(), joined);
            }
        }
    }
}

/// Bytes in order, from which on two lines are that begin in the first of them.
static ORDER: [u8; 2 * LINE] = {
    let mut order = [0; 2 * LINE];
    let mut at = 0;
    while at < order.len() {
        order[at] = at as u8;
        at += 1;
    }
    order
};

/// Writes the pair of lines in which `to` lies around the caches: the end of the pair before, and of a `row` what there is
/// room for.
///
/// # Safety
/// Pairs are readable, and the one is writable. The processor has the instructions.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub unsafe fn pair_around(before: *const u8, row: *const u8, to: *mut u8) {
    let past = to as usize % PAIR;
    // SAFETY: the caller's.
    unsafe {
        let [first, second, third] = if past >= LINE {
            [before, before.add(LINE), row]
        } else {
            [before.add(LINE), row, row.add(LINE)]
        };
        // As they were stored: what lies across two of them would have to wait for both.
        let [first, second, third] = [first, second, third].map(|line| _mm512_loadu_si512(line.cast()));
        let order = _mm512_loadu_si512(ORDER.as_ptr().add(LINE - past % LINE).cast());
        let to = to.sub(past);
        _mm512_stream_si512(to.cast(), _mm512_permutex2var_epi8(first, order, second));
        _mm512_stream_si512(to.add(LINE).cast(), _mm512_permutex2var_epi8(second, order, third));
    }
}

/// Copies two lines.
///
/// # Safety
/// They are readable and writable. The processor has the instructions.
#[inline]
#[target_feature(enable = "avx512f")]
pub unsafe fn copy_pair(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's.
    unsafe {
        let (first, second) = (_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(LINE).cast()));
        _mm512_storeu_si512(to.cast(), first);
        _mm512_storeu_si512(to.add(LINE).cast(), second);
    }
}
