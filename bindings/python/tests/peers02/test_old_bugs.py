"""What went wrong in arraybridge 0.2, each thing once: none of it happens here."""

from __future__ import annotations

import inspect
import logging
import sys
from typing import Any

import numpy as np
import pytest

import arraybridge
from arraybridge import (
    SCALING_FUNCTIONS,
    DtypeConversion,
    MemoryConversionError,
    convert_memory,
    detect_memory_type,
    gpu_cleanup,
    stack_slices,
)
from arraybridge._frameworks import FRAMEWORKS
from arraybridge.oom_recovery import _is_oom_error

from . import fakes
from .conftest import SIX, made, module_of, values

IMAGE = np.array([[10, 20, 30]], np.uint8)


def test_01_jax_to_numpy_is_no_name_error() -> None:
    array = made("jax", IMAGE)
    np.testing.assert_array_equal(convert_memory(array, "jax", "numpy"), IMAGE)


def test_02_the_gpu_is_the_one_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy, _ = fakes.cupy(monkeypatch)
    asked: list[Any] = []
    monkeypatch.setattr(arraybridge, "convert", lambda x, to, *, device: asked.append((to, device)))
    convert_memory(IMAGE, "numpy", "cupy", 1)
    convert_memory(cupy.ndarray(0), "cupy", "cupy", 1)
    arraybridge.utils._move_to_device(cupy.ndarray(0), "cupy", 1)
    assert asked == [("cupy", "cuda:1")] * 3


def test_03_cleanup_frees_what_a_loaded_framework_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    _, log = fakes.torch(monkeypatch)
    gpu_cleanup.cleanup_torch_gpu(1)
    assert log == ["empty cache of 1"]
    assert "clear_caches" not in inspect.getsource(type(FRAMEWORKS["jax"]))  # those are compiled functions


def test_04_torch_results_have_the_input_dtype() -> None:
    torch = module_of("torch")
    for dtype in (torch.uint8, torch.int16, torch.int32, torch.float64, torch.float16):
        image = torch.tensor([[10, 20, 30]], dtype=dtype)
        assert arraybridge.torch(lambda each: each.float())(image).dtype == dtype
    for name in ("uint16", "uint32"):
        scaled = SCALING_FUNCTIONS["torch"](torch.tensor([0.0, 1.0]), getattr(np, name))
        assert scaled.dtype == getattr(torch, name)


def test_05_scaling_reaches_the_ends_and_wraps_nowhere() -> None:
    scale = SCALING_FUNCTIONS["numpy"]
    for source in (np.float16, np.float32, np.float64):
        for target in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
            ends = scale(np.array([0, 1], source), np.dtype(target).type)
            assert ends.tolist() == [np.iinfo(target).min, np.iinfo(target).max]
    assert scale(np.array([np.nan, 0, 1]), np.uint8).tolist() == [0, 0, 255]
    assert scale(np.array([300], np.uint16), np.uint8).tolist() == [255]
    assert arraybridge.numpy(lambda each: each.astype(np.float32))(IMAGE).tolist() == IMAGE.tolist()


def test_06_calls_without_configuration_and_decorators_without_the_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    assert arraybridge.numpy(lambda each: each)(IMAGE) is IMAGE
    monkeypatch.setitem(sys.modules, "cupy", None)
    decorated = arraybridge.cupy(lambda each: each)
    assert decorated(5) == 5
    with pytest.raises(MemoryConversionError, match="not available"):
        decorated(IMAGE)


def test_07_stacks_in_every_framework_lose_nothing(host_framework: str) -> None:
    slices = [made(host_framework, IMAGE) for _ in range(3)]
    np.testing.assert_array_equal(values(stack_slices(slices, host_framework)), np.stack([IMAGE] * 3))
    assert stack_slices([np.array([[300.7]]), np.array([[44]], np.uint8)], "numpy").max() == 300.7
    if host_framework == "torch":
        assert isinstance(stack_slices(slices, "numpy"), np.ndarray)


