//! Elements that change places within a line or two of memory, group after group: matrices of 3 x 3, pixels whose channels
//! are reversed. Every byte of a line of the results by one shuffle.

use super::isa::Isa;
use super::stream::LINE;
use super::walk::each_at;
use crate::layout::Axis;

/// Bytes of the largest group: two lines.
pub const MOST: usize = 2 * LINE;
/// Bytes of the largest group where a shuffle is one of sixteen bytes.
const LANE: usize = 16;
/// Bytes of all groups from which on a table is worth it.
const LEAST: i64 = 512;

/// The innermost axes of a job that a shuffle does.
#[derive(Clone, Copy)]
pub struct Group {
    /// How many axes are around them, of which the last is that along which groups follow one another on both sides.
    pub around: usize,
    /// Their elements.
    pub elements: usize,
    /// From where the job starts to the lowest of them in the source.
    pub lowest: i64,
}

impl Group {
    /// How many axes are around the innermost ones of a job whose elements lie within a group on both sides, where groups follow
    /// one another in the destination, but not in the source.
    pub fn apart(isa: Isa, axes: &[Axis], (from, to): (i64, i64)) -> Option<usize> {
        let most = match isa {
            Isa::Avx512 => MOST,
            Isa::Avx2 | Isa::Neon => LANE,
            _ => return None,
        };
        let (mut elements, mut reach) = (1, 0);
        for (around, axis) in axes.iter().enumerate().rev() {
            if axis.destination != elements * to || axis.source < 0 {
                return None;
            }
            elements *= axis.extent;
            if elements * from > most as i64 {
                return None;
            }
            reach += (axis.extent - 1) * axis.source;
            let is_moved = || axes[around..].iter().any(|axis| axis.source * to != axis.destination * from);
            if elements > 1 && reach == (elements - 1) * from && is_moved() {
                let next = axes[..around].last()?;
                let follows = |step: i64, size: i64| step == elements * size;
                return (follows(next.destination, to) && !follows(next.source, from)).then_some(around);
            }
        }
        None
    }

    /// Those of a job with such steps between elements that follow each other.
    pub fn of(isa: Isa, axes: &[Axis], (from, to): (i64, i64)) -> Option<Group> {
        let most = match isa {
            Isa::Avx512 => MOST,
            Isa::Avx2 | Isa::Neon => LANE,
            _ => return None,
        };
        let (mut elements, mut reach, mut lowest) = (1, 0, 0);
        for (around, axis) in axes.iter().enumerate().rev() {
            if axis.destination != elements * to {
                return None;
            }
            // The same elements on both sides, and groups that follow one another.
            if elements > 1 && reach == (elements - 1) * from && axis.source == elements * from {
                return (elements * from * axis.extent >= LEAST).then_some(Group {
                    around: around + 1,
                    elements: elements as usize,
                    lowest,
                });
            }
            elements *= axis.extent;
            if elements * from > most as i64 {
                return None;
            }
            let last = (axis.extent - 1) * axis.source;
            (reach, lowest) = (reach + last.abs(), lowest + last.min(0));
        }
        None
    }
}

/// The shuffle of a group.
#[derive(Clone, Copy)]
pub struct Shuffle {
    /// Bytes of a group.
    pub bytes: usize,
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
        let vector = if isa == Isa::Avx512 { LINE } else { LANE };
        let turn = if bytes > vector { bytes } else { vector / bytes * bytes };
        let (mut table, mut to) = ([0; MOST], 0);
        each_at(&axes[group.around..], (-group.lowest, 0), &mut |from, _, _| {
            for byte in 0..size {
                table[to + byte] = (from as usize + byte) as u8;
            }
            to += size;
            true
        });
        for to in bytes..turn {
            table[to] = table[to - bytes] + bytes as u8;
        }
        Shuffle { bytes, isa, turn, table }
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
                Isa::Avx512 if self.turn > LINE => self.of_two_lines(source, destination, bytes),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => self.of_a_line(source, destination, bytes),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => self.of_a_lane(source, destination, bytes),
                #[cfg(target_arch = "aarch64")]
                Isa::Neon => self.of_a_lane(source, destination, bytes),
                _ => self.of_a_byte(source, destination, 0, bytes),
            }
        }
    }

    /// What is left of some bytes from a turn on, byte by byte.
    ///
    /// # Safety
    /// As [`Shuffle::run`].
    unsafe fn of_a_byte(&self, source: *const u8, destination: *mut u8, turn: usize, bytes: usize) {
        for to in turn..bytes {
            let first = to - (to - turn) % self.turn;
            // SAFETY: the caller's.
            unsafe { *destination.add(to) = *source.add(first + usize::from(self.table[to - first])) };
        }
    }

    /// # Safety
    /// As [`Shuffle::run`], of so many bytes; the processor has NEON.
    #[cfg(target_arch = "aarch64")]
    unsafe fn of_a_lane(&self, source: *const u8, destination: *mut u8, bytes: usize) {
        use std::arch::aarch64::*;
        let mut at = 0;
        // SAFETY: the caller's.
        unsafe {
            let table = vld1q_u8(self.table.as_ptr());
            while at + LANE <= bytes {
                vst1q_u8(destination.add(at), vqtbl1q_u8(vld1q_u8(source.add(at)), table));
                at += self.turn;
            }
            self.of_a_byte(source, destination, at, bytes);
        }
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
        let mut at = 0;
        // SAFETY: the caller's.
        unsafe {
            let table = _mm_loadu_si128(self.table.as_ptr().cast());
            while at + LANE <= bytes {
                let lane = _mm_loadu_si128(source.add(at).cast());
                _mm_storeu_si128(destination.add(at).cast(), _mm_shuffle_epi8(lane, table));
                at += self.turn;
            }
            self.of_a_byte(source, destination, at, bytes);
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
