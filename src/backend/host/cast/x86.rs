//! x86-64 with AVX2 and F16C: casts that go through float16, for which there are instructions. They
//! neither flush subnormals nor look at the rounding mode, whatever the control register says. With AVX-512 codes of
//! small formats are looked up.

mod integers;
pub(super) mod loads;

use std::arch::asm;
use std::arch::x86_64::*;

use super::{
    BLOCK, Bf16, Bool, Compiled, E8M0, F16 as Half, Float, Memory, Narrow, ODD, Odd, Output, Real, SMALL,
    each_range, row, with_formats,
};
use crate::backend::host::float::widen_e8m0;
use crate::backend::host::stream::chunk;
use crate::dtype::Scalar;

const U8: usize = Scalar::Uint8 as usize;
const F16: usize = Scalar::Float16 as usize;
const BF16: usize = Scalar::Bfloat16 as usize;
const F32: usize = Scalar::Float32 as usize;
const F64: usize = Scalar::Float64 as usize;
const I32: usize = Scalar::Int32 as usize;
/// Types by the names of their [`Scalar`].
mod types {
    pub type Bool = super::Bool;
    pub type Int8 = i8;
    pub type Int16 = i16;
    pub type Int32 = i32;
    pub type Int64 = i64;
    pub type Uint8 = u8;
    pub type Uint16 = u16;
    pub type Uint32 = u32;
    pub type Uint64 = u64;
}

/// Elements of a turn of float32 on its way to memory, of which more are in rows that stay in the caches, or fewer where they
/// are asked for.
const TURN: usize = 2 * chunk(4, 2);
/// Elements of two vectors. Where one takes but three instructions, a loop of it that two lines of the code's share takes twice
/// as long.
const TWO: usize = 16;
/// The largest finite float16.
const F16_LARGEST: f32 = 65504.0;

/// Does something to each so many of `n` elements, of which there are as many, and may do it to some of the last ones twice.
#[inline(always)]
fn each_group<const SOME: usize>(n: usize, mut group: impl FnMut(usize)) {
    each_range::<SOME>(n, n, |start, end| {
        for index in (start..end).step_by(SOME) {
            group(index);
        }
    });
}

impl Compiled {
    /// With the casts replaced that have better instructions than a compiler finds.
    pub(super) const fn with_avx2(self) -> Compiled {
        self.with_floats().with_integers()
    }

    /// The same of floats to smaller ones and to uint8.
    const fn with_floats(mut self) -> Compiled {
        self.rows[0][F32][U8] = to_bytes;
        self.rows[1][F32][U8] = to_bytes;
        self.rows[0][F16][F32] = widen;
        self.rows[0][F32][F16] = round::<false, false>;
        self.rows[1][F32][F16] = round::<true, false>;
        self.rows[0][F64][F16] = doubles_avx2::to_f16::<false>;
        self.rows[1][F64][F16] = doubles_avx2::to_f16::<true>;
        self.rows[0][F64][BF16] = doubles_avx2::to_bf16::<false>;
        self.rows[1][F64][BF16] = doubles_avx2::to_bf16::<true>;
        self.rows[0][F64][ODD] = doubles_avx2::to_odd;
        self.rows[1][F64][ODD] = doubles_avx2::to_odd;
        self
    }

    /// The same for AVX-512, with AVX2's where vectors of 64 bytes are no faster, and slower to memory.
    pub(super) const fn with_avx512(self) -> Compiled {
        use super::avx2::{COMPILED, row};
        let mut compiled = Compiled { pair: COMPILED.pair, part: COMPILED.part, ..self.with_floats() };
        compiled.rows[0][F32][I32] = row_in_turns::<f32, i32, false>;
        compiled.rows[1][F32][I32] = row_in_turns::<f32, i32, true>;
        compiled.rows[0][I32][F32] = row_in_turns::<i32, f32, false>;
        compiled.rows[1][I32][F32] = row_in_turns::<i32, f32, true>;
        compiled.rows[0][F32][F64] = row::<f32, f64, false>;
        compiled.rows[1][F32][F64] = row::<f32, f64, true>;
        compiled.rows[0][F64][F32] = row_in_turns::<f64, f32, false>;
        compiled.rows[1][F64][F32] = row_in_turns::<f64, f32, true>;
        compiled.rows[0][F32][U8] = to_bytes_wide;
        compiled.rows[1][F32][U8] = to_bytes_wide;
        compiled.rows[0][F32][F16] = round_wide::<false>;
        compiled.rows[1][F32][F16] = round_wide::<true>;
        compiled.rows[0][F32][BF16] = to_bf16::<false>;
        compiled.rows[1][F32][BF16] = to_bf16::<true>;
        compiled.rows[0][F64][F16] = doubles_avx512::to_f16::<false>;
        compiled.rows[1][F64][F16] = doubles_avx512::to_f16::<true>;
        compiled.rows[0][F64][BF16] = doubles_avx512::to_bf16::<false>;
        compiled.rows[1][F64][BF16] = doubles_avx512::to_bf16::<true>;
        compiled.rows[0][F64][ODD] = doubles_avx512::to_odd;
        compiled.rows[1][F64][ODD] = doubles_avx512::to_odd;
        macro_rules! look_up_table {
            ([$($format:literal)*]) => {
                [$(look_up::<$format>),*]
            };
        }
        compiled.decode = with_formats!(look_up_table);
        // Integers that are cut, which to memory take 1.1 to 1.6 times as long by vectors of 64 bytes.
        macro_rules! cut {
            ($($from:ident: $($to:ident)*;)*) => {
                $($(compiled.rows[0][Scalar::$from as usize][Scalar::$to as usize] = row::<types::$from, types::$to, false>;)*)*
            };
        }
        cut! {
            Int16: Bool Int8 Uint8;
            Uint16: Bool Int8 Uint8;
            Int32: Int16 Uint16;
            Uint32: Int16 Uint16;
            Int64: Int32 Uint32;
            Uint64: Int32 Uint32;
        }
        compiled
    }
}

