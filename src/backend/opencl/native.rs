//! Jobs on a device that is the host's processor: the driver runs a function of ours on its thread (a native
//! kernel), which gets the addresses of buffers and has the host's kernels work there. That is one command
//! and one wait; to map and unmap is two of each. Of two buffers the source is mapped, without waiting.
//!
//! Most of a small job is to have the driver's thread woken and to be woken by it. So the caller does not
//! sleep: it waits for the function to begin, and does half of the job: of a small one pieces, of one that the host
//! shares among its threads what one of those would.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::buffer::Buffer;
use super::driver::call;
use super::events::{Event, List};
use super::lane::{Lane, is_near, is_patient, lend};
use super::map::Mapped;
use super::pieces::{Pieces, written};
use crate::backend::host::Host;
use crate::backend::job::Transfer;
use crate::backend::shared::boxed;
use crate::backend::{Backend, Place, Streams};
use crate::error::{Error, Excerpt, Result};

/// A job, while its caller waits. Pieces of it are for whoever comes.
struct Work<'a> {
    job: &'a Transfer<'a>,
    sides: [Place; 2],
    /// Of each side, how far behind the buffer's memory it starts; `None`: it is in the host's memory.
    origins: [Option<u64>; 2],
    /// Where the buffer is, from [`OPEN`] on.
    memory: AtomicU64,
    pieces: Pieces,
    next: AtomicU32,
    finished: AtomicU32,
    /// What failed first.
    outcome: Mutex<Result<()>>,
}

impl Work<'_> {
    /// Does pieces while there are any.
    ///
    /// # Safety
    /// The job may be done between its sides, of which the buffer is where it says.
    unsafe fn help(&self) {
        let memory = self.memory.load(Ordering::Relaxed);
        let place = |side: usize| match self.origins[side] {
            None => self.sides[side],
            Some(origin) => Place { data: memory + origin, ..self.sides[side] },
        };
        let (from, to) = (place(0), place(1));
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.pieces.count {
                return;
            }
            let done = catch_unwind(AssertUnwindSafe(|| {
                self.pieces.piece(self.job, index, |piece| {
                    // SAFETY: the pieces are the job, each once.
                    unsafe { Host.transfer(piece, &from, &to, &Streams::default()) }
                })
            }));
            let done = done.unwrap_or(Err(Error::Internal(Excerpt::new("a panic in a native kernel"))));
            if done.is_err() {
                let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
                *outcome = outcome.and(done);
            }
            self.finished.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether every piece has been done.
    fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire) >= self.pieces.count
    }
}

/// What has become of it. On the heap, since a driver that has failed may still come for it later.
struct Ticket {
    state: AtomicU32,
    work: *const Work<'static>,
}

const WAITING: u32 = 0;
/// The function is there.
const BEGUN: u32 = 1;
/// Pieces may be taken.
const OPEN: u32 = 2;
const DONE: u32 = 3;
/// Nobody waits for it any more.
const GIVEN_UP: u32 = 4;

impl Ticket {
    fn is(&self, state: u32) -> bool {
        self.state.load(Ordering::Acquire) == state
    }
}

/// What the driver copies for the function, with the address of the buffer in it.
#[repr(C)]
struct Arguments {
    ticket: *mut Ticket,
    memory: *mut c_void,
}

/// Does a job with sides in a buffer, or in parts of one, and waits. A side that is in none is
/// the host's, or lies in what is mapped, which may be so no earlier than the command begins.
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
    let (is_watched, bytes) = (lane.is_watched(), written(job));
    let work = Work {
        job,
        sides,
        // Of the whole buffer: not every driver gives parts of one their own addresses.
        origins: buffers.map(|buffer| buffer.map(|buffer| buffer.origin as u64)),
        memory: AtomicU64::new(0),
        pieces: if is_watched { Pieces::of(job) } else { Pieces::ONE },
        next: AtomicU32::new(0),
        finished: AtomicU32::new(0),
        outcome: Mutex::new(Ok(())),
    };
    let ticket = Ticket { state: AtomicU32::new(WAITING), work: (&raw const work).cast() };
    let ticket = Box::into_raw(boxed(ticket)?);
    let mut arguments = Arguments { ticket, memory: whole };
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
        let waited = unmapped.and_then(|()| {
            if !is_watched {
                return lane.wait(&last);
            }
            let flushed = lane.flush();
            let since = Instant::now();
            while ((*ticket).is(WAITING) || (*ticket).is(BEGUN)) && is_patient(since, bytes) {}
            if (*ticket).is(OPEN) {
                // Of what is in one piece the driver's thread makes a job of the host's, if of anything.
                if work.pieces.count > 1 {
                    work.help();
                }
                lend(&|| (*ticket).is(DONE));
            }
            // Also where it could not be flushed.
            flushed.and(lane.watch(&last))
        });
        let state = &(*ticket).state;
        if state.compare_exchange(WAITING, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            // Its function finds the ticket given up, if it still runs at all.
            return waited.and(Err(Error::Internal(Excerpt::new("a native kernel did not run"))));
        }
        while state.load(Ordering::Acquire) != DONE {
            std::thread::yield_now();
        }
        drop(Box::from_raw(ticket));
        waited.and(work.outcome.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What the driver runs.
///
/// # Safety
/// It gets [`Arguments`], with the address of the buffer.
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
        let work = &*(*ticket).work;
        work.memory.store(arguments.memory as usize as u64, Ordering::Relaxed);
        (*ticket).state.store(OPEN, Ordering::Release);
        work.help();
        // The caller may still be at a piece; it takes no other.
        let since = Instant::now();
        while !work.is_finished() {
            if !is_near(since) {
                std::thread::yield_now();
            }
        }
        (*ticket).state.store(DONE, Ordering::Release);
    }
}