def test_08_shared_where_it_is_said_and_no_warnings(caplog: pytest.LogCaptureFixture) -> None:
    torch = module_of("torch")
    image = np.zeros((4, 4), np.float32)
    with caplog.at_level(logging.DEBUG):
        tensor = convert_memory(image, "numpy", "torch", None)
        back = convert_memory(tensor, "torch", "numpy")
        for name in SIX:
            if name != "cupy":
                module_of(name)
                convert_memory(image, "numpy", name)
    assert isinstance(tensor, torch.Tensor)
    image[0, 0] = 5
    assert float(tensor[0, 0]) == 5
    assert np.shares_memory(back, image)
    assert [record for record in caplog.records if record.name.startswith("arraybridge")] == []


def test_09_tensorflow_on_the_host_goes_everywhere() -> None:
    tensor = made("tensorflow", IMAGE)
    assert arraybridge._supports_dlpack(tensor) is True
    for name in SIX:
        if name != "cupy":
            module_of(name)
            np.testing.assert_array_equal(values(convert_memory(tensor, "tensorflow", name)), IMAGE)


def test_10_streams_are_ordered_and_entered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    torch, log = fakes.torch(monkeypatch)
    inner = arraybridge.torch(lambda each: each)
    arraybridge.torch(inner)(torch.Tensor(0))
    waits = [index for index, line in enumerate(log) if " waits for " in line]
    enters = [index for index, line in enumerate(log) if line.startswith(("enter", "leave"))]
    assert len(waits) == len(enters) == 2
    assert waits[0] < enters[0] < enters[1] < waits[1]
    assert any("is used on" in line for line in log)


def test_11_detection_looks_at_what_a_thing_is() -> None:
    torch = module_of("torch")

    class Mine(torch.Tensor):  # type: ignore[misc, name-defined]
        """Defined outside of PyTorch."""

    assert detect_memory_type(torch.zeros(1).as_subclass(Mine)) == "torch"
    for other in (torch.nn.Linear(1, 1), torch.device("cpu"), np.ma.masked_array([1], [1]), np.dtype("f4")):
        assert detect_memory_type(other) is None


def test_12_only_out_of_memory_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.cupy(monkeypatch)
    assert not _is_oom_error(fakes.DriverFailure("cudaErrorIllegalAddress: an illegal memory access"), "cupy")
    tensorflow = module_of("tensorflow")
    assert not _is_oom_error(tensorflow.errors.InvalidArgumentError(None, None, "shapes differ"), "tensorflow")
    assert _is_oom_error(tensorflow.errors.ResourceExhaustedError(None, None, "no words for it"), "tensorflow")
    calls: list[int] = []

    def faulting(each: Any) -> Any:
        calls.append(1)
        raise fakes.DriverFailure("illegal memory access")

    with pytest.raises(fakes.DriverFailure):
        arraybridge.cupy(faulting)(5)
    assert len(calls) == 1


def test_13_jax_devices_by_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    module_of("jax")

    class Gpu:
        platform, id, local_hardware_id = "gpu", 1, 1

        def __str__(self) -> str:
            return "cuda:1"

    Gpu.__module__ = "jaxlib"

    class ArrayImpl:
        def devices(self) -> set[Any]:
            return {Gpu()}

    ArrayImpl.__module__ = "jaxlib"
    assert arraybridge._get_device_id(ArrayImpl(), "jax") == 1
    assert arraybridge._get_device_id(made("jax", IMAGE), "jax") is None


def test_14_nothing_is_evaluated() -> None:
    for name in ("_frameworks", "converters", "converters_registry", "decorators", "dtype_scaling", "framework_config",
                 "gpu_cleanup", "oom_recovery", "stack_utils", "utils"):  # fmt: skip
        source = inspect.getsource(__import__(f"arraybridge.{name}", fromlist=[name]))
        assert "eval(" not in source
        assert "exec(" not in source
    assert DtypeConversion("uint8") is DtypeConversion.UINT8
