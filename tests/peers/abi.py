"""The arraybridge C ABI through ctypes, declared from the published header alone."""

from __future__ import annotations

import ctypes as C
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import ml_dtypes
import numpy as np

# ---- DLPack ----------------------------------------------------------------------------------

CPU, CUDA, CUDA_HOST, OPENCL, VULKAN, METAL = 1, 2, 3, 4, 7, 8
ROCM, ROCM_HOST, CUDA_MANAGED, WEBGPU = 10, 11, 13, 15
READ_ONLY, IS_COPIED, PADDED = 1, 2, 4


class DLPackVersion(C.Structure):
    _fields_ = [("major", C.c_uint32), ("minor", C.c_uint32)]


class DLDevice(C.Structure):
    _fields_ = [("device_type", C.c_int32), ("device_id", C.c_int32)]

    def pair(self) -> tuple[int, int]:
        return self.device_type, self.device_id


class DLDataType(C.Structure):
    _fields_ = [("code", C.c_uint8), ("bits", C.c_uint8), ("lanes", C.c_uint16)]

    def triple(self) -> tuple[int, int, int]:
        return self.code, self.bits, self.lanes


class DLTensor(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("device", DLDevice),
        ("ndim", C.c_int32),
        ("dtype", DLDataType),
        ("shape", C.POINTER(C.c_int64)),
        ("strides", C.POINTER(C.c_int64)),
        ("byte_offset", C.c_uint64),
    ]


class DLManagedTensor(C.Structure):
    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", C.c_void_p), ("deleter", C.c_void_p)]


class DLManagedTensorVersioned(C.Structure):
    _fields_ = [
        ("version", DLPackVersion),
        ("manager_ctx", C.c_void_p),
        ("deleter", C.c_void_p),
        ("flags", C.c_uint64),
        ("dl_tensor", DLTensor),
    ]


DELETER = C.CFUNCTYPE(None, C.c_void_p)

# ---- arraybridge -----------------------------------------------------------------------------

ABI_MAJOR, ABI_MINOR = 1, 0

STATUS = {
    0: "AB_OK",
    -1: "AB_E_INVALID_ARGUMENT",
    -2: "AB_E_INVALID_TENSOR",
    -3: "AB_E_VERSION",
    -4: "AB_E_UNSUPPORTED_DEVICE",
    -5: "AB_E_UNSUPPORTED_DTYPE",
    -6: "AB_E_UNSUPPORTED_LAYOUT",
    -7: "AB_E_BACKEND_UNAVAILABLE",
    -8: "AB_E_COPY_REQUIRED",
    -9: "AB_E_READ_ONLY",
    -10: "AB_E_OVERLAP",
    -11: "AB_E_OUT_OF_MEMORY",
    -12: "AB_E_DEVICE",
    -13: "AB_E_LOSSY",
    -14: "AB_E_INTERNAL",
}
OK = 0
E_INVALID_ARGUMENT, E_INVALID_TENSOR, E_VERSION, E_UNSUPPORTED_DEVICE = -1, -2, -3, -4
E_UNSUPPORTED_DTYPE, E_UNSUPPORTED_LAYOUT, E_BACKEND_UNAVAILABLE = -5, -6, -7
E_COPY_REQUIRED, E_READ_ONLY, E_OVERLAP, E_OUT_OF_MEMORY = -8, -9, -10, -11
E_DEVICE, E_LOSSY, E_INTERNAL = -12, -13, -14

T_C_CONTIGUOUS, T_F_CONTIGUOUS, T_DENSE, T_BROADCAST = 0x1, 0x2, 0x4, 0x8
T_NEGATIVE_STRIDE, T_OVERLAPPING, T_EMPTY, T_READ_ONLY = 0x10, 0x20, 0x40, 0x80
T_SUBBYTE_PACKED, T_HOST_READABLE, T_OPAQUE_HANDLE, T_MISALIGNED = 0x100, 0x200, 0x400, 0x800

NUMPY, TORCH, JAX, TENSORFLOW, CUPY = 0x1, 0x2, 0x4, 0x8, 0x10
NUMBA, PYCLESPERANTO, PADDLE, MLX, TVM_FFI = 0x20, 0x40, 0x80, 0x100, 0x200

