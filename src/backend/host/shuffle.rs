//! Elements that change places within a line or two of memory, group after group: matrices of 3 x 3, pixels whose channels
//! are reversed; or of which some are left out, or come more than once: three of four channels, grey to colours. Every byte
//! of a line of the results by one shuffle.

use super::isa::Isa;
use super::stream::{self, LINE};
use super::walk::each_at;
use crate::layout::Axis;

/// Bytes of the largest group: two lines.
pub const MOST: usize = 2 * LINE;
/// Bytes of a shuffle where there is none of a line: of larger groups there is one for each lane that is read.
const LANE: usize = 16;
/// Bytes of the results of a larger group that are put together at a time.
const PAIR: usize = 2 * LANE;
/// Bytes of all groups from which on a table is worth it, and of those of a call.
const LEAST: i64 = 512;
const LEAST_ROW: i64 = 96;
/// Groups of one that are larger than a lane where there are no shuffles of lines.
const LEAST_BY_LANES: i64 = 16;

/// The innermost axes of a job that a shuffle does.
#[derive(Clone, Copy)]
pub struct Group {
    /// How many axes are around them, of which the last is that along which groups follow one another on both sides.
    pub around: usize,
    /// Their elements.
    pub elements: usize,
    /// From where the job starts to the lowest of them in the source.
    pub lowest: i64,
    /// Bytes from there to the end of the highest.
    reach: i64,
}

impl Group {
    /// How many axes are around the innermost ones of a job whose elements lie within a group on both sides, where groups follow
    /// one another in the destination, but not in the source. Few that do on both sides are one.
    pub fn apart(isa: Isa, axes: &[Axis], (from, to): (i64, i64)) -> Option<usize> {
        if !has_shuffles(isa) {
            return None;
        }
        let (mut elements, mut reach) = (1, 0);
        for (around, axis) in axes.iter().enumerate().rev() {
            if axis.destination != elements * to || axis.source < 0 {
                return None;
            }
            elements *= axis.extent;
            if elements * from > MOST as i64 {
                return None;
            }
            reach += (axis.extent - 1) * axis.source;
            let is_moved = || axes[around..].iter().any(|axis| axis.source * to != axis.destination * from);
            if elements > 1 && reach == (elements - 1) * from && is_moved() {
                let next = axes[..around].last()?;
                let follows = |step: i64, size: i64| step == elements * size;
                if !follows(next.destination, to) {
                    return None;
                }
                if !follows(next.source, from) {
                    return pays(isa, axes, around, from).then_some(around);
                }
            }
        }
        None
    }

    /// Those of a job with such steps between elements that follow each other.
    pub fn of(isa: Isa, axes: &[Axis], (from, to): (i64, i64)) -> Option<Group> {
        if !has_shuffles(isa) || from > MOST as i64 {
            return None;
        }
        let (mut elements, mut reach, mut lowest) = (1, 0, 0);
        for (around, axis) in axes.iter().enumerate().rev() {
            if axis.destination != elements * to {
                return None;
            }
            // The same elements on both sides, and groups that follow one another; or others in between.
            let bytes = elements * from;
            let is_same = reach + from == bytes && axis.source == bytes;
            let is_of_a_lane = (reach + from..=LANE as i64).contains(&axis.source) && bytes <= LANE as i64;
            // There are kernels for the steps of other elements.
            if (elements > 1 || !from.unsigned_abs().is_power_of_two()) && (is_same || is_of_a_lane) {
                let row = bytes * axis.extent;
                let all = axes[..around].iter().fold(row, |all: i64, axis| all.saturating_mul(axis.extent));
                // Those of lanes have tables that are made in each call.
                let by_lanes = isa != Isa::Avx512 && bytes > LANE as i64 && around > 0;
                let least_row = if by_lanes { LEAST_BY_LANES * bytes } else { LEAST_ROW };
                let are_many = row >= least_row && all >= LEAST;
                return (are_many && pays(isa, axes, around + 1, from)).then_some(Group {
                    around: around + 1,
                    elements: elements as usize,
                    lowest,
                    reach: reach + from,
                });
            }
            elements *= axis.extent;
            if elements * from > MOST as i64 {
                return None;
            }
            let last = (axis.extent - 1) * axis.source;
            (reach, lowest) = (reach + last.abs(), lowest + last.min(0));
        }
        None
    }
}

