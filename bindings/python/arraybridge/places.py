"""Where an array lives, without saying by which driver: the host, a numbered accelerator, or a named device.

These are arraybridge 0.5's device values. ``convert_memory``, ``stack_slices`` and the others that take
``device=`` take them beside numbers and names such as "cuda:1"; each framework counts its own accelerators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from arraybridge.info import Device


@dataclass(frozen=True, slots=True)
class HostDevice:
    """The host's memory."""

    @property
    def label(self) -> str:
        """"host"."""
        return "host"


@dataclass(frozen=True, slots=True)
class AcceleratorDevice:
    """An accelerator by the number that a framework has for it."""

    index: int

    @property
    def label(self) -> str:
        """"accelerator:" and the number."""
        return f"accelerator:{self.index}"


@dataclass(frozen=True, slots=True)
class NamedDevice:
    """A device by a name that ``convert`` knows, such as "opencl:0"."""

    name: str

    @property
    def label(self) -> str:
        """"device:" and the name."""
        return f"device:{self.name}"


Place: TypeAlias = HostDevice | AcceleratorDevice | NamedDevice | Device

HOST = HostDevice()

_ACCELERATORS = frozenset({2, 4, 10})  # CUDA, OpenCL and ROCm devices, which frameworks number


def place_of(device: Device) -> HostDevice | AcceleratorDevice | NamedDevice:
    """The value that stands for one of the library's devices."""
    if device.host_readable:
        return HOST
    return AcceleratorDevice(device.id) if device.type in _ACCELERATORS else NamedDevice(str(device))
