//! Jobs in pieces that are put together in a buffer first, which the first cache holds: what has short rows on both sides, as
//! tensors with many short axes have, and what is neither read nor written in order.

use std::cmp::Reverse;

use super::cuts::up;
use super::isa::Isa;
use super::kernel::{Move, Sides};
use super::prepared::{Kept, MOST_AXES, Room};
use super::stream::{Buffer, LINE, prefetch_bytes};
use super::transpose::CLASHING;
use super::walk::{Kernel, PerAxis, each, each_at, walk};
use super::{elements, larger_elements};
use crate::layout::Axis;

/// How pieces lie in the buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As in the destination, so that the rest is long rows.
    Destination,
    /// As in the source, so that the rest may be transposed.
    Source,
    /// As in the destination but for the innermost axes, those from that one on, which lie as in the source: the rest are
    /// elements that change places within groups.
    Groups(usize),
}

/// Bytes of a piece, of the larger elements: the first cache holds it beside what is read and written.
const PIECE: usize = 16 << 10;
/// Elements of a job from which on it is worth being put together: of fewer that takes as long as it saves.
pub const MANY: usize = 2048;
/// The same where each of them would take long by itself.
const SOME: usize = 512;
/// Elements of a row that are worth a cast of their own.
const ROW: i64 = 128;
/// Bytes of a run of the source that are worth reading by themselves.
const RUN: i64 = 128;

/// Bytes from a run of the source to the next one beyond which they are not read in order.
const APART: i64 = 4 * LINE as i64;

/// Whether a source whose axis `near` is innermost there, and not in the destination, is better put together first: where
/// its elements are some apart, but still some to a line, those are picked by vectors, and then transposed. `far`: it may be in
/// no cache.
pub fn are_apart(axes: &[Axis], near: usize, size: i64, far: bool) -> bool {
    /// Bytes of a matrix that is not worth a call.
    const FEW: i64 = 320;
    let (inner, near) = (axes[axes.len() - 1], axes[near]);
    let apart = near.source.abs();
    // Every third one takes as long by vectors as by itself, and so do wide elements where vectors are short, and few of those
    // unless their lines would push each other out of the first cache.
    let are_few = inner.extent * near.extent * size <= FEW;
    let is_wide = || {
        let clash = near.destination % CLASHING as i64 == 0
            || inner.extent >= 8 && inner.source % CLASHING as i64 == 0;
        let pays = match size {
            4 => inner.extent >= 8 || clash || !far,
            8 => inner.extent >= 8 || clash,
            _ => clash,
        };
        // Rows that go on where it ends are read in order anyway, which is as good of wide elements, and of what is in no cache.
        let is_in_order = inner.source == near.source * near.extent && (size > 4 || far);
        let columns = if is_in_order { near.extent } else { in_a_row(axes, &near) };
        columns >= 2 * size && (size < 8 || Isa::get() == Isa::Avx512) && pays
    };
    let are_picked = || size == 1 || apart != 3 * size && (size < 4 || are_few || is_wide());
    apart > size
        && apart <= LINE as i64 / 2
        && are_picked()
        && elements(axes) >= if are_few { SOME } else { MANY }
}

/// How many elements of an axis that has a step, and of those that go on in the source where it ends, follow one another.
fn in_a_row(axes: &[Axis], near: &Axis) -> i64 {
    let mut count = near.extent;
    while let Some(next) = axes.iter().find(|axis| axis.source == near.source * count && axis.extent > 1) {
        count *= next.extent;
    }
    count
}

/// Whether that is so of a source whose innermost axis is that of the destination, too: of short rows whose elements are some
/// apart, and go on in the source elsewhere than in the destination.
pub fn are_rows_apart(axes: &[Axis], size: i64) -> bool {
    let [.., along, inner] = axes else { return false };
    let (apart, row) = (inner.source.abs(), inner.extent * size);
    let most = match size {
        _ if along.source % CLASHING as i64 == 0 => LINE as i64,
        1 => 64,
        2 => 32,
        4 => 16,
        _ => 0,
    };
    apart > size
        && apart <= LINE as i64 / 2
        && row <= most
        && along.source.abs() > apart * inner.extent
        && in_a_row(axes, inner) > inner.extent
        && elements(axes) >= MANY
}

