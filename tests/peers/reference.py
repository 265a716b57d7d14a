"""What the contract says a cast gives, computed exactly and independently of the library.

Every float dtype here fits in float64; integers that do not are rounded to odd first, so that one rounding
to nearest even follows. test_reference.py compares this with NumPy and ml_dtypes."""

from __future__ import annotations

from functools import cache
from math import isnan

import ml_dtypes
import numpy as np

from abi import ALL, DTYPES, DType

F64 = DTYPES["float64"]


@cache
def table(dtype: DType) -> tuple[np.ndarray, bool, int | None]:
    """The finite values from 0 up (code order), whether infinity follows them, and the code of NaN."""
    codes = np.arange(1 << (dtype.bits - 1), dtype=f"u{dtype.np.itemsize}")
    values = codes.view(dtype.np).astype(np.float64)
    finite = values[np.isfinite(values)]
    has_inf = len(finite) < len(values) and bool(np.isinf(values[len(finite)]))
    nan = np.array([np.nan]).astype(dtype.np)
    code = int(nan.view(codes.dtype)[0]) if np.isnan(nan.astype(np.float64)[0]) else None
    return finite, has_inf, code


@cache
def largest(dtype: DType) -> float:
    if dtype.kind == "c":
        return largest(DTYPES[f"float{dtype.bits // 2}"])
    return float(ml_dtypes.finfo(dtype.np).max)


def exactish(values: np.ndarray, dtype: DType) -> np.ndarray:
    """float64 that rounds to any narrower format as the values themselves would."""
    if dtype.kind == "b":
        return (values.view(np.uint8) != 0).astype(np.float64)
    if dtype.kind not in "iu" or dtype.bits < 64:
        return values.astype(np.float64)
    negative = values < 0
    magnitude = np.where(negative, (~values.view(np.uint64)) + np.uint64(1), values.view(np.uint64))
    sticky = (magnitude & np.uint64(0xFFF)) != 0
    odd = (magnitude & ~np.uint64(0xFFF)) | np.where(sticky, np.uint64(0x1000), np.uint64(0))
    odd = np.where(magnitude < np.uint64(1 << 53), magnitude, odd).astype(np.float64)
    return np.where(negative, -odd, odd)


def _round_narrow(v: np.ndarray, dtype: DType, saturate: bool) -> np.ndarray:
    finite, has_inf, nan = table(dtype)
    top = len(finite) - 1
    steps = np.append(finite, 2 * finite[-1] - finite[-2])
    magnitude = np.minimum(np.where(np.isnan(v), 0.0, np.abs(v)), steps[-1])
    low = np.minimum(np.searchsorted(steps, magnitude, "right") - 1, top)
    middle = (steps[low] + steps[low + 1]) / 2
    code = low + ((magnitude > middle) | ((magnitude == middle) & (low % 2 == 1)))
    over = code > top
    sign = np.where(np.signbit(v), 1 << (dtype.bits - 1), 0)
    has_negative_zero = nan != 1 << (dtype.bits - 1)
    out = code + np.where((code > 0) | has_negative_zero, sign, 0)
    if saturate or (not has_inf and nan is None):
        out = np.where(over, top + sign, out)
    elif has_inf:
        out = np.where(over, top + 1 + sign, out)
    else:
        out = np.where(over, nan, out)
    # fp6 and fp4 have no NaN: ml_dtypes gives -0 for NaN and 0 for -NaN
    out = np.where(np.isnan(v), nan if nan is not None else (1 << (dtype.bits - 1)) - sign, out)
    return out.astype(f"u{dtype.np.itemsize}").view(dtype.np)


def _round_e8m0(v: np.ndarray) -> np.ndarray:
    """Powers of two from 2^-127 (code 0) to 2^127 (254); 255 is NaN. Ties go up, there being no odd code."""
    mantissa, exponent = np.frexp(v)  # v = mantissa * 2^exponent, mantissa in [0.5, 1)
    code = exponent.astype(np.int64) - 1 + 127 + (mantissa >= 0.75)
    code = np.where(np.isfinite(v) & (v > 0) & (code < 255), np.maximum(code, 0), 255)
    return code.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)


def _to_float(v: np.ndarray, dtype: DType, saturate: bool) -> np.ndarray:
    if dtype.name == "float8_e8m0fnu":
        return _round_e8m0(v)
    if dtype.bits <= 16:
        return _round_narrow(v, dtype, saturate)
    out = v.astype(dtype.np)
    return np.clip(out, -largest(dtype), largest(dtype)) if saturate else out


def _to_int(v: np.ndarray, dtype: DType) -> np.ndarray:
    info = np.iinfo(dtype.np)
    t = np.trunc(np.where(np.isnan(v), 0.0, v))
    low, high = t <= float(info.min), t >= float(info.max)  # float(max) is 2^63 or 2^64 for 64 bits
    out = np.where(low | high, 0.0, t).astype(dtype.np)
    return np.where(low, info.min, np.where(high, info.max, out)).astype(dtype.np)


def _int_to_int(v: np.ndarray, dtype: DType, saturate: bool) -> np.ndarray:
    if saturate:
        a, b = np.iinfo(v.dtype), np.iinfo(dtype.np)
        v = np.clip(v, max(a.min, b.min), min(a.max, b.max))
    return v.astype(dtype.np)


