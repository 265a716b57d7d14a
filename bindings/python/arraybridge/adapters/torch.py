"""PyTorch."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .. import _native
from ..errors import UnsupportedLayoutError
from . import base
from .base import Adapter

__all__ = ["Torch"]


class Torch(Adapter):
    """PyTorch's tensors and their subclasses."""

    name = "torch"
    import_name = "torch"
    classes = frozenset({("torch", "Tensor")})
    consumer = 0x2
    devices = (base.CPU, base.CUDA, base.METAL, base.ROCM, base.ONEAPI)
    exchange = True
    way_in = "dlpack exchange api"
    no_attributes = ("requires_grad",)
    no_methods = ("is_neg", "is_conj")

    _DEVICES = {"cpu": base.CPU, "cuda": base.CUDA, "mps": base.METAL, "xpu": base.ONEAPI}  # noqa: RUF012

    def exchange_class(self) -> type | None:
        cls: type = self.module().Tensor
        return cls if hasattr(cls, "__dlpack_c_exchange_api__") or hasattr(cls, "__c_dlpack_exchange_api__") else None

    def parse_device(self, device: Any) -> tuple[int, int] | None:
        torch = self.loaded()
        if torch is None or not isinstance(device, torch.device):
            return None
        kind = self._DEVICES.get(device.type)
        if kind == base.CUDA and torch.version.hip:
            kind = base.ROCM
        if kind is None:
            raise base.bad_device(device, "a device of type cpu, cuda, mps or xpu")
        current = torch.cuda.current_device() if device.index is None and device.type == "cuda" else 0
        return kind, 0 if kind == base.CPU else current if device.index is None else device.index

    def parse_dtype(self, dtype: Any) -> str | None:
        torch = self.loaded()
        if torch is None or not isinstance(dtype, torch.dtype):
            return None
        return _native.parse_dtype(str(dtype).removeprefix("torch."))

    def device_of(self, x: Any) -> tuple[int, int]:
        return self.parse_device(x.device) or (base.CPU, 0)

    def default_device(self) -> tuple[int, int]:
        cuda = self.module().cuda
        return (base.CUDA, cuda.current_device()) if cuda.is_available() else (base.CPU, 0)

    def place(self, device: tuple[int, int]) -> tuple[int, int]:
        kept = super().place(device)
        return kept if self._reaches(kept[0]) else self.default_device()

    def _reaches(self, kind: int) -> bool:
        """Whether this build of PyTorch can use devices of a type."""
        torch = self.module()
        if kind in (base.CUDA, base.ROCM):
            return bool(torch.cuda.is_available() and (kind == base.ROCM) == bool(torch.version.hip))
        if kind == base.ONEAPI:
            return bool(hasattr(torch, "xpu") and torch.xpu.is_available())
        return kind == base.CPU or bool(torch.backends.mps.is_available())

    def stream(self, device: tuple[int, int]) -> int:
        torch = self.loaded()
        if torch is None or device[0] not in (base.CUDA, base.ROCM) or not torch.cuda.is_available():
            return 0
        handle = int(torch.cuda.current_stream(device[1]).cuda_stream)
        return handle or (1 if device[0] == base.CUDA else 0)

    def check(self, x: Any) -> None:
        if x.requires_grad:
            raise UnsupportedLayoutError(
                "the tensor requires a gradient, which no other framework keeps: x.detach() first"
            )
        if x.layout is not self.module().strided:
            raise UnsupportedLayoutError(f"the tensor's layout is {x.layout}: x.to_dense() first")
        if x.is_conj():
            raise UnsupportedLayoutError("the tensor is a lazy conjugate: x.resolve_conj() first")
        if x.is_neg():
            raise UnsupportedLayoutError("the tensor is a lazy negative: x.resolve_neg() first")

    def stays(self, x: Any) -> bool:
        return bool(x.requires_grad or x.is_conj() or x.is_neg())

    def within(self, x: Any, *, dtype: str | None, device: tuple[int, int] | None, copy: bool | None) -> Any:
        torch: Any = self.module()
        places = {number: name for name, number in self._DEVICES.items()} | {base.ROCM: "cuda"}
        if device is not None and device[0] not in places:
            raise base.bad_device(device, "a device of PyTorch")
        place = (
            None if device is None else torch.device(places[device[0]], None if device[0] == base.CPU else device[1])
        )
        return x.to(dtype=None if dtype is None else getattr(torch, dtype), device=place, copy=bool(copy))

    def shortcut(self, number: int, module: ModuleType) -> None:
        super().shortcut(number, module)
        if self.exchange_class() is not None:
            _native.add_source(module.Tensor, number, base.EXCHANGE, False, False, self.no_attributes, self.no_methods)
