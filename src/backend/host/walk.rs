//! Walks a folded job row by row, in the order that the caches like.

use super::bits;
use super::cast::Caster;
use super::copy;
use crate::backend::job::Cast;
use crate::layout::{Axis, Folded, MAX_NDIM};

/// Copies elements of `size` bytes.
///
/// # Safety
/// Every place of the job is readable and writable, and they do not overlap.
pub unsafe fn copy(folded: &Folded, mut size: usize, source: *const u8, destination: *mut u8) {
    // An innermost axis that is contiguous on both sides makes one larger element.
    let mut axes = folded.axes();
    while let Some((inner, outer)) = axes.split_last()
        && inner.source == size as i64
        && inner.destination == size as i64
    {
        size *= inner.extent as usize;
        axes = outer;
    }
    let row = copy::for_size(size);
    rows(axes, size, (folded.source_offset, folded.destination_offset), |from, to, axis| {
        // SAFETY: the row is part of the job.
        unsafe {
            row(
                source.offset(from as isize),
                axis.source as isize,
                destination.offset(to as isize),
                axis.destination as isize,
                axis.extent as usize,
                size,
            );
        }
        true
    });
}

/// Copies elements of `bits` bits into elements of `room` bits.
///
/// # Safety
/// As [`copy`], with the bytes of the destination readable too.
pub unsafe fn copy_bits(folded: &Folded, bits: u64, room: u64, source: *const u8, destination: *mut u8) {
    let mut axes = folded.axes();
    let (mut bits, mut room) = (bits, room);
    while let Some((inner, outer)) = axes.split_last()
        && bits == room
        && inner.source == bits as i64
        && inner.destination == bits as i64
    {
        bits *= inner.extent as u64;
        room = bits;
        axes = outer;
    }
    rows(axes, 1, (folded.source_offset, folded.destination_offset), |from, to, axis| {
        for index in 0..axis.extent {
            let (from, to) = (from + index * axis.source, to + index * axis.destination);
            // SAFETY: the element is part of the job.
            unsafe {
                if bits == room && (from | to) & 7 == 0 {
                    // Whole bytes first, then the bits that are left.
                    let whole = bits / 8;
                    let (from_byte, to_byte) = ((from >> 3) as isize, (to >> 3) as isize);
                    source
                        .offset(from_byte)
                        .copy_to_nonoverlapping(destination.offset(to_byte), whole as usize);
                    let (from, to) = (from + 8 * whole as i64, to + 8 * whole as i64);
                    bits::copy(source, from, destination, to, bits % 8, bits % 8);
                } else {
                    bits::copy(source, from, destination, to, bits, room);
                }
            }
        }
        true
    });
}

/// Casts; false where a value was lost that may not be.
///
/// # Safety
/// As [`copy_bits`].
pub unsafe fn cast(folded: &Folded, cast: &Cast, source: *const u8, destination: *mut u8) -> bool {
    let caster = Caster::new(cast);
    let size = (cast.from.bits() as usize / 8).max(1);
    rows(folded.axes(), size, (folded.source_offset, folded.destination_offset), |from, to, axis| {
        // SAFETY: the row is part of the job.
        unsafe {
            caster.run(source, (from, axis.source), destination, (to, axis.destination), axis.extent as usize)
        }
    })
}

/// Elements of a block along the axis that rows run along.
const ROW_BLOCK: i64 = 64;
/// Bytes of the source that a block takes of each line across its rows.
const LINE_BLOCK: i64 = 128;
/// Rows shorter than this are walked along another axis where that is longer.
const SHORT_ROW: i64 = 8;
/// Elements of a block of such rows.
const LONG_BLOCK: i64 = 1024;

/// Calls `row` for rows that together visit every place once, until it says false. `size` is about
/// what an element of the source takes in bytes.
///
/// Rows run along the axis that is innermost in the destination. Where another axis is innermost in
/// the source, the two are cut into blocks whose lines on both sides stay in the first cache.
fn rows(axes: &[Axis], size: usize, start: (i64, i64), mut row: impl FnMut(i64, i64, Axis) -> bool) -> bool {
    let Some((inner, rest)) = axes.split_last() else {
        return row(start.0, start.1, Axis { extent: 1, source: 0, destination: 0 });
    };
    let Some(near) = (0..rest.len()).rev().min_by_key(|index| rest[*index].source.unsigned_abs()) else {
        return row(start.0, start.1, *inner);
    };
    let mut along = *inner;
    let mut across = rest[near];
    let transposed = across.source.unsigned_abs() < along.source.unsigned_abs();
    let mut picked = near;
    let (mut row_block, mut across_block);
    if transposed {
        (row_block, across_block) = (ROW_BLOCK, (LINE_BLOCK / size as i64).max(4));
    } else {
        // Rows that stand next to each other in the destination.
        picked = rest.len() - 1;
        across = rest[picked];
        (row_block, across_block) = (i64::MAX, 1);
    }
    if along.extent < SHORT_ROW && along.extent < across.extent {
        std::mem::swap(&mut along, &mut across);
        (row_block, across_block) = (LONG_BLOCK, across.extent);
    }
    let mut outer = [Axis::default(); MAX_NDIM + 1];
    let mut count = 0;
    for (index, axis) in rest.iter().enumerate() {
        if index != picked {
            outer[count] = *axis;
            count += 1;
        }
    }
    each(&outer[..count], start, &mut |from, to| {
        let mut across_at = 0;
        while across_at < across.extent {
            let across_end = across.extent.min(across_at + across_block);
            let mut along_at = 0;
            while along_at < along.extent {
                let extent = row_block.min(along.extent - along_at);
                for line in across_at..across_end {
                    let from = from + line * across.source + along_at * along.source;
                    let to = to + line * across.destination + along_at * along.destination;
                    if !row(from, to, Axis { extent, ..along }) {
                        return false;
                    }
                }
                along_at += extent;
            }
            across_at = across_end;
        }
        true
    })
}

/// Calls `visit` for every combination of the axes, the last one fastest, until it says false.
fn each(axes: &[Axis], start: (i64, i64), visit: &mut impl FnMut(i64, i64) -> bool) -> bool {
    let mut index = [0i64; MAX_NDIM + 1];
    let (mut from, mut to) = start;
    loop {
        if !visit(from, to) {
            return false;
        }
        let mut axis = axes.len();
        loop {
            if axis == 0 {
                return true;
            }
            axis -= 1;
            index[axis] += 1;
            from += axes[axis].source;
            to += axes[axis].destination;
            if index[axis] < axes[axis].extent {
                break;
            }
            from -= axes[axis].source * axes[axis].extent;
            to -= axes[axis].destination * axes[axis].extent;
            index[axis] = 0;
        }
    }
}
