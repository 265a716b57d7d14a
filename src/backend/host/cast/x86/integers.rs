//! AVX2, which has no instructions between floats and integers of 64 bits, and none that makes floats narrow integers: four
//! or eight at a time all the same. 64 bits are two halves, each of which a float64 has room for.

use std::arch::x86_64::*;

use super::super::{Bf16, Compiled, F16 as Half, Odd, row};
use super::{BF16, F16, F16_LARGEST, F32, F64, cut_to_odd, each_group, eight_bf16, eight_f16};
use crate::backend::host::cast::ODD;
use crate::dtype::Scalar;

const I8: usize = Scalar::Int8 as usize;
const I16: usize = Scalar::Int16 as usize;
const I64: usize = Scalar::Int64 as usize;
const U64: usize = Scalar::Uint64 as usize;

impl Compiled {
    pub(super) const fn with_integers(mut self) -> Compiled {
        macro_rules! set {
            ($($from:ident to $to:ident: $row:expr;)*) => {
                $(self.rows[0][$from][$to] = $row; self.rows[1][$from][$to] = $row;)*
            };
        }
        set! {
            F16 to I8: to_i8::<Half>; BF16 to I8: to_i8::<Bf16>; F32 to I8: to_i8::<f32>; F64 to I8: to_i8::<f64>;
            F16 to I16: to_i16::<Half>; BF16 to I16: to_i16::<Bf16>; F32 to I16: to_i16::<f32>; F64 to I16: to_i16::<f64>;
            F16 to I64: to_i64::<Half>; BF16 to I64: to_i64::<Bf16>; F32 to I64: to_i64::<f32>; F64 to I64: to_i64::<f64>;
            F16 to U64: to_u64::<Half>; BF16 to U64: to_u64::<Bf16>; F32 to U64: to_u64::<f32>; F64 to U64: to_u64::<f64>;
            I64 to F64: to_f64::<i64>; I64 to BF16: to_bf16::<i64>; I64 to ODD: to_odd::<i64>;
            U64 to F32: to_f32::<u64>; U64 to F64: to_f64::<u64>; U64 to BF16: to_bf16::<u64>; U64 to ODD: to_odd::<u64>;
        }
        (self.rows[0][I64][F16], self.rows[1][I64][F16]) = (to_f16::<i64>, to_f16_clamped::<i64>);
        (self.rows[0][U64][F16], self.rows[1][U64][F16]) = (to_f16::<u64>, to_f16_clamped::<u64>);
        self
    }
}

/// Floats as they lie in memory.
///
/// Everything is inlined into a function that has the instructions, which callers vouch for, as they do for the memory
/// behind pointers.
trait Floats: super::super::Real {
    const SIZE: usize = size_of::<Self>();
    unsafe fn four(from: *const u8) -> __m256d;
    /// Eight, cut off to integers of 32 bits: as they are packed to fewer bits with saturation, they become what `as` makes
    /// of them.
    unsafe fn eight(from: *const u8) -> __m256i;
}

/// Those of four bytes or less, by way of float32.
macro_rules! floats {
    ($($type:ty: $from:ident => $four:expr, $eight:expr;)*) => {$(
        impl Floats for $type {
            #[inline(always)]
            unsafe fn four($from: *const u8) -> __m256d {
                // SAFETY: the caller's.
                unsafe { _mm256_cvtps_pd($four) }
            }

            #[inline(always)]
            unsafe fn eight($from: *const u8) -> __m256i {
                // SAFETY: the caller's.
                unsafe {
                    let values = $eight;
                    let numbers = _mm256_and_ps(values, _mm256_cmp_ps::<_CMP_ORD_Q>(values, values));
                    // What is below all integers becomes the least one.
                    _mm256_cvttps_epi32(_mm256_min_ps(numbers, _mm256_set1_ps(BEYOND_NARROW as f32)))
                }
            }
        }
    )*};
}