MEMORY_UNKNOWN, MEMORY_HOST, MEMORY_PINNED, MEMORY_DEVICE, MEMORY_MANAGED = range(5)
COPY_IF_NEEDED, COPY_ALWAYS, COPY_NEVER = range(3)
LAYOUT_ANY, LAYOUT_C, LAYOUT_F, LAYOUT_KEEP = range(4)
CAST_UNSAFE, CAST_SAME_KIND, CAST_SAFE, CAST_EXACT = range(4)
ASYNC, SATURATE, WRITABLE, VERIFY_POINTER = 0x1, 0x2, 0x4, 0x8
ROUTE_ZERO_COPY, ROUTE_HOST, ROUTE_UPLOAD, ROUTE_DOWNLOAD = range(4)
ROUTE_DEVICE, ROUTE_PEER, ROUTE_STAGED = range(4, 7)
R_REQUESTED, R_DEVICE, R_DTYPE, R_LAYOUT, R_ALIGNMENT, R_READ_ONLY, R_CONSUMER = (1 << i for i in range(7))


class Error(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("code", C.c_int32),
        ("native_code", C.c_int64),
        ("message", C.c_char * 496),
    ]


class ContextOptions(C.Structure):
    _fields_ = [("struct_size", C.c_uint32), ("num_threads", C.c_uint32), ("staging_bytes", C.c_uint64)]


class BackendInfo(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("available", C.c_int32),
        ("name", C.c_char * 32),
        ("detail", C.c_char * 256),
    ]


class DeviceInfo(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("reserved", C.c_uint32),
        ("device", DLDevice),
        ("name", C.c_char * 128),
        ("backend", C.c_char * 32),
        ("total_memory", C.c_uint64),
        ("free_memory", C.c_uint64),
    ]


class TensorInfo(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("flags", C.c_uint32),
        ("device", DLDevice),
        ("dtype", DLDataType),
        ("ndim", C.c_int32),
        ("num_elements", C.c_int64),
        ("num_bytes", C.c_uint64),
        ("begin_offset", C.c_int64),
        ("end_offset", C.c_int64),
        ("alignment", C.c_uint32),
        ("accepted_by", C.c_uint32),
    ]


class PointerInfo(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("memory", C.c_int32),
        ("device", DLDevice),
        ("base", C.c_uint64),
        ("size", C.c_uint64),
    ]


ALLOCATE = C.CFUNCTYPE(C.c_void_p, C.c_void_p, C.c_int32, C.c_int32, C.c_size_t, C.c_size_t, C.c_int64)
DEALLOCATE = C.CFUNCTYPE(None, C.c_void_p, C.c_int32, C.c_int32, C.c_void_p, C.c_size_t, C.c_int64)


class Allocator(C.Structure):
    _fields_ = [("user", C.c_void_p), ("allocate", ALLOCATE), ("deallocate", DEALLOCATE)]


class ConvertOptions(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("flags", C.c_uint32),
        ("device", DLDevice),
        ("dtype", DLDataType),
        ("copy", C.c_int32),
        ("layout", C.c_int32),
        ("casting", C.c_int32),
        ("alignment", C.c_uint32),
        ("consumers", C.c_uint32),
        ("src_stream", C.c_int64),
        ("dst_stream", C.c_int64),
        ("allocator", C.POINTER(Allocator)),
    ]


class Report(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("route", C.c_int32),
        ("reasons", C.c_uint32),
        ("passes", C.c_uint32),
        ("bytes_read", C.c_uint64),
        ("bytes_written", C.c_uint64),
        ("scratch_bytes", C.c_uint64),
        ("nanoseconds", C.c_uint64),
    ]

    def facts(self) -> dict[str, int]:
        """Every field that a plan must predict."""
        return {n: getattr(self, n) for n, *_ in self._fields_ if n not in ("struct_size", "nanoseconds")}


SIZES = {
    Error: 512, ContextOptions: 16, BackendInfo: 296, DeviceInfo: 192, TensorInfo: 64, PointerInfo: 32,
    Allocator: 24, ConvertOptions: 64, Report: 48, DLTensor: 48, DLManagedTensor: 64,
    DLManagedTensorVersioned: 80, DLDataType: 4, DLDevice: 8,
}  # fmt: skip

