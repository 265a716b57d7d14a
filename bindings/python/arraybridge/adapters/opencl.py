"""Frameworks of OpenCL memory: pyclesperanto (the current one and its prototype) and PyOpenCL.

A buffer belongs to a context, and these frameworks take only those of their own: results are made in memory
that they allocate.
"""

from __future__ import annotations

import sys
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from .. import _native
from .._native import Tensor
from ..errors import UnsupportedDtypeError
from . import base
from .base import Adapter, Export, Lookup

__all__ = ["PyOpenCL", "Pyclesperanto"]


class Pyclesperanto(Adapter):
    """pyclesperanto's arrays, and those of pyclesperanto_prototype."""

    name = "pyclesperanto"
    import_name = "pyclesperanto"
    classes = frozenset(
        {
            *((top, "_Array") for top in ("pyclesperanto", "pyclesperanto_opencl", "pyclesperanto_cuda")),
            ("pyclesperanto", "Array"),
            ("pyclesperanto_prototype", "OCLArray"),
        }
    )
    consumer = 0x40
    devices = (base.OPENCL,)
    keywords = ()  # its own are `stream` and `version`
    allocates = True
    uploads = "pyclesperanto.push"
    downloads = "pyclesperanto.pull"

    PROTOTYPE = "pyclesperanto_prototype"

    def installed(self) -> bool:
        return super().installed() or self.PROTOTYPE in sys.modules or base.can_import(self.PROTOTYPE)

    def loaded(self) -> ModuleType | None:
        return super().loaded() or sys.modules.get(self.PROTOTYPE)

    def module(self) -> ModuleType:
        if self.loaded() is None and not super().installed() and base.can_import(self.PROTOTYPE):
            return base.import_framework(self.name, self.PROTOTYPE)
        return super().module()

    def parse_device(self, device: Any) -> tuple[int, int] | None:
        if not type(device).__module__.startswith("pyclesperanto") or not isinstance(
            getattr(device, "index", None), int
        ):
            return None
        return base.OPENCL, device.index

    def device_of(self, x: Any) -> tuple[int, int]:
        return super().device_of(x) if hasattr(x, "__dlpack_device__") else (base.OPENCL, 0)

    def default_device(self) -> tuple[int, int]:
        get_device = getattr(self.module(), "get_device", None)
        index = getattr(get_device(), "index", 0) if get_device else 0
        return base.OPENCL, index if isinstance(index, int) else 0

    def export(self, x: Any, lookup: Lookup) -> Export:
        if hasattr(x, "__dlpack__"):
            return super().export(x, lookup)
        return _of_pyopencl(x)  # the prototype's are PyOpenCL's

    def allocate(self, shape: tuple[int, ...], dtype: str, device: tuple[int, int], like: Any) -> Any:
        module = self.module()
        if module.__name__ == self.PROTOTYPE:
            return module.create(shape, np.dtype(dtype).type)
        return module.create(shape, dtype=np.dtype(dtype).type, device=self._device(device))

    def _device(self, device: tuple[int, int]) -> Any:
        """pyclesperanto's object for a device; None for the one that is selected."""
        cle = self.module()
        if cle.__name__ == self.PROTOTYPE or cle.get_device().index == device[1]:
            return None
        # Its list and its indices are in the same order; select_device() would change the user's selection.
        before = cle.get_device()
        try:
            return cle.select_device(device[1])
        finally:
            cle.select_device(before.index)

    def upload(self, tensor: Tensor, device: tuple[int, int], like: Any) -> tuple[Any, str]:
        cle, array = self.module(), np.asarray(tensor)
        if cle.__name__ == self.PROTOTYPE:
            return cle.push(array), self.uploads
        return cle.push(array, dtype=array.dtype.type, device=self._device(device)), self.uploads

    def download(self, x: Any) -> tuple[Tensor, str]:
        return _native.asdlpack(np.asarray(self.module().pull(x))), self.downloads

    def shortcut(self, number: int, module: ModuleType) -> None:
        pass  # nothing of it is in host memory