/// Whether shuffles are better for the groups of a job, of elements of a size, with so many axes around them: those of lanes
/// are not where squares fill as many, nor, unless results are put together to be written around the caches, where elements are
/// lanes. Wide elements by themselves are as well copied one by one where memory is what takes the time.
fn pays(isa: Isa, axes: &[Axis], around: usize, size: i64) -> bool {
    let bytes = |axes: &[Axis]| axes.iter().fold(size, |bytes, axis| bytes.saturating_mul(axis.extent));
    let is_side = |axis: &Axis| axis.extent >= 4 && axis.extent * size % LANE as i64 == 0;
    let group = &axes[around..];
    let is_wide = group.is_empty() && size > LANE as i64 / 2;
    match size == LANE as i64 {
        _ if is_wide => !stream::pays(bytes(axes) as usize),
        _ if isa == Isa::Avx512 => true,
        true => stream::pays(bytes(axes) as usize),
        false => bytes(group) < MOST as i64 || !group.iter().all(is_side),
    }
}

/// Whether any bytes of a lane may change places.
fn has_shuffles(isa: Isa) -> bool {
    matches!(isa, Isa::Avx512 | Isa::Avx2 | Isa::Neon)
}

/// The shuffle of a group.
#[derive(Clone, Copy)]
pub struct Shuffle {
    /// Bytes of a group in the destination.
    pub bytes: usize,
    /// From one to the next in the source, and what of that is read.
    pub step: usize,
    reach: usize,
    isa: Isa,
    /// Bytes of whole groups in a turn: of as many as a vector holds, or of one that two hold.
    turn: usize,
    /// Where each byte of the results of a turn is in the source.
    table: [u8; MOST],
}

impl Shuffle {
    /// That of a group of a job whose elements are of a size in the source.
    pub fn new(isa: Isa, axes: &[Axis], group: &Group, size: usize) -> Shuffle {
        let bytes = group.elements * size;
        let (step, reach) = (axes[group.around - 1].source as usize, group.reach as usize);
        let is_same = step == bytes && reach == bytes;
        let vector = if isa == Isa::Avx512 && is_same { LINE } else { LANE };
        let turn = if bytes > vector { bytes } else { vector / bytes.max(step) * bytes };
        // What is beyond a turn is nowhere.
        let (mut table, mut to) = ([u8::MAX; MOST], 0);
        each_at(&axes[group.around..], (-group.lowest, 0), &mut |from, _, _| {
            for byte in 0..size {
                table[to + byte] = (from as usize + byte) as u8;
            }
            to += size;
            true
        });
        for to in bytes..turn {
            table[to] = table[to - bytes] + step as u8;
        }
        Shuffle { bytes, step, reach, isa, turn, table }
    }

    /// Does `count` groups.
    ///
    /// # Safety
    /// They are readable in the source and writable in the destination, and the two do not overlap.
    pub unsafe fn run(&self, source: *const u8, destination: *mut u8, count: usize) {
        let bytes = count * self.bytes;
        // SAFETY: the caller's; the processor has the instructions, for there is a group.
        unsafe {
            match self.isa {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 if (self.step, self.reach) != (self.bytes, self.bytes) => {
                    self.of_a_lane(source, destination, bytes)
                }
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 if self.turn > LINE => self.of_two_lines(source, destination, bytes),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => self.of_a_line(source, destination, bytes),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 if self.turn > LANE => self.of_lanes(source, destination, bytes),
                #[cfg(target_arch = "aarch64")]
                Isa::Neon if self.turn > LANE => self.of_lanes(source, destination, bytes),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => self.of_a_lane(source, destination, bytes),
                #[cfg(target_arch = "aarch64")]
                Isa::Neon => self.of_a_lane(source, destination, bytes),
                _ => self.of_a_byte(source, destination, 0, bytes),
            }
        }
    }

