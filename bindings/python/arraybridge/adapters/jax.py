"""JAX."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from .. import _native
from .._native import Tensor
from ..errors import UnsupportedDtypeError
from . import base
from .base import Adapter
from .numpy import dtype_name

__all__ = ["Jax"]

_NARROWER = {
    "int64": "int32",
    "uint64": "uint32",
    "float64": "float32",
    "complex128": "complex64",
}


class Jax(Adapter):
    """JAX's arrays. They are immutable, though their capsules do not say so."""

    name = "jax"
    import_name = "jax"
    classes = frozenset({("jaxlib", "ArrayImpl"), ("jax", "ArrayImpl")})
    consumer = 0x4
    devices = (base.CPU, base.CUDA, base.ROCM)
    keywords = ("stream", "dl_device", "copy")  # it makes no versioned capsules
    buffer_to_numpy = True
    immutable = True

    def parse_device(self, device: Any) -> tuple[int, int] | None:
        if type(device).__module__.partition(".")[0] not in ("jax", "jaxlib") or not hasattr(device, "platform"):
            return None
        kind = {"cpu": base.CPU, "gpu": base.CUDA, "cuda": base.CUDA, "rocm": base.ROCM}.get(device.platform)
        if kind is None:
            raise base.bad_device(device, "a device of platform cpu, cuda or rocm")
        return kind, 0 if kind == base.CPU else int(getattr(device, "local_hardware_id", None) or device.id)

    def parse_dtype(self, dtype: Any) -> str | None:
        if type(dtype).__module__.partition(".")[0] != "jax" or not isinstance(getattr(dtype, "dtype", None), np.dtype):
            return None
        return dtype_name(dtype.dtype)

    def device_of(self, x: Any) -> tuple[int, int]:
        devices = x.devices()
        return self.parse_device(next(iter(devices))) or (base.CPU, 0)

    def prepare(self, dtype: str, shape: tuple[int, ...]) -> None:
        if dtype in _NARROWER and not self.module().config.jax_enable_x64:
            raise UnsupportedDtypeError(
                f"JAX would make {_NARROWER[dtype]} of {dtype}, because its 64-bit types are off: ask for "
                f'dtype="{_NARROWER[dtype]}", or call jax.config.update("jax_enable_x64", True) first'
            )

    def take(self, tensor: Tensor) -> tuple[Any, str]:
        return self.module().dlpack.from_dlpack(tensor), "dlpack"

    def shortcut(self, number: int, module: ModuleType) -> None:
        cls = type(module.numpy.zeros(()))
        _native.add_source(cls, number, base.DLPACK, True, True, (), ())
