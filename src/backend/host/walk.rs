//! Walks the axes of a job, in the order that the caches like, and hands rows and matrices to a kernel.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use super::fuse::{self, Matrices, NO_REACH, Reaches};
use super::isa::Isa;
use super::kernel::Sides;
use super::pieces;
use super::prepared::MOST_AXES;
use super::shuffle::{Group, Shuffle};
use super::{elements, stream};
use crate::layout::{Axis, MAX_NDIM};

/// Does the elements of a job. Offsets and steps count what the job does: bytes or bits.
pub trait Kernel: Clone + Sync {
    /// The steps of elements that follow each other, in the source and in the destination.
    fn steps(&self) -> (i64, i64);

    /// Whether it has [`Kernel::matrix`].
    fn transposes(&self) -> bool;

    /// Parts for each thread of jobs other than plain copies: what reads across lines wants large blocks.
    fn parts(&self) -> i64 {
        8
    }

    /// How many elements of the axis that is innermost in the source, and of the one that is innermost in the destination,
    /// a part should have: matrices with fewer are read or written in short pieces.
    fn least(&self) -> (i64, i64) {
        (1, 1)
    }

    /// Whether some of what it does is written around the caches, for which there is a fence at the end of a walk.
    fn goes_around(&self) -> bool {
        false
    }

    /// The same kernel for results of a few kilobytes that go elsewhere.
    fn elsewhere(&self, destination: *mut u8) -> Self;

    /// The same kernel through the caches, if that is better of what they hold of such a job, though all of it is too
    /// large for them.
    fn through(&self, _axes: &[Axis]) -> Option<Self> {
        None
    }

    /// Does `n` elements. False: stop, a value was lost.
    ///
    /// # Safety
    /// They are part of the job.
    unsafe fn row(&self, from: (i64, i64), to: (i64, i64), n: usize) -> bool;

    /// Does `count` rows of `n` elements, which start `next` from each other.
    ///
    /// # Safety
    /// As [`Kernel::row`].
    unsafe fn rows(
        &self,
        from: (i64, i64),
        to: (i64, i64),
        n: usize,
        count: usize,
        next: (i64, i64),
    ) -> bool {
        (0..count as i64).all(|row| {
            let (from, to) = ((from.0 + row * next.0, from.1), (to.0 + row * next.1, to.1));
            // SAFETY: as the caller says.
            unsafe { self.row(from, to, n) }
        })
    }

    /// Transposes: element (r, c) is at `from.0 + r * from.1 + c * steps().0` and goes to
    /// `to.0 + c * to.1 + r * steps().1`. The next matrix is likely `ahead` from there in the source.
    ///
    /// # Safety
    /// They are part of the job.
    unsafe fn matrix(
        &self,
        from: (i64, i64),
        to: (i64, i64),
        rows: usize,
        columns: usize,
        ahead: i64,
    ) -> bool;

    /// Whether to transpose with [`Kernel::batch`] so many matrices, which follow each other in the destination from
    /// there on.
    fn batches(&self, _to: i64, _rows: usize, _columns: usize, _count: usize) -> bool {
        false
    }

    /// Transposes `count` matrices as [`Kernel::matrix`], which start `next` from each other in the source and follow
    /// each other in the destination.
    ///
    /// # Safety
    /// They are part of the job.
    unsafe fn batch(
        &self,
        _from: (i64, i64),
        _to: i64,
        (_rows, _columns): (usize, usize),
        _count: usize,
        _next: i64,
    ) -> bool {
        unreachable!("batches() says no")
    }

    /// Bytes of the runs that [`Kernel::runs`] copies, of which each has `n` elements that follow one another on both
    /// sides, and which are next to each other along that axis; None: these go by [`Kernel::rows`].
    fn in_runs(&self, _n: i64, _along: Option<&Axis>) -> Option<usize> {
        None
    }

    /// Copies runs of some bytes, one for each combination of the axes.
    ///
    /// # Safety
    /// They are part of the job.
    unsafe fn runs(&self, _from: i64, _to: i64, _bytes: usize, _axes: &[Axis]) -> bool {
        unreachable!("in_runs() says no")
    }

