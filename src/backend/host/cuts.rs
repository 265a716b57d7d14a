//! Cuts a job into parts along one axis, so that no two of them write one cache line.
//!
//! Where a line begins at some step of the axis, whatever the steps of the axes around it, parts are boxes between
//! such steps. Elsewhere rows, of which there is one for each combination of the axes around it, have their lines
//! begin in different places, and each cut of a row is moved on to where the next line begins: the elements up to
//! there, its head, belong to the part before. The part before the first one is the last one of the row before. Only
//! where elements themselves lie across lines, as they do at addresses that their size does not divide, are cuts not
//! moved.

use super::stream::Buffer;
use super::walk::{Kernel, PerAxis, each, walk};
use crate::layout::Axis;

/// Bytes of a cache line.
pub const LINE: i64 = 64;
/// Bytes of the buffer for heads.
const ROOM: usize = 8 << 10;
/// How many times as many elements as a head takes a part has at least, where it has one: heads are read in short pieces.
const HEADS: i64 = 128;
/// How many times as long an element takes that is read by itself.
const SLOW: i64 = 8;
/// What boxes may make a job longer by, in thousandths, and other cuts must be better by: heads cost more than is known of
/// them beforehand.
const EVEN: i64 = 100;

/// A job whose parts can be done by different threads.
pub struct Cuts<'a> {
    axes: &'a [Axis],
    start: (i64, i64),
    /// Which axis is cut, and that one.
    picked: usize,
    cut: Axis,
    parts: i64,
    how: How,
}

enum How {
    /// Parts have so many steps, the first one some more, and the last one what is left.
    Boxes { first: i64, part: i64 },
    /// Parts have about as many.
    Moved(Moved),
}

/// How cuts of rows are moved.
struct Moved {
    /// The first element.
    destination: *mut u8,
    /// Heads are sought within so many steps of that axis, which may be the one that is cut, and all of the axes within.
    axis: usize,
    steps: i64,
    /// Those are so many elements, which follow each other in the destination by as many bytes.
    elements: i64,
    step: i64,
    /// For each place in a line, how many elements lie there before a line begins between two. 0 also where that is never.
    heads: [u8; LINE as usize],
}

// SAFETY: only parts write to the destination, each what is its own.
unsafe impl Sync for Moved {}

impl<'a> Cuts<'a> {
    /// Cuts an axis into about so many parts, of `threads` at least. The elements begin `start` from an address of the
    /// destination, and have so many bytes there. None: it cannot be.
    pub fn new(
        (axes, start): (&'a [Axis], (i64, i64)),
        (address, size): (u64, i64),
        picked: usize,
        (wanted, threads): (i64, i64),
    ) -> Option<Cuts<'a>> {
        if !are_nested(axes, size) {
            return None;
        }
        let axis = axes[picked];
        let address = address.wrapping_add_signed(start.1);
        let part = up(axis.extent, wanted);
        let granule = LINE / common(axis.destination);
        let begins_line = |step: &i64| (address as i64 + step * axis.destination) % LINE == 0;
        let first = (0..granule.min(axis.extent)).find(begins_line);
        // So does the last part end, before the first one of the next row.
        let are_whole = || axes[..picked].iter().all(|outer| outer.destination % LINE == 0);
        let first = first.filter(|first| picked == 0 || *first == 0 && are_whole());
        let part = up(part, granule) * granule;
        let parts = |first| up(axis.extent - first, part);
        // In thousandths of the job, as that of rows: some threads wait, or there is one part for all.
        let most =
            first.map_or(1000 * (threads - 1), |first| uneven(axis.extent, part, parts(first), threads));
        let boxes = first.map(|first| Cuts {
            axes,
            start,
            picked,
            cut: axis,
            parts: parts(first),
            how: How::Boxes { first, part },
        });
        if boxes.is_some() && most <= EVEN {
            return boxes;
        }
        let moved = (0..axes.len()).filter_map(|picked| Rows::of(axes, picked, size, (wanted, threads)));
        let moved = moved.min_by_key(|rows| rows.cost).filter(|rows| rows.cost < most - EVEN);
        let moved = moved.map(|rows| Cuts {
            axes,
            start,
            picked: rows.picked,
            cut: axes[rows.picked],
            parts: rows.parts,
            how: How::Moved(Moved::new(&rows, axes, address, size)),
        });
        moved.or(boxes)
    }

