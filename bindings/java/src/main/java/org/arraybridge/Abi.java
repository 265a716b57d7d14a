// Written by bindings/declarations.py from arraybridge.h: change it there.
package org.arraybridge;

/** Values, sizes and offsets of the C ABI on 64-bit systems. */
final class Abi {
    private Abi() {}

    static final int AB_ABI_MAJOR = 1;
    static final int AB_ABI_MINOR = 0;
    static final int AB_OK = 0;
    static final int AB_E_INVALID_ARGUMENT = -1;
    static final int AB_E_INVALID_TENSOR = -2;
    static final int AB_E_VERSION = -3;
    static final int AB_E_UNSUPPORTED_DEVICE = -4;
    static final int AB_E_UNSUPPORTED_DTYPE = -5;
    static final int AB_E_UNSUPPORTED_LAYOUT = -6;
    static final int AB_E_BACKEND_UNAVAILABLE = -7;
    static final int AB_E_COPY_REQUIRED = -8;
    static final int AB_E_READ_ONLY = -9;
    static final int AB_E_OVERLAP = -10;
    static final int AB_E_OUT_OF_MEMORY = -11;
    static final int AB_E_DEVICE = -12;
    static final int AB_E_LOSSY = -13;
    static final int AB_E_INTERNAL = -14;
    static final int AB_TENSOR_C_CONTIGUOUS = 1;
    static final int AB_TENSOR_F_CONTIGUOUS = 2;
    static final int AB_TENSOR_DENSE = 4;
    static final int AB_TENSOR_BROADCAST = 8;
    static final int AB_TENSOR_NEGATIVE_STRIDE = 16;
    static final int AB_TENSOR_OVERLAPPING = 32;
    static final int AB_TENSOR_EMPTY = 64;
    static final int AB_TENSOR_READ_ONLY = 128;
    static final int AB_TENSOR_SUBBYTE_PACKED = 256;
    static final int AB_TENSOR_HOST_READABLE = 512;
    static final int AB_TENSOR_OPAQUE_HANDLE = 1024;
    static final int AB_TENSOR_MISALIGNED = 2048;
    static final int AB_CONSUMER_NUMPY = 1;
    static final int AB_CONSUMER_TORCH = 2;
    static final int AB_CONSUMER_JAX = 4;
    static final int AB_CONSUMER_TENSORFLOW = 8;
    static final int AB_CONSUMER_CUPY = 16;
    static final int AB_CONSUMER_NUMBA = 32;
    static final int AB_CONSUMER_PYCLESPERANTO = 64;
    static final int AB_CONSUMER_PADDLE = 128;
    static final int AB_CONSUMER_MLX = 256;
    static final int AB_CONSUMER_TVM_FFI = 512;
    static final int AB_MEMORY_UNKNOWN = 0;
    static final int AB_MEMORY_HOST = 1;
    static final int AB_MEMORY_PINNED = 2;
    static final int AB_MEMORY_DEVICE = 3;
    static final int AB_MEMORY_MANAGED = 4;
    static final int AB_COPY_IF_NEEDED = 0;
    static final int AB_COPY_ALWAYS = 1;
    static final int AB_COPY_NEVER = 2;
    static final int AB_LAYOUT_ANY = 0;
    static final int AB_LAYOUT_C = 1;
    static final int AB_LAYOUT_F = 2;
    static final int AB_LAYOUT_KEEP = 3;
    static final int AB_CAST_UNSAFE = 0;
    static final int AB_CAST_SAME_KIND = 1;
    static final int AB_CAST_SAFE = 2;
    static final int AB_CAST_EXACT = 3;
    static final int AB_CONVERT_ASYNC = 1;
    static final int AB_CONVERT_SATURATE = 2;
    static final int AB_CONVERT_WRITABLE = 4;
    static final int AB_CONVERT_VERIFY_POINTER = 8;
    static final int AB_ROUTE_ZERO_COPY = 0;
    static final int AB_ROUTE_HOST = 1;
    static final int AB_ROUTE_UPLOAD = 2;
    static final int AB_ROUTE_DOWNLOAD = 3;
    static final int AB_ROUTE_DEVICE = 4;
    static final int AB_ROUTE_PEER = 5;
    static final int AB_ROUTE_STAGED = 6;
    static final int AB_REASON_REQUESTED = 1;
    static final int AB_REASON_DEVICE = 2;
    static final int AB_REASON_DTYPE = 4;
    static final int AB_REASON_LAYOUT = 8;
    static final int AB_REASON_ALIGNMENT = 16;
    static final int AB_REASON_READ_ONLY = 32;
    static final int AB_REASON_CONSUMER = 64;
    static final int DLPACK_FLAG_BITMASK_READ_ONLY = 1;
    static final int DLPACK_FLAG_BITMASK_IS_COPIED = 2;
    static final int DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED = 4;
    static final int kDLCPU = 1;
    static final int kDLCUDA = 2;
    static final int kDLCUDAHost = 3;
    static final int kDLOpenCL = 4;
    static final int kDLVulkan = 7;
    static final int kDLMetal = 8;
    static final int kDLVPI = 9;
    static final int kDLROCM = 10;
    static final int kDLROCMHost = 11;
    static final int kDLExtDev = 12;
    static final int kDLCUDAManaged = 13;
    static final int kDLOneAPI = 14;
    static final int kDLWebGPU = 15;
    static final int kDLHexagon = 16;
    static final int kDLMAIA = 17;
    static final int kDLTrn = 18;
    static final int kDLTPU = 19;
    static final int kDLTPUHost = 20;
    static final int kDLAscend = 21;
    static final int kDLInt = 0;
    static final int kDLUInt = 1;
    static final int kDLFloat = 2;
    static final int kDLOpaqueHandle = 3;
    static final int kDLBfloat = 4;
    static final int kDLComplex = 5;
    static final int kDLBool = 6;
    static final int kDLFloat8_e3m4 = 7;
    static final int kDLFloat8_e4m3 = 8;
    static final int kDLFloat8_e4m3b11fnuz = 9;
    static final int kDLFloat8_e4m3fn = 10;
    static final int kDLFloat8_e4m3fnuz = 11;
    static final int kDLFloat8_e5m2 = 12;
    static final int kDLFloat8_e5m2fnuz = 13;
    static final int kDLFloat8_e8m0fnu = 14;
    static final int kDLFloat6_e2m3fn = 15;
    static final int kDLFloat6_e3m2fn = 16;
    static final int kDLFloat4_e2m1fn = 17;
    static final int kDLBcomplex = 18;