/// More than any narrow integer.
const BEYOND_NARROW: f64 = 65536.0;

floats! {
    Half: from => _mm_cvtph_ps(_mm_loadl_epi64(from.cast())), _mm256_cvtph_ps(_mm_loadu_si128(from.cast()));
    Bf16: from =>
        _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), _mm_loadl_epi64(from.cast()))),
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()))));
    f32: from => _mm_loadu_ps(from.cast()), _mm256_loadu_ps(from.cast());
}

impl Floats for f64 {
    #[inline(always)]
    unsafe fn four(from: *const u8) -> __m256d {
        // SAFETY: the caller's.
        unsafe { _mm256_loadu_pd(from.cast()) }
    }

    #[inline(always)]
    unsafe fn eight(from: *const u8) -> __m256i {
        // SAFETY: the caller's.
        unsafe {
            let cut = |values: __m256d| {
                let numbers = _mm256_and_pd(values, _mm256_cmp_pd::<_CMP_ORD_Q>(values, values));
                _mm256_cvttpd_epi32(_mm256_min_pd(numbers, _mm256_set1_pd(BEYOND_NARROW)))
            };
            _mm256_set_m128i(cut(Self::four(from.add(32))), cut(Self::four(from)))
        }
    }
}

/// Integers of 64 bits.
trait Longs: super::super::Real {
    /// Four as float64, rounded once.
    unsafe fn doubles(values: __m256i) -> __m256d;
    /// All bits of those that float64 has room for.
    unsafe fn fit(values: __m256i) -> __m256i;
}

const TWO_32: f64 = (1u64 << 32) as f64;
/// To add this puts an integer of up to 52 bits into the fraction.
const TWO_52: f64 = (1u64 << 52) as f64;
const TWO_63: f64 = (1u64 << 63) as f64;
const TWO_84: f64 = TWO_52 * TWO_32;

impl Longs for i64 {
    #[inline(always)]
    unsafe fn doubles(values: __m256i) -> __m256d {
        /// As [`TWO_52`], in units of 2^16, of an integer with a sign.
        const SIGNED: f64 = 1.5 * 65536.0 * TWO_52;
        // SAFETY: the caller's.
        unsafe {
            let upper = _mm256_blend_epi16::<0x33>(_mm256_srai_epi32::<16>(values), _mm256_setzero_si256());
            let upper = _mm256_add_epi64(upper, _mm256_castpd_si256(_mm256_set1_pd(SIGNED)));
            let lower = _mm256_blend_epi16::<0x88>(values, _mm256_castpd_si256(_mm256_set1_pd(TWO_52)));
            let upper = _mm256_sub_pd(_mm256_castsi256_pd(upper), _mm256_set1_pd(SIGNED + TWO_52));
            _mm256_add_pd(upper, _mm256_castsi256_pd(lower))
        }
    }

    #[inline(always)]
    unsafe fn fit(values: __m256i) -> __m256i {
        // SAFETY: the caller's.
        unsafe {
            // Of the upper halves, so that nobody widens a comparison: eleven bits are as the sign.
            let upper = _mm256_shuffle_epi32::<0b11_11_01_01>(values);
            _mm256_cmpeq_epi32(_mm256_srai_epi32::<21>(upper), _mm256_srai_epi32::<31>(upper))
        }
    }
}

impl Longs for u64 {
    #[inline(always)]
    unsafe fn doubles(values: __m256i) -> __m256d {
        // SAFETY: the caller's.
        unsafe {
            let (low, high) = (_mm256_set1_pd(TWO_52), _mm256_set1_pd(TWO_84));
            let upper = _mm256_or_si256(_mm256_srli_epi64::<32>(values), _mm256_castpd_si256(high));
            let lower = _mm256_blend_epi32::<0xaa>(values, _mm256_castpd_si256(low));
            let upper = _mm256_sub_pd(_mm256_castsi256_pd(upper), _mm256_set1_pd(TWO_84 + TWO_52));
            _mm256_add_pd(upper, _mm256_castsi256_pd(lower))
        }
    }

