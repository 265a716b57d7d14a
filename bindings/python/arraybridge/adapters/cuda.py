"""Frameworks of CUDA memory only: CuPy and Numba."""

from __future__ import annotations

from typing import Any

from .._native import Tensor
from . import base
from .base import Adapter

__all__ = ["CuPy", "Numba"]


class CuPy(Adapter):
    """CuPy's arrays."""

    name = "cupy"
    import_name = "cupy"
    classes = frozenset({("cupy", "ndarray")})
    consumer = 0x10
    devices = (base.CUDA, base.CUDA_MANAGED, base.ROCM)

    def parse_device(self, device: Any) -> tuple[int, int] | None:
        if type(device).__module__.partition(".")[0] != "cupy" or not isinstance(getattr(device, "id", None), int):
            return None
        return self._kind(), device.id

    def _kind(self) -> int:
        return base.ROCM if self.module().cuda.runtime.is_hip else base.CUDA

    def default_device(self) -> tuple[int, int]:
        runtime = self.module().cuda.runtime
        try:
            return self._kind(), runtime.getDevice()
        except runtime.CUDARuntimeError:
            return self._kind(), 0  # there is none, which the library says better

    def stream(self, device: tuple[int, int]) -> int:
        cupy = self.module()
        try:
            with cupy.cuda.Device(device[1]):
                return int(cupy.cuda.get_current_stream().ptr) or 1
        except cupy.cuda.runtime.CUDARuntimeError:
            return 0  # as above

    def take(self, tensor: Tensor) -> tuple[Any, str]:
        cupy = self.module()
        with cupy.cuda.Device(tensor.device.id):
            return cupy.from_dlpack(tensor), "dlpack"


class Numba(Adapter):
    """Numba's device arrays."""

    name = "numba"
    import_name = "numba.cuda"
    classes = frozenset({("numba", "DeviceNDArrayBase"), ("numba_cuda", "DeviceNDArrayBase")})
    consumer = 0x20
    devices = (base.CUDA, base.CUDA_MANAGED)
    way_in = "__cuda_array_interface__"

    def parse_device(self, device: Any) -> tuple[int, int] | None:
        if type(device).__module__.partition(".")[0] not in ("numba", "numba_cuda"):
            return None
        number = getattr(device, "id", None)
        return (base.CUDA, number) if isinstance(number, int) else None

    def device_of(self, x: Any) -> tuple[int, int]:
        context = getattr(getattr(x, "gpu_data", None), "context", None)
        return base.CUDA, int(getattr(getattr(context, "device", None), "id", 0))

    def default_device(self) -> tuple[int, int]:
        cuda = self.module()
        # Its simulator says no to nothing, and has no memory of a device.
        there = cuda.is_available() and hasattr(cuda, "get_current_device")
        return base.CUDA, int(cuda.get_current_device().id) if there else 0

    def export(self, x: Any, lookup: base.Lookup) -> base.Export:
        from ..protocols import from_interface

        return from_interface(x, x.__cuda_array_interface__, "__cuda_array_interface__", self.device_of(x)[1])

    def take(self, tensor: Tensor) -> tuple[Any, str]:
        cuda = self.module()
        with cuda.gpus[tensor.device.id]:
            return cuda.as_cuda_array(tensor), self.way_in
