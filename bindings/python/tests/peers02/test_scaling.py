"""Dtypes by range (``SCALING_FUNCTIONS``) and by value (``PRESERVE_INPUT``), in every framework."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from arraybridge import SCALING_FUNCTIONS, detect_memory_type
from arraybridge._frameworks import FRAMEWORKS
from arraybridge.dtype_scaling import _SCALING_RANGES, dtype_name, restored

from .conftest import SIX, made, module_of, values

INTEGERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")


def scaled(name: str, array: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    result = SCALING_FUNCTIONS[name](made(name, array), dtype)
    assert detect_memory_type(result) == name
    assert FRAMEWORKS[name].dtype_name(result) == dtype_name(dtype)
    return values(result)


def has(name: str, dtype: str) -> bool:
    return not ("64" in dtype and name in ("jax", "pyclesperanto"))


def test_there_is_one_for_each_memory_type() -> None:
    assert set(SCALING_FUNCTIONS) == set(SIX)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_floats_are_stretched_over_the_whole_range(host_framework: str, dtype: str) -> None:
    if not has(host_framework, dtype):
        pytest.skip("no such dtype")
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    result = scaled(host_framework, np.array([[-3.0, 1.0, 5.0]], np.float32), np.dtype(dtype).type)
    assert int(result[0, 0]) == low
    assert int(result[0, 2]) == high
    middle = low + (high - low) / 2
    assert abs(int(result[0, 1]) - middle) <= max(1, (high - low) * 2.0**-23)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("float64", "uint8", [0, 127, 255]),
        ("float32", "uint16", [0, 32767, 65535]),
        ("float16", "uint16", [0, 32767, 65535]),
        ("float64", "int16", [-32768, 0, 32767]),
        ("float32", "uint32", [0, 2147483647, 4294967295]),
        ("float64", "int32", [-2147483648, 0, 2147483647]),
        ("float32", "int8", [-128, 0, 127]),
    ],
)
def test_known_numbers(source: str, target: str, expected: list[int]) -> None:
    assert scaled("numpy", np.array([0, 0.5, 1], source), target).tolist() == expected


@pytest.mark.parametrize("spelling", [np.uint8, np.dtype("uint8"), "uint8", "torch", "tensorflow", "jax"])
def test_every_spelling_of_a_dtype(spelling: Any) -> None:
    if spelling == "jax":
        spelling = module_of("jax").numpy.uint8
    elif spelling in ("torch", "tensorflow"):
        spelling = module_of(spelling).uint8
    assert scaled("numpy", np.array([0.0, 1.0]), spelling).tolist() == [0, 255]


def test_what_is_not_finite(host_framework: str) -> None:
    array = np.array([[0.0, 1.0, np.nan, np.inf, -np.inf, 0.5]], np.float32)
    result = scaled(host_framework, array, np.uint8)
    assert result[0].tolist() == [0, 255, 0, 255, 0, 127]
    assert scaled(host_framework, np.full((1, 2), np.nan, np.float32), np.uint8).tolist() == [[0, 0]]


def test_huge_values(host_framework: str) -> None:
    array = np.array([[-3e38, 0.0, 3e38]], np.float32)
    assert scaled(host_framework, array, np.uint8).tolist() == [[0, 127, 255]]


def test_a_constant_image_is_cast(host_framework: str) -> None:
    assert scaled(host_framework, np.full((2, 2), 7.9, np.float32), np.uint8).tolist() == [[7, 7], [7, 7]]
    assert scaled(host_framework, np.full((2, 2), 1e9, np.float32), np.int16).tolist() == [[32767, 32767]] * 2


def test_integers_keep_their_values_and_never_wrap(host_framework: str) -> None:
    array = np.array([[0, 1, 300, 65535]], np.uint16)
    assert scaled(host_framework, array, np.uint8).tolist() == [[0, 1, 255, 255]]
    assert scaled(host_framework, array, np.int16).tolist() == [[0, 1, 300, 32767]]
    assert scaled(host_framework, array, np.uint32).tolist() == array.tolist()
    assert scaled(host_framework, array, np.float32).tolist() == array.tolist()
    assert scaled(host_framework, np.array([[-5, 5]], np.int8), np.uint16).tolist() == [[0, 5]]


def test_unsigned_64_bits() -> None:
    array = np.array([0, 2**63, 2**64 - 1], np.uint64)
    assert scaled("numpy", array, np.int64).tolist() == [0, 2**63 - 1, 2**63 - 1]


def test_other_pairs() -> None:
    assert scaled("numpy", np.array([0.5, 2.0], np.float64), np.float32).tolist() == [0.5, 2.0]
    assert scaled("numpy", np.array([True, False]), np.uint8).tolist() == [1, 0]
    assert scaled("numpy", np.array([0, 3], np.uint8), np.bool_).tolist() == [False, True]
    with pytest.raises(TypeError, match="real part"):
        SCALING_FUNCTIONS["numpy"](np.array([1j]), np.uint8)


def test_small_floats_of_machine_learning() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert scaled("numpy", np.array([0, 0.5, 1], ml_dtypes.bfloat16), np.uint8).tolist() == [0, 127, 255]
    torch = module_of("torch")
    result = SCALING_FUNCTIONS["torch"](torch.tensor([0, 0.5, 1], dtype=torch.bfloat16), np.uint16)
    assert (result.dtype, result.tolist()) == (torch.uint16, [0, 32767, 65535])


def test_empty_arrays() -> None:
    for name in ("numpy", "torch", "jax", "tensorflow"):
        module_of(name)
        assert scaled(name, np.zeros((0, 3), np.float32), np.uint8).shape == (0, 3)


@pytest.mark.parametrize("value", ["not an array", 5, None, [1.0, 2.0]])
def test_what_is_no_array_comes_back(value: object) -> None:
    assert SCALING_FUNCTIONS["numpy"](value, np.uint8) is value


def test_without_the_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arraybridge.dtype_scaling.optional_import", lambda name: None)
    array = np.array([0.0, 1.0])
    for function in SCALING_FUNCTIONS.values():
        assert function(array, np.uint8) is array


def test_ranges() -> None:
    assert _SCALING_RANGES["uint8"] == 255.0
    assert _SCALING_RANGES["int16"] == (65535.0, 32768.0)
    assert _SCALING_RANGES["int32"] == (4294967295.0, 2147483648.0)


class TestRestored:
    """What ``PRESERVE_INPUT`` does."""

    def back(self, name: str, result: Any, original: Any) -> list[Any]:
        kept = restored(made(name, np.atleast_2d(result)), original.dtype, name, made(name, np.atleast_2d(original)))
        assert FRAMEWORKS[name].dtype_name(kept) == original.dtype.name
        return list(values(kept)[0].tolist())

    def test_values_are_kept(self, host_framework: str) -> None:
        image = np.array([10, 20, 30], np.uint8)
        assert self.back(host_framework, image.astype(np.float32), image) == [10, 20, 30]
        assert self.back(host_framework, image * np.float32(1.26), image) == [13, 25, 38]

    def test_what_does_not_fit_becomes_the_nearest_that_does(self, host_framework: str) -> None:
        image = np.array([10, 20, 30], np.uint8)
        assert self.back(host_framework, image * np.float32(20) - 210, image) == [0, 190, 255]
        assert self.back(host_framework, np.array([-1, 300, 7], np.int32), image) == [0, 255, 7]

    def test_a_normalised_image_becomes_the_full_range_again(self, host_framework: str) -> None:
        image = np.array([0, 51, 102], np.uint8)
        assert self.back(host_framework, image / np.float32(102), image) == [0, 128, 255]

    def test_a_mask_of_ones_stays_one(self, host_framework: str) -> None:
        mask = np.array([0, 1, 1], np.uint8)
        assert self.back(host_framework, mask.astype(np.float32), mask) == [0, 1, 1]

    def test_complex_results_stay_complex(self) -> None:
        result = np.array([1 + 2j])
        assert restored(result, np.dtype("float64"), "numpy", np.array([1.0])) is result

    def test_floats_to_floats(self, host_framework: str) -> None:
        image = np.array([0.5, 2.0, 3.0], np.float32)
        if host_framework not in ("jax", "pyclesperanto"):
            assert self.back(host_framework, image.astype(np.float64), image) == [0.5, 2.0, 3.0]
        assert self.back(host_framework, np.array([1, 2, 3], np.int32), image) == [1, 2, 3]
