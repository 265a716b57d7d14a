"""The declarations of arraybridge.h and dlpack.h, where every name is documented, for ctypes.

Written by bindings/cdef.py: change it there.
"""

import ctypes as C
import os

DLPACK_MAJOR_VERSION = 1
DLPACK_MINOR_VERSION = 3
DLPACK_FLAG_BITMASK_READ_ONLY = 0x1
DLPACK_FLAG_BITMASK_IS_COPIED = 0x2
DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED = 0x4
AB_ABI_MAJOR = 1
AB_ABI_MINOR = 0
AB_OK = 0
AB_E_INVALID_ARGUMENT = -1
AB_E_INVALID_TENSOR = -2
AB_E_VERSION = -3
AB_E_UNSUPPORTED_DEVICE = -4
AB_E_UNSUPPORTED_DTYPE = -5
AB_E_UNSUPPORTED_LAYOUT = -6
AB_E_BACKEND_UNAVAILABLE = -7
AB_E_COPY_REQUIRED = -8
AB_E_READ_ONLY = -9
AB_E_OVERLAP = -10
AB_E_OUT_OF_MEMORY = -11
AB_E_DEVICE = -12
AB_E_LOSSY = -13
AB_E_INTERNAL = -14
AB_TENSOR_C_CONTIGUOUS = 0x1
AB_TENSOR_F_CONTIGUOUS = 0x2
AB_TENSOR_DENSE = 0x4
AB_TENSOR_BROADCAST = 0x8
AB_TENSOR_NEGATIVE_STRIDE = 0x10
AB_TENSOR_OVERLAPPING = 0x20
AB_TENSOR_EMPTY = 0x40
AB_TENSOR_READ_ONLY = 0x80
AB_TENSOR_SUBBYTE_PACKED = 0x100
AB_TENSOR_HOST_READABLE = 0x200
AB_TENSOR_OPAQUE_HANDLE = 0x400
AB_TENSOR_MISALIGNED = 0x800
AB_CONSUMER_NUMPY = 0x1
AB_CONSUMER_TORCH = 0x2
AB_CONSUMER_JAX = 0x4
AB_CONSUMER_TENSORFLOW = 0x8
AB_CONSUMER_CUPY = 0x10
AB_CONSUMER_NUMBA = 0x20
AB_CONSUMER_PYCLESPERANTO = 0x40
AB_CONSUMER_PADDLE = 0x80
AB_CONSUMER_MLX = 0x100
AB_CONSUMER_TVM_FFI = 0x200
AB_MEMORY_UNKNOWN = 0
AB_MEMORY_HOST = 1
AB_MEMORY_PINNED = 2
AB_MEMORY_DEVICE = 3
AB_MEMORY_MANAGED = 4
AB_COPY_IF_NEEDED = 0
AB_COPY_ALWAYS = 1
AB_COPY_NEVER = 2
AB_LAYOUT_ANY = 0
AB_LAYOUT_C = 1
AB_LAYOUT_F = 2
AB_LAYOUT_KEEP = 3
AB_CAST_UNSAFE = 0
AB_CAST_SAME_KIND = 1
AB_CAST_SAFE = 2
AB_CAST_EXACT = 3
AB_CONVERT_ASYNC = 0x1
AB_CONVERT_SATURATE = 0x2
AB_CONVERT_WRITABLE = 0x4
AB_CONVERT_VERIFY_POINTER = 0x8
AB_ROUTE_ZERO_COPY = 0
AB_ROUTE_HOST = 1
AB_ROUTE_UPLOAD = 2
AB_ROUTE_DOWNLOAD = 3
AB_ROUTE_DEVICE = 4
AB_ROUTE_PEER = 5
AB_ROUTE_STAGED = 6
AB_REASON_REQUESTED = 0x1
AB_REASON_DEVICE = 0x2
AB_REASON_DTYPE = 0x4
AB_REASON_LAYOUT = 0x8
AB_REASON_ALIGNMENT = 0x10
AB_REASON_READ_ONLY = 0x20
AB_REASON_CONSUMER = 0x40