    /** DLDevice. */
    static final class DLDevice {
        private DLDevice() {}

        static final int BYTES = 8;
        static final int DEVICE_TYPE = 0;
        static final int DEVICE_ID = 4;
    }

    /** DLDataType. */
    static final class DLDataType {
        private DLDataType() {}

        static final int BYTES = 4;
        static final int CODE = 0;
        static final int BITS = 1;
        static final int LANES = 2;
    }

    /** DLTensor. */
    static final class DLTensor {
        private DLTensor() {}

        static final int BYTES = 48;
        static final int DATA = 0;
        static final int DEVICE_DEVICE_TYPE = 8;
        static final int DEVICE_DEVICE_ID = 12;
        static final int NDIM = 16;
        static final int DTYPE_CODE = 20;
        static final int DTYPE_BITS = 21;
        static final int DTYPE_LANES = 22;
        static final int SHAPE = 24;
        static final int STRIDES = 32;
        static final int BYTE_OFFSET = 40;
    }

    /** DLManagedTensorVersioned. */
    static final class DLManagedTensorVersioned {
        private DLManagedTensorVersioned() {}

        static final int BYTES = 80;
        static final int VERSION_MAJOR = 0;
        static final int VERSION_MINOR = 4;
        static final int MANAGER_CTX = 8;
        static final int DELETER = 16;
        static final int FLAGS = 24;
        static final int DL_TENSOR_DATA = 32;
        static final int DL_TENSOR_DEVICE_DEVICE_TYPE = 40;
        static final int DL_TENSOR_DEVICE_DEVICE_ID = 44;
        static final int DL_TENSOR_NDIM = 48;
        static final int DL_TENSOR_DTYPE_CODE = 52;
        static final int DL_TENSOR_DTYPE_BITS = 53;
        static final int DL_TENSOR_DTYPE_LANES = 54;
        static final int DL_TENSOR_SHAPE = 56;
        static final int DL_TENSOR_STRIDES = 64;
        static final int DL_TENSOR_BYTE_OFFSET = 72;
    }

    /** ab_context_options. */
    static final class AbContextOptions {
        private AbContextOptions() {}

        static final int BYTES = 16;
        static final int STRUCT_SIZE = 0;
        static final int NUM_THREADS = 4;
        static final int STAGING_BYTES = 8;
    }

    /** ab_error. */
    static final class AbError {
        private AbError() {}

        static final int BYTES = 512;
        static final int STRUCT_SIZE = 0;
        static final int CODE = 4;
        static final int NATIVE_CODE = 8;
        static final int MESSAGE = 16;
        static final int MESSAGE_SIZE = 496;
    }

    /** ab_backend_info. */
    static final class AbBackendInfo {
        private AbBackendInfo() {}

        static final int BYTES = 296;
        static final int STRUCT_SIZE = 0;
        static final int AVAILABLE = 4;
        static final int NAME = 8;
        static final int NAME_SIZE = 32;
        static final int DETAIL = 40;
        static final int DETAIL_SIZE = 256;
    }

    /** ab_device_info. */
    static final class AbDeviceInfo {
        private AbDeviceInfo() {}

