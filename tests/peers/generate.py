"""Random tensors: odd layouts, offsets, alignments and bit patterns, in memory of their own."""

from __future__ import annotations

import numpy as np

from abi import CPU, DTYPES, PADDED, DType, Tensor, byte_span, compact, element_offsets
from reference import table

GARBAGE = [0, 1, -1, 7, -(2**40), 2**40, 2**62, -(2**62), 2**63 - 1, -(2**63)]
NARROW_NAMES = "float16 bfloat16 float8_e5m2 float8_e4m3fn float8_e4m3fnuz float8_e3m4 float6_e3m2fn float4_e2m1fn"


def random_bits(rng: np.random.Generator, dtype: DType, n: int) -> np.ndarray:
    raw = rng.integers(0, 256, n * dtype.np.itemsize, np.uint8)
    if dtype.subbyte:
        raw &= (1 << dtype.bits) - 1
    return raw.view(dtype.np)


def _rounding_cases(rng: np.random.Generator, n: int) -> np.ndarray:
    """Values of narrow formats, half way between two, a little beside both, and around the largest."""
    out = []
    for name in rng.choice(NARROW_NAMES.split(), 4):
        finite = table(DTYPES[name])[0]
        steps = np.append(finite, 2 * finite[-1] - finite[-2])
        k = rng.integers(0, len(steps) - 1, n // 4 + 1)
        k = np.where(rng.random(len(k)) < 0.1, len(steps) - 2, k)
        v = np.where(rng.random(len(k)) < 0.7, (steps[k] + steps[k + 1]) / 2, steps[k])
        nudge = rng.choice([0.0, 0.0, 2.0**-52, -(2.0**-52), 2.0**-30, -(2.0**-30), 2.0**-20, -(2.0**-20)], len(k))
        out.append(v * (1 + nudge) * rng.choice([1.0, -1.0], len(k)))
    return rng.permutation(np.concatenate(out))[:n]


def random_values(rng: np.random.Generator, dtype: DType, n: int) -> np.ndarray:
    """A third random bits, a third small numbers, a third hard cases for rounding and ranges."""
    out = random_bits(rng, dtype, n)
    if dtype.kind == "b" or n == 0:
        return out
    which = rng.integers(0, 3, n)
    with np.errstate(all="ignore"):
        small = rng.integers(-20 if dtype.kind != "u" else 0, 130, n)
        out = np.where(which == 1, (small.astype(np.float64) / rng.choice([1, 1, 2, 8], n)).astype(dtype.np), out)
        if dtype.kind in "iu":
            info = np.iinfo(dtype.np)
            near = [2**k + d for k in (7, 8, 11, 15, 16, 24, 25, 31, 32, 40, 53, 54, 63) for d in (-1, 0, 1)]
            near += [int(x) for x in (448, 464, 480, 65504, 65519, 65520, 57344, 61440)]
            near = [s * x for x in near for s in (1, -1) if info.min <= s * x <= info.max] + [info.min, info.max]
            hard = rng.choice(np.array(near, dtype.np), n)
        else:
            edges = [np.inf, -np.inf, np.nan, -0.0, 0.0, 2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 2.0**64, 1e300, -1.0]
            edges += [255.0, 256.0, -129.0, 127.9, -0.5, 0.5, 2.0**-127, 1.5 * 2.0**-127, 2.0**-149, 1e-300]
            v = np.where(rng.random(n) < 0.8, _rounding_cases(rng, n), rng.choice(edges, n))
            hard = v.astype(dtype.np)
            if dtype.kind == "c":
                hard.imag = rng.permutation(v)
        out = np.where(which == 2, hard, out)
    return out.astype(dtype.np)


def random_shape(
    rng: np.random.Generator, limit: int = 2000, empty: float = 0.06, high_rank: float = 0.05
) -> list[int]:
    if rng.random() < high_rank:
        ndim = int(rng.integers(7, 65))
        shape = [1] * ndim
        for axis in rng.permutation(ndim)[: int(rng.integers(0, 9))]:
            shape[axis] = 2
    else:
        ndim = int(rng.integers(0, 7))
        shape, left = [], limit
        for _ in range(ndim):
            n = int(rng.choice([1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64])) if rng.random() < 0.85 else 1
            shape.append(n if n <= left else 1)
            left //= shape[-1]
        shape = [int(n) for n in rng.permutation(shape)]
    if shape and rng.random() < empty:
        shape[int(rng.integers(len(shape)))] = 0
    return shape


MODES = ["c", "f", "permuted", "gaps", "negative", "broadcast", "mixed", "overlapping"]


def random_strides(rng: np.random.Generator, shape: list[int], mode: str, garbage: bool = True) -> list[int]:
    ndim = len(shape)
    if mode == "overlapping":
        strides = [int(s) for s in rng.integers(-3, 6, ndim)]
    else:
        order = list(range(ndim))
        if mode == "c":
            order.reverse()
        elif mode != "f":
            order = [int(a) for a in rng.permutation(ndim)]
        strides, step = [0] * ndim, 1
        for axis in order:
            if shape[axis] > 1 and mode in ("gaps", "mixed") and rng.random() < 0.4:
                step = step * 2 if rng.random() < 0.3 and step < 64 else step + int(rng.integers(1, 4))
            strides[axis] = step
            if mode in ("negative", "mixed") and rng.random() < 0.4:
                strides[axis] = -step
            if mode in ("broadcast", "mixed") and rng.random() < 0.3:
                strides[axis] = 0
            else:
                step *= max(shape[axis], 1)
    if garbage:
        odd = rng.random() < 0.5
        for axis, n in enumerate(shape):
            if odd and (n == 1 or 0 in shape):
                strides[axis] = GARBAGE[int(rng.integers(len(GARBAGE)))]
    return strides


def random_tensor(
    rng: np.random.Generator,
    dtype: DType,
    *,
    shape: list[int] | None = None,
    mode: str | None = None,
    strides: list[int] | None = None,
    limit: int = 2000,
    packed: bool | None = None,
    flags: int = 0,
    aligned: bool | None = None,
    device: tuple[int, int] = (CPU, 0),
    values: np.ndarray | None = None,
    **fields,
) -> Tensor:
    """`aligned`: True for a 64-byte aligned first element, False for one misaligned where it can be."""
    if shape is None:
        shape = random_shape(rng, limit)
    mode = mode or str(rng.choice(MODES))
    if strides is None:
        strides = random_strides(rng, shape, mode)
    if dtype.subbyte and not (rng.random() < 0.5 if packed is None else packed):
        flags |= PADDED
    is_packed = dtype.subbyte and not flags & PADDED
    if is_packed and len(shape) and rng.random() < 0.7:  # mostly from bit 0 upwards
        strides = [abs(s) if n > 1 else s for s, n in zip(strides, shape, strict=True)]
    begin, end = byte_span(element_offsets(shape, strides), dtype, is_packed)
    size = dtype.size
    memory = rng.integers(0, 256, end - begin + 640 + 4 * size, np.uint8)
    base = memory.ctypes.data
    low = -(-(base - begin + 64) // 64) * 64 + begin - base  # bytes up to the first touched one are padding
    first = low - begin
    assert (base + first) % 64 == 0
    if aligned is False:
        first += 1
    elif aligned is None:
        first += int(rng.choice([0, 0, 0, 1, 2, 3])) * size if rng.random() < 0.8 else int(rng.integers(1, 64))
    if dtype.lanes == 1:
        _fill(rng, memory, first, dtype, is_packed)
        if values is not None:
            assert not is_packed and size == values.itemsize
            offsets = element_offsets(shape, strides)
            memory[(first + offsets * size)[:, None] + np.arange(size)] = values.reshape(-1, 1).view(np.uint8)
    compact_rows = all(n == 1 or s == c for n, s, c in zip(shape, strides, compact(shape), strict=True))
    null_strides = (compact_rows or 0 in shape) and bool(rng.random() < 0.3)
    byte_offset = 0 if rng.random() < 0.5 else int(rng.integers(0, min(first, 300) + 1))
    null_data = 0 in shape and bool(rng.random() < 0.5)
    fields.setdefault("minor", int(rng.choice([0, 1, 3, 99])))
    return Tensor(
        dtype, shape, strides, memory, first, 0 if null_data else byte_offset, device, flags,
        null_strides, null_data, **fields,
    )  # fmt: skip


def _fill(rng: np.random.Generator, memory: np.ndarray, first: int, dtype: DType, packed: bool) -> None:
    """Interesting values in every slot an element could take."""
    if packed:
        return  # every bit pattern is a value
    start = first % dtype.size
    slots = (len(memory) - start) // dtype.size
    memory[start : start + slots * dtype.size] = random_values(rng, dtype, slots).view(np.uint8)


def destination(rng: np.random.Generator, dtype: DType, shape: list[int], **fields) -> Tensor:
    """A tensor in which no two indices share an element."""
    mode = str(rng.choice(["c", "f", "permuted", "gaps", "negative"]))
    return random_tensor(rng, dtype, shape=shape, mode=mode, **fields)