    /// Of how many turns all of a lane may be read and written where each begins, and how far it is from one to the next in
    /// the source.
    fn turns_of_a_lane(&self, bytes: usize) -> (usize, usize) {
        let end = (bytes / self.bytes - 1) * self.step + self.reach;
        let next = self.turn / self.bytes * self.step;
        match bytes.min(end) {
            ..LANE => (0, next),
            _ => (((bytes - LANE) / self.turn).min((end - LANE) / next) + 1, next),
        }
    }

    /// What is left of some bytes from a turn on, byte by byte.
    ///
    /// # Safety
    /// As [`Shuffle::run`].
    unsafe fn of_a_byte(&self, source: *const u8, destination: *mut u8, turn: usize, bytes: usize) {
        for to in turn..bytes {
            let (group, byte) = (to / self.bytes, to % self.bytes);
            // SAFETY: the caller's.
            unsafe { *destination.add(to) = *source.add(group * self.step + usize::from(self.table[byte])) };
        }
    }

    /// As many groups as are whole pairs of lanes on both sides, and what is left byte by byte. `pair` puts together a pair of
    /// some lanes from there on.
    ///
    /// # Safety
    /// As [`Shuffle::run`], of so many bytes; `pair` reads those lanes, and writes a pair.
    #[inline(always)]
    unsafe fn by_pairs(
        &self,
        source: *const u8,
        destination: *mut u8,
        bytes: usize,
        pair: impl Fn(&[Part], *const u8, *mut u8),
    ) {
        let pairs = Pairs::of(self);
        let whole = self.bytes.next_multiple_of(PAIR);
        let mut at = 0;
        // SAFETY: the caller's. What a pair writes beyond its group the next one's first writes again.
        unsafe {
            // Two groups at a time, the last pairs first for that reason.
            while at + self.bytes + whole <= bytes {
                for (parts, to) in pairs.each().rev() {
                    pair(parts, source.add(at), destination.add(at + to));
                    pair(parts, source.add(at + self.bytes), destination.add(at + self.bytes + to));
                }
                at += 2 * self.bytes;
            }
            self.of_a_byte(source, destination, at, bytes);
        }
    }

    /// # Safety
    /// As [`Shuffle::run`], of so many bytes; the processor has NEON.
    #[cfg(target_arch = "aarch64")]
    unsafe fn of_lanes(&self, source: *const u8, destination: *mut u8, bytes: usize) {
        use std::arch::aarch64::*;
        // SAFETY: the caller's.
        unsafe {
            self.by_pairs(source, destination, bytes, |parts, from, to| {
                let mut pair = [vdupq_n_u8(0); 2];
                for part in parts {
                    let lane = vld1q_u8(from.add(part.from));
                    for (index, half) in pair.iter_mut().enumerate() {
                        let table = vld1q_u8(part.table.as_ptr().add(index * LANE));
                        *half = vorrq_u8(*half, vqtbl1q_u8(lane, table));
                    }
                }
                vst1q_u8(to, pair[0]);
                vst1q_u8(to.add(LANE), pair[1]);
            });
        }
    }

    /// # Safety
    /// As [`Shuffle::run`], of so many bytes; the processor has NEON.
    #[cfg(target_arch = "aarch64")]
    unsafe fn of_a_lane(&self, source: *const u8, destination: *mut u8, bytes: usize) {
        use std::arch::aarch64::*;
        let (turns, next) = self.turns_of_a_lane(bytes);
        // SAFETY: the caller's.
        unsafe {
            let table = vld1q_u8(self.table.as_ptr());
            let (mut from, mut to) = (source, destination);
            for _ in 0..turns {
                vst1q_u8(to, vqtbl1q_u8(vld1q_u8(from), table));
                (from, to) = (from.wrapping_add(next), to.wrapping_add(self.turn));
            }
            self.of_a_byte(source, destination, turns * self.turn, bytes);
        }
    }
}

/// What a pair of lanes of the results takes from one lane of the source.
#[derive(Clone, Copy)]
struct Part {
    /// Where that begins.
    from: usize,
    /// For a shuffle of each lane of the pair, which makes nothing of what comes from elsewhere.
    table: [u8; PAIR],
}

