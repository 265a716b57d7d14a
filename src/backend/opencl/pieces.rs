//! A small job in pieces, for two threads that are awake anyway: the host by itself does one of its size on one
//! thread, since to wake a second takes as long as the job.

use crate::backend::host;
use crate::backend::job::{Transfer, Work};
use crate::backend::staging::room;
use crate::error::Result;
use crate::layout::{Axis, Folded};

/// Bytes of a job that are worth being divided.
const LEAST: u64 = 64 << 10;
/// Bytes of a piece of a larger one: it should seem no smaller to the host's kernels than it is.
const PIECE: u64 = 256 << 10;
/// How many there are at most.
const MOST: u64 = 16;
/// Elements of a piece that is worth being read by itself.
const ELEMENTS: i64 = 32;
/// Bytes of a cache line.
const LINE: i64 = 64;

/// Bytes that a job writes.
pub fn written(job: &Transfer<'_>) -> u64 {
    let bits = match job.work {
        Work::Move { size } => 8 * size,
        Work::MoveBits { room, .. } => room,
        Work::Cast(cast) => cast.to.bits().into(),
    };
    let elements =
        job.folded.axes.iter().fold(1, |count: u64, axis| count.saturating_mul(axis.extent as u64));
    elements.saturating_mul(bits).div_ceil(8)
}

/// Pieces of a job along one of its axes.
pub struct Pieces {
    axis: usize,
    /// Steps of a piece along it.
    length: i64,
    /// How many.
    pub count: u32,
}

impl Pieces {
    /// The whole job.
    pub const ONE: Pieces = Pieces { axis: 0, length: 0, count: 1 };

    /// Of a small job. Others are one piece: the host divides them better, which knows how large they are.
    pub fn of(job: &Transfer<'_>) -> Pieces {
        let axes = job.folded.axes;
        // In bits, neighbours share bytes, which only one thread may write.
        let (in_bits, in_runs) = match job.work {
            Work::Move { size } => {
                let size = size as i64;
                (false, axes.last().is_some_and(|axis| (axis.source, axis.destination) == (size, size)))
            }
            Work::MoveBits { .. } => (true, false),
            Work::Cast(cast) => (cast.to_bits, false),
        };
        let bytes = written(job);
        if in_bits || job.threads == 1 || !(LEAST..host::one_thread(in_runs)).contains(&bytes) {
            return Pieces::ONE;
        }
        let wanted = (bytes / PIECE).clamp(2, MOST) as i64;
        // The outermost that is long enough. What is innermost in the source is cut into long pieces only.
        let nearest = axes.iter().map(|axis| axis.source.unsigned_abs()).min();
        let least = |axis: &Axis| {
            if Some(axis.source.unsigned_abs()) == nearest { ELEMENTS * wanted } else { wanted }
        };
        let Some(cut) = axes.iter().position(|axis| axis.extent >= least(axis)) else { return Pieces::ONE };
        let axis = axes[cut];
        // No two pieces write one line, as far as steps along this axis can help it.
        let step = axis.destination.unsigned_abs().max(1);
        let granule = if step < LINE as u64 { LINE / (1 << step.trailing_zeros().min(6)) } else { 1 };
        let up = |value: i64, step: i64| (value + step - 1) / step;
        let length = up(up(axis.extent, wanted), granule) * granule;
        Pieces { axis: cut, length, count: up(axis.extent, length) as u32 }
    }

    /// Shows one of them.
    pub fn piece(
        &self,
        job: &Transfer<'_>,
        index: u32,
        show: impl FnOnce(&Transfer<'_>) -> Result<()>,
    ) -> Result<()> {
        if self.count == 1 {
            return show(job);
        }
        let (Folded { axes, source_offset, destination_offset }, mut own) = (job.folded, room());
        let begin = i64::from(index) * self.length;
        let mut len = 0;
        for (at, axis) in axes.iter().enumerate() {
            let left = if at == self.axis { self.length.min(axis.extent - begin) } else { axis.extent };
            if left > 1 {
                own[len] = Axis { extent: left, ..*axis };
                len += 1;
            }
        }
        let (source, destination) = (axes[self.axis].source, axes[self.axis].destination);
        let folded = Folded {
            axes: &own[..len],
            source_offset: source_offset + begin * source,
            destination_offset: destination_offset + begin * destination,
        };
        show(&Transfer { folded, threads: 1, ..*job })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element once, whatever the axes.
    #[test]
    fn pieces_are_the_job() {
        let axis = |extent, source, destination| Axis { extent, source, destination };
        let jobs: [&[Axis]; 5] = [
            &[axis(100_000, 4, 4)],
            &[axis(300, 4, 4 * 301), axis(301, 4 * 300, 4)],
            &[axis(3, 40_000 * 4, 40_000 * 4), axis(40_001, -8, 4)],
            &[axis(7, 4, 70_000 * 4), axis(2, 28, 30_000 * 4), axis(9000, 56, 4)],
            &[axis(20, 4, 4)],
        ];
        for axes in jobs {
            let folded = Folded { axes, source_offset: 5, destination_offset: 9 };
            let job = Transfer { folded, work: Work::Move { size: 4 }, threads: 0, staging_bytes: 0 };
            let elements: i64 = axes.iter().map(|axis| axis.extent).product();
            let pieces = Pieces::of(&job);
            assert_eq!(pieces.count > 1, elements > 20, "{axes:?}");
            let mut seen = Vec::new();
            for index in 0..pieces.count {
                pieces
                    .piece(&job, index, |piece| {
                        let Folded { axes, source_offset, destination_offset } = piece.folded;
                        let mut places = vec![(source_offset, destination_offset)];
                        for axis in axes {
                            let steps = 0..axis.extent;
                            let along = |(from, to): (i64, i64)| {
                                steps
                                    .clone()
                                    .map(move |at| (from + at * axis.source, to + at * axis.destination))
                            };
                            places = places.into_iter().flat_map(along).collect();
                        }
                        seen.extend(places);
                        Ok(())
                    })
                    .unwrap();
            }
            seen.sort_unstable_by_key(|place| (place.1, place.0));
            let mut whole = vec![(5, 9)];
            for axis in axes {
                let steps = 0..axis.extent;
                let along = |(from, to): (i64, i64)| {
                    steps.clone().map(move |at| (from + at * axis.source, to + at * axis.destination))
                };
                whole = whole.into_iter().flat_map(along).collect();
            }
            whole.sort_unstable_by_key(|place| (place.1, place.0));
            assert!(seen == whole, "{axes:?}");
        }
    }
}
