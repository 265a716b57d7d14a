//! x86-64: bytes in order, by AVX2, and every second element by AVX-512, a line at a time.

use std::arch::x86_64::*;

use crate::backend::host::stream::{LINE, PAIR};

/// Copies bytes in order: the first of them as they come, whole lines of the destination, and the last as they come.
///
/// # Safety
/// So many are readable and writable, two lines at least, and do not overlap. The processor has AVX2.
#[target_feature(enable = "avx2")]
pub unsafe fn bytes(source: *const u8, destination: *mut u8, bytes: usize) {
    // Every one by itself, so that they are in registers.
    macro_rules! load {
        ($($name:ident at $at:expr),*) => { $(let $name = _mm256_loadu_si256(source.add($at).cast());)* };
    }
    macro_rules! store {
        ($by:ident: $($name:ident at $at:expr),*) => { $($by(destination.add($at).cast(), $name);)* };
    }
    // SAFETY: the ends are within the bytes; what is between begins within the first line, and a turn ends before the last
    // two lines do.
    unsafe {
        load!(first at 0, second at 32);
        load!(w at bytes - 128, x at bytes - 96, y at bytes - 64, z at bytes - 32);
        store!(_mm256_storeu_si256: first at 0, second at 32);
        let mut at = LINE - destination.addr() % LINE;
        while at + PAIR < bytes {
            load!(a at at, b at at + 32, c at at + 64, d at at + 96);
            store!(_mm256_store_si256: a at at, b at at + 32, c at at + 64, d at at + 96);
            at += PAIR;
        }
        store!(_mm256_storeu_si256: w at bytes - 128, x at bytes - 96, y at bytes - 64, z at bytes - 32);
    }
}

/// The same on Zen 5, by vectors of a line in the first cache and by REP MOVSB beyond, which takes lines from the second
/// cache and back without room in the first. Of so many bytes in all.
///
/// # Safety
/// As [`bytes`], of two lines at least. The processor has AVX-512.
#[target_feature(enable = "avx512f")]
pub unsafe fn bytes_by_lines(source: *const u8, destination: *mut u8, bytes: usize, all: usize) {
    /// Bytes that the first cache holds on both sides, with something beside them.
    const FIRST: usize = 16 << 10;
    /// Bytes from which on the instruction is worth its beginning.
    const LONG: usize = 2 << 10;
    macro_rules! load {
        ($at:expr) => {
            _mm512_loadu_si512(source.add($at).cast())
        };
    }
    // SAFETY: the ends are within the bytes; what is between begins within the first line, and a turn ends before the last
    // two lines do.
    unsafe {
        if all > FIRST && bytes >= LONG {
            return std::arch::asm!(
                "rep movsb",
                inout("rcx") bytes => _, inout("rsi") source => _, inout("rdi") destination => _,
                options(nostack, preserves_flags)
            );
        }
        let (first, y, z) = (load!(0), load!(bytes - PAIR), load!(bytes - LINE));
        _mm512_storeu_si512(destination.cast(), first);
        let mut at = LINE - destination.addr() % LINE;
        while at + PAIR < bytes {
            let (a, b) = (load!(at), load!(at + LINE));
            _mm512_store_si512(destination.add(at).cast(), a);
            _mm512_store_si512(destination.add(at + LINE).cast(), b);
            at += PAIR;
        }
        _mm512_storeu_si512(destination.add(bytes - PAIR).cast(), y);
        _mm512_storeu_si512(destination.add(bytes - LINE).cast(), z);
    }
}

/// Where in two vectors the elements of a line are: every second one of both. Or, where the second vector begins an
/// element before the first ends, so that it ends with the last of them.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn which<const SIZE: usize, const ENDS: bool>() -> __m512i {
    const fn places(size: usize, ends: bool) -> [u8; LINE] {
        // Counted in what instructions move.
        let piece = if size < 8 { size } else { 8 };
        let mut places = [0; LINE];
        let mut at = 0;
        while at < LINE {
            let element = 2 * (at / size) + (ends && at >= LINE / 2) as usize;
            places[at] = (element * (size / piece) + at % size / piece) as u8;
            at += piece;
        }
        places
    }
    // SAFETY: as many bytes.
    unsafe { _mm512_loadu_si512(const { &places(SIZE, ENDS) }.as_ptr().cast()) }
}

/// The elements that are `which` of two vectors.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub fn pick<const SIZE: usize>(low: __m512i, which: __m512i, high: __m512i) -> __m512i {
    match SIZE {
        1 => _mm512_permutex2var_epi8(low, which, high),
        2 => _mm512_permutex2var_epi16(low, which, high),
        4 => _mm512_permutex2var_epi32(low, which, high),
        _ => _mm512_permutex2var_epi64(low, which, high),
    }
}

/// Copies rows of which every second element is taken.
///
/// # Safety
/// As [`super::CopyFn`], with elements of `SIZE` bytes, a power of two up to 16, that follow each other in the
/// destination and are twice as far apart in the source; a row has a line of them at least. The processor has the
/// instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub unsafe fn every_second<const SIZE: usize>(
    source: *const u8,
    from_row: isize,
    destination: *mut u8,
    to_row: isize,
    n: usize,
    count: usize,
) {
    let (which, which_last) = (which::<SIZE, false>(), which::<SIZE, true>());
    let last = n * SIZE - LINE;
    each_row!(source + from_row, destination + to_row, count => {
        // SAFETY: lines before the last are followed by an element; the last one is read to its last element.
        unsafe {
            for at in (0..last).step_by(LINE) {
                let from = source.add(2 * at);
                let (low, high) = (_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(LINE).cast()));
                _mm512_storeu_si512(destination.add(at).cast(), pick::<SIZE>(low, which, high));
            }
            let from = source.add(2 * last);
            let (low, high) = (_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(LINE - SIZE).cast()));
            _mm512_storeu_si512(destination.add(last).cast(), pick::<SIZE>(low, which_last, high));
        }
    });
}
