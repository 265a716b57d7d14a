"""``detect_memory_type`` and ``convert_memory``: detection and conversion by memory type and GPU number."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy

from arraybridge import adapters
from arraybridge._frameworks import Framework, framework, memory_type_name
from arraybridge.conversion import recorded_conversion
from arraybridge.errors import InvalidMemoryTypeError, MemoryConversionError
from arraybridge.info import Device
from arraybridge.places import AcceleratorDevice
from arraybridge.types import VALID_MEMORY_TYPES, MemoryType

GpuId: TypeAlias = "int | str | Device | None"


class _GpuIfAny(int):
    """The default of ``gpu_id``: 0, and the host where there is no GPU 0."""


GPU_IF_ANY = _GpuIfAny(0)


def detect_memory_type(data: Any) -> str | None:
    """The memory type of an array: "numpy", "cupy", "torch", "tensorflow", "jax" or "pyclesperanto".

    None for anything else: lists, modules and devices of these frameworks, arrays of others, and masked
    arrays, whose mask no other framework has. Imports nothing; any thread may call it.
    """
    if isinstance(data, (numpy.ndarray, numpy.generic)):
        return None if isinstance(data, numpy.ma.MaskedArray) else "numpy"
    adapter = adapters.of(data)
    return adapter.name if adapter is not None and adapter.name in VALID_MEMORY_TYPES else None


def is_array(value: Any) -> bool:
    """Whether ``value`` is an array of a framework that is known; scalars are not."""
    return isinstance(value, numpy.ndarray) or (not isinstance(value, numpy.generic) and adapters.of(value) is not None)


def convert_memory(
    data: Any,
    source_type: str | MemoryType,
    target_type: str | MemoryType,
    gpu_id: GpuId = GPU_IF_ANY,
    *,
    device: GpuId = GPU_IF_ANY,
) -> Any:
    """An array of one framework as an array of another, with its dtype and shape.

    ``gpu_id`` is the number of a GPU as the target framework counts them (for pyclesperanto, of an OpenCL
    device), or None for host memory. Not given, it is GPU 0 where the target has one and else its host;
    NumPy ignores it. ``device`` is the same thing under its other name and takes all that ``convert`` does
    as well, ``HOST``, ``AcceleratorDevice(1)`` and "cuda:1" among them.

    The source is never modified. The result shares its memory where the two frameworks can, and is a copy
    where they cannot; a ``ConversionObserver`` is told which.

    Raises ``InvalidMemoryTypeError``, a ValueError, for a name that is no memory type, and
    ``MemoryConversionError``, with the cause, where ``data`` is not of ``source_type``, the target is not
    installed, has no such GPU or dtype, or the conversion fails.
    """
    try:
        source, target = memory_type_name(source_type), framework(target_type)
    except InvalidMemoryTypeError as error:
        _tell(error, str(source_type), str(target_type))
        raise
    found = detect_memory_type(data)
    if found != source:
        it_is = found or f"{type(data).__module__}.{type(data).__name__}"
        raise MemoryConversionError(source, target.name, "detection", f"the data is {it_is}, not {source}")
    try:
        place = placement(target, gpu_id if device is GPU_IF_ANY else device)
        if source == "numpy" and place == "cpu":
            place = None  # it is there, and convert has a shorter way for those who ask for nothing
        return recorded_conversion(data, source, target.name, place)
    except ImportError as error:
        reason = f"{target.title} is not available: {error}"
        raise MemoryConversionError(source, target.name, "import", reason) from error
    except MemoryConversionError as error:
        _tell(error, source, target.name)
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise MemoryConversionError(source, target.name, "convert", reason) from error


def _tell(error: MemoryConversionError, source: str, target: str) -> None:
    """Makes an error say what was being converted."""
    error.source_type, error.target_type = error.source_type or source, error.target_type or target


def placement(target: Framework, gpu_id: GpuId) -> Any:
    """What ``convert`` takes as ``device`` for a ``gpu_id``; MemoryConversionError where there is no such GPU."""
    if target.gpu_kind is None and (gpu_id is None or isinstance(gpu_id, int)):
        return None
    if gpu_id is GPU_IF_ANY and target.has_host and target.gpu_count() == 0:
        gpu_id = None
    if isinstance(gpu_id, Device) and gpu_id.host_readable:
        gpu_id = None
    elif isinstance(gpu_id, AcceleratorDevice):
        gpu_id = gpu_id.index
    if gpu_id is None and target.has_host:
        return "cpu"
    if isinstance(gpu_id, int) and not isinstance(gpu_id, bool):
        count = target.gpu_count()
        if 0 <= gpu_id < count:
            return target.device(gpu_id)
        seen = ", ".join(map(str, range(count))) or "none"
        raise _no_place(target, f"it has no {target.gpu_kind or 'GPU'} device {int(gpu_id)}; there are: {seen}")
    if gpu_id is None:
        raise _no_place(target, f"it has no host memory, only {target.gpu_kind} devices")
    return gpu_id


def _no_place(target: Framework, reason: str) -> MemoryConversionError:
    return MemoryConversionError("", target.name, "device selection", f"{target.title}: {reason}")


__all__ = ["GPU_IF_ANY", "GpuId", "convert_memory", "detect_memory_type", "is_array", "placement"]