/// AVX-512's for [`Memory::Deep`], where a vector of float64 becomes float32 in half the time of two.
pub(super) static DEEP: Compiled = {
    use super::avx512::{COMPILED, row};
    let mut compiled = Compiled { rows: COMPILED.rows, ..COMPILED };
    compiled.rows[0][F64][F32] = row::<f64, f32, false>;
    compiled.rows[1][F64][F32] = row::<f64, f32, true>;
    compiled
};

/// By vectors of 64 bytes where they are done whole and the caches hold both sides, from the first of which it takes 0.65 to 0.95 of
/// the time so; what goes to memory comes in shorter turns.
///
/// # Safety
/// As [`row`]; the processor has AVX-512.
unsafe fn row_in_turns<S: Real, D: Output + Narrow<S::Wide>, const SATURATE: bool>(
    source: *const u8,
    destination: *mut u8,
    n: usize,
) {
    // SAFETY: the caller's.
    unsafe {
        if n >= TURN && Memory::is_zen5() {
            super::avx512::row::<S, D, SATURATE>(source, destination, n);
        } else {
            super::avx2::row::<S, D, SATURATE>(source, destination, n);
        }
    }
}

/// Eight float64 from there on as float32, rounded to odd as [`super::float::round_to_odd`] does.
///
/// # Safety
/// They are readable.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn odd_avx2(source: *const u8) -> __m256i {
    macro_rules! four {
        ($at:expr) => {{
            // SAFETY: the caller's.
            let values = unsafe { _mm256_loadu_pd(source.add($at).cast()) };
            let nearest = _mm256_cvtpd_ps(values);
            let back = _mm256_cvtps_pd(nearest);
            let sign = _mm256_set1_pd(-0.0);
            // All bits of those that rounding took away from zero: to add is to step back.
            let away =
                _mm256_cmp_pd::<_CMP_GT_OQ>(_mm256_andnot_pd(sign, back), _mm256_andnot_pd(sign, values));
            let lost = _mm256_cmp_pd::<_CMP_NEQ_OQ>(back, values);
            let cut = _mm_add_epi32(_mm_castps_si128(nearest), upper_halves(away));
            _mm_or_si128(cut, _mm_and_si128(upper_halves(lost), _mm_set1_epi32(1)))
        }};
    }
    _mm256_set_m128i(four!(32), four!(0))
}

/// Eight float64 from there on as what becomes the same float16 as them: cut off where float32 ends, with the last bit set
/// where anything was lost. What float32 has no more normal numbers for is nothing to float16 anyway, and a NaN whose bits
/// are cut is one by that last bit.
///
/// # Safety
/// They are readable.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn sticky_avx2(source: *const u8) -> __m256i {
    // SAFETY: the caller's.
    let (low, high) = unsafe { (_mm256_loadu_pd(source.cast()), _mm256_loadu_pd(source.add(32).cast())) };
    _mm256_set_m128i(cut_to_odd(high), cut_to_odd(low))
}

/// Four float64 as float32, of which those that it has normal numbers for are cut off, with the last bit set where anything was
/// lost.
#[inline]
#[target_feature(enable = "avx2")]
fn cut_to_odd(values: __m256d) -> __m128i {
    let bits = _mm256_castpd_si256(values);
    let beyond = _mm256_set1_epi64x(BEYOND_FLOAT32);
    // The sum reaches the last bit of those that stay if any of the others is set.
    let lost = _mm256_add_epi64(_mm256_and_si256(bits, beyond), beyond);
    let cut = _mm256_andnot_si256(beyond, _mm256_or_si256(bits, lost));
    _mm_castps_si128(_mm256_cvtpd_ps(_mm256_castsi256_pd(cut)))
}

/// The bits of a float64's fraction that a float32 has no room for.
const BEYOND_FLOAT32: i64 = (1 << 29) - 1;

/// The same with AVX-512.
///
/// # Safety
/// As [`sticky_avx2`].
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
unsafe fn sticky_avx512(source: *const u8) -> __m256i {
    // SAFETY: the caller's.
    let values = unsafe { _mm512_loadu_pd(source.cast()) };
    let cut =
        _mm256_castps_si256(_mm512_cvt_roundpd_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(values));
    let lost = _mm512_test_epi64_mask(_mm512_castpd_si512(values), _mm512_set1_epi64(BEYOND_FLOAT32));
    _mm256_mask_or_epi32(cut, lost, cut, _mm256_set1_epi32(1))
}

/// Of four numbers of 64 bits the upper 32.
#[inline]
#[target_feature(enable = "avx2")]
fn upper_halves(values: __m256d) -> __m128i {
    let (low, high) = (_mm256_castpd256_pd128(values), _mm256_extractf128_pd::<1>(values));
    _mm_castps_si128(_mm_shuffle_ps::<0b11_01_11_01>(_mm_castpd_ps(low), _mm_castpd_ps(high)))
}

/// The same with AVX-512, which cuts by itself.
///
/// # Safety
/// As [`odd_avx2`].
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
unsafe fn odd_avx512(source: *const u8) -> __m256i {
    // SAFETY: the caller's.
    let values = unsafe { _mm512_loadu_pd(source.cast()) };
    let cut = _mm512_cvt_roundpd_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(values);
    let lost = _mm512_cmp_pd_mask::<_CMP_NEQ_OQ>(_mm512_cvtps_pd(cut), values);
    let bits = _mm256_castps_si256(cut);
    _mm256_mask_or_epi32(bits, lost, bits, _mm256_set1_epi32(1))
}

