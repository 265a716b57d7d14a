"""Frameworks: one adapter each, found by name, by module, or by an array, without importing any."""

from __future__ import annotations

from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from ..errors import InvalidMemoryTypeError
from .base import Adapter, Export, Lookup

__all__ = ["Adapter", "Export", "Lookup", "every", "named", "of", "register", "resolve"]

_adapters: dict[str, Adapter] = {}
_numbers: dict[str, int] = {}
_of_class: WeakKeyDictionary[type, Adapter | None] = WeakKeyDictionary()
_with_shortcuts: set[str] = set()


def register(adapter: Adapter) -> Adapter:
    """Adds a framework, or replaces the one of that name. Afterwards every function takes and makes its arrays."""
    if not isinstance(adapter, Adapter):
        raise InvalidMemoryTypeError(f"{adapter!r} is no arraybridge.Adapter")
    _numbers.setdefault(adapter.name, len(_numbers) + 1)
    _adapters[adapter.name] = adapter
    _of_class.clear()
    return adapter


def every() -> list[Adapter]:
    """All frameworks, installed or not, in the order of their registration."""
    return list(_adapters.values())


def named(name: str) -> Adapter:
    """The framework of that name; InvalidMemoryTypeError if there is none."""
    adapter = _adapters.get(name)
    if adapter is None:
        raise InvalidMemoryTypeError(f"Invalid memory type: {name!r}. Known are {', '.join(_adapters)}")
    return adapter


def of(x: Any) -> Adapter | None:
    """The framework whose array x is, or None. Looks at the names of its classes; imports nothing."""
    cls = type(x)
    try:
        return _of_class[cls]
    except KeyError:
        pass
    found = None
    for base in cls.__mro__:
        key = (str(getattr(base, "__module__", "")).partition(".")[0], base.__name__)
        found = next((adapter for adapter in _adapters.values() if key in adapter.classes), None)
        if found is not None:
            break
    _of_class[cls] = found
    if found is not None:
        offer_shortcuts(found)
    return found


def resolve(to: Any) -> Adapter:
    """The framework that `to` means: a name, or a module."""
    if isinstance(to, Adapter):
        return to
    if isinstance(to, ModuleType):
        name = to.__name__
        for adapter in _adapters.values():
            if name in (adapter.import_name, adapter.import_name.partition(".")[0], adapter.name):
                return adapter
        raise InvalidMemoryTypeError(f"Invalid memory type: module {name!r} is of no known framework")
    value = getattr(to, "value", to)  # an enum's member stands for its value
    if not isinstance(value, str):
        raise InvalidMemoryTypeError(
            f"Invalid memory type: to is {to!r}: expected a framework's name or module, one of {', '.join(_adapters)}"
        )
    return named(value)


def offer_shortcuts(adapter: Adapter) -> None:
    """Lets the native code know of a framework that is in use, once."""
    module = adapter.loaded()
    if module is None or adapter.name in _with_shortcuts:
        return
    _with_shortcuts.add(adapter.name)
    adapter.shortcut(_numbers[adapter.name], module)


def _register_all() -> None:
    from .cuda import CuPy, Numba
    from .jax import Jax
    from .more import Dpnp, Mlx, Paddle, TvmFfi
    from .numpy import NumPy
    from .opencl import Pyclesperanto, PyOpenCL
    from .tensorflow import TensorFlow
    from .torch import Torch

    for kind in (
        NumPy, CuPy, Torch, TensorFlow, Jax, Pyclesperanto, Numba, Paddle, Mlx, Dpnp, PyOpenCL, TvmFfi,
    ):  # fmt: skip
        register(kind())


_register_all()