/// Whether that is so where its elements are not apart, but short runs of them are.
pub fn are_short_apart(axes: &[Axis], near: usize, size: i64) -> bool {
    let run = axes[near].extent * size;
    let others = axes.iter().enumerate().filter(|(index, _)| *index != near);
    let next = others.map(|(_, axis)| axis.source.abs()).min();
    axes[near].source.abs() == size
        && run < LINE as i64 / 2
        && next.is_some_and(|next| next > run && next <= LINE as i64)
        && elements(axes) >= SOME
}

/// Whether rows that are next to each other in the destination are so in the source.
pub fn are_in_order(axes: &[Axis]) -> bool {
    let step = |axis: &Axis| axis.source.unsigned_abs();
    let Some((along, outer)) = axes.split_last().and_then(|(_, rest)| rest.split_last()) else { return true };
    outer.iter().all(|axis| step(axis) >= step(along))
}

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

/// A piece of a job.
struct Piece {
    /// Where it begins.
    from: i64,
    to: i64,
    axes: PerAxis<Axis>,
    elements: i64,
    /// Whether it has as many steps of each axis as most have.
    is_whole: bool,
}

impl Piece {
    fn new() -> Piece {
        Piece { from: 0, to: 0, axes: PerAxis::new(), elements: 0, is_whole: false }
    }

    fn set(&mut self, (from, to): (i64, i64), axes: &[Axis], blocks: &Blocks, at: &[i64]) {
        (self.from, self.to, self.elements, self.is_whole) = (from, to, 1, true);
        self.axes.clear();
        for (index, axis) in axes.iter().enumerate() {
            let steps = blocks.steps[index];
            let extent = steps.min(axis.extent - at[index] * steps);
            self.is_whole &= extent == steps;
            self.elements *= extent;
            if extent > 1 {
                self.axes.push(Axis { extent, ..*axis });
            }
        }
    }
}

/// What a piece reads, run by run.
struct Runs {
    /// Where the first one starts, from where the piece does, and how many bytes each has.
    start: i64,
    bytes: i64,
    axes: PerAxis<Axis>,
}

impl Runs {
    /// Of a whole piece of elements of `size` bytes.
    fn of(axes: &[Axis], blocks: &Blocks, size: i64) -> Runs {
        let mut piece = PerAxis::new();
        axes.iter().zip(blocks.steps.iter()).for_each(|(axis, extent)| {
            piece.push(Axis { extent: *extent, ..*axis });
        });
        piece.sort_unstable_by_key(|axis| axis.source.unsigned_abs());
        let mut runs = Runs { start: 0, bytes: size, axes: PerAxis::new() };
        for axis in piece.iter().filter(|axis| axis.extent > 1) {
            if axis.source.abs() > runs.bytes.max(APART) {
                runs.axes.push(*axis);
            } else {
                let reach = (axis.extent - 1) * axis.source;
                runs.start += reach.min(0);
                runs.bytes += reach.abs();
            }
        }
        runs
    }

    /// Whether prefetchers make nothing of them.
    fn are_apart(&self) -> bool {
        !self.axes.is_empty()
    }

    /// Asks for those of the piece that starts there.
    fn ask(&self, piece: *const u8) {
        each(&self.axes, (self.start, 0), &mut |at, _| {
            prefetch_bytes(piece.wrapping_offset(at as isize), self.bytes as isize);
            true
        });
    }
}

/// Makes one axis of those that go on where the next one ends, on both sides.
fn fold(axes: &mut PerAxis<Axis>) {
    let mut last = 0;
    for index in 1..axes.len() {
        let (outer, inner) = (axes[last], axes[index]);
        let goes_on = outer.source == inner.source * inner.extent
            && outer.destination == inner.destination * inner.extent;
        last += usize::from(!goes_on);
        axes[last] = inner;
        if goes_on {
            axes[last].extent *= outer.extent;
        }
    }
    axes.truncate(last + 1);
}