    /// Whether to do with [`Kernel::crossed`] rows of `n` elements that follow one another on both sides: `along` is the
    /// axis on which rows are next to each other in the destination, and `across` that of the source.
    fn crosses(&self, _n: i64, _along: &Axis, _across: &Axis) -> bool {
        false
    }

    /// Does rows of `n` elements, one for each combination of the two axes.
    ///
    /// # Safety
    /// They are part of the job.
    unsafe fn crossed(&self, _from: i64, _to: i64, _n: usize, _along: &Axis, _across: &Axis) -> bool {
        unreachable!("crosses() says no")
    }

    /// Does `count` rows as [`Kernel::rows`], which follow each other in the destination, as one that is asked for: rows of
    /// [`Kernel::crossed`] with nothing across.
    ///
    /// # Safety
    /// As [`Kernel::rows`].
    unsafe fn as_one(&self, from: i64, to: i64, n: usize, count: usize, next: (i64, i64)) -> bool {
        let along = Axis { extent: count as i64, source: next.0, destination: next.1 };
        let across = Axis { extent: 1, source: n as i64 * self.steps().0, destination: 0 };
        // SAFETY: as the caller says.
        unsafe { self.crossed(from, to, n, &along, &across) }
    }

    /// Whether it has [`Kernel::shuffled`].
    fn shuffles(&self) -> bool {
        false
    }

    /// Does `count` groups, which follow one another from there on on both sides.
    ///
    /// # Safety
    /// They are part of the job.
    unsafe fn shuffled(&self, _from: i64, _to: i64, _count: usize, _shuffle: &Shuffle) -> bool {
        unreachable!("shuffles() says no")
    }

    /// How to do a job in pieces, if that is better than by rows and matrices: where those are short. `near` is the axis
    /// that is innermost in the source, if it is not the last one.
    fn in_pieces(&self, _axes: &[Axis], _near: Option<usize>) -> Option<pieces::Order> {
        None
    }

    /// Where it reads and writes.
    fn sides(&self) -> Sides;

    /// The same kernel of what lies elsewhere.
    fn reading(&self, source: *const u8) -> Self;

    /// What matrices [`Kernel::scattered`] wants of a job of so many axes, of which those are innermost in the destination and
    /// in the source; the first of them that it has.
    fn scatters(&self, _axes: usize, _inner: &Axis, _near: &Axis) -> Reaches {
        NO_REACH
    }

    /// Transposes each of some matrices: column c starts at `from + c * steps().0` in the source, and goes to
    /// `to + columns[c]`.
    ///
    /// # Safety
    /// They are part of the job.
    unsafe fn scattered(&self, _from: i64, _to: i64, _matrices: &Matrices) -> bool {
        unreachable!("scatters() says no")
    }
}

/// One call of a kernel, which may be all that a job comes to.
#[derive(Clone, Copy)]
pub enum Call<'a> {
    /// [`Kernel::row`].
    Row { from: (i64, i64), to: (i64, i64), n: usize },
    /// [`Kernel::rows`].
    Rows { from: (i64, i64), to: (i64, i64), n: usize, count: usize, next: (i64, i64) },
    /// [`Kernel::matrix`] that nothing follows.
    Matrix { from: (i64, i64), to: (i64, i64), rows: usize, columns: usize },
    /// [`Kernel::runs`].
    Runs { from: i64, to: i64, bytes: usize, axes: &'a [Axis] },
    /// [`Kernel::shuffled`].
    Shuffled { from: i64, to: i64, count: usize, shuffle: &'a Shuffle },
    /// [`Kernel::scattered`].
    Scattered { from: i64, to: i64, matrices: &'a Matrices<'a> },
}

impl Call<'_> {
    /// # Safety
    /// As that of the kernel.
    #[inline(always)]
    pub unsafe fn run(&self, kernel: &impl Kernel) -> bool {
        // SAFETY: as the caller says.
        unsafe {
            match *self {
                Call::Row { from, to, n } => kernel.row(from, to, n),
                Call::Rows { from, to, n, count, next } => kernel.rows(from, to, n, count, next),
                Call::Matrix { from, to, rows, columns } => kernel.matrix(from, to, rows, columns, 0),
                Call::Runs { from, to, bytes, axes } => kernel.runs(from, to, bytes, axes),
                Call::Shuffled { from, to, count, shuffle } => kernel.shuffled(from, to, count, shuffle),
                Call::Scattered { from, to, matrices } => kernel.scattered(from, to, matrices),
            }
        }
    }
}

