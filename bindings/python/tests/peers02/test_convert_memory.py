"""``detect_memory_type`` and ``convert_memory``, with every framework that is here."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

import arraybridge
from arraybridge import (
    HOST,
    AcceleratorDevice,
    InvalidMemoryTypeError,
    MemoryConversionError,
    MemoryType,
    convert_memory,
    detect_memory_type,
)
from arraybridge._frameworks import FRAMEWORKS
from arraybridge.converters_registry import ConverterBase, _validate_registry, get_converter

from .conftest import SIX, made, module_of, values

DTYPES = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "uint64", "float16", "float32",
          "float64", "complex64", "complex128")  # fmt: skip


def has_dtype(name: str, dtype: str) -> bool:
    if name == "pyclesperanto":
        return dtype in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32")
    return name != "jax" or dtype not in ("int64", "uint64", "float64", "complex128")


@pytest.fixture(params=[name for name in SIX if name != "cupy"])
def target(request: pytest.FixtureRequest) -> str:
    module_of(request.param)
    return str(request.param)


def sample(dtype: str, shape: tuple[int, ...] = (2, 3)) -> np.ndarray[Any, Any]:
    return (np.arange(np.prod(shape)).reshape(shape) % 2).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_pair_keeps_values_dtype_and_source(host_framework: str, target: str, dtype: str) -> None:
    if not (has_dtype(host_framework, dtype) and has_dtype(target, dtype)):
        pytest.skip("one of them has no such dtype")
    expected = sample(dtype)
    source = made(host_framework, expected)
    result = convert_memory(source, host_framework, target)
    assert detect_memory_type(result) == target
    assert FRAMEWORKS[target].dtype_name(result) == dtype
    np.testing.assert_array_equal(values(result), expected)
    np.testing.assert_array_equal(values(source), expected)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 4, 5)])
def test_every_rank_that_both_have(host_framework: str, target: str, shape: tuple[int, ...]) -> None:
    expected = sample("float32", shape)
    if "pyclesperanto" in (host_framework, target) and (expected.size == 0 or len(shape) not in (1, 2, 3)):
        if host_framework != "pyclesperanto":
            with pytest.raises(MemoryConversionError, match="pyclesperanto"):
                convert_memory(made(host_framework, expected), host_framework, target)
        return
    result = convert_memory(made(host_framework, expected), host_framework, target)
    assert tuple(result.shape) == shape
    np.testing.assert_array_equal(values(result), expected)


@pytest.mark.parametrize(("name", "dtype"), [("pyclesperanto", "float64"), ("jax", "int64")])
def test_a_dtype_that_the_target_lacks_is_refused_and_never_narrowed(name: str, dtype: str) -> None:
    module_of(name)
    with pytest.raises(MemoryConversionError, match=dtype):
        convert_memory(sample(dtype), "numpy", name)


def test_detection(framework: str) -> None:
    array = made(framework, sample("float32"))
    assert detect_memory_type(array) == framework
    assert detect_memory_type(module_of(framework)) is None


@pytest.mark.parametrize("value", [[1, 2, 3], None, "not an array", 5, object(), np, {"a": np.zeros(2)}, b"bytes"])
def test_anything_else_is_none(value: object) -> None:
    assert detect_memory_type(value) is None


def test_detection_of_relatives() -> None:
    assert detect_memory_type(np.float32(1)) == "numpy"
    assert detect_memory_type(np.ma.masked_array([1, 2], [0, 1])) is None
    assert detect_memory_type(np.matrix([[1]])) == "numpy"
    torch = module_of("torch")

    class Mine(torch.Tensor):  # type: ignore[misc, name-defined]
        """A tensor of a module that is not PyTorch's."""

    assert detect_memory_type(torch.zeros(2).as_subclass(Mine)) == "torch"
    assert detect_memory_type(torch.nn.Parameter(torch.zeros(2))) == "torch"
    for other in (torch.device("cpu"), torch.float32, torch.nn.Linear(1, 1), torch.Size([1])):
        assert detect_memory_type(other) is None


def test_members_and_names_mean_the_same() -> None:
    array = sample("float32")
    for name in SIX:
        if name == "cupy":
            continue
        module_of(name)
        by_name = convert_memory(array, "numpy", name)
        by_member = convert_memory(array, MemoryType.NUMPY, MemoryType(name))
        assert type(by_name) is type(by_member)


WRONG = [("invalid", "numpy"), ("numpy", "invalid"), (None, "numpy"), ("numpy", 7)]


