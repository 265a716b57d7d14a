"""Running a function of 2-D arrays on every slice of a 3-D one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from arraybridge._frameworks import FRAMEWORKS
from arraybridge.converters import GPU_IF_ANY, GpuId, detect_memory_type
from arraybridge.stack_utils import stack_slices, unstack_slices


def process_slices(
    image: Any,
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    gpu_id: GpuId = None,
    *,
    device: GpuId = GPU_IF_ANY,
) -> Any:
    """``func(slice, *args, **kwargs)`` of each 2-D slice of ``image``, stacked to a 3-D array again.

    The result is of the framework of ``image`` and, unless ``gpu_id`` names another GPU, where ``image`` is.
    Where ``func`` returns tuples, their first elements are stacked and the others come in lists, one for
    each place of the tuple: ``(stack, [second of each slice], [third of each slice], ...)``.

    Raises ValueError for an image that is not a 3-D array with slices or tuples of several lengths, and
    TypeError where only some results are tuples.
    """
    memory_type = detect_memory_type(image)
    if memory_type is None:
        raise ValueError(f"{type(image).__module__}.{type(image).__name__} is no array of a memory type")
    place = gpu_id if device is GPU_IF_ANY else device
    if place is None:
        place = FRAMEWORKS[memory_type].gpu_of(image)
    results = [func(each, *args, **kwargs) for each in unstack_slices(image, memory_type, place)]
    if not results:
        raise ValueError("There are no slices to process: the image's first axis is empty")
    tuples = [each for each in results if isinstance(each, tuple)]
    if not tuples:
        return stack_slices(results, memory_type, place)
    if len(tuples) != len(results):
        raise TypeError("Some slices gave a tuple and others did not")
    if len({len(each) for each in tuples}) > 1 or not tuples[0]:
        raise ValueError("The tuples that the slices gave are empty or not of one length")
    main, *others = zip(*tuples, strict=True)
    return (stack_slices(main, memory_type, place), *map(list, others))
