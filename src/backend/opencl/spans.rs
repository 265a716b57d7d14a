//! Jobs with devices that have memory of their own and no kernel for it, as of elements within bytes that are
//! spread out: slots of the ring take turns to hold all the bytes that a part of the job reaches, and the
//! host's kernels work on those.

use std::ops::Range;

use super::buffer::Buffer;
use super::ends::End;
use super::lane::Lane;
use super::stage::Pinned;
use crate::backend::job::{Transfer, Work};
use crate::backend::staging::{Ring, Slot, on_host, room};
use crate::error::{Error, Excerpt, Result};
use crate::layout::{Axis, Folded};

/// A side of a job, where its axes are stepped along in bytes or bits.
struct Side<'a> {
    /// None: the host's memory.
    far: Option<(&'a Lane, &'a Buffer)>,
    /// Of its first element: of its buffer's or of its address.
    first: u64,
    /// In which its steps count: 8 bits, or 1.
    unit: i64,
    /// Bits that an element takes.
    bits: i64,
    /// Where the slot has what it reaches.
    near: usize,
    step: Step,
}

type Step = fn(&Axis) -> i64;

fn far(end: &End) -> Option<(&Lane, &Buffer)> {
    match end {
        End::Host => None,
        End::Device { buffer, lane } => Some((lane, buffer)),
    }
}

impl Side<'_> {
    /// The bytes that elements reach, of which the first is so many steps behind the job's first.
    fn reach(&self, axes: &[Axis], start: i64) -> Range<i64> {
        let (mut begin, mut end) = (start, start);
        for axis in axes {
            let step = (axis.extent - 1) * (self.step)(axis);
            begin += step.min(0);
            end += step.max(0);
        }
        let first = self.first as i64;
        first + (begin * self.unit).div_euclid(8)..first + (end * self.unit + self.bits + 7).div_euclid(8)
    }

    /// How many of them there are in a slot.
    fn length(&self, axes: &[Axis]) -> u64 {
        // Wherever in a byte it starts.
        let Range { start, end } = self.reach(axes, 0);
        (end - start) as u64 + u64::from(self.unit == 1)
    }
}

/// Does a job of which a side at least is on a device that shares no memory with the host, and waits. None:
/// nothing was done, since there is no slot, or an element does not fit it.
///
/// # Safety
/// The job may be done between both sides, and nobody's work is in flight there.
pub unsafe fn run(
    job: &Transfer<'_>,
    from: (&End, u64),
    to: (&End, u64),
    overwrites: bool,
) -> Result<Option<()>> {
    let (lane, ring) = match (to.0.lane(), from.0.lane()) {
        (Some(lane), _) | (None, Some(lane)) => (lane, lane.rings.of(job.staging_bytes)?),
        (None, None) => return Ok(None),
    };
    let (from_unit, to_unit, from_bits, to_bits) = match job.work {
        Work::Move { size } => (8, 8, 8 * size, 8 * size),
        Work::MoveBits { bits, room } => (1, 1, bits, room),
        Work::Cast(cast) => {
            let unit = |bits| if bits { 1 } else { 8 };
            let (from, to) = (cast.from.bits(), cast.to.bits());
            let whole = |bits: u32, within| u64::from(if within { bits } else { bits.next_multiple_of(8) });
            (unit(cast.from_bits), unit(cast.to_bits), whole(from, cast.from_bits), whole(to, cast.to_bits))
        }
    };
    let half = ring.slot_bytes() / 2;
    let (near, step): (_, Step) = (0, |axis| axis.source);
    let from = Side { far: far(from.0), first: from.1, unit: from_unit, bits: from_bits as i64, near, step };
    let (near, step): (_, Step) = (half, |axis| axis.destination);
    let to = Side { far: far(to.0), first: to.1, unit: to_unit, bits: to_bits as i64, near, step };
    let fits = |axes: &[Axis]| {
        [&from, &to].iter().all(|side| side.far.is_none() || side.length(axes) <= half as u64)
    };
    if !fits(&[]) {
        return Ok(None);
    }
    let Some(mut lease) = Ring::take(&ring, 1, |bytes| Pinned::new(lane, bytes))? else { return Ok(None) };
    let Folded { axes, source_offset, destination_offset } = job.folded;
    let mut cut = room();
    cut[..axes.len()].copy_from_slice(axes);
    // What elements leave of their bytes belongs to others, as does what lies between them.
    let overwrites = overwrites && to_unit == 8 && fits(axes);
    let mut go = |axes: &[Axis], starts: (i64, i64)| {
        let Some(slot) = lease.slots().first_mut() else {
            return Err(Error::Internal(Excerpt::new("a lease has no slot")));
        };
        // SAFETY: the part fits the slot, and as the caller says.
        unsafe { part(job, slot, axes, (&from, starts.0), (&to, starts.1), overwrites) }
    };
    let starts = (source_offset, destination_offset);
    each(&mut cut[..axes.len()], starts, &fits, &mut go)?;
    Ok(Some(()))
}

