//! What a kernel gets, as `jobs.h` and `numbers.h` have it: `ab_params`, `ab_axis`, `ab_format`.

use crate::backend::host::float::SMALL;
use crate::dtype::Scalar;

/// Axes that a launch has at most: `AB_MOST_AXES`.
pub const MOST_AXES: usize = 16;
/// A launch has fewer elements than this: what [`Division`] can divide.
pub const MOST_ELEMENTS: u64 = (1 << 31) - 1024;

/// `params.flags`
#[allow(missing_docs)]
pub mod flags {
    pub const SATURATE: u32 = 1;
    pub const EXACT: u32 = 2;
    pub const FROM_COMPLEX: u32 = 4;
    pub const TO_COMPLEX: u32 = 8;
    pub const SOURCE_BITS: u32 = 16;
    pub const SOURCE_ODD: u32 = 32;
    pub const DESTINATION_ODD: u32 = 64;
    pub const WIDE: u32 = 128;
}

/// A number to divide by: `2n * magic >> 32 >> shift` is the quotient of every `n` below 2^31.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Division {
    pub extent: u32,
    pub magic: u32,
    pub shift: u32,
    pub unused: u32,
}

impl Division {
    /// By a number from 1 to 2^31.
    pub fn by(extent: u32) -> Division {
        let log = u32::BITS - (extent - 1).leading_zeros();
        // Less than 2^32, since the extent is more than half of 2^log.
        let magic = (1u64 << (31 + log)).div_ceil(extent.into()) as u32;
        Division { extent, magic, shift: log, unused: 0 }
    }

    /// What a kernel does.
    pub fn quotient(self, n: u32) -> u32 {
        (((u64::from(2 * n) * u64::from(self.magic)) >> 32) as u32) >> self.shift
    }
}

/// `ab_axis`: the steps of an axis and its extent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Step {
    pub source: i64,
    pub destination: i64,
    pub extent: Division,
}

/// `ab_format`: a format of at most 8 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Format {
    pub fraction: u32,
    pub bias: u32,
    pub largest: u32,
    pub overflow: u32,
    pub positive_nan: u32,
    pub negative_nan: u32,
    pub sign: u32,
    pub first_special: u32,
    pub unsigned_zero: u32,
    pub bits: u32,
}

impl Format {
    /// Of a scalar; of one that is no such format, nothing.
    pub fn of(scalar: Scalar) -> Format {
        let Some(index) = (scalar as usize).checked_sub(Scalar::Float8E3m4 as usize) else {
            return Format::default();
        };
        let power = Scalar::Float8E8m0fnu as usize - Scalar::Float8E3m4 as usize;
        let bits = scalar.bits();
        if index == power {
            return Format { bits, ..Format::default() };
        }
        let small = &SMALL[index - usize::from(index > power)];
        Format {
            fraction: small.fraction,
            bias: small.bias,
            largest: small.largest,
            overflow: small.overflow,
            positive_nan: small.nan[0].into(),
            negative_nan: small.nan[1].into(),
            sign: small.sign,
            first_special: small.first_special,
            unsigned_zero: small.unsigned_zero.into(),
            bits,
        }
    }
}

/// `ab_params`, whose fields `jobs.h` explains.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Params {
    pub source: i64,
    pub destination: i64,
    pub count: u32,
    pub axes: u32,
    pub flags: u32,
    pub types: u32,
    pub source_step: i64,
    pub destination_step: i64,
    pub rows: u32,
    pub columns: u32,
    pub row_tiles: Division,
    pub column_tiles: Division,
    pub elements: u32,
    pub bits: u32,
    pub room: u32,
    pub first: u32,
    pub per_room: Division,
    pub from: Format,
    pub to: Format,
    pub axis: [Step; MOST_AXES],
}

// What the text says: devices take at least 1024 bytes of arguments.
const _: () = assert!(size_of::<Params>() == 712 && size_of::<Step>() == 32 && size_of::<Format>() == 40);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_are_exact() {
        let mut numbers: Vec<u32> =
            (0..31).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]).collect();
        let mut random = 1u64;
        for _ in 0..2000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            numbers.push((random >> (33 + random % 31)) as u32);
        }
        numbers.retain(|number| *number < 1 << 31);
        for extent in numbers.iter().copied().filter(|extent| *extent > 0) {
            let division = Division::by(extent);
            for n in &numbers {
                assert_eq!(division.quotient(*n), n / extent, "{n} / {extent}");
            }
            let most = (1 << 31) - 1;
            let last = most / extent * extent;
            assert_eq!(division.quotient(last), last / extent);
            assert_eq!(division.quotient(last - 1), (last - 1) / extent);
        }
    }
}