        static final int BYTES = 192;
        static final int STRUCT_SIZE = 0;
        static final int RESERVED = 4;
        static final int DEVICE_DEVICE_TYPE = 8;
        static final int DEVICE_DEVICE_ID = 12;
        static final int NAME = 16;
        static final int NAME_SIZE = 128;
        static final int BACKEND = 144;
        static final int BACKEND_SIZE = 32;
        static final int TOTAL_MEMORY = 176;
        static final int FREE_MEMORY = 184;
    }

    /** ab_pointer_info. */
    static final class AbPointerInfo {
        private AbPointerInfo() {}

        static final int BYTES = 32;
        static final int STRUCT_SIZE = 0;
        static final int MEMORY = 4;
        static final int DEVICE_DEVICE_TYPE = 8;
        static final int DEVICE_DEVICE_ID = 12;
        static final int BASE = 16;
        static final int SIZE = 24;
    }

    /** ab_tensor_info. */
    static final class AbTensorInfo {
        private AbTensorInfo() {}

        static final int BYTES = 64;
        static final int STRUCT_SIZE = 0;
        static final int FLAGS = 4;
        static final int DEVICE_DEVICE_TYPE = 8;
        static final int DEVICE_DEVICE_ID = 12;
        static final int DTYPE_CODE = 16;
        static final int DTYPE_BITS = 17;
        static final int DTYPE_LANES = 18;
        static final int NDIM = 20;
        static final int NUM_ELEMENTS = 24;
        static final int NUM_BYTES = 32;
        static final int BEGIN_OFFSET = 40;
        static final int END_OFFSET = 48;
        static final int ALIGNMENT = 56;
        static final int ACCEPTED_BY = 60;
    }

    /** ab_allocator. */
    static final class AbAllocator {
        private AbAllocator() {}

        static final int BYTES = 24;
        static final int USER = 0;
        static final int ALLOCATE = 8;
        static final int DEALLOCATE = 16;
    }

    /** ab_convert_options. */
    static final class AbConvertOptions {
        private AbConvertOptions() {}

        static final int BYTES = 64;
        static final int STRUCT_SIZE = 0;
        static final int FLAGS = 4;
        static final int DEVICE_DEVICE_TYPE = 8;
        static final int DEVICE_DEVICE_ID = 12;
        static final int DTYPE_CODE = 16;
        static final int DTYPE_BITS = 17;
        static final int DTYPE_LANES = 18;
        static final int COPY = 20;
        static final int LAYOUT = 24;
        static final int CASTING = 28;
        static final int ALIGNMENT = 32;
        static final int CONSUMERS = 36;
        static final int SRC_STREAM = 40;
        static final int DST_STREAM = 48;
        static final int ALLOCATOR = 56;
    }

    /** ab_report. */
    static final class AbReport {
        private AbReport() {}

        static final int BYTES = 48;
        static final int STRUCT_SIZE = 0;
        static final int ROUTE = 4;
        static final int REASONS = 8;
        static final int PASSES = 12;
        static final int BYTES_READ = 16;
        static final int BYTES_WRITTEN = 24;
        static final int SCRATCH_BYTES = 32;
        static final int NANOSECONDS = 40;
    }

    /** Every function: its name, its result, its arguments. */
    static final String[][] FUNCTIONS = {
        {"ab_abi_version", "uint32"},
        {"ab_version", "string"},
        {"ab_status_name", "string", "int32"},
        {"ab_context_create", "int32", "pointer", "pointer", "pointer"},
        {"ab_context_release", "void", "pointer"},
        {"ab_list_backends", "int32", "pointer", "pointer", "uint64", "pointer", "pointer"},
        {"ab_list_devices", "int32", "pointer", "pointer", "uint64", "pointer", "pointer"},
        {"ab_detect_pointer", "int32", "pointer", "pointer", "pointer", "pointer"},
        {"ab_detect", "int32", "pointer", "uint64", "pointer", "pointer"},
        {"ab_convert", "int32", "pointer", "pointer", "pointer", "pointer", "pointer", "pointer"},
        {"ab_copy", "int32", "pointer", "pointer", "uint64", "pointer", "pointer", "pointer", "pointer"},
        {"ab_copy_into", "int32", "pointer", "pointer", "uint64", "pointer", "uint64", "pointer", "pointer", "pointer"},
        {"ab_plan", "int32", "pointer", "pointer", "uint64", "pointer", "pointer", "pointer"},
        {"ab_report_describe", "uint64", "pointer", "pointer", "uint64"},
        {"ab_wrap", "int32", "pointer", "uint64", "pointer", "pointer", "pointer", "pointer"},
        {"ab_from_legacy", "int32", "pointer", "pointer", "pointer"},
        {"ab_to_legacy", "int32", "pointer", "pointer", "pointer"},
        {"ab_release", "void", "pointer"},
        {"ab_release_legacy", "void", "pointer"},
        {"ab_dtype_parse", "int32", "pointer", "pointer", "pointer"},
        {"ab_dtype_format", "uint64", "pointer", "pointer", "uint64"},
    };
}