def _cast(values: np.ndarray, source: DType, target: DType, saturate: bool) -> np.ndarray:
    if source == target:
        return values
    if source.kind == "c":
        part = DTYPES[f"float{source.bits // 2}"]
        real, imaginary = values.real, values.imag
        if target.kind == "b":
            return (real != 0) | (imaginary != 0)
        if target.kind != "c":
            return _cast(real, part, target, saturate)
        half = DTYPES[f"float{target.bits // 2}"]
        out = np.empty(len(values), target.np)
        out.real, out.imag = _cast(real, part, half, saturate), _cast(imaginary, part, half, saturate)
        return out
    if target.kind == "c":
        out = np.zeros(len(values), target.np)
        out.real = _cast(values, source, DTYPES[f"float{target.bits // 2}"], saturate)
        return out
    if source.kind == "b":
        values, source = (values.view(np.uint8) != 0).astype(np.uint8), DTYPES["uint8"]
        if source == target:
            return values
    if target.kind == "b":
        return exactish(values, source) != 0 if source.kind == "f" else values != 0
    if target.kind in "iu":
        if source.kind == "f":
            return _to_int(values.astype(np.float64), target)
        return _int_to_int(values, target, saturate)
    if target == F64:
        return _to_float(values.astype(np.float64), F64, saturate)
    return _to_float(exactish(values, source), target, saturate)


def cast(values: np.ndarray, source: DType, target: DType, saturate: bool = False) -> list[np.ndarray]:
    """The results that the contract allows, the first being the one it most likely means. There are several
    where it is silent: infinities under SATURATE when the target is no narrower, float8_e8m0fnu between the
    exact rounding and ml_dtypes' (through float32, and up from 2^-127), the sign of the zero that stands for NaN."""
    out = [_cast(values, source, target, saturate)]
    if source == target:
        return out
    if target.name == "float8_e8m0fnu":
        real = values.real if source.kind == "c" else values
        kind = DTYPES[f"float{source.bits // 2}"] if source.kind == "c" else source
        single = real if kind.kind in "iu" else exactish(real, kind)
        out.append(single.astype(np.float32).astype(target.np))
        if saturate:  # clamp to 2^127, or NaN as without SATURATE
            high = exactish(real, kind)
            for o in out[:2]:
                clamped = np.where(high >= 1.5 * 2.0**127, 254, o.view(np.uint8)).astype(np.uint8)
                out.append(clamped.view(target.np))
    elif saturate and source.kind in "fc" and target.kind in "fc" and largest(target) >= largest(source):
        out.append(_cast(values, source, target, False))
        if target.kind == "c" and source.kind == "c":
            for a, b in ((out[0], out[1]), (out[1], out[0])):
                mixed = a.copy()
                mixed.imag = b.imag
                out.append(mixed)
    if target.kind == "f" and target.bits < 8:
        nan = np.isnan(exactish(values.real if source.kind == "c" else values, F64 if source.kind == "c" else source))
        flipped = np.where(nan, out[0].view(np.uint8) ^ (1 << (target.bits - 1)), out[0].view(np.uint8))
        out.append(flipped.astype(np.uint8).view(target.np))
    return out


def is_nan(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind in "biu":
        return np.zeros(len(values), bool)
    return np.isnan(values.astype(np.float64))


def _same_one(got: np.ndarray, expected: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype.kind == "c":
        part = f"f{dtype.bits // 16}"
        pair = _same_one(got.view(part), expected.view(part), DTYPES[f"float{dtype.bits // 2}"])
        return pair.reshape(-1, 2).all(1)
    bits = f"u{dtype.np.itemsize}"
    return (got.view(bits) == expected.view(bits)) | (is_nan(got) & is_nan(expected))


def mismatch(got: np.ndarray, allowed: list[np.ndarray], values: np.ndarray, source: DType, target: DType) -> str:
    """Empty when every element is bit for bit an allowed one (any NaN for a NaN), else the first that is not."""
    if got.shape != allowed[0].shape:
        return f"{got.shape} elements, expected {allowed[0].shape}"
    if source == target:  # a byte move, NaN payloads and odd bools included
        good = np.frombuffer(got.tobytes(), np.uint8) == np.frombuffer(allowed[0].tobytes(), np.uint8)
        good = good.reshape(len(got), -1).all(1) if len(got) else good
    else:
        good = np.zeros(len(got), bool)
        for expected in allowed:
            good |= _same_one(got, expected, target)
    if good.all():
        return ""
    i = int(np.argmin(good))
    show = [f"{a[i]!r} ({a[i : i + 1].tobytes().hex()})" for a in (values, got, allowed[0])]
    return f"{(~good).sum()} of {len(good)} wrong; element {i}: {source} {show[0]} -> {target} {show[1]}, expected {show[2]}"


def survives(values: np.ndarray, cast_values: np.ndarray, source: DType, target: DType) -> np.ndarray:
    """Whether each value equals its cast, exactly."""

    def parts(v: np.ndarray, dtype: DType) -> list[tuple]:
        if dtype.kind == "c":
            w = v.astype(np.complex128)
            return list(zip(w.real.tolist(), w.imag.tolist(), strict=True))
        w = v.view(np.uint8) != 0 if dtype.kind == "b" else v if dtype.kind in "iu" else v.astype(np.float64)
        return [(x, 0) for x in w.tolist()]

    def same(a: float, b: float) -> bool:
        return a == b or (isnan(a) and isnan(b))

    pairs = zip(parts(values, source), parts(cast_values, target), strict=True)
    return np.array([same(a[0], b[0]) and same(a[1], b[1]) for a, b in pairs], bool)


NUMPY_DTYPES = [t for t in ALL if t.kind in "biuc" or t.name in ("float16", "float32", "float64")]
