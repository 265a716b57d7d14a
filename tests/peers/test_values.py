"""Every pair of dtypes, value by value, against the exact reference."""

import numpy as np
import pytest

import abi
from abi import ALL, DTYPES, DType
from generate import random_tensor, random_values
from reference import cast, mismatch


def convert(api: abi.Api, values: np.ndarray, target: DType, **fields) -> abi.Result:
    outcome = api.copy(abi.from_numpy(values), abi.options(dtype=target, **fields))
    assert outcome.ok, str(outcome)
    return outcome.result


def check(api: abi.Api, values: np.ndarray, source: DType, target: DType, saturate: bool) -> None:
    result = convert(api, values, target, flags=abi.SATURATE if saturate else 0)
    wrong = mismatch(result.values(), cast(values, source, target, saturate), values, source, target)
    result.release()
    assert not wrong, wrong + (" SATURATE" if saturate else "")


@pytest.mark.parametrize("saturate", [False, True], ids=["plain", "saturate"])
@pytest.mark.parametrize("source", ALL, ids=str)
def test_every_pair(api, rng, rounds, source, saturate):
    """Contiguous: the vector kernels, with every length of tail."""
    for target in ALL:
        for _ in range(rounds(2)):
            n = int(rng.choice([1, 3, 7, 15, 33, 64, 127, 500, 1031]))
            check(api, random_values(rng, source, n), source, target, saturate)


@pytest.mark.parametrize("source", [t for t in ALL if t.bits <= 16], ids=str)
def test_every_value(api, source):
    """All bit patterns of the dtypes up to 16 bits."""
    n = 1 << source.bits
    values = np.arange(n).astype(f"u{source.np.itemsize}").view(source.np)
    for target in ALL:
        check(api, values, source, target, False)
        if source.bits <= 8:
            check(api, values, source, target, True)


@pytest.mark.parametrize("source", ALL, ids=str)
def test_every_pair_strided(api, rng, rounds, source):
    """Any layout on the source: the fused gathers."""
    for target in ALL:
        for _ in range(rounds(2)):
            t = random_tensor(rng, source, limit=400)
            layout = int(rng.choice([abi.LAYOUT_C, abi.LAYOUT_F, abi.LAYOUT_KEEP, abi.LAYOUT_ANY]))
            saturate = bool(rng.random() < 0.3)
            o = abi.options(dtype=target, layout=layout, flags=abi.SATURATE if saturate else 0)
            outcome = api.copy(t, o)
            assert outcome.ok, f"{t} {abi.describe(o)}: {outcome}"
            values = t.values()
            wrong = mismatch(outcome.result.values(), cast(values, source, target, saturate), values, source, target)
            outcome.result.release()
            assert not wrong, f"{t} {abi.describe(o)}: {wrong}"


@pytest.mark.parametrize("target", [t for t in ALL if t.kind == "f" and t.bits < 8], ids=str)
@pytest.mark.parametrize("source", ["float32", "float64", "bfloat16", "float8_e5m2"])
def test_nan_where_there_is_none(api, source, target):
    """The oracle is ml_dtypes: -0 for NaN, 0 for a NaN with its sign set."""
    dtype = DTYPES[source]
    values = np.array([np.nan, -np.nan, 1.0]).astype(np.float32).astype(dtype.np)
    result = convert(api, values, target)
    got, expected = result.values().view(np.uint8).tolist(), values.astype(target.np).view(np.uint8).tolist()
    result.release()
    assert got == expected


@pytest.mark.parametrize("saturate", [False, True])
def test_no_double_rounding(api, rng, saturate):
    """Just beside a tie of the target, where going through float32 lands on the tie."""
    from reference import table

    f64 = DTYPES["float64"]
    for target in ALL:
        if target.kind != "f" or target.bits > 16 or target.name.endswith("e8m0fnu"):
            continue
        finite = table(target)[0]
        middle = np.append((finite[1:] + finite[:-1]) / 2, finite[-1] + (finite[-1] - finite[-2]) / 2)
        middle = rng.choice(middle, 500)
        for nudge in (0, 2.0**-52, -(2.0**-52), 2.0**-40, -(2.0**-40)):
            values = middle * (1 + nudge) * rng.choice([1.0, -1.0], len(middle))
            check(api, values, f64, target, saturate)
    int64 = DTYPES["int64"]
    for target in ("bfloat16", "float32", "float16", "float8_e5m2", "float8_e4m3fn"):
        base = 2 ** rng.integers(4, 62, 300) + 2 ** rng.integers(3, 61, 300) + 2 ** rng.integers(0, 60, 300)
        for d in (-1, 0, 1):
            check(api, base.astype(np.int64) + d, int64, DTYPES[target], saturate)


PLAIN = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
]


@pytest.mark.parametrize("source", PLAIN)
def test_large(api, rng, source):
    """Enough elements for blocked, threaded and streaming kernels; rows, columns, and a transpose."""
    dtype = DTYPES[source]
    small = random_values(rng, dtype, 4099)
    values = np.resize(small, 700 * 513)
    for target in ("float32", "float64", "int16", "bfloat16", "uint8", source):
        goal = DTYPES[target]
        flat = cast(small, dtype, goal)
        for order in ("C", "F"):
            a = values.reshape((700, 513), order=order)
            outcome = api.copy(abi.from_numpy(a), abi.options(dtype=goal, layout=abi.LAYOUT_C))
            assert outcome.ok, str(outcome)
            walk = np.arange(a.size).reshape((700, 513), order=order).ravel() % 4099
            allowed = [f[walk] for f in flat]
            wrong = mismatch(outcome.result.values(), allowed, a.ravel(), dtype, goal)
            outcome.result.release()
            assert not wrong, f"{order}: {wrong}"
