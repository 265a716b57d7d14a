//! The structs of DLPack 1.3, field for field.
//!
//! Device types and dtype codes are plain integers: C may put any value in them, and a Rust enum
//! with an unknown value is undefined behaviour.

use std::ffi::c_void;
use std::hash::{Hash, Hasher};

/// The major version of DLPack whose structs these are.
pub const DLPACK_MAJOR_VERSION: u32 = 1;
/// The minor version that results carry.
pub const DLPACK_MINOR_VERSION: u32 = 3;

/// The consumer must not write to the data.
pub const DLPACK_FLAG_BITMASK_READ_ONLY: u64 = 1;
/// The tensor is a copy that the producer made for this consumer alone.
pub const DLPACK_FLAG_BITMASK_IS_COPIED: u64 = 1 << 1;
/// Elements of less than a byte take whole bytes.
pub const DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED: u64 = 1 << 2;

/// Device types, by their DLPack numbers.
pub mod device_type {
    #![allow(missing_docs)]
    pub const CPU: i32 = 1;
    pub const CUDA: i32 = 2;
    pub const CUDA_HOST: i32 = 3;
    pub const OPENCL: i32 = 4;
    pub const VULKAN: i32 = 7;
    pub const METAL: i32 = 8;
    pub const VPI: i32 = 9;
    pub const ROCM: i32 = 10;
    pub const ROCM_HOST: i32 = 11;
    pub const EXT_DEV: i32 = 12;
    pub const CUDA_MANAGED: i32 = 13;
    pub const ONE_API: i32 = 14;
    pub const WEB_GPU: i32 = 15;
    pub const HEXAGON: i32 = 16;
    pub const MAIA: i32 = 17;
    pub const TRN: i32 = 18;
    pub const TPU: i32 = 19;
    pub const TPU_HOST: i32 = 20;
    pub const ASCEND: i32 = 21;
}

/// Dtype codes, by their DLPack numbers.
pub mod dtype_code {
    #![allow(missing_docs)]
    pub const INT: u8 = 0;
    pub const UINT: u8 = 1;
    pub const FLOAT: u8 = 2;
    pub const OPAQUE_HANDLE: u8 = 3;
    pub const BFLOAT: u8 = 4;
    pub const COMPLEX: u8 = 5;
    pub const BOOL: u8 = 6;
    pub const FLOAT8_E3M4: u8 = 7;
    pub const FLOAT8_E4M3: u8 = 8;
    pub const FLOAT8_E4M3B11FNUZ: u8 = 9;
    pub const FLOAT8_E4M3FN: u8 = 10;
    pub const FLOAT8_E4M3FNUZ: u8 = 11;
    pub const FLOAT8_E5M2: u8 = 12;
    pub const FLOAT8_E5M2FNUZ: u8 = 13;
    pub const FLOAT8_E8M0FNU: u8 = 14;
    pub const FLOAT6_E2M3FN: u8 = 15;
    pub const FLOAT6_E3M2FN: u8 = 16;
    pub const FLOAT4_E2M1FN: u8 = 17;
    pub const BCOMPLEX: u8 = 18;
}

/// A place that holds data: a type of device and which one of them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DLDevice {
    /// One of [`device_type`], or a number that is not known here.
    pub device_type: i32,
    /// Counted from 0 within the type; 0 for CPU, pinned and managed memory.
    pub device_id: i32,
}

impl DLDevice {
    /// Of tables by device type.
    pub(crate) const INDICES: usize = device_type::ASCEND as usize + 2;

    /// The place of its type in a table: unknown ones share the last.
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        (self.device_type as u32 as usize).min(DLDevice::INDICES - 1)
    }
}

/// The type of an element: `lanes` scalars of `bits` bits each.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct DLDataType {
    /// One of [`dtype_code`], or a number that is not known here.
    pub code: u8,
    /// Of one scalar; of both parts for a complex one.
    pub bits: u8,
    /// Scalars in an element; 1 unless the type is a vector.
    pub lanes: u16,
}

impl DLDataType {
    /// All of it as one number.
    #[inline(always)]
    pub(crate) const fn number(self) -> u32 {
        self.code as u32 | (self.bits as u32) << 8 | (self.lanes as u32) << 16
    }
}

// At once: field by field takes several times as many steps.
impl PartialEq for DLDataType {
    #[inline(always)]
    fn eq(&self, other: &DLDataType) -> bool {
        self.number() == other.number()
    }
}

impl Hash for DLDataType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number().hash(state);
    }
}

/// A tensor without an owner.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLTensor {
    /// An address, or a handle for devices such as OpenCL.
    pub data: *mut c_void,
    /// Where the data is.
    pub device: DLDevice,
    /// Number of axes.
    pub ndim: i32,
    /// Type of an element.
    pub dtype: DLDataType,
    /// Extents of the axes; may be NULL when `ndim` is 0.
    pub shape: *mut i64,
    /// Steps along the axes in elements; NULL: compact, row-major.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// A tensor with an owner, as before DLPack 1.0.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// Frees the tensor and this struct; may be NULL.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// Which DLPack a struct follows.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLPackVersion {
    /// Differs when the layout of a struct does.
    pub major: u32,
    /// Differs when there are more codes.
    pub minor: u32,
}

/// A tensor with an owner, since DLPack 1.0.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The version of this struct. When `major` is not 1, only `deleter` may be used.
    pub version: DLPackVersion,
    /// The producer's own.
    pub manager_ctx: *mut c_void,
    /// Frees the tensor and this struct; may be NULL.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// `DLPACK_FLAG_BITMASK_*`.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<DLDevice>() == 8);
    assert!(size_of::<DLDataType>() == 4 && align_of::<DLDataType>() == 2);
    assert!(size_of::<DLTensor>() == 48);
    assert!(size_of::<DLManagedTensor>() == 64);
    assert!(size_of::<DLManagedTensorVersioned>() == 80);
};