/// Visits every element of the axes once. False: the kernel stopped.
///
/// # Safety
/// Every element is there on both sides, and no two of the destination overlap.
pub unsafe fn walk(axes: &[Axis], start: (i64, i64), kernel: &impl Kernel) -> bool {
    // SAFETY: as the caller says.
    unsafe { walk_showing(axes, start, kernel, &mut |_| ()) }
}

/// The same; shows the call that all of it comes to, if it is one.
///
/// # Safety
/// As [`walk`].
pub unsafe fn walk_showing(
    axes: &[Axis],
    start: (i64, i64),
    kernel: &impl Kernel,
    show: &mut impl FnMut(&Call<'_>),
) -> bool {
    // SAFETY: as the caller says.
    let kept = unsafe { visit_all(axes, start, kernel, show) };
    if kernel.goes_around() {
        stream::fence();
    }
    kept
}

/// # Safety
/// As [`walk`].
#[inline(always)]
unsafe fn visit_all(
    axes: &[Axis],
    start: (i64, i64),
    kernel: &impl Kernel,
    show: &mut impl FnMut(&Call<'_>),
) -> bool {
    let (from_step, to_step) = kernel.steps();
    let mut only = |call: Call<'_>| {
        show(&call);
        // SAFETY: the whole job.
        unsafe { call.run(kernel) }
    };
    let Some((inner, rest)) = axes.split_last() else {
        return only(Call::Row { from: (start.0, from_step), to: (start.1, to_step), n: 1 });
    };
    let row = || {
        let (from, to) = ((start.0, inner.source), (start.1, inner.destination));
        Call::Row { from, to, n: inner.extent as usize }
    };
    // Elements of other sizes are groups, unless they follow each other.
    let follow = (inner.source, inner.destination) == (from_step, to_step);
    if rest.is_empty() && (follow || from_step.unsigned_abs().is_power_of_two()) {
        return only(row());
    }
    if kernel.shuffles()
        && let isa = Isa::get()
        && let Some(group) = Group::of(isa, axes, kernel.steps())
        && let Some((along, outer)) = axes[..group.around].split_last()
    {
        let shuffle = Shuffle::new(isa, axes, &group, from_step as usize);
        if outer.is_empty() {
            let (from, count) = (start.0 + group.lowest, along.extent as usize);
            return only(Call::Shuffled { from, to: start.1, count, shuffle: &shuffle });
        }
        return each(outer, start, &mut |from, to| {
            // SAFETY: part of the job.
            unsafe { kernel.shuffled(from + group.lowest, to, along.extent as usize, &shuffle) }
        });
    }
    if rest.is_empty() {
        return only(row());
    }
    if kernel.shuffles()
        && axes.len() <= MOST_AXES
        && let Some(around) = Group::apart(Isa::get(), axes, kernel.steps())
        && elements(axes) >= pieces::MANY
    {
        // SAFETY: as the caller says.
        return unsafe { pieces::run(pieces::Order::Groups(around), axes, start, kernel) };
    }
    // The axis that is innermost in the source, if it is another one.
    let (mut near, mut least) = (None, inner.source.unsigned_abs());
    for (index, axis) in rest.iter().enumerate().rev() {
        if axis.source.unsigned_abs() < least {
            (near, least) = (Some(index), axis.source.unsigned_abs());
        }
    }
    match near {
        Some(near)
            if kernel.transposes()
                && inner.destination == to_step
                && rest[near].source.abs() == from_step =>
        {
            let mut columns = rest[near];
            let (original, mut start) = (start, start);
            if columns.source < 0 {
                start.0 += (columns.extent - 1) * columns.source;
                start.1 += (columns.extent - 1) * columns.destination;
                columns =
                    Axis { extent: columns.extent, source: from_step, destination: -columns.destination };
            }
            let (height, width) = (inner.extent as usize, columns.extent as usize);
            let matrix = columns.extent * inner.extent * to_step;
            if columns.destination == inner.extent * to_step
                && let Some(batch) = rest.iter().find(|axis| axis.destination == matrix)
                && kernel.batches(start.1, height, width, batch.extent as usize)
            {
                let mut outer = Outer::new();
                outer.fill(rest, Some(near), axes, kernel.steps());
                if outer.drop_last(batch) {
                    return outer.each(start, &mut |from, to| {
                        let (sides, count) = ((height, width), batch.extent as usize);
                        // SAFETY: part of the job.
                        unsafe { kernel.batch((from, inner.source), to, sides, count, batch.source) }
                    });
                }
            }
            // A few long rows whose columns follow each other make whole lines by themselves.
            let follow = columns.destination == inner.extent * to_step;
            let long = if inner.extent <= 2 && columns.extent >= 16 { LONG_FLAT / 4 } else { LONG_FLAT };
            let is_flat = follow && inner.extent <= FLAT && columns.extent * from_step >= long;
            let reaches = if is_flat { NO_REACH } else { kernel.scatters(axes.len(), inner, &columns) };
            for reach in reaches.into_iter().flatten() {
                let mut flipped = PerAxis::new();
                let axes = if columns == rest[near] {
                    axes
                } else {
                    axes.iter().for_each(|axis| flipped.push(*axis));
                    flipped[near] = columns;
                    &flipped
                };
                let places = (rest.len(), near);
                let done =
                    fuse::each_matrix(axes, places, reach, start, &mut |from, to, matrices, is_all| {
                        let call = Call::Scattered { from, to, matrices };
                        if is_all {
                            return only(call);
                        }
                        // SAFETY: part of the job.
                        unsafe { call.run(kernel) }
                    });
                if let Some(kept) = done {
                    return kept;
                }
            }
            if let Some(order) = kernel.in_pieces(axes, Some(near)) {
                // SAFETY: as the caller says.
                return unsafe { pieces::run(order, axes, original, kernel) };
            }
            if rest.len() == 1 {
                let (from, to) = ((start.0, inner.source), (start.1, columns.destination));
                return only(Call::Matrix { from, to, rows: height, columns: width });
            }
            let mut outer = Outer::new();
            outer.fill(rest, Some(near), axes, kernel.steps());
            let ahead = outer.next_source_step();
            outer.each(start, &mut |from, to| {
                // SAFETY: part of the job.
                unsafe {
                    kernel.matrix((from, inner.source), (to, columns.destination), height, width, ahead)
                }
            })
        }
        // SAFETY: as the caller says.
        _ => unsafe {
            match kernel.in_pieces(axes, near) {
                Some(order) if crossing(axes, kernel).is_none() => pieces::run(order, axes, start, kernel),
                _ => in_rows(axes, near, start, kernel, show),
            }
        },
    }
}

/// The most rows of a matrix, and bytes of each, that is not put together with others.
const FLAT: i64 = 4;
const LONG_FLAT: i64 = 256;
/// Elements of a block along the axis that rows run along.
const ROW_BLOCK: i64 = 64;
/// What a block takes of each line across its rows, in bytes.
const LINE_BLOCK: i64 = 128;
/// Rows shorter than this are walked along another axis where that is longer.
const SHORT_ROW: i64 = 8;
/// Elements of a row of which a call takes some of the time, and the most rows of one that lie apart in the destination: what
/// is between them is written before the first cache has lost their lines.
const FEW_OF_ROW: i64 = 32;
const MOST_TOGETHER: i64 = 256;
/// Elements of a block of such rows.
const LONG_BLOCK: i64 = 1024;

/// The axes of [`Kernel::crossed`], if that is best.
fn crossing<'a>(axes: &'a [Axis], kernel: &impl Kernel) -> Option<(&'a Axis, &'a Axis)> {
    let (inner, rest) = axes.split_last().filter(|_| kernel.goes_around())?;
    let (along, others) = rest.split_last()?;
    let across = others.iter().min_by_key(|axis| axis.source.unsigned_abs())?;
    let is_run = (inner.source, inner.destination) == kernel.steps();
    (is_run && kernel.crosses(inner.extent, along, across)).then_some((along, across))
}

