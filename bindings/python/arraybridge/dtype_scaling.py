"""Changing dtypes by value and by range, in each framework's own operations on the array's own device.

Two rules for floating values that become integers. ``SCALING_FUNCTIONS`` stretch: the least value becomes
the least integer and the greatest the greatest. ``restored`` keeps: a value becomes the nearest integer.
Neither ever wraps around: what does not fit becomes the nearest integer that does, NaN becomes 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy

from arraybridge._frameworks import FRAMEWORKS, Framework, framework
from arraybridge.converters import GPU_IF_ANY, GpuId, convert_memory, detect_memory_type, is_array
from arraybridge.types import MemoryType
from arraybridge.utils import optional_import

_INTEGERS: dict[str, tuple[int, int]] = {
    name: (int(numpy.iinfo(name).min), int(numpy.iinfo(name).max))
    for name in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
}

_SCALING_RANGES: dict[str, float | tuple[float, float]] = {
    name: (float(high - low), float(-low)) if low else float(high) for name, (low, high) in _INTEGERS.items()
}
"""The width of each integer dtype's range, with, for signed ones, what is subtracted after scaling to it."""


def dtype_name(dtype: Any) -> str:
    """The name, as NumPy spells it, of a dtype of NumPy or of any of the frameworks."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    text = name if isinstance(name, str) else str(dtype).rpartition(".")[2]
    try:
        return str(numpy.dtype(text).name)  # "float" is "float64"
    except TypeError:
        return text


def is_floating(name: str) -> bool:
    """Whether a dtype's name is that of real floating numbers, small ones of machine learning included."""
    return name.startswith(("float", "bfloat"))


def _scale_generic(result: Any, target_dtype: Any, mem_type: str | MemoryType) -> Any:
    """``result`` in another dtype, as an array of ``mem_type``.

    Floating values that become integers are stretched over the whole range of the dtype, by the least and
    the greatest finite value; fractions are cut off. An array of one value, and every other pair of
    dtypes, is cast by value. What is no array, or any without the framework, comes back as it is.
    """
    kind = framework(mem_type)
    if not optional_import(kind.name) or not (is_array(result) or isinstance(result, numpy.generic)):
        return result
    name = dtype_name(target_dtype)
    if name in _INTEGERS and is_floating(_dtype_of(result, kind)):
        return _computed(result, kind, lambda ops, array: _stretched(ops, array, name))
    return _computed(result, kind, lambda ops, array: _by_value(ops, array, name, ops.trunc))


def restored(result: Any, dtype: Any, mem_type: str | MemoryType, original: Any) -> Any:
    """``result``, which was computed from ``original``, in the dtype of ``original``.

    Values stay what they are, rounded to the nearest integer for integer dtypes: contrast is not changed.
    Floating values from 0 to 1, where ``original`` went beyond that, are those of a normalised image:
    for an integer dtype, 1 becomes its greatest value. A complex result stays complex.
    """
    kind = framework(mem_type)
    name = dtype_name(dtype)
    before = _dtype_of(result, kind)
    if before == name or (before.startswith("complex") and not name.startswith("complex")):
        return result

    def compute(ops: Framework, array: Any) -> Any:
        if name in _INTEGERS and is_floating(before):
            limits = _finite_limits(ops, array)
            if limits is not None and limits[0] >= 0 and limits[1] <= 1 and _goes_beyond_one(original):
                array = ops.cast(array, ops.widest_float(array)) * float(_INTEGERS[name][1])
        return _by_value(ops, array, name, ops.rint)

    return _computed(result, kind, compute)


def _dtype_of(array: Any, kind: Framework) -> str:
    return dtype_name(array.dtype) if detect_memory_type(array) != kind.name else kind.dtype_name(array)


