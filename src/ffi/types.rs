//! Structs and constants of the C ABI. Every enum that crosses the boundary is an integer: C may put
//! any value in it.

use std::ffi::{c_char, c_void};

use crate::dlpack::raw::{DLDataType, DLDevice};

/// Major version of the ABI: differs when a program must be compiled again. It is the soname's number.
pub const AB_ABI_MAJOR: u32 = 1;
/// Minor version of the ABI: grows when functions, tail fields, flag bits or constants are added.
pub const AB_ABI_MINOR: u32 = 0;

/// What a call came to: AB_OK, or one of the negative AB_E_*.
pub type ab_status = i32;

/// The call did what it says.
pub const AB_OK: i32 = 0;
/// NULL where it is not allowed, a bad option value, shapes that differ.
pub const AB_E_INVALID_ARGUMENT: i32 = -1;
/// A malformed DLTensor: the message names the field and its value.
pub const AB_E_INVALID_TENSOR: i32 = -2;
/// A DLPack major version other than 1, or a struct_size from a newer ABI with fields set that this library does not know.
pub const AB_E_VERSION: i32 = -3;
/// No backend for this device type, or no such device id.
pub const AB_E_UNSUPPORTED_DEVICE: i32 = -4;
/// A dtype that cannot be cast, or that a named consumer does not take.
pub const AB_E_UNSUPPORTED_DTYPE: i32 = -5;
/// A layout or rank that a named consumer does not take.
pub const AB_E_UNSUPPORTED_LAYOUT: i32 = -6;
/// Built in or registered, but unusable here: the message says why.
pub const AB_E_BACKEND_UNAVAILABLE: i32 = -7;
/// AB_COPY_NEVER, and zero copy is impossible: the message names every reason.
pub const AB_E_COPY_REQUIRED: i32 = -8;
/// A read-only tensor where it would be written to, or where its flag would be lost.
pub const AB_E_READ_ONLY: i32 = -9;
/// A destination that overlaps itself or its source.
pub const AB_E_OVERLAP: i32 = -10;
/// An allocation failed.
pub const AB_E_OUT_OF_MEMORY: i32 = -11;
/// The driver failed: native_code is its error number.
pub const AB_E_DEVICE: i32 = -12;
/// The casting rule forbids this cast, or a value did not survive it.
pub const AB_E_LOSSY: i32 = -13;
/// A bug in arraybridge, caught at the boundary.
pub const AB_E_INTERNAL: i32 = -14;

/// Bytes of an error's message, its NUL included.
/// cbindgen:ignore
pub const MESSAGE_SIZE: usize = 496;

/// Where a function tells what went wrong. The caller owns it and may pass NULL instead; every call
/// writes it anew. One thread at a time.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ab_error {
    /// In: sizeof(ab_error).
    pub struct_size: u32,
    /// Out: what the function returned; AB_OK on success.
    pub code: ab_status,
    /// Out: the driver's own error number, or 0.
    pub native_code: i64,
    /// Out: NUL-terminated UTF-8, cut at a character boundary; empty on success. It names the field,
    /// its value, and what would have worked.
    pub message: [c_char; 496],
}

/// Worker threads, staging buffers, device queues and registered backends. Every function takes NULL
/// for the process-wide default context, which is made at its first use. Safe to share between
/// threads. Results keep what they need of it alive, so it may be released before them.
pub struct ab_context {
    _private: [u8; 0],
}

/// Limits of a context. All zero, and struct_size: the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ab_context_options {
    /// In: sizeof(ab_context_options).
    pub struct_size: u32,
    /// Host copies use at most this many threads; 0: the number that the process may run on.
    pub num_threads: u32,
    /// Upper bound of pinned staging memory a device, in bytes; 0: the default.
    pub staging_bytes: u64,
}

/// A backend that is built in or registered.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ab_backend_info {
    /// In, in the first entry: sizeof(ab_backend_info), which is the stride of the array.
    pub struct_size: u32,
    /// 1: usable now; 0: not.
    pub available: i32,
    /// "host", "cuda", "opencl", or a registered backend's; NUL-terminated.
    pub name: [c_char; 32],
    /// Version and library when available, else why it is not; NUL-terminated.
    pub detail: [c_char; 256],
}

