"""What each of the six memory types' frameworks does its own way, one small class each.

Moving arrays is ``convert``'s; here is the rest: the GPUs a framework sees, its streams, its memory, how
it says that memory ran out, and the handful of array operations that stacking and scaling are written in.
Nothing here imports a framework before it is asked to work with one.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, ClassVar

import numpy

from arraybridge import adapters, convert
from arraybridge.errors import InvalidMemoryTypeError
from arraybridge.info import HOST_READABLE
from arraybridge.types import VALID_MEMORY_TYPES, MemoryType
from arraybridge.utils import optional_import


class Framework:
    """One framework. What is defined here is what NumPy needs; the others say where they differ."""

    name: ClassVar[str] = "numpy"
    title: ClassVar[str] = "NumPy"
    gpu_kind: ClassVar[str | None] = None
    """What its GPUs are reached by, "CUDA" or "OpenCL"; None: it has none."""
    has_host: ClassVar[bool] = True
    """Whether it has arrays in host memory."""
    out_of_memory: ClassVar[tuple[str, ...]] = ()
    """Its exceptions that say that memory ran out and nothing else, as paths from the module."""
    out_of_memory_text: ClassVar[tuple[str, ...]] = ("cannot allocate memory", "memory exhausted")
    """What its other exceptions say when memory ran out, in lower case."""

    @property
    def import_name(self) -> str:
        """The name its module is imported by."""
        return adapters.named(self.name).import_name

    @property
    def module(self) -> Any:
        """Its module, imported now if it was not yet."""
        return adapters.named(self.name).module()

    @property
    def loaded(self) -> Any:
        """Its module if something has imported it already, else None."""
        return sys.modules.get(self.import_name)

    # GPUs, numbered as the framework numbers them.

    def gpu_count(self) -> int:
        """How many GPUs it can use now."""
        return 0

    def gpu_of(self, array: Any) -> int | None:
        """The GPU that an array of this framework is on; None for host memory."""
        kind, number = adapters.named(self.name).device_of(array)
        return None if kind in HOST_READABLE else number

    def select(self, gpu: int) -> None:
        """Makes a GPU the current one of this thread, where the framework has a current one."""

    def device(self, gpu: int | None) -> str:
        """How ``convert`` calls GPU ``gpu``, or the host for None."""
        return "cpu" if gpu is None or self.gpu_kind is None else f"{self.gpu_kind.lower()}:{gpu}"

    @contextmanager
    def own_stream(self, arrays: Sequence[Any]) -> Iterator[list[Any]]:
        """Runs the block on this thread's own stream of the arrays' GPU.

        The stream waits for what the caller's stream has been given so far, and afterwards the caller's
        stream waits for it, so that results are safe to use at once; the block adds the arrays it hands
        to the caller to the list. Frameworks without streams of the user's, and arrays on the host, run
        as they are.
        """
        yield []

    # Memory.

    def release(self, gpu: int | None = None) -> None:
        """Hands memory that the framework keeps for later, on one GPU or on all, back to the device."""
        gc.collect()

    def says_out_of_memory(self, error: BaseException) -> bool:
        """Whether ``error``, or one it was raised from, says that memory ran out."""
        kinds: tuple[type[BaseException], ...] = (MemoryError, *self._loaded_types(self.out_of_memory))
        seen: BaseException | None = error
        while seen is not None:
            text = str(seen).lower()
            if isinstance(seen, kinds) or any(part in text for part in self.out_of_memory_text):
                return True
            seen = seen.__cause__
        return False

    def _loaded_types(self, paths: Iterable[str]) -> Iterator[type[BaseException]]:
        for path in paths:
            found = self.loaded
            for part in path.split("."):
                found = getattr(found, part, None)
            if isinstance(found, type) and issubclass(found, BaseException):
                yield found

    # Arrays.

    @property
    def arithmetic(self) -> Framework:
        """The framework whose operations below its arrays are computed with: itself where it has them."""
        return self

    @property
    def xp(self) -> Any:
        """The namespace with the array functions, where it has NumPy's."""
        return numpy

    def dtype_name(self, array: Any) -> str:
        """The name of an array's dtype, as NumPy spells it."""
        return str(array.dtype).rpartition(".")[2]

    def widest_float(self, array: Any) -> str:
        """The widest dtype that scaling can compute in."""
        return "float64"

    def promoted(self, dtypes: Iterable[str]) -> str:
        """The dtype that holds the values of all of these."""
        extra = optional_import("ml_dtypes")  # those that NumPy lacks
        known = [numpy.dtype(getattr(extra, each, None) or each) for each in sorted(dtypes)]
        return str(numpy.result_type(*known).name)

    def stack(self, arrays: Sequence[Any]) -> Any:
        """Arrays of one shape, dtype and device along a new first axis."""
        return self.xp.stack(arrays)

    def unstack(self, array: Any) -> list[Any]:
        """The array's parts along its first axis, views of it where the framework has views."""
        return [array[index] for index in range(int(array.shape[0]))]

    def cast(self, array: Any, dtype: str) -> Any:
        """The array's values in another dtype, as the framework's own cast makes them."""
        return array.astype(dtype)

    def constant(self, value: float | int | bool, dtype: str, like: Any) -> Any:
        """A 0-d array of one dtype, on the device of ``like``."""
        return self.xp.asarray(value, dtype=dtype)

    def where(self, condition: Any, yes: Any, no: Any) -> Any:
        """Elements of ``yes`` where ``condition`` holds and of ``no`` elsewhere."""
        return self.xp.where(condition, yes, no)

    def isfinite(self, array: Any) -> Any:
        """Where a floating array is neither infinite nor NaN."""
        return self.xp.isfinite(array)

    def isnan(self, array: Any) -> Any:
        """Where a floating array is NaN."""
        return self.xp.isnan(array)

    def clip(self, array: Any, low: Any, high: Any) -> Any:
        """The array with each element brought between the bounds."""
        return self.xp.clip(array, low, high)

    def trunc(self, array: Any) -> Any:
        """A floating array rounded towards zero."""
        return self.xp.trunc(array)

    def rint(self, array: Any) -> Any:
        """A floating array rounded to the nearest integer, ties to the even one."""
        return self.xp.rint(array)

    def minimum(self, array: Any) -> float:
        """The least element of an array that has one."""
        return float(array.min())

    def maximum(self, array: Any) -> float:
        """The greatest element of an array that has one."""
        return float(array.max())