    #[inline(always)]
    unsafe fn fit(values: __m256i) -> __m256i {
        // SAFETY: the caller's.
        unsafe { _mm256_cmpeq_epi64(_mm256_srli_epi64::<53>(values), _mm256_setzero_si256()) }
    }
}

/// Four integers from there on as float64 that becomes the same smaller float as they: what has no room for its last bits is
/// cut off, to an odd number where any was lost.
///
/// # Safety
/// They are readable; the processor has AVX2.
#[inline(always)]
unsafe fn odd_doubles<L: Longs>(from: *const u8) -> __m256d {
    // SAFETY: the caller's.
    unsafe {
        let values = _mm256_loadu_si256(from.cast());
        let last = _mm256_set1_epi64x(0x7ff);
        // As in `cut_to_odd`.
        let lost = _mm256_add_epi64(_mm256_and_si256(values, last), last);
        let odd = _mm256_andnot_si256(last, _mm256_or_si256(values, lost));
        L::doubles(_mm256_blendv_epi8(odd, values, L::fit(values)))
    }
}

/// Eight as float32, rounded to odd.
///
/// # Safety
/// As [`odd_doubles`].
#[inline(always)]
unsafe fn odd_floats<L: Longs>(from: *const u8) -> __m256i {
    macro_rules! four {
        ($at:expr) => {
            cut_to_odd(odd_doubles::<L>(from.add($at)))
        };
    }
    // SAFETY: the caller's.
    unsafe { _mm256_set_m128i(four!(32), four!(0)) }
}