_P, _V, _U64, _SZ = C.POINTER, C.c_void_p, C.c_uint64, C.c_size_t
_ERR = _P(Error)
FUNCTIONS = {
    "ab_abi_version": (C.c_uint32, []),
    "ab_version": (C.c_char_p, []),
    "ab_status_name": (C.c_char_p, [C.c_int32]),
    "ab_context_create": (C.c_int32, [_P(ContextOptions), _P(_V), _ERR]),
    "ab_context_release": (None, [_V]),
    "ab_list_backends": (C.c_int32, [_V, _P(BackendInfo), _SZ, _P(_SZ), _ERR]),
    "ab_list_devices": (C.c_int32, [_V, _P(DeviceInfo), _SZ, _P(_SZ), _ERR]),
    "ab_detect": (C.c_int32, [_P(DLTensor), _U64, _P(TensorInfo), _ERR]),
    "ab_detect_pointer": (C.c_int32, [_V, _V, _P(PointerInfo), _ERR]),
    "ab_convert": (C.c_int32, [_V, _V, _P(ConvertOptions), _P(_V), _P(Report), _ERR]),
    "ab_copy": (C.c_int32, [_V, _P(DLTensor), _U64, _P(ConvertOptions), _P(_V), _P(Report), _ERR]),
    "ab_copy_into": (
        C.c_int32,
        [_V, _P(DLTensor), _U64, _P(DLTensor), _U64, _P(ConvertOptions), _P(Report), _ERR],
    ),
    "ab_plan": (C.c_int32, [_V, _P(DLTensor), _U64, _P(ConvertOptions), _P(Report), _ERR]),
    "ab_report_describe": (_SZ, [_P(Report), C.c_char_p, _SZ]),
    "ab_wrap": (C.c_int32, [_P(DLTensor), _U64, _V, _V, _P(_V), _ERR]),
    "ab_from_legacy": (C.c_int32, [_V, _P(_V), _ERR]),
    "ab_to_legacy": (C.c_int32, [_V, _P(_V), _ERR]),
    "ab_release": (None, [_V]),
    "ab_release_legacy": (None, [_V]),
    "ab_dtype_parse": (C.c_int32, [C.c_char_p, _P(DLDataType), _ERR]),
    "ab_dtype_format": (_SZ, [_P(DLDataType), C.c_char_p, _SZ]),
}


def library_path() -> Path:
    default = Path(__file__).resolve().parents[2] / "target" / "release" / "libarraybridge.so"
    return Path(os.environ.get("ARRAYBRIDGE_LIBRARY") or default)


def load() -> C.CDLL:
    library = C.CDLL(str(library_path()))
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


# ---- dtypes ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class DType:
    name: str
    code: int
    bits: int
    kind: str  # b, i, u, f, c
    lanes: int = 1

    @property
    def np(self) -> np.dtype:
        return np.dtype(getattr(ml_dtypes, self.name, None) or self.name)

    @property
    def subbyte(self) -> bool:
        return self.bits * self.lanes % 8 != 0

    @property
    def size(self) -> int:
        """Bytes of one element that is stored in bytes of its own."""
        return (self.bits * self.lanes + 7) // 8

    def dl(self) -> DLDataType:
        return DLDataType(self.code, self.bits, self.lanes)

    def __str__(self) -> str:
        return self.name + (f"x{self.lanes}" if self.lanes != 1 else "")


_FLOAT8 = ["e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"]
DTYPES: dict[str, DType] = {
    t.name: t
    for t in [
        DType("bool", 6, 8, "b"),
        *(DType(f"int{b}", 0, b, "i") for b in (8, 16, 32, 64)),
        *(DType(f"uint{b}", 1, b, "u") for b in (8, 16, 32, 64)),
        DType("float16", 2, 16, "f"),
        DType("bfloat16", 4, 16, "f"),
        DType("float32", 2, 32, "f"),
        DType("float64", 2, 64, "f"),
        DType("complex64", 5, 64, "c"),
        DType("complex128", 5, 128, "c"),
        *(DType(f"float8_{n}", 7 + i, 8, "f") for i, n in enumerate(_FLOAT8)),
        DType("float6_e2m3fn", 15, 6, "f"),
        DType("float6_e3m2fn", 16, 6, "f"),
        DType("float4_e2m1fn", 17, 4, "f"),
    ]
}
ALL = list(DTYPES.values())


