//! A small job that was looked into once, to be done again between other addresses.

use super::cast::{CastKernel, Caster};
use super::fuse::{Matrices, Rows};
use super::kernel::{Move, Sides};
use super::shuffle::Shuffle;
use super::walk::{self, Call, Kernel};
use super::{copy_bytes, elements, larger_elements};
use crate::backend::job::{Transfer, Work};
use crate::layout::Axis;

/// The most axes of such a job.
const MOST_AXES: usize = 10;
/// The most rows and columns together of matrices whose places are kept: a few pages have no more.
const MOST_LINES: usize = 256;

/// All that a job needs but its addresses.
#[derive(Clone, Copy)]
pub struct Prepared {
    what: What,
    call: Kept,
    /// Those that the call has.
    axes: [Axis; MOST_AXES],
    /// Where its rows start, then where its columns do.
    lines: [isize; MOST_LINES],
}

/// What does it.
#[derive(Clone, Copy)]
enum What {
    /// So many bytes lie in one piece on both sides.
    Bytes(u64),
    Move(Move),
    Cast(CastKernel),
}

/// What a walk came to: a [`Call`] without what lies elsewhere, of which it has so many.
#[derive(Clone, Copy)]
enum Kept {
    /// More than one call.
    Walk {
        start: (i64, i64),
        axes: usize,
    },
    /// One that has nothing elsewhere.
    Whole(Call<'static>),
    Runs {
        from: i64,
        to: i64,
        bytes: usize,
        axes: usize,
    },
    Shuffled {
        from: i64,
        to: i64,
        count: usize,
        shuffle: Shuffle,
    },
    Scattered {
        from: i64,
        to: i64,
        matrices: Matrices<'static>,
        rows: usize,
        columns: usize,
        axes: usize,
    },
}

impl Prepared {
    /// One that copies bytes as they lie.
    pub fn bytes(bytes: u64) -> Prepared {
        let none = Kept::Walk { start: (0, 0), axes: 0 };
        Prepared {
            what: What::Bytes(bytes),
            call: none,
            axes: [Axis::default(); MOST_AXES],
            lines: [0; MOST_LINES],
        }
    }

    /// Does a job, of which one thread does all, and keeps how. None: that is not kept, and nothing was done.
    ///
    /// # Safety
    /// As [`super::run`]; it stops at no value.
    pub unsafe fn make(job: &Transfer<'_>, source: u64, destination: u64) -> Option<Prepared> {
        let sides = Sides::between(source, destination);
        let start = (job.folded.source_offset, job.folded.destination_offset);
        if job.folded.axes.len() > MOST_AXES {
            return None;
        }
        let mut made = Prepared::bytes(0);
        // SAFETY: the caller's.
        unsafe {
            match job.work {
                Work::Move { size } => {
                    let (axes, size) = larger_elements(job.folded.axes, size);
                    let bytes = elements(axes) * size as usize;
                    let kernel = Move::new(sides, size as usize, bytes);
                    made.walk(axes, start, &kernel);
                    made.what = What::Move(kernel);
                }
                Work::Cast(cast) if !cast.from_bits && !cast.to_bits && !cast.exact => {
                    let axes = job.folded.axes;
                    let kernel = CastKernel::new(sides, Caster::new(&cast), elements(axes), (None, None));
                    made.walk(axes, start, &kernel);
                    made.what = What::Cast(kernel);
                }
                _ => return None,
            }
        }
        Some(made)
    }

    /// Walks a job, and keeps what it comes to.
    ///
    /// # Safety
    /// As [`walk::walk`].
    unsafe fn walk(&mut self, axes: &[Axis], start: (i64, i64), kernel: &impl Kernel) {
        self.call = Kept::Walk { start, axes: axes.len() };
        self.axes[..axes.len()].copy_from_slice(axes);
        // SAFETY: the caller's.
        unsafe { walk::walk_showing(axes, start, kernel, &mut |call| self.keep(call)) };
    }

    /// Keeps a call, if there is room for it.
    fn keep(&mut self, call: &Call<'_>) {
        match *call {
            Call::Row { from, to, n } => self.call = Kept::Whole(Call::Row { from, to, n }),
            Call::Rows { from, to, n, count, next } => {
                self.call = Kept::Whole(Call::Rows { from, to, n, count, next });
            }
            Call::Matrix { from, to, rows, columns } => {
                self.call = Kept::Whole(Call::Matrix { from, to, rows, columns });
            }
            Call::Runs { from, to, bytes, axes } => {
                self.axes[..axes.len()].copy_from_slice(axes);
                self.call = Kept::Runs { from, to, bytes, axes: axes.len() };
            }
            Call::Shuffled { from, to, count, shuffle } => {
                self.call = Kept::Shuffled { from, to, count, shuffle: *shuffle };
            }
            Call::Scattered { from, to, matrices } => {
                let (rows, columns) = (matrices.rows.offsets, matrices.columns);
                let (all, outer) = (rows.len() + columns.len(), matrices.outer);
                if all > MOST_LINES || outer.len() > MOST_AXES {
                    return;
                }
                self.lines[..rows.len()].copy_from_slice(rows);
                self.lines[rows.len()..all].copy_from_slice(columns);
                self.axes[..outer.len()].copy_from_slice(outer);
                let (rows, columns, axes) = (rows.len(), columns.len(), outer.len());
                let of_rows = Rows { offsets: &[], ..matrices.rows };
                let matrices = Matrices { rows: of_rows, columns: &[], outer: &[], ..*matrices };
                self.call = Kept::Scattered { from, to, matrices, rows, columns, axes };
            }
        }
    }

    /// Does the same between two addresses.
    ///
    /// # Safety
    /// As [`super::run`] of the job that it was made for.
    #[inline(always)]
    pub unsafe fn run(&mut self, source: u64, destination: u64) {
        let sides = Sides::between(source, destination);
        // SAFETY: the caller's.
        unsafe {
            match &mut self.what {
                What::Bytes(bytes) => copy_bytes(source, destination, *bytes),
                What::Move(kernel) => {
                    kernel.sides = sides;
                    self.call.run(kernel, &self.axes, &self.lines);
                }
                What::Cast(kernel) => {
                    kernel.sides = sides;
                    self.call.run(kernel, &self.axes, &self.lines);
                }
            }
        }
    }
}

impl Kept {
    /// # Safety
    /// As [`Call::run`]; the axes and the lines are those that were kept with it.
    #[inline(always)]
    unsafe fn run(&self, kernel: &impl Kernel, room: &[Axis; MOST_AXES], lines: &[isize; MOST_LINES]) {
        // SAFETY: the caller's.
        unsafe {
            match *self {
                Kept::Walk { start, axes } => walk::walk(&room[..axes], start, kernel),
                Kept::Whole(call) => call.run(kernel),
                Kept::Runs { from, to, bytes, axes } => kernel.runs(from, to, bytes, &room[..axes]),
                Kept::Shuffled { from, to, count, ref shuffle } => kernel.shuffled(from, to, count, shuffle),
                Kept::Scattered { from, to, ref matrices, rows, columns, axes } => {
                    let (offsets, rest) = lines.split_at(rows);
                    let (columns, outer) = (&rest[..columns], &room[..axes]);
                    let rows = Rows { offsets, ..matrices.rows };
                    kernel.scattered(from, to, &Matrices { rows, columns, outer, ..*matrices })
                }
            }
        };
    }
}
