//! The ways that a job takes, and which one. A way that is not for a job says so, and the next is tried.

use std::ops::Range;

use opencl3::types::CL_FALSE;
use opencl3::types::CL_TRUE;

use super::buffer::Buffer;
use super::direct::Copy;
use super::ends::{End, Side, pointer};
use super::events::{Before, Done, List};
use super::lane::Held;
use super::map::{Access, Mapped};
use super::site::Site;
use super::{compute, native, spans, stage};
use crate::backend::host::Host;
use crate::backend::job::Transfer;
use crate::backend::kernels::Launches;
use crate::backend::rectangle::Rectangle;
use crate::backend::staging::one_slot;
use crate::backend::{Backend, Place, Streams};
use crate::error::Result;

/// Does a job. The events say when it is done.
///
/// # Safety
/// As [`Backend::transfer`].
pub unsafe fn go(job: &Transfer<'_>, from: Side<'_>, to: Side<'_>, asynchronous: bool) -> Result<Done> {
    // SAFETY: as the caller says.
    unsafe {
        if let Some(done) = direct(job, from, to, asynchronous)? {
            return Ok(done);
        }
        if let Some(done) = computed(job, from, to, asynchronous)? {
            return Ok(done);
        }
        if native(job, from, to)?.is_some() {
            return Ok(Done::default());
        }
        if staged(job, from, to)?.is_some() {
            return Ok(Done::default());
        }
        mapped(job, from, to)
    }
}

/// A side before anything is done there: None: the host's. A buffer that is yet to be made is plain.
pub type Prospect<'a> = Option<(&'a Site, Option<&'a Buffer>)>;

/// Memory besides source and result that a job takes at most: slots of rings, and as much of the device where
/// its kernels gather or scatter. `access` is what the result would be mapped for.
///
/// # Safety
/// The buffers are valid.
pub unsafe fn scratch(job: &Transfer<'_>, from: Prospect<'_>, to: Prospect<'_>, access: Access) -> u64 {
    let is_allowed = |side: Prospect<'_>, access: Access| {
        side.and_then(|(_, buffer)| buffer).is_none_or(|buffer| access.is_allowed(buffer))
    };
    let is_apart = |side: Prospect<'_>, access: Access| {
        side.is_some_and(|(site, _)| !site.traits.unified) || !is_allowed(side, access)
    };
    let is_within = match (from, to) {
        (Some((from, _)), Some((to, _))) => from.context == to.context,
        _ => false,
    };
    let (from_apart, to_apart) = (is_apart(from, Access::Read), is_apart(to, access));
    let is_crossing = from.is_none() != to.is_none();
    // Who runs functions of the host needs one of the two sides mapped at most.
    let runs = to.or(from).is_some_and(|(site, _)| site.traits.native)
        && to.and_then(|(_, buffer)| buffer).is_none_or(Buffer::is_writable)
        && (is_crossing || is_within && !from_apart);
    let copies = is_crossing && is_allowed(from, Access::Read) && is_allowed(to, Access::Overwrite);
    if runs || !from_apart && !to_apart || copies && Rectangle::of(job).is_some() {
        return 0;
    }
    // SAFETY: as the caller says.
    unsafe {
        let computes = |side: Prospect<'_>, write| {
            side.is_none_or(|(site, buffer)| match buffer {
                Some(buffer) => compute::is_usable(site, buffer, write),
                None => site.traits.has_groups,
            })
        };
        let computes = computes(from, false) && computes(to, true);
        if is_within && computes && (Rectangle::of(job).is_some() || Launches::of(job, 0, 0).is_some()) {
            return 0;
        }
        let closed = [!is_allowed(from, Access::Read), !is_allowed(to, Access::Overwrite)];
        let crosses = match computes && !is_within {
            true => stage::scratch(job, [from_apart, to_apart], closed),
            false => None,
        };
        crosses.unwrap_or(one_slot(job.staging_bytes) * (1 + u64::from(closed != [false; 2])))
    }
}

