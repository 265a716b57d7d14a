//! What can go wrong, typed. Every message names the field, its value and what would have worked.
//!
//! No variant owns memory: making, passing and showing an error allocates nothing, so that running
//! out of memory is reported like anything else.

use std::fmt;

use thiserror::Error;

use crate::dlpack::raw::{DLDataType, DLDevice, device_type};
use crate::report::Reasons;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Error {
    // AB_E_INVALID_ARGUMENT
    #[error("{name} is NULL: it must point to {expected}")]
    Null { name: &'static str, expected: &'static str },
    #[error("{name}.struct_size is {size}: it must be sizeof of the struct, at least {minimum}")]
    StructTooSmall { name: &'static str, size: u32, minimum: usize },
    #[error("{name}.struct_size is {size}: no struct of this ABI is longer than {maximum} bytes")]
    StructTooLarge { name: &'static str, size: u32, maximum: usize },
    #[error("{name} is {value}: expected {expected}")]
    Option { name: &'static str, value: i64, expected: &'static str },
    #[error("{name} is {value:#x}: bits {unknown:#x} are not known, which are {known:#x}", unknown = value & !known)]
    Flags { name: &'static str, value: u64, known: u64 },
    #[error(
        "source.ndim is {source_ndim} and destination.ndim is {destination_ndim}: the shapes must be equal"
    )]
    NdimDiffers { source_ndim: usize, destination_ndim: usize },
    #[error(
        "shape[{axis}] is {source_extent} in the source and {destination_extent} in the destination: \
         the shapes must be equal"
    )]
    ShapeDiffers { axis: usize, source_extent: i64, destination_extent: i64 },
    #[error(
        "allocator.allocate returned {address:#x}, which is not a multiple of the {alignment} bytes that it \
         was asked for"
    )]
    AllocatorMisaligned { address: usize, alignment: usize },

    #[error("strides reach from element {begin} to element {end} of a slice of {len}")]
    BeyondSlice { begin: i64, end: i64, len: usize },

    // AB_E_INVALID_TENSOR
    #[error("{role}.{problem}")]
    Tensor { role: &'static str, problem: TensorProblem },

    // AB_E_VERSION
    #[error(
        "{role}.version is {major}.{minor}: this library reads DLPack 1; release the tensor with ab_release"
    )]
    DlpackVersion { role: &'static str, major: u32, minor: u32 },
    #[error(
        "{name}.struct_size is {size}, from a newer ABI, and byte {at} is set: this library knows {known} \
         bytes; leave the others 0"
    )]
    StructTooNew { name: &'static str, size: u32, known: usize, at: usize },

    // AB_E_UNSUPPORTED_DEVICE
    #[error("device {device}: no backend moves data of this device type; the host, CUDA and OpenCL have one")]
    NoBackend { device: DLDevice },
    #[error("device {device}: ids of this device type start at 0")]
    DeviceId { device: DLDevice },
    #[error(
        "device {device}: {name} does not take it, nor is there another device that every named consumer takes"
    )]
    ConsumerDevice { name: &'static str, device: DLDevice },

    #[error("device {device}: there {} {count} {kind} {}", if *count == 1 { "is" } else { "are" }, if *count == 1 { "device" } else { "devices" })]
    NoSuchDevice { device: DLDevice, count: usize, kind: &'static str },
    #[error("device is {declared}, but the driver says that data is on {found}")]
    DeclaredDevice { declared: DLDevice, found: DLDevice },
    #[error("device is {device}: the host cannot read it; convert to cpu:0, or copy with to_vec")]
    NotOnHost { device: DLDevice },

    // AB_E_UNSUPPORTED_DTYPE
    #[error("dtype is {dtype}: expected {expected}; convert to it first")]
    ElementType { dtype: DLDataType, expected: DLDataType },
    #[error("dtype {from} cannot be cast to {to}: {which} is copied, never cast")]
    Cast { from: DLDataType, to: DLDataType, which: DLDataType },
    #[error("dtype {to} has {} lanes and the tensor's {from} has {}: a cast needs equal lanes", to.lanes, from.lanes)]
    Lanes { from: DLDataType, to: DLDataType },
    #[error(
        "source.flags has IS_SUBBYTE_TYPE_PADDED, which DLManagedTensor cannot carry: its {dtype} would be read \
         as packed; cast it to a dtype of whole bytes first"
    )]
    LegacyPadded { dtype: DLDataType },
    #[error("dtype \"{text}\": {why}")]
    DtypeText { text: Excerpt, why: &'static str },
    #[error("dtype {dtype}: {name} does not take it; ask for a dtype that it has")]
    ConsumerDtype { name: &'static str, dtype: DLDataType },

    // AB_E_UNSUPPORTED_LAYOUT
    #[error("{name} does not take {refusal}, and no copy changes that")]
    ConsumerShape { name: &'static str, refusal: Refusal },
    #[error("layout AB_LAYOUT_F: {name} takes row-major tensors only; ask for AB_LAYOUT_C or AB_LAYOUT_ANY")]
    ConsumerLayout { name: &'static str },
    #[error("strides are not row-major: convert with LayoutPolicy::C, or copy with to_vec")]
    NotRowMajor,
    #[error("data is {address:#x}, which is not aligned as {dtype} must be: copy with to_vec")]
    Misaligned { address: u64, dtype: DLDataType },

    // AB_E_BACKEND_UNAVAILABLE
    #[error("{backend}: {why} ({device} was asked for)")]
    Unavailable { backend: &'static str, device: DLDevice, why: &'static str },

    // AB_E_COPY_REQUIRED
    #[error("copy is AB_COPY_NEVER, but zero copy is impossible because of {reasons}")]
    CopyRequired { reasons: Reasons },
    #[error("copy is AB_COPY_NEVER: ab_copy always copies, its source is borrowed; use ab_convert")]
    BorrowedSource,

    // AB_E_READ_ONLY
    #[error("destination.flags has READ_ONLY: it cannot be written to")]
    DestinationReadOnly,
    #[error(
        "source.flags has READ_ONLY, which DLManagedTensor cannot carry; convert with AB_CONVERT_WRITABLE first"
    )]
    LegacyReadOnly,

    // AB_E_OVERLAP
    #[error("destination.strides let two indices share an element: each must have its own")]
    DestinationOverlaps,
    #[error("destination.data overlaps the source: they must share no memory")]
    SourceOverlaps,

    // AB_E_OUT_OF_MEMORY
    #[error("out of memory: {device} gave no {bytes} bytes aligned to {alignment}")]
    OutOfMemory { device: DLDevice, bytes: u64, alignment: u64 },

    // AB_E_DEVICE
    #[error("{call}: {name} ({code})")]
    Driver { call: &'static str, name: &'static str, code: i64 },
    #[error("{call}: {name} ({code}): {log}")]
    DriverLog { call: &'static str, name: &'static str, code: i64, log: &'static str },

    // AB_E_LOSSY
    #[error("casting is {rule}, which does not allow {from} to {to}; AB_CAST_UNSAFE does")]
    CastingRule { rule: &'static str, from: DLDataType, to: DLDataType },
    #[error("casting is AB_CAST_EXACT, and a value of {from} is none of {to}; AB_CAST_UNSAFE rounds it")]
    ValueLost { from: DLDataType, to: DLDataType },

    // AB_E_INTERNAL
    #[error("a bug in arraybridge: {0}")]
    Internal(Excerpt),
}

impl Error {
    /// The driver's own number for what failed; 0: it was no driver.
    pub fn native_code(&self) -> i64 {
        match self {
            Error::Driver { code, .. } | Error::DriverLog { code, .. } => *code,
            _ => 0,
        }
    }
}

/// What is wrong with a tensor: the field, its value, and what is allowed.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
#[allow(missing_docs)]
pub enum TensorProblem {
    #[error("ndim is {0}: expected 0 to 64")]
    Ndim(i32),
    #[error("dtype.bits is 0: expected the bits of a scalar")]
    NoBits,
    #[error("dtype.lanes is 0: expected 1 unless the type is a vector")]
    NoLanes,
    #[error("dtype.bits is {bits} with dtype.code {code}: that type has {expected} bits")]
    Bits { code: u8, bits: u8, expected: u8 },
    #[error("dtype.code is {0}: its values cannot be interpreted; keep the dtype")]
    UnknownCode(u8),
    #[error("shape is NULL with ndim {0}: it must point to the extents")]
    NullShape(i32),
    #[error("shape[{axis}] is {extent}: expected 0 or more")]
    Extent { axis: usize, extent: i64 },
    #[error("shape has a product beyond 63 bits: no memory holds so many elements")]
    NumElements,
    #[error("shape with dtype {0} amounts to more bytes than 63 bits count")]
    NumBytes(DLDataType),
    #[error("strides with byte_offset reach beyond 63 bits of bytes: no memory is so long")]
    Reach,
    #[error("byte_offset is {0}: expected less than 2^63")]
    ByteOffset(u64),
    #[error("data is {0:#x}: with byte_offset and strides the tensor leaves the address space")]
    Address(u64),
    #[error("data is NULL with {0} elements: it must point to them")]
    NullData(i64),
    #[error("data is a cl_mem of type {0:#x}: expected a buffer, CL_MEM_OBJECT_BUFFER")]
    NoBuffer(u32),
    #[error("data is a cl_mem that is CL_MEM_WRITE_ONLY: it cannot be read")]
    WriteOnlyBuffer,
    #[error(
        "data is a cl_mem of {size} bytes: with byte_offset and strides the tensor reaches from byte {begin} \
         to byte {end}"
    )]
    BeyondBuffer { begin: i64, end: i64, size: u64 },
}

/// Why a new tensor would be refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refusal {
    /// Its device.
    Device,
    /// Its dtype.
    Dtype,
    /// So many axes.
    Ndim(usize),
    /// A tensor without elements.
    Empty,
    /// Axes in another order than row-major.
    Layout,
    /// Padded elements of less than a byte.
    Padded,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Device => f.write_str("this device"),
            Refusal::Dtype => f.write_str("this dtype"),
            Refusal::Ndim(ndim) => write!(f, "ndim {ndim}"),
            Refusal::Empty => f.write_str("empty tensors"),
            Refusal::Layout => f.write_str("this layout"),
            Refusal::Padded => f.write_str("padded elements"),
        }
    }
}