/// Shows a job in parts that fit: the axes and first elements of each.
fn each(
    axes: &mut [Axis],
    starts: (i64, i64),
    fits: &dyn Fn(&[Axis]) -> bool,
    run: &mut dyn FnMut(&[Axis], (i64, i64)) -> Result<()>,
) -> Result<()> {
    if fits(axes) {
        return run(axes, starts);
    }
    // The axis that reaches farthest is halved.
    let reach = |axis: &Axis| (axis.extent - 1) * axis.source.abs().max(axis.destination.abs()).max(1);
    let longest = (0..axes.len()).max_by_key(|index| reach(&axes[*index]));
    let Some((index, whole)) = longest.map(|index| (index, axes[index])).filter(|(_, axis)| axis.extent > 1)
    else {
        return Err(Error::Internal(Excerpt::new("an element does not fit a slot")));
    };
    let half = whole.extent / 2;
    axes[index].extent = half;
    each(axes, starts, fits, run)?;
    axes[index].extent = whole.extent - half;
    each(axes, (starts.0 + half * whole.source, starts.1 + half * whole.destination), fits, run)?;
    axes[index] = whole;
    Ok(())
}

/// Does a part.
///
/// # Safety
/// As [`run`]; what the part reaches fits the slot.
unsafe fn part(
    job: &Transfer<'_>,
    slot: &mut Pinned,
    axes: &[Axis],
    (from, from_start): (&Side<'_>, i64),
    (to, to_start): (&Side<'_>, i64),
    overwrites: bool,
) -> Result<()> {
    // SAFETY: as the caller says.
    unsafe {
        let (source, source_offset) = from.bring(slot, axes, from_start, true)?;
        let (destination, destination_offset) = to.bring(slot, axes, to_start, !overwrites)?;
        let folded = Folded { axes, source_offset, destination_offset };
        on_host(&Transfer { folded, threads: 1, ..*job }, source, destination)?;
        if let Some((lane, buffer)) = to.far {
            let bytes = to.reach(axes, to_start);
            let length = (bytes.end - bytes.start) as usize;
            slot.carry(lane, true, to.near, length, (buffer, bytes.start as usize))?;
        }
        Ok(())
    }
}

impl Side<'_> {
    /// Has a part's bytes in the slot, and tells where they are and how many steps behind that its first
    /// element is.
    ///
    /// # Safety
    /// As [`part`].
    unsafe fn bring(&self, slot: &mut Pinned, axes: &[Axis], start: i64, read: bool) -> Result<(u64, i64)> {
        let Some((lane, buffer)) = self.far else { return Ok((self.first, start)) };
        let bytes = self.reach(axes, start);
        let (first, length) = (bytes.start as usize, (bytes.end - bytes.start) as usize);
        if read {
            // SAFETY: as the caller says.
            unsafe { slot.carry(lane, false, self.near, length, (buffer, first))? };
        }
        let address = slot.memory().as_ptr() as usize as u64 + self.near as u64;
        Ok((address, start - (bytes.start - self.first as i64) * 8 / self.unit))
    }
}