/// Float64 to smaller floats, by float32 rounded to odd.
macro_rules! doubles {
    ($name:ident $feature:literal $odd:ident $sticky:ident $bf16:ident) => {
        mod $name {
            use super::*;

            /// # Safety
            /// As [`row`] of float64 to float16; the processor has the instructions.
            #[target_feature(enable = $feature)]
            pub unsafe fn to_f16<const SATURATE: bool>(source: *const u8, destination: *mut u8, n: usize) {
                if n < 8 {
                    // SAFETY: the caller's.
                    return unsafe { row::<f64, Half, SATURATE>(source, destination, n) };
                }
                each_group::<8>(n, |index| {
                    // SAFETY: a group is within n.
                    unsafe {
                        let mut values = _mm256_castsi256_ps($sticky(source.add(8 * index)));
                        if SATURATE {
                            // The second operand is the result where one is NaN.
                            values = _mm256_min_ps(_mm256_set1_ps(F16_LARGEST), values);
                            values = _mm256_max_ps(_mm256_set1_ps(-F16_LARGEST), values);
                        }
                        _mm_storeu_si128(destination.add(2 * index).cast(), eight_f16(values));
                    }
                });
            }

            /// # Safety
            /// As [`row`] of float64 to bfloat16; the processor has the instructions.
            #[target_feature(enable = $feature)]
            pub unsafe fn to_bf16<const SATURATE: bool>(source: *const u8, destination: *mut u8, n: usize) {
                if n < 8 {
                    // SAFETY: the caller's.
                    return unsafe { row::<f64, Bf16, SATURATE>(source, destination, n) };
                }
                each_group::<8>(n, |index| {
                    // SAFETY: a group is within n.
                    unsafe {
                        let rounded = $bf16::<SATURATE>(source.add(8 * index));
                        _mm_storeu_si128(destination.add(2 * index).cast(), rounded);
                    }
                });
            }

            /// # Safety
            /// As [`row`] of float64 to [`Odd`]; the processor has the instructions.
            #[target_feature(enable = $feature)]
            pub unsafe fn to_odd(source: *const u8, destination: *mut u8, n: usize) {
                if n < 8 {
                    // SAFETY: the caller's.
                    return unsafe { row::<f64, Odd, false>(source, destination, n) };
                }
                each_group::<8>(n, |index| {
                    // SAFETY: a group is within n.
                    unsafe {
                        _mm256_storeu_si256(destination.add(4 * index).cast(), $odd(source.add(8 * index)));
                    }
                });
            }
        }
    };
}

doubles! { doubles_avx2 "avx2,f16c" odd_avx2 sticky_avx2 bf16_avx2 }
doubles! { doubles_avx512 "avx2,f16c,avx512f,avx512vl" odd_avx512 sticky_avx512 bf16_avx512 }

/// Eight float64 from there on as bfloat16, by their upper halves, which have more of the fraction than that, and whether there
/// is anything in the lower ones.
///
/// # Safety
/// They are readable.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn bf16_avx2<const SATURATE: bool>(source: *const u8) -> __m128i {
    /// Where the exponent begins, and bits of the fraction that bfloat16 has no room for.
    const EXPONENT: i32 = 20;
    const BEYOND: i32 = EXPONENT - 7;
    /// What the exponents' biases differ by.
    const BIAS: i32 = (1023 - 127) << EXPONENT;
    const INFINITY: i32 = 0x7ff << EXPONENT;
    let all = |value: i32| _mm256_set1_epi32(value);
    // SAFETY: the caller's.
    let (low, high) = unsafe { (_mm256_loadu_ps(source.cast()), _mm256_loadu_ps(source.add(32).cast())) };
    // Pairs of them: the first and the third, the second and the fourth.
    let upper = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(low, high));
    let lower = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
    let exact = _mm256_cmpeq_epi32(lower, _mm256_setzero_si256());
    let bits = _mm256_or_si256(upper, _mm256_andnot_si256(exact, all(1)));
    let magnitude = _mm256_and_si256(bits, all(i32::MAX));
    // What float32 has no normal numbers for, but zero.
    let is_small = _mm256_andnot_si256(
        _mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256()),
        _mm256_cmpgt_epi32(all(BIAS + (1 << EXPONENT)), magnitude),
    );
    if _mm256_testz_si256(is_small, is_small) == 0 {
        // SAFETY: the caller's.
        return eight_bf16::<SATURATE>(unsafe { odd_avx2(source) });
    }
    let value = _mm256_sub_epi32(magnitude, all(BIAS));
    let last = _mm256_and_si256(_mm256_srli_epi32::<BEYOND>(value), all(1));
    let rounded = _mm256_add_epi32(value, _mm256_add_epi32(last, all((1 << (BEYOND - 1)) - 1)));
    let largest = all(if SATURATE { 0x7f7f } else { 0x7f80 });
    // Zero is less than the bias.
    let rounded = _mm256_max_epi32(_mm256_srai_epi32::<BEYOND>(rounded), _mm256_setzero_si256());
    let is_nan = _mm256_cmpgt_epi32(magnitude, all(INFINITY));
    let rounded = _mm256_blendv_epi8(_mm256_min_epi32(rounded, largest), all(0x7fc0), is_nan);
    let sign = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), all(0x8000));
    let eight = _mm256_or_si256(rounded, sign);
    let pairs = _mm_packus_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256::<1>(eight));
    _mm_shuffle_epi32::<0b11_01_10_00>(pairs)
}

/// The same with AVX-512, by float32.
///
/// # Safety
/// As [`bf16_avx2`].
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512vl")]
unsafe fn bf16_avx512<const SATURATE: bool>(source: *const u8) -> __m128i {
    // SAFETY: the caller's.
    eight_bf16::<SATURATE>(unsafe { odd_avx512(source) })
}

