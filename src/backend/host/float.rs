//! Floating point formats that Rust lacks, each correctly rounded (to nearest, ties to even) from a
//! float32. What comes from a wider type arrives as a float32 that was rounded to odd, which keeps the
//! one rounding that follows correct: float32 has more than two bits to spare over all of them.
//!
//! Everything here is straight-line code with selects, so that loops over it are vectorised.
#![forbid(unsafe_code)]

/// IEEE 754 binary16.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct F16(pub u16);

/// The upper half of a float32.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Bf16(pub u16);

const SIGN: u32 = 0x8000_0000;
const INFINITY: u32 = 0x7f80_0000;
const QUIET: u32 = 0x0040_0000;

impl F16 {
    /// Rounds. NaN keeps its sign and upper payload bits and becomes quiet, as in hardware.
    #[inline(always)]
    pub fn round<const SATURATE: bool>(value: f32) -> F16 {
        let bits = value.to_bits();
        let magnitude = bits & !SIGN;
        // Subnormal results: adding 0.5 leaves units of 2^-24 in the low bits, rounded by the adder.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
        let even = (magnitude >> 13) & 1;
        let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + even) >> 13;
        let nan = 0x7e00 | (magnitude >> 13) & 0x1ff;
        let finite = if magnitude < 0x3880_0000 { subnormal } else { normal };
        let limit = if SATURATE { 0x7bff } else { 0x7c00 };
        // 65520 is halfway to what would be the next finite value.
        let half = if magnitude >= 0x477f_f000 { limit } else { finite };
        let half = if magnitude > INFINITY { nan } else { half };
        F16((half | (bits & SIGN) >> 16) as u16)
    }

    /// Exact. NaN becomes quiet.
    #[inline(always)]
    pub fn widen(self) -> f32 {
        let bits = u32::from(self.0);
        let shifted = (bits & 0x7fff) << 13;
        let exponent = shifted & (0x7c00 << 13);
        // A subnormal is 2^-14 plus its fraction, less 2^-14.
        let subnormal = (f32::from_bits(shifted + (113 << 23)) - f32::from_bits(113 << 23)).to_bits();
        let normal = shifted + (112 << 23);
        let special = shifted + (224 << 23);
        let special = if special > INFINITY { special | QUIET } else { special };
        let magnitude = if exponent == 0 { subnormal } else { normal };
        let magnitude = if exponent == 0x7c00 << 13 { special } else { magnitude };
        f32::from_bits(magnitude | (bits & 0x8000) << 16)
    }
}

impl Bf16 {
    /// Rounds. NaN keeps its sign only, as in ml_dtypes.
    #[inline(always)]
    pub fn round<const SATURATE: bool>(value: f32) -> Bf16 {
        let bits = value.to_bits();
        let upper = bits >> 16;
        let limit = if SATURATE { 0x7f7f | upper & 0x8000 } else { u32::MAX };
        // Nothing carries into the sign but from a NaN.
        let rounded = (bits.wrapping_add(0x7fff + (upper & 1)) >> 16).min(limit);
        Bf16(if value.is_nan() { upper & 0x8000 | 0x7fc0 } else { rounded } as u16)
    }

    /// Exact; bits are kept.
    #[inline(always)]
    pub fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

/// A float64 as a float32, rounded to odd: cut off, with the last bit set where anything was lost.
#[inline(always)]
pub fn round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    let bits = nearest.to_bits();
    // Step back where rounding went away from zero (infinity steps back to the largest finite).
    let cut = bits - u32::from(back.abs() > value.abs());
    let odd = cut | u32::from(back != value);
    f32::from_bits(if value.is_nan() { bits } else { odd })
}

/// A float32 clamped to finite values; NaN stays.
#[inline(always)]
pub fn finite_f32(value: f32) -> f32 {
    value.clamp(-f32::MAX, f32::MAX)
}

/// A float64 clamped to finite values; NaN stays.
#[inline(always)]
pub fn finite_f64(value: f64) -> f64 {
    value.clamp(-f64::MAX, f64::MAX)
}

/// A format of at most 8 bits: sign, exponent, fraction; 0 exponent is subnormal.
#[derive(Clone, Copy)]
pub struct Small {
    /// Bits of the fraction.
    pub fraction: u32,
    pub bias: u32,
    /// Largest finite code without its sign.
    pub largest: u32,
    /// Code without its sign of what is larger: infinity, NaN, or the largest.
    pub overflow: u32,
    /// What a NaN becomes when its sign is clear, and when it is set.
    pub nan: [u8; 2],
    pub sign: u32,
    /// Zero has one sign: the negative's code is NaN.
    pub unsigned_zero: bool,
    /// Codes from here on, without the sign, are NaN, except `overflow` where that is infinity.
    pub first_special: u32,
}

/// With infinities, as IEEE 754 would have it.
const fn ieee(fraction: u32, bias: u32, infinity: u32) -> Small {
    let nan = infinity as u8 | 1 << (fraction - 1);
    Small {
        fraction,
        bias,
        largest: infinity - 1,
        overflow: infinity,
        nan: [nan, nan | 0x80],
        sign: 0x80,
        unsigned_zero: false,
        first_special: infinity,
    }
}

/// Finite, with NaN in the place of the negative zero.
const fn fnuz(fraction: u32, bias: u32) -> Small {
    Small {
        fraction,
        bias,
        largest: 0x7f,
        overflow: 0x80,
        nan: [0x80; 2],
        sign: 0x80,
        unsigned_zero: true,
        first_special: 0x80,
    }
}