/// The pairs of lanes of a group, and of what is after it.
struct Pairs {
    parts: [Part; (MOST / PAIR) * (MOST / LANE)],
    /// How many parts the pairs up to each have.
    ends: [usize; MOST / PAIR],
    count: usize,
}

impl Pairs {
    #[inline(always)]
    fn of(shuffle: &Shuffle) -> Pairs {
        // A shuffle of x86-64 makes nothing of what has the upper bit, NEON's of what is no place of a lane.
        const BEYOND: u8 = if cfg!(target_arch = "x86_64") { 0x80 - LANE as u8 } else { 0 };
        let mut pairs = Pairs {
            parts: [Part { from: 0, table: [0; PAIR] }; _],
            ends: [0; _],
            count: shuffle.bytes.div_ceil(PAIR),
        };
        let mut end = 0;
        for (index, places) in shuffle.table.chunks(PAIR).take(pairs.count).enumerate() {
            for from in (0..shuffle.bytes).step_by(LANE) {
                let part = &mut pairs.parts[end];
                part.from = from;
                let mut is_there = false;
                for (entry, place) in part.table.iter_mut().zip(places) {
                    let place = place.wrapping_sub(from as u8);
                    *entry = place.saturating_add(BEYOND);
                    is_there |= place < LANE as u8;
                }
                end += usize::from(is_there);
            }
            pairs.ends[index] = end;
        }
        pairs
    }

    /// The parts of each, and where it begins in the group.
    #[inline(always)]
    fn each(&self) -> impl DoubleEndedIterator<Item = (&[Part], usize)> {
        (0..self.count).map(|index| {
            let start = if index == 0 { 0 } else { self.ends[index - 1] };
            (&self.parts[start..self.ends[index]], index * PAIR)
        })
    }
}

// What is written after a turn is written again by the next. The last ones touch no more than there is left.
#[cfg(target_arch = "x86_64")]
impl Shuffle {
    /// # Safety
    /// As [`Shuffle::run`], of so many bytes; the processor has AVX2.
    #[target_feature(enable = "avx2")]
    unsafe fn of_a_lane(&self, source: *const u8, destination: *mut u8, bytes: usize) {
        use std::arch::x86_64::*;
        let (turns, next) = self.turns_of_a_lane(bytes);
        // SAFETY: the caller's.
        unsafe {
            let table = _mm_loadu_si128(self.table.as_ptr().cast());
            let (mut from, mut to) = (source, destination);
            for _ in 0..turns {
                _mm_storeu_si128(to.cast(), _mm_shuffle_epi8(_mm_loadu_si128(from.cast()), table));
                (from, to) = (from.wrapping_add(next), to.wrapping_add(self.turn));
            }
            self.of_a_byte(source, destination, turns * self.turn, bytes);
        }
    }

    /// # Safety
    /// As [`Shuffle::run`], of so many bytes; the processor has AVX2.
    #[target_feature(enable = "avx2")]
    unsafe fn of_lanes(&self, source: *const u8, destination: *mut u8, bytes: usize) {
        use std::arch::x86_64::*;
        // SAFETY: the caller's.
        unsafe {
            self.by_pairs(source, destination, bytes, |parts, from, to| {
                let mut pair = _mm256_setzero_si256();
                for part in parts {
                    let lane = _mm256_broadcastsi128_si256(_mm_loadu_si128(from.add(part.from).cast()));
                    let table = _mm256_loadu_si256(part.table.as_ptr().cast());
                    pair = _mm256_or_si256(pair, _mm256_shuffle_epi8(lane, table));
                }
                _mm256_storeu_si256(to.cast(), pair);
            });
        }
    }