/// The axis along which rows are done together: the next one in the destination, or a longer one where that is short, for then
/// calls take as long as short rows.
fn across_of(inner: &Axis, rest: &[Axis]) -> Option<usize> {
    let last = rest.len().checked_sub(1)?;
    let is_longer = |index: &usize| (2 * rest[last].extent..=MOST_TOGETHER).contains(&rest[*index].extent);
    let longest = || (0..last).filter(is_longer).max_by_key(|index| rest[*index].extent);
    let are_short = inner.extent < FEW_OF_ROW && rest[last].extent < SHORT_ROW;
    (if are_short { longest() } else { None }).or(Some(last))
}

/// Rows run along the axis that is innermost in the destination. Where another axis, `near`, is
/// innermost in the source, the two are cut into blocks whose lines on both sides stay in the first
/// cache.
///
/// # Safety
/// As [`walk`].
unsafe fn in_rows(
    axes: &[Axis],
    near: Option<usize>,
    start: (i64, i64),
    kernel: &impl Kernel,
    show: &mut impl FnMut(&Call<'_>),
) -> bool {
    let (inner, rest) = axes.split_last().expect("walk() has seen an axis");
    let (from_step, to_step) = kernel.steps();
    let is_run = (inner.source, inner.destination) == (from_step, to_step);
    if let Some((along, across)) = crossing(axes, kernel) {
        let mut outer = PerAxis::new();
        rest.iter().filter(|axis| ![along, across].contains(axis)).for_each(|axis| outer.push(*axis));
        return each(&outer, start, &mut |from, to| {
            // SAFETY: part of the job.
            unsafe { kernel.crossed(from, to, inner.extent as usize, along, across) }
        });
    }
    if let Some(bytes) = kernel.in_runs(if is_run { inner.extent } else { 1 }, rest.last()) {
        let axes = if is_run { rest } else { axes };
        let call = Call::Runs { from: start.0, to: start.1, bytes, axes };
        show(&call);
        // SAFETY: the whole job.
        return unsafe { call.run(kernel) };
    }
    let mut along = *inner;
    let picked = near.or_else(|| across_of(inner, rest));
    let mut across = picked.map_or(Axis { extent: 1, source: 0, destination: 0 }, |index| rest[index]);
    let (mut row_block, mut across_block) = match near {
        Some(_) => (ROW_BLOCK, (LINE_BLOCK / kernel.steps().0).max(4)),
        None => (i64::MAX, across.extent),
    };
    if along.extent < SHORT_ROW && along.extent < across.extent {
        std::mem::swap(&mut along, &mut across);
        (row_block, across_block) = (LONG_BLOCK, across.extent);
    }
    let mut outer = Outer::new();
    outer.fill(rest, picked, axes, kernel.steps());
    let is_all = outer.axes.is_empty() && along.extent <= row_block && across.extent <= across_block;
    outer.each(start, &mut |from, to| {
        let mut across_at = 0;
        while across_at < across.extent {
            let across_end = across.extent.min(across_at + across_block);
            let mut along_at = 0;
            while along_at < along.extent {
                let extent = row_block.min(along.extent - along_at);
                let from = from + across_at * across.source + along_at * along.source;
                let to = to + across_at * across.destination + along_at * along.destination;
                let (from, to) = ((from, along.source), (to, along.destination));
                let (count, next) = (across_end - across_at, (across.source, across.destination));
                let call = Call::Rows { from, to, n: extent as usize, count: count as usize, next };
                if is_all {
                    show(&call);
                }
                // SAFETY: part of the job.
                if !unsafe { call.run(kernel) } {
                    return false;
                }
                along_at += extent;
            }
            across_at = across_end;
        }
        true
    })
}

/// A list with one for each axis, and one more at most. Nothing is cleared that is not used: that would
/// take longer than a small job.
pub struct PerAxis<T> {
    items: [MaybeUninit<T>; MAX_NDIM + 3],
    len: usize,
}

impl<T: Copy> PerAxis<T> {
    pub fn new() -> PerAxis<T> {
        PerAxis { items: [const { MaybeUninit::uninit() }; MAX_NDIM + 3], len: 0 }
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Keeps so many at most.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    pub fn push(&mut self, item: T) {
        self.items[self.len].write(item);
        self.len += 1;
    }
}

impl<T> Deref for PerAxis<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the first `len` are written.
        unsafe { std::slice::from_raw_parts(self.items.as_ptr().cast(), self.len) }
    }
}