    /// How many parts there are.
    pub fn parts(&self) -> i64 {
        self.parts
    }

    /// Does one of the parts. False: the kernel stopped.
    ///
    /// # Safety
    /// As [`walk`].
    pub unsafe fn part(&self, index: i64, kernel: &impl Kernel) -> bool {
        let (begin, end) = (self.begin(index), self.begin(index + 1));
        // SAFETY: the parts are the caller's job, each once.
        unsafe {
            let How::Moved(moved) = &self.how else {
                return self.block(self.picked, begin, end, self.at(begin), kernel);
            };
            let next = if index + 1 < self.parts { end } else { 0 };
            self.without_heads(moved, begin, end, kernel)
                && self.heads(moved, begin, &|head| (head, moved.elements), kernel)
                && self.heads(moved, next, &|head| (0, head), kernel)
        }
    }

    /// The first step of a part.
    fn begin(&self, index: i64) -> i64 {
        let extent = self.cut.extent;
        match &self.how {
            How::Boxes { .. } if index == 0 => 0,
            How::Boxes { first, part } => extent.min(first + index * part),
            // The caller, who does the first ones, begins before others know of the job.
            How::Moved(_) => up(index * extent, self.parts),
        }
    }

    /// Where that step of the axis is.
    fn at(&self, step: i64) -> (i64, i64) {
        after(self.start, self.cut, step)
    }

    /// Some steps of that axis, all of the ones within and of those around the one that is cut, and one of what is
    /// between them.
    ///
    /// # Safety
    /// As [`walk`].
    unsafe fn block(
        &self,
        along: usize,
        begin: i64,
        end: i64,
        start: (i64, i64),
        kernel: &impl Kernel,
    ) -> bool {
        if begin >= end {
            return true;
        }
        let mut own = PerAxis::new();
        self.axes[..self.picked].iter().for_each(|axis| own.push(*axis));
        if end - begin > 1 {
            let axis = if along == self.picked { self.cut } else { self.axes[along] };
            own.push(Axis { extent: end - begin, ..axis });
        }
        self.axes[along + 1..].iter().for_each(|axis| own.push(*axis));
        // SAFETY: the caller's.
        unsafe { walk(&own, start, kernel) }
    }

    /// What a part has of the steps between, but for where heads are sought.
    ///
    /// # Safety
    /// As [`walk`].
    unsafe fn without_heads(&self, moved: &Moved, begin: i64, end: i64, kernel: &impl Kernel) -> bool {
        (self.picked..=moved.axis).all(|along| {
            let axis = self.axes[along];
            let is_cut = along == self.picked;
            let (begins, ends) = if is_cut { (begin, end) } else { (0, axis.extent) };
            let rest = begins + if along == moved.axis { moved.steps } else { 1 };
            let first = if is_cut { self.start } else { self.at(begin) };
            // SAFETY: the caller's; all of these blocks and the first steps of the last axis are the part.
            unsafe { self.block(along, rest, ends, after(first, axis, rest), kernel) }
        })
    }

