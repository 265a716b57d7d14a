//! x86-64 with AVX2 and F16C: casts that go through float16, for which there are instructions. They
//! neither flush subnormals nor look at the rounding mode, whatever the control register says.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::{BLOCK, Compiled, F16 as Half, Float, SMALL, each_range};
use crate::dtype::Scalar;

const F16: usize = Scalar::Float16 as usize;
const F32: usize = Scalar::Float32 as usize;

impl Compiled {
    /// With the casts between float16 and float32 replaced.
    pub(super) const fn with_f16c(mut self) -> Compiled {
        self.rows[0][F16][F32] = widen;
        self.rows[0][F32][F16] = round::<false>;
        self.rows[1][F32][F16] = round::<true>;
        self
    }
}

/// # Safety
/// As [`super::row`] of float16 to float32; the processor has the instructions.
#[target_feature(enable = "avx2,f16c")]
unsafe fn widen(
    source: *const u8,
    source_step: isize,
    destination: *mut u8,
    destination_step: isize,
    n: usize,
) {
    if (source_step, destination_step) != (2, 4) || n < BLOCK {
        // SAFETY: the caller's.
        return unsafe {
            super::row::<Half, f32, false>(source, source_step, destination, destination_step, n)
        };
    }
    each_range(n, n, |start, end| {
        for index in (start..end).step_by(8) {
            // SAFETY: a range is of whole blocks within n.
            unsafe {
                let halves = _mm_loadu_si128(source.add(2 * index).cast());
                _mm256_storeu_ps(destination.add(4 * index).cast(), _mm256_cvtph_ps(halves));
            }
        }
    });
}

/// # Safety
/// As [`super::row`] of float32 to float16; the processor has the instructions.
#[target_feature(enable = "avx2,f16c")]
unsafe fn round<const SATURATE: bool>(
    source: *const u8,
    source_step: isize,
    destination: *mut u8,
    destination_step: isize,
    n: usize,
) {
    const LARGEST: f32 = 65504.0;
    if (source_step, destination_step) != (4, 2) || n < BLOCK {
        // SAFETY: the caller's.
        return unsafe {
            super::row::<f32, Half, SATURATE>(source, source_step, destination, destination_step, n)
        };
    }
    each_range(n, n, |start, end| {
        for index in (start..end).step_by(8) {
            // SAFETY: a range is of whole blocks within n.
            unsafe {
                let mut values = _mm256_loadu_ps(source.add(4 * index).cast());
                if SATURATE {
                    // The second operand is the result where one is NaN.
                    values = _mm256_min_ps(_mm256_set1_ps(LARGEST), values);
                    values = _mm256_max_ps(_mm256_set1_ps(-LARGEST), values);
                }
                let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values);
                _mm_storeu_si128(destination.add(2 * index).cast(), halves);
            }
        }
    });
}

/// What codes of a small format stand for: each moved to where float16 has its sign, exponent and
/// fraction, then widened, then multiplied by what the exponents' biases differ by.
///
/// # Safety
/// The processor has the instructions.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub unsafe fn decode<const FORMAT: usize>(codes: &[u8], values: &mut [Float]) {
    let scale = match SMALL.get(FORMAT) {
        Some(format) if format.fits_half() => format.half_scale(),
        // SAFETY: none needed.
        _ => return unsafe { super::decode::<FORMAT>(codes, values) },
    };
    let n = codes.len().min(values.len());
    if n < BLOCK {
        // SAFETY: none needed.
        return unsafe { super::decode::<FORMAT>(codes, values) };
    }
    let (codes, values) = (codes.as_ptr(), values.as_mut_ptr());
    const MOST: usize = 4 * BLOCK;
    let mut halves = [const { MaybeUninit::<u16>::uninit() }; MOST];
    each_range(n, MOST, |start, end| {
        let n = end - start;
        // SAFETY: a range is of whole blocks within n, MOST at most.
        unsafe {
            let (codes, values) = (codes.add(start), values.add(start));
            for (index, half) in halves[..n].iter_mut().enumerate() {
                half.write(SMALL[FORMAT].half(codes.add(index).read()));
            }
            for index in (0..n).step_by(8) {
                let wide = _mm256_cvtph_ps(_mm_loadu_si128(halves.as_ptr().add(index).cast()));
                let scaled = if scale == 1.0 { wide } else { _mm256_mul_ps(wide, _mm256_set1_ps(scale)) };
                _mm256_storeu_ps(values.add(index).cast(), scaled);
            }
        }
    });
}
