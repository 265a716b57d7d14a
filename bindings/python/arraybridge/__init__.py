"""Any array to any framework, device, dtype and layout: one call that is right and fast.

    import arraybridge as ab

    ab.convert(x, "torch", dtype="float32")   # shared where it can be, else one pass
    print(ab.plan(x, "jax"))                  # what would be done, and why

Importing this imports NumPy and no other framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _native
from ._native import Tensor, asdlpack, convert
from ._names02 import NAMES as _NAMES_02

if TYPE_CHECKING:
    from .adapters import Adapter, register
    from .core import backends, detect, devices, from_dlpack, plan, to_host
    from .errors import (
        BackendUnavailableError,
        CopyRequiredError,
        FrameworkNotInstalledError,
        InvalidArgumentError,
        InvalidMemoryTypeError,
        InvalidTensorError,
        MemoryConversionError,
        ReadOnlyError,
        UnsupportedDeviceError,
        UnsupportedDtypeError,
        UnsupportedLayoutError,
    )
    from .info import Backend, Report, TensorInfo
    from .paths import get_cmake_dir, get_include, get_library

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
