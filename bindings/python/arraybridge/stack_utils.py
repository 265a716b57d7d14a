"""Stacking 2-D slices to one 3-D array of any framework, and taking such an array apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from arraybridge import convert
from arraybridge._frameworks import FRAMEWORKS, framework
from arraybridge.converters import GPU_IF_ANY, GpuId, convert_memory, detect_memory_type
from arraybridge.dtype_scaling import dtype_name
from arraybridge.types import VALID_GPU_MEMORY_TYPES, MemoryType


def _is_2d(data: Any) -> bool:
    """Whether ``data`` has a shape of two axes."""
    return hasattr(data, "shape") and len(data.shape) == 2


def _is_3d(data: Any) -> bool:
    """Whether ``data`` has a shape of three axes."""
    return hasattr(data, "shape") and len(data.shape) == 3


def _enforce_gpu_device_requirements(memory_type: str, gpu_id: GpuId) -> None:
    """ValueError for a negative ``gpu_id`` with a memory type that has GPUs."""
    if memory_type in VALID_GPU_MEMORY_TYPES and isinstance(gpu_id, int) and gpu_id < 0:
        raise ValueError(f"Invalid GPU device ID: {gpu_id}, which must not be negative")


def stack_slices(
    slices: Sequence[Any],
    memory_type: str | MemoryType = MemoryType.NUMPY,
    gpu_id: GpuId = GPU_IF_ANY,
    *,
    target_type: str | MemoryType | None = None,
    device: GpuId = GPU_IF_ANY,
) -> Any:
    """2-D arrays of one shape, of any frameworks, as one new 3-D array ``[slice, row, column]``.

    ``memory_type`` (or ``target_type``) is the framework of the result; ``gpu_id`` and ``device`` say where it
    goes, as for ``convert_memory``. Slices of several dtypes are promoted to one that holds them all.

    Raises ValueError for no slices, for one that is not 2-D or has another shape, and for a negative
    ``gpu_id``; ``MemoryConversionError`` where the conversion fails.
    """
    kind = framework(memory_type if target_type is None else target_type)
    place = gpu_id if device is GPU_IF_ANY else device
    if len(slices) == 0:
        raise ValueError("Cannot stack empty list of slices")
    for index, each in enumerate(slices):
        if not _is_2d(each):
            raise ValueError(f"Slice at index {index} is not a 2D array: {_shape(each)}")
        if tuple(each.shape) != tuple(slices[0].shape):
            raise ValueError(f"Slice at index {index} has the shape {_shape(each)}, the first {_shape(slices[0])}")
    _enforce_gpu_device_requirements(kind.name, place)

    # Stacked where the slices are if they are all in one place: then one array moves, not one per slice.
    found = {detect_memory_type(each) for each in slices}
    source = found.pop() if len(found) == 1 else None
    there = FRAMEWORKS[source] if source is not None else kind
    if source is None or len({there.gpu_of(each) for each in slices}) > 1:
        slices = [convert_memory(each, _known(each), kind.name, place) for each in slices]
        there = kind
    names = {dtype_name(there.dtype_name(each)) for each in slices}
    if len(names) > 1:
        common = there.promoted(names)
        slices = [convert(each, there.name, dtype=common) for each in slices]
    stacked = there.stack(slices)
    return convert_memory(stacked, there.name, kind.name, place)


def unstack_slices(
    array: Any,
    memory_type: str | MemoryType = MemoryType.NUMPY,
    gpu_id: GpuId = GPU_IF_ANY,
    validate_slices: bool = True,
    *,
    target_type: str | MemoryType | None = None,
    device: GpuId = GPU_IF_ANY,
) -> list[Any]:
    """The 2-D slices of a 3-D array along its first axis, as arrays of a framework.

    The array is converted once, as by ``convert_memory``, and the slices are views of the result where the
    framework has views. ``validate_slices`` is there for older callers: a slice of a 3-D array is 2-D.

    Raises ValueError for an array that is not 3-D and for a negative ``gpu_id``, ``MemoryConversionError``
    where the conversion fails.
    """
    kind = framework(memory_type if target_type is None else target_type)
    place = gpu_id if device is GPU_IF_ANY else device
    if not _is_3d(array):
        raise ValueError(f"Array must be 3D: {_shape(array)}")
    _enforce_gpu_device_requirements(kind.name, place)
    volume = convert_memory(array, _known(array), kind.name, place)
    return kind.unstack(volume)


def _known(array: Any) -> str:
    found = detect_memory_type(array)
    if found is None:
        raise ValueError(f"{type(array).__module__}.{type(array).__name__} is no array of a memory type")
    return found


def _shape(data: Any) -> str:
    return str(tuple(data.shape)) if hasattr(data, "shape") else f"{type(data).__name__} has no shape"
