//! Walks the axes of a job, in the order that the caches like, and hands rows and matrices to a kernel.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use super::fuse::{self, Reach, Rows};
use crate::layout::{Axis, MAX_NDIM};

/// Does the elements of a job. Offsets and steps count what the job does: bytes or bits.
pub trait Kernel: Sync {
    /// The steps of elements that follow each other, in the source and in the destination.
    fn steps(&self) -> (i64, i64);

    /// Whether it has [`Kernel::matrix`].
    fn transposes(&self) -> bool;

    /// Does `n` elements. False: stop, a value was lost.
    ///
    /// # Safety
    /// They are part of the job.
    unsafe fn row(&self, from: (i64, i64), to: (i64, i64), n: usize) -> bool;

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

    /// What matrices [`Kernel::scattered`] wants of a job of so many axes; None: none.
    fn scatters(&self, _axes: usize) -> Option<Reach> {
        None
    }

    /// Transposes: column c starts at `from + c * steps().0` in the source, and goes to
    /// `to + columns[c]`.
    ///
    /// # Safety
    /// They are part of the job.
    unsafe fn scattered(&self, _from: i64, _to: i64, _rows: &Rows, _columns: &[isize]) -> bool {
        unreachable!("scatters() says no")
    }
}

/// Visits every element of the axes once. False: the kernel stopped.
///
/// # Safety
/// Every element is there on both sides, and no two of the destination overlap.
pub unsafe fn walk(axes: &[Axis], start: (i64, i64), kernel: &impl Kernel) -> bool {
    let (from_step, to_step) = kernel.steps();
    let Some((inner, rest)) = axes.split_last() else {
        // SAFETY: the one element.
        return unsafe { kernel.row((start.0, from_step), (start.1, to_step), 1) };
    };
    if rest.is_empty() {
        let (from, to) = ((start.0, inner.source), (start.1, inner.destination));
        // SAFETY: the whole job.
        return unsafe { kernel.row(from, to, inner.extent as usize) };
    }
    let nearest = (0..rest.len()).rev().min_by_key(|index| rest[*index].source.unsigned_abs());
    let near = nearest.filter(|index| rest[*index].source.unsigned_abs() < inner.source.unsigned_abs());
    match near {
        Some(near)
            if kernel.transposes()
                && inner.destination == to_step
                && rest[near].source.abs() == from_step =>
        {
            let mut columns = rest[near];
            let mut start = start;
            if columns.source < 0 {
                start.0 += (columns.extent - 1) * columns.source;
                start.1 += (columns.extent - 1) * columns.destination;
                columns =
                    Axis { extent: columns.extent, source: from_step, destination: -columns.destination };
            }
            let (height, width) = (inner.extent as usize, columns.extent as usize);
            if let Some(reach) = kernel.scatters(axes.len()) {
                let mut all = Axes::new();
                axes.iter().for_each(|axis| all.push(*axis));
                all[near] = columns;
                let places = (rest.len(), near);
                let done = fuse::each_matrix(&all, places, &reach, start, &mut |from, to, rows, columns| {
                    // SAFETY: part of the job.
                    unsafe { kernel.scattered(from, to, rows, columns) }
                });
                if let Some(kept) = done {
                    return kept;
                }
            }
            if rest.len() == 1 {
                let (from, to) = ((start.0, inner.source), (start.1, columns.destination));
                // SAFETY: the whole job.
                return unsafe { kernel.matrix(from, to, height, width, 0) };
            }
            let outer = Outer::new(rest, &[near], axes, kernel.steps());
            let ahead = outer.next_source_step();
            outer.each(start, &mut |from, to| {
                // SAFETY: part of the job.
                unsafe {
                    kernel.matrix((from, inner.source), (to, columns.destination), height, width, ahead)
                }
            })
        }
        // SAFETY: as the caller says.
        _ => unsafe { in_rows(axes, near, start, kernel) },
    }
}

/// Elements of a block along the axis that rows run along.
const ROW_BLOCK: i64 = 64;
/// What a block takes of each line across its rows, in bytes.
const LINE_BLOCK: i64 = 128;
/// Rows shorter than this are walked along another axis where that is longer.
const SHORT_ROW: i64 = 8;
/// Elements of a block of such rows.
const LONG_BLOCK: i64 = 1024;

