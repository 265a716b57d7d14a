"""Streams, caches and running out of memory, with stand-ins for frameworks that have GPUs."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

import arraybridge
from arraybridge import cleanup_all_gpu_frameworks, gpu_cleanup
from arraybridge._frameworks import _streams
from arraybridge.gpu_cleanup import MEMORY_TYPE_CLEANUP_REGISTRY
from arraybridge.oom_recovery import _clear_cache_for_memory_type, _execute_with_oom_recovery, _is_oom_error

from . import fakes
from .conftest import SIX, module_of


@pytest.fixture(autouse=True)
def fresh_streams() -> Any:
    _streams.made.clear()
    yield
    _streams.made.clear()


class TestStreams:
    """One stream a thread and GPU, ordered with the caller's."""

    def test_torch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        torch, log = fakes.torch(monkeypatch)
        given, made = torch.Tensor(1, "argument"), torch.Tensor(1, "result")

        @arraybridge.torch
        def body(tensor: Any) -> Any:
            log.append("body")
            return made

        assert body(given) is made
        (own,) = [stream.name for stream in _streams.made.values()]
        assert log == [
            f"{own} waits for default1's work",
            f"argument is used on {own}",
            f"enter {own}",
            "body",
            f"leave {own}",
            f"default1 waits for {own}'s work",
            "result is used on default1",
        ]

    def test_cupy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cupy, log = fakes.cupy(monkeypatch)

        @arraybridge.cupy
        def body(array: Any) -> Any:
            log.append(f"body on {cupy.gpus.device}")
            return array

        body(cupy.ndarray(1))
        (own,) = [stream.name for stream in _streams.made.values()]
        assert cupy.gpus.device == 0
        assert log == [
            f"{own} waits for default1's work",
            f"enter {own}",
            "body on 1",
            f"leave {own}",
            f"default1 waits for {own}'s work",
        ]

    @pytest.mark.parametrize("fake", [fakes.torch, fakes.cupy])
    def test_one_a_thread_and_gpu(self, fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        module, log = fake(monkeypatch)
        array = module.Tensor if hasattr(module, "Tensor") else module.ndarray
        body = getattr(arraybridge, module.__name__)(lambda each: None)
        entered = []
        for index in (0, 1, 0, 1):
            body(array(index))
            entered.append(next(line for line in reversed(log) if line.startswith("enter")))
        assert entered[:2] == entered[2:]
        assert len(set(entered)) == 2
        thread = threading.Thread(target=lambda: body(array(0)))
        thread.start()
        thread.join()
        assert next(line for line in reversed(log) if line.startswith("enter")) not in entered

    @pytest.mark.parametrize("fake", [fakes.torch, fakes.cupy])
    def test_decorated_calls_within_decorated_calls(self, fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        module, log = fake(monkeypatch)
        array = module.Tensor if hasattr(module, "Tensor") else module.ndarray
        decorate = getattr(arraybridge, module.__name__)
        inner = decorate(lambda each: each)
        outer = decorate(inner)
        outer(array(0))
        assert sum(line.startswith("enter") for line in log) == 1  # the stream is not entered twice

    @pytest.mark.parametrize("fake", [fakes.torch, fakes.cupy])
    def test_the_caller_waits_also_after_a_failure(self, fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        module, log = fake(monkeypatch)
        array = module.Tensor if hasattr(module, "Tensor") else module.ndarray

        def body(each: Any) -> Any:
            raise KeyError("failed")

        with pytest.raises(KeyError):
            getattr(arraybridge, module.__name__)(body)(array(0))
        assert log[-1].startswith("default0 waits for own")

    def test_tensors_on_the_host_use_no_stream(self, monkeypatch: pytest.MonkeyPatch) -> None:
        torch, log = fakes.torch(monkeypatch)
        arraybridge.torch(lambda each: each)(torch.Tensor(None))
        assert log == []


class TestOutOfMemory:
    """Trying again, after the framework has handed back its cache."""

    @pytest.mark.parametrize(
        ("memory_type", "text"),
        [
            ("torch", "CUDA out of memory. Tried to allocate 2 GiB"),
            ("cupy", "cudaErrorMemoryAllocation: out of memory"),
            ("cupy", "CUDA_ERROR_OUT_OF_MEMORY"),
            ("tensorflow", "RESOURCE_EXHAUSTED: OOM"),
            ("jax", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate"),
            ("pyclesperanto", "CL_MEM_OBJECT_ALLOCATION_FAILURE"),
            ("pyclesperanto", "CL_OUT_OF_RESOURCES"),
            ("numpy", "cannot allocate memory"),
            ("numpy", "memory exhausted"),
        ],
    )
    def test_texts(self, memory_type: str, text: str) -> None:
        assert _is_oom_error(Exception(text), memory_type)
        assert not _is_oom_error(Exception("something else"), memory_type)
        assert _is_oom_error(MemoryError("Unable to allocate 8 GiB"), memory_type)

    def test_unknown_types(self) -> None:
        assert not _is_oom_error(MemoryError("out of memory"), "unknown")
        _clear_cache_for_memory_type("unknown")

    def test_a_conversion_that_ran_out_of_memory(self) -> None:
        try:
            try:
                raise MemoryError
            except MemoryError as cause:
                raise arraybridge.MemoryConversionError("numpy", "torch", "upload", "no room") from cause
        except arraybridge.MemoryConversionError as error:
            assert _is_oom_error(error, "torch")

    def test_classes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fakes.cupy(monkeypatch)
        fakes.torch(monkeypatch)
        for memory_type in ("cupy", "torch"):
            assert _is_oom_error(fakes.OutOfMemory("no words for it"), memory_type)

    @pytest.mark.parametrize(("fake", "freed"), [(fakes.torch, "empty cache of 1"), (fakes.cupy, "free pool of 1")])
    def test_decorated_functions(self, fake: Any, freed: str, monkeypatch: pytest.MonkeyPatch) -> None:
        module, log = fake(monkeypatch)
        array = module.Tensor if hasattr(module, "Tensor") else module.ndarray
        held: list[weakref.ref[Any]] = []

        class Temporary:
            """Memory that the failing call held."""

        def body(each: Any) -> Any:
            temporary = Temporary()
            held.append(weakref.ref(temporary))
            if len(held) < 3:
                raise fakes.OutOfMemory("no room")
            return each

        monkeypatch.setattr(gc, "collect", lambda: log.append(f"alive: {sum(each() is not None for each in held)}"))
        given = array(1)
        assert getattr(arraybridge, module.__name__)(body)(given) is given
        assert len(held) == 3
        assert log.count(freed) == 2
        assert {line for line in log if line.startswith("alive")} == {"alive: 0"}

        held.clear()
        with pytest.raises(fakes.OutOfMemory):
            getattr(arraybridge, module.__name__)(oom_recovery=False)(body)(given)
        assert len(held) == 1

    def test_pyclesperanto_and_numpy(self) -> None:
        calls: list[int] = []

        def body(value: int) -> int:
            calls.append(value)
            if len(calls) < 3:
                raise RuntimeError("CL_OUT_OF_RESOURCES")
            return value

        assert arraybridge.pyclesperanto(body)(5) == 5
        assert len(calls) == 3
        calls.clear()
        with pytest.raises(RuntimeError):
            arraybridge.numpy(body)(5)
        assert len(calls) == 1

    def test_as_often_as_asked(self) -> None:
        calls: list[int] = []

        def fails() -> None:
            calls.append(1)
            raise MemoryError("out of memory")

        for retries in (0, 1, 2, 5):
            calls.clear()
            with pytest.raises(MemoryError, match="out of memory"):
                _execute_with_oom_recovery(fails, "torch", max_retries=retries)
            assert len(calls) == 1 + retries
        calls.clear()

        def other() -> None:
            calls.append(1)
            raise ValueError("not it")

        with pytest.raises(ValueError, match="not it"):
            _execute_with_oom_recovery(other, "torch")
        assert len(calls) == 1
        assert _execute_with_oom_recovery(lambda: "done", "torch") == "done"


class TestCleanup:
    """Handing back caches."""

    def test_every_framework_has_a_function(self) -> None:
        assert set(MEMORY_TYPE_CLEANUP_REGISTRY) == set(SIX)
        for name, function in MEMORY_TYPE_CLEANUP_REGISTRY.items():
            assert function is getattr(gpu_cleanup, f"cleanup_{name}_gpu")
            assert function.__name__ == f"cleanup_{name}_gpu"

    def test_on_all_gpus_or_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _, torch_log = fakes.torch(monkeypatch)
        _, cupy_log = fakes.cupy(monkeypatch)
        cleanup_all_gpu_frameworks()
        assert torch_log == ["empty cache of 0", "empty cache of 1"]
        assert cupy_log == ["free pool of 0", "free pool of 1", "free pinned pool"]
        torch_log.clear()
        gpu_cleanup.cleanup_torch_gpu(device_id=1)
        assert torch_log == ["empty cache of 1"]

    def test_nothing_is_imported_and_nothing_is_raised(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in SIX[1:]:
            monkeypatch.delitem(sys.modules, name, raising=False)
        cleanup_all_gpu_frameworks(0)
        assert not {*SIX[1:]} & set(sys.modules)
        torch, _ = fakes.torch(monkeypatch)

        def fails() -> None:
            raise RuntimeError("the driver is gone")

        torch.cuda.empty_cache = fails
        cleanup_all_gpu_frameworks()
        _clear_cache_for_memory_type("torch")

    def test_with_the_real_ones(self) -> None:
        for name in SIX:
            if name != "cupy":
                module_of(name)
        cleanup_all_gpu_frameworks()
        cleanup_all_gpu_frameworks(0)


def test_selecting_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from arraybridge.utils import _set_device

    torch, _ = fakes.torch(monkeypatch)
    cupy, _ = fakes.cupy(monkeypatch)
    _set_device("torch", 1)
    _set_device("cupy", 1)
    assert torch.gpus.device == cupy.gpus.device == 1
    assert arraybridge._get_device_id(torch.Tensor(1), "torch") == 1
    assert arraybridge._get_device_id(torch.Tensor(None), "torch") is None
    assert arraybridge._get_device_id(cupy.ndarray(1), "cupy") == 1
    assert arraybridge._get_device_id(SimpleNamespace(), "cupy") is None