def dtype_of(dl: DLDataType) -> DType:
    for t in ALL:
        if (t.code, t.bits) == (dl.code, dl.bits):
            return DType(t.name, t.code, t.bits, t.kind, dl.lanes)
    raise KeyError(dl.triple())


def dtype_of_numpy(dtype: np.dtype) -> DType:
    return next(t for t in ALL if t.np == dtype)


# ---- index space -----------------------------------------------------------------------------


def compact(shape: Sequence[int], order: str = "C") -> list[int]:
    axes = range(len(shape)) if order == "F" else reversed(range(len(shape)))
    strides, step = [1] * len(shape), 1
    for axis in axes:
        strides[axis] = step
        step *= shape[axis]
    return strides


def element_offsets(shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """The element offset of every index, in C order."""
    offsets = np.zeros(1, np.int64)
    if 0 in shape:
        return offsets[:0]
    for extent, stride in zip(shape, strides, strict=True):
        if extent > 1:
            offsets = (offsets[:, None] + np.arange(extent, dtype=np.int64) * stride).ravel()
    return offsets


def gather(memory: np.ndarray, first: int, offsets: np.ndarray, dtype: DType, packed: bool) -> np.ndarray:
    """Elements of `memory` (bytes; element 0 at byte `first`): a flat array, or raw bytes for lanes > 1."""
    if packed:
        bits = (first * 8 + offsets * dtype.bits)[:, None] + np.arange(dtype.bits)
        values = (memory[bits >> 3] >> (bits & 7).astype(np.uint8)) & 1
        return (values << np.arange(dtype.bits, dtype=np.uint8)).sum(1, dtype=np.uint8).view(dtype.np)
    raw = memory[(first + offsets * dtype.size)[:, None] + np.arange(dtype.size)]
    return raw if dtype.lanes != 1 else raw.reshape(-1).view(dtype.np)


def byte_span(offsets: np.ndarray, dtype: DType, packed: bool) -> tuple[int, int]:
    """[begin, end) in bytes from the first element of every byte that an element touches."""
    if not len(offsets):
        return 0, 0
    low, high = int(offsets.min()), int(offsets.max())
    if packed:
        return low * dtype.bits // 8, -(-(high + 1) * dtype.bits // 8)
    return low * dtype.size, (high + 1) * dtype.size


# ---- tensors that the tests own --------------------------------------------------------------

deleted: Counter[int] = Counter()
_ids = count(1)


@DELETER
def _delete_versioned(address: int) -> None:
    deleted[DLManagedTensorVersioned.from_address(address).manager_ctx] += 1


@DELETER
def _delete_legacy(address: int) -> None:
    deleted[DLManagedTensor.from_address(address).manager_ctx] += 1


@DELETER
def count_release(owner: int) -> None:
    """For ab_wrap: counts under the number given as the owner."""
    deleted[owner] += 1


def new_id() -> int:
    return next(_ids)


def _int64s(values: Sequence[int] | None) -> C.Array | None:
    return None if values is None else (C.c_int64 * len(values))(*values)


@dataclass
class Tensor:
    """A tensor over `memory`: element 0 at byte `first`, strides in elements."""

    dtype: DType
    shape: Sequence[int]
    strides: Sequence[int]
    memory: np.ndarray
    first: int
    byte_offset: int = 0
    device: tuple[int, int] = (CPU, 0)
    flags: int = 0
    null_strides: bool = False
    null_data: bool = False
    has_deleter: bool = True
    minor: int = 3
    id: int = field(default_factory=new_id)

    def __post_init__(self) -> None:
        self._shape = _int64s(self.shape) if len(self.shape) or self.id % 2 else None
        self._strides = None if self.null_strides else _int64s(self.strides)
        if not len(self.shape) and self.id % 3 == 0:
            self._strides = None
        self.dl = DLTensor(
            None if self.null_data else self.address - self.byte_offset,
            DLDevice(*self.device),
            len(self.shape),
            self.dtype.dl(),
            C.cast(self._shape, C.POINTER(C.c_int64)) if self._shape is not None else None,
            C.cast(self._strides, C.POINTER(C.c_int64)) if self._strides is not None else None,
            self.byte_offset,
        )
        self.versioned = DLManagedTensorVersioned(
            DLPackVersion(1, self.minor),
            self.id,
            C.cast(_delete_versioned, C.c_void_p) if self.has_deleter else None,
            self.flags,
            self.dl,
        )
        self.legacy = DLManagedTensor(
            self.dl, self.id, C.cast(_delete_legacy, C.c_void_p) if self.has_deleter else None
        )

    @property
    def address(self) -> int:
        return self.memory.ctypes.data + self.first

    @property
    def packed(self) -> bool:
        return self.dtype.subbyte and not self.flags & PADDED

    @property
    def offsets(self) -> np.ndarray:
        return element_offsets(self.shape, self.strides)

    @property
    def num_bytes(self) -> int:
        n = len(self.offsets)
        return (n * self.dtype.bits * self.dtype.lanes + 7) // 8 if self.packed else n * self.dtype.size

    def values(self) -> np.ndarray:
        return gather(self.memory, self.first, self.offsets, self.dtype, self.packed)

    @property
    def deletions(self) -> int:
        return deleted[self.id]

    def state(self) -> tuple:
        """Everything that a failing call must leave alone."""
        arrays = [bytes(a) if a is not None else None for a in (self._shape, self._strides)]
        return bytes(self.versioned), bytes(self.legacy), *arrays, self.memory.tobytes(), self.deletions

    def __str__(self) -> str:
        return (
            f"{self.dtype} shape={list(self.shape)} strides={'NULL' if self.null_strides else list(self.strides)} "
            f"flags={self.flags:#x} device={self.device} byte_offset={self.byte_offset} "
            f"address%4096={self.address % 4096}{' packed' if self.packed else ''}"
        )


def from_numpy(array: np.ndarray, **options) -> Tensor:
    """A tensor over the memory of a NumPy array, ml_dtypes included; sub-byte elements are padded."""
    dtype = dtype_of_numpy(array.dtype)
    strides = [s // array.itemsize for s in array.strides]
    assert [s * array.itemsize for s in strides] == list(array.strides), "strides that are not whole elements"
    low = sum(min(0, (n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True)) if array.size else 0
    high = sum(max(0, (n - 1) * s) for n, s in zip(array.shape, array.strides, strict=True)) + array.itemsize
    start = array.__array_interface__["data"][0] + low
    memory = np.ctypeslib.as_array((C.c_uint8 * (high - low if array.size else 1)).from_address(start))
    flags = options.pop("flags", 0) | (PADDED if dtype.subbyte else 0)
    if not array.flags.writeable:
        flags |= READ_ONLY
    tensor = Tensor(dtype, array.shape, strides, memory, -low, flags=flags, **options)
    tensor.owner = array
    return tensor


# ---- results ---------------------------------------------------------------------------------


class Result:
    """A managed tensor that the library handed out."""

    def __init__(self, library: C.CDLL, address: int, legacy: bool = False):
        self.library, self.pointer, self.legacy = library, address, legacy
        self.managed = (DLManagedTensor if legacy else DLManagedTensorVersioned).from_address(address)
        self.dl: DLTensor = self.managed.dl_tensor

    @property
    def flags(self) -> int:
        return 0 if self.legacy else self.managed.flags

    @property
    def shape(self) -> list[int]:
        return self.dl.shape[: self.dl.ndim]

    @property
    def strides(self) -> list[int]:
        return self.dl.strides[: self.dl.ndim]

    @property
    def address(self) -> int:
        return (self.dl.data or 0) + self.dl.byte_offset

    @property
    def dtype(self) -> DType:
        return dtype_of(self.dl.dtype)

    @property
    def packed(self) -> bool:
        return self.dtype.subbyte and not self.flags & PADDED

    def values(self) -> np.ndarray:
        offsets = element_offsets(self.shape, self.strides)
        if not len(offsets):
            return np.empty(0, self.dtype.np)
        begin, end = byte_span(offsets, self.dtype, self.packed)
        memory = np.ctypeslib.as_array((C.c_uint8 * (end - begin)).from_address(self.address + begin))
        return gather(memory, -begin, offsets, self.dtype, self.packed)

    def release(self) -> None:
        assert self.pointer, "released twice by the test"
        (self.library.ab_release_legacy if self.legacy else self.library.ab_release)(self.pointer)
        self.pointer = None


@dataclass
class Outcome:
    status: int
    message: str
    report: Report
    result: Result | None = None

    @property
    def ok(self) -> bool:
        return self.status == OK

    def __str__(self) -> str:
        return f"{STATUS.get(self.status, self.status)} {self.message!r} {self.report.facts()}"


def options(**fields) -> ConvertOptions:
    """dtype as a DType, device as a pair."""
    o = ConvertOptions(struct_size=C.sizeof(ConvertOptions))
    for name, value in fields.items():
        if isinstance(value, DType):
            value = value.dl()
        elif name == "device":
            value = DLDevice(*value)
        elif name == "allocator":
            value = C.pointer(value)
        setattr(o, name, value)
    return o


def describe(o: ConvertOptions | None) -> str:
    if o is None:
        return "options=NULL"
    parts = [
        f"{n}={getattr(o, n)}"
        for n in ["flags", "copy", "layout", "casting", "alignment", "consumers"]
        if getattr(o, n)
    ]
    if o.device.device_type:
        parts.append(f"device={o.device.pair()}")
    if o.dtype.bits:
        parts.append(f"dtype={o.dtype.triple()}")
    return f"options({', '.join(parts)})"


class Api:
    """Calls that check what the contract says of every call: error fully written, *out NULL on failure."""

    def __init__(self, library: C.CDLL):
        self.library = library
        self.context: int | None = None

    def _error(self) -> Error:
        error = Error()
        C.memset(C.byref(error), 0xAB, C.sizeof(error))
        error.struct_size = C.sizeof(Error)
        return error

    def _check(self, status: int, error: Error) -> str:
        raw = bytes(error)[16:]
        assert b"\0" in raw, "message is not NUL-terminated"
        message = raw[: raw.index(b"\0")].decode()
        assert status in STATUS, f"unknown status {status}"
        assert error.code == status, f"error.code {error.code} but the call returned {status}"
        assert bool(message) == (status != OK), f"status {status} with message {message!r}"
        assert error.native_code == 0 or status in (E_DEVICE, E_BACKEND_UNAVAILABLE), error.native_code
        assert status != E_INTERNAL, f"AB_E_INTERNAL: {message}"
        return message

    def _call(self, function, *arguments, out: bool = False, report: bool = True, legacy: bool = False) -> Outcome:
        error, slot, r = self._error(), C.c_void_p(0xDEAD), Report(struct_size=C.sizeof(Report))
        tail = ([C.byref(slot)] if out else []) + ([C.byref(r)] if report else [])
        status = function(*arguments, *tail, C.byref(error))
        message = self._check(status, error)
        if out:
            assert bool(slot.value) == (status == OK), f"*out is {slot.value} with status {status}"
        result = Result(self.library, slot.value, legacy) if out and slot.value else None
        return Outcome(status, message, r, result)

    def convert(self, source: Tensor | DLManagedTensorVersioned | int, o: ConvertOptions | None = None) -> Outcome:
        if isinstance(source, Tensor):
            source = source.versioned
        pointer = source if isinstance(source, int) else C.addressof(source)
        return self._call(self.library.ab_convert, self.context, pointer, o, out=True)

    def copy(self, source: Tensor, o: ConvertOptions | None = None) -> Outcome:
        return self._call(self.library.ab_copy, self.context, source.dl, source.flags, o, out=True)

    def copy_into(self, source: Tensor, destination: Tensor, o: ConvertOptions | None = None) -> Outcome:
        arguments = source.dl, source.flags, destination.dl, destination.flags, o
        return self._call(self.library.ab_copy_into, self.context, *arguments)

    def plan(self, source: Tensor, o: ConvertOptions | None = None) -> Outcome:
        return self._call(self.library.ab_plan, self.context, source.dl, source.flags, o)

    def detect(self, source: Tensor | DLTensor, flags: int | None = None) -> tuple[Outcome, TensorInfo]:
        info = TensorInfo(struct_size=C.sizeof(TensorInfo))
        dl = source.dl if isinstance(source, Tensor) else source
        flags = getattr(source, "flags", 0) if flags is None else flags
        error = self._error()
        status = self.library.ab_detect(dl, flags, info, C.byref(error))
        return Outcome(status, self._check(status, error), Report()), info

    def wrap(self, view: Tensor, owner: int) -> Outcome:
        release = C.cast(count_release, C.c_void_p)
        return self._call(self.library.ab_wrap, view.dl, view.flags, owner, release, out=True, report=False)

    def from_legacy(self, source: DLManagedTensor | int) -> Outcome:
        pointer = source if isinstance(source, int) else C.addressof(source)
        return self._call(self.library.ab_from_legacy, pointer, out=True, report=False)

    def to_legacy(self, source: DLManagedTensorVersioned | int) -> Outcome:
        pointer = source if isinstance(source, int) else C.addressof(source)
        return self._call(self.library.ab_to_legacy, pointer, out=True, report=False, legacy=True)

    def dtype_parse(self, text: str) -> tuple[Outcome, DLDataType]:
        out, error = DLDataType(), self._error()
        status = self.library.ab_dtype_parse(text.encode(), out, C.byref(error))
        return Outcome(status, self._check(status, error), Report()), out

    def backends(self) -> dict[str, bool]:
        count, error = C.c_size_t(), self._error()
        self._check(self.library.ab_list_backends(self.context, None, 0, C.byref(count), C.byref(error)), error)
        infos = (BackendInfo * max(1, count.value))()
        infos[0].struct_size = C.sizeof(BackendInfo)
        status = self.library.ab_list_backends(self.context, infos, count.value, C.byref(count), C.byref(error))
        assert self._check(status, error) == ""
        return {i.name.decode(): bool(i.available) for i in infos[: count.value]}


# ---- capsules --------------------------------------------------------------------------------

_py = C.pythonapi
_py.PyCapsule_New.restype, _py.PyCapsule_New.argtypes = C.py_object, [C.c_void_p, C.c_char_p, C.c_void_p]
_py.PyCapsule_IsValid.restype, _py.PyCapsule_IsValid.argtypes = C.c_int, [C.py_object, C.c_char_p]
_py.PyCapsule_GetPointer.restype = C.c_void_p
_py.PyCapsule_GetPointer.argtypes = [C.py_object, C.c_char_p]
_py.PyCapsule_SetName.restype, _py.PyCapsule_SetName.argtypes = C.c_int, [C.py_object, C.c_char_p]

NAMES = {False: b"dltensor_versioned", True: b"dltensor"}
_USED = {False: b"used_dltensor_versioned", True: b"used_dltensor"}


class Producer:
    """Hands one managed tensor to one importer. The struct stays the test's until `taken`."""

    def __init__(self, address: int, legacy: bool, device: tuple[int, int] = (CPU, 0)):
        self.capsule = _py.PyCapsule_New(address, NAMES[legacy], None)
        self.legacy, self.device = legacy, device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if not self.legacy and max_version is None:
            raise BufferError("only the versioned struct is offered")
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    @property
    def taken(self) -> bool:
        return not _py.PyCapsule_IsValid(self.capsule, NAMES[self.legacy])


def producer(source: Tensor | Result, legacy: bool = False) -> Producer:
    if isinstance(source, Tensor):
        struct = source.legacy if legacy else source.versioned
        return Producer(C.addressof(struct), legacy, source.device)
    return Producer(source.pointer, source.legacy, source.dl.device.pair())


def take_capsule(capsule: object) -> tuple[int, bool]:
    """Takes the struct out of another library's capsule: its address, and whether it is the legacy one."""
    legacy = not _py.PyCapsule_IsValid(capsule, NAMES[False])
    address = _py.PyCapsule_GetPointer(capsule, NAMES[legacy])
    _py.PyCapsule_SetName(capsule, _USED[legacy])
    return address, legacy


def peek_capsule(capsule: object) -> DLManagedTensor | DLManagedTensorVersioned:
    """The struct, left where it is: valid as long as the capsule."""
    legacy = not _py.PyCapsule_IsValid(capsule, NAMES[False])
    struct = DLManagedTensor if legacy else DLManagedTensorVersioned
    return struct.from_address(_py.PyCapsule_GetPointer(capsule, NAMES[legacy]))
