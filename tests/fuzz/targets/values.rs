//! Casts as arithmetic: every value is an exact sign, number and power of two, rounded once. Slow, and
//! nothing like the kernels.

use arraybridge::dtype::Scalar;

#[derive(Clone, Copy, Debug)]
pub enum Value {
    Nan,
    /// Negative or not.
    Infinity(bool),
    /// (-1)^negative * number * 2^exponent
    Number {
        negative: bool,
        number: u128,
        exponent: i32,
    },
}

/// A binary format: what its codes stand for.
#[derive(Clone, Copy)]
struct Format {
    bits: u32,
    fraction: u32,
    bias: i32,
    special: Special,
}

#[derive(Clone, Copy, PartialEq)]
enum Special {
    /// Infinities and NaN, as IEEE 754.
    Ieee,
    /// The largest code is NaN.
    LastIsNan,
    /// The code of the negative zero is NaN.
    ZeroIsNan,
    /// Numbers only.
    None,
}

fn format(scalar: Scalar) -> Option<Format> {
    use Special::*;
    let (bits, fraction, bias, special) = match scalar {
        Scalar::Float64 => (64, 52, 1023, Ieee),
        Scalar::Float32 => (32, 23, 127, Ieee),
        Scalar::Float16 => (16, 10, 15, Ieee),
        Scalar::Bfloat16 => (16, 7, 127, Ieee),
        Scalar::Float8E3m4 => (8, 4, 3, Ieee),
        Scalar::Float8E4m3 => (8, 3, 7, Ieee),
        Scalar::Float8E5m2 => (8, 2, 15, Ieee),
        Scalar::Float8E4m3fn => (8, 3, 7, LastIsNan),
        Scalar::Float8E4m3b11fnuz => (8, 3, 11, ZeroIsNan),
        Scalar::Float8E4m3fnuz => (8, 3, 8, ZeroIsNan),
        Scalar::Float8E5m2fnuz => (8, 2, 16, ZeroIsNan),
        Scalar::Float6E2m3fn => (6, 3, 1, None),
        Scalar::Float6E3m2fn => (6, 2, 3, None),
        Scalar::Float4E2m1fn => (4, 1, 1, None),
        _ => return Option::None,
    };
    Some(Format { bits, fraction, bias, special })
}

/// Bits of an integer type, and whether it has a sign.
fn integer(scalar: Scalar) -> Option<(u32, bool)> {
    Some(match scalar {
        Scalar::Int8 => (8, true),
        Scalar::Int16 => (16, true),
        Scalar::Int32 => (32, true),
        Scalar::Int64 => (64, true),
        Scalar::Uint8 => (8, false),
        Scalar::Uint16 => (16, false),
        Scalar::Uint32 => (32, false),
        Scalar::Uint64 => (64, false),
        _ => return None,
    })
}

impl Format {
    fn sign(self) -> u64 {
        1 << (self.bits - 1)
    }

    /// The largest finite code without its sign.
    fn largest(self) -> u64 {
        match self.special {
            Special::Ieee => self.infinity() - 1,
            Special::LastIsNan => self.sign() - 2,
            Special::ZeroIsNan | Special::None => self.sign() - 1,
        }
    }

    fn infinity(self) -> u64 {
        (self.sign() - 1) >> self.fraction << self.fraction
    }

    fn decode(self, code: u64) -> Value {
        let code = code & (self.sign() | (self.sign() - 1));
        let (negative, magnitude) = (code & self.sign() != 0, code & (self.sign() - 1));
        match self.special {
            Special::Ieee if magnitude == self.infinity() => return Value::Infinity(negative),
            Special::ZeroIsNan if code == self.sign() => return Value::Nan,
            _ if magnitude > self.largest() => return Value::Nan,
            _ => {}
        }
        let (exponent, fraction) =
            ((magnitude >> self.fraction) as i32, magnitude & ((1 << self.fraction) - 1));
        let number = if exponent == 0 { fraction } else { fraction | 1 << self.fraction };
        let exponent = exponent.max(1) - self.bias - self.fraction as i32;
        Value::Number { negative, number: number.into(), exponent }
    }

    /// The code of a number, rounded to nearest, ties to even. None: any NaN.
    fn encode(self, value: Value, saturate: bool) -> Option<u64> {
        let signed = |negative: bool, magnitude: u64| {
            let sign = negative && !(self.special == Special::ZeroIsNan && magnitude == 0);
            magnitude | if sign { self.sign() } else { 0 }
        };
        let beyond = |negative| match self.special {
            _ if saturate => Some(signed(negative, self.largest())),
            Special::Ieee => Some(signed(negative, self.infinity())),
            Special::None => Some(signed(negative, self.largest())),
            _ => None,
        };
        match value {
            Value::Nan => None,
            Value::Infinity(negative) => beyond(negative),
            Value::Number { negative, number: 0, .. } => Some(signed(negative, 0)),
            Value::Number { negative, number, exponent } => {
                // The unit of the last place, at this size of number.
                let top = 127 - number.leading_zeros() as i32 + exponent;
                let unit = top.max(1 - self.bias) - self.fraction as i32;
                let shift = unit - exponent;
                let steps = if shift <= 0 {
                    number << -shift
                } else if shift > 127 {
                    0
                } else {
                    let (whole, rest, half) =
                        (number >> shift, number & ((1 << shift) - 1), 1u128 << (shift - 1));
                    whole + u128::from(rest > half || rest == half && whole & 1 == 1)
                };
                // A carry into the next exponent is the next code.
                let first = (unit + self.fraction as i32 + self.bias) as u128;
                let code = ((first - 1) << self.fraction) + steps;
                if code > self.largest().into() {
                    beyond(negative)
                } else {
                    Some(signed(negative, code as u64))
                }
            }
        }
    }
}

