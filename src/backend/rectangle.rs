//! Jobs that a driver's copy engine does by itself: a run of bytes, or rectangles of rows and slices.
#![forbid(unsafe_code)]

use super::job::{Transfer, Work};

/// Rows of so many bytes, at equal steps on each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rectangle {
    /// Bytes of a row, rows of a slice, slices.
    pub region: [usize; 3],
    /// Bytes from a row to the next, and from a slice to the next, in the source.
    pub source: [usize; 2],
    /// Likewise in the destination.
    pub destination: [usize; 2],
    /// What folding added to the starts.
    pub start: (i64, i64),
}

/// Shorter rows are faster by a kernel, or packed by the host, than by an engine that steps over them.
const SHORTEST_ROW: usize = 64;

impl Rectangle {
    /// A job as a rectangle; None: it is none, or other ways are better.
    pub fn of(job: &Transfer<'_>) -> Option<Rectangle> {
        let Work::Move { size } = job.work else { return None };
        let mut axes = job.folded.axes;
        let mut row = usize::try_from(size).ok()?;
        if let Some((inner, outer)) = axes.split_last()
            && (inner.source, inner.destination) == (size as i64, size as i64)
        {
            row = row.checked_mul(usize::try_from(inner.extent).ok()?)?;
            axes = outer;
        }
        if axes.len() > 2 || !axes.is_empty() && row < SHORTEST_ROW {
            return None;
        }
        let (mut region, mut source, mut destination) = ([row, 1, 1], [row; 2], [row; 2]);
        for (at, axis) in axes.iter().rev().enumerate() {
            region[at + 1] = usize::try_from(axis.extent).ok()?;
            source[at] = usize::try_from(axis.source).ok()?;
            destination[at] = usize::try_from(axis.destination).ok()?;
        }
        for steps in [&mut source, &mut destination] {
            if axes.len() < 2 {
                steps[1] = steps[0].checked_mul(region[1])?;
            }
            // What the driver asks of a pitch, and of a height.
            let rows = steps[0].checked_mul(region[1])?;
            if steps[0] < row || steps[1] < rows || !steps[1].is_multiple_of(steps[0]) {
                return None;
            }
        }
        let start = (job.folded.source_offset, job.folded.destination_offset);
        Some(Rectangle { region, source, destination, start })
    }

    /// A run of so many bytes.
    pub fn run(bytes: usize) -> Rectangle {
        Rectangle { region: [bytes, 1, 1], source: [bytes; 2], destination: [bytes; 2], start: (0, 0) }
    }

    /// Whether it is a single run of bytes.
    pub fn is_run(&self) -> bool {
        self.region[1] == 1 && self.region[2] == 1
    }
}
