"""NumPy."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from .. import _native
from .._native import Tensor
from ..errors import UnsupportedDtypeError
from . import base
from .base import Adapter, Export, Lookup

__all__ = ["NAMES", "NumPy"]

# What NumPy has itself.
_NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
NAMES = frozenset(("bool", *_NUMBERS, "complex64", "complex128"))

# ml_dtypes' types and the library's names agree, but for these.
_ML_NAMES = {"float8_e4m3b11": "float8_e4m3b11fnuz"}


def ml_dtype(name: str) -> np.dtype[Any] | None:
    """ml_dtypes' dtype of that name, if it is installed and has one."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    scalar = getattr(ml_dtypes, name, None)
    return None if scalar is None else np.dtype(scalar)


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The library's name of a NumPy or ml_dtypes dtype. UnsupportedDtypeError, with what to do, for others."""
    if dtype.type.__module__.partition(".")[0] == "ml_dtypes":
        return _native.parse_dtype(_ML_NAMES.get(dtype.name, dtype.name))
    if not dtype.isnative:
        raise UnsupportedDtypeError(
            f"dtype {dtype.str} has foreign byte order: convert it with x.astype(x.dtype.newbyteorder('='))"
        )
    if dtype.kind not in "biufc" or dtype.itemsize * 8 // (2 if dtype.kind == "c" else 1) > 64:
        hints = {
            "O": "objects have no memory of their own to share; make numbers of them with x.astype(float)",
            "M": "see it as numbers with x.view('int64')",
            "m": "see it as numbers with x.view('int64')",
            "V": "take its fields one by one, x['name']",
            "f": "no other framework has it; make it narrower with x.astype('float64')",
            "c": "no other framework has it; make it narrower with x.astype('complex128')",
        }
        raise UnsupportedDtypeError(f"dtype {dtype} is no DLPack type: {hints.get(dtype.kind, 'make numbers of it')}")
    return str(dtype.name)


class NumPy(Adapter):
    """NumPy's arrays and scalars; bfloat16, float8 and the like by ml_dtypes."""

    name = "numpy"
    import_name = "numpy"
    classes = frozenset({("numpy", "ndarray"), ("numpy", "generic")})
    consumer = 0x1
    way_in = "numpy array"

    def parse_dtype(self, dtype: Any) -> str | None:
        if isinstance(dtype, np.dtype):
            return dtype_name(dtype)
        if isinstance(dtype, type):
            if issubclass(dtype, np.generic) and dtype not in (np.generic, np.number):
                return dtype_name(np.dtype(dtype))
            if dtype.__module__.partition(".")[0] == "ml_dtypes":
                return dtype_name(np.dtype(dtype))
            if dtype in (bool, int, float, complex):
                return dtype_name(np.dtype(dtype))
        return None

    def device_of(self, x: Any) -> tuple[int, int]:
        return base.CPU, 0

    def check(self, x: Any) -> None:
        if isinstance(x, np.ma.MaskedArray):
            raise UnsupportedDtypeError("the array is masked, and no other framework has masks: x.filled(value) first")

    check_kept = check

    def export(self, x: Any, lookup: Lookup) -> Export:
        self.check(x)
        plain = _native.from_ndarray(x)
        if plain is not None:
            return Export(plain, "numpy array")
        array = np.asarray(x)  # a scalar, or a subclass
        name = dtype_name(array.dtype)
        return Export(
            _native.wrap(
                array.__array_interface__["data"][0], array.shape, array.strides, name, 1, 0, (x, array),
                not array.flags.writeable, 0,
            ),
            "numpy array",
        )  # fmt: skip

    def accepts(self, dtype: str) -> int:
        # What NumPy lacks goes in as bits and comes out as ml_dtypes'.
        return self.consumer if dtype in NAMES else 0

    def take(self, tensor: Tensor) -> tuple[Any, str]:
        if tensor._facts[2] & self.consumer:
            return _native.to_ndarray(tensor), self.way_in
        return view_as_ml_dtype(tensor), "ml_dtypes view"

    def prepare(self, dtype: str, shape: tuple[int, ...]) -> None:
        if len(shape) > 64:
            raise UnsupportedDtypeError("NumPy has 64 axes at most")

    def shortcut(self, number: int, module: ModuleType) -> None:
        _native.add_source(np.ndarray, number, base.NDARRAY, False, False, (), ())
        _native.add_target((self.name, module), number, base.TO_NUMPY, self.consumer, np.from_dlpack, False)


def view_as_ml_dtype(tensor: Tensor) -> np.ndarray[Any, Any]:
    """A NumPy array over a host tensor of a dtype that only ml_dtypes has."""
    name = tensor.dtype
    dtype = ml_dtype(name)
    if dtype is None:
        raise UnsupportedDtypeError(
            f'NumPy has no {name}: install ml_dtypes, or ask for another one, dtype="float32" for example'
        )
    bits = np.dtype(f"u{dtype.itemsize}")
    numbers: np.ndarray[Any, Any] = np.lib.stride_tricks.as_strided(
        np.asarray(_Bits(tensor, bits)),
        tensor.shape,
        tuple(stride * dtype.itemsize for stride in tensor.strides),
    )
    if tensor.read_only:
        numbers.flags.writeable = False
    return numbers.view(dtype)


class _Bits:
    """A tensor's memory as unsigned integers, for NumPy."""

    def __init__(self, tensor: Tensor, dtype: np.dtype[Any]) -> None:
        self.tensor = tensor
        self.__array_interface__ = {
            "shape": tensor.shape,
            "typestr": dtype.str,
            "data": (tensor.data_ptr, tensor.read_only),
            "strides": tuple(stride * dtype.itemsize for stride in tensor.strides),
            "version": 3,
        }