/// Does a job of [`MOST_AXES`] at most, in bytes. False: the kernel stopped.
///
/// # Safety
/// As [`walk`].
// By itself, for most jobs need none of its room.
#[inline(never)]
pub unsafe fn run(order: Order, axes: &[Axis], start: (i64, i64), kernel: &impl Kernel) -> bool {
    debug_assert!(axes.len() <= MOST_AXES);
    let (size, to_size) = kernel.steps();
    let blocks = Blocks::of(axes, (size, to_size));
    let mut coarse = PerAxis::new();
    for (axis, steps) in axes.iter().zip(blocks.steps.iter()) {
        let extent = up(axis.extent, *steps);
        coarse.push(Axis { extent, source: axis.source * steps, destination: axis.destination * steps });
    }
    let mut buffer = Buffer::<PIECE>::new();
    let buffer = buffer.start();
    let rest = kernel.reading(buffer);
    let source = kernel.sides().source;
    let (mut room, mut kept) = (Room::new(), None::<Kept>);
    let mut run = |piece: &mut Piece| {
        // What is put together, by falling step in the buffer.
        let (mut order_there, mut put) = (PerAxis::new(), PerAxis::new());
        (0..piece.axes.len()).for_each(|index| order_there.push(index));
        // Of those that are left out, as they have one step, none is within a group.
        let as_there = match order {
            Order::Destination => piece.axes.len(),
            Order::Source => 0,
            Order::Groups(around) => around + piece.axes.len() - axes.len(),
        };
        order_there[as_there..]
            .sort_unstable_by_key(|index| Reverse(piece.axes[*index].source.unsigned_abs()));
        let mut step = piece.elements * size;
        for index in order_there.iter() {
            let axis = &mut piece.axes[*index];
            step /= axis.extent;
            put.push(Axis { destination: step, ..*axis });
            axis.source = step;
        }
        // SAFETY: the piece is part of the job, and the buffer has room for it.
        unsafe {
            let source = source.offset(piece.from as isize);
            fold(&mut put);
            let (put, size) = larger_elements(&put, size as u64);
            let mover = Move::new(Sides { source, destination: buffer }, size as usize, 0, 1);
            match &kept {
                Some(call) if piece.is_whole => call.run(&mover, &room),
                _ if piece.is_whole => kept = Some(room.walk(put, (0, 0), &mover)),
                _ => _ = walk(put, (0, 0), &mover),
            }
            match order {
                Order::Destination => rows(&piece.axes, piece.to, &rest),
                Order::Source => walk(&piece.axes, (0, piece.to), &rest),
                Order::Groups(_) => {
                    fold(&mut piece.axes);
                    walk(&piece.axes, (0, piece.to), &rest)
                }
            }
        }
    };
    // Asked for as the piece before is done.
    let runs = kernel.goes_around().then(|| Runs::of(axes, &blocks, size)).filter(Runs::are_apart);
    let mut piece = Piece::new();
    let kept = each_at(&coarse, start, &mut |from, to, at| {
        let Some(runs) = &runs else {
            piece.set((from, to), axes, &blocks, at);
            return run(&mut piece);
        };
        runs.ask(source.wrapping_offset(from as isize));
        let kept = piece.elements == 0 || run(&mut piece);
        piece.set((from, to), axes, &blocks, at);
        kept
    });
    kept && (runs.is_none() || run(&mut piece))
}

/// Does what lies in order at the source of a kernel, in rows of the destination that are as long as they go on.
///
/// # Safety
/// As [`walk`].
unsafe fn rows(axes: &[Axis], to: i64, kernel: &impl Kernel) -> bool {
    let (from_step, to_step) = kernel.steps();
    let one = Axis { extent: 1, source: from_step, destination: to_step };
    let (mut row, mut around) = axes.split_last().map_or((one, axes), |(inner, around)| (*inner, around));
    while let Some((next, others)) = around.split_last()
        && next.destination == row.destination * row.extent
    {
        row.extent *= next.extent;
        around = others;
    }
    let (along, around) = around.split_last().unwrap_or((&one, &[]));
    let (n, count, next) = (row.extent as usize, along.extent as usize, row.extent * from_step);
    let mut done = 0;
    each(around, (0, to), &mut |_, to| {
        let from = done * next;
        done += along.extent;
        // SAFETY: the caller's.
        unsafe { kernel.rows((from, from_step), (to, row.destination), n, count, (next, along.destination)) }
    })
}
