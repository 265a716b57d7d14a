"""Stacks of slices, in every framework."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from arraybridge import (
    InvalidMemoryTypeError,
    MemoryConversionError,
    MemoryType,
    detect_memory_type,
    process_slices,
    stack_slices,
    unstack_slices,
)
from arraybridge._frameworks import FRAMEWORKS

from .conftest import SIX, made, module_of, values

SLICES = [np.arange(6, dtype=np.float32).reshape(2, 3) + 10 * index for index in range(4)]


@pytest.fixture(params=[name for name in SIX if name != "cupy"])
def target(request: pytest.FixtureRequest) -> str:
    module_of(request.param)
    return str(request.param)


def test_stack_and_back(host_framework: str, target: str) -> None:
    volume = stack_slices([made(host_framework, each) for each in SLICES], target)
    assert detect_memory_type(volume) == target
    np.testing.assert_array_equal(values(volume), np.stack(SLICES))
    back = unstack_slices(volume, host_framework)
    assert isinstance(back, list)
    assert len(back) == 4
    for each, expected in zip(back, SLICES, strict=True):
        assert detect_memory_type(each) == host_framework
        np.testing.assert_array_equal(values(each), expected)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "float32"])
def test_values_are_exact(host_framework: str, dtype: str) -> None:
    top = np.iinfo(dtype).max if dtype != "float32" else 16777215
    slices = [np.array([[0, 1], [top - 1, top]], dtype), np.array([[top, 2], [3, 4]], dtype)]
    volume = stack_slices([made(host_framework, each) for each in slices], host_framework)
    assert FRAMEWORKS[host_framework].dtype_name(volume) == dtype
    np.testing.assert_array_equal(values(volume), np.stack(slices))
    for each, expected in zip(unstack_slices(volume, host_framework), slices, strict=True):
        np.testing.assert_array_equal(values(each), expected)


def test_slices_of_several_frameworks(target: str) -> None:
    names = [name for name in ("numpy", "torch", "jax", "tensorflow") if module_of(name)]
    volume = stack_slices([made(name, SLICES[0]) for name in names], target)
    np.testing.assert_array_equal(values(volume), np.stack([SLICES[0]] * len(names)))


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [(("uint8", "float32"), "float32"), (("uint8", "int8"), "int16"), (("uint8", "uint16"), "uint16")],
)
def test_dtypes_are_promoted(host_framework: str, dtypes: tuple[str, ...], expected: str) -> None:
    slices = [np.array([[1, 100]], dtype) for dtype in dtypes]
    volume = stack_slices([made(host_framework, each) for each in slices], host_framework)
    assert FRAMEWORKS[host_framework].dtype_name(volume) == expected
    assert values(volume).tolist() == [[[1, 100]], [[1, 100]]]


def test_nothing_is_lost_by_promotion() -> None:
    volume = stack_slices([np.array([[300.75]]), np.array([[44]], np.uint8)], "numpy")
    assert (volume.dtype, volume.tolist()) == (np.float64, [[[300.75]], [[44.0]]])


def test_one_slice_and_documented_spellings() -> None:
    assert stack_slices(SLICES[:1], "numpy", 0).shape == (1, 2, 3)
    assert stack_slices(slices=SLICES, memory_type=MemoryType.NUMPY, gpu_id=0).shape == (4, 2, 3)
    assert stack_slices(SLICES, target_type="numpy").shape == (4, 2, 3)
    assert len(unstack_slices(np.stack(SLICES), target_type="numpy")) == 4
    assert len(unstack_slices(array=np.stack(SLICES), memory_type="numpy", gpu_id=0, validate_slices=False)) == 4


def test_the_result_is_new_memory() -> None:
    volume = stack_slices(SLICES[:1], "numpy")
    assert not np.shares_memory(volume, SLICES[0])


def test_slices_of_an_array_are_views() -> None:
    volume = np.stack(SLICES)
    assert all(np.shares_memory(volume, each) for each in unstack_slices(volume, "numpy", 0))


@pytest.mark.parametrize(
    ("slices", "message"),
    [
        ([], "Cannot stack empty list"),
        ([np.zeros(3)], "index 0 is not a 2D array"),
        ([np.zeros((2, 2)), np.zeros((2, 2, 2))], "index 1 is not a 2D array"),
        ([[1, 2]], "not a 2D array"),
        ([np.zeros((2, 2)), np.zeros((2, 3))], r"index 1 has the shape \(2, 3\)"),
    ],
)
def test_refusals(slices: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stack_slices(slices, "numpy", 0)


def test_refused_places_and_types() -> None:
    for call in (lambda *rest: stack_slices(SLICES, *rest), lambda *rest: unstack_slices(np.stack(SLICES), *rest)):
        with pytest.raises(ValueError, match="Invalid GPU device ID"):
            call("torch", -1)
        with pytest.raises(InvalidMemoryTypeError):
            call("invalid", 0)
        with pytest.raises(MemoryConversionError, match="cupy"):
            call("cupy", None)
    with pytest.raises(ValueError, match="Array must be 3D"):
        unstack_slices(np.zeros((2, 2)), "numpy", 0)
    with pytest.raises(ValueError, match="no array of a memory type"):
        unstack_slices(np.ma.zeros((2, 2, 2)), "numpy", 0)


class TestProcessSlices:
    """A function on every slice."""

    def test_one_result(self, host_framework: str) -> None:
        volume = made(host_framework, np.stack(SLICES))
        result = process_slices(volume, lambda each, factor, add: each * factor + add, (2,), {"add": 1})
        assert detect_memory_type(result) == host_framework
        np.testing.assert_array_equal(values(result), np.stack(SLICES) * 2 + 1)

    def test_several_results(self) -> None:
        result = process_slices(np.stack(SLICES), lambda each: (each + 1, each.sum(), "word"), (), {})
        volume, sums, words = result
        np.testing.assert_array_equal(volume, np.stack(SLICES) + 1)
        assert sums == [each.sum() for each in SLICES]
        assert words == ["word"] * 4

    def test_results_of_another_framework_come_back_as_the_image_is(self) -> None:
        torch = module_of("torch")
        result = process_slices(np.stack(SLICES), torch.from_numpy, (), {})
        assert isinstance(result, np.ndarray)

    def test_refusals(self) -> None:
        volume = np.stack(SLICES)
        with pytest.raises(TypeError, match="tuple"):
            process_slices(volume, lambda each: (each, 1) if each[0, 0] else each, (), {})
        with pytest.raises(ValueError, match="one length"):
            process_slices(volume, lambda each: (each, *range(int(each[0, 0]))), (), {})
        with pytest.raises(ValueError, match="empty"):
            process_slices(volume, lambda each: (), (), {})
        with pytest.raises(ValueError, match="no slices"):
            process_slices(volume[:0], lambda each: each, (), {})
        with pytest.raises(ValueError, match="no array"):
            process_slices([[1]], lambda each: each, (), {})