class _Streams(threading.local):
    """This thread's streams, by framework and GPU."""

    def __init__(self) -> None:
        self.made: dict[tuple[str, int], Any] = {}


_streams = _Streams()


class CuPy(Framework):
    name = "cupy"
    title = "CuPy"
    gpu_kind = "CUDA"
    has_host = False
    out_of_memory = ("cuda.memory.OutOfMemoryError",)
    out_of_memory_text = ("out of memory", "cuda_error_out_of_memory")

    @property
    def xp(self) -> Any:
        return self.module

    def gpu_count(self) -> int:
        cuda = self.module.cuda
        try:
            return int(cuda.runtime.getDeviceCount())
        except Exception:  # CuPy says that there is no driver, or none that works, by an error
            return 0

    def select(self, gpu: int) -> None:
        self.module.cuda.Device(gpu).use()

    @contextmanager
    def own_stream(self, arrays: Sequence[Any]) -> Iterator[list[Any]]:
        if not arrays:
            yield []
            return
        cuda = self.module.cuda
        gpu = int(arrays[0].device.id)
        with cuda.Device(gpu):
            own = _streams.made.get((self.name, gpu)) or cuda.Stream(non_blocking=True)
            _streams.made[self.name, gpu] = own
            callers = cuda.get_current_stream()
            if callers.ptr == own.ptr:
                yield []
                return
            own.wait_event(callers.record())
            try:
                with own:
                    yield []
            finally:
                callers.wait_event(own.record())

    def release(self, gpu: int | None = None) -> None:
        gc.collect()
        module = self.loaded
        for each in range(self.gpu_count()) if gpu is None else (gpu,):
            with module.cuda.Device(each):
                module.get_default_memory_pool().free_all_blocks()
        module.get_default_pinned_memory_pool().free_all_blocks()

    def constant(self, value: float | int | bool, dtype: str, like: Any) -> Any:
        with self.module.cuda.Device(like.device.id):
            return self.xp.asarray(value, dtype=dtype)


