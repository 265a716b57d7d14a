//! The kernels of every GPU, written once: in a subset of C that OpenCL C 1.2, CUDA C++ and C99 all take.
//!
//! `opencl.h`, `cuda.h` and `host.h` say what differs between the three; a program is one of them, then
//! `numbers.h` (how values change their type), `jobs.h` (the kernels, a macro each), and a line for each
//! kernel that it has, such as `AB_CAST(f32, f16)`. OpenCL's programs are put together at run time, with one
//! kernel each; CUDA's are compiled ahead, with as many as it likes. Nothing is included, and nothing but
//! integers is calculated with, so that every device gives the bits that the host gives.
//!
//! How a backend does a job:
//!
//! 1. [`Launches::of`] the job, with the offset of the first element from each pointer. The pointers have to
//!    be multiples of 16 bytes: take an address apart into such a pointer and an offset below 16. None: there
//!    is no kernel for it (elements of less than a byte that are spread out), the host has to do it.
//! 2. [`Launches::kernel`] says which one: its [`Kernel::name`] to look up, and its [`Kernel::line`] to make
//!    it. `Kernel::Cast(from, to)` is there for every pair of [`Type`]s; where a backend has compiled no more
//!    than some of them, it has to do the others another way.
//! 3. For each of [`Launches::each`], launch so many groups of [`GROUP`] work items. The arguments are the
//!    source's pointer, the destination's, a pointer to a 32-bit word, and [`Params`] by value. One launch
//!    is enough for up to 2^31 elements; more than one have to run in order.
//! 4. Where [`Launches::is_exact`], the word has to be 0 before; where it is not afterwards, a value was lost
//!    ([`crate::Error::ValueLost`]). Otherwise it is not touched, and its pointer may be null.
//!
//! Sub-byte formats, and those of 8 bits, are one type, [`Type::X8`]; [`Params`] describe which.
#![forbid(unsafe_code)]

mod launch;
mod params;

use std::fmt;

use crate::dtype::Scalar;

pub use launch::Launches;
pub use params::{Division, Format, Params, Step, flags};

/// What differs between the dialects.
pub const OPENCL: &str = include_str!("opencl.h");
/// See [`OPENCL`].
pub const CUDA: &str = include_str!("cuda.h");
/// See [`OPENCL`].
pub const HOST: &str = include_str!("host.h");
/// What follows the dialect.
pub const NUMBERS: &str = include_str!("numbers.h");
/// What follows the numbers.
pub const JOBS: &str = include_str!("jobs.h");

/// Work items of a group.
pub const GROUP: u32 = 256;
/// Elements of a work item: `AB_EACH`.
const EACH: u32 = 4;

/// What a kernel reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Type {
    B8,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
    /// Any format of at most 8 bits.
    X8,
}

impl Type {
    /// Every type.
    pub const ALL: [Type; 14] = {
        use Type::*;
        [B8, I8, I16, I32, I64, U8, U16, U32, U64, F16, Bf16, F32, F64, X8]
    };

    /// Of a real scalar.
    fn of(scalar: Scalar) -> Type {
        Type::ALL[(scalar as usize).min(Type::X8 as usize)]
    }

    /// As in the names of kernels.
    pub const fn name(self) -> &'static str {
        const NAMES: [&str; 14] =
            ["b8", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "x8"];
        NAMES[self as usize]
    }

    /// Bytes of one that has bytes of its own.
    const fn size(self) -> i64 {
        const SIZES: [i64; 14] = [1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 1];
        SIZES[self as usize]
    }
}

/// Which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Words of 1, 2, 4, 8 or 16 bytes.
    Copy(u8),
    /// Such words, by tiles.
    Transpose(u8),
    /// A change of type.
    Cast(Type, Type),
    /// A change of type by tiles.
    CastTransposed(Type, Type),
    /// Elements of some bits that follow each other.
    PackBits,
    /// A change of type to such.
    Pack(Type),
}

impl Kernel {
    /// Every kernel that there is.
    pub fn all() -> impl Iterator<Item = Kernel> {
        let sizes = || [1, 2, 4, 8, 16].into_iter();
        let pairs = || Type::ALL.into_iter().flat_map(|from| Type::ALL.map(|to| (from, to)));
        sizes()
            .map(Kernel::Copy)
            .chain(sizes().map(Kernel::Transpose))
            .chain(pairs().map(|(from, to)| Kernel::Cast(from, to)))
            .chain(pairs().map(|(from, to)| Kernel::CastTransposed(from, to)))
            .chain([Kernel::PackBits])
            .chain(Type::ALL.into_iter().map(Kernel::Pack))
    }

    /// Its function's name.
    pub fn name(self) -> String {
        self.to_string()
    }

    /// The line that makes it.
    pub fn line(self) -> String {
        let mut line = String::new();
        // A text takes whatever is written to it.
        let _ = self.write_line(&mut line);
        line
    }

    /// Writes the line that makes it.
    pub fn write_line(self, text: &mut impl fmt::Write) -> fmt::Result {
        match self {
            Kernel::Copy(size) => writeln!(text, "AB_COPY({size}, u{})", 8 * u32::from(size)),
            Kernel::Transpose(size) => {
                writeln!(text, "AB_TRANSPOSE({size}, u{}, {})", 8 * u32::from(size), self.tile())
            }
            Kernel::Cast(from, to) => writeln!(text, "AB_CAST({}, {})", from.name(), to.name()),
            Kernel::CastTransposed(from, to) => {
                writeln!(text, "AB_CAST_TRANSPOSED({}, {})", from.name(), to.name())
            }
            Kernel::PackBits => writeln!(text, "AB_PACK_BITS"),
            Kernel::Pack(from) => writeln!(text, "AB_PACK({})", from.name()),
        }
    }

    /// Rows and columns of a tile.
    fn tile(self) -> u32 {
        // Those of the shortest elements are as long in bytes.
        if let Kernel::Transpose(1 | 2) = self { 64 } else { 32 }
    }
}

impl fmt::Display for Kernel {
    /// Its function's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kernel::Copy(size) => write!(f, "ab_copy_{size}"),
            Kernel::Transpose(size) => write!(f, "ab_transpose_{size}"),
            Kernel::Cast(from, to) => write!(f, "ab_cast_{}_{}", from.name(), to.name()),
            Kernel::CastTransposed(from, to) => write!(f, "ab_transpose_{}_{}", from.name(), to.name()),
            Kernel::PackBits => f.write_str("ab_pack_bits"),
            Kernel::Pack(from) => write!(f, "ab_pack_{}", from.name()),
        }
    }
}
