//! Jobs on a device that is the host's processor: the driver runs a function of ours on its thread (a native
//! kernel), which gets the addresses of buffers and has the host's kernels work there. That is one command
//! and one wait; to map and unmap is two of each.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use opencl3::types::{cl_mem, cl_uint};

use super::buffer::Buffer;
use super::driver::call;
use super::events::{Event, List};
use super::lane::Lane;
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

/// What the driver copies for the function, with the addresses of the buffers in it.
#[repr(C)]
struct Arguments {
    ticket: *mut Ticket,
    /// Addresses of buffers, each once.
    memory: [*mut c_void; 2],
    /// Of each side: which buffer it is in, and where; `None`: the host's memory.
    places: [Option<(usize, u64)>; 2],
}

/// Does a job on buffers, NULL where a side is the host's own memory, and waits.
///
/// # Safety
/// The job may be done between both sides; buffers and events are of the lane's context.
pub unsafe fn run(
    job: &Transfer<'_>,
    lane: &Lane,
    buffers: [Option<&Buffer>; 2],
    sides: [&Place; 2],
    after: &List,
) -> Result<()> {
    let mut work = Work { job, sides: sides.map(|place| *place), outcome: Ok(()) };
    let ticket = Ticket { state: AtomicU32::new(WAITING), work: (&raw mut work).cast() };
    let ticket = Box::into_raw(boxed(ticket)?);
    let mut arguments = Arguments { ticket, memory: [null_mut(); 2], places: [None; 2] };
    let mut used = 0;
    for (side, buffer) in buffers.into_iter().enumerate() {
        let Some(Buffer { whole, origin, .. }) = buffer else { continue };
        // The whole buffer: not every driver gives parts of one their own addresses.
        let index = arguments.memory[..used].iter().position(|mem| mem == whole).unwrap_or(used);
        arguments.memory[index] = *whole;
        arguments.places[side] = Some((index, *origin as u64));
        used = used.max(index + 1);
    }
    let list: [cl_mem; 2] = arguments.memory;
    let [first, second] = &arguments.memory;
    let mut places = [(&raw const *first).cast::<c_void>(), (&raw const *second).cast()];
    let (f, (count, events), mut event) = (lane.f, after.get(), null_mut());
    // SAFETY: the arguments are as large as they say; the ticket is there until it is done or given up.
    unsafe {
        let place = (&raw mut arguments).cast();
        let size = size_of::<Arguments>();
        let enqueued = call!(
            f,
            clEnqueueNativeKernel(
                lane.queue,
                function,
                place,
                size,
                used as cl_uint,
                list.as_ptr(),
                places.as_mut_ptr(),
                count,
                events,
                &mut event
            )
        );
        if let Err(error) = enqueued {
            drop(Box::from_raw(ticket));
            return Err(error);
        }
        let waited = lane.wait(&Event::new(f, event));
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
        let place = |side: usize| match arguments.places[side] {
            None => work.sides[side],
            Some((index, origin)) => {
                Place { data: arguments.memory[index] as usize as u64 + origin, ..work.sides[side] }
            }
        };
        let (from, to, job) = (place(0), place(1), work.job);
        let done = catch_unwind(AssertUnwindSafe(|| Host.transfer(job, &from, &to, &Streams::default())));
        work.outcome = done.unwrap_or(Err(Error::Internal(Excerpt::new("a panic in a native kernel"))));
        (*ticket).state.store(DONE, Ordering::Release);
    }
}