    /// Does what `which` says, for the length of a head, of where heads are sought at that step of the axis: in each row
    /// other elements, so all of them go to a buffer, and from there as many as are wanted. The first row of all has no
    /// head at its first step.
    ///
    /// # Safety
    /// As [`walk`].
    unsafe fn heads(
        &self,
        moved: &Moved,
        step: i64,
        which: &impl Fn(i64) -> (i64, i64),
        kernel: &impl Kernel,
    ) -> bool {
        let size = kernel.steps().1;
        let bytes = moved.elements * size;
        let mut buffer = Buffer::<ROOM>::new();
        let buffer = buffer.start();
        let elsewhere = kernel.elsewhere(buffer);
        // Rows that are neighbours in the source go together: all of some axes, and some of the next one.
        let mut outer = PerAxis::new();
        self.axes[..self.picked].iter().for_each(|axis| outer.push(*axis));
        outer.sort_unstable_by_key(|axis| std::cmp::Reverse(axis.source.unsigned_abs()));
        let (mut rows, mut whole) = (1, outer.len());
        while whole > 0 && rows * outer[whole - 1].extent * bytes <= ROOM as i64 {
            whole -= 1;
            rows *= outer[whole].extent;
        }
        let (outer, whole) = outer.split_at(whole);
        let one = Axis { extent: 1, source: 0, destination: 0 };
        let (partial, outer) = outer.split_last().unwrap_or((&one, &[]));
        let some = (ROOM as i64 / (rows * bytes)).min(partial.extent);
        let first = self.at(step);
        each(outer, first, &mut |from, to| {
            (0..partial.extent).step_by(some as usize).all(|begin| {
                let (from, to) = after((from, to), *partial, begin);
                let mut together = PerAxis::new();
                together.push(Axis { extent: some.min(partial.extent - begin), ..*partial });
                whole.iter().for_each(|axis| together.push(*axis));
                let mut own = PerAxis::new();
                let mut next = rows * bytes;
                for (index, axis) in together.iter().enumerate() {
                    if index > 0 {
                        next /= axis.extent;
                    }
                    if axis.extent > 1 {
                        own.push(Axis { destination: next, ..*axis });
                    }
                }
                for (index, axis) in (moved.axis..).zip(&self.axes[moved.axis..]) {
                    let extent = if index == moved.axis { moved.steps } else { axis.extent };
                    if extent > 1 {
                        own.push(Axis { extent, destination: axis.destination / moved.step * size, ..*axis });
                    }
                }
                // SAFETY: the caller's; the buffer has room for so many rows, and the elements of each that are
                // wanted are of the job.
                unsafe {
                    let mut row = buffer.cast_const();
                    walk(&own, (from, 0), &elsewhere)
                        && each(&together, (0, to), &mut |_, to| {
                            let is_first = step == 0 && to == first.1;
                            let to = to - self.start.1;
                            let wanted = which(if is_first { 0 } else { moved.head(to) });
                            moved.put(row, moved.destination.wrapping_offset(to as isize), wanted, size);
                            row = row.wrapping_offset(bytes as isize);
                            true
                        })
                }
            })
        })
    }
}

/// Rows whose cuts are moved: those of one axis.
struct Rows {
    picked: usize,
    parts: i64,
    /// As in [`Moved`].
    axis: usize,
    steps: i64,
    elements: i64,
    /// About how much longer the job takes, in thousandths.
    cost: i64,
}

impl Rows {
    /// None: that axis cannot be cut so.
    fn of(axes: &[Axis], picked: usize, size: i64, (wanted, threads): (i64, i64)) -> Option<Rows> {
        let mut axis = axes.len() - 1;
        let step = axes[axis].destination;
        let most = LINE / common(step);
        let mut inner = 1;
        while up(most, inner) > axes[axis].extent {
            inner *= axes[axis].extent;
            axis = axis.checked_sub(1).filter(|axis| *axis >= picked)?;
            if axes[axis].destination != inner * step {
                return None;
            }
        }
        let steps = up(most, inner);
        let elements = steps * inner;
        let Axis { extent, source, .. } = axes[picked];
        let inner: i64 = axes[picked + 1..].iter().map(|axis| axis.extent).product();
        // Half as many as of boxes, for each has heads to do, and as many for each thread.
        let least = up(HEADS * elements, inner).min(up(extent, threads));
        let parts = up(extent, least).min(wanted / 2) / threads * threads;
        let parts = parts.max(threads).min(if axis == picked { extent / steps } else { extent });
        if parts < 2 || elements.saturating_mul(size) > ROOM as i64 {
            return None;
        }
        let part = extent / parts;
        let reach = |index: usize| axes[index].source.unsigned_abs();
        let nearest = (0..axes.len()).min_by_key(|index| reach(*index))?;
        // What the source has in runs is cut into shorter ones, whose lines are read for a part of them.
        let elements_apart = source.saturating_abs() / axes[nearest].source.saturating_abs().max(1);
        let run = elements_apart.saturating_mul(size).saturating_mul(part);
        let around: i64 = axes[..picked].iter().map(|axis| axis.extent).product();
        let mut rows = 0;
        if around > 1 {
            // Heads are done twice, and what is beside them along the axis that is innermost in the source one by one.
            let beside = (picked < nearest && nearest < axis).then(|| &axes[nearest + 1..]);
            let beside = beside.map_or(0, |within| within.iter().map(|axis| axis.extent).product());
            rows = SLOW * 1000 * (2 * elements + beside) / (part * inner);
        }
        // Each thread has as many parts, which are about equal.
        let cost = rows + 2000 * LINE / run.max(1) + uneven(extent, up(extent, threads), threads, threads);
        Some(Rows { picked, parts, axis, steps, elements, cost })
    }
}