/// The first bytes of a text, kept without allocating.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Excerpt {
    bytes: [u8; 48],
    len: u8,
}

impl Excerpt {
    /// Keeps what fits, cut at a character boundary.
    pub fn new(text: &str) -> Excerpt {
        let mut bytes = [0; 48];
        let len = text.floor_char_boundary(bytes.len());
        bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        Excerpt { bytes, len: len as u8 }
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.bytes[..self.len.into()]).unwrap_or_default())
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl fmt::Display for DLDevice {
    /// "cpu:0", "cuda:1", "device type 77, id 0".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match device_type_name(self.device_type) {
            Some(name) => write!(f, "{name}:{}", self.device_id),
            None => write!(f, "device type {}, id {}", self.device_type, self.device_id),
        }
    }
}

/// The short name of a device type, as frameworks spell it.
pub fn device_type_name(value: i32) -> Option<&'static str> {
    Some(match value {
        device_type::CPU => "cpu",
        device_type::CUDA => "cuda",
        device_type::CUDA_HOST => "cuda_host",
        device_type::OPENCL => "opencl",
        device_type::VULKAN => "vulkan",
        device_type::METAL => "metal",
        device_type::VPI => "vpi",
        device_type::ROCM => "rocm",
        device_type::ROCM_HOST => "rocm_host",
        device_type::EXT_DEV => "ext_dev",
        device_type::CUDA_MANAGED => "cuda_managed",
        device_type::ONE_API => "oneapi",
        device_type::WEB_GPU => "webgpu",
        device_type::HEXAGON => "hexagon",
        device_type::MAIA => "maia",
        device_type::TRN => "trn",
        device_type::TPU => "tpu",
        device_type::TPU_HOST => "tpu_host",
        device_type::ASCEND => "ascend",
        _ => return None,
    })
}
