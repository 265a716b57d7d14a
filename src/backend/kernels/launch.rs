//! From a job to launches: which kernel, its groups and its parameters.

use super::params::{Division, Format, MOST_AXES, MOST_ELEMENTS, Params, Step, flags};
use super::{EACH, GROUP, Kernel, Type};
use crate::backend::job::{Cast, Transfer, Work, most_axes};
use crate::layout::{Axis, MAX_NDIM};

/// Rows and columns from which on tiles are faster than elements one by one.
const LEAST_TILED: i64 = 8;

/// The launches of a job.
#[derive(Clone, Debug)]
pub struct Launches {
    kernel: Kernel,
    /// All but what differs between launches.
    params: Params,
    /// Outermost first, without those of a tile.
    axes: Axes,
    /// The first element, in the job's units.
    start: (i64, i64),
}

/// Axes without a place on the heap, which may be full.
#[derive(Clone, Debug)]
struct Axes {
    room: [Axis; MOST_OF_A_JOB],
    len: usize,
}

/// As many as a job has, and one for words.
const MOST_OF_A_JOB: usize = most_axes(MAX_NDIM) + 1;

impl Axes {
    fn of(axes: &[Axis]) -> Axes {
        let mut all = Axes { room: [Axis::default(); MOST_OF_A_JOB], len: axes.len() };
        all.room[..axes.len()].copy_from_slice(axes);
        all
    }

    fn push(&mut self, axis: Axis) {
        self.room[self.len] = axis;
        self.len += 1;
    }

    fn pop(&mut self) {
        self.len -= 1;
    }

    fn remove(&mut self, index: usize) {
        self.room.copy_within(index + 1..self.len, index);
        self.len -= 1;
    }
}

impl std::ops::Deref for Axes {
    type Target = [Axis];

    fn deref(&self) -> &[Axis] {
        &self.room[..self.len]
    }
}

impl Launches {
    /// Of a job whose first element is so many bytes after a multiple of 16 bytes on each side. None: there
    /// is no kernel for it.
    pub fn of(job: &Transfer<'_>, source: u64, destination: u64) -> Option<Launches> {
        let (source, destination) = (i64::try_from(source).ok()?, i64::try_from(destination).ok()?);
        let unit = |bits: bool| if bits { 8 } else { 1 };
        let (from_bits, to_bits) = match job.work {
            Work::Move { .. } => (false, false),
            Work::MoveBits { .. } => (true, true),
            Work::Cast(cast) => (cast.from_bits, cast.to_bits),
        };
        let start = (
            source.checked_mul(unit(from_bits))?.checked_add(job.folded.source_offset)?,
            destination.checked_mul(unit(to_bits))?.checked_add(job.folded.destination_offset)?,
        );
        let launches =
            Launches { kernel: Kernel::PackBits, params: Params::default(), axes: Axes::of(&[]), start };
        let axes = job.folded.axes;
        match job.work {
            Work::Move { size } => launches.moving(axes, i64::try_from(size).ok()?),
            Work::MoveBits { bits, room } => {
                let (bits, room) = (u32::try_from(bits).ok()?, u32::try_from(room).ok()?);
                launches.packing(Kernel::PackBits, axes, bits, room)
            }
            Work::Cast(cast) => launches.casting(axes, &cast),
        }
    }

    /// Which kernel does it.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Whether the word tells of lost values.
    pub fn is_exact(&self) -> bool {
        self.params.flags & flags::EXACT != 0
    }

    /// Moves bytes, in the widest words that everything is a multiple of.
    fn moving(mut self, axes: &[Axis], size: i64) -> Option<Launches> {
        self.axes = Axes::of(axes);
        let mut run = size;
        if let Some(inner) = self.axes.last()
            && (inner.source, inner.destination) == (size, size)
        {
            run = run.checked_mul(inner.extent)?;
            self.axes.pop();
        }
        let steps = self.axes.iter().fold(0, |all, axis| all | axis.source | axis.destination);
        let word = 1i64 << (run | steps | self.start.0 | self.start.1 | 16).trailing_zeros();
        let bytes = word as u8;
        if run > word {
            self.axes.push(Axis { extent: run / word, source: word, destination: word });
        } else if self.tiled(Kernel::Transpose(bytes), (word, word)) {
            return Some(self);
        }
        self.kernel = Kernel::Copy(bytes);
        Some(self)
    }

