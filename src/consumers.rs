//! What each importer takes without a copy, as one table.
//!
//! Rows were measured against the released packages (NumPy 2.4, PyTorch 2.15, JAX 0.10, TensorFlow
//! 2.21, Paddle 3.3, MLX 0.32, tvm-ffi 0.1) or read in their sources (CuPy, Numba, pyclesperanto).
//! What an importer takes but then gets wrong counts as refused: Paddle reads negative strides as
//! garbage, PyTorch writes through read-only tensors. MLX copies whatever it takes; its bit says
//! that it takes the tensor.
#![forbid(unsafe_code)]

use crate::dlpack::raw::{DLDataType, DLDevice, device_type as device, dtype_code};
use crate::dtype::Scalar;
use crate::error::Refusal;
use crate::layout::{Facts, MAX_NDIM};
use crate::report::consumer_names;

/// An importer of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(u32)]
pub enum Consumer {
    Numpy = 0x1,
    Torch = 0x2,
    Jax = 0x4,
    Tensorflow = 0x8,
    Cupy = 0x10,
    Numba = 0x20,
    Pyclesperanto = 0x40,
    Paddle = 0x80,
    Mlx = 0x100,
    TvmFfi = 0x200,
}

/// Which strides an importer takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strides {
    Any,
    NotNegative,
    /// Compact under some axis permutation.
    Dense,
    RowMajor,
}

/// What a `byte_offset` is to those who read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    /// 0.
    Zero,
    /// A number of whole elements, of a tensor with strides.
    Elements,
    /// Anything else.
    Any,
}

struct Rule {
    consumer: Consumer,
    /// Empty: every type, unknown ones included.
    devices: &'static [i32],
    /// A bit for each [`Kind`].
    dtypes: u32,
    strides: Strides,
    /// The least convenient `byte_offset` that it takes.
    byte_offset: Offset,
    read_only: bool,
    /// Padded elements of less than a byte.
    padded: bool,
    empty: bool,
    min_ndim: usize,
    max_ndim: usize,
    /// Bytes that the address must be a multiple of.
    alignment: u64,
}

/// What most of them do, where a row says nothing else. Read-only tensors most of them write through.
const USUAL: Rule = Rule {
    consumer: Consumer::Numpy,
    devices: &[],
    dtypes: COMMON,
    strides: Strides::Any,
    byte_offset: Offset::Any,
    read_only: false,
    padded: true,
    empty: true,
    min_ndim: 0,
    max_ndim: MAX_NDIM,
    alignment: 1,
};

const RULES: [Rule; 10] = [
    Rule {
        consumer: Consumer::Numpy,
        devices: &[device::CPU, device::CUDA_HOST, device::ROCM_HOST, device::CUDA_MANAGED],
        dtypes: NUMPY,
        read_only: true,
        ..USUAL
    },
    Rule {
        consumer: Consumer::Torch,
        devices: &[
            device::CPU,
            device::CUDA,
            device::METAL,
            device::ROCM,
            device::EXT_DEV,
            device::ONE_API,
            device::MAIA,
        ],
        dtypes: COMMON | FLOAT8_TORCH | set(&[Kind::Complex32, Kind::Float4Pair]),
        strides: Strides::NotNegative,
        byte_offset: Offset::Elements,
        ..USUAL
    },
    Rule {
        consumer: Consumer::Jax,
        devices: &[device::CPU, device::CUDA, device::CUDA_HOST, device::ROCM],
        dtypes: COMMON | FLOAT8,
        strides: Strides::Dense,
        // Else it copies, and does not say so.
        alignment: 64,
        ..USUAL
    },
    Rule {
        consumer: Consumer::Tensorflow,
        devices: &[device::CPU, device::CUDA],
        strides: Strides::RowMajor,
        byte_offset: Offset::Zero,
        ..USUAL
    },
    Rule { consumer: Consumer::Cupy, devices: &[device::CUDA, device::ROCM, device::CUDA_MANAGED], ..USUAL },
    Rule {
        consumer: Consumer::Numba,
        devices: &[device::CUDA, device::CUDA_MANAGED],
        dtypes: NUMPY,
        ..USUAL
    },
    Rule {
        consumer: Consumer::Pyclesperanto,
        devices: &[device::OPENCL],
        dtypes: INTEGERS | set(&[S(Scalar::Float32)]),
        strides: Strides::RowMajor,
        byte_offset: Offset::Zero,
        empty: false,
        min_ndim: 1,
        max_ndim: 3,
        ..USUAL
    },
    Rule {
        consumer: Consumer::Paddle,
        devices: &[device::CPU, device::CUDA, device::CUDA_HOST],
        // It takes uint16 for bfloat16.
        dtypes: (COMMON & !set(&[S(Scalar::Uint16)]))
            | set(&[S(Scalar::Float8E4m3fn), S(Scalar::Float8E5m2)]),
        strides: Strides::NotNegative,
        byte_offset: Offset::Zero,
        max_ndim: 9,
        ..USUAL
    },
    Rule {
        consumer: Consumer::Mlx,
        devices: &[device::CPU, device::METAL],
        // It makes these two narrower.
        dtypes: COMMON & !set(&[S(Scalar::Float64), S(Scalar::Complex128)]),
        strides: Strides::NotNegative,
        ..USUAL
    },
    Rule { consumer: Consumer::TvmFfi, dtypes: u32::MAX, padded: false, ..USUAL },
];

