//! x86-64 with AVX2 and AVX-512: rows that are written around the caches line by line as they are read, without a
//! buffer, and some rows by turns. Where a row ends and the next one does not follow, the processor has fetched for
//! nothing what comes after it, and has to find out what comes next; meanwhile the other rows go on.

use std::arch::x86_64::*;

use super::super::isa::Isa;
use super::{LINE, LinesFn, whole_lines};
use crate::backend::host::copy::x86::{pick, which};
use crate::backend::host::copy::{CopyFn, Steps};

/// Rows by turns.
const TOGETHER: usize = 4;

/// As [`super::by_lines`].
pub fn by_lines(isa: Isa, size: usize, step: isize, count: usize) -> Option<LinesFn> {
    let twice = step == 2 * size as isize;
    if count < TOGETHER || !twice && step != size as isize {
        return None;
    }
    macro_rules! for_size {
        ($rows:ident) => {
            match (size, twice) {
                (1, false) => $rows::<1, 1>,
                (2, false) => $rows::<2, 1>,
                (4, false) => $rows::<4, 1>,
                (8, false) => $rows::<8, 1>,
                (16, false) => $rows::<16, 1>,
                (1, true) => $rows::<1, 2>,
                (2, true) => $rows::<2, 2>,
                (4, true) => $rows::<4, 2>,
                (8, true) => $rows::<8, 2>,
                (16, true) => $rows::<16, 2>,
                _ => return None,
            }
        };
    }
    Some(match isa {
        Isa::Avx512 => for_size!(avx512),
        Isa::Avx2 => for_size!(avx2),
        _ => return None,
    })
}

/// Pages of lines that are copied by turns, their bytes, and how far ahead each is asked for.
const PAGES: (usize, usize, usize) = (4, 4 << 10, 512);

/// Copies lines around the caches as far as there are some pages of them, two of each by turns: memory has several at hand.
/// How many it has copied.
///
/// # Safety
/// So many are readable and writable, and the destination is aligned to one. The processor has AVX-512.
#[target_feature(enable = "avx512f")]
pub unsafe fn by_pages(from: *const u8, to: *mut u8, count: usize) -> usize {
    let (pages, page, ahead) = PAGES;
    let bytes = count * LINE / (pages * page) * (pages * page);
    for some in (0..bytes).step_by(pages * page) {
        for at in (some..some + page).step_by(2 * LINE) {
            for at in (at..at + pages * page).step_by(page) {
                // SAFETY: within the lines.
                unsafe {
                    let (from, to) = (from.add(at), to.add(at));
                    _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(ahead).cast());
                    _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(ahead + LINE).cast());
                    let (first, second) =
                        (_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(LINE).cast()));
                    _mm512_stream_si512(to.cast(), first);
                    _mm512_stream_si512(to.add(LINE).cast(), second);
                }
            }
        }
    }
    bytes / LINE
}

/// Copies lines around the caches, two by turns with two that are asked for from an address on: as many of them. From
/// where, where to, how many, and that address.
///
/// Safety: as [`by_pages`]; the processor has the instructions that it was asked for with.
pub type BesideFn = unsafe fn(*const u8, *mut u8, usize, *const u8);

/// The one for a set of instructions.
pub fn beside_asked(isa: Isa) -> Option<BesideFn> {
    match isa {
        Isa::Avx512 if whole_lines() => Some(beside_avx512),
        Isa::Avx512 | Isa::Avx2 => Some(beside_avx2),
        _ => None,
    }
}

macro_rules! beside {
    ($name:ident $feature:literal $line:ident) => {
        /// # Safety
        /// As [`BesideFn`].
        #[target_feature(enable = $feature)]
        unsafe fn $name(from: *const u8, to: *mut u8, count: usize, ahead: *const u8) {
            let bytes = count * LINE;
            for at in (0..bytes).step_by(2 * LINE) {
                let second = (at + LINE).min(bytes - LINE);
                for at in [at, second] {
                    _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(at).cast());
                }
                for at in [at, second] {
                    // SAFETY: within the lines.
                    unsafe { $line::<1, 1>(from.add(at), to.add(at)) };
                }
            }
        }
    };
}

beside! { beside_avx512 "avx512f,avx512bw,avx512vbmi" line_avx512 }
beside! { beside_avx2 "avx2" line_avx2 }