    /// Changes types.
    fn casting(mut self, axes: &[Axis], cast: &Cast) -> Option<Launches> {
        let part = |scalar: crate::dtype::Scalar| scalar.complex_part().unwrap_or(scalar);
        let (from, to) = (part(cast.from), part(cast.to));
        let set = |flag: u32, holds: bool| if holds { flag } else { 0 };
        // A part of equal type is moved; infinity is not out of its range.
        self.params.flags = set(flags::SATURATE, cast.saturate && from != to)
            | set(flags::EXACT, cast.exact)
            | set(flags::FROM_COMPLEX, from != cast.from)
            | set(flags::TO_COMPLEX, to != cast.to)
            | set(flags::SOURCE_BITS, cast.from_bits);
        (self.params.from, self.params.to) = (Format::of(from), Format::of(to));
        let (from_type, to_type) = (Type::of(from), Type::of(to));
        self.params.types = from_type as u32 | (to_type as u32) << 8;
        let (from_size, to_size) = (from_type.size(), to_type.size());
        let steps = |of: fn(&Axis) -> i64| axes.iter().fold(0, |all, axis| all | of(axis));
        let odd = |steps: i64, size: i64| steps & (size - 1) != 0;
        let source_odd = odd(self.start.0 | steps(|axis| axis.source), from_size);
        let destination_odd = odd(self.start.1 | steps(|axis| axis.destination), to_size);
        self.params.flags |=
            set(flags::SOURCE_ODD, source_odd) | set(flags::DESTINATION_ODD, destination_odd);
        if cast.to_bits {
            return self.packing(Kernel::Pack(from_type), axes, to.bits(), to.bits());
        }
        self.axes = Axes::of(axes);
        let plain = flags::FROM_COMPLEX | flags::TO_COMPLEX | flags::SOURCE_BITS;
        let kernel = Kernel::CastTransposed(from_type, to_type);
        if self.params.flags & plain == 0 && self.tiled(kernel, (from_size, to_size)) {
            return Some(self);
        }
        self.kernel = Kernel::Cast(from_type, to_type);
        Some(self)
    }

    /// Writes elements that follow each other in bits.
    fn packing(mut self, kernel: Kernel, axes: &[Axis], bits: u32, room: u32) -> Option<Launches> {
        let mut follows = i64::from(room);
        for axis in axes.iter().rev() {
            if axis.destination != follows {
                return None;
            }
            follows = follows.checked_mul(axis.extent)?;
        }
        self.kernel = kernel;
        self.axes = Axes::of(axes);
        (self.params.bits, self.params.room, self.params.per_room) = (bits, room, Division::by(room));
        Some(self)
    }

    /// Takes the job by tiles, where it is contiguous along one axis of the source and another of the
    /// destination.
    fn tiled(&mut self, kernel: Kernel, (from_size, to_size): (i64, i64)) -> bool {
        let Some((rows, rest)) = self.axes.split_last() else { return false };
        let near = rest.iter().rposition(|axis| axis.source.abs() == from_size);
        let Some(near) = near.filter(|_| rows.destination == to_size && rows.source != from_size) else {
            return false;
        };
        let (rows, mut columns) = (*rows, rest[near]);
        let most = MOST_ELEMENTS as i64;
        let fits = |axis: &Axis| (LEAST_TILED..=most).contains(&axis.extent);
        let tiles = |axis: &Axis| (axis.extent as u64).div_ceil(kernel.tile().into());
        if !fits(&rows) || !fits(&columns) || tiles(&rows) * tiles(&columns) > MOST_ELEMENTS {
            return false;
        }
        if columns.source < 0 {
            self.start.0 += (columns.extent - 1) * columns.source;
            self.start.1 += (columns.extent - 1) * columns.destination;
            columns = Axis { source: from_size, destination: -columns.destination, ..columns };
        }
        self.params.rows = rows.extent as u32;
        self.params.columns = columns.extent as u32;
        self.params.source_step = rows.source;
        self.params.destination_step = columns.destination;
        self.params.row_tiles = Division::by(tiles(&rows) as u32);
        self.params.column_tiles = Division::by(tiles(&columns) as u32);
        self.axes.pop();
        self.axes.remove(near);
        self.kernel = kernel;
        true
    }

    /// Elements that a launch may have, of those along the axes.
    fn most(&self) -> u64 {
        let per_element = match self.kernel {
            Kernel::Pack(_) | Kernel::PackBits => u64::from(self.params.room),
            Kernel::Transpose(_) | Kernel::CastTransposed(..) => {
                u64::from(self.params.row_tiles.extent) * u64::from(self.params.column_tiles.extent)
            }
            Kernel::Copy(_) | Kernel::Cast(..) => 1,
        };
        (MOST_ELEMENTS / per_element).max(1)
    }

