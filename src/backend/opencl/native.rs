//! Jobs on a device that is the host's processor: the driver runs a function of ours on its thread (a native
//! kernel), which gets the addresses of buffers and has the host's kernels work there. That is one command
//! and one wait; to map and unmap is two of each. Of two buffers the source is mapped, without waiting.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use super::buffer::Buffer;
use super::driver::call;
use super::events::{Event, List};
use super::lane::Lane;
use super::map::Mapped;
use crate::backend::host::Host;
use crate::backend::job::Transfer;
use crate::backend::shared::boxed;
use crate::backend::{Backend, Place, Streams};
use crate::error::{Error, Excerpt, Result};

/// A job, while its caller waits.
struct Work<'a> {
    job: &'a Transfer<'a>,
    sides: [Place; 2],
    outcome: Result<()>,
}

/// What has become of it. On the heap, since a driver that has failed may still come for it later.
struct Ticket {
    state: AtomicU32,
    work: *mut Work<'static>,
}

const WAITING: u32 = 0;
const BEGUN: u32 = 1;
const DONE: u32 = 2;
/// Nobody waits for it any more.
const GIVEN_UP: u32 = 3;

/// What the driver copies for the function, with the address of the buffer in it.
#[repr(C)]
struct Arguments {
    ticket: *mut Ticket,
    memory: *mut c_void,
    /// Of each side, how far behind that it starts; `None`: it is in the host's memory.
    origins: [Option<u64>; 2],
}

/// Does a job with sides in a buffer, or in parts of one, and waits. A side that is in none is the host's, or
/// lies in what is mapped, which may be so no earlier than the command begins.
///
/// One buffer, since PoCL 3.1 mixes up the addresses of two.
///
/// # Safety
/// The job may be done between both sides; buffers and events are of the lane's context.
pub unsafe fn run(
    job: &Transfer<'_>,
    lane: &Lane,
    buffers: [Option<&Buffer>; 2],
    sides: [Place; 2],
    mapped: Option<Mapped<'_>>,
    after: &List,
) -> Result<()> {
    let Some(whole) = buffers.into_iter().flatten().next().map(|buffer| buffer.whole) else { return Ok(()) };
    let mut work = Work { job, sides, outcome: Ok(()) };
    let ticket = Ticket { state: AtomicU32::new(WAITING), work: (&raw mut work).cast() };
    let ticket = Box::into_raw(boxed(ticket)?);
    // Of the whole buffer: not every driver gives parts of one their own addresses.
    let origins = buffers.map(|buffer| buffer.map(|buffer| buffer.origin as u64));
    let mut arguments = Arguments { ticket, memory: whole, origins };
    let mut place = (&raw const arguments.memory).cast::<c_void>();
    let (f, (count, events), mut event) = (lane.f, after.get(), null_mut());
    // SAFETY: the arguments are as large as they say; the ticket is there until it is done or given up.
    unsafe {
        let (copied, size) = ((&raw mut arguments).cast(), size_of::<Arguments>());
        let enqueued = call!(
            f,
            clEnqueueNativeKernel(
                lane.queue, function, copied, size, 1, &whole, &mut place, count, events, &mut event
            )
        );
        if let Err(error) = enqueued {
            drop(Box::from_raw(ticket));
            return Err(error);
        }
        let mut last = Event::new(f, event);
        let mut unmapped = Ok(());
        // In order: when it is unmapped, the job is done.
        match mapped.map(Mapped::unmap) {
            None => {}
            Some(Ok(event)) => last = event,
            Some(Err(error)) => unmapped = Err(error),
        }
        let waited = unmapped.and(lane.wait(&last));
        let state = &(*ticket).state;
        if state.compare_exchange(WAITING, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            // Its function finds the ticket given up, if it still runs at all.
            return waited.and(Err(Error::Internal(Excerpt::new("a native kernel did not run"))));
        }
        while state.load(Ordering::Acquire) != DONE {
            std::thread::yield_now();
        }
        drop(Box::from_raw(ticket));
        waited.and(work.outcome)
    }
}

/// What the driver runs.
///
/// # Safety
/// It gets [`Arguments`], with the addresses of the buffers.
unsafe extern "C" fn function(arguments: *mut c_void) {
    // SAFETY: the ticket is there until its work is done; the job is as the caller of run() says.
    unsafe {
        // The copy may lie anywhere.
        let arguments = arguments.cast::<Arguments>().read_unaligned();
        let ticket = arguments.ticket;
        let begun = (*ticket).state.compare_exchange(WAITING, BEGUN, Ordering::AcqRel, Ordering::Acquire);
        if begun.is_err() {
            drop(Box::from_raw(ticket));
            return;
        }
        let work = &mut *(*ticket).work;
        let place = |side: usize| match arguments.origins[side] {
            None => work.sides[side],
            Some(origin) => Place { data: arguments.memory as usize as u64 + origin, ..work.sides[side] },
        };
        let (from, to, job) = (place(0), place(1), work.job);
        let done = catch_unwind(AssertUnwindSafe(|| Host.transfer(job, &from, &to, &Streams::default())));
        work.outcome = done.unwrap_or(Err(Error::Internal(Excerpt::new("a panic in a native kernel"))));
        (*ticket).state.store(DONE, Ordering::Release);
    }
}
