"""The C ABI and CUDA's driver through ctypes: nothing but Python is needed."""

from __future__ import annotations

import ctypes as C
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# As the header has it, which that file is made from.
_spec = importlib.util.spec_from_file_location("declarations", ROOT / "bindings/ctypes/declarations.py")
ab_h = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(ab_h)

CPU, CUDA, PINNED, MANAGED = ab_h.kDLCPU, ab_h.kDLCUDA, ab_h.kDLCUDAHost, ab_h.kDLCUDAManaged
ASYNC, SATURATE = ab_h.AB_CONVERT_ASYNC, ab_h.AB_CONVERT_SATURATE
PADDED = ab_h.DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
CAST_EXACT = ab_h.AB_CAST_EXACT
LOSSY = ab_h.AB_E_LOSSY

Tensor, DataType, Device, Options = ab_h.DLTensor, ab_h.DLDataType, ab_h.DLDevice, ab_h.ab_convert_options


class Failure(Exception):
    def __init__(self, error: ab_h.ab_error):
        super().__init__(error.message.decode())
        self.code = error.code


def path() -> Path:
    return Path(os.environ.get("ARRAYBRIDGE_LIBRARY", ROOT / "target/release/libarraybridge.so"))


ab = ab_h.load(path())


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


def sized(struct: type) -> C.Structure:
    """A struct that says how large it is."""
    return struct(struct_size=C.sizeof(struct))


def parse(name: str) -> DataType:
    dtype, error = DataType(), sized(ab_h.ab_error)
    if ab.ab_dtype_parse(name.encode(), C.byref(dtype), C.byref(error)):
        raise Failure(error)
    return dtype


def options(**values: object) -> Options:
    made = sized(Options)
    for name, value in values.items():
        setattr(made, name, value)
    return made


def copy_into(
    source: Tensor, destination: Tensor, given: Options | None = None, flags: tuple[int, int] = (0, 0)
) -> ab_h.ab_report:
    report, error = sized(ab_h.ab_report), sized(ab_h.ab_error)
    status = ab.ab_copy_into(
        None, C.byref(source), flags[0], C.byref(destination), flags[1],
        C.byref(given or options()), C.byref(report), C.byref(error),
    )  # fmt: skip
    if status:
        raise Failure(error)
    return report


def copy_to(source: Tensor, device: tuple[int, int]) -> None:
    """To new memory of a device, which goes back at once."""
    made, error = C.POINTER(ab_h.DLManagedTensorVersioned)(), sized(ab_h.ab_error)
    wanted = options(device=Device(*device))
    if ab.ab_copy(None, C.byref(source), 0, C.byref(wanted), C.byref(made), None, C.byref(error)):
        raise Failure(error)
    ab.ab_release(made)


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
        if not hasattr(self, "address"):
            return
        if self.device[0] == PINNED:
            self.driver.lib.cuMemFreeHost(C.c_void_p(self.address))
        else:
            self.driver.enter(self.device[1] if self.device[0] == CUDA else 0)
            self.driver.lib.cuMemFree_v2(C.c_uint64(self.address))