/// A dtype as the table tells them apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Scalar(Scalar),
    /// Two float16.
    Complex32,
    /// PyTorch's float4_e2m1fn_x2.
    Float4Pair,
    Other,
}

use Kind::Scalar as S;

/// Sets of [`Kind`]s.
const INTEGERS: u32 = set(&[
    S(Scalar::Int8),
    S(Scalar::Int16),
    S(Scalar::Int32),
    S(Scalar::Uint8),
    S(Scalar::Uint16),
    S(Scalar::Uint32),
]);
const NUMPY: u32 = INTEGERS
    | set(&[
        S(Scalar::Bool),
        S(Scalar::Int64),
        S(Scalar::Uint64),
        S(Scalar::Float16),
        S(Scalar::Float32),
        S(Scalar::Float64),
        S(Scalar::Complex64),
        S(Scalar::Complex128),
    ]);
const COMMON: u32 = NUMPY | set(&[S(Scalar::Bfloat16)]);
const FLOAT8_TORCH: u32 = set(&[
    S(Scalar::Float8E4m3fn),
    S(Scalar::Float8E4m3fnuz),
    S(Scalar::Float8E5m2),
    S(Scalar::Float8E5m2fnuz),
    S(Scalar::Float8E8m0fnu),
]);
const FLOAT8: u32 =
    FLOAT8_TORCH | set(&[S(Scalar::Float8E3m4), S(Scalar::Float8E4m3), S(Scalar::Float8E4m3b11fnuz)]);

const fn set(kinds: &[Kind]) -> u32 {
    let mut set = 0;
    let mut index = 0;
    while index < kinds.len() {
        set |= 1 << kinds[index].index();
        index += 1;
    }
    set
}

/// Bits of all consumers that there are.
pub const ALL: u32 = mask_of(Question::Exists);

// The table turned by property, when it is compiled: a lookup is a few ANDs.

#[derive(Clone, Copy)]
enum Question {
    Exists,
    Device(i32),
    /// By its [`Kind::index`].
    Dtype(usize),
    Negative,
    NotDense,
    NotRowMajor,
    ByteOffset(Offset),
    ReadOnly,
    Padded,
    Empty,
    Ndim(usize),
    /// log2 of the address's alignment.
    Alignment(u32),
}

impl Kind {
    const fn index(self) -> usize {
        match self {
            Kind::Scalar(scalar) => scalar as usize,
            Kind::Complex32 => Scalar::Float4E2m1fn as usize + 1,
            Kind::Float4Pair => Scalar::Float4E2m1fn as usize + 2,
            Kind::Other => Scalar::Float4E2m1fn as usize + 3,
        }
    }

    /// Those in this place, but for [`Kind::Other`].
    const fn nth(index: usize) -> Option<DLDataType> {
        match Scalar::nth(index) {
            Some(scalar) => Some(scalar.dtype()),
            None if index == Kind::Complex32.index() => {
                Some(DLDataType { code: dtype_code::COMPLEX, bits: 32, lanes: 1 })
            }
            None if index == Kind::Float4Pair.index() => {
                Some(DLDataType { lanes: 2, ..Scalar::Float4E2m1fn.dtype() })
            }
            None => None,
        }
    }
}

