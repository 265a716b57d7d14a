//! What each importer takes without a copy, as one table.
//!
//! Rows were measured against the released packages (NumPy 2.4, PyTorch 2.15, JAX 0.10, TensorFlow
//! 2.21, Paddle 3.3, MLX 0.32, tvm-ffi 0.1) or read in their sources (CuPy, Numba, pyclesperanto).
//! What an importer takes but then gets wrong counts as refused: Paddle reads negative strides as
//! garbage, PyTorch writes through read-only tensors. MLX copies whatever it takes; its bit says
//! that it takes the tensor.
#![forbid(unsafe_code)]

use std::fmt;

use crate::dlpack::raw::{DLDataType, DLDevice, device_type as device, dtype_code};
use crate::dtype::Scalar;
use crate::layout::{Facts, MAX_NDIM};

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

struct Rule {
    consumer: Consumer,
    name: &'static str,
    devices: &'static [i32],
    dtypes: &'static [&'static [Kind]],
    strides: Strides,
    byte_offset: bool,
    read_only: bool,
    /// Padded elements of less than a byte.
    padded: bool,
    empty: bool,
    min_ndim: usize,
    max_ndim: usize,
    /// Bytes that the address must be a multiple of.
    alignment: u64,
}

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

const BYTES: &[Kind] = &[S(Scalar::Int8), S(Scalar::Uint8)];
const INTEGERS: &[Kind] = &[S(Scalar::Int16), S(Scalar::Int32), S(Scalar::Uint32)];
const UINT16: &[Kind] = &[S(Scalar::Uint16)];
const INTEGERS_64: &[Kind] = &[S(Scalar::Int64), S(Scalar::Uint64)];
const BOOL: &[Kind] = &[S(Scalar::Bool)];
const FLOAT16: &[Kind] = &[S(Scalar::Float16)];
const BFLOAT16: &[Kind] = &[S(Scalar::Bfloat16)];
const FLOAT32: &[Kind] = &[S(Scalar::Float32)];
const FLOAT64: &[Kind] = &[S(Scalar::Float64)];
const COMPLEX64: &[Kind] = &[S(Scalar::Complex64)];
const COMPLEX128: &[Kind] = &[S(Scalar::Complex128)];
const FLOAT8_PADDLE: &[Kind] = &[S(Scalar::Float8E4m3fn), S(Scalar::Float8E5m2)];
const FLOAT8_TORCH: &[Kind] =
    &[S(Scalar::Float8E4m3fnuz), S(Scalar::Float8E5m2fnuz), S(Scalar::Float8E8m0fnu)];
const FLOAT8_REST: &[Kind] = &[S(Scalar::Float8E3m4), S(Scalar::Float8E4m3), S(Scalar::Float8E4m3b11fnuz)];
const BELOW_FLOAT8: &[Kind] = &[S(Scalar::Float6E2m3fn), S(Scalar::Float6E3m2fn), S(Scalar::Float4E2m1fn)];

const NUMPY_DTYPES: &[&[Kind]] =
    &[BOOL, BYTES, INTEGERS, UINT16, INTEGERS_64, FLOAT16, FLOAT32, FLOAT64, COMPLEX64, COMPLEX128];