/// What bits of a real type stand for.
pub fn decode(scalar: Scalar, bits: u64) -> Value {
    if let Some(format) = format(scalar) {
        return format.decode(bits);
    }
    if let Some((width, signed)) = integer(scalar) {
        let value = if signed {
            i128::from((bits << (64 - width)) as i64 >> (64 - width))
        } else {
            i128::from(bits << (64 - width) >> (64 - width))
        };
        return Value::Number { negative: value < 0, number: value.unsigned_abs(), exponent: 0 };
    }
    match scalar {
        Scalar::Bool => Value::Number { negative: false, number: u128::from(bits & 0xff != 0), exponent: 0 },
        Scalar::Float8E8m0fnu if bits & 0xff == 0xff => Value::Nan,
        Scalar::Float8E8m0fnu => {
            Value::Number { negative: false, number: 1, exponent: (bits & 0xff) as i32 - 127 }
        }
        _ => unreachable!("{scalar:?} is not real"),
    }
}

fn is_zero(value: Value) -> bool {
    matches!(value, Value::Number { number: 0, .. })
}

/// Whether bits are what NaN becomes: a NaN, or one of the zeros in formats that have none.
pub fn is_nan(scalar: Scalar, bits: u64) -> bool {
    match format(scalar) {
        Some(format) if format.special == Special::None => bits == 0 || bits == format.sign(),
        _ => matches!(decode(scalar, bits), Value::Nan),
    }
}

/// The bits that a value becomes. None: any NaN of the type.
pub fn encode(scalar: Scalar, value: Value, from_integer: bool, saturate: bool) -> Option<u64> {
    if let Some(format) = format(scalar) {
        return format.encode(value, saturate);
    }
    if let Some((width, signed)) = integer(scalar) {
        let (low, high) = if signed {
            (-1i128 << (width - 1), (1i128 << (width - 1)) - 1)
        } else {
            (0, (1i128 << width) - 1)
        };
        let exact = match value {
            Value::Nan => 0,
            Value::Infinity(negative) => {
                if negative {
                    low
                } else {
                    high
                }
            }
            Value::Number { negative, number, exponent } => {
                let whole = match exponent {
                    0.. if number == 0 || exponent < number.leading_zeros() as i32 - 1 => number << exponent,
                    0.. => i128::MAX as u128,
                    -127..0 => number >> -exponent,
                    _ => 0,
                };
                let whole = whole.min(i128::MAX as u128) as i128;
                if negative { -whole } else { whole }
            }
        };
        let kept = if from_integer && !saturate { exact } else { exact.clamp(low, high) };
        return Some(kept as u64 & (u64::MAX >> (64 - width)));
    }
    match scalar {
        Scalar::Bool => Some(u64::from(!is_zero(value))),
        // Ties go up; what has no place is NaN.
        Scalar::Float8E8m0fnu => match value {
            Value::Number { negative: false, number, exponent } if number > 0 => {
                let top = 127 - number.leading_zeros() as i32;
                let up = top > 0 && number >> (top - 1) & 1 == 1;
                let power = top + exponent;
                match power + i32::from(up) + 127 {
                    // Between the smallest and the next all goes up, as in ml_dtypes.
                    _ if power < -127 => Some(0),
                    _ if power == -127 => Some(u64::from(!number.is_power_of_two())),
                    code @ ..=254 => Some(code as u64),
                    _ => saturate.then_some(254),
                }
            }
            Value::Infinity(false) if saturate => Some(254),
            _ => None,
        },
        _ => unreachable!("{scalar:?} is not real"),
    }
}

/// Whether integers wrap on their way from here.
pub fn is_integer(scalar: Scalar) -> bool {
    scalar == Scalar::Bool || integer(scalar).is_some()
}

/// Whether two values are the same number: NaN is NaN, and zero has no sign.
pub fn same(a: Value, b: Value) -> bool {
    let reduced = |value| match value {
        Value::Number { number: 0, .. } => Value::Number { negative: false, number: 0, exponent: 0 },
        Value::Number { negative, number, exponent } => {
            let zeros = number.trailing_zeros();
            Value::Number { negative, number: number >> zeros, exponent: exponent + zeros as i32 }
        }
        other => other,
    };
    match (reduced(a), reduced(b)) {
        (Value::Nan, Value::Nan) => true,
        (Value::Infinity(a), Value::Infinity(b)) => a == b,
        (
            Value::Number { negative: a, number: b, exponent: c },
            Value::Number { negative: d, number: e, exponent: f },
        ) => (a, b, c) == (d, e, f),
        _ => false,
    }
}