kDLCPU = 1
kDLCUDA = 2
kDLCUDAHost = 3
kDLOpenCL = 4
kDLVulkan = 7
kDLMetal = 8
kDLVPI = 9
kDLROCM = 10
kDLROCMHost = 11
kDLExtDev = 12
kDLCUDAManaged = 13
kDLOneAPI = 14
kDLWebGPU = 15
kDLHexagon = 16
kDLMAIA = 17
kDLTrn = 18
kDLTPU = 19
kDLTPUHost = 20
kDLAscend = 21

kDLInt = 0
kDLUInt = 1
kDLFloat = 2
kDLOpaqueHandle = 3
kDLBfloat = 4
kDLComplex = 5
kDLBool = 6
kDLFloat8_e3m4 = 7
kDLFloat8_e4m3 = 8
kDLFloat8_e4m3b11fnuz = 9
kDLFloat8_e4m3fn = 10
kDLFloat8_e4m3fnuz = 11
kDLFloat8_e5m2 = 12
kDLFloat8_e5m2fnuz = 13
kDLFloat8_e8m0fnu = 14
kDLFloat6_e2m3fn = 15
kDLFloat6_e3m2fn = 16
kDLFloat4_e2m1fn = 17
kDLBcomplex = 18


class DLPackVersion(C.Structure):
    _fields_ = [
        ("major", C.c_uint32),
        ("minor", C.c_uint32),
    ]


class DLDevice(C.Structure):
    _fields_ = [
        ("device_type", C.c_int32),
        ("device_id", C.c_int32),
    ]


class DLDataType(C.Structure):
    _fields_ = [
        ("code", C.c_uint8),
        ("bits", C.c_uint8),
        ("lanes", C.c_uint16),
    ]


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
    _fields_ = [
        ("dl_tensor", DLTensor),
        ("manager_ctx", C.c_void_p),
        ("deleter", C.CFUNCTYPE(None, C.c_void_p)),
    ]


class DLManagedTensorVersioned(C.Structure):
    _fields_ = [
        ("version", DLPackVersion),
        ("manager_ctx", C.c_void_p),
        ("deleter", C.CFUNCTYPE(None, C.c_void_p)),
        ("flags", C.c_uint64),
        ("dl_tensor", DLTensor),
    ]


class ab_context_options(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("num_threads", C.c_uint32),
        ("staging_bytes", C.c_uint64),
    ]


class ab_error(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("code", C.c_int32),
        ("native_code", C.c_int64),
        ("message", C.c_char * 496),
    ]


class ab_backend_info(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("available", C.c_int32),
        ("name", C.c_char * 32),
        ("detail", C.c_char * 256),
    ]


class ab_device_info(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("reserved", C.c_uint32),
        ("device", DLDevice),
        ("name", C.c_char * 128),
        ("backend", C.c_char * 32),
        ("total_memory", C.c_uint64),
        ("free_memory", C.c_uint64),
    ]


class ab_pointer_info(C.Structure):
    _fields_ = [
        ("struct_size", C.c_uint32),
        ("memory", C.c_int32),
        ("device", DLDevice),
        ("base", C.c_uint64),
        ("size", C.c_uint64),
    ]


class ab_tensor_info(C.Structure):
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


class ab_allocator(C.Structure):
    _fields_ = [
        ("user", C.c_void_p),
        ("allocate", C.CFUNCTYPE(C.c_void_p, C.c_void_p, C.c_int32, C.c_int32, C.c_size_t, C.c_size_t, C.c_int64)),
        ("deallocate", C.CFUNCTYPE(None, C.c_void_p, C.c_int32, C.c_int32, C.c_void_p, C.c_size_t, C.c_int64)),
    ]


class ab_convert_options(C.Structure):
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
        ("allocator", C.POINTER(ab_allocator)),
    ]


class ab_report(C.Structure):
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