/// [`Bf16::round`] of eight.
#[inline]
#[target_feature(enable = "avx2")]
fn eight_bf16<const SATURATE: bool>(bits: __m256i) -> __m128i {
    let upper = _mm256_srli_epi32::<16>(bits);
    let sign = _mm256_and_si256(upper, _mm256_set1_epi32(0x8000));
    let half = _mm256_add_epi32(_mm256_set1_epi32(0x7fff), _mm256_and_si256(upper, _mm256_set1_epi32(1)));
    let mut rounded = _mm256_srli_epi32::<16>(_mm256_add_epi32(bits, half));
    if SATURATE {
        rounded = _mm256_min_epu32(rounded, _mm256_or_si256(sign, _mm256_set1_epi32(0x7f7f)));
    }
    let nan = _mm256_or_si256(sign, _mm256_set1_epi32(0x7fc0));
    let values = _mm256_castsi256_ps(bits);
    let is_nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(values, values));
    let rounded = _mm256_blendv_epi8(rounded, nan, is_nan);
    _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256::<1>(rounded))
}

/// # Safety
/// As [`super::row`] of float16 to float32; the processor has the instructions.
#[target_feature(enable = "avx2,f16c")]
unsafe fn widen(source: *const u8, destination: *mut u8, n: usize) {
    if n < TWO {
        // SAFETY: the caller's.
        return unsafe { super::row::<Half, f32, false>(source, destination, n) };
    }
    each_group::<TWO>(n, |index| {
        for index in [index, index + 8] {
            // SAFETY: a group is within n.
            unsafe {
                let halves = _mm_loadu_si128(source.add(2 * index).cast());
                _mm256_storeu_ps(destination.add(4 * index).cast(), _mm256_cvtph_ps(halves));
            }
        }
    });
}

/// # Safety
/// As [`super::row`] of float32 to uint8, which saturates anyway; the processor has the instructions.
#[target_feature(enable = "avx2")]
unsafe fn to_bytes(source: *const u8, destination: *mut u8, n: usize) {
    if n < 32 {
        // SAFETY: the caller's.
        return unsafe { super::row::<f32, u8, false>(source, destination, n) };
    }
    let (zero, largest) = (_mm256_setzero_ps(), _mm256_set1_ps(255.0));
    macro_rules! eight {
        ($at:expr) => {{
            let values = _mm256_loadu_ps(source.add(4 * $at).cast());
            // The second operand is the result where one is NaN.
            _mm256_cvttps_epi32(_mm256_min_ps(_mm256_max_ps(values, zero), largest))
        }};
    }
    // Packed within lanes: fours of the first eight, the second, and so on, of each lane.
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    each_group::<32>(n, |index| {
        // SAFETY: a group is within n.
        unsafe {
            let low = _mm256_packus_epi32(eight!(index), eight!(index + 8));
            let high = _mm256_packus_epi32(eight!(index + 16), eight!(index + 24));
            let bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
            _mm256_storeu_si256(destination.add(index).cast(), bytes);
        }
    });
}

/// The same with AVX-512, in turns as those of [`round_wide`].
///
/// # Safety
/// As [`to_bytes`].
#[target_feature(enable = "avx512f,avx512bw,avx2")]
unsafe fn to_bytes_wide(source: *const u8, destination: *mut u8, n: usize) {
    if n < TURN {
        // SAFETY: the caller's.
        return unsafe { to_bytes(source, destination, n) };
    }
    let (zero, largest) = (_mm512_setzero_ps(), _mm512_set1_ps(255.0));
    // As there, of four lanes.
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    each_range::<BLOCK>(n, n, |start, end| {
        for index in (start..end).step_by(BLOCK) {
            // SAFETY: a range is of whole blocks within n.
            unsafe {
                let sixteen = |at: usize| {
                    let values = _mm512_loadu_ps(source.add(4 * (index + at)).cast());
                    // The second operand is the result where one is NaN.
                    _mm512_cvttps_epi32(_mm512_min_ps(_mm512_max_ps(values, zero), largest))
                };
                let low = _mm512_packus_epi32(sixteen(0), sixteen(16));
                let high = _mm512_packus_epi32(sixteen(32), sixteen(48));
                let bytes = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high));
                _mm512_storeu_si512(destination.add(index).cast(), bytes);
            }
        }
    });
}

/// Eight numbers rounded to float16.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn eight_f16(values: __m256) -> __m128i {
    let mut halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values);
    // So that they are stored by an instruction of its own: one that does both takes twice as long on Zen 3.
    // SAFETY: nothing is done.
    unsafe { asm!("/* {} */", inout(xmm_reg) halves, options(pure, nomem, nostack, preserves_flags)) };
    halves
}

/// # Safety
/// As [`super::row`] of float32 to float16; the processor has the instructions. `AT_ONCE`: rounded and stored by one of them,
/// which on Zen 4 is twice as fast on the way to memory, 0.6 of that in the caches, and on Zen 3 half as fast.
#[target_feature(enable = "avx2,f16c")]
unsafe fn round<const SATURATE: bool, const AT_ONCE: bool>(
    source: *const u8,
    destination: *mut u8,
    n: usize,
) {
    if n < TWO {
        // SAFETY: the caller's.
        return unsafe { super::row::<f32, Half, SATURATE>(source, destination, n) };
    }
    each_group::<TWO>(n, |index| {
        for index in [index, index + 8] {
            // SAFETY: a group is within n.
            unsafe {
                let mut values = _mm256_loadu_ps(source.add(4 * index).cast());
                if SATURATE {
                    // The second operand is the result where one is NaN.
                    values = _mm256_min_ps(_mm256_set1_ps(F16_LARGEST), values);
                    values = _mm256_max_ps(_mm256_set1_ps(-F16_LARGEST), values);
                }
                let halves = if AT_ONCE {
                    _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values)
                } else {
                    eight_f16(values)
                };
                _mm_storeu_si128(destination.add(2 * index).cast(), halves);
            }
        }
    });
}

