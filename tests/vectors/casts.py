"""casts.json and casts.bin: every dtype to every other, element by element."""

import warnings
from fractions import Fraction

import numpy as np

from common import Blob, Random, lines
from dtypes import numpy_dtype
from values import (
    BFLOAT16,
    DTYPES,
    FINITE,
    FLOAT32,
    NAN,
    Bool,
    Complex,
    Float,
    Int,
    convert,
    decode,
    encode,
    encode_magnitude,
    exponent,
    integer,
    itemsize,
    keeps_value,
    parts,
)

FLOATS = [d for d in DTYPES.values() if isinstance(d, Float)]
INTS = [d for d in DTYPES.values() if isinstance(d, Int)]
TWO = Fraction(2)


# ---- inputs -----------------------------------------------------------------------------------


def landmarks(dtype):
    """Magnitudes where rounding into a float format changes its mind."""
    subnormal = TWO ** (dtype.emin - dtype.fraction)
    ulp = TWO**-dtype.fraction
    largest = decode(dtype, dtype.largest).magnitude
    last_ulp = TWO ** (exponent(largest) - dtype.fraction)
    ties = [
        subnormal / 2,  # to zero
        subnormal * 3 / 2,  # to even, up
        TWO**dtype.emin - subnormal / 2,  # the largest subnormal or the smallest normal
        1 + ulp / 2,  # to even, down
        1 + ulp * 3 / 2,  # to even, up
        2 - ulp / 2,  # carries into the exponent
        largest + last_ulp / 2,  # overflows or not
    ]
    plain = [subnormal, TWO**dtype.emin, 1 + ulp, largest, largest + last_ulp]
    return ties, plain


def scale_landmarks():
    """The same for float8_e8m0fnu: ties are 1.5 times a power of two."""
    ties = [TWO**e * 3 / 2 for e in (-128, -127, -126, -40, -1, 0, 1, 127)] + [TWO**-127]
    return ties, [TWO**-128, TWO**-126, TWO**127]


def float_inputs(dtype, random):
    codes = []
    infinity, step, quiet = dtype.infinity, 1 << (dtype.bits - 1), dtype.quiet
    for sign in (0, step):
        codes += [sign, sign | infinity, sign | 1, sign | (1 << dtype.fraction) - 1, sign | 1 << dtype.fraction]
        codes += [sign | dtype.largest, sign | dtype.largest - 1]
        # NaN: quiet, quiet with a payload, all ones, signalling with the lowest and the highest bit
        nan = sign | infinity
        codes += [nan | quiet, nan | quiet | quiet >> 2 | 1, nan | 2 * quiet - 1, nan | 1, nan | quiet >> 1]

    def add(magnitude, both_signs=False, neighbours=False):
        code = encode_magnitude(dtype, magnitude)
        for c in (code - 1, code, code + 1) if neighbours else (code,):
            if 0 <= c <= dtype.largest:
                negative = random.below(4) == 0
                codes.extend([c, c | step] if both_signs else [c | step * negative])

    for x in (Fraction(1, 2), Fraction(3, 4), 1, Fraction(3, 2), 2, Fraction(5, 2), 3, Fraction(7, 2), 10, 100):
        add(Fraction(x), both_signs=True)
    for bits in (7, 8, 15, 16, 24, 31, 32, 53, 63, 64):  # integer limits, and where integers stop being exact
        add(TWO**bits, both_signs=True, neighbours=bits in (8, 16, 32, 63, 64))
        add(TWO**bits - 1)
        add(TWO**bits + Fraction(1, 2))
    for other in FLOATS:
        ties, plain = landmarks(other)
        if other.bits < dtype.bits or other == BFLOAT16:
            for x in ties:
                add(x, neighbours=True)
        for x in plain:
            add(x)
    ties, plain = scale_landmarks()
    for x in ties:
        add(x, neighbours=dtype.bits > 16)
    for x in plain:
        add(x)
    for e in range(-20, 22, 3):
        add(TWO**e)
    for _ in range(25):
        codes.append(random.below(1 << dtype.bits))
    for _ in range(15):  # of a size that most formats can hold
        add(Fraction(random.below(1 << 53), 1 << 53) * TWO ** (random.below(24) - 12))
    return codes


def int_inputs(dtype, random):
    if dtype.bits == 8:
        return list(range(256))
    numbers = {0}
    for other in INTS:
        numbers |= {edge + d for edge in (other.low, other.high) for d in (-1, 0, 1)}
    for bits in range(dtype.bits):
        numbers |= {1 << bits, -(1 << bits)} if bits % 3 == 0 else {1 << bits}
    for bits in (11, 24, 53):  # where float16, float32 and float64 stop being exact
        numbers |= {(1 << bits) + d for d in (-1, 1, 2, 3)} | {-(1 << bits) - d for d in (1, 3)}
    for other in FLOATS:
        ties, plain = landmarks(other)
        for x in ties[3:5]:  # around 1: scaled up until it is an integer, and far further
            for e in {other.fraction + 1, min(40, dtype.bits - 3), dtype.bits - 2}:
                numbers |= {int(x * TWO**e) + d for d in (-1, 0, 1)}
        for x in (ties[-1], plain[3]):
            numbers |= {int(x) + d for d in (-1, 0, 1)} | {-int(x)}
    for e in (4, 24, 40, 59):  # ties of float8_e8m0fnu
        numbers |= {(3 << e) + d for d in (-1, 0, 1)}
    for _ in range(30):
        number = random.below(1 << (1 + random.below(dtype.bits)))
        numbers |= {number, -number} if random.below(3) == 0 else {number}
    return [n % (1 << dtype.bits) for n in sorted(numbers) if dtype.low <= n <= dtype.high]


