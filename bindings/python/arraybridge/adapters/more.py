"""Frameworks with few quirks: Paddle, MLX, dpnp, tvm-ffi."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .. import _native
from .._native import Tensor
from . import base
from .base import Adapter

__all__ = ["Dpnp", "Mlx", "Paddle", "TvmFfi"]


class Paddle(Adapter):
    """Paddle's tensors."""

    name = "paddle"
    import_name = "paddle"
    classes = frozenset({("paddle", "Tensor"), ("paddle", "EagerParamBase")})
    consumer = 0x80
    devices = (base.CPU, base.CUDA, base.CUDA_HOST)

    def parse_dtype(self, dtype: Any) -> str | None:
        text = str(dtype)
        if type(dtype).__module__.partition(".")[0] != "paddle" or not text.startswith("paddle."):
            return None
        return _native.parse_dtype(text.removeprefix("paddle."))

    def device_of(self, x: Any) -> tuple[int, int]:
        place = x.place
        return (base.CUDA, int(place.gpu_device_id())) if place.is_gpu_place() else (base.CPU, 0)

    def stream(self, device: tuple[int, int]) -> int:
        if device[0] != base.CUDA:
            return 0
        return int(self.module().device.cuda.current_stream(device[1]).cuda_stream) or 1

    def take(self, tensor: Tensor) -> tuple[Any, str]:
        return self.module().utils.dlpack.from_dlpack(tensor), "dlpack"


class Mlx(Adapter):
    """MLX's arrays."""

    name = "mlx"
    import_name = "mlx.core"
    classes = frozenset({("mlx", "array")})
    consumer = 0x100
    devices = (base.CPU, base.METAL)
    copies = True
    immutable = True
    way_in = "dlpack, copied"

    def parse_dtype(self, dtype: Any) -> str | None:
        text = str(dtype)
        if not text.startswith("mlx.core.") or type(dtype).__module__.partition(".")[0] != "mlx":
            return None
        return _native.parse_dtype({"bool_": "bool"}.get(text[9:], text[9:]))

    def prepare(self, dtype: str, shape: tuple[int, ...]) -> None:
        narrower = {"float64": "float32", "complex128": "complex64"}.get(dtype)
        if narrower:
            raise base.refuse_dtype("MLX", dtype, f'dtype="{narrower}"')

    def take(self, tensor: Tensor) -> tuple[Any, str]:
        return self.module().array(tensor), self.way_in


class Dpnp(Adapter):
    """dpnp's arrays, in oneAPI's unified shared memory."""

    name = "dpnp"
    import_name = "dpnp"
    classes = frozenset({("dpnp", "dpnp_array"), ("dpctl", "usm_ndarray")})
    devices = (base.ONEAPI,)

    uploads = "dpnp.asarray"
    downloads = "dpnp.asnumpy"

    def upload(self, tensor: Tensor, device: tuple[int, int], like: Any) -> tuple[Any, str]:
        import numpy as np

        return self.module().asarray(np.asarray(tensor)), self.uploads

    def download(self, x: Any) -> tuple[Tensor, str]:
        return _native.asdlpack(self.module().asnumpy(x)), self.downloads


class TvmFfi(Adapter):
    """tvm-ffi's tensors."""

    name = "tvm_ffi"
    import_name = "tvm_ffi"
    classes = frozenset({("tvm_ffi", "Tensor")})
    consumer = 0x200
    devices = (base.CPU, base.CUDA, base.CUDA_HOST, base.ROCM)
    keywords = ("stream", "max_version", "dl_device", "copy")

    def parse_device(self, device: Any) -> tuple[int, int] | None:
        if type(device).__module__.partition(".")[0] != "tvm_ffi" or not hasattr(device, "dlpack_device_type"):
            return None
        return int(device.dlpack_device_type()), int(device.index)

    def parse_dtype(self, dtype: Any) -> str | None:
        return None  # they are strings

    def shortcut(self, number: int, module: ModuleType) -> None:
        _native.add_source(module.Tensor, number, base.DLPACK, False, False, (), ())
        _native.add_target((self.name, module), number, base.TO_CALL, self.consumer, module.from_dlpack, False)