/// By the driver's own copies, where those are best. None: nothing was done.
///
/// # Safety
/// As [`Backend::transfer`].
unsafe fn direct(
    job: &Transfer<'_>,
    (from, source, after): Side<'_>,
    (to, destination, also_after): Side<'_>,
    asynchronous: bool,
) -> Result<Option<Done>> {
    let Some(rectangle) = Rectangle::of(job) else { return Ok(None) };
    // Where the host works on the device's memory it is as fast at rectangles, and has more threads.
    let is_best = |lane: &Held| !lane.traits.unified || rectangle.is_run();
    let at_once = |done: Option<()>| done.map(|()| Done::default());
    // SAFETY: the caller vouches for both sides.
    unsafe {
        match (from, to) {
            (End::Host, End::Device { buffer, lane }) if is_best(lane) && buffer.is_mappable(true) => {
                let first = pointer(rectangle.source_start(source.address()));
                let offset = rectangle.destination_start(destination.byte_offset) as usize;
                let copy = Copy::Write(first, (buffer, offset));
                rectangle.copy_now(lane, copy, &List::of(also_after)).map(at_once)
            }
            (End::Device { buffer, lane }, End::Host) if is_best(lane) && buffer.is_mappable(false) => {
                let offset = rectangle.source_start(source.byte_offset) as usize;
                let first = pointer(rectangle.destination_start(destination.address()));
                let copy = Copy::Read((buffer, offset), first);
                rectangle.copy_now(lane, copy, &List::of(after)).map(at_once)
            }
            // The device does it while the host goes on.
            (End::Device { buffer, .. }, End::Device { buffer: other, lane })
                if (asynchronous || lane.traits.computes)
                    && buffer.context == other.context
                    && buffer.whole != other.whole =>
            {
                let first = rectangle.source_start(source.byte_offset) as usize;
                let to_first = rectangle.destination_start(destination.byte_offset) as usize;
                let copy = Copy::Within((buffer, first), (other, to_first));
                let done = rectangle.copy(lane, copy, CL_FALSE, &List::of_both(after, also_after))?;
                Ok(done.map(|event| [Some((lane.clone(), event)), None]))
            }
            _ => Ok(None),
        }
    }
}

/// By a kernel, within a context. None: nothing was done.
///
/// # Safety
/// As [`Backend::transfer`].
unsafe fn computed(
    job: &Transfer<'_>,
    (from, source, after): Side<'_>,
    (to, destination, also_after): Side<'_>,
    asynchronous: bool,
) -> Result<Option<Done>> {
    let (End::Device { buffer, .. }, End::Device { buffer: other, lane }) = (from, to) else {
        return Ok(None);
    };
    // What may not be mapped stays where it is: a native kernel is given the addresses of one buffer.
    let is_closed = match lane.traits.native {
        true => buffer.whole != other.whole && !Access::Read.is_allowed(buffer),
        false => !Access::Read.is_allowed(buffer) || !Access::to(destination).is_allowed(other),
    };
    if buffer.context != other.context || !(lane.traits.computes || asynchronous || is_closed) {
        return Ok(None);
    }
    // SAFETY: the caller vouches for both sides.
    unsafe {
        let starts = ((buffer, source.byte_offset), (other, destination.byte_offset));
        let Some(launches) = compute::launches(job, lane, starts.0, starts.1) else { return Ok(None) };
        let list = List::of_both(after, also_after);
        let done = compute::run(&launches, job, lane, buffer, other, &list)?;
        Ok(Some([Some((lane.clone(), done)), None]))
    }
}

/// By the host's kernels on the device's thread, and waits. None: nothing was done.
///
/// # Safety
/// As [`Backend::transfer`].
unsafe fn native(
    job: &Transfer<'_>,
    (from, source, after): Side<'_>,
    (to, destination, also_after): Side<'_>,
) -> Result<Option<()>> {
    let (lane, mut buffers, before) = match (from, to) {
        (End::Host, End::Device { buffer, lane }) => (lane, [None, Some(buffer)], also_after),
        (End::Device { buffer, lane }, End::Host) => (lane, [Some(buffer), None], after),
        (End::Device { buffer, .. }, End::Device { buffer: other, lane })
            if buffer.context == other.context =>
        {
            (lane, [Some(buffer), Some(other)], also_after)
        }
        _ => return Ok(None),
    };
    if !lane.traits.native || buffers[1].is_some_and(|buffer| !buffer.is_writable()) {
        return Ok(None);
    }
    let (mut sides, mut mapped, mut list) = ([*source, *destination], None, List::of(before));
    // SAFETY: the caller vouches for both sides; what is mapped is as large as the job visits.
    unsafe {
        if let [Some(buffer), Some(other)] = buffers {
            list = List::of_both(after, also_after);
            if buffer.whole != other.whole {
                if !buffer.is_mappable(false) {
                    return Ok(None);
                }
                let map = Mapped::new(lane, buffer, range(source), Access::Read, &list, CL_FALSE)?;
                // The queue is in order.
                (buffers[0], sides[0], list) = (None, map.place(source), List::NONE);
                mapped = Some(map);
            }
        }
        native::run(job, lane, buffers, sides, mapped, &list).map(Some)
    }
}