/// Finite, without NaN, for which ml_dtypes gives the zero of the other sign.
const fn finite(fraction: u32, bias: u32, sign: u32) -> Small {
    Small {
        fraction,
        bias,
        largest: sign - 1,
        overflow: sign - 1,
        nan: [sign as u8, 0],
        sign,
        unsigned_zero: false,
        first_special: sign,
    }
}

/// The small formats but float8_e8m0fnu, in the order of `Scalar` without it.
pub const SMALL: [Small; 10] = [
    ieee(4, 3, 0x70),
    ieee(3, 7, 0x78),
    fnuz(3, 11),
    Small { largest: 0x7e, overflow: 0x7f, nan: [0x7f, 0xff], first_special: 0x7f, ..ieee(3, 7, 0x78) },
    fnuz(3, 8),
    ieee(2, 15, 0x7c),
    fnuz(2, 16),
    finite(3, 1, 0x20),
    finite(2, 3, 0x20),
    finite(1, 1, 0x08),
];

impl Small {
    /// Rounds a float32 that is exact or rounded to odd.
    #[inline(always)]
    pub fn round<const SATURATE: bool>(self, value: f32) -> u8 {
        let bits = value.to_bits();
        let magnitude = bits & !SIGN;
        let lost = 23 - self.fraction;
        let rebias = (127 - self.bias) << 23;
        // All that is certainly beyond the largest counts as the code after it.
        let inside = magnitude.min(((self.largest + 1) << lost) + rebias);
        // Adding a power of two whose unit is the format's step at this exponent rounds there, and
        // leaves the number of steps in the low bits; the smallest exponent is the subnormals' too.
        let smallest = rebias + (1 << 23);
        let exponent = (inside & INFINITY).max(smallest);
        let step = exponent + (lost << 23);
        let steps = (f32::from_bits(inside) + f32::from_bits(step)).to_bits().wrapping_sub(step);
        let code = steps.wrapping_add((exponent - smallest) >> lost);
        let highest = if SATURATE { self.largest } else { self.overflow };
        let code = if highest == self.largest { code.min(highest) } else { code };
        let no_sign = self.unsigned_zero && (code == 0 || code == 0x80);
        let sign = (bits & SIGN) >> (31 - self.sign.trailing_zeros());
        let signed = if no_sign { code } else { code | sign };
        // What is beyond may be NaN already.
        if !SATURATE && self.overflow == u32::from(self.nan[0]) {
            return signed as u8;
        }
        let nan = u32::from(if sign == 0 { self.nan[0] } else { self.nan[1] });
        (if magnitude > INFINITY { nan } else { signed }) as u8
    }

    /// What a code stands for, exactly. Bits above a code of less than 8 do not matter.
    #[inline(always)]
    pub const fn widen(self, code: u8) -> f32 {
        let code = code as u32;
        let magnitude = code & (self.sign - 1);
        let shifted = magnitude << (23 - self.fraction);
        let rebias = (127 - self.bias) << 23;
        // A subnormal is the smallest normal plus its fraction, less the smallest normal.
        let smallest = rebias + (1 << 23);
        let subnormal = (f32::from_bits(shifted + smallest) - f32::from_bits(smallest)).to_bits();
        let finite = if magnitude >> self.fraction == 0 { subnormal } else { shifted + rebias };
        let nan = INFINITY | QUIET;
        let is_infinity = magnitude == self.overflow && self.overflow as u8 != self.nan[0];
        let special = if is_infinity { INFINITY } else { nan };
        let value = if magnitude >= self.first_special { special } else { finite };
        let negative = code & self.sign != 0;
        let value = if self.unsigned_zero && negative && magnitude == 0 { nan } else { value };
        f32::from_bits(value | if negative { SIGN } else { 0 })
    }
}

/// By way of float16, for which x86-64 has instructions.
#[cfg(target_arch = "x86_64")]
impl Small {
    /// Whether float16 has an exponent of its own for each of the format.
    pub const fn fits_half(self) -> bool {
        (self.first_special - 1) >> self.fraction < 31
    }

    /// The power of two that the exponents' biases differ by.
    pub const fn half_scale(self) -> f32 {
        f32::from_bits((127 + 15 - self.bias) << 23)
    }
}

/// Rounds to float8_e8m0fnu, a power of two, as ml_dtypes does: ties go up; zero, negative numbers
/// and infinity have no place and become NaN; what is smaller becomes the smallest.
#[inline(always)]
pub fn round_e8m0<const SATURATE: bool>(value: f32) -> u8 {
    let bits = value.to_bits();
    let normal = bits.wrapping_add(0x0040_0000) >> 23;
    let subnormal = u32::from(bits > 0x0040_0000);
    let code = if bits < 0x0080_0000 { subnormal } else { normal };
    let code = if SATURATE && bits <= INFINITY { code.min(0xfe) } else { code.min(0xff) };
    let code = if bits == INFINITY && !SATURATE { 0xff } else { code };
    // Zero, NaN, and everything with its sign set.
    if bits == 0 || bits > INFINITY { 0xff } else { code as u8 }
}

/// What a code of float8_e8m0fnu stands for.
#[inline(always)]
pub const fn widen_e8m0(code: u8) -> f32 {
    let normal = (code as u32) << 23;
    let bits = if code == 0 { 0x0040_0000 } else { normal };
    f32::from_bits(if code == 0xff { INFINITY | QUIET } else { bits })
}
