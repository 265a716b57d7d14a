"""What the package says about arrays, devices, backends and conversions."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Backend", "Device", "Report", "TensorInfo"]

# DLPack's device types, as frameworks spell them.
DEVICE_NAMES = {
    1: "cpu",
    2: "cuda",
    3: "cuda_host",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    9: "vpi",
    10: "rocm",
    11: "rocm_host",
    12: "ext_dev",
    13: "cuda_managed",
    14: "oneapi",
    15: "webgpu",
    16: "hexagon",
    17: "maia",
    18: "trn",
    19: "tpu",
    20: "tpu_host",
    21: "ascend",
}
DEVICE_TYPES = {name: number for number, name in DEVICE_NAMES.items()}
HOST_READABLE = frozenset({1, 3, 11, 13})
DRIVEN = HOST_READABLE | {2, 4}  # the types of the devices that some backend moves data of


@dataclass(frozen=True)
class Device:
    """A place where arrays live: DLPack's pair, and what the driver says of it where it was asked."""

    type: int
    """DLPack's device type: 1 host, 2 CUDA, 4 OpenCL, ..."""
    id: int = 0
    """The device's number among those of its type."""
    name: str = ""
    """The maker's name for it."""
    backend: str = ""
    """The backend that uses it: "host", "cuda", "opencl"."""
    total_memory: int = 0
    """Bytes; 0: unknown."""
    free_memory: int = 0
    """Bytes; 0: unknown."""

    def __str__(self) -> str:
        kind = DEVICE_NAMES.get(self.type, f"device type {self.type}")
        return kind if self.type == 1 else f"{kind}:{self.id}"

    @property
    def pair(self) -> tuple[int, int]:
        """The device as __dlpack_device__ gives it."""
        return self.type, self.id

    @property
    def host_readable(self) -> bool:
        """Whether the host reads its memory."""
        return self.type in HOST_READABLE


@dataclass(frozen=True)
class Backend:
    """A way to move data: "host", "cuda", "opencl"."""

    name: str
    """Its name."""
    available: bool
    """Whether it can be used here."""
    detail: str
    """Version and library, or why it cannot be used."""


@dataclass(frozen=True)
class TensorInfo:
    """What an array is, as detect() found it."""

    framework: str | None
    """Name of the framework whose array it is; None: of none that is known."""
    shape: tuple[int, ...]
    """Extents of the axes."""
    strides: tuple[int, ...]
    """Steps along the axes, in elements."""
    dtype: str
    """Name of the elements' type."""
    device: Device
    """Where the memory is."""
    nbytes: int
    """Bytes of all elements."""
    read_only: bool
    """Whether the memory must not be written to."""
    c_contiguous: bool
    """Compact row-major."""
    f_contiguous: bool
    """Compact column-major."""
    alignment: int
    """Largest power of two up to 4096 that divides the address; 0: no address."""
    accepted_by: tuple[str, ...]
    """Frameworks that take it without a copy as it stands."""
    protocol: str
    """How it was read."""


ROUTES = ("zero copy", "host", "upload", "download", "device", "peer", "staged")
REASONS = ("requested", "device", "dtype", "layout", "alignment", "read-only", "consumer")
CONSUMERS = ("numpy", "torch", "jax", "tensorflow", "cupy", "numba", "pyclesperanto", "paddle", "mlx", "tvm_ffi")


def names_of(bits: int, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names whose bits are set, lowest first."""
    return tuple(name for bit, name in enumerate(names) if bits >> bit & 1)


@dataclass(frozen=True)
class Report:
    """What a conversion did, or would do."""

    route: str
    """"zero copy", "host", "upload", "download", "device", "peer" or "staged"."""
    reasons: tuple[str, ...]
    """Everything that ruled out zero copy."""
    passes: int
    """Times the data was read and written; 0: shared."""
    bytes_read: int
    """Bytes read."""
    bytes_written: int
    """Bytes written."""
    seconds: float
    """Duration of the whole call; 0 in a plan."""
    protocol: str
    """How the array was read, and how the result was made."""

    @property
    def zero_copy(self) -> bool:
        """Whether the result is the source's own memory."""
        return self.passes == 0

    def __str__(self) -> str:
        why = f" ({', '.join(self.reasons)})" if self.reasons else ""
        moved = (
            ""
            if self.zero_copy
            else (
                f", {self.passes} pass{'' if self.passes == 1 else 'es'}, "
                f"{_bytes(self.bytes_read)} read, {_bytes(self.bytes_written)} written"
            )
        )
        took = f", {_seconds(self.seconds)}" if self.seconds else ""
        return f"{self.route}{moved}{why}{took}, via {self.protocol}"


def _bytes(number: int) -> str:
    amount, units = float(number), ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while amount >= 1023.95 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    return f"{number} B" if units[0] == "B" else f"{amount:.1f} {units[0]}"


def _seconds(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