impl<T> DerefMut for PerAxis<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the first `len` are written.
        unsafe { std::slice::from_raw_parts_mut(self.items.as_mut_ptr().cast(), self.len) }
    }
}

/// The axes around a row or a matrix. Where those take only part of a line of either side, the axes that
/// have the rest of the line are cut into blocks, which are visited whole before the next.
struct Outer {
    axes: PerAxis<Axis>,
    /// Elements of a block along each axis.
    blocks: PerAxis<i64>,
}

/// What a block should take of each line, in the job's unit.
const LINE: i64 = 256;

impl Outer {
    fn new() -> Outer {
        Outer { axes: PerAxis::new(), blocks: PerAxis::new() }
    }

    /// All of `rest` but what is `taken`; they are of `axes`, as is the innermost one.
    fn fill(&mut self, rest: &[Axis], taken: Option<usize>, axes: &[Axis], steps: (i64, i64)) {
        for (index, axis) in rest.iter().enumerate() {
            if Some(index) != taken {
                self.axes.push(*axis);
                self.blocks.push(1);
            }
        }
        if self.axes.len() > 1 {
            self.fill_lines(axes, steps.0, |axis| axis.source.abs());
            self.fill_lines(axes, steps.1, |axis| axis.destination.abs());
        }
    }

    /// Makes blocks along the axes that continue a line of one side, nearest first.
    fn fill_lines(&mut self, axes: &[Axis], step: i64, stride: impl Fn(&Axis) -> i64) {
        let mut reach = step;
        loop {
            // The longest axis that goes on where what is reached ends, or near it.
            let goes_on = |axis: &&Axis| axis.extent > 1 && (reach..2 * reach).contains(&stride(axis));
            let next = axes.iter().filter(goes_on);
            let Some(next) = next.max_by_key(|axis| axis.extent) else { return };
            if let Some(index) = self.axes.iter().position(|axis| axis == next) {
                let block = (LINE / stride(next)).clamp(1, next.extent);
                self.blocks[index] = self.blocks[index].max(block);
            }
            reach = stride(next) * next.extent;
            if reach >= LINE {
                return;
            }
        }
    }