const fn takes(rule: &Rule, question: Question) -> bool {
    match question {
        Question::Exists => true,
        Question::Device(device) => {
            let mut index = 0;
            while index < rule.devices.len() {
                if rule.devices[index] == device {
                    return true;
                }
                index += 1;
            }
            rule.devices.is_empty()
        }
        Question::Dtype(index) => rule.dtypes >> index & 1 == 1,
        Question::Negative => matches!(rule.strides, Strides::Any),
        Question::NotDense => matches!(rule.strides, Strides::Any | Strides::NotNegative),
        Question::NotRowMajor => !matches!(rule.strides, Strides::RowMajor),
        Question::ByteOffset(offset) => offset as u8 <= rule.byte_offset as u8,
        Question::ReadOnly => rule.read_only,
        Question::Padded => rule.padded,
        Question::Empty => rule.empty,
        Question::Ndim(ndim) => rule.min_ndim <= ndim && ndim <= rule.max_ndim,
        Question::Alignment(log2) => (1u64 << log2).is_multiple_of(rule.alignment),
    }
}

/// Bits of the consumers that take it.
const fn mask_of(question: Question) -> u32 {
    let mut mask = 0;
    let mut index = 0;
    while index < RULES.len() {
        if takes(&RULES[index], question) {
            mask |= RULES[index].consumer as u32;
        }
        index += 1;
    }
    mask
}

const BY_DEVICE: [u32; DLDevice::INDICES] = {
    let mut masks = [0; DLDevice::INDICES];
    let mut index = 0;
    while index < DLDevice::INDICES {
        masks[index] = mask_of(Question::Device(index as i32));
        index += 1;
    }
    masks
};

/// Those who take a dtype that has a [`Kind`], by [`slot`].
const BY_DTYPE: [(u32, u32); SLOTS] = {
    let mut slots = [(0, BY_OTHER_DTYPE); SLOTS];
    let mut index = 0;
    while let Some(dtype) = Kind::nth(index) {
        let slot = &mut slots[slot(dtype)];
        assert!(slot.0 == 0, "another factor has to be found");
        *slot = (dtype.number(), mask_of(Question::Dtype(index)));
        index += 1;
    }
    slots
};
const BY_OTHER_DTYPE: u32 = mask_of(Question::Dtype(Kind::Other.index()));
const SLOTS: usize = 64;

/// No two kinds have the same.
const fn slot(dtype: DLDataType) -> usize {
    const FACTOR: u32 = 0x3a6e_0355;
    dtype.number().wrapping_mul(FACTOR) as usize / (u32::MAX as usize / SLOTS + 1)
}

const BY_NDIM: [u32; MAX_NDIM + 1] = {
    let mut masks = [0; MAX_NDIM + 1];
    let mut ndim = 0;
    while ndim <= MAX_NDIM {
        masks[ndim] = mask_of(Question::Ndim(ndim));
        ndim += 1;
    }
    masks
};

/// By the alignment's trailing zeros: all of its bits where it is unknown, which is 0.
const BY_ALIGNMENT: [u32; u32::BITS as usize + 1] = {
    let mut masks = [ALL; u32::BITS as usize + 1];
    let mut log2 = 0;
    while log2 < u32::BITS {
        masks[log2 as usize] = mask_of(Question::Alignment(log2));
        log2 += 1;
    }
    masks
};