/// A row of elements of so many bytes, `$some` at a time; one that is shorter than that as elsewhere.
macro_rules! rows {
    ($($(#[$doc:meta])* $name:ident<$kind:ident: $trait:ident> to $to:ty, $some:literal, saturates $saturate:literal:
        |$from:ident, $at:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As [`row`]; the processor has the instructions.
        #[target_feature(enable = "avx2,f16c,fma")]
        unsafe fn $name<$kind: $trait>(source: *const u8, destination: *mut u8, n: usize)
        where
            $to: super::super::Narrow<$kind::Wide>,
        {
            if n < $some {
                // SAFETY: the caller's.
                return unsafe { row::<$kind, $to, $saturate>(source, destination, n) };
            }
            each_group::<$some>(n, |index| {
                // SAFETY: a group is within n.
                unsafe {
                    let $from = source.add(size_of::<$kind>() * index);
                    let $at = destination.add(size_of::<$to>() * index);
                    $body
                }
            });
        }
    )*};
}

rows! {
    /// Floats to int8.
    to_i8<F: Floats> to i8, 32, saturates false: |from, to| {
        let low = _mm256_packs_epi32(F::eight(from), F::eight(from.add(8 * F::SIZE)));
        let high = _mm256_packs_epi32(F::eight(from.add(16 * F::SIZE)), F::eight(from.add(24 * F::SIZE)));
        // Packed within lanes: fours of the first eight, the second, and so on, of each lane.
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
        _mm256_storeu_si256(to.cast(), bytes);
    };
    /// Floats to int16.
    to_i16<F: Floats> to i16, 16, saturates false: |from, to| {
        let by_lanes = _mm256_packs_epi32(F::eight(from), F::eight(from.add(8 * F::SIZE)));
        _mm256_storeu_si256(to.cast(), _mm256_permute4x64_epi64::<0b11_01_10_00>(by_lanes));
    };
    /// Floats to int64.
    to_i64<F: Floats> to i64, 4, saturates false: |from, to| {
        let values = F::four(from);
        let numbers = _mm256_and_pd(values, _mm256_cmp_pd::<_CMP_ORD_Q>(values, values));
        let over = _mm256_cmp_pd::<_CMP_GE_OQ>(numbers, _mm256_set1_pd(TWO_63));
        let inside = _mm256_min_pd(_mm256_max_pd(numbers, _mm256_set1_pd(-TWO_63)), _mm256_set1_pd(TWO_63 - 1024.0));
        let longs = halves(inside, 1.5 * TWO_52);
        let largest = _mm256_srli_epi64::<1>(_mm256_castpd_si256(over));
        _mm256_storeu_si256(to.cast(), _mm256_or_si256(longs, largest));
    };
    /// Floats to uint64.
    to_u64<F: Floats> to u64, 4, saturates false: |from, to| {
        // The second operand is the result where one is NaN.
        let numbers = _mm256_max_pd(F::four(from), _mm256_setzero_pd());
        let over = _mm256_cmp_pd::<_CMP_GE_OQ>(numbers, _mm256_set1_pd(2.0 * TWO_63));
        let longs = halves(_mm256_min_pd(numbers, _mm256_set1_pd(2.0 * TWO_63 - 2048.0)), TWO_52);
        _mm256_storeu_si256(to.cast(), _mm256_or_si256(longs, _mm256_castpd_si256(over)));
    };
    /// Integers to float64.
    to_f64<L: Longs> to f64, 4, saturates false: |from, to| {
        _mm256_storeu_pd(to.cast(), L::doubles(_mm256_loadu_si256(from.cast())));
    };
    /// Integers to float32.
    to_f32<L: Longs> to f32, 4, saturates false: |from, to| _mm_storeu_ps(to.cast(), _mm256_cvtpd_ps(odd_doubles::<L>(from)));
    /// Integers to [`Odd`].
    to_odd<L: Longs> to Odd, 8, saturates false: |from, to| _mm256_storeu_si256(to.cast(), odd_floats::<L>(from));
    /// Integers to bfloat16, which has room for the largest.
    to_bf16<L: Longs> to Bf16, 8, saturates false: |from, to| _mm_storeu_si128(to.cast(), eight_bf16::<false>(odd_floats::<L>(from)));
    /// Integers to float16.
    to_f16<L: Longs> to Half, 8, saturates false: |from, to| _mm_storeu_si128(to.cast(), eight_f16(eight_floats::<L>(from)));
    /// The same, of which the largest become its largest.
    to_f16_clamped<L: Longs> to Half, 8, saturates true: |from, to| {
        let values = _mm256_min_ps(eight_floats::<L>(from), _mm256_set1_ps(F16_LARGEST));
        _mm_storeu_si128(to.cast(), eight_f16(_mm256_max_ps(values, _mm256_set1_ps(-F16_LARGEST))));
    };
}

/// Eight integers from there on as float32: those that a float64 rounds before are beyond float16 anyway.
///
/// # Safety
/// As [`odd_doubles`].
#[inline(always)]
unsafe fn eight_floats<L: Longs>(from: *const u8) -> __m256 {
    macro_rules! four {
        ($at:expr) => {
            _mm256_cvtpd_ps(L::doubles(_mm256_loadu_si256(from.add($at).cast())))
        };
    }
    // SAFETY: the caller's.
    unsafe { _mm256_set_m128(four!(32), four!(0)) }
}

/// Cuts off four numbers to integers of 64 bits, half by half, of which the upper one is put into a fraction by adding that.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn halves(values: __m256d, into: f64) -> __m256i {
    let whole = _mm256_round_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(values);
    let upper = _mm256_floor_pd(_mm256_mul_pd(whole, _mm256_set1_pd(1.0 / TWO_32)));
    let lower = _mm256_fnmadd_pd(upper, _mm256_set1_pd(TWO_32), whole);
    let upper = _mm256_castpd_si256(_mm256_add_pd(upper, _mm256_set1_pd(into)));
    let lower = _mm256_castpd_si256(_mm256_add_pd(lower, _mm256_set1_pd(TWO_52)));
    _mm256_blend_epi32::<0x55>(_mm256_slli_epi64::<32>(upper), lower)
}
