//! Rows that lie crosswise: what follows a row in the destination is far from it in the source, and what follows it in
//! the source is far from it in the destination. Some rows of the source's axis, and of each some that follow in the
//! destination, are a block. It is read into the caches in the order of the source while the block before is written in
//! that of the destination, so that memory sees runs of several rows on both sides. What does not fill a line of a run
//! waits for the next block.

use std::ops::RangeInclusive;

use super::{Buffer, LINE, Line, Memory, NOTHING, lines, prefetch_bytes, write_around};
use crate::backend::host::copy::RunsFn;
use crate::layout::Axis;

/// Bytes of a row for which this pays.
const ROW: RangeInclusive<i64> = 33..=6 << 10;
/// Bytes that follow each other in the source and in the destination at least. With fewer, all is read or written in
/// order anyway, of few rows at a time.
const LEAST: (i64, i64) = (128, 1 << 10);
/// Rows of a block along the source's axis: runs of the destination that are open at a time.
const OPEN: usize = 32;
/// Bytes that follow each other in the destination in a block, which is two rows at least.
const RUN: usize = 4 << 10;
/// Bytes of a row that are enough of them on Zen 5.
const RUN_BY_ITSELF: usize = 1 << 10;
/// Bytes that a row of [`put`] has at most in the destination.
pub const MOST: i64 = RUN as i64;
/// Bytes that a block of casts reads at most, which may be more than it writes.
const BLOCK: usize = 192 << 10;
/// Bytes of a row from which on it is not put together with others before it is written.
const BY_ITSELF: usize = 512;

/// Where a run of the destination ends: what is there of its last line, between others that are written with any bytes.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct End([Line; 3]);

impl End {
    fn line(&mut self) -> *mut u8 {
        (&raw mut self.0[1]).cast()
    }
}

/// Whether that is best for rows of so many bytes, read and written, along axes as [`copy`] has them.
pub fn pays((read, written): (i64, i64), along: &Axis, across: &Axis) -> bool {
    along.destination == written
        && (read..along.source.abs()).contains(&across.source.abs())
        && ROW.contains(&written)
        && read * across.extent >= LEAST.0
        && (written >= BY_ITSELF as i64 || written * along.extent >= LEAST.1)
}

/// Copies rows of so many bytes around the caches, one for each combination of the two axes: those of `along` follow
/// each other in the destination, those of `across` are nearer to each other in the source.
///
/// # Safety
/// Every row is readable and writable, and none overlaps another.
pub unsafe fn copy(
    runs: RunsFn,
    source: *const u8,
    destination: *mut u8,
    bytes: usize,
    along: &Axis,
    across: &Axis,
) {
    let in_run = match bytes {
        RUN_BY_ITSELF.. if Memory::is_zen5() => 1,
        _ => (RUN / bytes).max(2),
    };
    each_run((source, destination), (bytes, bytes), in_run, (along, across), |run| {
        // SAFETY: rows of the caller's.
        unsafe {
            if bytes < BY_ITSELF {
                let axis = Axis { extent: run.rows as i64, source: along.source, destination: bytes as i64 };
                let from = run.from;
                return together(run, bytes, |to| {
                    runs(from, to, bytes, std::slice::from_ref(&axis));
                    true
                });
            }
            for index in 0..run.rows {
                let from = run.from.wrapping_offset(index as isize * along.source as isize);
                let ends = (run.ends.0 && index == 0, run.ends.1 && index + 1 == run.rows);
                by_itself(from, run.to.wrapping_add(index * bytes), bytes, run.end, ends);
            }
        }
        true
    });
}

/// The same for rows of so many bytes that are read, and so many that `put` makes of them, [`MOST`] at most. False: it has
/// failed.
///
/// # Safety
/// As [`copy`]; `put` writes all of the row.
pub unsafe fn put(
    source: *const u8,
    destination: *mut u8,
    (read, written): (usize, usize),
    along: &Axis,
    across: &Axis,
    mut put: impl FnMut(*const u8, *mut u8) -> bool,
) -> bool {
    let in_run = (RUN / written).min((BLOCK / OPEN / read).max(1));
    each_run((source, destination), (read, written), in_run, (along, across), |run| {
        let (from, rows) = (run.from, run.rows);
        // SAFETY: rows of the caller's.
        unsafe {
            together(run, written, |to| {
                (0..rows).all(|index| {
                    let from = from.wrapping_offset(index as isize * along.source as isize);
                    put(from, to.wrapping_add(index * written))
                })
            })
        }
    })
}

/// Rows that follow each other in the destination.
struct Run<'a> {
    /// The first of them.
    from: *const u8,
    to: *mut u8,
    rows: usize,
    /// Where those before have left the end of their line, and these leave theirs.
    end: &'a mut End,
    /// Whether nothing is before them, and after them.
    ends: (bool, bool),
}

