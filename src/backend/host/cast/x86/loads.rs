//! Casts of as many elements as a vector holds, or half of one, as it is loaded: a transpose that begins with them casts on its way,
//! and nothing is written between. The results are those of rows, which [`super::Compiled`] has.

use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::{Bf16, Half, Narrow, Output, Real, round_bits};
use crate::backend::host::transpose::{Avx2, Avx512, Load, LoadFn, load_fours, load_oblongs, load_squares};
use crate::dtype::Scalar;

/// The transpose of a cast which does not saturate. None: its rows are better cast by themselves, as those to single bytes mostly
/// are that read four times as many.
pub fn between(from: Scalar, to: Scalar) -> Option<LoadFn> {
    Some(match (from, to) {
        (Scalar::Float32, Scalar::Float16) => load_oblongs::<To16<Half>, 4, 2>,
        (Scalar::Float32, Scalar::Bfloat16) => load_oblongs::<To16<Bf16>, 4, 2>,
        (Scalar::Float32, Scalar::Int16) => load_oblongs::<Each<f32, i16>, 4, 2>,
        (Scalar::Float32, Scalar::Uint16) => load_oblongs::<Each<f32, u16>, 4, 2>,
        (Scalar::Float32, Scalar::Int32) => load_squares::<Cut<f32, i32>, 4, 4>,
        (Scalar::Float32, Scalar::Float64) => load_squares::<Each<f32, f64>, 4, 8>,
        (Scalar::Float64, Scalar::Float32) => load_squares::<Each<f64, f32>, 8, 4>,
        (Scalar::Float64, Scalar::Int32) => load_squares::<Cut<f64, i32>, 8, 4>,
        (Scalar::Float64, Scalar::Int64) => load_squares::<Cut<f64, i64>, 8, 8>,
        (Scalar::Int32, Scalar::Float32) => load_squares::<Each<i32, f32>, 4, 4>,
        (Scalar::Int32, Scalar::Int16) => load_oblongs::<Each<i32, i16>, 4, 2>,
        (Scalar::Int64, Scalar::Float32) => load_squares::<Each<i64, f32>, 8, 4>,
        (Scalar::Int64, Scalar::Float64) => load_squares::<Each<i64, f64>, 8, 8>,
        (Scalar::Int64, Scalar::Int32) => load_squares::<Each<i64, i32>, 8, 4>,
        (Scalar::Float16, Scalar::Float32) => load_squares::<From16<Half>, 2, 4>,
        (Scalar::Bfloat16, Scalar::Float32) => load_squares::<From16<Bf16>, 2, 4>,
        (Scalar::Int16, Scalar::Float32) => load_squares::<From16<i16>, 2, 4>,
        (Scalar::Uint16, Scalar::Float32) => load_squares::<From16<u16>, 2, 4>,
        (Scalar::Float32, Scalar::Uint8) => load_fours::<Within<u8>, 4>,
        (Scalar::Uint16, Scalar::Uint8) => load_squares::<Each<u16, u8>, 2, 1>,
        _ => return None,
    })
}

/// Each by itself, of which the compiler makes vectors.
struct Each<S, D>(PhantomData<(S, D)>);

impl<S: Real, D: Output + Narrow<S::Wide>> Each<S, D> {
    /// So many bytes of results.
    ///
    /// # Safety
    /// As many elements are readable.
    #[inline(always)]
    unsafe fn of(from: *const u8, bytes: usize) -> [MaybeUninit<D>; 64] {
        let mut results = [const { MaybeUninit::<D>::uninit() }; 64];
        for (index, result) in results.iter_mut().enumerate().take(bytes / size_of::<D>()) {
            // SAFETY: the caller's.
            let value = unsafe { from.cast::<S>().add(index).read_unaligned() };
            result.write(D::narrow::<false>(value.widen()));
        }
        results
    }
}

impl<S: Real, D: Output + Narrow<S::Wide>> Load<Avx512> for Each<S, D> {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Avx512 {
        // SAFETY: the caller's; as many results are written.
        unsafe { Avx512(_mm512_loadu_si512(Self::of(from, 64).as_ptr().cast())) }
    }
}