/// How much longer some thread takes than if all had as much to do, in thousandths: of so many steps each part has some,
/// but for the last, which may have fewer.
fn uneven(extent: i64, part: i64, parts: i64, threads: i64) -> i64 {
    let last = extent - (parts - 1) * part;
    let longest =
        if parts % threads == 1 { parts / threads * part + last } else { up(parts, threads) * part };
    1000 * (longest * threads - extent) / extent
}

impl Moved {
    /// For such rows of elements of that size, at that address.
    fn new(rows: &Rows, axes: &[Axis], address: u64, size: i64) -> Moved {
        let step = axes[axes.len() - 1].destination;
        let mut heads = [0; LINE as usize];
        // From each place where a line begins between two elements back through those before.
        for begin in 0..LINE.min(step - size + 1) {
            for elements in 1..=LINE as u8 {
                let place = (begin - i64::from(elements) * step).rem_euclid(LINE) as usize;
                if place == 0 || (1..=elements).contains(&heads[place]) {
                    break;
                }
                heads[place] = elements;
            }
        }
        let Rows { axis, steps, elements, .. } = *rows;
        Moved { destination: address as usize as *mut u8, axis, steps, elements, step, heads }
    }

    /// The head of what begins so far after the start.
    fn head(&self, offset: i64) -> i64 {
        let place = self.destination.wrapping_offset(offset as isize).addr() as i64 % LINE;
        i64::from(self.heads[place as usize])
    }

    /// Writes some elements, of those that are there one after the other.
    ///
    /// # Safety
    /// They are readable and writable.
    unsafe fn put(&self, from: *const u8, to: *mut u8, (begin, end): (i64, i64), size: i64) {
        // SAFETY: the caller's.
        unsafe {
            if self.step == size {
                let at = (begin * size) as isize;
                return from
                    .offset(at)
                    .copy_to_nonoverlapping(to.offset(at), ((end - begin) * size) as usize);
            }
            for element in begin..end {
                let (from, to) =
                    (from.offset((element * size) as isize), to.offset((element * self.step) as isize));
                from.copy_to_nonoverlapping(to, size as usize);
            }
        }
    }
}

/// So many steps of an axis further.
fn after(start: (i64, i64), axis: Axis, steps: i64) -> (i64, i64) {
    (start.0 + steps * axis.source, start.1 + steps * axis.destination)
}

/// Whether each step of an axis leads behind all that the axes within reach.
fn are_nested(axes: &[Axis], size: i64) -> bool {
    let mut reached = size;
    axes.iter().rev().all(|axis| {
        let is_behind = axis.destination >= reached;
        reached = reached.saturating_add((axis.extent - 1).saturating_mul(axis.destination));
        is_behind
    })
}

pub fn up(value: i64, step: i64) -> i64 {
    (value + step - 1) / step
}

/// The largest number that divides both a line and a step, which is above 0.
fn common(step: i64) -> i64 {
    LINE.min(step & step.wrapping_neg())
}