/// Shows the runs of each block, `in_run` rows at most, and asks for those of the next one; until it says false.
#[inline(always)]
fn each_run(
    (source, destination): (*const u8, *mut u8),
    (read, written): (usize, usize),
    in_run: usize,
    (along, across): (&Axis, &Axis),
    mut show: impl FnMut(&mut Run) -> bool,
) -> bool {
    let row = |a: i64, b: i64| source.wrapping_offset((a * along.source + b * across.source) as isize);
    let mut ends = [const { End([NOTHING; 3]) }; OPEN];
    for open in (0..across.extent).step_by(OPEN) {
        let count = (across.extent - open).min(OPEN as i64);
        for begin in (0..along.extent).step_by(in_run) {
            let beyond = along.extent.min(begin + in_run as i64);
            let is_last = beyond == along.extent;
            // The first row of the block after this one.
            let (mut next, next_open) = if is_last { (0, open + count) } else { (beyond, open) };
            let mut asked = 0;
            for (b, end) in (open..open + count).zip(&mut ends) {
                let to = begin * written as i64 + b * across.destination;
                for _ in begin..beyond {
                    prefetch_bytes(row(next, next_open + asked), read as isize);
                    asked += 1;
                    if asked == count {
                        (next, asked) = (next + 1, 0);
                    }
                }
                let mut run = Run {
                    from: row(begin, b),
                    to: destination.wrapping_offset(to as isize),
                    rows: (beyond - begin) as usize,
                    end,
                    ends: (begin == 0, is_last),
                };
                if !show(&mut run) {
                    return false;
                }
            }
        }
    }
    true
}

/// Has rows of so many bytes put together, then writes them. False: that has failed.
///
/// # Safety
/// The rows are writable, and [`RUN`] bytes at most; `put` writes all of them.
#[inline(always)]
unsafe fn together(run: &mut Run, bytes: usize, put: impl FnOnce(*mut u8) -> bool) -> bool {
    let mut buffer = Buffer::<{ LINE + RUN }>::new();
    let buffer = buffer.start();
    // SAFETY: the buffer has room for the line before and the rows, which have a line at least or are the last.
    unsafe {
        buffer.copy_from_nonoverlapping(run.end.line(), LINE);
        if !put(buffer.add(LINE)) {
            return false;
        }
        write_around(buffer, run.to, run.rows * bytes, run.ends.0, run.ends.1);
        run.end.line().copy_from_nonoverlapping(buffer, LINE);
    }
    true
}

/// Copies a row of some lines; what does not fill a line waits for the next one. Of the first and the last row of a
/// run it does not.
///
/// # Safety
/// The row is readable and writable; `end` holds what is before it in its line, unless it is the first.
#[inline(always)]
unsafe fn by_itself(
    from: *const u8,
    to: *mut u8,
    bytes: usize,
    end: &mut End,
    (is_first, is_last): (bool, bool),
) {
    let past = to as usize % LINE;
    let head = (LINE - past) % LINE;
    let count = (bytes - head) / LINE;
    let (done, left) = (head + count * LINE, (bytes - head) % LINE);
    let line = end.line();
    // SAFETY: what is read is within the row, and what is written within it or the three lines of `end`.
    unsafe {
        if is_first {
            from.copy_to_nonoverlapping(to, head);
        } else if head > 0 {
            from.copy_to_nonoverlapping(line.add(past), LINE);
            lines(line, to.sub(past), 1);
        }
        lines(from.add(head), to.add(head), count);
        if is_last {
            from.add(done).copy_to_nonoverlapping(to.add(done), left);
        } else {
            // So that what is left is the first of the line.
            from.add(bytes - LINE).copy_to_nonoverlapping(line.add(left).sub(LINE), LINE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::host::copy;
    use crate::backend::host::isa::Isa;

    #[test]
    fn rows_of_every_length_and_place() {
        let runs = copy::of_runs(Isa::get());
        for (bytes, many) in [(33, 150), (40, 260), (64, 70), (127, 40), (128, 33), (511, 9), (512, 5)]
            .into_iter()
            .chain([(577, 9), (640, 4), (1048, 7), (2111, 3), (6144, 2)])
        {
            for (along, across) in [(many, 1), (1, many), (many, 3), (3, many), (many, OPEN + 1), (2, 70)] {
                for (shift, gap, is_back) in [(0, 0, false), (1, 7, true), (63, 0, true), (32, 64, false)] {
                    check(runs, bytes, (along, across), shift, gap, is_back);
                }
            }
        }

        /// Rows with a gap between those of `across`, in the destination each of which begins `gap` after the one
        /// before ends.
        fn check(
            runs: RunsFn,
            bytes: usize,
            (along, across): (usize, usize),
            shift: usize,
            gap: usize,
            is_back: bool,
        ) {
            let from = |a: usize, b: usize| (a * across + b) * (bytes + gap);
            let to = |a: usize, b: usize| shift + b * (along * bytes + gap) + a * bytes;
            let source: Vec<u8> =
                (0..along * across * (bytes + gap)).map(|at| (at * 7 + at / 251) as u8).collect();
            let mut result = vec![0xa5u8; to(0, across) + LINE];
            let mut expected = result.clone();
            let read = |a: usize| if is_back { along - 1 - a } else { a };
            for (a, b) in (0..along).flat_map(|a| (0..across).map(move |b| (a, b))) {
                expected[to(a, b)..][..bytes].copy_from_slice(&source[from(read(a), b)..][..bytes]);
            }
            let step = from(1, 0) as i64;
            let along_axis = Axis {
                extent: along as i64,
                source: if is_back { -step } else { step },
                destination: bytes as i64,
            };
            let across_axis = Axis {
                extent: across as i64,
                source: (bytes + gap) as i64,
                destination: (along * bytes + gap) as i64,
            };
            // SAFETY: both have room for all rows.
            unsafe {
                let (source, to) = (source.as_ptr().add(from(read(0), 0)), result.as_mut_ptr().add(to(0, 0)));
                copy(runs, source, to, bytes, &along_axis, &across_axis);
            }
            assert!(result == expected, "{along} x {across} rows of {bytes} bytes to {shift}, {gap} apart");
        }
    }
}