    /// # Safety
    /// As [`Shuffle::run`], of so many bytes; the processor has AVX-512 with VBMI.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn of_a_line(&self, source: *const u8, destination: *mut u8, bytes: usize) {
        use std::arch::x86_64::*;
        let mut at = 0;
        // SAFETY: the caller's.
        unsafe {
            let table = _mm512_loadu_si512(self.table.as_ptr().cast());
            while at + LINE <= bytes {
                let line = _mm512_loadu_si512(source.add(at).cast());
                _mm512_storeu_si512(destination.add(at).cast(), _mm512_permutexvar_epi8(table, line));
                at += self.turn;
            }
            if at < bytes {
                let mask = first(bytes - at);
                let line = _mm512_maskz_loadu_epi8(mask, source.add(at).cast());
                let shuffled = _mm512_permutexvar_epi8(table, line);
                _mm512_mask_storeu_epi8(destination.add(at).cast(), mask, shuffled);
            }
        }
    }

    /// # Safety
    /// As [`Shuffle::of_a_line`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn of_two_lines(&self, source: *const u8, destination: *mut u8, bytes: usize) {
        use std::arch::x86_64::*;
        let mut at = 0;
        // SAFETY: the caller's; the first line of a turn is whole.
        unsafe {
            let table = self.table.as_ptr();
            let tables = [_mm512_loadu_si512(table.cast()), _mm512_loadu_si512(table.add(LINE).cast())];
            while at < bytes {
                let (from, to) = (source.add(at), destination.add(at));
                let low = _mm512_loadu_si512(from.cast());
                if at + MOST <= bytes {
                    let high = _mm512_loadu_si512(from.add(LINE).cast());
                    _mm512_storeu_si512(to.cast(), _mm512_permutex2var_epi8(low, tables[0], high));
                    _mm512_storeu_si512(to.add(LINE).cast(), _mm512_permutex2var_epi8(low, tables[1], high));
                } else {
                    let mask = first(bytes - at - LINE);
                    let high = _mm512_maskz_loadu_epi8(mask, from.add(LINE).cast());
                    _mm512_storeu_si512(to.cast(), _mm512_permutex2var_epi8(low, tables[0], high));
                    let shuffled = _mm512_permutex2var_epi8(low, tables[1], high);
                    _mm512_mask_storeu_epi8(to.add(LINE).cast(), mask, shuffled);
                }
                at += self.turn;
            }
        }
    }
}

