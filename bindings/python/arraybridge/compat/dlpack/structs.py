"""DLPack's C structures as ``ctypes`` sees them, and ``todict``, which shows what a capsule holds."""

from __future__ import annotations

import ctypes
from typing import Any

from .capsule import Capsule

DLPACK_CAPSULE_VALID_NAME = b"dltensor"
DLPACK_VERSIONED_CAPSULE_VALID_NAME = b"dltensor_versioned"

_DEVICES = {
    1: "DLCPU",
    2: "DLCUDA",
    3: "DLCUDAHost",
    4: "DLOpenCL",
    7: "DLVulkan",
    8: "DLMetal",
    9: "DLVPI",
    10: "DLROCM",
    11: "DLROCMHost",
    12: "DLExtDev",
    13: "DLCUDAManaged",
    14: "DLOneAPI",
    15: "DLWebGPU",
    16: "DLHexagon",
    17: "DLMAIA",
    18: "DLTrn",
}
_TYPES = {
    0: "DLInt",
    1: "DLUInt",
    2: "DLFloat",
    3: "DLOpaqueHandle",
    4: "DLBfloat",
    5: "DLComplex",
    6: "DLBool",
    7: "DLFloat8_e3m4",
    8: "DLFloat8_e4m3",
    9: "DLFloat8_e4m3b11fnuz",
    10: "DLFloat8_e4m3fn",
    11: "DLFloat8_e4m3fnuz",
    12: "DLFloat8_e5m2",
    13: "DLFloat8_e5m2fnuz",
    14: "DLFloat8_e8m0fnu",
    15: "DLFloat6_e2m3fn",
    16: "DLFloat6_e3m2fn",
    17: "DLFloat4_e2m1fn",
}


class DLDeviceType(ctypes.c_int32):
    """A type of device, by DLPack's number. ``label`` is its name, or the number for types without one."""

    @property
    def label(self) -> str:
        """The name, such as "DLCPU"."""
        return _DEVICES.get(self.value, str(self.value))

    @classmethod
    def from_label(cls, label: str) -> DLDeviceType:
        """The type of that name; KeyError if there is none."""
        return cls({name: number for number, name in _DEVICES.items()}[label])

    def __repr__(self) -> str:
        return f"DLDeviceType({self.label!r})"


class DLDataTypeCode(ctypes.c_uint8):
    """A kind of number, by DLPack's number. ``label`` is its name, or the number for kinds without one."""

    @property
    def label(self) -> str:
        """The name, such as "DLFloat"."""
        return _TYPES.get(self.value, str(self.value))

    @classmethod
    def from_label(cls, label: str) -> DLDataTypeCode:
        """The kind of that name; KeyError if there is none."""
        return cls({name: number for number, name in _TYPES.items()}[label])

    def __repr__(self) -> str:
        return f"DLDataTypeCode({self.label!r})"


class DLStructure(ctypes.Structure):
    """A structure that shows its fields."""

    def todict(self) -> dict[str, Any]:
        """The fields by name: structures as dictionaries, kinds as labels, shape and strides as tuples."""
        return {name: self._plain(getattr(self, name)) for name in self._names()}

    def _names(self) -> list[str]:
        return [field[0] for field in self._fields_]

    def _plain(self, value: Any) -> Any:
        if isinstance(value, DLStructure):
            return value.todict()
        if isinstance(value, (DLDeviceType, DLDataTypeCode)):
            return value.label
        if isinstance(value, ctypes.POINTER(ctypes.c_int64)):
            return tuple(value[: self.ndim]) if value else None
        return value

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={self._plain(getattr(self, name))!r}" for name in self._names())
        return f"{type(self).__name__}({fields})"


class DLDevice(DLStructure):
    """A device: type and number."""

    _fields_ = (("device_type", DLDeviceType), ("device_id", ctypes.c_int32))


class DLDataType(DLStructure):
    """A type of elements: kind, bits and lanes."""

    _fields_ = (("code", DLDataTypeCode), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(DLStructure):
    """A tensor that somebody else's memory is behind."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class DLPackVersion(DLStructure):
    """A version of DLPack."""

    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32))


class DLManagedTensor(DLStructure):
    """A tensor with its deleter, of the form from before DLPack 1.0."""


class DLManagedTensorVersioned(DLStructure):
    """A tensor with its deleter, version and flags: 1 read-only, 2 copied, 4 padded sub-byte elements."""


DLManagedTensor._fields_ = (
    ("dl_tensor", DLTensor),
    ("manager_ctx", ctypes.c_void_p),
    ("deleter", ctypes.CFUNCTYPE(None, ctypes.POINTER(DLManagedTensor))),
)
DLManagedTensorVersioned._fields_ = (
    ("version", DLPackVersion),
    ("manager_ctx", ctypes.c_void_p),
    ("deleter", ctypes.CFUNCTYPE(None, ctypes.POINTER(DLManagedTensorVersioned))),
    ("flags", ctypes.c_uint64),
    ("dl_tensor", DLTensor),
)

_FORMS: dict[bytes, type[DLManagedTensor] | type[DLManagedTensorVersioned]] = {
    DLPACK_CAPSULE_VALID_NAME: DLManagedTensor,
    DLPACK_VERSIONED_CAPSULE_VALID_NAME: DLManagedTensorVersioned,
}


def managed(capsule: Any) -> DLManagedTensor | DLManagedTensorVersioned:
    """The structure in a capsule, which stays in it and must outlive it. ValueError unless it is DLPack's, unused."""
    wrapped = Capsule(capsule)
    for name, form in _FORMS.items():
        if wrapped.is_valid(name):
            return form.from_address(wrapped.get_pointer(name))
    raise ValueError(
        f"a capsule named {wrapped.get_name()!r} holds no tensor to take: expected 'dltensor' or 'dltensor_versioned'"
    )


def todict(capsule: Any) -> dict[str, Any]:
    """What a DLPack capsule holds, of either form, as a dictionary. The capsule is not used up."""
    return managed(capsule).todict()
