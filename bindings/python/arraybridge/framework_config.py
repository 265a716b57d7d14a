"""The frameworks as a table of arraybridge 0.2's shape: ``_FRAMEWORK_CONFIG[MemoryType.TORCH]["import_name"]``.

What 0.2 had as expressions to evaluate are functions here, of the arguments that their names say. The
work is done elsewhere (``_frameworks``, ``converters``); this is for those who read the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from arraybridge._frameworks import FRAMEWORKS, Framework
from arraybridge.types import CPU_MEMORY_TYPES, MemoryType
from arraybridge.utils import _tensorflow_dlpack_gap


def _numpy_dtype_conversion_needed(first_slice: Any, detect_memory_type_func: Callable[[Any], str | None]) -> bool:
    """Whether a dtype object of ``first_slice`` means nothing to NumPy: PyTorch's do not."""
    return detect_memory_type_func(first_slice) == MemoryType.TORCH.value


def _torch_dtype_conversion_needed(first_slice: Any, detect_memory_type_func: Callable[[Any], str | None]) -> bool:
    """Whether a dtype object may mean nothing to PyTorch: always, its own are unlike all others."""
    return True


def _pyclesperanto_get_device_id(data: Any, mod: Any) -> int:
    """The number of the OpenCL device that ``data`` is on, or else of the current one; 0 if neither says."""
    if mod is None:
        return 0
    for device in (getattr(data, "device", None), mod.get_device()):
        for name in ("index", "id"):
            if isinstance(getattr(device, name, None), int):
                return int(getattr(device, name))
    names = list(map(str, mod.list_available_devices()))
    current = str(mod.get_device())
    return names.index(current) if current in names else 0


def _pyclesperanto_set_device(device_id: int, mod: Any) -> None:
    """Makes an OpenCL device the current one; ValueError if there is no such device."""
    if mod is None:
        return
    count = len(mod.list_available_devices())
    if not 0 <= device_id < count:
        raise ValueError(f"Device {device_id} not available: pyclesperanto sees {count}")
    mod.select_device(device_id)


def _pyclesperanto_move_to_device(data: Any, device_id: int, mod: Any, memory_type: str) -> Any:
    """``data`` on another OpenCL device; itself where it is there already."""
    from arraybridge.utils import _get_device_id, _move_to_device

    if mod is None or _get_device_id(data, memory_type) == device_id:
        return data
    return _move_to_device(data, memory_type, device_id)


def _pyclesperanto_stack_slices(slices: Sequence[Any], memory_type: str, gpu_id: int, mod: Any) -> Any:
    """The slices as one 3-D array; None without the module."""
    from arraybridge.stack_utils import stack_slices

    return None if mod is None else stack_slices(slices, memory_type, gpu_id)


def _jax_assign_slice(result: Any, index: int, slice_data: Any) -> Any:
    """A JAX array with one slice exchanged."""
    return None if result is None else result.at[index].set(slice_data)


def _tensorflow_validate_dlpack(obj: Any, mod: Any) -> bool:
    """Whether TensorFlow has DLPack; RuntimeError, with what is missing, where it is installed and has not."""
    if mod is None:
        return False
    gap = _tensorflow_dlpack_gap(mod)
    if gap is not None:
        raise RuntimeError(f"TensorFlow {gap}")
    return True


def _row(memory_type: MemoryType, kind: Framework) -> dict[str, Any]:
    is_gpu = memory_type not in CPU_MEMORY_TYPES
    arrays = kind.arithmetic
    return {
        "import_name": kind.name,
        "display_name": kind.title,
        "is_gpu": is_gpu,
        "supports_dlpack": memory_type not in (MemoryType.NUMPY, MemoryType.PYCLESPERANTO),  # as 0.2 saw it
        "lazy_getter": (lambda: kind.module) if is_gpu else None,
        "gpu_check": (lambda: kind.gpu_count() > 0) if is_gpu else None,
        "get_device_id": kind.gpu_of if is_gpu else None,
        "set_device": kind.select if is_gpu else None,
        "move_to_device": memory_type.converter.move_to_device if is_gpu else None,
        "cleanup_ops": kind.release if is_gpu else None,
        "conversion_ops": {
            name: getattr(memory_type.converter, name)
            for name in ("to_numpy", "from_numpy", "from_dlpack", "move_to_device")
        },
        "scaling_ops": None
        if arrays is not kind
        else {
            "min": kind.minimum,
            "max": kind.maximum,
            "astype": kind.cast,
            "check_float": lambda name: name.startswith(("float", "bfloat")),
            "check_int": lambda name: name.startswith(("int", "uint")),
            "clamp": kind.clip,
        },
        "has_oom_recovery": is_gpu,
        "oom_exception_types": [f"{{mod}}.{path}" for path in kind.out_of_memory],
        "oom_string_patterns": list(kind.out_of_memory_text),
        "oom_clear_cache": kind.release,
        "needs_dtype_conversion": False,
        "assign_slice": None,
        "stack_handler": None,
        "validate_dlpack": None,
    }


_FRAMEWORK_CONFIG: dict[MemoryType, dict[str, Any]] = {each: _row(each, FRAMEWORKS[each.value]) for each in MemoryType}
_FRAMEWORK_CONFIG[MemoryType.NUMPY]["needs_dtype_conversion"] = _numpy_dtype_conversion_needed
_FRAMEWORK_CONFIG[MemoryType.TORCH]["needs_dtype_conversion"] = _torch_dtype_conversion_needed
_FRAMEWORK_CONFIG[MemoryType.TENSORFLOW]["validate_dlpack"] = _tensorflow_validate_dlpack
_FRAMEWORK_CONFIG[MemoryType.JAX]["assign_slice"] = _jax_assign_slice
_FRAMEWORK_CONFIG[MemoryType.PYCLESPERANTO].update(
    get_device_id=_pyclesperanto_get_device_id,
    set_device=_pyclesperanto_set_device,
    move_to_device=_pyclesperanto_move_to_device,
    stack_handler=_pyclesperanto_stack_slices,
)
