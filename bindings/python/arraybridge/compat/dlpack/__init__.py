"""The module surface of pydlpack (``import dlpack``), over this package's tensors.

``asdlpack`` and its kin give an object that any consumer's ``from_dlpack`` takes, as ``arraybridge.asdlpack``
does, whose tensors these are: memory is kept until the last consumer lets go, read-only memory is marked,
and what DLPack cannot say (foreign byte order, strides within elements) is refused. ``todict`` and the
``ctypes`` structures are for looking into capsules.
"""

from __future__ import annotations

from typing import Any

import arraybridge
from arraybridge import Tensor, __version__

from .buffer import Buffer
from .capsule import Capsule
from .structs import (
    DLPACK_CAPSULE_VALID_NAME,
    DLPACK_VERSIONED_CAPSULE_VALID_NAME,
    DLDataType,
    DLDataTypeCode,
    DLDevice,
    DLDeviceType,
    DLManagedTensor,
    DLManagedTensorVersioned,
    DLPackVersion,
    DLStructure,
    DLTensor,
    todict,
)

__all__ = [
    "DLPACK_CAPSULE_VALID_NAME",
    "DLPACK_VERSIONED_CAPSULE_VALID_NAME",
    "Buffer",
    "Capsule",
    "DLDataType",
    "DLDataTypeCode",
    "DLDevice",
    "DLDeviceType",
    "DLManagedTensor",
    "DLManagedTensorImpl",
    "DLManagedTensorVersioned",
    "DLPackObject",
    "DLPackVersion",
    "DLStructure",
    "DLTensor",
    "__version__",
    "asdlpack",
    "asdlpack_array_interface_v2",
    "asdlpack_array_interface_v3",
    "asdlpack_buffer",
    "asdlpack_cuda_array_interface",
    "asdlpack_dlpack",
    "todict",
]

_FORMS = (DLManagedTensor, DLManagedTensorVersioned)


class DLManagedTensorImpl:
    """The tensor behind a ``DLPackObject``, and the form of the capsules that it makes unless asked for one."""

    def __init__(self, tensor: Tensor, impl_cls: type[DLStructure] | None = None) -> None:
        if impl_cls is not None and impl_cls not in _FORMS:
            raise TypeError(f"impl_cls is {impl_cls!r}: expected DLManagedTensor or DLManagedTensorVersioned")
        self.tensor = tensor
        self.impl_cls = DLManagedTensor if impl_cls is None else impl_cls

    def get_dlpack_device(self) -> tuple[int, int]:
        """DLPack's device type and number."""
        return self.tensor.__dlpack_device__()

    def get_dlpack_data(self) -> int:
        """The address of the first element."""
        return self.tensor.data_ptr


class DLPackObject:
    """What the ``from_dlpack`` functions of other libraries take: a tensor, and nothing else."""

    def __init__(self, impl: DLManagedTensorImpl) -> None:
        self.impl = impl

    def __dlpack__(
        self,
        stream: int | None = None,
        *,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A new capsule, as the array API describes it.

        Without ``max_version`` its form is ``impl_cls``, by default that from before DLPack 1.0, which has no
        room for the read-only mark.
        """
        if max_version is None and self.impl.impl_cls is DLManagedTensorVersioned:
            max_version = (1, 0)
        return self.impl.tensor.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device type and number."""
        return self.impl.get_dlpack_device()


class _Only:
    """An object with nothing but some of its attributes, so that it is read by one protocol."""

    def __init__(self, whole: Any, *names: str) -> None:
        self._whole, self._names = whole, names
        getattr(whole, names[0])  # the object must have the protocol

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            return getattr(self._whole, name)
        raise AttributeError(name)


def _wrapped(x: Any, impl_cls: type[DLStructure] | None) -> DLPackObject:
    return DLPackObject(DLManagedTensorImpl(arraybridge.asdlpack(x), impl_cls))


def asdlpack(obj: Any, impl_cls: type[DLStructure] | None = None) -> DLPackObject:
    """``obj`` as something that any ``from_dlpack`` takes, sharing its memory.

    ``obj`` has one of DLPack, the array interface, the CUDA array interface and the buffer protocol.
    ``impl_cls``, DLManagedTensor or DLManagedTensorVersioned, is the form of the capsules for consumers that
    ask for none. Raises BufferError for what DLPack cannot say.
    """
    return _wrapped(obj, impl_cls)


def asdlpack_dlpack(obj: Any, impl_cls: type[DLStructure] | None = None) -> DLPackObject:
    """``asdlpack`` by ``__dlpack__``; AttributeError for objects without it."""
    return _wrapped(_Only(obj, "__dlpack__", "__dlpack_device__"), impl_cls)


def asdlpack_array_interface_v3(obj: Any, impl_cls: type[DLStructure] | None = None) -> DLPackObject:
    """``asdlpack`` by ``__array_interface__``; AttributeError for objects without it."""
    return _wrapped(_Only(obj, "__array_interface__"), impl_cls)


def asdlpack_array_interface_v2(obj: Any, impl_cls: type[DLStructure] | None = None) -> DLPackObject:
    """NotImplementedError: version 2 of the array interface has been out of use since 2006."""
    raise NotImplementedError(f"{type(obj).__name__} has the array interface of version 2; version 3 is read")


def asdlpack_cuda_array_interface(obj: Any, impl_cls: type[DLStructure] | None = None) -> DLPackObject:
    """``asdlpack`` by ``__cuda_array_interface__``; AttributeError for objects without it."""
    return _wrapped(_Only(obj, "__cuda_array_interface__", "device"), impl_cls)


def asdlpack_buffer(obj: Any, impl_cls: type[DLStructure] | None = None) -> DLPackObject:
    """``asdlpack`` by the buffer protocol, the buffer held until the last consumer is gone."""
    return _wrapped(memoryview(obj), impl_cls)


def _get_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of a compact row-major array."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides))[: len(shape)] if shape else ()
