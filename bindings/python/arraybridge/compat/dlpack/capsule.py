"""``PyCapsule`` objects from Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

__all__ = ["Capsule"]

PyCapsule_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

# Capsules are passed by address: one that is being destroyed must not be referred to again.
_ADDRESS, _NAME, _POINTER, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int


def _function(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new = _function("PyCapsule_New", ctypes.py_object, _POINTER, _NAME, _POINTER)
_is_valid = _function("PyCapsule_IsValid", _INT, _ADDRESS, _NAME)
_get_pointer = _function("PyCapsule_GetPointer", _POINTER, _ADDRESS, _NAME)
_set_pointer = _function("PyCapsule_SetPointer", _INT, _ADDRESS, _POINTER)
_get_name = _function("PyCapsule_GetName", _NAME, _ADDRESS)
_set_name = _function("PyCapsule_SetName", _INT, _ADDRESS, _NAME)
_get_context = _function("PyCapsule_GetContext", _POINTER, _ADDRESS)
_set_context = _function("PyCapsule_SetContext", _INT, _ADDRESS, _POINTER)
_get_destructor = _function("PyCapsule_GetDestructor", _POINTER, _ADDRESS)
_set_destructor = _function("PyCapsule_SetDestructor", _INT, _ADDRESS, _POINTER)

_names: dict[bytes, bytes] = {}  # capsules point to their names, which stay
_destructors: dict[int, Callable[[Capsule], None]] = {}


class Capsule:
    """A ``PyCapsule``: a pointer for C code, under a name that says what it points to."""

    def __init__(self, capsule: Any) -> None:
        """Wraps a capsule that there is; TypeError for anything else."""
        if type(capsule).__name__ != "PyCapsule" or type(capsule).__module__ != "builtins":
            raise TypeError(f"expected a capsule, got {type(capsule).__module__}.{type(capsule).__name__}")
        self.capsule = capsule
        self._address = id(capsule)

    @classmethod
    def new(
        cls, pointer: int, name: str | bytes | None, destructor: Callable[[Capsule], None] | None = None
    ) -> Capsule:
        """A new capsule of a pointer, which must not be 0; ``destructor`` is called when it is destroyed."""
        made = cls(_new(pointer, None, None))
        made.set_name(name)
        if destructor is not None:
            made.set_destructor(destructor)
        return made

    def is_valid(self, name: str | bytes | None) -> bool:
        """Whether this is a capsule of that name with a pointer."""
        return bool(_is_valid(self._address, _encoded(name)))

    def get_pointer(self, name: str | bytes | None) -> int:
        """The pointer; ValueError if the capsule has another name."""
        return int(_get_pointer(self._address, _encoded(name)))

    def set_pointer(self, pointer: int) -> None:
        """Exchanges the pointer, for one that is not 0."""
        _set_pointer(self._address, pointer)

    def get_name(self) -> str | None:
        """The name."""
        name = _get_name(self._address)
        return None if name is None else name.decode()

    def set_name(self, name: str | bytes | None) -> None:
        """Exchanges the name."""
        encoded = _encoded(name)
        _set_name(self._address, None if encoded is None else _names.setdefault(encoded, encoded))

    def get_context(self) -> int | None:
        """The context pointer."""
        context: int | None = _get_context(self._address)
        return context

    def set_context(self, context: int | None) -> None:
        """Exchanges the context pointer."""
        _set_context(self._address, context)

    def get_destructor(self) -> Any:
        """The destructor that C code calls, a false object if there is none."""
        return ctypes.cast(_get_destructor(self._address), PyCapsule_Destructor)

    def set_destructor(self, destructor: Callable[[Capsule], None] | Any | None) -> None:
        """Exchanges the destructor: a function of the capsule, a ``PyCapsule_Destructor``, or None for none."""
        _destructors.pop(self._address, None)
        if destructor is None or isinstance(destructor, PyCapsule_Destructor):
            _set_destructor(self._address, ctypes.cast(destructor, ctypes.c_void_p) if destructor else None)
        else:
            _destructors[self._address] = destructor
            _set_destructor(self._address, ctypes.cast(_run_destructor, ctypes.c_void_p))

    @classmethod
    def _dying(cls, address: int) -> Capsule:
        """A capsule that is being destroyed: it can be looked at, and must not be kept."""
        dying = cls.__new__(cls)
        dying.capsule, dying._address = None, address
        return dying


def _destroyed(address: int) -> None:
    destructor = _destructors.pop(address, None)
    if destructor is not None:
        destructor(Capsule._dying(address))


_run_destructor = PyCapsule_Destructor(_destroyed)  # one for all, so that none is freed while it runs


def _encoded(name: str | bytes | None) -> bytes | None:
    return name.encode() if isinstance(name, str) else name
