//! Rows that lie crosswise: what follows a row in the destination is far from it in the source, and what follows it in
//! the source is far from it in the destination. Some rows of the source's axis, and of each some that follow in the
//! destination, are a block. It is read in the order of the source while the block before is written in that of the
//! destination, so that memory sees runs of several rows on both sides: a block ahead, or less on AMD's but Zen 4, two
//! lines by turns with two that are written. What does not fill a line of a run waits for the next block.

use std::ops::RangeInclusive;

#[cfg(target_arch = "x86_64")]
use super::{super::isa::Isa, x86};
use super::{Buffer, LINE, Line, Memory, NOTHING, lines, prefetch_first, prefetch_second, write_around_by};
use crate::backend::host::copy::RunsFn;
use crate::layout::Axis;

/// Bytes of a row for which this pays.
const ROW: RangeInclusive<i64> = 33..=6 << 10;
/// Bytes that follow each other in the source and in the destination at least. With fewer, all is read or written in
/// order anyway, of few rows at a time.
const LEAST: (i64, i64) = (128, 1 << 10);
/// Rows of a block along the source's axis: runs of the destination that are open at a time.
const OPEN: usize = 32;
/// Bytes that follow each other in the destination in a block at most. Rows that are not put together are two of them at least.
const RUN: usize = 4 << 10;
/// The same where rows that are not cast are asked for by turns ([`Memory::asks_by_turns`]), and casts are of rows that are one
/// ([`Memory::joins_rows`]).
const SHORT_RUN: usize = 2 << 10;
/// Bytes from what is read to what is asked for there, and a block at least where its rows are read in another order.
const AHEAD: usize = 16 << 10;
/// Bytes that a row of [`put`] has at most in the destination.
pub const MOST: i64 = RUN as i64;
/// Bytes that a block of casts reads at most, which may be more than it writes.
const BLOCK: usize = 192 << 10;
/// Bytes of rows that follow each other, from which on they are worth being done as one: fewer are done before anything has
/// been asked for.
pub const AS_ONE_FROM: usize = 8 << 10;
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
    let in_run = match (bytes, Memory::asks_by_turns()) {
        (BY_ITSELF.., true) => 1,
        (_, true) => SHORT_RUN / bytes,
        (_, false) => (RUN / bytes).max(2),
    };
    each_run((source, destination), (bytes, bytes), in_run, (along, across), |run, asked| {
        // SAFETY: rows of the caller's.
        unsafe {
            if bytes < BY_ITSELF {
                let axis = Axis { extent: run.rows as i64, source: along.source, destination: bytes as i64 };
                let from = run.from;
                return together(run, bytes, asked, |to| {
                    runs(from, to, bytes, std::slice::from_ref(&axis));
                    true
                });
            }
            for index in 0..run.rows {
                let from = run.from.wrapping_offset(index as isize * along.source as isize);
                let ends = (run.ends.0 && index == 0, run.ends.1 && index + 1 == run.rows);
                by_itself(from, run.to.wrapping_add(index * bytes), bytes, run.end, ends, asked);
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
    let run = if Memory::joins_rows() { SHORT_RUN.max(written) } else { RUN };
    let in_run = (run / written).min((BLOCK / OPEN / read).max(1));
    each_run((source, destination), (read, written), in_run, (along, across), |run, asked| {
        let (from, rows) = (run.from, run.rows);
        // SAFETY: rows of the caller's.
        unsafe {
            together(run, written, asked, |to| {
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

/// Shows the runs of each block, `in_run` rows at most, and what is asked for of those that come next; until it says false.
#[inline(always)]
fn each_run(
    (source, destination): (*const u8, *mut u8),
    (read, written): (usize, usize),
    in_run: usize,
    (along, across): (&Axis, &Axis),
    mut show: impl FnMut(&mut Run, &mut Asked) -> bool,
) -> bool {
    let mut asked = Asked::new(source, (read, written), (along, across));
    let block = in_run * OPEN * read;
    // How much is asked for before the rows that are next.
    let mut until = match (asked.beside, in_run) {
        (true, 1) => AHEAD,
        (true, _) => block.max(AHEAD),
        (false, _) => block,
    };
    asked.until(until);
    let mut ends = [const { End([NOTHING; 3]) }; OPEN];
    for open in (0..across.extent).step_by(OPEN) {
        let count = (across.extent - open).min(OPEN as i64);
        for begin in (0..along.extent).step_by(in_run) {
            let beyond = along.extent.min(begin + in_run as i64);
            let rows = (beyond - begin) as usize;
            for (b, end) in (open..open + count).zip(&mut ends) {
                let from = begin * along.source + b * across.source;
                let to = begin * written as i64 + b * across.destination;
                let mut run = Run {
                    from: source.wrapping_offset(from as isize),
                    to: destination.wrapping_offset(to as isize),
                    rows,
                    end,
                    ends: (begin == 0, beyond == along.extent),
                };
                until += rows * read;
                if !asked.beside {
                    asked.until(until);
                }
                if !show(&mut run, &mut asked) {
                    return false;
                }
            }
            // What was not a whole line of a row.
            asked.until(until);
        }
    }
    true
}

/// What is asked for of the rows, block by block, those of each in the order of the source.
struct Asked {
    /// Whether that is done by turns with lines that are written, from the first cache; else some rows at a time.
    beside: bool,
    source: *const u8,
    along: Axis,
    across: Axis,
    /// Bytes of a row, on both sides.
    bytes: (usize, usize),
    /// Rows that follow each other without a gap at most.
    joined: i64,
    /// The next row along the two axes, and the first of those that are open.
    row: (i64, i64),
    open: i64,
    /// Where the joined rows begin and end of which the next line is, and the bytes of rows before them.
    start: usize,
    line: usize,
    end: usize,
    before: usize,
}

impl Asked {
    fn new(source: *const u8, bytes: (usize, usize), (along, across): (&Axis, &Axis)) -> Asked {
        Asked {
            beside: Memory::asks_by_turns(),
            source,
            along: *along,
            across: *across,
            bytes,
            joined: if across.source == bytes.0 as i64 { OPEN as i64 } else { 1 },
            row: (0, 0),
            open: 0,
            start: 0,
            line: 0,
            end: 0,
            before: 0,
        }
    }

    /// Copies whole lines around the caches, and asks for as much as they were read for.
    ///
    /// # Safety
    /// As [`lines`].
    #[inline(always)]
    unsafe fn copy(&mut self, from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: the caller's.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if self.beside {
                let (read, written) = self.bytes;
                let beyond = self.line + count * LINE;
                if read == written
                    && beyond <= self.end
                    && let Some(copy) = x86::beside_asked(Isa::get())
                {
                    let ahead = self.line as *const u8;
                    self.line = beyond;
                    return copy(from, to, count, ahead);
                }
                self.lines(count * read / written);
            }
            lines(from, to, count);
        }
    }

    /// Asks for what is before so many bytes of the rows.
    #[inline(never)]
    fn until(&mut self, bytes: usize) {
        while self.before + self.line.saturating_sub(self.start) < bytes && self.one() {}
    }

    /// Asks for so many lines.
    #[cfg(target_arch = "x86_64")]
    #[inline(never)]
    fn lines(&mut self, count: usize) {
        for _ in 0..count {
            if !self.one() {
                return;
            }
        }
    }

    /// Asks for a line; false: there is none.
    #[inline(always)]
    fn one(&mut self) -> bool {
        if self.line >= self.end && !self.join() {
            return false;
        }
        let line = self.line as *const u8;
        if self.beside {
            prefetch_first(line)
        } else {
            prefetch_second(line)
        }
        self.line += LINE;
        true
    }

    /// Goes on to the next rows; false: there are none.
    fn join(&mut self) -> bool {
        self.before += self.end - self.start;
        let (a, b) = self.row;
        let beyond = self.across.extent.min(self.open + OPEN as i64);
        let count = self.joined.min(beyond - b);
        if count <= 0 {
            (self.start, self.line, self.end) = (0, 0, 0);
            return false;
        }
        let from = a * self.along.source + b * self.across.source;
        self.start = self.source.wrapping_offset(from as isize) as usize;
        self.line = self.start & !(LINE - 1);
        self.end = self.start + count as usize * self.bytes.0;
        self.row = match (b + count < beyond, a + 1 < self.along.extent) {
            (true, _) => (a, b + count),
            (false, true) => (a + 1, self.open),
            (false, false) => {
                self.open = beyond;
                (0, beyond)
            }
        };
        true
    }
}

/// Has rows of so many bytes put together, then writes them. False: that has failed.
///
/// # Safety
/// The rows are writable, and [`RUN`] bytes at most; `put` writes all of them.
#[inline(always)]
unsafe fn together(
    run: &mut Run,
    bytes: usize,
    asked: &mut Asked,
    put: impl FnOnce(*mut u8) -> bool,
) -> bool {
    let mut buffer = Buffer::<{ LINE + RUN }>::new();
    let buffer = buffer.start();
    // SAFETY: the buffer has room for the line before and the rows, which have a line at least or are the last.
    unsafe {
        buffer.copy_from_nonoverlapping(run.end.line(), LINE);
        if !put(buffer.add(LINE)) {
            return false;
        }
        write_around_by::<LINE>(buffer, run.to, run.rows * bytes, run.ends, |from, to, count| {
            asked.copy(from, to, count)
        });
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
    asked: &mut Asked,
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
        asked.copy(from.add(head), to.add(head), count);
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

    /// Every row, block by block and in the order of the source, together where they follow each other; and how much of them
    /// is asked for.
    #[test]
    fn rows_that_are_asked_for() {
        let (read, source) = (100, 1 << 20);
        for (along, across, gap) in
            [(3, 5, 0), (2, 70, 0), (2, 70, 28), (4, 32, 0), (1, 33, -300), (5, 1, 64)]
        {
            let step = read as i64 + gap;
            let along = Axis { extent: along, source: step * across, destination: 0 };
            let across = Axis { extent: across, source: step, destination: 0 };
            let mut expected = Vec::new();
            for open in (0..across.extent).step_by(OPEN) {
                let these = open..across.extent.min(open + OPEN as i64);
                let place = |a: i64, b: i64| (source as i64 + a * along.source + b * across.source) as usize;
                expected.extend((0..along.extent).flat_map(|a| these.clone().map(move |b| place(a, b))));
            }
            let asked = || Asked::new(source as *const u8, (read, read), (&along, &across));
            let mut all = asked();
            let mut found = Vec::new();
            while all.join() {
                assert_eq!(all.before, found.len() * read);
                assert!(gap == 0 || all.end - all.start == read);
                found.extend((all.start..all.end).step_by(read));
            }
            assert_eq!(found, expected);

            let mut some = asked();
            for bytes in [1, 700, 701, 1500, expected.len() * read, usize::MAX] {
                some.until(bytes);
                let is = some.before + some.line.saturating_sub(some.start);
                let least = bytes.min(expected.len() * read);
                assert!((least..least + 2 * LINE).contains(&is), "{bytes} bytes: {is}");
            }
        }
    }

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