    /// How far the source moves from one visit to the next, most of the time; 0: there is one visit.
    fn next_source_step(&self) -> i64 {
        let in_blocks = (0..self.axes.len()).rev().find(|index| self.blocks[*index] > 1);
        let fastest = in_blocks.or(self.axes.len().checked_sub(1));
        fastest.map_or(0, |index| self.axes[index].source)
    }

    /// Leaves out the axis that moves fastest. False: that is another one.
    fn drop_last(&mut self, axis: &Axis) -> bool {
        let is_last = self.axes.last() == Some(axis) && self.blocks.iter().all(|block| *block == 1);
        if is_last {
            self.axes.len -= 1;
            self.blocks.len -= 1;
        }
        is_last
    }

    /// Visits every combination, block by block, until it says false.
    fn each(&self, start: (i64, i64), visit: &mut impl FnMut(i64, i64) -> bool) -> bool {
        if self.blocks.iter().all(|block| *block == 1) {
            return each(&self.axes, start, visit);
        }
        let mut coarse = PerAxis::new();
        for (axis, block) in self.axes.iter().zip(self.blocks.iter()) {
            coarse.push(Axis {
                extent: (axis.extent + block - 1) / block,
                source: axis.source * block,
                destination: axis.destination * block,
            });
        }
        each_at(&coarse, start, &mut |from, to, at| {
            let mut fine = PerAxis::new();
            for (index, (axis, block)) in self.axes.iter().zip(self.blocks.iter()).enumerate() {
                let extent = *block.min(&(axis.extent - at[index] * block));
                if extent > 1 {
                    fine.push(Axis { extent, ..*axis });
                }
            }
            each(&fine, (from, to), visit)
        })
    }
}

/// Visits every combination of the axes, the last one fastest, until it says false.
pub fn each(axes: &[Axis], start: (i64, i64), visit: &mut impl FnMut(i64, i64) -> bool) -> bool {
    each_at(axes, start, &mut |from, to, _| visit(from, to))
}

