"""The C ABI and CUDA's driver through ctypes: nothing but Python is needed."""

from __future__ import annotations

import ctypes as C
import os
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CPU, CUDA, PINNED, MANAGED = 1, 2, 3, 13
ASYNC, SATURATE = 1, 2
PADDED = 4
CAST_EXACT = 3
OK, LOSSY = 0, -13
ROUTES = ("zero copy", "host", "upload", "download", "device", "peer", "staged")


class Device(C.Structure):
    _fields_ = [("type", C.c_int32), ("id", C.c_int32)]


class DataType(C.Structure):
    _fields_ = [("code", C.c_uint8), ("bits", C.c_uint8), ("lanes", C.c_uint16)]


class Tensor(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("device", Device),
        ("ndim", C.c_int32),
        ("dtype", DataType),
        ("shape", C.POINTER(C.c_int64)),
        ("strides", C.POINTER(C.c_int64)),
        ("byte_offset", C.c_uint64),
    ]


class Managed(C.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", C.c_uint32),
        ("minor", C.c_uint32),
        ("manager", C.c_void_p),
        ("deleter", C.c_void_p),
        ("flags", C.c_uint64),
        ("tensor", Tensor),
    ]


class Error(C.Structure):
    _fields_ = [("size", C.c_uint32), ("code", C.c_int32), ("native", C.c_int64), ("message", C.c_char * 496)]


class Options(C.Structure):
    _fields_ = [
        ("size", C.c_uint32),
        ("flags", C.c_uint32),
        ("device", Device),
        ("dtype", DataType),
        ("copy", C.c_int32),
        ("layout", C.c_int32),
        ("casting", C.c_int32),
        ("alignment", C.c_uint32),
        ("consumers", C.c_uint32),
        ("src_stream", C.c_int64),
        ("dst_stream", C.c_int64),
        ("allocator", C.c_void_p),
    ]


class Report(C.Structure):
    _fields_ = [
        ("size", C.c_uint32),
        ("route", C.c_int32),
        ("reasons", C.c_uint32),
        ("passes", C.c_uint32),
        ("bytes_read", C.c_uint64),
        ("bytes_written", C.c_uint64),
        ("scratch_bytes", C.c_uint64),
        ("nanoseconds", C.c_uint64),
    ]


assert C.sizeof(Options) == 64 and C.sizeof(Report) == 48 and C.sizeof(Tensor) == 48


class Failure(Exception):
    def __init__(self, error: Error):
        super().__init__(error.message.decode())
        self.code = error.code


def path() -> Path:
    return Path(os.environ.get("ARRAYBRIDGE_LIBRARY", ROOT / "target/release/libarraybridge.so"))


ab = C.CDLL(str(path()))


def tensor(
    data: int,
    device: tuple[int, int],
    dtype: DataType | str,
    shape: Sequence[int],
    strides: Sequence[int] | None = None,
    byte_offset: int = 0,
) -> Tensor:
    """Its shape and strides live as long as it does."""
    axes = (C.c_int64 * len(shape))(*shape)
    steps = None if strides is None else (C.c_int64 * len(shape))(*strides)
    made = Tensor(
        data,
        Device(*device),
        len(shape),
        dtype if isinstance(dtype, DataType) else parse(dtype),
        C.cast(axes, C.POINTER(C.c_int64)),
        None if steps is None else C.cast(steps, C.POINTER(C.c_int64)),
        byte_offset,
    )
    made.kept = axes, steps
    return made


def parse(name: str) -> DataType:
    dtype, error = DataType(), Error(C.sizeof(Error))
    if ab.ab_dtype_parse(name.encode(), C.byref(dtype), C.byref(error)):
        raise Failure(error)
    return dtype


def options(**values: object) -> Options:
    made = Options(C.sizeof(Options))
    for name, value in values.items():
        setattr(made, name, value)
    return made


def copy_into(
    source: Tensor, destination: Tensor, given: Options | None = None, flags: tuple[int, int] = (0, 0)
) -> Report:
    report, error = Report(C.sizeof(Report)), Error(C.sizeof(Error))
    status = ab.ab_copy_into(
        None, C.byref(source), C.c_uint64(flags[0]), C.byref(destination), C.c_uint64(flags[1]),
        C.byref(given or options()), C.byref(report), C.byref(error),
    )  # fmt: skip
    if status:
        raise Failure(error)
    return report


class Driver:
    """What the tests need of libcuda.so.1, on the primary context of a device."""

    def __init__(self) -> None:
        self.lib = C.CDLL("libcuda.so.1")
        self.call("cuInit", C.c_uint(0))
        count = C.c_int()
        self.call("cuDeviceGetCount", C.byref(count))
        self.count = count.value
        self.contexts = []
        for device in range(self.count):
            context = C.c_void_p()
            self.call("cuDevicePrimaryCtxRetain", C.byref(context), C.c_int(device))
            self.contexts.append(context)
        self.enter(0)

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.lib, name)(*arguments)
        if code:
            raise RuntimeError(f"{name}: {code}")

    def enter(self, device: int) -> None:
        self.call("cuCtxSetCurrent", self.contexts[device])

    def allocate(self, size: int, device: tuple[int, int]) -> Memory:
        return Memory(self, size, device)

    def version(self) -> str:
        value = C.c_int()
        self.call("cuDriverGetVersion", C.byref(value))
        return f"{value.value // 1000}.{value.value % 1000 // 10}"

    def name(self, device: int) -> str:
        name = C.create_string_buffer(128)
        self.call("cuDeviceGetName", name, C.c_int(128), C.c_int(device))
        return name.value.decode()


class Memory:
    """Memory of a kind, freed with this."""

    def __init__(self, driver: Driver, size: int, device: tuple[int, int]):
        self.driver, self.size, self.device = driver, max(size, 1), device
        address = C.c_uint64()
        driver.enter(device[1] if device[0] == CUDA else 0)
        if device[0] == CUDA:
            driver.call("cuMemAlloc_v2", C.byref(address), C.c_size_t(self.size))
        elif device[0] == PINNED:
            driver.call("cuMemHostAlloc", C.byref(address), C.c_size_t(self.size), C.c_uint(1))
        else:
            driver.call("cuMemAllocManaged", C.byref(address), C.c_size_t(self.size), C.c_uint(1))
        self.address = address.value

    def write(self, data: bytes) -> None:
        if self.device[0] == CUDA:
            self.driver.enter(self.device[1])
            self.driver.call("cuMemcpyHtoD_v2", C.c_uint64(self.address), data, C.c_size_t(len(data)))
        else:
            C.memmove(self.address, data, len(data))

    def read(self, size: int) -> bytes:
        if self.device[0] != CUDA:
            return C.string_at(self.address, size)
        data = C.create_string_buffer(max(size, 1))
        self.driver.enter(self.device[1])
        self.driver.call("cuMemcpyDtoH_v2", data, C.c_uint64(self.address), C.c_size_t(size))
        return data.raw[:size]

    def __del__(self) -> None:
        if self.device[0] == PINNED:
            self.driver.lib.cuMemFreeHost(C.c_void_p(self.address))
        else:
            self.driver.enter(self.device[1] if self.device[0] == CUDA else 0)
            self.driver.lib.cuMemFree_v2(C.c_uint64(self.address))