const NOT_ROW_MAJOR: u32 = mask_of(Question::NotRowMajor);
/// By [`Facts::bits`].
const BY_FACTS: [u32; Facts::ALL as usize + 1] = {
    let mut masks = [ALL; Facts::ALL as usize + 1];
    let mut bits = 0;
    while bits <= Facts::ALL {
        let mask = &mut masks[bits as usize];
        if bits & Facts::NEGATIVE != 0 {
            *mask &= mask_of(Question::Negative);
        }
        if bits & Facts::DENSE == 0 {
            *mask &= mask_of(Question::NotDense);
        }
        if bits & Facts::C_CONTIGUOUS == 0 {
            *mask &= NOT_ROW_MAJOR;
        }
        if bits & Facts::EMPTY != 0 {
            *mask &= EMPTY;
        }
        bits += 1;
    }
    masks
};
const BY_OFFSET: [u32; 3] = [
    mask_of(Question::ByteOffset(Offset::Zero)),
    mask_of(Question::ByteOffset(Offset::Elements)),
    mask_of(Question::ByteOffset(Offset::Any)),
];
const READ_ONLY: u32 = mask_of(Question::ReadOnly);
const PADDED: u32 = mask_of(Question::Padded);
const EMPTY: u32 = mask_of(Question::Empty);

/// What most tensors are asked about; in one place, whose address is then loaded once.
static TAKERS: Takers = Takers {
    by_device: BY_DEVICE,
    by_dtype: BY_DTYPE,
    by_ndim: BY_NDIM,
    by_alignment: BY_ALIGNMENT,
    by_facts: BY_FACTS,
};

struct Takers {
    by_device: [u32; DLDevice::INDICES],
    by_dtype: [(u32, u32); SLOTS],
    by_ndim: [u32; MAX_NDIM + 1],
    by_alignment: [u32; u32::BITS as usize + 1],
    by_facts: [u32; Facts::ALL as usize + 1],
}

/// What the table asks of a tensor.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Where it is.
    pub device: DLDevice,
    /// Its elements' type.
    pub dtype: DLDataType,
    /// Number of axes.
    pub ndim: usize,
    /// What its strides amount to.
    pub facts: &'a Facts,
    /// Largest power of two up to 4096 that divides its address; 0: opaque or NULL.
    pub alignment: u32,
    /// What its `byte_offset` is.
    pub byte_offset: Offset,
    /// Whether it must not be written to.
    pub read_only: bool,
    /// Whether its elements of less than a byte are padded.
    pub padded: bool,
}

/// The consumers that take a device type.
#[inline(always)]
pub fn by_device(device: DLDevice) -> u32 {
    TAKERS.by_device[device.index()]
}

/// The consumers that take a dtype.
#[inline(always)]
fn by_dtype(dtype: DLDataType) -> u32 {
    let (number, takers) = TAKERS.by_dtype[slot(dtype)];
    if number == dtype.number() { takers } else { BY_OTHER_DTYPE }
}

/// The consumers that take the tensor without a copy as it stands.
#[inline(always)]
pub fn accepted_by(tensor: Candidate<'_>) -> u32 {
    let facts = tensor.facts;
    let alignment = if facts.is_empty() { 0 } else { tensor.alignment };
    let usual = by_device(tensor.device)
        & by_dtype(tensor.dtype)
        & TAKERS.by_ndim[tensor.ndim]
        & TAKERS.by_alignment[alignment.trailing_zeros() as usize]
        & TAKERS.by_facts[(facts.bits() & Facts::ALL) as usize];
    match (tensor.byte_offset, tensor.read_only, tensor.padded) {
        (Offset::Zero, false, false) => usual,
        (byte_offset, read_only, padded) => usual & by_oddity(byte_offset, read_only, padded),
    }
}

/// The consumers that take what most tensors do not have.
#[cold]
fn by_oddity(byte_offset: Offset, read_only: bool, padded: bool) -> u32 {
    let unless = |present: bool, mask: u32| if present { mask } else { ALL };
    BY_OFFSET[byte_offset as usize] & unless(read_only, READ_ONLY) & unless(padded, PADDED)
}