@pytest.mark.parametrize(("source", "target"), WRONG)
def test_invalid_names(source: Any, target: Any) -> None:
    with pytest.raises(InvalidMemoryTypeError, match=r"^Invalid memory type: ") as caught:
        convert_memory(sample("float32"), source, target, gpu_id=0)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, MemoryConversionError)
    assert (caught.value.source_type, caught.value.target_type) == (str(source), str(target))


def test_data_of_another_framework_than_it_says() -> None:
    module_of("torch")
    with pytest.raises(MemoryConversionError, match="numpy, not torch"):
        convert_memory(sample("float32"), "torch", "numpy")
    with pytest.raises(MemoryConversionError, match="list, not numpy"):
        convert_memory([1, 2], "numpy", "numpy")


def test_a_framework_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(MemoryConversionError, match="not available") as caught:
        convert_memory(sample("float32"), "numpy", "cupy")
    error = caught.value
    assert (error.source_type, error.target_type) == ("numpy", "cupy")
    assert error.method
    assert "CuPy is not available" in error.reason
    assert str(error).startswith("Cannot convert from numpy to cupy using")


class TestGpuNumbers:
    """What ``gpu_id`` means, seen by what ``convert`` is asked for."""

    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        asked: list[Any] = []

        def convert(x: Any, to: Any = None, *, device: Any = None, **named: Any) -> Any:
            asked.append((to, device))
            return x

        monkeypatch.setattr(arraybridge, "convert", convert)
        return asked

    @pytest.fixture(params=[0, 2])
    def gpus(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
        for kind in FRAMEWORKS.values():
            if kind.gpu_kind is not None:
                monkeypatch.setattr(kind, "gpu_count", lambda: request.param)
        return int(request.param)

    @pytest.mark.parametrize("target", ["torch", "tensorflow", "jax"])
    def test_not_given(self, asked: list[Any], gpus: int, target: str) -> None:
        convert_memory(sample("float32"), "numpy", target)
        assert asked == [(target, "cuda:0" if gpus else None)]

    @pytest.mark.parametrize(("target", "kind"), [("cupy", "CUDA"), ("pyclesperanto", "OpenCL")])
    def test_not_given_where_there_is_no_host(self, asked: list[Any], gpus: int, target: str, kind: str) -> None:
        if gpus:
            convert_memory(sample("float32"), "numpy", target)
            assert asked == [(target, f"{kind.lower()}:0")]
        else:
            with pytest.raises(MemoryConversionError, match=kind):
                convert_memory(sample("float32"), "numpy", target)

    @pytest.mark.parametrize(("target", "kind"), [(name, "CUDA") for name in SIX[1:5]] + [("pyclesperanto", "OpenCL")])
    @pytest.mark.parametrize("number", [0, 1, 2, -1, True])
    def test_a_number(self, asked: list[Any], gpus: int, target: str, kind: str, number: int) -> None:
        if 0 <= number < gpus and number is not True:
            for where in ({"gpu_id": number}, {"device": number}, {"device": AcceleratorDevice(number)}):
                convert_memory(sample("float32"), "numpy", target, **where)
            assert asked == [(target, f"{kind.lower()}:{number}")] * 3
        elif number is not True:
            with pytest.raises(MemoryConversionError, match=f"no {kind} device {number}; there are: ") as caught:
                convert_memory(sample("float32"), "numpy", target, number)
            assert str(caught.value).endswith("0, 1" if gpus else "none")

    @pytest.mark.parametrize("target", ["torch", "tensorflow", "jax"])
    @pytest.mark.parametrize("host", [None, HOST])
    def test_host(self, asked: list[Any], gpus: int, target: str, host: Any) -> None:
        convert_memory(sample("float32"), "numpy", target, host)
        convert_memory(sample("float32"), "numpy", target, device=host)
        assert asked == [(target, None)] * 2  # where it is
        asked.clear()
        convert_memory(made("torch", sample("float32")), "torch", target, host)
        assert asked == [(target, "cpu")]

    @pytest.mark.parametrize("target", ["cupy", "pyclesperanto"])
    def test_host_of_frameworks_that_have_none(self, asked: list[Any], gpus: int, target: str) -> None:
        with pytest.raises(MemoryConversionError, match="no host memory"):
            convert_memory(sample("float32"), "numpy", target, gpu_id=None)

    @pytest.mark.parametrize("number", [0, 5, -1, None])
    def test_numpy_ignores_it(self, asked: list[Any], gpus: int, number: int | None) -> None:
        convert_memory(sample("float32"), "numpy", "numpy", gpu_id=number)
        assert asked == [("numpy", None)]

    def test_numpy_has_no_accelerators(self, asked: list[Any], gpus: int) -> None:
        with pytest.raises(MemoryConversionError, match="no GPU device 0"):
            convert_memory(sample("float32"), "numpy", "numpy", AcceleratorDevice(0))

    def test_names_of_devices_pass(self, asked: list[Any], gpus: int) -> None:
        convert_memory(sample("float32"), "numpy", "torch", device="cuda:1")
        assert asked == [("torch", "cuda:1")]

    def test_failures_keep_their_cause(self, gpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
        def convert(*args: Any, **named: Any) -> Any:
            raise KeyError("what went wrong")

        monkeypatch.setattr(arraybridge, "convert", convert)
        with pytest.raises(MemoryConversionError, match="what went wrong") as caught:
            convert_memory(sample("float32"), "numpy", "torch")
        assert isinstance(caught.value.__cause__, KeyError)


def test_numpy_to_numpy_is_the_same_array() -> None:
    array = sample("float32")
    assert convert_memory(array, "numpy", "numpy", 0) is array


def test_converters(host_framework: str) -> None:
    array = made(host_framework, sample("float32"))
    converter = get_converter(host_framework)
    assert converter.memory_type == host_framework
    assert type(converter) is ConverterBase.__registry__[host_framework]
    assert type(converter).__name__ == f"{host_framework.capitalize()}Converter"
    assert get_converter(host_framework) is not converter
    np.testing.assert_array_equal(converter.to_numpy(array, 0), sample("float32"))
    back = converter.from_numpy(sample("float32"))
    assert detect_memory_type(back) == host_framework
    np.testing.assert_array_equal(values(converter.move_to_device(back)), sample("float32"))
    if host_framework != "pyclesperanto":
        np.testing.assert_array_equal(values(converter.from_dlpack(np.array([1.0, 2.0], np.float32))), [1, 2])
    member = MemoryType(host_framework)
    assert member.converter.memory_type == host_framework
    np.testing.assert_array_equal(member.to_numpy(array), sample("float32"))


def test_registry_is_checked() -> None:
    _validate_registry()
    assert set(ConverterBase.__registry__) == set(SIX)
    with pytest.raises(ValueError, match="No converter registered"):
        get_converter("invalid")

    class Extra(ConverterBase):
        """One too many."""

        memory_type = "extra"

    try:
        with pytest.raises(RuntimeError, match=r"Missing: \[\].*Extra: \['extra'\]"):
            _validate_registry()
    finally:
        del ConverterBase.__registry__["extra"]
    assert isinstance(Extra(), ConverterBase)


def test_utilities(host_framework: str) -> None:
    from arraybridge.utils import _get_device_id, _move_to_device, _set_device, _supports_cuda_array_interface

    array = made(host_framework, sample("float32"))
    assert arraybridge._supports_dlpack(array)
    assert not _supports_cuda_array_interface(array)
    where = 0 if host_framework == "pyclesperanto" else None
    assert _get_device_id(array, host_framework) == arraybridge._get_device_id(array, host_framework) == where
    if host_framework in ("numpy", "pyclesperanto"):
        _set_device(host_framework, 0)
        np.testing.assert_array_equal(values(_move_to_device(array, host_framework, 0)), sample("float32"))
    elif host_framework == "torch":
        with pytest.raises(MemoryConversionError, match="CUDA"):
            _move_to_device(array, host_framework, 99)
        with pytest.raises(MemoryConversionError, match="99"):
            _set_device(host_framework, 99)
    assert arraybridge._ensure_module(host_framework) is module_of(host_framework)


def test_device_of_something_strange_is_none() -> None:
    assert arraybridge._get_device_id(types.SimpleNamespace(), "torch") is None


def test_placeholders() -> None:
    from arraybridge.utils import _ModulePlaceholder, optional_import

    assert optional_import("numpy") is np
    missing = optional_import("no_such_module_here")
    assert isinstance(missing, _ModulePlaceholder)
    assert not missing
    assert isinstance(missing.ndarray.dtype, _ModulePlaceholder)
    assert repr(missing.ndarray) == "<ModulePlaceholder for 'no_such_module_here.ndarray'>"
    with pytest.raises(ImportError, match=r"no_such_module_here\.zeros.*not available"):
        missing.zeros(3)
    with pytest.raises(ImportError, match="required"):
        arraybridge._ensure_module("no_such_module_here")