/// A device that a backend can use.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ab_device_info {
    /// In, in the first entry: sizeof(ab_device_info), which is the stride of the array.
    pub struct_size: u32,
    /// 0.
    pub reserved: u32,
    /// Its DLPack pair.
    pub device: DLDevice,
    /// The maker's name for it, NUL-terminated UTF-8.
    pub name: [c_char; 128],
    /// The name of its backend.
    pub backend: [c_char; 32],
    /// Bytes; 0: unknown.
    pub total_memory: u64,
    /// Bytes that are free or can be freed at once; 0: unknown.
    pub free_memory: u64,
}

/// Compact row-major; size-1 axes and empty tensors never disqualify.
pub const AB_TENSOR_C_CONTIGUOUS: u32 = 0x1;
/// Compact column-major.
pub const AB_TENSOR_F_CONTIGUOUS: u32 = 0x2;
/// Compact under some axis permutation: no gap, no overlap.
pub const AB_TENSOR_DENSE: u32 = 0x4;
/// A stride of 0 on an axis longer than 1.
pub const AB_TENSOR_BROADCAST: u32 = 0x8;
/// A negative stride on an axis longer than 1.
pub const AB_TENSOR_NEGATIVE_STRIDE: u32 = 0x10;
/// Two indices may share an element (broadcast included).
pub const AB_TENSOR_OVERLAPPING: u32 = 0x20;
/// Some axis is 0.
pub const AB_TENSOR_EMPTY: u32 = 0x40;
/// It must not be written to.
pub const AB_TENSOR_READ_ONLY: u32 = 0x80;
/// Elements of less than a byte share bytes with their neighbours.
pub const AB_TENSOR_SUBBYTE_PACKED: u32 = 0x100;
/// By its declared device type, which is 1, 3, 11 or 13.
pub const AB_TENSOR_HOST_READABLE: u32 = 0x200;
/// data is a handle (device types 4, 7, 8, 15): never do arithmetic on it.
pub const AB_TENSOR_OPAQUE_HANDLE: u32 = 0x400;
/// Not aligned to its own element size (to the largest power of two in it).
pub const AB_TENSOR_MISALIGNED: u32 = 0x800;

/// numpy.from_dlpack. Consumers are importers whose rules the library knows:
/// ab_tensor_info.accepted_by says who takes a tensor without a copy as it stands,
/// ab_convert_options.consumers asks for a result that they all take. What an importer takes but
/// then gets wrong (writing through a read-only tensor, say) counts as refused.
pub const AB_CONSUMER_NUMPY: u32 = 0x1;
/// torch.from_dlpack.
pub const AB_CONSUMER_TORCH: u32 = 0x2;
/// jax.dlpack.from_dlpack.
pub const AB_CONSUMER_JAX: u32 = 0x4;
/// tf.experimental.dlpack.from_dlpack.
pub const AB_CONSUMER_TENSORFLOW: u32 = 0x8;
/// cupy.from_dlpack.
pub const AB_CONSUMER_CUPY: u32 = 0x10;
/// numba.cuda.as_cuda_array.
pub const AB_CONSUMER_NUMBA: u32 = 0x20;
/// pyclesperanto's OpenCL arrays.
pub const AB_CONSUMER_PYCLESPERANTO: u32 = 0x40;
/// paddle.utils.dlpack.from_dlpack.
pub const AB_CONSUMER_PADDLE: u32 = 0x80;
/// mlx.core.array, which copies whatever it takes: its bit says that it takes the tensor.
pub const AB_CONSUMER_MLX: u32 = 0x100;
/// tvm_ffi.from_dlpack.
pub const AB_CONSUMER_TVM_FFI: u32 = 0x200;

/// What a tensor is.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ab_tensor_info {
    /// In: sizeof(ab_tensor_info).
    pub struct_size: u32,
    /// AB_TENSOR_*.
    pub flags: u32,
    /// As declared, CPU ids normalised to 0.
    pub device: DLDevice,
    /// As declared.
    pub dtype: DLDataType,
    /// Number of axes.
    pub ndim: i32,
    /// Product of the extents.
    pub num_elements: i64,
    /// Bytes of the elements, packed sub-byte types counted packed.
    pub num_bytes: u64,
    /// Bytes from `data`: every element lies in [begin_offset, end_offset).
    pub begin_offset: i64,
    /// See begin_offset.
    pub end_offset: i64,
    /// Largest power of two up to 4096 that divides the first element's address; 0: opaque or NULL.
    pub alignment: u32,
    /// AB_CONSUMER_* that take the tensor without a copy as it stands.
    pub accepted_by: u32,
}

