//! A small job that was looked into once, to be done again between other addresses.

use std::mem::MaybeUninit;

use super::cast::{CastKernel, Caster};
use super::fuse::{Matrices, Rows};
use super::kernel::{Move, Sides};
use super::shuffle::Shuffle;
use super::walk::{self, Call, Kernel};
use super::{copy_bytes, elements, larger_elements};
use crate::backend::job::{Transfer, Work};
use crate::layout::Axis;

/// The most axes of such a job.
pub const MOST_AXES: usize = 10;
/// The most rows and columns together of matrices whose places are kept: blocks have about 512 of either at most.
const MOST_LINES: usize = 1024;

/// All that a job needs but its addresses.
pub struct Prepared {
    what: What,
    call: Kept,
    room: Room,
}

/// What a call has elsewhere. Only what it has is written: most have little of it.
pub struct Room {
    axes: [MaybeUninit<Axis>; MOST_AXES],
    /// Where its rows start, then where its columns do.
    lines: [MaybeUninit<isize>; MOST_LINES],
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
pub enum Kept {
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
    pub fn bytes(place: &mut MaybeUninit<Prepared>, bytes: u64) {
        let call = Kept::Walk { start: (0, 0), axes: 0 };
        Prepared::set(place, What::Bytes(bytes), call);
    }

    /// Does a job, of which one thread does all, and keeps how. False: that is not kept, and nothing was done.
    ///
    /// # Safety
    /// As [`super::run`].
    pub unsafe fn make(
        place: &mut MaybeUninit<Prepared>,
        job: &Transfer<'_>,
        source: u64,
        destination: u64,
    ) -> bool {
        let sides = Sides::between(source, destination);
        let start = (job.folded.source_offset, job.folded.destination_offset);
        if job.folded.axes.len() > MOST_AXES {
            return false;
        }
        // SAFETY: a part of what is there, which needs no value.
        let room = unsafe { &mut (*place.as_mut_ptr()).room };
        // SAFETY: the caller's.
        unsafe {
            match job.work {
                Work::Move { size } => {
                    let (axes, size) = larger_elements(job.folded.axes, size);
                    let bytes = elements(axes) * size as usize;
                    let kernel = Move::new(sides, size as usize, bytes, job.threads);
                    let call = room.walk(axes, start, &kernel);
                    Prepared::set(place, What::Move(kernel), call);
                }
                Work::Cast(cast) if !cast.from_bits && !cast.to_bits && !cast.exact => {
                    let axes = job.folded.axes;
                    let elements = (elements(axes), job.threads);
                    let kernel = CastKernel::new(sides, Caster::new(&cast), elements, (None, None));
                    let call = room.walk(axes, start, &kernel);
                    Prepared::set(place, What::Cast(kernel), call);
                }
                _ => return false,
            }
        }
        true
    }

    /// Writes all but the room.
    fn set(place: &mut MaybeUninit<Prepared>, what: What, call: Kept) {
        let place = place.as_mut_ptr();
        // SAFETY: fields of what is there.
        unsafe {
            (&raw mut (*place).what).write(what);
            (&raw mut (*place).call).write(call);
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
                    self.call.run(kernel, &self.room);
                }
                What::Cast(kernel) => {
                    kernel.sides = sides;
                    self.call.run(kernel, &self.room);
                }
            }
        }
    }
}

impl Room {
    pub fn new() -> Room {
        Room { axes: [MaybeUninit::uninit(); MOST_AXES], lines: [MaybeUninit::uninit(); MOST_LINES] }
    }

    /// Walks a job of [`MOST_AXES`] at most, and says what it comes to.
    ///
    /// # Safety
    /// As [`walk::walk`].
    pub unsafe fn walk(&mut self, axes: &[Axis], start: (i64, i64), kernel: &impl Kernel) -> Kept {
        let mut kept = None;
        // SAFETY: the caller's.
        unsafe { walk::walk_showing(axes, start, kernel, &mut |call| kept = self.keep(call)) };
        kept.unwrap_or_else(|| {
            self.axes[..axes.len()].write_copy_of_slice(axes);
            Kept::Walk { start, axes: axes.len() }
        })
    }

    /// Keeps a call. None: there is no room for it.
    fn keep(&mut self, call: &Call<'_>) -> Option<Kept> {
        Some(match *call {
            Call::Row { from, to, n } => Kept::Whole(Call::Row { from, to, n }),
            Call::Rows { from, to, n, count, next } => Kept::Whole(Call::Rows { from, to, n, count, next }),
            Call::Matrix { from, to, rows, columns } => Kept::Whole(Call::Matrix { from, to, rows, columns }),
            Call::Runs { from, to, bytes, axes } => {
                self.axes[..axes.len()].write_copy_of_slice(axes);
                Kept::Runs { from, to, bytes, axes: axes.len() }
            }
            Call::Shuffled { from, to, count, shuffle } => {
                Kept::Shuffled { from, to, count, shuffle: *shuffle }
            }
            Call::Scattered { from, to, matrices } => {
                let (rows, columns) = (matrices.rows.offsets, matrices.columns);
                let (all, outer) = (rows.len() + columns.len(), matrices.outer);
                if all > MOST_LINES || outer.len() > MOST_AXES {
                    return None;
                }
                self.lines[..rows.len()].write_copy_of_slice(rows);
                self.lines[rows.len()..all].write_copy_of_slice(columns);
                self.axes[..outer.len()].write_copy_of_slice(outer);
                let (rows, columns, axes) = (rows.len(), columns.len(), outer.len());
                let of_rows = Rows { offsets: &[], ..matrices.rows };
                let matrices = Matrices { rows: of_rows, columns: &[], outer: &[], ..*matrices };
                Kept::Scattered { from, to, matrices, rows, columns, axes }
            }
        })
    }
}

impl Kept {
    /// # Safety
    /// As [`Call::run`]; the room is that which it was kept in.
    #[inline(always)]
    pub unsafe fn run(&self, kernel: &impl Kernel, room: &Room) {
        // SAFETY: the caller's; so many were written.
        unsafe {
            let of = |axes: usize| room.axes[..axes].assume_init_ref();
            match *self {
                Kept::Walk { start, axes } => walk::walk(of(axes), start, kernel),
                Kept::Whole(call) => call.run(kernel),
                Kept::Runs { from, to, bytes, axes } => kernel.runs(from, to, bytes, of(axes)),
                Kept::Shuffled { from, to, count, ref shuffle } => kernel.shuffled(from, to, count, shuffle),
                Kept::Scattered { from, to, ref matrices, rows, columns, axes } => {
                    let (offsets, columns) = room.lines[..rows + columns].assume_init_ref().split_at(rows);
                    let rows = Rows { offsets, ..matrices.rows };
                    kernel.scattered(from, to, &Matrices { rows, columns, outer: of(axes), ..*matrices })
                }
            }
        };
    }
}