impl<S: Real, D: Output + Narrow<S::Wide>> Load<Avx2> for Each<S, D> {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Avx2 {
        // SAFETY: the caller's; as many results are written.
        unsafe { Avx2(_mm256_loadu_si256(Self::of(from, 32).as_ptr().cast())) }
    }
}

/// Float32 to float16 or bfloat16.
struct To16<D>(PhantomData<D>);

/// Elements of two bytes to float32.
struct From16<S>(PhantomData<S>);

/// Floats to signed integers: an instruction makes NaN and what is out of their range the lowest one.
struct Cut<S, D>(PhantomData<(S, D)>);

/// Float32 to single bytes, each of them in four.
struct Within<D>(PhantomData<D>);

macro_rules! loads {
    ($vector:ident: $($name:ty, $from:ident => $value:expr;)*) => {$(
        impl Load<$vector> for $name {
            #[inline(always)]
            unsafe fn load($from: *const u8) -> $vector {
                // SAFETY: the caller's.
                unsafe { $vector($value) }
            }
        }
    )*};
}

loads! { Avx2:
    To16<Half>, from => _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_loadu_ps(from.cast()));
    To16<Bf16>, from => round_bits::<false>(_mm512_loadu_ps(from.cast()));
}

loads! { Avx512:
    From16<Half>, from => _mm512_castps_si512(_mm512_cvtph_ps(_mm256_loadu_si256(from.cast())));
    From16<Bf16>, from => {
        _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast())))
    };
    From16<i16>, from => floats(_mm512_cvtepi16_epi32(_mm256_loadu_si256(from.cast())));
    From16<u16>, from => floats(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast())));
    Within<u8>, from => {
        let values = _mm512_loadu_ps(from.cast());
        // The second operand is the result where one is NaN.
        let values = _mm512_min_ps(_mm512_max_ps(values, _mm512_setzero_ps()), _mm512_set1_ps(255.0));
        _mm512_cvttps_epi32(values)
    };
    Cut<f32, i32>, from => {
        let values = _mm512_loadu_ps(from.cast());
        let is_above = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(values, _mm512_set1_ps(-(i32::MIN as f32)));
        let cut = _mm512_mask_mov_epi32(_mm512_cvttps_epi32(values), is_above, _mm512_set1_epi32(i32::MAX));
        _mm512_maskz_mov_epi32(_mm512_cmp_ps_mask::<_CMP_ORD_Q>(values, values), cut)
    };
    Cut<f64, i64>, from => {
        let values = _mm512_loadu_pd(from.cast());
        let is_above = _mm512_cmp_pd_mask::<_CMP_GE_OQ>(values, _mm512_set1_pd(-(i64::MIN as f64)));
        let cut = _mm512_mask_mov_epi64(_mm512_cvttpd_epi64(values), is_above, _mm512_set1_epi64(i64::MAX));
        _mm512_maskz_mov_epi64(_mm512_cmp_pd_mask::<_CMP_ORD_Q>(values, values), cut)
    };
    Cut<f64, i32>, from => {
        let eight = |from: *const u8| {
            let values = _mm512_loadu_pd(from.cast());
            let is_above = _mm512_cmp_pd_mask::<_CMP_GE_OQ>(values, _mm512_set1_pd(-f64::from(i32::MIN)));
            let cut = _mm256_mask_mov_epi32(_mm512_cvttpd_epi32(values), is_above, _mm256_set1_epi32(i32::MAX));
            _mm256_maskz_mov_epi32(_mm512_cmp_pd_mask::<_CMP_ORD_Q>(values, values), cut)
        };
        both(eight(from), eight(from.add(64)))
    };
}

#[inline]
#[target_feature(enable = "avx512f")]
fn both(low: __m256i, high: __m256i) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn floats(integers: __m512i) -> __m512i {
    _mm512_castps_si512(_mm512_cvtepi32_ps(integers))
}

