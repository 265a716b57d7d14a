"""The value rules of every cast, in exact arithmetic.

`convert(source, target, code, saturate)` gives the bits of one element after a cast and
`keeps_value(source, target, code)` says whether the cast is exact. Elements are plain
integers: the little-endian bits of the element, so that NaN payloads never pass through a
Python float. Finite values are fractions, so that every cast rounds once. README.md beside
this file states the rules in words.
"""

from dataclasses import dataclass
from fractions import Fraction

FINITE, INFINITE, NAN = "finite", "infinite", "nan"


@dataclass(frozen=True)
class Real:
    """A real number with the extras that floats have: signed zero, infinities, NaN payloads."""

    kind: str
    negative: bool
    magnitude: Fraction = Fraction(0)  # of a finite number
    payload: int = 0  # of a NaN: its fraction bits, left-aligned to the 52 of float64


@dataclass(frozen=True)
class Int:
    name: str
    bits: int
    signed: bool

    @property
    def low(self):
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def high(self):
        return (1 << (self.bits - self.signed)) - 1


@dataclass(frozen=True)
class Float:
    """A binary float format. Codes are sign | magnitude; magnitude codes up to `largest` are finite."""

    name: str
    bits: int
    fraction: int  # bits of the fraction field
    emin: int  # exponent of the smallest normal number
    largest: int  # magnitude code of the largest finite number
    infinity: int | None  # magnitude code
    nan: tuple | None  # codes that a positive and a negative NaN become; None: the payload is kept
    negative_zero: bool = True

    @property
    def sign(self):
        return 1 << (self.bits - 1)

    @property
    def quiet(self):
        return 1 << (self.fraction - 1)


@dataclass(frozen=True)
class Bool:
    name: str
    bits: int


@dataclass(frozen=True)
class Scale:
    """float8_e8m0fnu: code c is 2^(c - 127), 0xff is NaN; no zero, sign or infinity."""

    name: str
    bits: int


@dataclass(frozen=True)
class Complex:
    name: str
    bits: int
    part: Float


FLOAT16 = Float("float16", 16, 10, -14, 0x7BFF, 0x7C00, None)
FLOAT32 = Float("float32", 32, 23, -126, 0x7F7FFFFF, 0x7F800000, None)
FLOAT64 = Float("float64", 64, 52, -1022, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, None)

# The order is that of the tables in casts.json.
DTYPES = {
    d.name: d
    for d in (
        Bool("bool", 8),
        *(Int(f"int{n}", n, True) for n in (8, 16, 32, 64)),
        *(Int(f"uint{n}", n, False) for n in (8, 16, 32, 64)),
        FLOAT16,
        Float("bfloat16", 16, 7, -126, 0x7F7F, 0x7F80, (0x7FC0, 0xFFC0)),
        FLOAT32,
        FLOAT64,
        Complex("complex64", 64, FLOAT32),
        Complex("complex128", 128, FLOAT64),
        Float("float8_e3m4", 8, 4, -2, 0x6F, 0x70, (0x78, 0xF8)),
        Float("float8_e4m3", 8, 3, -6, 0x77, 0x78, (0x7C, 0xFC)),
        Float("float8_e4m3b11fnuz", 8, 3, -10, 0x7F, None, (0x80, 0x80), False),
        Float("float8_e4m3fn", 8, 3, -6, 0x7E, None, (0x7F, 0xFF)),
        Float("float8_e4m3fnuz", 8, 3, -7, 0x7F, None, (0x80, 0x80), False),
        Float("float8_e5m2", 8, 2, -14, 0x7B, 0x7C, (0x7E, 0xFE)),
        Float("float8_e5m2fnuz", 8, 2, -15, 0x7F, None, (0x80, 0x80), False),
        Scale("float8_e8m0fnu", 8),
        # No infinity and no NaN: what becomes of a NaN is ml_dtypes' choice.
        Float("float6_e2m3fn", 6, 3, 0, 0x1F, None, (0x20, 0x00)),
        Float("float6_e3m2fn", 6, 2, -2, 0x1F, None, (0x20, 0x00)),
        Float("float4_e2m1fn", 4, 1, 0, 0x07, None, (0x08, 0x00)),
    )
}
BFLOAT16 = DTYPES["bfloat16"]


def itemsize(dtype):
    """Bytes of one element, sub-byte elements one a byte."""
    return (dtype.bits + 7) // 8


