"""Frameworks with few quirks: Paddle, MLX, dpnp, tvm-ffi."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from .. import _native
from .._native import Tensor
from ..errors import UnsupportedLayoutError
from . import base
from .base import Adapter
from .numpy import NAMES

__all__ = ["Dpnp", "Mlx", "Paddle", "TvmFfi"]


class Paddle(Adapter):
    """Paddle's tensors."""

    name = "paddle"
    import_name = "paddle"
    classes = frozenset({("paddle", "Tensor"), ("paddle", "EagerParamBase")})
    consumer = 0x80
    devices = (base.CPU, base.CUDA, base.CUDA_HOST)
    way_in = "dlpack capsule"

    def parse_dtype(self, dtype: Any) -> str | None:
        text = str(dtype)
        if type(dtype).__module__.partition(".")[0] != "paddle" or not text.startswith("paddle."):
            return None
        return _native.parse_dtype(text.removeprefix("paddle."))

    def parse_device(self, device: Any) -> tuple[int, int] | None:
        kind = type(device)
        if kind.__module__.partition(".")[0] != "paddle" or not kind.__name__.endswith("Place"):
            return None
        if kind.__name__ == "Place":  # what tensors say; the others are what users make
            if device.is_gpu_place():
                return base.CUDA, int(device.gpu_device_id())
            return (base.CPU, 0) if device.is_cpu_place() else (base.CUDA_HOST, 0)
        if kind.__name__ == "CUDAPlace":
            return base.CUDA, int(device.get_device_id())
        if kind.__name__ in ("CPUPlace", "CUDAPinnedPlace"):
            return base.CPU if kind.__name__ == "CPUPlace" else base.CUDA_HOST, 0
        raise base.bad_device(device, "a CPUPlace, CUDAPlace or CUDAPinnedPlace")

    def device_of(self, x: Any) -> tuple[int, int]:
        return self.parse_device(x.place) or (base.CPU, 0)

    def check(self, x: Any) -> None:
        if not x.stop_gradient:
            raise UnsupportedLayoutError(
                "the tensor requires a gradient, which no other framework keeps: x.detach() first"
            )
        if not x.is_dense():
            raise UnsupportedLayoutError("the tensor is not dense: x.to_dense() first")

    def stays(self, x: Any) -> bool:
        return not x.stop_gradient

    def within(self, x: Any, *, dtype: str | None, device: tuple[int, int] | None, copy: bool | None) -> Any:
        if device is not None and device[0] not in self.devices:
            raise base.bad_device(device, "a device of Paddle")
        result = x if dtype is None else x.astype(dtype)
        if device is not None and device != self.device_of(x):
            places = {base.CPU: result.cpu, base.CUDA_HOST: result.pin_memory}
            result = places[device[0]]() if device[0] in places else result.cuda(device[1])
        return result.clone() if copy and result is x else result

    def stream(self, device: tuple[int, int]) -> int:
        if device[0] != base.CUDA:
            return 0
        return int(self.module().device.cuda.current_stream(device[1]).cuda_stream) or 1

    def take(self, tensor: Tensor) -> tuple[Any, str]:
        # Its deleters run with a lock held: what they end must not be another of its tensors.
        return self.module().utils.dlpack.from_dlpack(_native.late_capsule(tensor)), "dlpack capsule"


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

    def prepare(self, dtype: str, shape: tuple[int, ...]) -> None:
        if dtype not in NAMES:  # ml_dtypes' are NumPy's too once they are imported
            raise base.refuse_dtype("dpnp", dtype, 'another one, dtype="float32" for example')

    def parse_device(self, device: Any) -> tuple[int, int] | None:
        if type(device).__module__.partition(".")[0] not in ("dpnp", "dpctl"):
            return None
        sycl = getattr(device, "sycl_device", device)  # theirs, or that of a queue or an array's device
        return (base.ONEAPI, int(sycl.get_device_id())) if hasattr(sycl, "get_device_id") else None

    def upload(self, tensor: Tensor, device: tuple[int, int], like: Any) -> tuple[Any, str]:
        import dpctl

        # Its default device is no matter of numbers.
        place = None if like is None else dpctl.get_devices()[device[1]]
        return self.module().asarray(np.asarray(tensor), device=place), self.uploads

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