/// The same with AVX-512, in 0.8 of the time where the caches hold both sides. What goes to memory is faster with AVX2.
///
/// # Safety
/// As [`round`].
#[target_feature(enable = "avx512f,avx2,f16c")]
unsafe fn round_wide<const SATURATE: bool>(source: *const u8, destination: *mut u8, n: usize) {
    if n == TURN && !Memory::is_zen5() {
        // SAFETY: the caller's.
        return unsafe { round::<SATURATE, true>(source, destination, n) };
    }
    if n < TURN {
        // SAFETY: the caller's.
        return unsafe { round::<SATURATE, false>(source, destination, n) };
    }
    each_range::<BLOCK>(n, n, |start, end| {
        for index in (start..end).step_by(16) {
            // SAFETY: a range is of whole blocks within n.
            unsafe {
                let mut values = _mm512_loadu_ps(source.add(4 * index).cast());
                if SATURATE {
                    // The second operand is the result where one is NaN.
                    values = _mm512_min_ps(_mm512_set1_ps(F16_LARGEST), values);
                    values = _mm512_max_ps(_mm512_set1_ps(-F16_LARGEST), values);
                }
                let halves = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values);
                _mm256_storeu_si256(destination.add(2 * index).cast(), halves);
            }
        }
    });
}

/// # Safety
/// As [`super::row`] of float32 to bfloat16; the processor has AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn to_bf16<const SATURATE: bool>(source: *const u8, destination: *mut u8, n: usize) {
    // SAFETY: the caller's; the instruction is there where it is used.
    unsafe {
        if n >= BLOCK && is_x86_feature_detected!("avx512bf16") && !takes_subnormals_for_zero() {
            round_bf16::<SATURATE>(source, destination, n);
        } else {
            super::avx512::row::<f32, Bf16, SATURATE>(source, destination, n);
        }
    }
}

/// Whether the control register says so (DAZ), which the classes of numbers heed.
fn takes_subnormals_for_zero() -> bool {
    const DAZ: u32 = 1 << 6;
    let mut control = 0u32;
    // SAFETY: it is stored there, and nothing else happens.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut control, options(nostack, preserves_flags)) };
    control & DAZ != 0
}

/// By the instruction, which keeps bits of a NaN and takes subnormals for zero: vectors that have one of either are rounded
/// as elsewhere.
///
/// # Safety
/// As [`to_bf16`], of a block or more; the processor has the instruction, and its control register heeds subnormals.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn round_bf16<const SATURATE: bool>(source: *const u8, destination: *mut u8, n: usize) {
    const NAN_OR_SUBNORMAL: i32 = 0x01 | 0x20 | 0x80;
    let largest = f32::from_bits(0x7f7f << 16);
    each_range::<BLOCK>(n, n, |start, end| {
        for index in (start..end).step_by(16) {
            // SAFETY: a range is of whole blocks within n.
            unsafe {
                let mut values = _mm512_loadu_ps(source.add(4 * index).cast());
                let rounded = if _mm512_fpclass_ps_mask::<NAN_OR_SUBNORMAL>(values) == 0 {
                    if SATURATE {
                        values = _mm512_min_ps(_mm512_set1_ps(largest), values);
                        values = _mm512_max_ps(_mm512_set1_ps(-largest), values);
                    }
                    std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(values))
                } else {
                    round_bits::<SATURATE>(values)
                };
                _mm256_storeu_si256(destination.add(2 * index).cast(), rounded);
            }
        }
    });
}

/// [`Bf16::round`] of sixteen.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn round_bits<const SATURATE: bool>(values: __m512) -> __m256i {
    let bits = _mm512_castps_si512(values);
    let upper = _mm512_srli_epi32::<16>(bits);
    let sign = _mm512_and_si512(upper, _mm512_set1_epi32(0x8000));
    let half = _mm512_add_epi32(_mm512_set1_epi32(0x7fff), _mm512_and_si512(upper, _mm512_set1_epi32(1)));
    let mut rounded = _mm512_srli_epi32::<16>(_mm512_add_epi32(bits, half));
    if SATURATE {
        rounded = _mm512_min_epu32(rounded, _mm512_or_si512(sign, _mm512_set1_epi32(0x7f7f)));
    }
    let nan = _mm512_or_si512(sign, _mm512_set1_epi32(0x7fc0));
    let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(values, values);
    _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, is_nan, nan))
}

/// What each code of a small format stands for: the upper half of a float32, whose lower half is 0. First the lower bytes of those,
/// then the upper ones.
const fn upper_halves_of<const FORMAT: usize>() -> [[u8; 256]; 2] {
    let mut halves = [[0; 256]; 2];
    let mut code = 0;
    while code < 256 {
        let value = match FORMAT {
            E8M0 => widen_e8m0(code as u8),
            _ => SMALL[FORMAT].widen(code as u8),
        };
        let [lowest, low, third, highest] = value.to_bits().to_le_bytes();
        assert!(lowest == 0 && low == 0);
        (halves[0][code], halves[1][code]) = (third, highest);
        code += 1;
    }
    halves
}

/// Whether the upper half of the codes stands for what the lower one does with the other sign.
const fn has_signs([lower, upper]: &[[u8; 256]; 2]) -> bool {
    let mut code = 0;
    while code < 128 {
        let negative = code + 128;
        if lower[code] != lower[negative] || upper[code] ^ 0x80 != upper[negative] {
            return false;
        }
        code += 1;
    }
    true
}