const RULES: [Rule; 10] = [
    Rule {
        consumer: Consumer::Numpy,
        name: "numpy",
        devices: &[device::CPU, device::CUDA_HOST, device::ROCM_HOST, device::CUDA_MANAGED],
        dtypes: NUMPY_DTYPES,
        strides: Strides::Any,
        byte_offset: true,
        read_only: true,
        padded: true,
        empty: true,
        min_ndim: 0,
        max_ndim: MAX_NDIM,
        alignment: 1,
    },
    Rule {
        consumer: Consumer::Torch,
        name: "torch",
        devices: &[
            device::CPU,
            device::CUDA,
            device::METAL,
            device::ROCM,
            device::EXT_DEV,
            device::ONE_API,
            device::MAIA,
        ],
        dtypes: &[
            BOOL,
            BYTES,
            INTEGERS,
            UINT16,
            INTEGERS_64,
            FLOAT16,
            BFLOAT16,
            FLOAT32,
            FLOAT64,
            COMPLEX64,
            COMPLEX128,
            &[Kind::Complex32, Kind::Float4Pair],
            FLOAT8_PADDLE,
            FLOAT8_TORCH,
        ],
        strides: Strides::NotNegative,
        byte_offset: true,
        read_only: false,
        padded: true,
        empty: true,
        min_ndim: 0,
        max_ndim: MAX_NDIM,
        alignment: 1,
    },
    Rule {
        consumer: Consumer::Jax,
        name: "jax",
        devices: &[device::CPU, device::CUDA, device::CUDA_HOST, device::ROCM],
        dtypes: &[
            BOOL,
            BYTES,
            INTEGERS,
            UINT16,
            INTEGERS_64,
            FLOAT16,
            BFLOAT16,
            FLOAT32,
            FLOAT64,
            COMPLEX64,
            COMPLEX128,
            FLOAT8_PADDLE,
            FLOAT8_TORCH,
            FLOAT8_REST,
        ],
        strides: Strides::Dense,
        byte_offset: true,
        read_only: false,
        padded: true,
        empty: true,
        min_ndim: 0,
        max_ndim: MAX_NDIM,
        alignment: 64,
    },
    Rule {
        consumer: Consumer::Tensorflow,
        name: "tensorflow",
        devices: &[device::CPU, device::CUDA],
        dtypes: &[
            BOOL,
            BYTES,
            INTEGERS,
            UINT16,
            INTEGERS_64,
            FLOAT16,
            BFLOAT16,
            FLOAT32,
            FLOAT64,
            COMPLEX64,
            COMPLEX128,
        ],
        strides: Strides::RowMajor,
        byte_offset: false,
        read_only: false,
        padded: true,
        empty: true,
        min_ndim: 0,
        max_ndim: MAX_NDIM,
        alignment: 1,
    },
    Rule {
        consumer: Consumer::Cupy,
        name: "cupy",
        devices: &[device::CUDA, device::ROCM, device::CUDA_MANAGED],
        dtypes: &[
            BOOL,
            BYTES,
            INTEGERS,
            UINT16,
            INTEGERS_64,
            FLOAT16,
            BFLOAT16,
            FLOAT32,
            FLOAT64,
            COMPLEX64,
            COMPLEX128,
        ],
        strides: Strides::Any,
        byte_offset: true,
        read_only: false,
        padded: true,
        empty: true,
        min_ndim: 0,
        max_ndim: MAX_NDIM,
        alignment: 1,
    },
    Rule {
        consumer: Consumer::Numba,
        name: "numba",
        devices: &[device::CUDA, device::CUDA_MANAGED],
        dtypes: NUMPY_DTYPES,
        strides: Strides::Any,
        byte_offset: true,
        read_only: false,
        padded: true,
        empty: true,
        min_ndim: 0,
        max_ndim: MAX_NDIM,
        alignment: 1,
    },
    Rule {
        consumer: Consumer::Pyclesperanto,
        name: "pyclesperanto",
        devices: &[device::OPENCL],
        dtypes: &[BYTES, INTEGERS, UINT16, FLOAT32],
        strides: Strides::RowMajor,
        byte_offset: false,
        read_only: false,
        padded: true,
        empty: false,
        min_ndim: 1,
        max_ndim: 3,
        alignment: 1,
    },
    Rule {
        consumer: Consumer::Paddle,
        name: "paddle",
        devices: &[device::CPU, device::CUDA, device::CUDA_HOST],
        dtypes: &[
            BOOL,
            BYTES,
            INTEGERS,
            INTEGERS_64,
            FLOAT16,
            BFLOAT16,
            FLOAT32,
            FLOAT64,
            COMPLEX64,
            COMPLEX128,
            FLOAT8_PADDLE,
        ],
        strides: Strides::NotNegative,
        byte_offset: false,
        read_only: false,
        padded: true,
        empty: true,
        min_ndim: 0,
        max_ndim: 9,
        alignment: 1,
    },
    Rule {
        consumer: Consumer::Mlx,
        name: "mlx",
        devices: &[device::CPU, device::METAL],
        dtypes: &[BOOL, BYTES, INTEGERS, UINT16, INTEGERS_64, FLOAT16, BFLOAT16, FLOAT32, COMPLEX64],
        strides: Strides::NotNegative,
        byte_offset: true,
        read_only: false,
        padded: true,
        empty: true,
        min_ndim: 0,
        max_ndim: MAX_NDIM,
        alignment: 1,
    },
    Rule {
        consumer: Consumer::TvmFfi,
        name: "tvm_ffi",
        devices: ANY_DEVICE,
        dtypes: &[
            BOOL,
            BYTES,
            INTEGERS,
            UINT16,
            INTEGERS_64,
            FLOAT16,
            BFLOAT16,
            FLOAT32,
            FLOAT64,
            COMPLEX64,
            COMPLEX128,
            FLOAT8_PADDLE,
            FLOAT8_TORCH,
            FLOAT8_REST,
            BELOW_FLOAT8,
            &[Kind::Complex32, Kind::Float4Pair, Kind::Other],
        ],
        strides: Strides::Any,
        byte_offset: true,
        read_only: false,
        padded: false,
        empty: true,
        min_ndim: 0,
        max_ndim: MAX_NDIM,
        alignment: 1,
    },
];