/// Nothing is known of the address.
pub const AB_MEMORY_UNKNOWN: i32 = 0;
/// Ordinary host memory.
pub const AB_MEMORY_HOST: i32 = 1;
/// Host memory that a device's driver has pinned.
pub const AB_MEMORY_PINNED: i32 = 2;
/// Memory of a device.
pub const AB_MEMORY_DEVICE: i32 = 3;
/// Memory that moves between host and device.
pub const AB_MEMORY_MANAGED: i32 = 4;

/// What the drivers know of an address.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ab_pointer_info {
    /// In: sizeof(ab_pointer_info).
    pub struct_size: u32,
    /// AB_MEMORY_*.
    pub memory: i32,
    /// Where it lives, as the driver says; {0, 0}: no driver was asked or none knows it.
    pub device: DLDevice,
    /// Start of its allocation; 0: unknown.
    pub base: u64,
    /// Size of its allocation in bytes; 0: unknown.
    pub size: u64,
}

/// Copy only where zero copy is impossible.
pub const AB_COPY_IF_NEEDED: i32 = 0;
/// Always make new memory.
pub const AB_COPY_ALWAYS: i32 = 1;
/// AB_E_COPY_REQUIRED rather than a copy.
pub const AB_COPY_NEVER: i32 = 2;

/// Zero copy keeps the strides; a new tensor is row-major.
pub const AB_LAYOUT_ANY: i32 = 0;
/// Row-major.
pub const AB_LAYOUT_C: i32 = 1;
/// Column-major.
pub const AB_LAYOUT_F: i32 = 2;
/// Zero copy keeps the strides; a new tensor is dense in the source's own axis order.
pub const AB_LAYOUT_KEEP: i32 = 3;

/// Any cast. Integers wrap, fractions are cut off, numbers beyond an integer's range become its limit
/// and NaN 0; floats are rounded to nearest, ties to even, and overflow to infinity or, in formats
/// without one, to NaN.
pub const AB_CAST_UNSAFE: i32 = 0;
/// As numpy.can_cast(..., 'same_kind'), with ml_dtypes.
pub const AB_CAST_SAME_KIND: i32 = 1;
/// As numpy.can_cast(..., 'safe'), with ml_dtypes.
pub const AB_CAST_SAFE: i32 = 2;
/// Any cast, but AB_E_LOSSY if a value is not the same number after it (NaN is NaN, -0 is 0).
pub const AB_CAST_EXACT: i32 = 3;

/// Return once the work is ordered on dst_stream, not once it is done.
pub const AB_CONVERT_ASYNC: u32 = 0x1;
/// Numbers beyond the new dtype's range, infinities included, become its limits.
pub const AB_CONVERT_SATURATE: u32 = 0x2;
/// The result must be writable: a read-only source is copied.
pub const AB_CONVERT_WRITABLE: u32 = 0x4;
/// Check the declared device against the driver first.
pub const AB_CONVERT_VERIFY_POINTER: u32 = 0x8;

/// Where results come from instead of the library's own memory. The struct is copied; `user` and the
/// functions must outlive every result. Both are called from any thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ab_allocator {
    /// Passed to both functions.
    pub user: *mut c_void,
    /// Returns `size` bytes, aligned to `alignment`, on the device; NULL on failure. The stream is as in
    /// ab_convert_options.dst_stream.
    pub allocate: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            device_type: i32,
            device_id: i32,
            size: usize,
            alignment: usize,
            stream: i64,
        ) -> *mut c_void,
    >,
    /// Takes back what `allocate` returned, once.
    pub deallocate: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            device_type: i32,
            device_id: i32,
            pointer: *mut c_void,
            size: usize,
            stream: i64,
        ),
    >,
}