#[cfg(test)]
mod tests {
    use super::super::kernel::{Move, Sides};
    use super::*;

    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: i64) -> i64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as i64 % limit
        }
    }

    /// Axes in a random order of the source; gaps in the destination now and then.
    fn job(random: &mut Random, size: i64) -> Vec<Axis> {
        let count = 1 + random.below(5) as usize;
        let mut axes: Vec<Axis> = Vec::new();
        let mut step = size * if random.below(8) == 0 { 2 } else { 1 };
        for _ in 0..count {
            let most = [0, 3000, 90, 20, 10, 6][count];
            let extent = 2 + random.below(most);
            axes.insert(0, Axis { extent, source: 0, destination: step });
            step = step * extent + if random.below(8) == 0 { size * random.below(5) } else { 0 };
        }
        let mut order: Vec<usize> = (0..count).collect();
        (0..count).for_each(|index| order.swap(index, random.below(count as i64) as usize));
        let mut step = size;
        for index in order {
            axes[index].source = step;
            step *= axes[index].extent;
        }
        axes
    }

    /// Memory that begins so far into a line, and where it does.
    fn memory(bytes: usize, place: i64) -> (Vec<u8>, usize) {
        let memory = vec![0u8; bytes + 2 * LINE as usize];
        let begin = (place - memory.as_ptr().addr() as i64).rem_euclid(LINE) as usize;
        (memory, begin)
    }

    /// Rows of 27 steps, each fourth of which begins a line, would be 16 and 11 in boxes; those of 32 may be boxes.
    #[test]
    fn threads_have_about_as_much() {
        for (extent, most, are_boxes) in [(27, 14, false), (32, 16, true), (64, 32, true)] {
            let axes = [
                Axis { extent, source: 1512, destination: 39312 },
                Axis { extent: 27, source: 2, destination: 1456 },
                Axis { extent: 26, source: 40824, destination: 56 },
                Axis { extent: 28, source: 54, destination: 2 },
            ];
            let cuts = Cuts::new((&axes, (0, 0)), (0, 2), 0, (4, 2)).unwrap();
            let first: i64 = cuts.begin(up(cuts.parts, 2));
            assert_eq!(first.max(extent - first), most, "{} parts of {extent}", cuts.parts);
            assert_eq!(matches!(cuts.how, How::Boxes { .. }), are_boxes, "{extent}");
        }
    }

    /// Together the parts write what the job does, and no two of them write one line.
    #[test]
    fn no_line_has_two_parts() {
        let mut random = Random(1);
        let (mut boxes, mut moved) = (0, 0);
        for _ in 0..if cfg!(miri) { 3 } else { 3000 } {
            let size = [1, 2, 3, 4, 8, 12, 16][random.below(7) as usize];
            let axes = job(&mut random, size);
            // Where elements begin, somewhere in a line, as far as their size divides one.
            let unit = common(size);
            let place = random.below(LINE / unit) * unit;
            let picked = random.below(axes.len() as i64) as usize;
            let threads = 2 + random.below(7);
            let wanted = threads * (1 + random.below(8));
            let reach = |stride: fn(&Axis) -> i64| {
                let last: i64 = axes.iter().map(|axis| (axis.extent - 1) * stride(axis)).sum();
                (last + size) as usize
            };
            // No byte is 0, which is what is not written.
            let source: Vec<u8> = (0..reach(|axis| axis.source)).map(|at| (at % 251) as u8 + 1).collect();
            let (mut whole, begin) = memory(reach(|axis| axis.destination), place);
            let bytes = whole.len();
            let kernel = |destination: *mut u8| {
                let sides = Sides { source: source.as_ptr(), destination: destination.wrapping_add(begin) };
                Move::new(sides, size as usize, 0, 1)
            };
            // SAFETY: the axes reach as far as there is memory.
            unsafe { walk(&axes, (0, 0), &kernel(whole.as_mut_ptr())) };

            let mut parts = vec![0; bytes];
            let mut own = vec![0; bytes + 2 * LINE as usize];
            let shift = (whole.as_ptr().addr() as i64 - own.as_ptr().addr() as i64).rem_euclid(LINE) as usize;
            let own = own[shift..][..bytes].as_mut_ptr();
            let kernel = kernel(own);
            let destination = kernel.sides.destination.expose_provenance() as u64;
            let cuts = Cuts::new((&axes, (0, 0)), (destination, size), picked, (wanted, threads));
            let Some(cuts) = cuts.filter(|cuts| cuts.parts > 1) else { continue };
            *if matches!(cuts.how, How::Moved(_)) { &mut moved } else { &mut boxes } += 1;
            let which = format!("{axes:?} of {size}, from {place}, axis {picked}, {wanted} parts, {threads}");
            let mut writers = vec![None; bytes / LINE as usize + 2];
            let first = (own.addr() as i64).rem_euclid(LINE) as usize;
            for index in 0..cuts.parts {
                // SAFETY: as above.
                unsafe { cuts.part(index, &kernel) };
                // SAFETY: so many are there, and nobody else has them now.
                let own = unsafe { std::slice::from_raw_parts_mut(own, bytes) };
                for (at, byte) in own.iter_mut().enumerate().filter(|(_, byte)| **byte != 0) {
                    assert_eq!(parts[at], 0, "{which}: written twice, at {at}");
                    parts[at] = std::mem::take(byte);
                    let writer = writers[(first + at) / LINE as usize].get_or_insert(index);
                    assert_eq!(*writer, index, "{which}: two in one line, at {at}");
                }
            }
            assert!(parts == whole, "{which}");
        }
        assert!(cfg!(miri) || boxes > 200 && moved > 200, "{boxes} {moved}");
    }
}
