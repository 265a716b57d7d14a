//! A job between its caller and a thread of a driver (src/backend/opencl/ticket.rs), which may come late, or never.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::sync::atomic::AtomicUsize;

use shuttle::rand::Rng;
use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread::yield_now;

use super::executions;

type Result<T> = std::result::Result<T, Error>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Error {
    Internal(Excerpt),
    Piece,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Excerpt;

impl Excerpt {
    fn new(_: &str) -> Excerpt {
        Excerpt
    }
}

#[derive(Clone, Copy)]
struct Instant;

impl Instant {
    fn now() -> Instant {
        Instant
    }
}

/// Patience ends as the scheduler likes.
fn is_patient(_: Instant, _: u64) -> bool {
    is_near(Instant)
}

fn is_near(_: Instant) -> bool {
    yield_now();
    shuttle::rand::thread_rng().gen_bool(0.7)
}

/// What a thread of the pool does for others is the pool's model.
fn lend(is_over: &dyn Fn() -> bool) {
    while !is_over() && is_near(Instant) {}
}

include!(concat!(env!("OUT_DIR"), "/ticket.rs"));

const MEMORY: u64 = 4096;
const COUNT: u32 = 3;

/// What has been done of a job, for as long as its caller is there.
struct Done {
    is_there: AtomicUsize,
    pieces: [AtomicUsize; COUNT as usize],
    whole: AtomicUsize,
    wrong: AtomicUsize,
}

struct Counted {
    done: Arc<Done>,
    fails: Option<u32>,
}

impl Job for Counted {
    fn count(&self) -> u32 {
        COUNT
    }

    fn bytes(&self) -> u64 {
        0
    }

    unsafe fn piece(&self, index: u32, memory: u64) -> Result<()> {
        let done = &self.done;
        done.pieces[index as usize].fetch_add(1, Ordering::SeqCst);
        yield_now();
        if memory != MEMORY || done.is_there.load(Ordering::SeqCst) == 0 {
            done.wrong.fetch_add(1, Ordering::SeqCst);
        }
        done.whole.fetch_add(1, Ordering::SeqCst);
        match self.fails {
            Some(at) if at == index => Err(Error::Piece),
            _ => Ok(()),
        }
    }
}

/// What the driver makes of a command.
#[derive(Clone, Copy, PartialEq)]
enum Driver {
    /// It runs, and then its event is done.
    Runs,
    /// Waiting fails, and the command runs all the same: before that, meanwhile or later.
    Loses,
    /// Waiting fails, and the command never runs.
    Drops,
}

std::thread_local! {
    /// Tickets that have been freed. A test, with all the threads of its model, is one thread.
    static FREED: Cell<usize> = const { Cell::new(0) };
}
/// What the state of such a ticket is, for which whoever still looks at it waits for ever.
const FREE: u32 = 99;

/// In place of the heap's: its memory stays, so that who comes too late is found out.
struct Box;

impl Box {
    unsafe fn from_raw<J>(ticket: *mut Ticket<J>) -> Box {
        FREED.set(FREED.get() + 1);
        // SAFETY: nothing is ever freed in truth.
        unsafe { (*ticket).state.store(FREE, Ordering::SeqCst) };
        Box
    }
}

fn execution(driver: Driver) {
    let fails = shuttle::rand::thread_rng().gen_bool(0.2).then_some(1);
    let done = Arc::new(Done {
        is_there: AtomicUsize::new(1),
        pieces: [const { AtomicUsize::new(0) }; COUNT as usize],
        whole: AtomicUsize::new(0),
        wrong: AtomicUsize::new(0),
    });
    let work = Work::new(Counted { done: done.clone(), fails });
    FREED.set(0);
    let memory = std::boxed::Box::new(Ticket::new(&work));
    let ticket = (&raw const *memory).cast_mut();
    let event = Arc::new((Mutex::new(false), Condvar::new()));
    let (address, signal, seen) = (ticket as usize, event.clone(), done.clone());
    let thread = shuttle::thread::spawn(move || {
        if driver != Driver::Drops {
            // SAFETY: it comes once; the ticket is there until both have ended it.
            unsafe { Ticket::<Counted>::serve(address as *mut Ticket<Counted>, MEMORY) };
            let whole = seen.whole.load(Ordering::SeqCst);
            // Commands that come after it find the job done.
            assert!(whole == COUNT as usize || driver != Driver::Runs && whole == 0);
        }
        *signal.0.lock().unwrap() = true;
        signal.1.notify_all();
    });
    if shuttle::rand::thread_rng().gen_bool(0.8) {
        // SAFETY: the ticket has not ended, and the work is there.
        unsafe { (*ticket).help() };
    }
    if driver == Driver::Runs {
        let mut ended = event.0.lock().unwrap();
        while !*ended {
            ended = event.1.wait(ended).unwrap();
        }
    }
    // SAFETY: as above.
    let was_done = unsafe { Ticket::end(ticket) };
    // From here on nobody comes for the work.
    done.is_there.store(0, Ordering::SeqCst);
    let outcome = work.outcome();
    let counts = || done.pieces.each_ref().map(|piece| piece.load(Ordering::SeqCst));
    let expected = [usize::from(was_done); COUNT as usize];
    assert_eq!(counts(), expected, "each piece is done once, or none");
    let failed = fails.filter(|_| was_done).map_or(Ok(()), |_| Err(Error::Piece));
    assert_eq!(outcome, failed, "what fails is told");
    match driver {
        Driver::Runs => assert!(was_done),
        Driver::Loses => {}
        Driver::Drops => assert!(!was_done),
    }
    thread.join().unwrap();
    assert_eq!(counts(), expected, "nothing is done after the end");
    // Of one that the driver has dropped it might still make use.
    assert_eq!(FREED.get(), usize::from(driver != Driver::Drops));
    assert_eq!(done.wrong.load(Ordering::SeqCst), 0, "a piece without its memory, or its caller");
}

fn in_every_order(driver: Driver) {
    shuttle::check_random(move || execution(driver), executions());
    shuttle::check_pct(move || execution(driver), executions(), 3);
}

#[test]
fn a_job_is_done_once() {
    in_every_order(Driver::Runs);
}

#[test]
fn a_lost_job_is_done_or_left_alone() {
    in_every_order(Driver::Loses);
}

#[test]
fn a_dropped_job_is_left_alone() {
    in_every_order(Driver::Drops);
}