/// The same, showing the indices.
pub fn each_at(axes: &[Axis], start: (i64, i64), visit: &mut impl FnMut(i64, i64, &[i64]) -> bool) -> bool {
    let (mut from, mut to) = start;
    let mut at = PerAxis::new();
    axes.iter().for_each(|_| at.push(0));
    loop {
        if !visit(from, to, &at) {
            return false;
        }
        let mut axis = axes.len();
        loop {
            if axis == 0 {
                return true;
            }
            axis -= 1;
            at[axis] += 1;
            from += axes[axis].source;
            to += axes[axis].destination;
            if at[axis] < axes[axis].extent {
                break;
            }
            from -= axes[axis].source * axes[axis].extent;
            to -= axes[axis].destination * axes[axis].extent;
            at[axis] = 0;
        }
    }
}

/// From a place along some axes to the next one in the source; None: it is the last.
pub fn step_to_next(axes: &[Axis], at: &[i64]) -> Option<i64> {
    let mut step = 0;
    for (axis, at) in axes.iter().zip(at).rev() {
        if at + 1 < axis.extent {
            return Some(step + axis.source);
        }
        step -= at * axis.source;
    }
    None
}

/// Where parts of a job are that are alike. No closure: one that is not inlined has the baseline's instructions.
pub struct Places<'a> {
    pub source: *const u8,
    pub destination: *mut u8,
    outer: &'a [Axis],
    /// Steps that are left of the innermost axis.
    left: i64,
    inner: Axis,
    /// Steps taken of the others. Elsewhere, for what is returned is copied.
    at: &'a mut PerAxis<i64>,
}

impl<'a> Places<'a> {
    #[inline(always)]
    pub fn new(
        outer: &'a [Axis],
        source: *const u8,
        destination: *mut u8,
        at: &'a mut PerAxis<i64>,
    ) -> Places<'a> {
        let none = &Axis { extent: 1, source: 0, destination: 0 };
        let (inner, outer) = outer.split_last().unwrap_or((none, &[]));
        at.clear();
        outer.iter().for_each(|_| at.push(0));
        Places { source, destination, outer, left: inner.extent, inner: *inner, at }
    }

    /// Goes to the next one. False: there is none.
    #[inline(always)]
    pub fn advance(&mut self) -> bool {
        self.source = self.source.wrapping_offset(self.inner.source as isize);
        self.destination = self.destination.wrapping_offset(self.inner.destination as isize);
        self.left -= 1;
        self.left > 0 || self.carry()
    }

    /// Where the next one starts in the source, if there is one.
    pub fn next_source(&self) -> Option<*const u8> {
        if self.left > 1 {
            return Some(self.source.wrapping_offset(self.inner.source as isize));
        }
        let first = self.source.wrapping_offset(((1 - self.inner.extent) * self.inner.source) as isize);
        Some(first.wrapping_offset(step_to_next(self.outer, self.at)? as isize))
    }

    #[inline(never)]
    fn carry(&mut self) -> bool {
        let mut over = self.inner;
        self.left = over.extent;
        for (axis, at) in self.outer.iter().zip(self.at.iter_mut()).rev() {
            let (from, to) = (over.source * over.extent, over.destination * over.extent);
            self.source = self.source.wrapping_offset((axis.source - from) as isize);
            self.destination = self.destination.wrapping_offset((axis.destination - to) as isize);
            *at += 1;
            if *at < axis.extent {
                return true;
            }
            (*at, over) = (0, *axis);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the next one starts is where going on leads.
    #[test]
    fn next_places() {
        let axis = |extent, source| Axis { extent, source, destination: 7 };
        for axes in [
            vec![],
            vec![axis(1, 5)],
            vec![axis(3, -40)],
            vec![axis(2, 3), axis(4, 100), axis(3, -8)],
            vec![axis(3, 960), axis(1, 17), axis(2, 61_440)],
        ] {
            let mut at = PerAxis::new();
            let base = std::ptr::without_provenance::<u8>(1 << 20);
            let mut places = Places::new(&axes, base, std::ptr::without_provenance_mut(1 << 20), &mut at);
            loop {
                let next = places.next_source();
                let goes_on = places.advance();
                assert_eq!(next, goes_on.then_some(places.source), "{axes:?}");
                if !goes_on {
                    break;
                }
            }
        }
    }
}
