"""The functions of tfdlpack: TensorFlow tensors to DLPack capsules and back.

``from_dlpack`` and ``get_device_and_dtype`` take a capsule or any array; memory is shared where TensorFlow can
share it (64-byte alignment, row-major) and copied once where it cannot.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from arraybridge import __version__, _native, adapters, convert
from arraybridge.core import detect

from .dlpack.structs import managed

__all__ = ["__version__", "from_dlpack", "get_device_and_dtype", "to_dlpack"]


def to_dlpack(tf_tensor: Any) -> Any:
    """A capsule named "dltensor" that shares a tensor's memory; any other array is made a tensor first."""
    tensorflow: Any = adapters.named("tensorflow").module()
    return tensorflow.experimental.dlpack.to_dlpack(convert(tf_tensor, "tensorflow"))


def from_dlpack(dl_capsule: Any) -> Any:
    """A TensorFlow tensor of what a capsule holds, or of any array, on the same device.

    A capsule is used up, whether the tensor shares its memory or not; a used one is refused.
    """
    return convert(_native.from_capsule(dl_capsule) if _is_capsule(dl_capsule) else dl_capsule, "tensorflow")


def get_device_and_dtype(dl_capsule: Any) -> Any:
    """Three int32: DLPack's device type, the device's number, and TensorFlow's number of the dtype.

    ``tf.DType(result[2])`` is the dtype. A capsule is looked at only, and can be used afterwards.
    """
    if _is_capsule(dl_capsule):
        tensor = managed(dl_capsule).dl_tensor
        device, dtype = (tensor.device.device_type.value, tensor.device.device_id), _dtype_name(tensor.dtype)
    else:
        info = detect(dl_capsule)
        device, dtype = info.device.pair, info.dtype
    tensorflow: Any = adapters.named("tensorflow").module()
    return np.array([*device, tensorflow.as_dtype(dtype).as_datatype_enum], dtype=np.int32)


def _is_capsule(x: Any) -> bool:
    return type(x).__name__ == "PyCapsule"


_KINDS = {"DLInt": "int", "DLUInt": "uint", "DLFloat": "float", "DLBfloat": "bfloat", "DLComplex": "complex"}


def _dtype_name(dtype: Any) -> str:
    """The name of a DLPack dtype, as TensorFlow spells it."""
    label = dtype.code.label
    if label == "DLBool":
        return "bool"
    return f"{_KINDS[label]}{dtype.bits}" if label in _KINDS else str(label.removeprefix("DL").lower())
