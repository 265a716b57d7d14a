"""Stand-ins for frameworks with GPUs, which write down what is asked of them, in order."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Log(list[str]):
    """What was asked, as short lines."""


class Stream:
    """A stream whose work is only noted."""

    made = 0

    def __init__(self, log: Log, device: int, name: str | None = None, **named: Any) -> None:
        if name is None:
            Stream.made += 1
            name = f"own{Stream.made}"
        self.log, self.device, self.name, self.ptr = log, device, name, id(self)

    def record(self) -> str:
        return f"{self.name}'s work"

    def wait_event(self, event: str) -> None:
        self.log.append(f"{self.name} waits for {event}")

    def wait_stream(self, other: Stream) -> None:
        self.wait_event(other.record())


class Gpus:
    """Two GPUs, one of them current, each with a current stream."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.device = 0
        self.current = {index: Stream(log, index, f"default{index}") for index in range(2)}

    @contextmanager
    def on(self, index: int) -> Iterator[None]:
        before, self.device = self.device, index
        try:
            yield
        finally:
            self.device = before

    @contextmanager
    def within(self, stream: Stream) -> Iterator[None]:
        before, self.current[stream.device] = self.current[stream.device], stream
        self.log.append(f"enter {stream.name}")
        try:
            yield
        finally:
            self.current[stream.device] = before
            self.log.append(f"leave {stream.name}")


class OutOfMemory(RuntimeError):
    """What a framework raises when its memory ran out."""


class DriverFailure(RuntimeError):
    """What a framework raises for every other failure of the driver."""


def cupy(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, Log]:
    """A module like CuPy, put where the real one would be."""
    log = Log()
    gpus = Gpus(log)

    class FakeStream(Stream):
        def __init__(self, **named: Any) -> None:
            super().__init__(log, gpus.device, **named)

        def __enter__(self) -> None:
            self.scope = gpus.within(self)
            self.scope.__enter__()

        def __exit__(self, *error: Any) -> None:
            self.scope.__exit__(None, None, None)

    def device(index: int | None = None) -> Any:
        scope = gpus.on(gpus.device if index is None else index)
        scope.id = gpus.device if index is None else index  # type: ignore[attr-defined]
        scope.use = lambda: setattr(gpus, "device", index)  # type: ignore[attr-defined]
        return scope

    class ndarray:
        """An array that is only its device."""

        def __init__(self, index: int) -> None:
            self.device = SimpleNamespace(id=index)
            self.shape = (2, 2)
            self.dtype = "float32"

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, self.device.id

    ndarray.__module__ = "cupy"
    module = ModuleType("cupy")
    pool = SimpleNamespace(free_all_blocks=lambda: log.append(f"free pool of {gpus.device}"))
    pinned = SimpleNamespace(free_all_blocks=lambda: log.append("free pinned pool"))
    runtime = SimpleNamespace(getDeviceCount=lambda: 2, CUDARuntimeError=DriverFailure, is_hip=False)
    module.__dict__.update(
        ndarray=ndarray,
        gpus=gpus,
        get_default_memory_pool=lambda: pool,
        get_default_pinned_memory_pool=lambda: pinned,
        cuda=SimpleNamespace(
            Device=device,
            Stream=FakeStream,
            get_current_stream=lambda: gpus.current[gpus.device],
            runtime=runtime,
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemory),
        ),
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module, log


def torch(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, Log]:
    """A module like PyTorch, put where the real one would be."""
    log = Log()
    gpus = Gpus(log)

    class Tensor:
        """A tensor that is only its device."""

        def __init__(self, index: int | None, name: str = "tensor") -> None:
            self.device = SimpleNamespace(index=index)
            self.is_cuda = index is not None
            self.name = name
            self.shape = (2, 2)
            self.dtype = "torch.float32"

        def record_stream(self, stream: Stream) -> None:
            log.append(f"{self.name} is used on {stream.name}")

    Tensor.__module__ = "torch"
    module = ModuleType("torch")
    module.__dict__.update(
        Tensor=Tensor,
        gpus=gpus,
        cuda=SimpleNamespace(
            Stream=lambda index: Stream(log, index),
            current_stream=lambda index: gpus.current[index],
            stream=gpus.within,
            device=gpus.on,
            device_count=lambda: 2,
            is_available=lambda: True,
            is_initialized=lambda: True,
            empty_cache=lambda: log.append(f"empty cache of {gpus.device}"),
            set_device=lambda index: setattr(gpus, "device", index),
            OutOfMemoryError=OutOfMemory,
        ),
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    return module, log