/// Writes around the caches a line of elements of `SIZE` bytes, `STEP` times as far from each other as they are long.
///
/// # Safety
/// As many times a line are readable, and a line is writable and aligned to one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn line_avx512<const SIZE: usize, const STEP: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's.
    unsafe {
        let mut line = _mm512_loadu_si512(from.cast());
        if STEP == 2 {
            line = pick::<SIZE>(line, which::<SIZE, false>(), _mm512_loadu_si512(from.add(LINE).cast()));
        }
        _mm512_stream_si512(to.cast(), line);
    }
}

/// The same by halves.
///
/// # Safety
/// As [`line_avx512`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn line_avx2<const SIZE: usize, const STEP: usize>(from: *const u8, to: *mut u8) {
    const HALF: usize = LINE / 2;
    for at in [0, HALF] {
        // SAFETY: the caller's.
        unsafe {
            let from = from.add(at * STEP);
            let mut half = _mm256_loadu_si256(from.cast());
            if STEP == 2 {
                half = every_second::<SIZE>(half, _mm256_loadu_si256(from.add(HALF).cast()));
            }
            _mm256_stream_si256(to.add(at).cast(), half);
        }
    }
}

/// Every second element of two vectors.
#[inline]
#[target_feature(enable = "avx2")]
fn every_second<const SIZE: usize>(low: __m256i, high: __m256i) -> __m256i {
    // In each lane those of `low` before those of `high`.
    let by_lanes = match SIZE {
        1 => {
            let first = _mm256_set1_epi16(0xff);
            _mm256_packus_epi16(_mm256_and_si256(low, first), _mm256_and_si256(high, first))
        }
        2 => {
            let first = _mm256_set1_epi32(0xffff);
            _mm256_packus_epi32(_mm256_and_si256(low, first), _mm256_and_si256(high, first))
        }
        4 => {
            let (low, high) = (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
            _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(low, high))
        }
        8 => _mm256_unpacklo_epi64(low, high),
        _ => return _mm256_permute2x128_si256::<0x20>(low, high),
    };
    _mm256_permute4x64_epi64::<0b11_01_10_00>(by_lanes)
}

macro_rules! rows {
    ($name:ident $feature:literal $line:ident) => {
        /// Copies rows of elements of `SIZE` bytes, `STEP` times as far from each other as they are long, around the caches.
        ///
        /// # Safety
        /// As [`LinesFn`], of [`TOGETHER`] rows at least; `copy` is of such elements. The processor has the instructions.
        #[target_feature(enable = $feature)]
        unsafe fn $name<const SIZE: usize, const STEP: usize>(
            copy: CopyFn,
            (source, from_row): (*const u8, isize),
            (destination, to_row): (*mut u8, isize),
            n: usize,
            count: usize,
        ) {
            let (from_step, to_step) = (Steps::one((STEP * SIZE) as isize), Steps::one(SIZE as isize));
            let mut done = 0;
            while done < count {
                // The last of them may have been done before.
                let first = done.min(count - TOGETHER);
                let (mut from, mut to) = ([source; TOGETHER], [destination; TOGETHER]);
                let (mut left, mut lines) = ([n; TOGETHER], usize::MAX);
                // SAFETY: the caller's; lines are within what is left of each row, and so is what they are made of, for
                // an element follows.
                unsafe {
                    for index in 0..TOGETHER {
                        let (from, to) = (&mut from[index], &mut to[index]);
                        *from = source.offset((first + index) as isize * from_row);
                        *to = destination.offset((first + index) as isize * to_row);
                        let head = (*to as usize).wrapping_neg() % LINE / SIZE;
                        copy(*from, from_step, *to, to_step, head, 1);
                        (*from, *to) = (from.add(head * STEP * SIZE), to.add(head * SIZE));
                        left[index] -= head;
                        lines = lines.min((left[index] - 1) * SIZE / LINE);
                    }
                    for at in (0..lines * LINE).step_by(LINE) {
                        for index in 0..TOGETHER {
                            $line::<SIZE, STEP>(from[index].add(at * STEP), to[index].add(at));
                        }
                    }
                    for index in 0..TOGETHER {
                        let at = lines * LINE;
                        let (from, to, n) =
                            (from[index].add(at * STEP), to[index].add(at), left[index] - at / SIZE);
                        copy(from, from_step, to, to_step, n, 1);
                    }
                }
                done += TOGETHER;
            }
        }
    };
}

rows! { avx512 "avx512f,avx512bw,avx512vbmi" line_avx512 }
rows! { avx2 "avx2,bmi2" line_avx2 }
