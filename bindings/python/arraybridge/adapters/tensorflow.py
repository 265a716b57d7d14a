"""TensorFlow."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .. import _native
from ..errors import UnsupportedDtypeError
from . import base
from .base import Adapter, Export, Lookup

__all__ = ["TensorFlow"]


class TensorFlow(Adapter):
    """TensorFlow's eager tensors and variables. They are immutable, though their capsules do not say so."""

    name = "tensorflow"
    import_name = "tensorflow"
    classes = frozenset({("tensorflow", "EagerTensor"), ("tensorflow", "ResourceVariable")})
    consumer = 0x8
    devices = (base.CPU, base.CUDA)
    keywords = ()  # it raises RuntimeError for what it does not do, and makes no versioned capsules
    keyword_errors = (TypeError, RuntimeError)
    buffer_to_numpy = True
    legacy = True
    alignment = 64  # its kernels crash on less
    immutable = True
    way_in = "dlpack capsule"

    def parse_device(self, device: Any) -> tuple[int, int] | None:
        if type(device).__module__.partition(".")[0] != "tensorflow" or not hasattr(device, "device_type"):
            return None
        kind = {"CPU": base.CPU, "GPU": base.CUDA}.get(device.device_type)
        if kind is None:
            raise base.bad_device(device, "a CPU or GPU")
        return kind, 0 if kind == base.CPU else int(device.name.rpartition(":")[2])

    def parse_dtype(self, dtype: Any) -> str | None:
        if type(dtype).__module__.partition(".")[0] != "tensorflow" or not hasattr(dtype, "as_numpy_dtype"):
            return None
        return _native.parse_dtype(dtype.name)

    def device_of(self, x: Any) -> tuple[int, int]:
        _, _, place = x.device.rpartition("device:")
        kind, _, number = place.partition(":")
        return (base.CUDA, int(number)) if kind == "GPU" else (base.CPU, 0)

    def check(self, x: Any) -> None:
        if x.dtype.name in ("string", "resource", "variant"):
            raise UnsupportedDtypeError(f"dtype {x.dtype.name} is no DLPack type: no other framework has it")

    def export(self, x: Any, lookup: Lookup) -> Export:
        self.check(x)
        return super().export(x if hasattr(x, "__dlpack__") else x.read_value(), lookup)

    def from_capsule(self, capsule: Any) -> Any:
        return self.module().experimental.dlpack.from_dlpack(capsule)

    def shortcut(self, number: int, module: ModuleType) -> None:
        cls = type(module.constant(0))
        if hasattr(cls, "__dlpack__"):
            _native.add_source(cls, number, base.DLPACK, True, True, (), ())
        # No target: what it takes must be aligned, which the native code does not ask for.