def _computed(array: Any, kind: Framework, compute: Callable[[Framework, Any], Any]) -> Any:
    """``compute`` of the array, in the operations of ``kind``, as an array of ``kind`` where it was."""
    found = detect_memory_type(array)
    if kind.arithmetic is kind:
        return compute(kind, array if found in (None, kind.name) else convert_memory(array, found, kind.name))
    gpu: GpuId = kind.gpu_of(array) if found == kind.name else GPU_IF_ANY
    ops = kind.arithmetic
    there = array if found in (None, ops.name) else convert_memory(array, found, ops.name)
    return convert_memory(compute(ops, there), ops.name, kind.name, gpu)


def _stretched(ops: Framework, array: Any, name: str) -> Any:
    limits = _finite_limits(ops, array)
    work = ops.cast(array, ops.widest_float(array))
    if limits is None or limits[0] == limits[1]:
        return _saturated(ops, work, name)
    low, high = limits
    if max(abs(low), abs(high)) > 1e30:  # so that the difference of the limits is finite, in float32 too
        work, low, high = work * 2.0**-60, low * 2.0**-60, high * 2.0**-60
    first, last = _INTEGERS[name]
    unit = (work - low) / (high - low)
    return _saturated(ops, unit * float(last - first) + float(first), name)


def _by_value(ops: Framework, array: Any, name: str, rounding: Callable[[Any], Any]) -> Any:
    before = ops.dtype_name(array)
    if before.startswith("complex") and not name.startswith("complex"):
        raise TypeError(f"complex values have no {name}: take the real part or the magnitude first")
    if name not in _INTEGERS:
        return array != 0 if name == "bool" else ops.cast(array, name)
    if is_floating(before):
        return _saturated(ops, rounding(ops.cast(array, ops.widest_float(array))), name)
    if before not in _INTEGERS:
        return ops.cast(array, name)
    low, high = (max(_INTEGERS[before][0], _INTEGERS[name][0]), min(_INTEGERS[before][1], _INTEGERS[name][1]))
    return ops.cast(ops.clip(array, low, high) if (low, high) != _INTEGERS[before] else array, name)


def _saturated(ops: Framework, work: Any, name: str) -> Any:
    """Floating values as integers, towards zero, those beyond the dtype's range as its ends and NaN as 0."""
    first, last = _INTEGERS[name]
    top = float(last)
    if top > last:  # the end of the range is no floating number: the one below it is the last to be cast
        top = math.nextafter(top, 0)
    floats = ops.dtype_name(work)
    if floats == "float32":
        top = float(numpy.float32(last))
        top = float(numpy.nextafter(numpy.float32(top), numpy.float32(0))) if top > last else top
    numbers = ops.where(ops.isnan(work), ops.constant(0.0, floats, work), work)
    whole = ops.cast(ops.clip(numbers, float(first), top), name)
    return ops.where(numbers > top, ops.constant(last, name, work), whole)


def _finite_limits(ops: Framework, array: Any) -> tuple[float, float] | None:
    """The least and the greatest finite value of a floating array; None where it has none."""
    if 0 in tuple(array.shape):
        return None
    work = ops.cast(array, ops.widest_float(array))
    finite = ops.isfinite(work)
    floats = ops.dtype_name(work)
    low = ops.minimum(ops.where(finite, work, ops.constant(math.inf, floats, work)))
    high = ops.maximum(ops.where(finite, work, ops.constant(-math.inf, floats, work)))
    return (low, high) if low <= high else None


def _goes_beyond_one(original: Any) -> bool:
    """Whether an array of integers has a value above 1."""
    found = detect_memory_type(original)
    if found is None or 0 in tuple(original.shape):
        return False
    ops = FRAMEWORKS[found].arithmetic
    there = original if found == ops.name else convert_memory(original, found, ops.name)
    return ops.maximum(ops.cast(there, ops.widest_float(there))) > 1


SCALING_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    each.value: partial(_scale_generic, mem_type=each) for each in MemoryType
}
"""For each memory type, ``scale(result, target_dtype)``: the array in another dtype, stretched over its range."""