/// What codes of a small format stand for, looked up 64 at a time.
///
/// # Safety
/// The processor has AVX-512 with VBMI.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
unsafe fn look_up<const FORMAT: usize>(codes: &[u8], values: &mut [Float]) {
    /// Elements of a vector of codes.
    const SOME: usize = 64;
    /// Of each float32 the third byte from the first vector, the highest one from the second.
    const PLACES: [[u8; SOME]; 4] = {
        let mut places = [[0; SOME]; 4];
        let mut code = 0;
        while code < SOME {
            let of_sixteen = &mut places[code / 16];
            (of_sixteen[code % 16 * 4 + 2], of_sixteen[code % 16 * 4 + 3]) =
                (code as u8, (SOME + code) as u8);
            code += 1;
        }
        places
    };
    const UPPER_HALVES: u64 = 0xcccc_cccc_cccc_cccc;
    let tables = const { &upper_halves_of::<FORMAT>() };
    let n = codes.len().min(values.len());
    if n < SOME {
        // SAFETY: the processor has AVX2 and F16C as well.
        return unsafe { decode::<FORMAT>(codes, values) };
    }
    let (codes, values) = (codes.as_ptr(), values.as_mut_ptr());
    // SAFETY: each quarter of a table is a vector, as are the places.
    let load = |from: *const u8| unsafe { _mm512_loadu_si512(from.cast()) };
    let tables =
        tables.each_ref().map(|table| [0, 1, 2, 3].map(|quarter| load(table[quarter * SOME..].as_ptr())));
    let places = PLACES.each_ref().map(|places| load(places.as_ptr()));
    let signs = _mm512_set1_epi8(i8::MIN);
    each_group::<SOME>(n, |index| {
        // SAFETY: a group is within n.
        unsafe {
            let codes = load(codes.add(index));
            let first = tables.map(|table| _mm512_permutex2var_epi8(table[0], codes, table[1]));
            let [lower, upper] = if const { has_signs(&upper_halves_of::<FORMAT>()) } {
                [first[0], _mm512_or_si512(first[1], _mm512_and_si512(codes, signs))]
            } else {
                let is_second = _mm512_movepi8_mask(codes);
                [0, 1].map(|byte| {
                    let second = _mm512_permutex2var_epi8(tables[byte][2], codes, tables[byte][3]);
                    _mm512_mask_mov_epi8(first[byte], is_second, second)
                })
            };
            for (sixteen, place) in places.into_iter().enumerate() {
                let floats = _mm512_maskz_permutex2var_epi8(UPPER_HALVES, lower, place, upper);
                _mm512_storeu_si512(values.add(index + 16 * sixteen).cast(), floats);
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
    if n < 16 {
        // SAFETY: none needed.
        return unsafe { super::decode::<FORMAT>(codes, values) };
    }
    let (codes, values) = (codes.as_ptr(), values.as_mut_ptr());
    each_group::<16>(n, |index| {
        // SAFETY: a group is within n.
        unsafe {
            let halves = halves::<FORMAT>(_mm_loadu_si128(codes.add(index).cast()));
            let (low, high) = (_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves));
            for (at, half) in [(0, low), (8, high)] {
                let wide = _mm256_cvtph_ps(half);
                let scaled = if scale == 1.0 { wide } else { _mm256_mul_ps(wide, _mm256_set1_ps(scale)) };
                _mm256_storeu_ps(values.add(index + at).cast(), scaled);
            }
        }
    });
}

/// What codes stand for, as float16, in units of the format's `half_scale`. Sixteen at a time, which stay in
/// registers.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn halves<const FORMAT: usize>(codes: __m128i) -> __m256i {
    let format = SMALL[FORMAT];
    let all = |value: u32| _mm256_set1_epi16(value as i16);
    let (infinity, nan) = (all(0x7c00), all(0x7e00));
    let codes = _mm256_cvtepu8_epi16(codes);
    let magnitude = _mm256_and_si256(codes, all(format.sign - 1));
    let finite = _mm256_sll_epi16(magnitude, _mm_cvtsi32_si128(10 - format.fraction as i32));
    let is_special = _mm256_cmpgt_epi16(magnitude, all(format.first_special - 1));
    let mut half = _mm256_blendv_epi8(finite, nan, is_special);
    if format.overflow >= format.first_special && format.overflow as u8 != format.nan[0] {
        half = _mm256_blendv_epi8(half, infinity, _mm256_cmpeq_epi16(magnitude, all(format.overflow)));
    }
    if format.unsigned_zero {
        half = _mm256_blendv_epi8(half, nan, _mm256_cmpeq_epi16(codes, all(0x80)));
    }
    let sign = _mm256_and_si256(codes, all(format.sign));
    let up = 15 - format.sign.trailing_zeros();
    _mm256_or_si256(half, _mm256_sll_epi16(sign, _mm_cvtsi32_si128(up as i32)))
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use super::*;
    use crate::backend::host::isa::Isa;

    /// What a row of each set of instructions makes of values, and of each by itself.
    fn rows_and_ones(
        from: usize,
        to: usize,
        values: &[u8],
        (size, width): (usize, usize),
    ) -> Vec<(Isa, usize, Vec<u8>, Vec<u8>)> {
        let n = values.len() / size;
        assert!(n > 2 * BLOCK + 3);
        let mut results = Vec::new();
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512].into_iter().filter(|isa| isa.is_there()) {
            for saturate in [0, 1] {
                let row = Compiled::get(isa).rows[saturate][from][to];
                let one = Compiled::get(Isa::Baseline).rows[saturate][from][to];
                let (mut rows, mut ones) = (vec![0; n * width], vec![0; n * width]);
                // SAFETY: all are as long; the processor has the instructions.
                unsafe {
                    row(values.as_ptr(), rows.as_mut_ptr(), n);
                    for index in 0..n {
                        one(values[index * size..].as_ptr(), ones[index * width..].as_mut_ptr(), 1);
                    }
                }
                // Shorter ones, from anywhere on, with nothing beside them changed.
                for len in 1..2 * BLOCK + 3 {
                    let start = len * 37 % (n - len + 1);
                    let mut short = vec![0x5a; (len + 1) * width];
                    // SAFETY: so many are there from there on, and in what is written.
                    unsafe { row(values[start * size..].as_ptr(), short.as_mut_ptr(), len) };
                    let (short, beside) = short.split_at(len * width);
                    let place = format!("{len} of {from} to {to} by {isa:?}, saturate {saturate}");
                    assert!(short == &ones[start * width..][..short.len()], "{place}");
                    assert!(beside.iter().all(|byte| *byte == 0x5a), "{place}");
                }
                results.push((isa, saturate, rows, ones));
            }
        }
        results
    }

    /// That rows of each set of instructions are what their elements are by themselves; of dtypes and their sizes.
    fn check((from, size): (usize, usize), (to, width): (usize, usize), values: &[u8]) {
        for (isa, saturate, rows, ones) in rows_and_ones(from, to, values, (size, width)) {
            for (at, (row, one)) in rows.chunks(width).zip(ones.chunks(width)).enumerate() {
                let value = &values[size * at..size * (at + 1)];
                assert_eq!(row, one, "{isa:?}, {saturate}, {from} to {to}: {value:x?}");
            }
        }
    }

    /// Valgrind's processor keeps other bits of what is no number.
    fn keeps_bits() -> bool {
        std::env::var_os("ARRAYBRIDGE_VALGRIND").is_none()
    }

    /// Every float16, and of float32 what is beside them, and halfway between two.
    #[test]
    fn halves_as_elsewhere() {
        let is_number = |half: &u16| half & 0x7fff <= 0x7c00;
        let halves: Vec<u16> = (0..=u16::MAX).filter(|half| keeps_bits() || is_number(half)).collect();
        let halves: Vec<u8> = halves.into_iter().flat_map(u16::to_ne_bytes).collect();
        check((F16, 2), (F32, 4), &halves);
        let mut floats = vec![0; 2 * halves.len()];
        // SAFETY: as many elements; the baseline's instructions are there.
        unsafe {
            let row = Compiled::get(Isa::Baseline).rows[0][F16][F32];
            row(halves.as_ptr(), floats.as_mut_ptr(), halves.len() / 2);
        }
        let mut beside = Vec::new();
        for float in floats.as_chunks::<4>().0 {
            let bits = u32::from_ne_bytes(*float);
            let near = [0, 1, 0xfff, 0x1000, 0x1001].map(|more| bits.wrapping_add(more));
            let near = near.into_iter().chain([bits.wrapping_sub(1)]);
            beside.extend(
                near.filter(|bits| keeps_bits() || !f32::from_bits(*bits).is_nan())
                    .flat_map(u32::to_ne_bytes),
            );
        }
        check((F32, 4), (F16, 2), &beside);
        check((F32, 4), (U8, 1), &beside);
    }

    /// Every code of every small format, in rows of any length about those of vectors, with what is behind them.
    #[test]
    fn codes_as_elsewhere() {
        let codes: Vec<u8> = (0..=u8::MAX).chain((0..=u8::MAX).rev()).cycle().take(700).collect();
        let sets = [Isa::Baseline, Isa::Avx2, Isa::Avx512];
        for isa in sets.into_iter().filter(|isa| isa.is_there()) {
            for (format, decode) in Compiled::get(isa).decode.iter().enumerate() {
                for (first, n) in (0..200).map(|n| (n, n)).chain([(0, 512), (7, 693)]) {
                    let mut values = [MaybeUninit::new([0xa5; 4]); 700];
                    // SAFETY: the processor has the instructions.
                    unsafe { decode(&codes[first..first + n], &mut values[..n]) };
                    for (at, value) in values.iter().enumerate() {
                        // SAFETY: all were written.
                        let bits = u32::from_ne_bytes(unsafe { value.assume_init() });
                        let code = codes[(first + at).min(699)];
                        let expected = match format {
                            _ if at >= n => 0xa5a5_a5a5,
                            E8M0 => widen_e8m0(code).to_bits(),
                            _ => SMALL[format].widen(code).to_bits(),
                        };
                        assert_eq!(bits, expected, "{isa:?}, format {format}, code {code:#x} of {n}");
                    }
                }
            }
        }
    }

    /// Numbers that float32, float16 and bfloat16 have, those halfway between two, and those beside either; with bits cut
    /// off anywhere, and of no number.
    #[test]
    fn doubles_round_as_elsewhere() {
        let lowers =
            [0, 1, (1 << 28) - 1, 1 << 28, (1 << 28) + 1, 1 << 29, 1 << 41, (1 << 41) + 1, (1 << 42) - 1];
        let exponents =
            [896, 897, 900, 1023 - 25, 1023 - 24, 1023 - 15, 1023 - 14, 1023, 1038, 1150, 1151, 2047];
        let mut all: Vec<u64> = Vec::new();
        for upper in 0..1 << 12 {
            for more in [0, 1, 3, 0x1ff, 0x200, 0x3ff] {
                all.extend(lowers.map(|lower| upper << 52 | more << 42 | lower));
            }
        }
        for exponent in exponents {
            for bit in 0..52 {
                let bits = (exponent << 52) | (1u64 << bit);
                all.extend([bits, bits | 1, bits - 1, bits | 1 << 63, bits | 1 << 42, bits | 1 << 45]);
            }
        }
        let mut values = Vec::new();
        for value in all.into_iter().map(f64::from_bits).filter(|value| keeps_bits() || !value.is_nan()) {
            values.extend(value.to_ne_bytes());
        }
        for to in [(F16, 2), (BF16, 2), (ODD, 4)] {
            check((F64, 8), to, &values);
        }
    }

    /// Where float32 has fewer bits than the number, and the number more than 8: rounded once.
    #[test]
    fn integers_round_to_bfloat16_once() {
        let mut magnitudes: Vec<u32> = Vec::new();
        for low in (0..32).map(|bit| 1u32 << bit) {
            for half in [low >> 8, low >> 7, low >> 9, low >> 8 | low >> 7] {
                for more in [0, 1, 0x7f, 0x80, 0x81, 0xff, 0x100, 0x101] {
                    let value = (low + half).wrapping_add(more);
                    magnitudes.extend([value, value.wrapping_sub(1), !value, value.wrapping_neg()]);
                }
            }
        }
        const U32: usize = Scalar::Uint32 as usize;
        let mut bytes = Vec::new();
        magnitudes.iter().for_each(|value| bytes.extend(value.to_ne_bytes()));
        for from in [I32, U32] {
            for (isa, saturate, rows, _) in rows_and_ones(from, BF16, &bytes, (4, 2)) {
                for (value, row) in magnitudes.iter().zip(rows.chunks(2)) {
                    let exact = if from == I32 { f64::from(*value as i32) } else { f64::from(*value) };
                    let once = Bf16::round::<false>(super::super::float::round_to_odd(exact)).0;
                    assert_eq!(row, once.to_ne_bytes(), "{isa:?}, {saturate}, {from}: {value:#x}");
                }
            }
        }
    }

    /// About each power of two, halfway between what narrower numbers there are, beyond all integers, and what is no number.
    #[test]
    fn integers_and_floats_as_elsewhere() {
        let place = |scalar: Scalar| scalar as usize;
        let (i64s, u64s) = (place(Scalar::Int64), place(Scalar::Uint64));
        let mut longs: Vec<u64> = vec![0];
        for bit in 0..64 {
            for below in [0, 7, 8, 9, 10, 11, 12, 23, 24, 25, 52, 53].map(|some| (1u64 << bit) >> some) {
                for less in [0, 7, 8, 9, 24, 25, 53].map(|some| (1u64 << bit) >> some) {
                    let value = (1u64 << bit).wrapping_add(below).wrapping_add(less);
                    longs.extend([value - 1, value, value + 1].into_iter().flat_map(|v| [v, !v]));
                }
            }
        }
        let bytes: Vec<u8> = longs.iter().flat_map(|value| value.to_ne_bytes()).collect();
        // Valgrind makes float32 of such an integer, one by one, by way of float64, and so rounds twice.
        let rounds_once = std::env::var_os("ARRAYBRIDGE_VALGRIND").is_none();
        for from in [i64s, u64s] {
            for to in [(F16, 2), (BF16, 2), (F32, 4), (F64, 8), (ODD, 4)] {
                if rounds_once || to.0 != F32 {
                    check((from, 8), to, &bytes);
                }
            }
        }

        let mut floats = vec![0.0, 0.4, 0.6, f64::NAN, f64::INFINITY, f64::MAX, f64::MIN_POSITIVE, 5e-324];
        for power in -2..70 {
            let whole = 2f64.powi(power);
            for part in
                [0.0, 0.5, 1.0, 1.5, whole / 2.0, whole / 128.0, whole / 1024.0, whole / 2f64.powi(24)]
            {
                floats.extend([whole + part, whole - part, whole.next_down(), whole.next_up()]);
            }
        }
        let floats: Vec<u8> =
            floats.into_iter().flat_map(|value| [value, -value]).flat_map(f64::to_ne_bytes).collect();
        let n = floats.len() / 8;
        check((F64, 8), (BF16, 2), &floats);
        for (from, size) in [(F16, 2), (BF16, 2), (F32, 4), (F64, 8)] {
            let mut values = vec![0; n * size];
            // SAFETY: as many elements; the baseline's instructions are there.
            unsafe {
                let row = Compiled::get(Isa::Baseline).rows[0][F64][from];
                row(floats.as_ptr(), values.as_mut_ptr(), n);
            }
            let narrow = [(place(Scalar::Int8), 1), (place(Scalar::Int16), 2)];
            for to in narrow.into_iter().chain([(i64s, 8), (u64s, 8)]) {
                check((from, size), to, &values);
            }
        }
    }

    /// Every sign, exponent and kept bit of the fraction, with what rounding looks at; where the control register takes
    /// subnormals for zero, too.
    #[test]
    fn bfloat16_rounds_as_elsewhere() {
        if !Isa::Avx512.is_there() {
            return;
        }
        let lower = [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff];
        let values: Vec<f32> = (0..1 << 16)
            .flat_map(|upper: u32| lower.map(|lower| f32::from_bits(upper << 16 | lower)))
            .chain([1.0; 7])
            .collect();
        let mut control = 0u32;
        // SAFETY: it is stored there.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut control) };
        for control in [control, control | 1 << 6] {
            let (mut rounded, mut clamped) = (vec![0u16; values.len()], vec![0u16; values.len()]);
            // SAFETY: both are as long; the processor has AVX-512, and Rust's own arithmetic comes after.
            unsafe {
                let set = |control: u32| asm!("ldmxcsr [{}]", in(reg) &raw const control);
                set(control);
                to_bf16::<false>(values.as_ptr().cast(), rounded.as_mut_ptr().cast(), values.len());
                to_bf16::<true>(values.as_ptr().cast(), clamped.as_mut_ptr().cast(), values.len());
                set(control & !(1 << 6));
            }
            for ((value, rounded), clamped) in values.iter().zip(rounded).zip(clamped) {
                let want = (Bf16::round::<false>(*value).0, Bf16::round::<true>(*value).0);
                assert_eq!((rounded, clamped), want, "{:#x}", value.to_bits());
            }
        }
    }
}
