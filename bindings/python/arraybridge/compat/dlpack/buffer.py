"""The buffer protocol from Python, with the addresses that ``memoryview`` keeps to itself."""

from __future__ import annotations

import ctypes
from typing import Any

__all__ = ["Buffer"]

PyBUF_SIMPLE = 0
PyBUF_WRITABLE = 0x1
PyBUF_FORMAT = 0x4
PyBUF_ND = 0x8
PyBUF_STRIDES = 0x10 | PyBUF_ND
PyBUF_C_CONTIGUOUS = 0x20 | PyBUF_STRIDES
PyBUF_F_CONTIGUOUS = 0x40 | PyBUF_STRIDES
PyBUF_ANY_CONTIGUOUS = 0x80 | PyBUF_STRIDES
PyBUF_INDIRECT = 0x100 | PyBUF_STRIDES
PyBUF_CONTIG = PyBUF_ND | PyBUF_WRITABLE
PyBUF_CONTIG_RO = PyBUF_ND
PyBUF_STRIDED = PyBUF_STRIDES | PyBUF_WRITABLE
PyBUF_STRIDED_RO = PyBUF_STRIDES
PyBUF_RECORDS = PyBUF_STRIDES | PyBUF_WRITABLE | PyBUF_FORMAT
PyBUF_RECORDS_RO = PyBUF_STRIDES | PyBUF_FORMAT
PyBUF_FULL = PyBUF_INDIRECT | PyBUF_WRITABLE | PyBUF_FORMAT
PyBUF_FULL_RO = PyBUF_INDIRECT | PyBUF_FORMAT


class Py_Buffer(ctypes.Structure):
    """CPython's ``Py_buffer``."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    )


_get_buffer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Py_Buffer), ctypes.c_int)(
    ("PyObject_GetBuffer", ctypes.pythonapi)
)
_release = ctypes.PYFUNCTYPE(None, ctypes.POINTER(Py_Buffer))(("PyBuffer_Release", ctypes.pythonapi))


class Buffer:
    """A view of an object's memory. The object cannot give the memory up (be resized, closed) until it is gone."""

    def __init__(self, obj: Any, flags: int = PyBUF_SIMPLE) -> None:
        """Asks for the parts that ``flags`` name. BufferError or TypeError if the object cannot give them."""
        self._held = False
        self.py_buffer = Py_Buffer()
        _get_buffer(obj, self.py_buffer, flags)
        self._held = True

    def release(self) -> None:
        """Gives the memory back before this object is gone. Addresses of it must not be used any more."""
        if self._held:
            self._held = False
            _release(self.py_buffer)

    def __del__(self) -> None:
        self.release()

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return int(self.py_buffer.ndim)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The extents; None if they were not asked for."""
        return self._axes(self.py_buffer.shape)

    @property
    def strides(self) -> tuple[int, ...] | None:
        """The steps in bytes; None if they were not asked for."""
        return self._axes(self.py_buffer.strides)

    @property
    def suboffsets(self) -> tuple[int, ...] | None:
        """Where pointers have to be followed; None: nowhere."""
        return self._axes(self.py_buffer.suboffsets)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return int(self.py_buffer.itemsize)

    @property
    def pointer(self) -> int:
        """The address of the first element; 0 if there is none."""
        return int(self.py_buffer.buf or 0)

    @property
    def readonly(self) -> bool:
        """Whether the memory must not be written to."""
        return bool(self.py_buffer.readonly)

    @property
    def format(self) -> str | None:
        """The elements' type in the letters of ``struct``; None if it was not asked for."""
        text: bytes | None = self.py_buffer.format
        return None if text is None else text.decode()

    def _axes(self, values: Any) -> tuple[int, ...] | None:
        return tuple(values[: self.ndim]) if values else None
