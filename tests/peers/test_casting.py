"""The casting rules against numpy.can_cast and against the values; the dtype names."""

import ctypes as C

import ml_dtypes
import numpy as np
import pytest

import abi
from abi import ALL, DTYPES, DType
from generate import random_tensor, random_values
from reference import NUMPY_DTYPES, cast, mismatch, survives


@pytest.mark.parametrize(
    ("casting", "rule"), [(abi.CAST_SAFE, "safe"), (abi.CAST_SAME_KIND, "same_kind")], ids=["safe", "same_kind"]
)
@pytest.mark.parametrize("source", ALL, ids=str)
def test_can_cast(api, source, casting, rule):
    t = abi.from_numpy(np.zeros(3, source.np))
    wrong = []
    for target in ALL:
        o = abi.options(dtype=target, casting=casting)
        plan, copy = api.plan(t, o), api.copy(t, o)
        want = abi.OK if np.can_cast(source.np, target.np, rule) else abi.E_LOSSY
        for outcome in (plan, copy):
            if outcome.status != want:
                wrong.append(f"{target}: {abi.STATUS[outcome.status]}, numpy.can_cast says {want == abi.OK}")
        if copy.ok:
            copy.result.release()
        target_tensor = abi.from_numpy(np.zeros(3, target.np))
        if api.copy_into(t, target_tensor, abi.options(casting=casting)).status != want:
            wrong.append(f"{target}: ab_copy_into differs")
    assert not wrong, f"{source} {rule}: " + "; ".join(wrong)


@pytest.mark.parametrize("source", ALL, ids=str)
def test_exact(api, rng, rounds, source):
    """AB_E_LOSSY exactly when a value does not equal its cast, with no result and the source as it was."""
    for target in ALL:
        for turn in range(rounds(4)):
            n = int(rng.choice([1, 5, 40]))
            values = random_values(rng, source, n)
            allowed = cast(values, source, target, turn == 3)
            good = [survives(values, a, source, target) for a in allowed]
            certain = np.logical_and.reduce([g == good[0] for g in good])
            keep = certain & (good[0] if turn % 2 else True)
            values = values[keep]
            lossy = not good[0][keep].all()
            t = random_tensor(rng, source, shape=[len(values)], values=values, packed=False, mode="negative")
            o = abi.options(dtype=target, casting=abi.CAST_EXACT, flags=abi.SATURATE if turn == 3 else 0)
            before = t.state()
            outcome = api.convert(t, o)
            story = f"{values.tolist()[:5]} {source} -> {target} {abi.describe(o)}: {outcome}"
            assert outcome.status == (abi.E_LOSSY if lossy else abi.OK), story
            if lossy:
                assert t.state() == before, story
                continue
            wrong = mismatch(outcome.result.values(), [a[keep] for a in allowed], values, source, target)
            outcome.result.release()
            assert not wrong, wrong


@pytest.mark.parametrize(
    ("source", "value", "target", "lossy"),
    [
        ("int64", 2**63 - 1, "float64", True),  # survives a clamped round trip, but is not equal
        ("int64", 2**53, "float64", False),
        ("int64", 2**53 + 1, "float64", True),
        ("int32", -1, "uint32", True),  # likewise by wrapping
        ("float32", -0.0, "int8", False),
        ("float32", float("nan"), "float16", False),
        ("float32", float("nan"), "int8", True),
        ("float32", float("nan"), "bool", True),
        ("float32", float("inf"), "float8_e5m2", False),
        ("float32", float("inf"), "float8_e4m3fn", True),
        ("float32", 1.0, "bool", False),
        ("float32", 2.0, "bool", True),
        ("complex64", 1 + 0j, "float32", False),
        ("complex64", 1 + 1j, "float32", True),
        ("float64", 0.1, "float32", True),
        ("float64", 0.0, "float8_e8m0fnu", True),
    ],
)
def test_exact_examples(api, source, value, target, lossy):
    t = abi.from_numpy(np.array([value]).astype(DTYPES[source].np))
    outcome = api.copy(t, abi.options(dtype=DTYPES[target], casting=abi.CAST_EXACT))
    assert outcome.status == (abi.E_LOSSY if lossy else abi.OK), str(outcome)
    into = api.copy_into(t, abi.from_numpy(np.zeros(1, DTYPES[target].np)), abi.options(casting=abi.CAST_EXACT))
    assert into.status == outcome.status


def test_exact_finds_one_among_many(api, rng):
    values = rng.integers(0, 200, 300_000).astype(np.float32)
    o = abi.options(dtype=DTYPES["uint8"], casting=abi.CAST_EXACT)
    assert api.copy(abi.from_numpy(values), o).ok
    for i in (0, int(rng.integers(300_000)), 299_999):
        values[i] += 0.5
        assert api.copy(abi.from_numpy(values), o).status == abi.E_LOSSY
        values[i] -= 0.5


# ---- names -----------------------------------------------------------------------------------


def _format(api: abi.Api, dtype: DType) -> str:
    dl = dtype.dl()
    size = api.library.ab_dtype_format(dl, None, 0)
    text = C.create_string_buffer(size + 1)
    assert api.library.ab_dtype_format(dl, text, size + 1) == size == len(text.value)
    return text.value.decode()


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_names(api, dtype):
    spellings = [dtype.name]
    if dtype in NUMPY_DTYPES:
        spellings += [dtype.np.str, memoryview(np.zeros(1, dtype.np)).format]
    for text in spellings:
        outcome, dl = api.dtype_parse(text)
        assert outcome.ok, f"{text!r}: {outcome}"
        assert dl.triple() == dtype.dl().triple(), f"{text!r}: {dl.triple()}"
    assert _format(api, dtype) == dtype.name
    assert np.dtype(getattr(ml_dtypes, dtype.name, dtype.name)) == dtype.np


@pytest.mark.parametrize(
    "text", ["", "float", "flot32", ">f4", ">i8", "T{f:x:}", "<V8", "<U3", "int32 ", "|O", "<M8[ns]"]
)
def test_bad_names(api, text):
    outcome, _ = api.dtype_parse(text)
    assert outcome.status in (abi.E_UNSUPPORTED_DTYPE, abi.E_INVALID_ARGUMENT), str(outcome)
    if text.startswith((">", "T{")):
        assert outcome.status == abi.E_UNSUPPORTED_DTYPE


def test_random_names_do_no_harm(api, rng, rounds):
    letters = list("fiubc?ZdTqQ<>|=1248 {}:float")
    for _ in range(rounds(2000)):
        api.dtype_parse("".join(rng.choice(letters, int(rng.integers(0, 9)))))


def test_random_dtypes_format_and_parse_back(api, rng, rounds):
    for _ in range(rounds(500)):
        code, bits, lanes = int(rng.integers(0, 24)), int(rng.integers(0, 256)), int(rng.choice([0, 1, 2, 65535]))
        text = _format(api, DType("", code, bits, "", lanes))
        assert text
        outcome, dl = api.dtype_parse(text)
        assert not outcome.ok or dl.triple() == (code, bits, lanes), (
            f"{(code, bits, lanes)} -> {text!r} -> {dl.triple()}"
        )
