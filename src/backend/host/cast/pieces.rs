//! Casts of what has short rows on both sides, as tensors with many short axes have: pieces are put together as they are,
//! which moves are good at, and cast in long rows.

use super::CastKernel;
use crate::backend::host::cuts::up;
use crate::backend::host::kernel::{Move, Sides};
use crate::backend::host::larger_elements;
use crate::backend::host::prepared::{Kept, MOST_AXES, Room};
use crate::backend::host::stream::Buffer;
use crate::backend::host::walk::{Kernel, PerAxis, each, each_at, walk};
use crate::layout::Axis;

/// Bytes of a piece, of the larger elements: the first cache holds it beside what is read and written.
const PIECE: usize = 16 << 10;
/// Elements of a row that are worth a cast of their own.
const ROW: i64 = 128;
/// Bytes of a run of the source that are worth reading by themselves.
const RUN: i64 = 128;

/// How many steps of each axis a piece has.
struct Blocks {
    steps: PerAxis<i64>,
    /// Elements that there is still room for.
    room: i64,
}

impl Blocks {
    fn of(axes: &[Axis], (from, to): (i64, i64)) -> Blocks {
        let mut blocks = Blocks { steps: PerAxis::new(), room: PIECE as i64 / from.max(to) };
        axes.iter().for_each(|_| blocks.steps.push(1));
        let all = blocks.room;
        blocks.take_rows(axes, ROW.min(all));
        // What follows in the source.
        let (mut reach, mut run) = (from, 1);
        while run * from < RUN {
            let goes_on = |index: &usize| (reach..=4 * reach).contains(&axes[*index].source.abs());
            let nearest = (0..axes.len()).filter(goes_on).min_by_key(|index| axes[*index].source.abs());
            let Some(next) = nearest else { break };
            blocks.take(axes, next, up(RUN, run * from));
            run *= blocks.steps[next];
            reach = axes[next].source.abs() * axes[next].extent;
            if blocks.steps[next] < axes[next].extent {
                break;
            }
        }
        blocks.take_rows(axes, all);
        blocks
    }

    /// Takes so many steps of an axis, or about as many, as far as there is room.
    fn take(&mut self, axes: &[Axis], index: usize, most: i64) {
        let (extent, before) = (axes[index].extent, self.steps[index]);
        let most = most.min(self.room * before).min(extent);
        if most > before {
            // As many in each piece.
            let steps = up(extent, up(extent, most));
            self.room = self.room * before / steps;
            self.steps[index] = steps;
        }
    }

    /// Makes rows of the destination longer, up to so many elements.
    fn take_rows(&mut self, axes: &[Axis], wanted: i64) {
        let mut row = 1;
        for index in (0..axes.len()).rev() {
            if row >= wanted {
                return;
            }
            self.take(axes, index, up(wanted, row));
            row *= self.steps[index];
            if self.steps[index] < axes[index].extent {
                return;
            }
        }
    }
}

/// # Safety
/// As [`Kernel::in_pieces`], of bytes and of [`MOST_AXES`] at most.
pub unsafe fn run(kernel: &CastKernel, axes: &[Axis], start: (i64, i64)) -> bool {
    debug_assert!(axes.len() <= MOST_AXES);
    let (from_size, to_size) = kernel.steps();
    let blocks = Blocks::of(axes, (from_size, to_size));
    let mut coarse = PerAxis::new();
    for (axis, steps) in axes.iter().zip(blocks.steps.iter()) {
        let extent = up(axis.extent, *steps);
        coarse.push(Axis { extent, source: axis.source * steps, destination: axis.destination * steps });
    }
    let mut buffer = Buffer::<PIECE>::new();
    let buffer = buffer.start();
    let cast = kernel.reading(buffer);
    let mut room = Room::new();
    let mut kept: Option<Kept> = None;
    each_at(&coarse, start, &mut |from, to, at| {
        // Of the piece: its axes, and the same in the buffer.
        let (mut own, mut put) = (PerAxis::new(), PerAxis::new());
        let (mut is_whole, mut elements) = (true, 1);
        for (index, axis) in axes.iter().enumerate() {
            let extent = blocks.steps[index].min(axis.extent - at[index] * blocks.steps[index]);
            is_whole &= extent == blocks.steps[index];
            elements *= extent;
            if extent > 1 {
                own.push(Axis { extent, ..*axis });
            }
        }
        let mut step = elements * from_size;
        for axis in own.iter() {
            step /= axis.extent;
            put.push(Axis { destination: step, ..*axis });
        }
        // SAFETY: the piece is part of the job, and the buffer has room for it.
        unsafe {
            let source = kernel.sides.source.offset(from as isize);
            let (moved, size) = larger_elements(&put, from_size as u64);
            let mover = Move::new(Sides { source, destination: buffer }, size as usize, 0);
            match &kept {
                Some(call) if is_whole => call.run(&mover, &room),
                _ if is_whole => kept = Some(room.walk(moved, (0, 0), &mover)),
                _ => _ = walk(moved, (0, 0), &mover),
            }
        }
        // Rows of the destination, as far as they go on.
        let one = Axis { extent: 1, source: 0, destination: to_size };
        let (mut row, mut around) =
            own.split_last().map_or((one, &own[..]), |(inner, around)| (*inner, around));
        while let Some((next, others)) = around.split_last()
            && next.destination == row.destination * row.extent
        {
            row.extent *= next.extent;
            around = others;
        }
        let count_of = |around: &[Axis]| around.iter().map(|axis| axis.extent).product::<i64>();
        let (along, around) = around.split_last().unwrap_or((&one, &[]));
        let (n, count, next) = (row.extent as usize, along.extent as usize, row.extent * from_size);
        let mut done = 0;
        debug_assert_eq!(count_of(around) * along.extent * row.extent, elements);
        each(around, (0, to), &mut |_, to| {
            let from = done * next;
            done += along.extent;
            // SAFETY: as above; the buffer has them in order.
            unsafe {
                cast.rows((from, from_size), (to, row.destination), n, count, (next, along.destination))
            }
        })
    })
}