def exponent(x):
    """floor(log2(x)) of a positive fraction."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def decode(dtype, code):
    """The value of an element of a real dtype."""
    if isinstance(dtype, Bool):
        return Real(FINITE, False, Fraction(int(code != 0)))
    if isinstance(dtype, Int):
        if dtype.signed and code >> (dtype.bits - 1):
            code -= 1 << dtype.bits
        return Real(FINITE, code < 0, Fraction(abs(code)))
    if isinstance(dtype, Scale):
        return Real(NAN, False, payload=1 << 51) if code == 0xFF else Real(FINITE, False, Fraction(2) ** (code - 127))
    negative, code = bool(code & dtype.sign), code & (dtype.sign - 1)
    if negative and code == 0 and not dtype.negative_zero:
        return Real(NAN, True, payload=1 << 51)  # ml_dtypes decodes it with the sign set
    if code <= dtype.largest:
        fraction, biased = code & ((1 << dtype.fraction) - 1), code >> dtype.fraction
        if biased:
            fraction |= 1 << dtype.fraction
            biased -= 1
        return Real(FINITE, negative, fraction * Fraction(2) ** (dtype.emin - dtype.fraction + biased))
    if code == dtype.infinity:
        return Real(INFINITE, negative)
    # float8 NaNs all decode to the same two float32 NaNs; the wider formats have payloads.
    payload = (code & ((1 << dtype.fraction) - 1)) << (52 - dtype.fraction) if dtype.bits >= 16 else 1 << 51
    return Real(NAN, negative, payload=payload)


def integer(value):
    """A finite value truncated toward zero."""
    return -int(value.magnitude) if value.negative else int(value.magnitude)


def encode(dtype, value, saturate):
    """The bits of a real value in a real dtype, rounded once."""
    if isinstance(dtype, Bool):
        return int(value.kind != FINITE or value.magnitude != 0)
    if isinstance(dtype, Int):
        return encode_int(dtype, value)
    if isinstance(dtype, Scale):
        return encode_scale(value, saturate)
    if value.kind == NAN:
        if dtype.nan:
            return dtype.nan[value.negative]
        payload = value.payload >> (52 - dtype.fraction) | dtype.quiet
        return value.negative * dtype.sign | dtype.infinity | payload
    if value.kind == FINITE:
        code = encode_magnitude(dtype, value.magnitude)
        if code <= dtype.largest:
            if code == 0 and not dtype.negative_zero:
                return 0
            return value.negative * dtype.sign | code
    # An overflow or an infinity.
    if saturate or dtype.bits < 8:
        return value.negative * dtype.sign | dtype.largest
    if dtype.infinity is not None:
        return value.negative * dtype.sign | dtype.infinity
    return dtype.nan[value.negative]


def encode_magnitude(dtype, magnitude):
    """The code nearest to a magnitude, as if codes went on above the largest finite one."""
    if magnitude == 0:
        return 0
    e = max(exponent(magnitude), dtype.emin)
    steps = round(magnitude / Fraction(2) ** (e - dtype.fraction))  # exact, ties to even
    return ((e - dtype.emin) << dtype.fraction) + steps  # a carry moves into the exponent by itself


def encode_int(dtype, value):
    """From a float: truncated and clamped. Integers come here only to be clamped."""
    if value.kind == NAN:
        return 0
    if value.kind == INFINITE:
        number = dtype.low if value.negative else dtype.high
    else:
        number = min(max(integer(value), dtype.low), dtype.high)
    return number % (1 << dtype.bits)


def encode_scale(value, saturate):
    """To float8_e8m0fnu, as ml_dtypes does from float32: ties go up, and so does everything
    between the two smallest values."""
    if value.kind == NAN or value.negative or value == Real(FINITE, False):
        return 0xFF
    if value.kind == FINITE:
        x = value.magnitude
        if x <= Fraction(2) ** -127:
            return 0x00
        e = exponent(x)
        if e == -127 or x >= Fraction(3, 2) * Fraction(2) ** e:
            e += 1
        if e <= 127:
            return e + 127
    return 0xFE if saturate else 0xFF


def parts(dtype, code):
    """The real and imaginary bits of a complex element."""
    return code & ((1 << dtype.part.bits) - 1), code >> dtype.part.bits


def convert(source, target, code, saturate=False):
    """The bits of an element of `source` cast to `target`."""
    if source == target:
        return code
    if isinstance(source, Complex):
        real, imaginary = parts(source, code)
        if isinstance(target, Complex):
            real = convert(source.part, target.part, real, saturate)
            imaginary = convert(source.part, target.part, imaginary, saturate)
            return real | imaginary << target.part.bits
        if isinstance(target, Bool):
            return convert(source.part, target, real) | convert(source.part, target, imaginary)
        return convert(source.part, target, real, saturate)
    if isinstance(target, Complex):
        return convert(source, target.part, code, saturate)
    if source == BFLOAT16 and target == FLOAT32 and decode(source, code).kind != FINITE:
        # The bits shifted, signalling NaNs included; an infinity is clamped as everywhere else.
        if decode(source, code).kind == NAN or not saturate:
            return code << 16
    if isinstance(source, Int) and isinstance(target, Int) and not saturate:
        return integer(decode(source, code)) % (1 << target.bits)
    return encode(target, decode(source, code), saturate)


def same_value(a, b):
    """NaN equals NaN, -0 equals 0, and there is no tolerance."""
    if a.kind == NAN or b.kind == NAN:
        return a.kind == b.kind
    if a.kind == FINITE and b.kind == FINITE and a.magnitude == 0 and b.magnitude == 0:
        return True
    return (a.kind, a.negative, a.magnitude) == (b.kind, b.negative, b.magnitude)


def components(dtype, code):
    if isinstance(dtype, Complex):
        real, imaginary = parts(dtype, code)
        return decode(dtype.part, real), decode(dtype.part, imaginary)
    return decode(dtype, code), Real(FINITE, False)


def keeps_value(source, target, code):
    """Whether AB_CAST_EXACT lets this element through."""
    before = components(source, code)
    after = components(target, convert(source, target, code))
    return all(same_value(a, b) for a, b in zip(before, after, strict=True))