#[cfg(test)]
mod tests {
    use super::super::super::Caster;
    use super::*;
    use crate::backend::host::fuse::{Matrices, Rows};
    use crate::backend::host::isa::Isa;
    use crate::backend::host::transpose::Scattered;
    use crate::backend::job::Cast;
    use crate::layout::Axis;

    /// Numbers of every kind, and each by itself.
    #[test]
    fn as_rows_are() {
        if !Isa::Avx512.is_there() {
            return;
        }
        let all = [
            Scalar::Int16,
            Scalar::Int32,
            Scalar::Int64,
            Scalar::Uint8,
            Scalar::Uint16,
            Scalar::Float16,
            Scalar::Bfloat16,
            Scalar::Float32,
            Scalar::Float64,
        ];
        let mut found = 0;
        for (from, to) in all.iter().flat_map(|from| all.iter().map(move |to| (*from, *to))) {
            let Some(load) = between(from, to) else { continue };
            found += 1;
            check((from, to), load);
        }
        assert_eq!(found, 20);
    }

    fn check((from, to): (Scalar, Scalar), load: LoadFn) {
        const ROWS: usize = 300;
        let cast = Cast { from, to, saturate: false, exact: false, from_bits: false, to_bits: false };
        let caster = Caster::new(&cast);
        let (size, width) = caster.sizes();
        let columns = 2 * 64 / width + 3;
        let mut source = vec![0u8; ROWS * columns * size];
        let mut state = 9u64;
        for (index, element) in source.chunks_exact_mut(size).enumerate() {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let bits = state >> 11 ^ state << 40;
            // Any bits; numbers of moderate size and about powers of two; what is no number.
            let value = match (from, index % 5) {
                (Scalar::Float32, 1) => u64::from(((bits as i32) as f32 / 256.0).to_bits()),
                (Scalar::Float32, 2) => u64::from(f32::powi(2.0, bits as i32 % 140).to_bits()) + bits / 7 % 3,
                (Scalar::Float32, 3) => {
                    [0x7fc0_0000, 0xff80_0000, 0x7f80_0000, 0x8000_0000][bits as usize % 4]
                }
                (Scalar::Float64, 1) => ((bits as i64) as f64 / 4096.0).to_bits(),
                (Scalar::Float64, 2) => f64::powi(2.0, bits as i32 % 140).to_bits() + bits / 7 % 3,
                (Scalar::Float64, 3) => {
                    [f64::NAN, f64::INFINITY, -f64::INFINITY, -0.0][bits as usize % 4].to_bits()
                }
                (_, 1) => bits % 2000,
                _ => bits,
            };
            element.copy_from_slice(&value.to_le_bytes()[..size]);
        }
        let mut expected = vec![0u8; ROWS * columns * width];
        for (index, element) in source.chunks_exact(size).enumerate() {
            let place = index % columns * ROWS + index / columns;
            // SAFETY: one element on either side.
            unsafe { caster.run(element.as_ptr(), expected[place * width..].as_mut_ptr(), 1) };
        }
        let rows: Vec<_> = (0..ROWS).map(|row| (row * columns * size) as isize).collect();
        let starts: Vec<_> = (0..columns).map(|column| (column * ROWS * width) as isize).collect();
        let matrices = Matrices {
            rows: Rows { offsets: &rows, blocks: 1, next: 0, last: ROWS },
            columns: &starts,
            clash: false,
            across: Axis { extent: 1, ..Axis::default() },
            last: columns,
            outer: &[],
            end: None,
            spread: true,
            pairs: true,
            around: true,
            next: 0,
        };
        let mut result = vec![0xa5u8; expected.len()];
        let (source, destination) = (source.as_ptr(), result.as_mut_ptr());
        let scattered = Scattered { source, destination, matrices: &matrices, end: None, far: true };
        // SAFETY: the rows and columns are those of the two.
        assert!(unsafe { load(&scattered) });
        assert!(result == expected, "{from:?} to {to:?}");
    }
}
