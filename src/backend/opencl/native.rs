//! Jobs on a device that is the host's processor: the driver runs a function of ours on its thread (a native
//! kernel), which gets the addresses of buffers and has the host's kernels work there. That is one command
//! and one wait; to map and unmap is two of each. Of two buffers the source is mapped, without waiting.
//!
//! Most of a small job is to have the driver's thread woken and to be woken by it. So the caller does not
//! sleep: it waits for the function to begin, and does half of the job: of a small one pieces, of one that the host
//! shares among its threads what one of those would.

use std::ffi::c_void;
use std::ptr::null_mut;

use super::buffer::Buffer;
use super::driver::call;
use super::events::{Event, List};
use super::lane::Lane;
use super::map::Mapped;
use super::pieces::{Pieces, written};
use super::ticket::{Job, Ticket, Work};
use crate::backend::host::Host;
use crate::backend::job::Transfer;
use crate::backend::shared::boxed;
use crate::backend::{Backend, Place, Streams};
use crate::error::{Error, Excerpt, Result};

/// A job, in the buffer that the function is shown.
struct InBuffer<'a> {
    job: &'a Transfer<'a>,
    sides: [Place; 2],
    /// Of each side, how far behind the buffer's memory it starts; `None`: it is in the host's memory.
    origins: [Option<u64>; 2],
    pieces: Pieces,
}

impl Job for InBuffer<'_> {
    fn count(&self) -> u32 {
        self.pieces.count
    }

    fn bytes(&self) -> u64 {
        written(self.job)
    }

    unsafe fn piece(&self, index: u32, memory: u64) -> Result<()> {
        let place = |side: usize| match self.origins[side] {
            None => self.sides[side],
            Some(origin) => Place { data: memory + origin, ..self.sides[side] },
        };
        let (from, to) = (place(0), place(1));
        self.pieces.piece(self.job, index, |piece| {
            // SAFETY: the caller's.
            unsafe { Host.transfer(piece, &from, &to, &Streams::default()) }
        })
    }
}

/// What the driver copies for the function, with the address of the buffer in it.
#[repr(C)]
struct Arguments {
    ticket: *mut Ticket<InBuffer<'static>>,
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
    let is_watched = lane.is_watched();
    let work = Work::new(InBuffer {
        job,
        sides,
        // Of the whole buffer: not every driver gives parts of one their own addresses.
        origins: buffers.map(|buffer| buffer.map(|buffer| buffer.origin as u64)),
        pieces: if is_watched { Pieces::of(job) } else { Pieces::ONE },
    });
    let ticket = Box::into_raw(boxed(Ticket::new(&work))?);
    let mut arguments = Arguments { ticket: ticket.cast(), memory: whole };
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
            (*ticket).help();
            // Also where it could not be flushed.
            flushed.and(lane.watch(&last))
        });
        match Ticket::end(ticket) {
            true => waited.and(work.outcome()),
            false => waited.and(Err(Error::Internal(Excerpt::new("a native kernel did not run")))),
        }
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
        Ticket::serve(arguments.ticket, arguments.memory as usize as u64);
    }
}