    /// Shows each launch, in order: its parameters, and how many groups it has.
    pub fn each<E>(&self, mut launch: impl FnMut(&Params, u32) -> Result<(), E>) -> Result<(), E> {
        let most = self.most();
        // The innermost axes that one launch can have whole.
        let (mut inner, mut count) = (self.axes.len(), 1u64);
        while inner > 0 && self.axes.len() - inner < MOST_AXES {
            let Some(more) = count.checked_mul(self.axes[inner - 1].extent as u64).filter(|all| *all <= most)
            else {
                break;
            };
            (inner, count) = (inner - 1, more);
        }
        let (outer, inner) = self.axes.split_at(inner);
        // The next one is cut into pieces, if there is room for an axis; those around it are stepped along.
        let room = if inner.len() < MOST_AXES { most / count } else { 1 };
        let mut room_for_at = [0i64; MOST_OF_A_JOB];
        let at = &mut room_for_at[..outer.len()];
        loop {
            let mut start = self.start;
            for (axis, at) in outer.iter().zip(&*at) {
                start.0 += axis.source * at;
                start.1 += axis.destination * at;
            }
            let piece = outer
                .last()
                .zip(at.last())
                .map(|(axis, at)| Axis { extent: (axis.extent - at).min(room as i64), ..*axis });
            let (params, groups) = self.launch(start, piece.filter(|piece| piece.extent > 1), inner);
            launch(&params, groups)?;
            let mut step = room as i64;
            let mut index = outer.len();
            loop {
                if index == 0 {
                    return Ok(());
                }
                index -= 1;
                at[index] += step;
                if at[index] < outer[index].extent {
                    break;
                }
                (at[index], step) = (0, 1);
            }
        }
    }