/// One of `consumers` that would refuse a new, aligned, writable tensor like this, and why.
pub fn refusal(consumers: u32, tensor: Candidate<'_>) -> Option<(&'static str, Refusal)> {
    let facts = tensor.facts;
    let checks = [
        (by_device(tensor.device), Refusal::Device),
        (by_dtype(tensor.dtype), Refusal::Dtype),
        (BY_NDIM[tensor.ndim], Refusal::Ndim(tensor.ndim)),
        (if facts.is_empty() { EMPTY } else { ALL }, Refusal::Empty),
        (if tensor.padded { PADDED } else { ALL }, Refusal::Padded),
        // Last: another layout may do.
        (if facts.is_c_contiguous() { ALL } else { NOT_ROW_MAJOR }, Refusal::Layout),
    ];
    let (mask, refusal) = checks.iter().find(|(mask, _)| consumers & !mask != 0)?;
    Some((consumer_names(consumers & !mask).next()?, *refusal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout;

    fn accepted(shape: &[i64], strides: &[i64], change: impl Fn(&mut Candidate<'_>)) -> Vec<&'static str> {
        let facts = layout::facts(shape, strides).unwrap();
        let mut candidate = Candidate {
            device: DLDevice { device_type: device::CPU, device_id: 0 },
            dtype: Scalar::Float32.dtype(),
            ndim: shape.len(),
            facts: &facts,
            alignment: 256,
            byte_offset: Offset::Zero,
            read_only: false,
            padded: false,
        };
        change(&mut candidate);
        consumer_names(accepted_by(candidate)).collect()
    }

    #[test]
    fn rows_are_in_the_order_of_their_bits() {
        for (index, rule) in RULES.iter().enumerate() {
            assert_eq!(rule.consumer as u32, 1 << index);
            let name = format!("{:?}", rule.consumer).to_lowercase();
            let names: Vec<_> = consumer_names(1 << index).collect();
            assert_eq!(names.concat().replace('_', ""), name);
        }
    }

    #[test]
    fn the_table_answers_as_the_importers_did() {
        let on_host = ["numpy", "torch", "jax", "tensorflow", "paddle", "mlx", "tvm_ffi"];
        assert_eq!(accepted(&[2, 3], &[3, 1], |_| ()), on_host);
        assert_eq!(accepted(&[2, 3], &[1, 2], |_| ()), ["numpy", "torch", "jax", "paddle", "mlx", "tvm_ffi"]);
        assert_eq!(accepted(&[2, 3], &[4, 1], |_| ()), ["numpy", "torch", "paddle", "mlx", "tvm_ffi"]);
        assert_eq!(accepted(&[2, 3], &[-3, 1], |_| ()), ["numpy", "tvm_ffi"]);
        assert_eq!(accepted(&[2, 3], &[3, 1], |t| t.read_only = true), ["numpy"]);
        let offset = |offset| accepted(&[2, 3], &[3, 1], |t| t.byte_offset = offset);
        assert_eq!(offset(Offset::Elements), ["numpy", "torch", "jax", "mlx", "tvm_ffi"]);
        assert_eq!(offset(Offset::Any), ["numpy", "jax", "mlx", "tvm_ffi"]);
        let unaligned = ["numpy", "torch", "tensorflow", "paddle", "mlx", "tvm_ffi"];
        assert_eq!(accepted(&[2, 3], &[3, 1], |t| t.alignment = 32), unaligned);
        assert_eq!(accepted(&[2, 3], &[3, 1], |t| t.alignment = 64), on_host);
        assert_eq!(accepted(&[0, 3], &[3, 1], |t| t.alignment = 0), on_host);
        assert_eq!(
            accepted(&[1; 10], &[1; 10], |_| ()),
            ["numpy", "torch", "jax", "tensorflow", "mlx", "tvm_ffi"]
        );
        let bfloat16 = ["torch", "jax", "tensorflow", "paddle", "mlx", "tvm_ffi"];
        assert_eq!(accepted(&[2], &[1], |t| t.dtype = Scalar::Bfloat16.dtype()), bfloat16);
        assert_eq!(accepted(&[2], &[1], |t| t.dtype.lanes = 2), ["tvm_ffi"]);
        assert_eq!(accepted(&[2], &[1], |t| t.device.device_type = 77), ["tvm_ffi"]);
        let opencl = |t: &mut Candidate<'_>| t.device.device_type = device::OPENCL;
        assert_eq!(accepted(&[2, 3], &[3, 1], opencl), ["pyclesperanto", "tvm_ffi"]);
        let cuda = |t: &mut Candidate<'_>| t.device.device_type = device::CUDA;
        let on_cuda = ["torch", "jax", "tensorflow", "cupy", "numba", "paddle", "tvm_ffi"];
        assert_eq!(accepted(&[2, 3], &[3, 1], cuda), on_cuda);
    }
}