/// Rows run along the axis that is innermost in the destination. Where another axis, `near`, is
/// innermost in the source, the two are cut into blocks whose lines on both sides stay in the first
/// cache.
///
/// # Safety
/// As [`walk`].
unsafe fn in_rows(axes: &[Axis], near: Option<usize>, start: (i64, i64), kernel: &impl Kernel) -> bool {
    let (inner, rest) = axes.split_last().expect("walk() has seen an axis");
    let mut along = *inner;
    let picked = near.or(rest.len().checked_sub(1));
    let mut across = picked.map_or(Axis { extent: 1, source: 0, destination: 0 }, |index| rest[index]);
    let (mut row_block, mut across_block) = match near {
        Some(_) => (ROW_BLOCK, (LINE_BLOCK / kernel.steps().0).max(4)),
        // Rows that stand next to each other in the destination.
        None => (i64::MAX, 1),
    };
    if along.extent < SHORT_ROW && along.extent < across.extent {
        std::mem::swap(&mut along, &mut across);
        (row_block, across_block) = (LONG_BLOCK, across.extent);
    }
    let outer = Outer::new(rest, picked.as_slice(), axes, kernel.steps());
    outer.each(start, &mut |from, to| {
        let mut across_at = 0;
        while across_at < across.extent {
            let across_end = across.extent.min(across_at + across_block);
            let mut along_at = 0;
            while along_at < along.extent {
                let extent = row_block.min(along.extent - along_at);
                for line in across_at..across_end {
                    let from = from + line * across.source + along_at * along.source;
                    let to = to + line * across.destination + along_at * along.destination;
                    // SAFETY: part of the job.
                    let kept =
                        unsafe { kernel.row((from, along.source), (to, along.destination), extent as usize) };
                    if !kept {
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

/// A list of axes.
pub struct Axes {
    axes: [MaybeUninit<Axis>; MAX_NDIM + 2],
    len: usize,
}

impl Axes {
    pub fn new() -> Axes {
        Axes { axes: [MaybeUninit::uninit(); MAX_NDIM + 2], len: 0 }
    }

    pub fn push(&mut self, axis: Axis) {
        self.axes[self.len].write(axis);
        self.len += 1;
    }
}

impl Deref for Axes {
    type Target = [Axis];

    fn deref(&self) -> &[Axis] {
        // SAFETY: the first `len` are written.
        unsafe { std::slice::from_raw_parts(self.axes.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Axes {
    fn deref_mut(&mut self) -> &mut [Axis] {
        // SAFETY: the first `len` are written.
        unsafe { std::slice::from_raw_parts_mut(self.axes.as_mut_ptr().cast(), self.len) }
    }
}

/// The axes around a row or a matrix. Where those take only part of a line of either side, the axes that
/// have the rest of the line are cut into blocks, which are visited whole before the next.
struct Outer {
    axes: [Axis; MAX_NDIM + 1],
    /// Elements of a block along each axis.
    blocks: [i64; MAX_NDIM + 1],
    len: usize,
}

/// What a block should take of each line, in the job's unit.
const LINE: i64 = 256;

impl Outer {
    /// All of `rest` but the `taken`, which are of `axes`, as is the innermost one.
    fn new(rest: &[Axis], taken: &[usize], axes: &[Axis], steps: (i64, i64)) -> Outer {
        let mut outer = Outer { axes: [Axis::default(); MAX_NDIM + 1], blocks: [1; MAX_NDIM + 1], len: 0 };
        for (index, axis) in rest.iter().enumerate() {
            if !taken.contains(&index) {
                outer.axes[outer.len] = *axis;
                outer.len += 1;
            }
        }
        if outer.len > 1 {
            outer.fill_lines(axes, steps.0, |axis| axis.source.abs());
            outer.fill_lines(axes, steps.1, |axis| axis.destination.abs());
        }
        outer
    }

    /// Makes blocks along the axes that continue a line of one side, nearest first.
    fn fill_lines(&mut self, axes: &[Axis], step: i64, stride: impl Fn(&Axis) -> i64) {
        let mut reach = step;
        loop {
            // The longest axis that goes on where what is reached ends, or near it.
            let goes_on = |axis: &&Axis| axis.extent > 1 && (reach..2 * reach).contains(&stride(axis));
            let next = axes.iter().filter(goes_on);
            let Some(next) = next.max_by_key(|axis| axis.extent) else { return };
            if let Some(index) = self.axes[..self.len].iter().position(|axis| axis == next) {
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
        let in_blocks = (0..self.len).rev().find(|index| self.blocks[*index] > 1);
        let fastest = in_blocks.or(self.len.checked_sub(1));
        fastest.map_or(0, |index| self.axes[index].source)
    }

    /// Visits every combination, block by block, until it says false.
    fn each(&self, start: (i64, i64), visit: &mut impl FnMut(i64, i64) -> bool) -> bool {
        let axes = &self.axes[..self.len];
        let blocks = &self.blocks[..self.len];
        if blocks.iter().all(|block| *block == 1) {
            return each(axes, start, visit);
        }
        let mut coarse = [Axis::default(); MAX_NDIM + 1];
        for (coarse, (axis, block)) in coarse.iter_mut().zip(axes.iter().zip(blocks)) {
            *coarse = Axis {
                extent: (axis.extent + block - 1) / block,
                source: axis.source * block,
                destination: axis.destination * block,
            };
        }
        each_at(&coarse[..self.len], start, &mut |from, to, at| {
            let mut fine = [Axis::default(); MAX_NDIM + 1];
            let mut len = 0;
            for (index, axis) in axes.iter().enumerate() {
                let extent = blocks[index].min(axis.extent - at[index] * blocks[index]);
                if extent > 1 {
                    fine[len] = Axis { extent, ..*axis };
                    len += 1;
                }
            }
            each(&fine[..len], (from, to), visit)
        })
    }
}

/// Visits every combination of the axes, the last one fastest, until it says false.
fn each(axes: &[Axis], start: (i64, i64), visit: &mut impl FnMut(i64, i64) -> bool) -> bool {
    each_at(axes, start, &mut |from, to, _| visit(from, to))
}

/// The same, showing the indices.
pub fn each_at(axes: &[Axis], start: (i64, i64), visit: &mut impl FnMut(i64, i64, &[i64]) -> bool) -> bool {
    let (mut from, mut to) = start;
    let mut at = [0i64; MAX_NDIM + 2];
    loop {
        if !visit(from, to, &at[..axes.len()]) {
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