/// What a result must be. All zero, and struct_size: keep everything, zero copy when possible.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ab_convert_options {
    /// In: sizeof(ab_convert_options).
    pub struct_size: u32,
    /// AB_CONVERT_*.
    pub flags: u32,
    /// device_type 0: keep (unless a named consumer takes nothing there: then the nearest device that
    /// all of them take).
    pub device: DLDevice,
    /// bits 0: keep.
    pub dtype: DLDataType,
    /// AB_COPY_*.
    pub copy: i32,
    /// AB_LAYOUT_*.
    pub layout: i32,
    /// AB_CAST_*.
    pub casting: i32,
    /// Bytes, a power of two up to 1 GiB, that the first element's address must be a multiple of; 0:
    /// whatever the consumers need.
    pub alignment: u32,
    /// AB_CONSUMER_* that must all take the result without a copy of their own; 0: none named.
    pub consumers: u32,
    /// The stream after which the source is ready, in the array API's numbers: CUDA 1 legacy default, 2
    /// per-thread default, above 2 a handle, -1 no ordering; 0: not given (CUDA: legacy default).
    /// OpenCL: a cl_command_queue; 0: the producer has finished its own.
    pub src_stream: i64,
    /// The stream on which the result is used, numbered alike. OpenCL 0: our own queue, finished.
    pub dst_stream: i64,
    /// Where results come from; NULL: the library's own memory, 256-byte aligned.
    pub allocator: *const ab_allocator,
}

/// The result is the source's own memory.
pub const AB_ROUTE_ZERO_COPY: i32 = 0;
/// Host to host.
pub const AB_ROUTE_HOST: i32 = 1;
/// Host to device.
pub const AB_ROUTE_UPLOAD: i32 = 2;
/// Device to host.
pub const AB_ROUTE_DOWNLOAD: i32 = 3;
/// Within one device.
pub const AB_ROUTE_DEVICE: i32 = 4;
/// Device to device without the host.
pub const AB_ROUTE_PEER: i32 = 5;
/// Device to host to device.
pub const AB_ROUTE_STAGED: i32 = 6;

/// AB_COPY_ALWAYS was asked for, or the function always copies.
pub const AB_REASON_REQUESTED: u32 = 0x1;
/// The data is on another device.
pub const AB_REASON_DEVICE: u32 = 0x2;
/// The data has another dtype.
pub const AB_REASON_DTYPE: u32 = 0x4;
/// The strides are not those of the layout.
pub const AB_REASON_LAYOUT: u32 = 0x8;
/// The first element is not aligned as asked.
pub const AB_REASON_ALIGNMENT: u32 = 0x10;
/// The source is read-only and a writable result was asked for.
pub const AB_REASON_READ_ONLY: u32 = 0x20;
/// A named consumer does not take the tensor as it would be shared.
pub const AB_REASON_CONSUMER: u32 = 0x40;

/// What a call did, or would do.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ab_report {
    /// In: sizeof(ab_report).
    pub struct_size: u32,
    /// AB_ROUTE_*.
    pub route: i32,
    /// AB_REASON_*: every one that ruled out zero copy.
    pub reasons: u32,
    /// Times the data is read and written; 0 for zero copy, 1 is the aim for all else.
    pub passes: u32,
    /// Bytes read of the source, and of any scratch.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Peak memory besides source and result, in bytes.
    pub scratch_bytes: u64,
    /// Host time of the call; 0 in a plan.
    pub nanoseconds: u64,
}

/// A struct that begins with its size, as C fills it in.
///
/// # Safety
/// It is `repr(C)`, begins with a u32 `struct_size`, and any bytes make one.
pub unsafe trait Sized32: Copy {
    /// Its size when it was first released.
    const FIRST_SIZE: usize = size_of::<Self>();
}

macro_rules! sized {
    ($($type:ty),*) => {$(
        // SAFETY: repr(C), struct_size first, and only integers, pointers and optional functions behind it.
        unsafe impl Sized32 for $type {}
    )*};
}

sized!(
    ab_error,
    ab_context_options,
    ab_backend_info,
    ab_device_info,
    ab_tensor_info,
    ab_pointer_info,
    ab_convert_options,
    ab_report
);

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<ab_error>() == 512);
    assert!(size_of::<ab_context_options>() == 16);
    assert!(size_of::<ab_backend_info>() == 296);
    assert!(size_of::<ab_device_info>() == 192);
    assert!(size_of::<ab_tensor_info>() == 64);
    assert!(size_of::<ab_pointer_info>() == 32);
    assert!(size_of::<ab_allocator>() == 24);
    assert!(size_of::<ab_convert_options>() == 64);
    assert!(size_of::<ab_report>() == 48);
};
