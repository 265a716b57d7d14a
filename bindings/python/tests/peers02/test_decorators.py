"""The decorators: what they declare, convert and keep."""

from __future__ import annotations

import inspect
import pickle
from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import arraybridge
from arraybridge import (
    DtypeConversion,
    InvalidMemoryTypeError,
    MemoryConversionError,
    MemoryType,
    detect_memory_type,
    memory_types,
)
from arraybridge._frameworks import FRAMEWORKS
from arraybridge.decorators import PreserveInputDtypeConfig
from arraybridge.decorators import numpy as numpy_decorator

from .conftest import made, module_of, values

IMAGE = np.arange(12, dtype=np.float32).reshape(3, 4)


@numpy_decorator
def module_level(image: Any) -> Any:
    """Adds one."""
    return image + 1


def decorator(name: str) -> Any:
    return getattr(arraybridge, name)


def test_the_body_and_the_caller_get_the_framework(host_framework: str) -> None:
    seen: list[Any] = []

    def body(image: Any, other: Any, *, third: Any, factor: float) -> Any:
        seen.extend(map(detect_memory_type, (image, other, third)))
        seen.append(factor)
        return image

    for decorate in (decorator(host_framework), decorator(host_framework)()):
        seen.clear()
        result = decorate(body)(IMAGE, made(host_framework, IMAGE), third=IMAGE, factor=2.5)
        assert seen == [host_framework] * 3 + [2.5]
        assert detect_memory_type(result) == host_framework
        np.testing.assert_array_equal(values(result), IMAGE)


def test_types_of_callers(host_framework: str) -> None:
    @decorator(host_framework)(input_type="numpy", output_type="numpy")
    def public(image: Any) -> Any:
        assert detect_memory_type(image) == host_framework
        return image

    assert public.input_memory_type == public.output_memory_type == "numpy"
    assert public.execution_memory_type == host_framework
    result = public(IMAGE)
    assert isinstance(result, np.ndarray)
    np.testing.assert_array_equal(result, IMAGE)


def test_declarations() -> None:
    @numpy_decorator(input_type=MemoryType.TORCH, output_type="cupy")
    def declared(image: Any) -> Any:
        return image

    assert (declared.input_memory_type, declared.output_memory_type) == ("torch", "cupy")
    with pytest.raises(InvalidMemoryTypeError, match="Invalid memory type"):
        numpy_decorator(input_type="invalid")
    with pytest.raises(InvalidMemoryTypeError):
        memory_types("numpy", "invalid")


def test_results_in_containers() -> None:
    torch = module_of("torch")
    pair = namedtuple("pair", "first second")

    @arraybridge.torch(output_type="numpy", input_type=None)
    def several(image: Any, how: Any) -> Any:
        return how(image)

    for how in (lambda x: (x, x + 1), lambda x: [x, x + 1], lambda x: pair(x, x + 1)):
        result = several(IMAGE, how)
        assert type(result) is type(how(torch.zeros(1)))
        assert all(isinstance(each, np.ndarray) for each in result)
        np.testing.assert_array_equal(result[1], IMAGE + 1)
    named = several(IMAGE, lambda x: {"image": x, "count": 3})
    assert isinstance(named["image"], np.ndarray)
    assert named["count"] == 3
    assert several(IMAGE, lambda x: "word") == "word"
    assert several(IMAGE, lambda x: ()) == ()


def test_scalars_and_other_values_stay_what_they_are() -> None:
    module_of("torch")

    @arraybridge.torch
    def weighted(image: Any, weight: Any, *, names: Any) -> Any:
        assert isinstance(weight, np.float64)
        assert names == ["a", "b"]
        return image * float(weight)

    np.testing.assert_array_equal(values(weighted(IMAGE, np.float64(2), names=["a", "b"])), IMAGE * 2)
    assert numpy_decorator(lambda x: x * 2)(5) == 10


def test_a_numpy_scalar_as_the_result_becomes_the_output_type() -> None:
    torch = module_of("torch")
    total = numpy_decorator(output_type="torch")(lambda image: image.sum())(IMAGE)
    assert isinstance(total, torch.Tensor)
    assert total.item() == IMAGE.sum()


def test_methods() -> None:
    torch = module_of("torch")

    class Processor:
        gain = 3

        @arraybridge.torch(input_type="numpy", output_type="numpy")
        def run(self, image: Any) -> Any:
            assert isinstance(image, torch.Tensor)
            return image * self.gain

        @classmethod
        @arraybridge.torch(output_type="numpy")
        def of_class(cls, image: Any) -> Any:
            return image * cls.gain

        @staticmethod
        @arraybridge.torch(output_type="numpy")
        def of_none(image: Any) -> Any:
            return image + 1

    image = np.array([[1, 2]], np.uint8)
    for result in (Processor().run(image), Processor.of_class(image)):
        assert (result.dtype, result.tolist()) == (np.uint8, [[3, 6]])
    assert Processor.of_none(image).tolist() == [[2, 3]]
    assert Processor().run(np.stack([image, image]), slice_by_slice=True).shape == (2, 1, 2)