/// Through pinned slots, where a device has memory of its own, and waits. None: nothing was done.
///
/// # Safety
/// As [`Backend::transfer`].
unsafe fn staged(
    job: &Transfer<'_>,
    (from, source, after): Side<'_>,
    (to, destination, also_after): Side<'_>,
) -> Result<Option<()>> {
    let accesses = [Access::Read, Access::to(destination)];
    let open = [from.is_open(accesses[0]), to.is_open(accesses[1])];
    if open == [true; 2] {
        return Ok(None);
    }
    // Of the two sides of which one is the host's, that one is mapped.
    if let (End::Device { buffer, lane }, End::Device { buffer: other, lane: there }) = (from, to)
        && open[0] != open[1]
        && buffer.whole != other.whole
    {
        let (shared, place, buffer, before, access) = if open[0] {
            (lane, source, buffer, after, accesses[0])
        } else {
            (there, destination, other, also_after, accesses[1])
        };
        let none = Before::default();
        // SAFETY: the range lies within the buffer, and what is mapped is as large as the job visits.
        return unsafe {
            let map = Mapped::new(shared, buffer, range(place), access, &List::of(before), CL_TRUE)?;
            let near = map.place(place);
            let crossed = if open[0] {
                staged(job, (&End::Host, &near, &none), (to, destination, also_after))?
            } else {
                staged(job, (from, source, after), (&End::Host, &near, &none))?
            };
            shared.wait(&map.unmap()?)?;
            Ok(crossed)
        };
    }
    // Whoever has slots must not wait for others.
    for (end, before) in [(from, after), (to, also_after)] {
        let Some(lane) = end.lane() else { continue };
        for event in before.iter().flatten() {
            lane.wait(event)?;
        }
    }
    // SAFETY: the caller vouches for both sides.
    unsafe {
        let crossed = match (from, to) {
            (End::Host, End::Device { buffer, lane }) => match stage::packing(job, lane, true, buffer) {
                Some(packing) => {
                    let far = (buffer, destination.byte_offset);
                    stage::cross(job, lane, packing, true, source.address(), far)?
                }
                None => None,
            },
            (End::Device { buffer, lane }, End::Host) => match stage::packing(job, lane, false, buffer) {
                Some(packing) => {
                    let far = (buffer, source.byte_offset);
                    stage::cross(job, lane, packing, false, destination.address(), far)?
                }
                None => None,
            },
            (End::Device { buffer, lane }, End::Device { buffer: other, lane: there })
                if buffer.context != other.context =>
            {
                match stage::packing_between(job, (lane, buffer), (there, other)) {
                    Some(packing) => {
                        let sides = ((buffer, source.byte_offset), (other, destination.byte_offset));
                        stage::relay(job, packing, (lane, sides.0), (there, sides.1))?
                    }
                    None => None,
                }
            }
            _ => None,
        };
        match crossed {
            Some(()) => Ok(Some(())),
            None => {
                let address = |end: &End, place: &Place| match end {
                    End::Host => place.address(),
                    End::Device { .. } => place.byte_offset,
                };
                let sides = ((from, address(from, source)), (to, address(to, destination)));
                spans::run(job, sides.0, sides.1, destination.dense)
            }
        }
    }
}

/// By mapping the buffers. The events say when the devices have them back.
///
/// # Safety
/// As [`Backend::transfer`].
unsafe fn mapped(
    job: &Transfer<'_>,
    (from, source, after): Side<'_>,
    (to, destination, also_after): Side<'_>,
) -> Result<Done> {
    let (after, also_after) = (List::of(after), List::of(also_after));
    // SAFETY: the ranges lie within their buffers, and what is mapped is as large as the job visits.
    unsafe {
        if let (End::Device { buffer, lane }, End::Device { buffer: other, .. }) = (from, to)
            && buffer.mem == other.mem
        {
            // One buffer is mapped once.
            let (a, b) = (range(source), range(destination));
            let both = a.start.min(b.start)..a.end.max(b.end);
            let map = Mapped::new(lane, buffer, both, Access::Write, &after, CL_TRUE)?;
            Host.transfer(job, &map.place(source), &map.place(destination), &Streams::default())?;
            return Ok([Some((lane.clone(), map.unmap()?)), None]);
        }
        // In one queue, what is mapped last is mapped after the first: one wait is enough.
        let one_queue = match (from.lane(), to.lane()) {
            (Some(from), Some(to)) => from.traits.unified && from.is(to),
            _ => false,
        };
        let blocking = if one_queue { CL_FALSE } else { CL_TRUE };
        let access = Access::to(destination);
        let map = match from {
            End::Host => None,
            End::Device { buffer, lane } => {
                Some((lane, Mapped::new(lane, buffer, range(source), Access::Read, &after, blocking)?))
            }
        };
        let other = match to {
            End::Host => None,
            End::Device { buffer, lane } => {
                Some((lane, Mapped::new(lane, buffer, range(destination), access, &also_after, CL_TRUE)?))
            }
        };
        let place = |place: &Place, map: &Option<(&Held, Mapped<'_>)>| match map {
            None => *place,
            Some((_, map)) => map.place(place),
        };
        Host.transfer(job, &place(source, &map), &place(destination, &other), &Streams::default())?;
        let mut done = Done::default();
        for (side, map) in [map, other].into_iter().enumerate() {
            let Some((lane, map)) = map else { continue };
            let unmapped = map.unmap()?;
            if one_queue {
                done = Done::default();
            }
            done[side] = Some((lane.clone(), unmapped));
        }
        Ok(done)
    }
}

/// The bytes of a buffer that a tensor reaches.
fn range(place: &Place) -> Range<usize> {
    place.begin as usize..place.end as usize
}