/// The first bytes of a line.
#[cfg(target_arch = "x86_64")]
fn first(bytes: usize) -> u64 {
    if bytes < LINE { (1 << bytes) - 1 } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use super::super::transpose::tests::Guarded;
    use super::*;

    /// Groups of some axes, of which bits of `reversed` tell which run backwards in the source.
    fn groups(isa: Isa, size: usize, shape: &[i64], order: &[usize], reversed: usize, count: i64) -> bool {
        let mut axes = vec![Axis::default(); shape.len()];
        let (mut from, mut to, mut start) = (size as i64, size as i64, 0);
        for (axis, extent) in shape.iter().enumerate().rev() {
            let at = order.iter().position(|its| *its == axis).unwrap();
            axes[at] = Axis { extent: *extent, source: from, destination: 0 };
            if reversed >> axis & 1 == 1 {
                (axes[at].source, start) = (-from, start + (extent - 1) * from);
            }
            from *= extent;
        }
        for axis in axes.iter_mut().rev() {
            axis.destination = to;
            to *= axis.extent;
        }
        axes.insert(0, Axis { extent: count, source: from, destination: to });
        let Some(group) = Group::of(isa, &axes, (size as i64, size as i64)) else { return false };
        // Groups may be smaller than what was made here.
        let bytes = (from * count) as usize;
        let mut memory = Guarded::new(bytes);
        let source = memory.bytes();
        let source = source.split_at_mut(source.len() - bytes).1;
        source.iter_mut().enumerate().for_each(|(index, byte)| *byte = (index * 7 + index / 251) as u8);
        let mut expected = vec![0; bytes];
        each_at(&axes, (start, 0), &mut |from, to, _| {
            let (from, to) = (from as usize, to as usize);
            expected[to..to + size].copy_from_slice(&source[from..from + size]);
            true
        });
        let mut there = Guarded::new(bytes);
        let destination = there.bytes();
        let destination = destination.split_at_mut(destination.len() - bytes).1;
        let shuffle = Shuffle::new(isa, &axes, &group, size);
        let (along, outer) = axes[..group.around].split_last().unwrap();
        each_at(outer, (start, 0), &mut |from, to, _| {
            // SAFETY: both hold all groups, and nothing else.
            unsafe {
                let from = source.as_ptr().offset((from + group.lowest) as isize);
                shuffle.run(from, destination.as_mut_ptr().add(to as usize), along.extent as usize);
            }
            true
        });
        assert!(expected == destination, "{isa:?}, {size}, {shape:?}, {order:?}, {reversed}, {count}");
        true
    }

    /// Elements of which some are left out, or come more than once, some of them backwards.
    #[test]
    fn channels_that_are_left_out() {
        for isa in [Isa::Avx2, Isa::Avx512, Isa::Neon].into_iter().filter(|isa| isa.is_there()) {
            for size in [1, 2, 3, 4, 7] {
                let mut done = 0;
                let most = LANE as i64 / size as i64;
                for (count, step) in (1..=most).flat_map(|count| (1..=most).map(move |step| (count, step))) {
                    for each in [-3, -2, -1, 0, 1, 2, 3] {
                        for many in [513, 514, 520] {
                            done += usize::from(left_out(isa, size, count, each, step, many));
                        }
                    }
                }
                assert!(done > 30, "{isa:?}, {size}: {done}");
            }
        }
    }

    /// `many` groups of `count` elements, so many elements from each to the next, and from each group to the next.
    fn left_out(isa: Isa, size: usize, count: i64, each: i64, step: i64, many: i64) -> bool {
        let long = size as i64;
        let axes = [
            Axis { extent: many, source: step * long, destination: count * long },
            Axis { extent: count, source: each * long, destination: long },
        ];
        let Some(group) = Group::of(isa, &axes, (long, long)) else { return false };
        let reach = (count - 1) * each.abs() * long + long;
        let start = if each < 0 { reach - long } else { 0 };
        let (read, written) = (((many - 1) * step * long + reach) as usize, (many * count * long) as usize);
        let (mut memory, mut there) = (Guarded::new(read), Guarded::new(written));
        let (source, destination) = (memory.bytes(), there.bytes());
        let source = source.split_at_mut(source.len() - read).1;
        let destination = destination.split_at_mut(destination.len() - written).1;
        source.iter_mut().enumerate().for_each(|(index, byte)| *byte = (index * 7 + index / 251) as u8);
        let mut expected = vec![0; written];
        each_at(&axes, (start, 0), &mut |from, to, _| {
            let (from, to) = (from as usize, to as usize);
            expected[to..to + size].copy_from_slice(&source[from..from + size]);
            true
        });
        let shuffle = Shuffle::new(isa, &axes, &group, size);
        // SAFETY: both hold all groups, and nothing else.
        unsafe {
            let from = source.as_ptr().offset((start + group.lowest) as isize);
            shuffle.run(from, destination.as_mut_ptr(), many as usize);
        }
        assert!(expected == destination, "{isa:?}, {size} bytes, {count} by {each}, {step}, {many}");
        true
    }

    #[test]
    fn every_small_group() {
        for isa in [Isa::Avx2, Isa::Avx512, Isa::Neon].into_iter().filter(|isa| isa.is_there()) {
            let mut done = 0;
            for (size, count) in [1, 2, 4, 8, 16].into_iter().flat_map(|size| [513, 520].map(|n| (size, n))) {
                for (a, b) in (1..=12).flat_map(|a| (1..=12).map(move |b| (a, b))) {
                    for reversed in 0..4 {
                        done += usize::from(groups(isa, size, &[a, b], &[1, 0], reversed, count));
                        done += usize::from(groups(isa, size, &[a, b], &[0, 1], reversed, count));
                    }
                }
                for order in [[2, 1, 0], [0, 2, 1], [1, 0, 2], [2, 0, 1], [1, 2, 0]] {
                    for shape in [[2, 2, 2], [2, 3, 4], [5, 3, 2], [4, 2, 16]] {
                        for reversed in 0..8 {
                            done += usize::from(groups(isa, size, &shape, &order, reversed, count));
                        }
                    }
                }
            }
            assert!(done > 1000, "{isa:?}: {done}");
        }
    }
}
