//! The job that a backend gets: two places to walk together, folded to the fewest axes, and what to
//! do with each element.
#![forbid(unsafe_code)]

use crate::dlpack::raw::DLDataType;
use crate::dtype::{self, Scalar, Storage};
use crate::layout::{Axis, Folded};

/// One side of a transfer, before folding.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Type of an element.
    pub dtype: DLDataType,
    /// Whether elements of less than a byte take whole bytes.
    pub padded: bool,
    /// Strides in elements.
    pub strides: &'a [i64],
}

/// What happens to each element on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// So many bytes are copied. Both sides count bytes.
    Move {
        /// Bytes of an element.
        size: u64,
    },
    /// So many bits are copied and the destination's others cleared. Both sides count bits.
    MoveBits {
        /// Bits of an element.
        bits: u64,
        /// Bits that it takes in the destination.
        room: u64,
    },
    /// A value changes its type.
    Cast(Cast),
}

/// A change of type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cast {
    /// What is read.
    pub from: Scalar,
    /// What is written.
    pub to: Scalar,
    /// The source counts bits.
    pub from_bits: bool,
    /// The destination counts bits.
    pub to_bits: bool,
    /// Values beyond the range become its limits.
    pub saturate: bool,
    /// Stop at a value that does not survive.
    pub exact: bool,
}

/// How values may change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// See [`Cast::saturate`].
    pub saturate: bool,
    /// See [`Cast::exact`].
    pub exact: bool,
}

/// A folded job. Offsets are from the first element of each side.
#[derive(Clone, Copy, Debug)]
pub struct Transfer<'a> {
    /// The axes, outermost first, in the units that `work` says.
    pub folded: Folded<'a>,
    /// What happens to each element.
    pub work: Work,
    /// How many threads of the host may work on it; 0: as many as the process may run on.
    pub threads: u32,
    /// Pinned staging memory of a device that it may make, in bytes; 0: the default.
    pub staging_bytes: u64,
}

/// How many axes a job of `ndim` has at most: lanes and the parts of complex numbers make one each.
pub const fn most_axes(ndim: usize) -> usize {
    ndim + 2
}

impl<'a> Transfer<'a> {
    /// Folds two sides of one shape, of which no extent is 0, into `room` for [`most_axes`].
    #[inline(always)]
    pub fn new(
        shape: &[i64],
        source: Side<'_>,
        destination: Side<'_>,
        rules: Rules,
        room: &'a mut [Axis],
    ) -> Transfer<'a> {
        let from = Storage::of(source.dtype, source.padded);
        let to = Storage::of(destination.dtype, destination.padded);
        if source.dtype == destination.dtype {
            let bytes = from.is_bytes() && to.is_bytes() && from == to;
            let unit = if bytes { 8 } else { 1 };
            let steps = ((from.bits / unit) as i64, (to.bits / unit) as i64);
            let folded = fold(shape, source.strides, destination.strides, steps, room);
            let bits = u64::from(source.dtype.bits) * u64::from(source.dtype.lanes);
            let work = if bytes {
                Work::Move { size: from.bytes() }
            } else {
                Work::MoveBits { bits, room: to.bits }
            };
            return Transfer { folded, work, threads: 0, staging_bytes: 0 };
        }

        let (Some(mut from_scalar), Some(mut to_scalar)) =
            (Scalar::of(source.dtype), Scalar::of(destination.dtype))
        else {
            unreachable!("the plan lets scalars through only")
        };
        let lanes = i64::from(source.dtype.lanes);
        let (from_bits, to_bits) = (source.in_bits(), destination.in_bits());
        let step = |storage: Storage, bits: bool| (storage.bits / if bits { 1 } else { 8 }) as i64;
        let lane = |scalar: Scalar, bits: bool| i64::from(scalar.bits()) / if bits { 1 } else { 8 };
        let steps = (step(from, from_bits), step(to, to_bits));
        let lanes_axis = Axis {
            extent: lanes,
            source: lane(from_scalar, from_bits),
            destination: lane(to_scalar, to_bits),
        };
        // A complex number is a pair of reals where both sides are.
        let mut parts_axis = Axis { extent: 1, source: 0, destination: 0 };
        if let (Some(from_part), Some(to_part)) = (from_scalar.complex_part(), to_scalar.complex_part()) {
            (from_scalar, to_scalar) = (from_part, to_part);
            parts_axis =
                Axis { extent: 2, source: lane(from_scalar, false), destination: lane(to_scalar, false) };
        }
        // A single lane has no step, which for padded elements is not even whole.
        let inner = [lanes_axis, parts_axis].into_iter().filter(|axis| axis.extent > 1);
        let folded = Folded::new(axes(shape, source.strides, destination.strides, steps).chain(inner), room);
        let Rules { saturate, exact } = rules;
        let cast = Cast { from: from_scalar, to: to_scalar, from_bits, to_bits, saturate, exact };
        Transfer { folded, work: Work::Cast(cast), threads: 0, staging_bytes: 0 }
    }

    /// The job that goes before a cast to lanes that leave bits of their element over: it clears all of
    /// the element. None: there is nothing to clear.
    pub fn clearing(shape: &[i64], destination: Side<'_>, room: &'a mut [Axis]) -> Option<Transfer<'a>> {
        let bits = Storage::of(destination.dtype, destination.padded).bits;
        let used = u64::from(destination.dtype.bits) * u64::from(destination.dtype.lanes);
        if !destination.in_bits() || bits == used {
            return None;
        }
        let folded = fold(shape, destination.strides, destination.strides, (0, bits as i64), room);
        Some(Transfer { folded, work: Work::MoveBits { bits: 0, room: bits }, threads: 0, staging_bytes: 0 })
    }
}

impl Side<'_> {
    /// Whether elements start within bytes: those of less than one do, unless each has one of its own.
    fn in_bits(self) -> bool {
        dtype::is_subbyte(self.dtype) && (!self.padded || self.dtype.lanes > 1)
    }
}

/// Folds two sides by their strides, whose steps are so long, into `room` for [`most_axes`].
#[inline(always)]
pub fn fold<'a>(
    shape: &[i64],
    source: &[i64],
    destination: &[i64],
    steps: (i64, i64),
    room: &'a mut [Axis],
) -> Folded<'a> {
    Folded::new(axes(shape, source, destination, steps), room)
}

#[inline(always)]
fn axes<'a>(
    shape: &'a [i64],
    source: &'a [i64],
    destination: &'a [i64],
    steps: (i64, i64),
) -> impl Iterator<Item = Axis> + Clone + 'a {
    shape.iter().zip(source.iter().zip(destination)).map(move |(extent, (from, to))| Axis {
        extent: *extent,
        // An axis of extent 1 is never stepped along, however large its stride.
        source: from.wrapping_mul(steps.0),
        destination: to.wrapping_mul(steps.1),
    })
}