# Result and parameters of each function.
FUNCTIONS = {
    "ab_abi_version": (C.c_uint32, []),
    "ab_version": (C.c_char_p, []),
    "ab_status_name": (C.c_char_p, [C.c_int32]),
    "ab_context_create": (C.c_int32, [C.POINTER(ab_context_options), C.POINTER(C.c_void_p), C.POINTER(ab_error)]),
    "ab_context_release": (None, [C.c_void_p]),
    "ab_list_backends": (C.c_int32, [C.c_void_p, C.POINTER(ab_backend_info), C.c_size_t, C.POINTER(C.c_size_t), C.POINTER(ab_error)]),
    "ab_list_devices": (C.c_int32, [C.c_void_p, C.POINTER(ab_device_info), C.c_size_t, C.POINTER(C.c_size_t), C.POINTER(ab_error)]),
    "ab_detect_pointer": (C.c_int32, [C.c_void_p, C.c_void_p, C.POINTER(ab_pointer_info), C.POINTER(ab_error)]),
    "ab_detect": (C.c_int32, [C.POINTER(DLTensor), C.c_uint64, C.POINTER(ab_tensor_info), C.POINTER(ab_error)]),
    "ab_convert": (C.c_int32, [C.c_void_p, C.POINTER(DLManagedTensorVersioned), C.POINTER(ab_convert_options), C.POINTER(C.POINTER(DLManagedTensorVersioned)), C.POINTER(ab_report), C.POINTER(ab_error)]),
    "ab_copy": (C.c_int32, [C.c_void_p, C.POINTER(DLTensor), C.c_uint64, C.POINTER(ab_convert_options), C.POINTER(C.POINTER(DLManagedTensorVersioned)), C.POINTER(ab_report), C.POINTER(ab_error)]),
    "ab_copy_into": (C.c_int32, [C.c_void_p, C.POINTER(DLTensor), C.c_uint64, C.POINTER(DLTensor), C.c_uint64, C.POINTER(ab_convert_options), C.POINTER(ab_report), C.POINTER(ab_error)]),
    "ab_plan": (C.c_int32, [C.c_void_p, C.POINTER(DLTensor), C.c_uint64, C.POINTER(ab_convert_options), C.POINTER(ab_report), C.POINTER(ab_error)]),
    "ab_report_describe": (C.c_size_t, [C.POINTER(ab_report), C.c_char_p, C.c_size_t]),
    "ab_wrap": (C.c_int32, [C.POINTER(DLTensor), C.c_uint64, C.c_void_p, C.CFUNCTYPE(None, C.c_void_p), C.POINTER(C.POINTER(DLManagedTensorVersioned)), C.POINTER(ab_error)]),
    "ab_from_legacy": (C.c_int32, [C.POINTER(DLManagedTensor), C.POINTER(C.POINTER(DLManagedTensorVersioned)), C.POINTER(ab_error)]),
    "ab_to_legacy": (C.c_int32, [C.POINTER(DLManagedTensorVersioned), C.POINTER(C.POINTER(DLManagedTensor)), C.POINTER(ab_error)]),
    "ab_release": (None, [C.POINTER(DLManagedTensorVersioned)]),
    "ab_release_legacy": (None, [C.POINTER(DLManagedTensor)]),
    "ab_dtype_parse": (C.c_int32, [C.c_char_p, C.POINTER(DLDataType), C.POINTER(ab_error)]),
    "ab_dtype_format": (C.c_size_t, [C.POINTER(DLDataType), C.c_char_p, C.c_size_t]),
}


def load(path):
    """The library in a file, its functions declared. OSError: it is missing, or of another ABI."""
    library = C.CDLL(os.fspath(path))
    if not hasattr(library, "ab_abi_version"):
        raise OSError(f"{path} is not arraybridge: it has no ab_abi_version")
    library.ab_abi_version.restype = C.c_uint32
    major, minor = divmod(library.ab_abi_version(), 1 << 16)
    if major != AB_ABI_MAJOR or minor < AB_ABI_MINOR:
        needed = f"{AB_ABI_MAJOR}.{AB_ABI_MINOR} or a later minor version is needed"
        raise OSError(f"{path} has ABI {major}.{minor}: {needed}")
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