def test_metadata_and_signature() -> None:
    @numpy_decorator
    def process(image: Any, sigma: float = 1.0, **rest: Any) -> Any:
        """Smooths."""
        return image

    assert process.__name__ == "process"
    assert process.__doc__.startswith("Smooths.")
    assert "slice_by_slice" in process.__doc__
    parameters = inspect.signature(process).parameters
    assert list(parameters) == ["image", "sigma", "slice_by_slice", "dtype_conversion", "dtype_config", "rest"]
    assert parameters["slice_by_slice"].kind is inspect.Parameter.KEYWORD_ONLY
    assert parameters["slice_by_slice"].default is False
    assert pickle.loads(pickle.dumps(module_level)) is module_level


class TestDtypes:
    """The dtype of the first result."""

    def test_members(self) -> None:
        assert {each.name: each.value for each in DtypeConversion} == {
            "PRESERVE_INPUT": "preserve", "NATIVE_OUTPUT": "native", "UINT8": "uint8", "UINT16": "uint16",
            "INT16": "int16", "INT32": "int32", "FLOAT32": "float32", "FLOAT64": "float64",
        }  # fmt: skip
        assert DtypeConversion.UINT16.numpy_dtype is np.uint16
        assert DtypeConversion.PRESERVE_INPUT.numpy_dtype is DtypeConversion.NATIVE_OUTPUT.numpy_dtype is None

    def test_the_input_dtype_is_kept(self, host_framework: str) -> None:
        image = np.array([[10, 20, 30]], np.uint16)

        @decorator(host_framework)
        def widened(each: Any) -> Any:
            kind = FRAMEWORKS[host_framework]
            wide = each.astype(np.float32) if host_framework == "pyclesperanto" else kind.cast(each, "float32")
            return wide + 0.25, wide

        main, other = widened(image)
        assert FRAMEWORKS[host_framework].dtype_name(main) == "uint16"
        assert FRAMEWORKS[host_framework].dtype_name(other) == "float32"
        assert values(main).tolist() == image.tolist()

    @pytest.mark.parametrize("how", ["dtype_conversion", "dtype_config"])
    def test_asked_for_in_the_call(self, how: str) -> None:
        @numpy_decorator
        def halves(image: Any) -> Any:
            return image / 2

        def call(conversion: DtypeConversion) -> Any:
            config = SimpleNamespace(default_dtype_conversion=conversion)
            return halves(np.array([0, 1, 2], np.uint8), **{how: conversion if how == "dtype_conversion" else config})

        assert call(DtypeConversion.NATIVE_OUTPUT).tolist() == [0, 0.5, 1]
        assert call(DtypeConversion.UINT8).tolist() == [0, 127, 255]
        assert call(DtypeConversion.UINT16).tolist() == [0, 32767, 65535]
        assert call(DtypeConversion.FLOAT32).dtype == np.float32
        assert call(DtypeConversion.PRESERVE_INPUT).dtype == np.uint8

    def test_defaults_of_the_decorator_and_of_the_function(self) -> None:
        native = SimpleNamespace(default_dtype_conversion=DtypeConversion.NATIVE_OUTPUT)

        @numpy_decorator(dtype_config_default=native)
        def by_decorator(image: Any) -> Any:
            return image + 0.5

        @numpy_decorator
        def by_function(image: Any, dtype_conversion: Any = DtypeConversion.NATIVE_OUTPUT) -> Any:
            return image + 0.5

        image = np.array([1, 2], np.uint8)
        assert by_decorator(image).tolist() == by_function(image).tolist() == [1.5, 2.5]
        assert by_decorator(image, dtype_config=PreserveInputDtypeConfig()).dtype == np.uint8
        assert by_function(image, dtype_conversion=DtypeConversion.PRESERVE_INPUT).dtype == np.uint8
        with pytest.raises(TypeError, match="DtypeConversionConfig"):
            numpy_decorator(dtype_config_default="uint8")(lambda image: image)

    def test_a_sum_is_not_an_image(self) -> None:
        total = numpy_decorator(lambda image: image.sum())(np.array([200, 200], np.uint8))
        assert total == 400

    def test_conversions_that_fail_are_told(self) -> None:
        complexes = numpy_decorator(lambda image: image * 1j)
        with pytest.raises(TypeError, match="complex"):
            complexes(np.array([1.0, 2.0]), dtype_conversion=DtypeConversion.UINT8)
        assert complexes(np.array([1.0, 2.0])).dtype == np.complex128

    def test_across_frameworks(self) -> None:
        module_of("torch")
        image = np.array([[0, 5, 10]], np.uint16)
        result = arraybridge.torch(output_type="numpy")(lambda each: each.float() * 3)(image)
        assert (result.dtype, result.tolist()) == (np.uint16, [[0, 15, 30]])


