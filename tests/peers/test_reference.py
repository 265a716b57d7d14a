"""The oracles among themselves: the exact casts against NumPy and ml_dtypes, the index space against views."""

import ctypes as C
import warnings

import ml_dtypes
import numpy as np
import pytest

import abi
from abi import ALL, DTYPES, DType
from generate import random_tensor, random_values
from reference import cast, exactish, mismatch, survives


def _double_rounds(source: DType, target: DType) -> bool:
    """ml_dtypes goes through float32 from every wider type, NumPy from wide integers to float16."""
    if target.kind != "f" or target.bits > 16:
        return False
    return source.name in _WIDE and (target.name != "float16" or source.kind in "iu")


_WIDE = ("int32", "int64", "uint32", "uint64", "float64", "complex128")


def _numpy_defines(source: DType, target: DType) -> bool:
    """Float to integer is undefined in C out of range; bool bytes other than 0 and 1 are undefined in NumPy."""
    return target.kind not in "iu" or source.kind in "biu"


@pytest.mark.parametrize("source", ALL, ids=str)
def test_cast_is_what_numpy_gives(rng, source):
    for target in ALL:
        if source == target or not _numpy_defines(source, target):
            continue
        values = random_values(rng, source, 400)
        if source.kind == "b":
            values = values.view(np.uint8) % 2 == 1
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                peer = values.astype(target.np)
            except TypeError:  # between two ml_dtypes: by way of float64, exact
                peer = values.astype(np.float64).astype(target.np)
            if _double_rounds(source, target):
                single = exactish(values.real if source.kind == "c" else values,
                                  DTYPES["float64"] if source.kind == "c" else source)  # fmt: skip
                keep = (single.astype(np.float32) == single) | np.isnan(single)
                values, peer = values[keep], peer[keep]
        assert not mismatch(peer, cast(values, source, target), values, source, target)


@pytest.mark.parametrize("dtype", [d for d in ALL if d.bits <= 16 and d.kind != "b"], ids=str)
def test_exhaustive_identity(dtype):
    """Every value of a dtype that has few goes through float64 and back unchanged."""
    n = 1 << dtype.bits
    values = np.arange(n).astype(f"u{dtype.np.itemsize}").view(dtype.np)
    f64 = DTYPES["float64"]
    wide = cast(values, dtype, f64)[0]
    assert survives(values, wide, dtype, f64).all()
    assert not mismatch(cast(wide, f64, dtype)[0], [values], wide, f64, dtype)


def test_integers_round_once():
    int64, f32, bf16 = DTYPES["int64"], DTYPES["float32"], DTYPES["bfloat16"]
    v = np.array([2**24 + 1, 2**54 + 2**30 + 1, -(2**54 + 2**30 + 1), 2**63 - 1, -(2**63)], np.int64)
    assert not mismatch(cast(v, int64, f32)[0], [v.astype(np.float32)], v, int64, f32)
    tie = np.array([2**40 + 2**32 + 1], np.int64)  # one above a bfloat16 tie: float32 would round it onto the tie
    assert cast(tie, int64, bf16)[0].astype(float)[0] == 2.0**40 + 2.0**33
    assert tie.astype(ml_dtypes.bfloat16).astype(float)[0] == 2.0**40


def test_gather_is_numpy_view(rng):
    for _ in range(300):
        dtype = ALL[int(rng.integers(len(ALL)))]
        t = random_tensor(rng, dtype, packed=False)
        if 0 in t.shape:
            assert len(t.values()) == 0
            continue
        strides = [s * dtype.size if n > 1 else 0 for n, s in zip(t.shape, t.strides, strict=True)]
        view = np.ndarray(t.shape, dtype.np, t.memory, t.first, strides)
        assert t.values().tobytes() == np.ascontiguousarray(view).tobytes()


def test_from_numpy(rng):
    a = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    for view in (a, a.T, a[::-1, ::2], a[:, 1:, ::-2], a[:0], a[1, 2, 3]):
        assert abi.from_numpy(view).values().tobytes() == np.ascontiguousarray(view).tobytes()
    b = np.arange(12).astype(ml_dtypes.float4_e2m1fn)[::3]
    assert abi.from_numpy(b).values().tobytes() == b.tobytes()


def test_packed_is_little_endian():
    memory = np.array([0x21, 0x43, 0x65, 0x87], np.uint8)
    fp4, fp6 = DTYPES["float4_e2m1fn"], DTYPES["float6_e2m3fn"]
    assert abi.gather(memory, 0, np.arange(8), fp4, True).view(np.uint8).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert abi.gather(memory, 0, np.arange(3), fp6, True).view(np.uint8).tolist() == [0x21, 0x0C, 0x14]


def test_sizes():
    for struct, size in abi.SIZES.items():
        assert C.sizeof(struct) == size, struct
