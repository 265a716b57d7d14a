"""Any array to any framework, device, dtype and layout: one call that is right and fast.

    import arraybridge as ab

    ab.convert(x, "torch", dtype="float32")   # shared where it can be, else one pass
    print(ab.plan(x, "jax"))                  # what would be done, and why

Importing this imports NumPy and no other framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _native
from ._names02 import NAMES as _NAMES_02
from ._native import Tensor, asdlpack, convert

if TYPE_CHECKING:
    from .adapters import Adapter as Adapter
    from .adapters import register as register
    from .core import backends as backends
    from .core import detect as detect
    from .core import devices as devices
    from .core import from_dlpack as from_dlpack
    from .core import plan as plan
    from .core import to_host as to_host
    from .errors import (
        BackendUnavailableError as BackendUnavailableError,
    )
    from .errors import (
        CopyRequiredError as CopyRequiredError,
    )
    from .errors import (
        FrameworkNotInstalledError as FrameworkNotInstalledError,
    )
    from .errors import (
        InvalidArgumentError as InvalidArgumentError,
    )
    from .errors import (
        InvalidMemoryTypeError as InvalidMemoryTypeError,
    )
    from .errors import (
        InvalidTensorError as InvalidTensorError,
    )
    from .errors import (
        MemoryConversionError as MemoryConversionError,
    )
    from .errors import (
        ReadOnlyError as ReadOnlyError,
    )
    from .errors import (
        UnsupportedDeviceError as UnsupportedDeviceError,
    )
    from .errors import (
        UnsupportedDtypeError as UnsupportedDtypeError,
    )
    from .errors import (
        UnsupportedLayoutError as UnsupportedLayoutError,
    )
    from .info import Backend as Backend
    from .info import Device as Device
    from .info import Report as Report
    from .info import TensorInfo as TensorInfo
    from .paths import get_cmake_dir as get_cmake_dir
    from .paths import get_include as get_include
    from .paths import get_library as get_library

if TYPE_CHECKING:  # the names of arraybridge 0.2 and 0.5
    from .conversion import ConversionCounters as ConversionCounters
    from .conversion import ConversionObserver as ConversionObserver
    from .conversion import ConversionRecord as ConversionRecord
    from .converters import convert_memory as convert_memory
    from .converters import detect_memory_type as detect_memory_type
    from .decorators import DtypeConversion as DtypeConversion
    from .decorators import SliceBySliceRuntimeParameter as SliceBySliceRuntimeParameter
    from .decorators import cupy as cupy
    from .decorators import jax as jax
    from .decorators import memory_types as memory_types
    from .decorators import numpy as numpy
    from .decorators import pyclesperanto as pyclesperanto
    from .decorators import tensorflow as tensorflow
    from .decorators import torch as torch
    from .decorators import wrap_dtype_preserving_callable as wrap_dtype_preserving_callable
    from .dtype_scaling import SCALING_FUNCTIONS as SCALING_FUNCTIONS
    from .framework_config import _FRAMEWORK_CONFIG as _FRAMEWORK_CONFIG
    from .framework_ops import _FRAMEWORK_OPS as _FRAMEWORK_OPS
    from .gpu_cleanup import cleanup_all_gpu_frameworks as cleanup_all_gpu_frameworks
    from .info import Device as Device
    from .oom_recovery import _execute_with_oom_recovery as _execute_with_oom_recovery
    from .places import HOST as HOST
    from .places import AcceleratorDevice as AcceleratorDevice
    from .places import HostDevice as HostDevice
    from .places import NamedDevice as NamedDevice
    from .slice_processing import process_slices as process_slices
    from .stack_utils import stack_slices as stack_slices
    from .stack_utils import unstack_slices as unstack_slices
    from .types import CPU_MEMORY_TYPES as CPU_MEMORY_TYPES
    from .types import GPU_MEMORY_TYPES as GPU_MEMORY_TYPES
    from .types import SUPPORTED_MEMORY_TYPES as SUPPORTED_MEMORY_TYPES
    from .types import MemoryContractAttribute as MemoryContractAttribute
    from .types import MemoryType as MemoryType
    from .utils import _ensure_module as _ensure_module
    from .utils import _get_device_id as _get_device_id
    from .utils import _supports_dlpack as _supports_dlpack

__version__: str = _native.version()[0]

# Public names, and the modules that they come from when they are first used.
_NAMES: dict[str, str] = {
    **dict.fromkeys(("Adapter", "register"), "arraybridge.adapters"),
    **dict.fromkeys(("backends", "detect", "devices", "from_dlpack", "plan", "to_host"), "arraybridge.core"),
    **dict.fromkeys(
        (
            "BackendUnavailableError",
            "CopyRequiredError",
            "FrameworkNotInstalledError",
            "InvalidArgumentError",
            "InvalidMemoryTypeError",
            "InvalidTensorError",
            "MemoryConversionError",
            "ReadOnlyError",
            "UnsupportedDeviceError",
            "UnsupportedDtypeError",
            "UnsupportedLayoutError",
        ),
        "arraybridge.errors",
    ),
    **dict.fromkeys(("Backend", "Device", "Report", "TensorInfo"), "arraybridge.info"),
    **dict.fromkeys(("get_cmake_dir", "get_include", "get_library"), "arraybridge.paths"),
    **_NAMES_02,
}

__all__ = ["Tensor", "asdlpack", "convert", *_NAMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    module = _NAMES.get(name)
    if module is None:
        raise AttributeError(f"module 'arraybridge' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