/// Every device type, unknown ones included.
const ANY_DEVICE: &[i32] = &[];

/// Bits of all consumers that there are.
pub const ALL: u32 = mask_of(Question::Exists);

// The table turned by property, when it is compiled: a lookup is a few ANDs.

#[derive(Clone, Copy)]
enum Question {
    Exists,
    Device(i32),
    Dtype(Kind),
    Negative,
    NotDense,
    NotRowMajor,
    ByteOffset,
    ReadOnly,
    Padded,
    Empty,
    Ndim(usize),
    /// log2 of the address's alignment.
    Alignment(u32),
}

const DEVICES: usize = device::ASCEND as usize + 2;
const KINDS: usize = Kind::Other.index() + 1;

impl Kind {
    const fn index(self) -> usize {
        match self {
            Kind::Scalar(scalar) => scalar as usize,
            Kind::Complex32 => Scalar::Float4E2m1fn as usize + 1,
            Kind::Float4Pair => Scalar::Float4E2m1fn as usize + 2,
            Kind::Other => Scalar::Float4E2m1fn as usize + 3,
        }
    }

    fn of(dtype: DLDataType) -> Kind {
        match (dtype.code, dtype.bits, dtype.lanes) {
            (dtype_code::FLOAT4_E2M1FN, 4, 2) => Kind::Float4Pair,
            (dtype_code::COMPLEX, 32, 1) => Kind::Complex32,
            (_, _, 1) => Scalar::of(dtype).map_or(Kind::Other, Kind::Scalar),
            _ => Kind::Other,
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
        Question::Dtype(kind) => {
            let mut family = 0;
            while family < rule.dtypes.len() {
                let mut index = 0;
                while index < rule.dtypes[family].len() {
                    if rule.dtypes[family][index].index() == kind.index() {
                        return true;
                    }
                    index += 1;
                }
                family += 1;
            }
            false
        }
        Question::Negative => matches!(rule.strides, Strides::Any),
        Question::NotDense => matches!(rule.strides, Strides::Any | Strides::NotNegative),
        Question::NotRowMajor => !matches!(rule.strides, Strides::RowMajor),
        Question::ByteOffset => rule.byte_offset,
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

const BY_DEVICE: [u32; DEVICES] = {
    let mut masks = [0; DEVICES];
    let mut index = 0;
    while index < DEVICES {
        masks[index] = mask_of(Question::Device(index as i32));
        index += 1;
    }
    masks
};

const BY_KIND: [u32; KINDS] = {
    let mut masks = [0; KINDS];
    let mut family = 0;
    // Every kind is in tvm_ffi's row, which takes them all.
    let every = RULES[RULES.len() - 1].dtypes;
    while family < every.len() {
        let mut index = 0;
        while index < every[family].len() {
            masks[every[family][index].index()] = mask_of(Question::Dtype(every[family][index]));
            index += 1;
        }
        family += 1;
    }
    masks
};

const BY_NDIM: [u32; MAX_NDIM + 1] = {
    let mut masks = [0; MAX_NDIM + 1];
    let mut ndim = 0;
    while ndim <= MAX_NDIM {
        masks[ndim] = mask_of(Question::Ndim(ndim));
        ndim += 1;
    }
    masks
};

const ALIGNMENTS: usize = 13;
const BY_ALIGNMENT: [u32; ALIGNMENTS] = {
    let mut masks = [0; ALIGNMENTS];
    let mut log2 = 0;
    while log2 < ALIGNMENTS {
        masks[log2] = mask_of(Question::Alignment(log2 as u32));
        log2 += 1;
    }
    masks
};

const NEGATIVE: u32 = mask_of(Question::Negative);
const NOT_DENSE: u32 = mask_of(Question::NotDense);
const NOT_ROW_MAJOR: u32 = mask_of(Question::NotRowMajor);
const BYTE_OFFSET: u32 = mask_of(Question::ByteOffset);
const READ_ONLY: u32 = mask_of(Question::ReadOnly);
const PADDED: u32 = mask_of(Question::Padded);
const EMPTY: u32 = mask_of(Question::Empty);

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
    /// Whether its `byte_offset` is other than 0.
    pub byte_offset: bool,
    /// Whether it must not be written to.
    pub read_only: bool,
    /// Whether its elements of less than a byte are padded.
    pub padded: bool,
}

/// The consumers that take a device type.
pub fn by_device(device: DLDevice) -> u32 {
    // Unknown numbers share the last place, as the type after the last that is known.
    BY_DEVICE[usize::try_from(device.device_type).map_or(DEVICES - 1, |index| index.min(DEVICES - 1))]
}

/// The consumers that take the tensor without a copy as it stands.
pub fn accepted_by(tensor: Candidate<'_>) -> u32 {
    let unless = |present: bool, mask: u32| if present { mask } else { ALL };
    let facts = tensor.facts;
    by_device(tensor.device)
        & BY_KIND[Kind::of(tensor.dtype).index()]
        & BY_NDIM[tensor.ndim]
        & unless(
            tensor.alignment != 0 && !facts.empty,
            BY_ALIGNMENT[(tensor.alignment.trailing_zeros() as usize).min(ALIGNMENTS - 1)],
        )
        & unless(facts.negative, NEGATIVE)
        & unless(!facts.dense, NOT_DENSE)
        & unless(!facts.c_contiguous, NOT_ROW_MAJOR)
        & unless(facts.empty, EMPTY)
        & unless(tensor.byte_offset, BYTE_OFFSET)
        & unless(tensor.read_only, READ_ONLY)
        & unless(tensor.padded, PADDED)
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

/// The first of `consumers` that would refuse a new, aligned, writable tensor like this, and why.
pub fn refusal(consumers: u32, tensor: Candidate<'_>) -> Option<(&'static str, Refusal)> {
    let facts = tensor.facts;
    let checks = [
        (by_device(tensor.device), Refusal::Device),
        (BY_KIND[Kind::of(tensor.dtype).index()], Refusal::Dtype),
        (BY_NDIM[tensor.ndim], Refusal::Ndim(tensor.ndim)),
        (if facts.empty { EMPTY } else { ALL }, Refusal::Empty),
        (if facts.c_contiguous { ALL } else { NOT_ROW_MAJOR }, Refusal::Layout),
        (if tensor.padded { PADDED } else { ALL }, Refusal::Padded),
    ];
    RULES.iter().filter(|rule| consumers & rule.consumer as u32 != 0).find_map(|rule| {
        let refused = checks.iter().find(|(mask, _)| mask & rule.consumer as u32 == 0)?;
        Some((rule.name, refused.1))
    })
}

/// The consumer's name: "numpy", "torch" and so on, lowest bit first.
pub fn names(consumers: u32) -> impl Iterator<Item = &'static str> {
    RULES.iter().filter(move |rule| consumers & rule.consumer as u32 != 0).map(|rule| rule.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout;

    fn accepted(shape: &[i64], strides: &[i64], change: impl Fn(&mut Candidate<'_>)) -> Vec<&'static str> {
        let facts = layout::facts(shape, strides);
        let mut candidate = Candidate {
            device: DLDevice { device_type: device::CPU, device_id: 0 },
            dtype: Scalar::Float32.dtype(),
            ndim: shape.len(),
            facts: &facts,
            alignment: 256,
            byte_offset: false,
            read_only: false,
            padded: false,
        };
        change(&mut candidate);
        names(accepted_by(candidate)).collect()
    }

    #[test]
    fn rows_are_in_the_order_of_their_bits() {
        for (index, rule) in RULES.iter().enumerate() {
            assert_eq!(rule.consumer as u32, 1 << index, "{}", rule.name);
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
        assert_eq!(
            accepted(&[2, 3], &[3, 1], |t| t.byte_offset = true),
            ["numpy", "torch", "jax", "mlx", "tvm_ffi"]
        );
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
