"""Optional modules, what an object can be exchanged by, and moving arrays between a framework's devices."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from arraybridge.errors import MemoryConversionError
from arraybridge.types import MemoryType

logger = logging.getLogger(__name__)

_OLDEST_TENSORFLOW = (2, 12)


class _ModulePlaceholder:
    """Stands for a module that is not installed: false, with any attribute, and ImportError when called."""

    def __init__(self, module_name: str) -> None:
        self._module_name = module_name

    def __bool__(self) -> bool:
        return False

    def __getattr__(self, name: str) -> _ModulePlaceholder:
        if name.startswith("__"):  # protocols are probed for, and a placeholder has none
            raise AttributeError(name)
        return _ModulePlaceholder(f"{self._module_name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise ImportError(f"{self._module_name!r} is not available: install the package that has it")

    def __repr__(self) -> str:
        return f"<ModulePlaceholder for {self._module_name!r}>"


def optional_import(module_name: str) -> Any:
    """The module, or, where it cannot be imported, a placeholder that is false.

    A placeholder takes any attribute, so that annotations such as ``cp.ndarray`` work without the
    package; calling one raises ImportError.
    """
    try:
        return importlib.import_module(module_name)
    except (ImportError, AttributeError):
        return _ModulePlaceholder(module_name)


def _ensure_module(module_name: str) -> Any:
    """The module, imported.

    Raises ImportError where it is not installed, RuntimeError for a TensorFlow older than 2.12.
    """
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ImportError(f"{module_name} is required here and cannot be imported: {error}") from error
    if module_name == "tensorflow" and _is_old(module):
        raise RuntimeError(f"TensorFlow version {module.__version__} is not supported: {_AT_LEAST}")
    return module


_AT_LEAST = "2.12.0 or higher is required"


def _is_old(tensorflow: Any) -> bool:
    numbers = tensorflow.__version__.split(".")[:2]
    return all(part.isdigit() for part in numbers) and tuple(map(int, numbers)) < _OLDEST_TENSORFLOW


def _tensorflow_dlpack_gap(tensorflow: Any) -> str | None:
    """Why this TensorFlow has no DLPack, or None: it has."""
    if _is_old(tensorflow):
        return f"{tensorflow.__version__} does not support stable DLPack: {_AT_LEAST}"
    if not hasattr(tensorflow.experimental, "dlpack"):
        return "installation missing experimental.dlpack"
    return None


def _supports_cuda_array_interface(obj: Any) -> bool:
    """Whether ``obj`` offers ``__cuda_array_interface__``."""
    return hasattr(obj, "__cuda_array_interface__")


def _supports_dlpack(obj: Any) -> bool:
    """Whether ``obj`` can be exported by DLPack, on whatever device it is.

    Raises RuntimeError, with what is missing, for a tensor of a TensorFlow that has no DLPack.
    """
    if not any(hasattr(obj, name) for name in ("__dlpack__", "toDlpack", "to_dlpack")):
        return False
    if type(obj).__module__.partition(".")[0] == "tensorflow":
        gap = _tensorflow_dlpack_gap(importlib.import_module("tensorflow"))
        if gap is not None:
            raise RuntimeError(f"TensorFlow {'version ' if gap[0].isdigit() else ''}{gap}")
    return True


def _get_device_id(data: Any, memory_type: str | MemoryType) -> int | None:
    """The GPU that ``data``, an array of ``memory_type``, is on: None for host memory, or if it cannot tell."""
    from arraybridge._frameworks import framework

    kind = framework(memory_type)
    try:
        return kind.gpu_of(data)
    except Exception as error:
        logger.warning("Which device a %s array is on cannot be told: %s", kind.title, error)
        return None


def _set_device(memory_type: str | MemoryType, device_id: int) -> None:
    """Makes a GPU the framework's current one in this thread; nothing for frameworks that have no such idea.

    Raises MemoryConversionError where the framework has no such GPU.
    """
    from arraybridge._frameworks import framework

    kind = framework(memory_type)
    try:
        kind.select(device_id)
    except Exception as error:
        raise MemoryConversionError(
            kind.name, kind.name, "device_selection", f"{kind.title} device {device_id} cannot be selected: {error}"
        ) from error


def _move_to_device(data: Any, memory_type: str | MemoryType, device_id: int) -> Any:
    """``data`` on GPU ``device_id`` of its own framework; as it is where it is there, or for NumPy.

    Raises MemoryConversionError where the framework has no such GPU.
    """
    from arraybridge.converters import convert_memory

    return convert_memory(data, memory_type, memory_type, device_id)