class Torch(Framework):
    name = "torch"
    title = "PyTorch"
    gpu_kind = "CUDA"
    out_of_memory = ("cuda.OutOfMemoryError",)
    out_of_memory_text = ("out of memory", "cuda_error_out_of_memory")

    def gpu_count(self) -> int:
        cuda = self.module.cuda
        return int(cuda.device_count()) if cuda.is_available() else 0

    def gpu_of(self, array: Any) -> int | None:
        return int(array.device.index) if array.is_cuda else None

    def select(self, gpu: int) -> None:
        self.module.cuda.set_device(gpu)

    @contextmanager
    def own_stream(self, arrays: Sequence[Any]) -> Iterator[list[Any]]:
        on_gpu = [each for each in arrays if each.is_cuda]
        if not on_gpu:
            yield []
            return
        cuda = self.module.cuda
        gpu = on_gpu[0].device.index
        own = _streams.made.get((self.name, gpu)) or cuda.Stream(gpu)
        _streams.made[self.name, gpu] = own
        callers = cuda.current_stream(gpu)
        if callers == own:
            yield []
            return
        own.wait_stream(callers)
        for each in on_gpu:  # its memory must not be reused before the own stream is done with it
            each.record_stream(own)
        results: list[Any] = []
        try:
            with cuda.stream(own):
                yield results
        finally:
            callers.wait_stream(own)
            for each in results:
                if each.is_cuda:
                    each.record_stream(callers)

    def release(self, gpu: int | None = None) -> None:
        gc.collect()
        cuda = self.loaded.cuda
        if not cuda.is_initialized():
            return
        for each in range(self.gpu_count()) if gpu is None else (gpu,):
            with cuda.device(each):
                cuda.empty_cache()

    def stack(self, arrays: Sequence[Any]) -> Any:
        return self.module.stack(tuple(arrays))

    def cast(self, array: Any, dtype: str) -> Any:
        return array.to(getattr(self.module, dtype))

    def constant(self, value: float | int | bool, dtype: str, like: Any) -> Any:
        return self.module.tensor(value, dtype=getattr(self.module, dtype), device=like.device)

    def where(self, condition: Any, yes: Any, no: Any) -> Any:
        return self.module.where(condition, yes, no)

    def isfinite(self, array: Any) -> Any:
        return self.module.isfinite(array)

    def isnan(self, array: Any) -> Any:
        return self.module.isnan(array)

    def clip(self, array: Any, low: Any, high: Any) -> Any:
        return array.clamp(low, high)

    def trunc(self, array: Any) -> Any:
        return array.trunc()

    def rint(self, array: Any) -> Any:
        return array.round()


class TensorFlow(Framework):
    name = "tensorflow"
    title = "TensorFlow"
    gpu_kind = "CUDA"
    out_of_memory = ("errors.ResourceExhaustedError",)
    out_of_memory_text = ("out of memory", "resource_exhausted")

    def gpu_count(self) -> int:
        return len(self.module.config.list_logical_devices("GPU"))

    def stack(self, arrays: Sequence[Any]) -> Any:
        return self.module.stack(list(arrays))

    def cast(self, array: Any, dtype: str) -> Any:
        return self.module.cast(array, dtype)

    def dtype_name(self, array: Any) -> str:
        return str(array.dtype.name)

    def constant(self, value: float | int | bool, dtype: str, like: Any) -> Any:
        return self.module.constant(value, dtype=dtype)

    def where(self, condition: Any, yes: Any, no: Any) -> Any:
        return self.module.where(condition, yes, no)

    def isfinite(self, array: Any) -> Any:
        return self.module.math.is_finite(array)

    def isnan(self, array: Any) -> Any:
        return self.module.math.is_nan(array)

    def clip(self, array: Any, low: Any, high: Any) -> Any:
        return self.module.clip_by_value(array, low, high)

    def trunc(self, array: Any) -> Any:
        return self.module.where(array < 0, self.module.math.ceil(array), self.module.math.floor(array))

    def rint(self, array: Any) -> Any:
        return self.module.math.rint(array)

    def minimum(self, array: Any) -> float:
        return float(self.module.reduce_min(array))

    def maximum(self, array: Any) -> float:
        return float(self.module.reduce_max(array))


