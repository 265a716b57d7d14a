"""Devices without a driver: the host, an accelerator by number, a device by name.

These are arraybridge 0.5's device values, and ``Device`` objects as ``devices()`` gives them. Functions that
take ``device=`` take all of these, beside numbers and names such as "cuda:1".
"""

from __future__ import annotations

from arraybridge.info import DEVICE_TYPES, Device

_CUDA, _OPENCL, _EXT_DEV, _ROCM = 2, 4, 12, 10


class HostDevice(Device):
    """The host's memory."""

    def __init__(self) -> None:
        super().__init__(1, 0)

    @property
    def label(self) -> str:
        """What records call it: "host"."""
        return "host"

    def __repr__(self) -> str:
        return "HostDevice()"

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return HostDevice, ()


class AcceleratorDevice(Device):
    """The accelerator that a framework has under a number: a CUDA device, for pyclesperanto an OpenCL one."""

    def __init__(self, index: int) -> None:
        super().__init__(_CUDA, index)

    @property
    def index(self) -> int:
        """The number."""
        return self.id

    @property
    def label(self) -> str:
        """What records call it: "accelerator:" and the number."""
        return f"accelerator:{self.id}"

    def __repr__(self) -> str:
        return f"AcceleratorDevice(index={self.id})"

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return AcceleratorDevice, (self.id,)


class NamedDevice(Device):
    """A device by a name that ``convert`` knows, such as "opencl:0"; any other name only stands for itself."""

    def __init__(self, name: str) -> None:
        kind, _, number = name.partition(":")
        known = kind in DEVICE_TYPES and (not number or number.isdecimal())
        super().__init__(DEVICE_TYPES[kind] if known else _EXT_DEV, int(number or 0) if known else 0, name)

    @property
    def label(self) -> str:
        """What records call it: "device:" and the name."""
        return f"device:{self.name}"

    def __repr__(self) -> str:
        return f"NamedDevice(name={self.name!r})"

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return NamedDevice, (self.name,)


HOST = HostDevice()


def place_of(device: Device) -> HostDevice | AcceleratorDevice | NamedDevice:
    """The value that stands for one of the library's devices."""
    if device.host_readable:
        return HOST
    numbered = device.type in (_CUDA, _OPENCL, _ROCM)
    return AcceleratorDevice(device.id) if numbered else NamedDevice(str(device))