class TestSlices:
    """``slice_by_slice``."""

    VOLUME = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

    def test_each_slice_by_itself(self, host_framework: str) -> None:
        shapes = []

        @decorator(host_framework)(output_type="numpy")
        def body(image: Any) -> Any:
            shapes.append(tuple(image.shape))
            return image

        np.testing.assert_array_equal(body(self.VOLUME, slice_by_slice=True), self.VOLUME)
        assert shapes == [(3, 4)] * 2
        shapes.clear()
        body(self.VOLUME)
        body(IMAGE, slice_by_slice=True)
        assert shapes == [(2, 3, 4), (3, 4)]

    def test_defaults(self) -> None:
        shapes = []

        @numpy_decorator(slice_by_slice_default=True)
        def by_decorator(image: Any) -> Any:
            shapes.append(image.shape)
            return image

        @numpy_decorator
        def by_function(volume: Any, slice_by_slice: bool = True) -> Any:
            shapes.append(volume.shape)
            return volume

        by_decorator(self.VOLUME)
        by_function(self.VOLUME)
        by_function(self.VOLUME, slice_by_slice=False)
        by_decorator(self.VOLUME, slice_by_slice=False)
        assert shapes == [(3, 4)] * 4 + [(2, 3, 4)] * 2
        assert inspect.signature(by_decorator).parameters["slice_by_slice"].default is True

    def test_several_results(self) -> None:
        result, sums = numpy_decorator(lambda image: (image + 1, float(image.sum())))(self.VOLUME, slice_by_slice=True)
        np.testing.assert_array_equal(result, self.VOLUME + 1)
        assert sums == [float(each.sum()) for each in self.VOLUME]


class TestMemoryTypes:
    """The plain decorator."""

    def test_the_body_gets_the_input_type_and_the_caller_the_output_type(self) -> None:
        torch = module_of("torch")

        @memory_types("torch", "numpy")
        def body(image: Any, scale: int = 2) -> Any:
            """Doubles."""
            assert isinstance(image, torch.Tensor)
            return image * scale

        assert (body.input_memory_type, body.output_memory_type) == ("torch", "numpy")
        assert (body.__name__, body.__doc__) == ("body", "Doubles.")
        assert isinstance(body(IMAGE), np.ndarray)
        np.testing.assert_array_equal(body(image=IMAGE, scale=3), IMAGE * 3)

    def test_dtypes_are_not_touched(self) -> None:
        assert memory_types("numpy", "numpy")(lambda x: x / 2)(np.array([1, 2], np.uint8)).dtype == np.float64

    def test_none_leaves_arrays_as_they_come(self) -> None:
        torch = module_of("torch")
        keep = memory_types(None, None)(lambda x: x)
        assert isinstance(keep(torch.zeros(2)), torch.Tensor)
        assert keep.input_memory_type is keep.output_memory_type is None

    def test_contracts(self) -> None:
        @memory_types("numpy", "numpy", contract=lambda x: x > 0)
        def doubled(x: Any) -> Any:
            return x * 2

        assert doubled(5) == 10
        with pytest.raises(ValueError, match="Function doubled violated its output contract"):
            doubled(-1)
        for decorate in (memory_types("numpy", "numpy", contract="a note"), numpy_decorator(contract="a note")):
            assert decorate(lambda x: x).__processing_contract__ == "a note"

    def test_contracts_of_frameworks(self) -> None:
        root = numpy_decorator(contract=lambda x: bool((x >= 0).all()))(lambda x: x)
        root(IMAGE)
        with pytest.raises(ValueError, match="contract"):
            root(-IMAGE)


def test_arrays_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = module_of("torch")
    monkeypatch.setattr(FRAMEWORKS["torch"], "gpu_count", lambda: 1)
    tensor = torch.zeros(2, 2)
    seen: list[Any] = []
    arraybridge.torch(lambda *arrays: seen.extend(arrays))(tensor, IMAGE)
    assert seen[0] is tensor
    assert seen[1].device == tensor.device  # beside the tensor, though there is a GPU


def test_a_gpu_that_is_asked_for_and_is_not_there() -> None:
    torch = module_of("torch")
    if torch.cuda.is_available():
        pytest.skip("there is one")
    for arguments in (IMAGE, torch.zeros(2)):
        with pytest.raises(MemoryConversionError, match="CUDA"):
            arraybridge.torch(gpu_id=0)(lambda x: x)(arguments)
    assert arraybridge.torch(gpu_id=None)(lambda x: x)(IMAGE).device.type == "cpu"


def test_subclasses_and_masks() -> None:
    masked = np.ma.masked_array([1.0, 2.0], [0, 1])
    assert numpy_decorator(lambda x: x)(masked) is masked
    module_of("torch")
    with pytest.raises(MemoryConversionError, match="mask"):
        arraybridge.torch(lambda x: x)(masked)


def test_other_frameworks_arrays_are_taken() -> None:
    jax = module_of("jax")
    module_of("torch")
    result = arraybridge.torch(output_type="numpy")(lambda x: x + 1)(jax.numpy.zeros((2, 2)))
    assert result.tolist() == [[1, 1], [1, 1]]


def test_gradients_pass_through_torch() -> None:
    torch = module_of("torch")
    parameter = torch.ones(2, requires_grad=True)
    arraybridge.torch(lambda x: (x * x).sum())(parameter).backward()
    assert parameter.grad.tolist() == [2, 2]