class Jax(Framework):
    name = "jax"
    title = "JAX"
    gpu_kind = "CUDA"
    out_of_memory_text = ("out of memory", "oom when allocating", "allocation failure", "resource_exhausted")

    @property
    def xp(self) -> Any:
        return self.module.numpy

    def _gpus(self) -> list[Any]:
        try:
            return list(self.module.devices("gpu"))
        except RuntimeError:  # how JAX says that it has none
            return []

    def gpu_count(self) -> int:
        return len(self._gpus())

    def widest_float(self, array: Any) -> str:
        return "float64" if self.module.config.jax_enable_x64 else "float32"

    def promoted(self, dtypes: Iterable[str]) -> str:
        return str(reduce(self.xp.promote_types, sorted(dtypes)))  # without 64-bit types where these are off

    def constant(self, value: float | int | bool, dtype: str, like: Any) -> Any:
        return numpy.asarray(value, dtype=dtype)  # JAX puts it where the other operands are


class Pyclesperanto(Framework):
    name = "pyclesperanto"
    title = "pyclesperanto"
    gpu_kind = "OpenCL"
    has_host = False
    out_of_memory_text = ("cl_mem_object_allocation_failure", "cl_out_of_resources", "out of memory")

    def gpu_count(self) -> int:
        module = self.module  # the prototype has another name for it
        return len(getattr(module, "list_available_devices", module.available_device_names)())

    def select(self, gpu: int) -> None:
        self.module.select_device(gpu)

    @property
    def arithmetic(self) -> Framework:
        return FRAMEWORKS["numpy"]  # its kernels compute in float32 at most

    def _by_float32(self, array: Any) -> bool:
        """Whether its copying kernels, which compute in float32, would change values."""
        return self.dtype_name(array) in ("int32", "uint32")

    def _from_host(self, array: Any, like: Any) -> Any:
        return convert(array, self.name, device=self.device(self.gpu_of(like)))

    def unstack(self, array: Any) -> list[Any]:
        if self._by_float32(array):
            return [self._from_host(each, array) for each in convert(array, "numpy")]
        return super().unstack(array)

    def stack(self, arrays: Sequence[Any]) -> Any:
        first, adapter = arrays[0], adapters.named(self.name)
        if self._by_float32(first):
            return self._from_host(numpy.stack([convert(each, "numpy") for each in arrays]), first)
        shape = (len(arrays), *map(int, first.shape))
        stacked = adapter.allocate(shape, self.dtype_name(first), adapter.device_of(first), None)
        for index, each in enumerate(arrays):
            self.module.copy_slice(each, stacked, index)
        return stacked


FRAMEWORKS: dict[str, Framework] = {
    each.name: each for each in (Framework(), CuPy(), Torch(), TensorFlow(), Jax(), Pyclesperanto())
}


def framework(memory_type: str | MemoryType) -> Framework:
    """The framework of a memory type; ``InvalidMemoryTypeError`` for anything else."""
    return FRAMEWORKS[memory_type_name(memory_type)]


def memory_type_name(memory_type: str | MemoryType) -> str:
    """The name of a memory type; ``InvalidMemoryTypeError`` for anything else."""
    name = memory_type.value if isinstance(memory_type, MemoryType) else memory_type
    if isinstance(name, str) and name in VALID_MEMORY_TYPES:
        return name
    raise InvalidMemoryTypeError(f"Invalid memory type: {name!r}; there are {', '.join(sorted(VALID_MEMORY_TYPES))}")