class PyOpenCL(Adapter):
    """pyopencl.array's arrays."""

    name = "pyopencl"
    import_name = "pyopencl"
    classes = frozenset({("pyopencl", "Array")})
    devices = (base.OPENCL,)
    allocates = True
    uploads = "pyopencl.array.to_device"
    downloads = "pyopencl.array.Array.get"

    def parse_device(self, device: Any) -> tuple[int, int] | None:
        if type(device).__module__.partition(".")[0] != "pyopencl":
            return None
        if hasattr(device, "devices"):  # a context
            device = device.devices[0]
        elif hasattr(device, "device"):  # a queue
            device = device.device
        return base.OPENCL, _index(device)

    def device_of(self, x: Any) -> tuple[int, int]:
        return base.OPENCL, _index(x.queue.device if x.queue is not None else x.context.devices[0])

    def default_device(self) -> tuple[int, int]:
        return base.OPENCL, 0

    def export(self, x: Any, lookup: Lookup) -> Export:
        return _of_pyopencl(x)

    def _queue(self, device: tuple[int, int], like: Any) -> Any:
        """A queue of the caller's context if one was given, else ours for the device."""
        cl: Any = self.module()
        if isinstance(like, cl.CommandQueue):
            return like
        if isinstance(like, cl.Context):
            return cl.CommandQueue(like)
        return _default_queue(device[1])

    def allocate(self, shape: tuple[int, ...], dtype: str, device: tuple[int, int], like: Any) -> Any:
        array = base.import_framework(self.name, "pyopencl.array")
        return array.empty(self._queue(device, like), shape, np.dtype(dtype))

    def upload(self, tensor: Tensor, device: tuple[int, int], like: Any) -> tuple[Any, str]:
        array = base.import_framework(self.name, "pyopencl.array")
        return array.to_device(self._queue(device, like), np.ascontiguousarray(np.asarray(tensor))), self.uploads

    def download(self, x: Any) -> tuple[Tensor, str]:
        if x.flags.forc:
            return _native.asdlpack(x.get()), self.downloads
        # PyOpenCL reads whole blocks only: read from the first element's byte to the last one's.
        reach = [(extent - 1) * step for extent, step in zip(x.shape, x.strides, strict=True)]
        first = x.offset + sum(step for step in reach if step < 0)
        last = x.offset + sum(step for step in reach if step > 0) + x.dtype.itemsize
        block = np.empty(last - first, np.uint8)
        queue = x.queue if x.queue is not None else self._queue(self.device_of(x), x.context)
        self.module().enqueue_copy(queue, block, x.base_data, src_offset=first)
        view: np.ndarray[Any, Any] = np.ndarray(x.shape, x.dtype, block, x.offset - first, x.strides)
        return _native.asdlpack(view), self.downloads

    def prepare(self, dtype: str, shape: tuple[int, ...]) -> None:
        if dtype not in np.sctypeDict:
            raise UnsupportedDtypeError(f'PyOpenCL has no {dtype}: ask for another one, dtype="float32" for example')

    def shortcut(self, number: int, module: ModuleType) -> None:
        pass  # nothing of it is in host memory


def _of_pyopencl(x: Any) -> Export:
    """A PyOpenCL array's buffer. What its queue has still to do is done first: DLPack carries no queue."""
    from .numpy import dtype_name

    if x.queue is not None:
        x.queue.finish()
    name = dtype_name(x.dtype)
    handle = getattr(x.base_data, "int_ptr", None)
    if handle is None and x.size:
        raise UnsupportedDtypeError("the array is in shared virtual memory, which has no cl_mem: x.get() first")
    device = x.queue.device if x.queue is not None else x.context.devices[0]
    tensor = _native.wrap(
        handle or 0, x.shape, x.strides, name, base.OPENCL, _index(device), (x, x.base_data), False, x.offset
    )
    return Export(tensor, "cl_mem")


@cache
def _devices() -> list[int]:
    """The handles of all devices, in the order of the platforms."""
    cl = base.import_framework("pyopencl", "pyopencl")
    return [device.int_ptr for platform in cl.get_platforms() for device in platform.get_devices()]


def _index(device: Any) -> int:
    known = _devices()
    return known.index(device.int_ptr) if device.int_ptr in known else 0


@cache
def _default_queue(index: int) -> Any:
    """A queue of our own on a device, for results that no caller's context was named for."""
    cl = base.import_framework("pyopencl", "pyopencl")
    devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    if index >= len(devices):
        raise base.bad_device(f"opencl:{index}", f"one of {len(devices)} OpenCL devices")
    return cl.CommandQueue(cl.Context([devices[index]]))
