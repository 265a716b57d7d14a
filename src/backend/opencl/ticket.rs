//! A job that its caller and a thread of the driver's do together. The driver may come for it late, or never.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::yield_now;
use std::time::Instant;

use super::lane::{is_near, is_patient, lend};
use crate::error::{Error, Excerpt, Result};

/// A job in pieces.
pub trait Job {
    /// How many.
    fn count(&self) -> u32;

    /// That it writes.
    fn bytes(&self) -> u64;

    /// Does one of them.
    ///
    /// # Safety
    /// It may be done, by whoever takes it first, with a buffer at this address.
    unsafe fn piece(&self, index: u32, memory: u64) -> Result<()>;
}

/// A job while its caller waits. Pieces of it are for whoever comes.
pub struct Work<J> {
    job: J,
    /// Where the buffer is, from [`OPEN`] on.
    memory: AtomicU64,
    next: AtomicU32,
    finished: AtomicU32,
    /// What failed first.
    outcome: Mutex<Result<()>>,
}

impl<J: Job> Work<J> {
    pub fn new(job: J) -> Work<J> {
        Work {
            job,
            memory: AtomicU64::new(0),
            next: AtomicU32::new(0),
            finished: AtomicU32::new(0),
            outcome: Mutex::new(Ok(())),
        }
    }

    /// Does pieces while there are any.
    ///
    /// # Safety
    /// The job may be done, and the buffer is where it says.
    unsafe fn help(&self) {
        let memory = self.memory.load(Ordering::Relaxed);
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.job.count() {
                return;
            }
            // SAFETY: the pieces are the job, each once.
            let done = catch_unwind(AssertUnwindSafe(|| unsafe { self.job.piece(index, memory) }));
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
        self.finished.load(Ordering::Acquire) >= self.job.count()
    }

    /// What has come of it, once its ticket has ended.
    pub fn outcome(self) -> Result<()> {
        self.outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What has become of a job. On the heap, since a driver that has failed may still come for it later.
pub struct Ticket<J> {
    state: AtomicU32,
    work: *const Work<J>,
}

const WAITING: u32 = 0;
/// The driver's thread is there.
const BEGUN: u32 = 1;
/// Pieces may be taken.
const OPEN: u32 = 2;
const DONE: u32 = 3;
/// Nobody waits for it any more.
const GIVEN_UP: u32 = 4;

impl<J: Job> Ticket<J> {
    pub fn new(work: &Work<J>) -> Ticket<J> {
        Ticket { state: AtomicU32::new(WAITING), work }
    }

    fn is(&self, state: u32) -> bool {
        self.state.load(Ordering::Acquire) == state
    }

    /// For the caller, in place of sleep: looks for the driver's thread to come, does pieces, and looks for it to end.
    ///
    /// # Safety
    /// The ticket has not ended, and its work is there.
    pub unsafe fn help(&self) {
        // SAFETY: the caller's.
        let work = unsafe { &*self.work };
        let (since, bytes) = (Instant::now(), work.job.bytes());
        while (self.is(WAITING) || self.is(BEGUN)) && is_patient(since, bytes) {}
        if self.is(OPEN) {
            // Of what is in one piece the driver's thread makes a job of the host's, if of anything.
            if work.job.count() > 1 {
                // SAFETY: the caller's; the ticket is open.
                unsafe { work.help() };
            }
            lend(&|| self.is(DONE));
        }
    }

    /// For the caller, who has waited: after this nobody comes for the work. Whether it was done; where it was
    /// not, the driver's thread finds the ticket given up, if it still comes at all.
    ///
    /// # Safety
    /// As [`Ticket::help`]; it is of a box, whose it is no longer.
    pub unsafe fn end(ticket: *mut Ticket<J>) -> bool {
        // SAFETY: the ticket is there until both have ended it.
        unsafe {
            let state = &(*ticket).state;
            if state.compare_exchange(WAITING, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return false;
            }
            while !(*ticket).is(DONE) {
                yield_now();
            }
            drop(Box::from_raw(ticket));
        }
        true
    }

    /// For the driver's thread: does pieces, and lets the caller go when all are done.
    ///
    /// # Safety
    /// It comes once, with the address of the work's buffer.
    pub unsafe fn serve(ticket: *mut Ticket<J>, memory: u64) {
        // SAFETY: the ticket is there until its work is done; the job is as its caller says.
        unsafe {
            let state = &(*ticket).state;
            if state.compare_exchange(WAITING, BEGUN, Ordering::AcqRel, Ordering::Acquire).is_err() {
                drop(Box::from_raw(ticket));
                return;
            }
            let work = &*(*ticket).work;
            work.memory.store(memory, Ordering::Relaxed);
            state.store(OPEN, Ordering::Release);
            work.help();
            // The caller may still be at a piece; it takes no other.
            let since = Instant::now();
            while !work.is_finished() {
                if !is_near(since) {
                    yield_now();
                }
            }
            state.store(DONE, Ordering::Release);
        }
    }
}