def complex_inputs(dtype, random):
    """Pairs of the inputs of the part, with enough zero imaginary parts to be worth an exact cast."""
    part = dtype.part
    reals = float_inputs(part, random)
    quiet = part.infinity | part.quiet
    special = [0, part.sign, encode(part, decode(BFLOAT16, 0x3F80), False), part.infinity, quiet, part.infinity | 1]
    pairs = [(re, im) for re in special for im in special]
    pairs += [(re, 0) for i, re in enumerate(reals) if i % 3 == 0]
    pairs += [(re, part.sign) for i, re in enumerate(reals) if i % 30 == 1]
    pairs += [(0, im) for i, im in enumerate(reals) if i % 30 == 2]
    pairs += [(reals[random.below(len(reals))], reals[random.below(len(reals))]) for _ in range(70)]
    return [re | im << part.bits for re, im in pairs]


def inputs(dtype):
    random = Random(f"casts {dtype.name}")
    if isinstance(dtype, Bool):
        codes = [0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF]
    elif isinstance(dtype, Int):
        codes = int_inputs(dtype, random)
    elif isinstance(dtype, Complex):
        codes = complex_inputs(dtype, random)
    elif dtype.bits <= 8:
        codes = range(1 << dtype.bits)
    else:
        codes = float_inputs(dtype, random)
    return list(dict.fromkeys(codes))


def pack(dtype, codes):
    return b"".join(code.to_bytes(itemsize(dtype), "little") for code in codes)


# ---- NumPy and ml_dtypes have the last word, where they round once ------------------------------


def through_float32(source, target, code):
    """What a library that goes through float32 gives."""
    return encode(target, decode(FLOAT32, convert(source, FLOAT32, code)), False)


def check_against_numpy(source, target, codes, expected):
    """Asserts that NumPy with ml_dtypes agrees, but for the differences that README.md lists."""
    data = [int(c != 0) for c in codes] if isinstance(source, Bool) else codes
    array = np.frombuffer(pack(source, data), numpy_dtype(source.name))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            cast = array.astype(numpy_dtype(target.name)).tobytes()
        except TypeError:  # ml_dtypes lacks some pairs of its own dtypes
            cast = array.astype(np.float32).astype(numpy_dtype(target.name)).tobytes()
    size = itemsize(target)
    for i, (code, want) in enumerate(zip(codes, expected, strict=True)):
        got = int.from_bytes(cast[i * size : (i + 1) * size], "little")
        if got == want or (source == target and isinstance(source, Bool)):
            continue
        if not explained(source, target, code, want, got):
            raise AssertionError(f"{source.name} {code:#x} to {target.name}: {want:#x} here, {got:#x} in NumPy")


def explained(source, target, code, want, got):
    """Whether NumPy may give something else here."""
    if isinstance(source, Complex) and isinstance(target, Complex):
        triples = zip(parts(source, code), parts(target, want), parts(target, got), strict=True)
        return all(w == g or explained(source.part, target.part, c, w, g) for c, w, g in triples)
    if isinstance(source, Complex):
        source, code = source.part, parts(source, code)[0]
    if isinstance(target, Complex):
        (want, zero), (got, imaginary) = parts(target, want), parts(target, got)
        assert zero == imaginary == 0
        target = target.part
    value = decode(source, code)
    if isinstance(target, Int) and not isinstance(source, Int):
        # C leaves NaN and what is out of range undefined.
        return value.kind != FINITE or not target.low <= integer(value) <= target.high
    if value.kind == NAN:
        # Payloads: NumPy's float16 keeps NaNs signalling, and ml_dtypes drops some.
        result = decode(target, got)
        return target.bits >= 16 and result.kind == NAN and result.negative == value.negative
    # Rounded twice: to float32 and then to the target.
    return source.bits >= 32 and got == through_float32(source, target, code)


# ---- files --------------------------------------------------------------------------------------


def make():
    blob = Blob()
    table, casts = {}, []
    for source in DTYPES.values():
        codes = inputs(source)
        table[source.name] = {
            "offset": blob.add(pack(source, codes)),
            "count": len(codes),
            "itemsize": itemsize(source),
        }
        for target in DTYPES.values():
            plain = [convert(source, target, code) for code in codes]
            check_against_numpy(source, target, codes, plain)
            saturated = [convert(source, target, code, saturate=True) for code in codes]
            exact = [keeps_value(source, target, code) for code in codes]
            casts.append(
                {
                    "from": source.name,
                    "to": target.name,
                    "offset": blob.add(pack(target, plain)),
                    "saturate_offset": blob.add(pack(target, saturated)),
                    "exact_offset": blob.add(bytes(exact)),
                }
            )
    text = '{"inputs": {\n' + lines(table) + '\n},\n"casts": [\n' + lines(casts) + "\n]}\n"
    return {"casts.json": text.encode(), "casts.bin": blob.bytes()}