    fn launch(&self, start: (i64, i64), piece: Option<Axis>, inner: &[Axis]) -> (Params, u32) {
        let mut params = self.params;
        let mut count = 1u32;
        for axis in piece.iter().chain(inner) {
            let step = &mut params.axis[params.axes as usize];
            *step = Step {
                source: axis.source,
                destination: axis.destination,
                extent: Division::by(axis.extent as u32),
            };
            params.axes += 1;
            count *= axis.extent as u32;
            if i32::try_from(axis.source).and(i32::try_from(axis.destination)).is_err() {
                params.flags |= flags::WIDE;
            }
        }
        if params.axes == 0 {
            (params.axes, params.axis[0].extent) = (1, Division::by(1));
        }
        (params.source, params.destination) = start;
        let groups = match self.kernel {
            Kernel::Copy(_) | Kernel::Cast(..) => {
                params.count = count;
                count.div_ceil(GROUP * EACH)
            }
            Kernel::Transpose(_) | Kernel::CastTransposed(..) => {
                params.count = count;
                count * params.row_tiles.extent * params.column_tiles.extent
            }
            Kernel::PackBits | Kernel::Pack(_) => {
                params.destination = start.1 >> 3;
                params.first = (start.1 & 7) as u32;
                params.elements = count;
                params.count = (params.first + count * params.room).div_ceil(8);
                params.count.div_ceil(GROUP)
            }
        };
        (params, groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Folded;

    fn launches(axes: &[Axis], work: Work, starts: (u64, u64)) -> Option<Launches> {
        let folded = Folded { axes, source_offset: 0, destination_offset: 0 };
        Launches::of(&Transfer { folded, work, threads: 0, staging_bytes: 0 }, starts.0, starts.1)
    }

    fn axis((extent, source, destination): (i64, i64, i64)) -> Axis {
        Axis { extent, source, destination }
    }

    fn kernel(axes: &[(i64, i64, i64)], size: u64, starts: (u64, u64)) -> Kernel {
        let axes: Vec<Axis> = axes.iter().copied().map(axis).collect();
        launches(&axes, Work::Move { size }, starts).unwrap().kernel()
    }

    #[test]
    fn words_are_as_wide_as_all_that_is_there() {
        assert_eq!(kernel(&[(1024, 4, 4)], 4, (0, 0)), Kernel::Copy(16));
        assert_eq!(kernel(&[(1023, 4, 4)], 4, (0, 0)), Kernel::Copy(4));
        assert_eq!(kernel(&[(1024, 4, 4)], 4, (8, 0)), Kernel::Copy(8));
        assert_eq!(kernel(&[(1024, 4, 4)], 4, (8, 3)), Kernel::Copy(1));
        assert_eq!(kernel(&[(3, 48, 64), (8, 4, 4)], 4, (0, 16)), Kernel::Copy(16));
        assert_eq!(kernel(&[(3, 44, 64), (8, 4, 4)], 4, (0, 16)), Kernel::Copy(4));
        assert_eq!(kernel(&[(64, 8, 4)], 4, (0, 0)), Kernel::Copy(4));
        assert_eq!(kernel(&[], 12, (0, 0)), Kernel::Copy(4));
    }

    #[test]
    fn tiles_are_for_matrices() {
        assert_eq!(kernel(&[(64, 2, 128), (64, 128, 2)], 2, (0, 0)), Kernel::Transpose(2));
        assert_eq!(kernel(&[(64, -2, 128), (64, 128, 2)], 2, (126, 0)), Kernel::Transpose(2));
        assert_eq!(kernel(&[(3, 2, 128), (64, 128, 2)], 2, (0, 0)), Kernel::Copy(2));
        assert_eq!(kernel(&[(64, 4, 128), (64, 128, 2)], 2, (0, 0)), Kernel::Copy(2));
        // Misaligned elements are bytes that stay together.
        assert_eq!(kernel(&[(64, 2, 128), (64, 128, 2)], 2, (1, 0)), Kernel::Copy(1));
    }

    #[test]
    fn launches_cover_what_one_cannot() {
        // Each element of the job, by its places; a small stand-in for what a kernel does.
        let all = |launches: &Launches| {
            let mut places = 0u64;
            let mut sum = (0i128, 0i128);
            let mut groups_of = Vec::new();
            let done = launches.each(|params, groups| {
                places += u64::from(params.count);
                groups_of.push(groups);
                let axes = &params.axis[..params.axes as usize];
                let count: u64 = axes.iter().map(|axis| u64::from(axis.extent.extent)).product();
                assert_eq!(count, params.count.into());
                let mut from = i128::from(params.source) * i128::from(count);
                let mut to = i128::from(params.destination) * i128::from(count);
                for axis in axes {
                    let extent = i128::from(axis.extent.extent);
                    let times = i128::from(count) / extent * (extent * (extent - 1) / 2);
                    from += i128::from(axis.source) * times;
                    to += i128::from(axis.destination) * times;
                }
                sum = (sum.0 + from, sum.1 + to);
                Ok::<(), ()>(())
            });
            done.unwrap();
            (places, sum, groups_of)
        };
        // More elements than a launch may have.
        let large = [axis((5, 1 << 40, 1 << 41)), axis((3 << 30, 3, 1))];
        let (places, sum, groups) = all(&launches(&large, Work::Move { size: 1 }, (0, 0)).unwrap());
        assert_eq!(places, 15 << 30);
        let each = |extent: i128| extent * (extent - 1) / 2;
        let (rows, columns) = (5i128, 3i128 << 30);
        let want = |outer: i128, inner: i128| each(rows) * columns * outer + each(columns) * rows * inner;
        assert_eq!(sum, (want(1 << 40, 3), want(1 << 41, 1)));
        assert_eq!(groups.len(), 10);
        // More axes than a launch may have.
        let many: Vec<Axis> = (0..20).rev().map(|bit| axis((2, 1 << (bit + 2), 3 << bit))).collect();
        let (places, _, groups) = all(&launches(&many, Work::Move { size: 1 }, (0, 0)).unwrap());
        assert_eq!((places, groups.len()), (1 << 20, 16));
    }

    #[test]
    fn steps_are_short_where_they_can_be() {
        let wide = |axes: [(i64, i64, i64); 3]| {
            let launches = launches(&axes.map(axis), Work::Move { size: 1 }, (0, 0)).unwrap();
            let mut wide = Vec::new();
            let each = launches.each(|params, _| {
                wide.push(params.flags & flags::WIDE != 0);
                Ok::<(), ()>(())
            });
            each.unwrap();
            wide
        };
        let (most, least) = (i64::from(i32::MAX), i64::from(i32::MIN));
        assert_eq!(wide([(5, most, 300), (5, 30, least), (5, 3, 2)]), [false]);
        assert_eq!(wide([(5, most + 1, 300), (5, 30, 30), (5, 3, 2)]), [true]);
        assert_eq!(wide([(5, 300, 300), (5, 30, least - 1), (5, 3, 2)]), [true]);
        // What launches are stepped along is no axis of theirs.
        assert_eq!(wide([(3, 1 << 40, 1 << 40), (1 << 15, 1 << 17, 1 << 17), (1 << 16, 3, 2)]), [false; 6]);
    }

    #[test]
    fn packed_elements_follow_each_other() {
        let work = Work::MoveBits { bits: 4, room: 4 };
        assert!(launches(&[axis((3, 400, 40)), axis((10, 8, 4))], work, (0, 0)).is_some());
        assert!(launches(&[axis((3, 400, 44)), axis((10, 8, 4))], work, (0, 0)).is_none());
        assert!(launches(&[axis((10, 8, 8))], work, (0, 0)).is_none());
    }
}
