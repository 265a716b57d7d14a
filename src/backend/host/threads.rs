//! Threads that help with large host copies: one pool for the process.
//!
//! Jobs stand in a list, and whoever is free takes a task of one; a caller takes those of its own. It
//! waits only for tasks that somebody has begun, so busy, late or missing workers cost time and nothing
//! else, and tasks may run jobs themselves. A job that comes again finds in the caches of each thread what
//! that one had of it, for each begins with its own share of the tasks.
//!
//! All that threads share is behind one lock, which is held for a few instructions and never while a
//! task runs. A job for one helper goes around it where somebody is looking for one: it is offered, and whoever takes the
//! offer has its half. Nothing exists before the first job that more than one thread may share.

use std::any::Any;
use std::cell::UnsafeCell;
#[cfg(unix)]
use std::ffi::c_void;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::affinity::{self, Off};

/// Runs `task(0)` to `task(tasks - 1)`, each once, on the calling thread and on at most `threads - 1`
/// others, and returns when all are done: how long it has waited for others at the end. A panic of a task comes
/// out here.
///
/// Handing a task out costs a lock: it should be worth ten microseconds or more. A task must not fork.
#[allow(dead_code, reason = "only staging has functions for tasks")]
pub fn run(threads: usize, tasks: usize, task: &(impl Fn(usize) + Sync)) -> Duration {
    share(threads, tasks, task)
}

/// The same for a task that is no function.
pub fn share(threads: usize, tasks: usize, task: &dyn Task) -> Duration {
    let helpers = threads.min(tasks).saturating_sub(1).min(MAX_WORKERS);
    if helpers > 0
        && let Some(pool) = pool()
    {
        pool.share(helpers, tasks, task)
    } else {
        (0..tasks).for_each(|index| task.perform(index));
        Duration::ZERO
    }
}

/// Asks for what is in these bytes, which somebody else may be about to write or to free.
fn ask_for(at: *const u8, bytes: usize) {
    super::stream::prefetch_bytes(at, bytes as isize);
}

/// Does tasks of anybody's jobs, as a worker does, until `is_over` says so, or until for a while there has been
/// none: for a thread that is awake and waits for another, which is about to have a job. No worker is woken in its
/// place.
#[allow(dead_code, reason = "only OpenCL waits in that way")]
pub fn help(patience: Duration, is_over: &dyn Fn() -> bool) {
    if let Some(pool) = pool() {
        pool.help(patience, is_over);
    }
}

/// How many threads the calling one may run at once: what its affinity and the control group's quota
/// allow, at least 1. Asks the system: for large jobs only.
pub fn available() -> usize {
    /// Files are read again after so many seconds; quotas change rarely.
    const KEEP_SECONDS: u64 = 10;
    /// What was found: at which second, for how many processors, how many threads. 0: nothing yet.
    static FOUND: AtomicU64 = AtomicU64::new(0);
    const FIELD: u32 = 16;
    const MAX: usize = (1 << FIELD) - 1;

    let processors = affinity::processors().min(MAX);
    if processors == 1 {
        return 1;
    }
    let now = nanoseconds() / 1_000_000_000;
    let found = FOUND.load(Ordering::Relaxed);
    let (second, for_processors, threads) =
        (found >> (2 * FIELD), (found >> FIELD) as usize & MAX, found as usize & MAX);
    if found != 0 && for_processors == processors && now.wrapping_sub(second) < KEEP_SECONDS {
        return threads;
    }
    // Not the standard library's count of processors, which ends the process where memory is short.
    let threads = super::system::quota().min(processors);
    let found = now << (2 * FIELD) | (processors as u64) << FIELD | threads as u64;
    FOUND.store(found, Ordering::Relaxed);
    threads
}

/// The same for jobs in a row, each of which takes little longer than to ask: as the calling thread had it a moment ago,
/// at most 255. None: now is a moment after the time that was given last.
pub fn available_lately(now: Option<u64>) -> usize {
    /// Bits of a time that count less than a moment, about a tenth of a millisecond.
    const MOMENT: u32 = 17;
    const MOMENTS: u64 = 1 << 24;
    /// What was found last: by whom, in which moment, how many. Not thread-local (`transpose::stage` says why).
    static LAST: AtomicU64 = AtomicU64::new(0);
    let caller = (super::thread() >> 6) as u32;
    let last = LAST.load(Ordering::Relaxed);
    let moment = now.map_or(last >> 8, |now| now >> MOMENT) % MOMENTS;
    let key = u64::from(caller) * MOMENTS + moment;
    if last >> 8 == key && last & 0xff > 0 {
        return (last & 0xff) as usize;
    }
    let threads = available().min(0xff);
    LAST.store(key << 8 | threads as u64, Ordering::Relaxed);
    threads
}

/// Whether somebody looks for work, about.
pub fn is_anybody_looking() -> bool {
    pool().is_some_and(|pool| pool.hints.looking.load(Ordering::Relaxed) > 0)
}

/// Since some time.
pub fn nanoseconds() -> u64 {
    #[cfg(unix)]
    {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the time is written to a place of ours.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
    #[cfg(not(unix))]
    {
        std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64)
    }
}

/// Workers there are at most, whatever is asked for.
const MAX_WORKERS: usize = 255;
/// Room for a kernel's tiles, and for the thread-local storage of a large program.
const STACK_BYTES: usize = 512 << 10;
/// How long a thread that has just worked looks for more before it sleeps: some times what waking it costs, and as long as an
/// interpreter may take from one call to the next.
pub const LOOKING: Duration = Duration::from_micros(50);
/// How often a thread looks for what it waits for before it looks at a clock.
const LOOKS: usize = 8;
/// How long a caller looks for the end of a job before others may have its processor.
const SPIN: Duration = Duration::from_micros(20);
/// How long the caller of a job looks for its end before it sleeps. Its waking takes longer than others take to finish,
/// and by then they sleep, so that the next job has to wake them, and its caller sleeps again: jobs in a row would go on
/// in that way for seconds.
pub const PATIENCE: Duration = Duration::from_micros(200);
/// Shares of a job's tasks at most; more threads have some together.
const SHARES: usize = 16;
/// Bytes of a task that are asked for, by who writes it and by who takes an offer; what lies behind is rarely looked at.
pub const NEAR: usize = 256;
/// The number of who has the first one.
const CALLER: usize = 0;
/// The number of a worker, and of who helps in its place.
const FIRST_WORKER: usize = 1;
/// How many sleepers a thread wakes at once; those wake more.
const CALLS: usize = 2;

/// What threads do for a job, all of which they find in one place.
pub trait Task: Sync {
    /// The one of that number.
    fn perform(&self, index: usize);
}

impl<F: Fn(usize) + Sync> Task for F {
    fn perform(&self, index: usize) {
        self(index)
    }
}

/// The caller's, as long as it waits.
type Shared = &'static dyn Task;
type Panic = Box<dyn Any + Send>;

struct Pool {
    state: Mutex<State>,
    /// Sleeping workers wait here.
    work: Condvar,
    /// Sleeping callers wait here.
    done: Condvar,
    /// Whether a caller has the offer. Not in its line, which threads look at who wait for one.
    offers: AtomicBool,
    /// What is known without the lock.
    hints: Hints,
}

/// What threads look at while they spin, on a cache line of its own.
#[repr(align(128))]
struct Hints {
    /// Counts jobs that come and jobs that are done, so that threads can spin without the lock. Only
    /// a hint, which is given once the lock is free: who sees it wants the lock.
    changes: AtomicU32,
    /// Workers that look for work without sleeping, and threads that do so while they wait for something else. Who no
    /// longer does looks once more at the list of jobs, so that those who count on it can.
    looking: AtomicU32,
    offer: Offer,
}

impl Hints {
    /// How many look for work and do none, about.
    fn free(&self) -> usize {
        // Who has taken what was offered looks again when it is done, without another word: each would take the line from
        // the caller.
        let is_taken = matches!(self.offer.state.load(Ordering::Relaxed), TAKEN | AWAITED);
        (self.looking.load(Ordering::Relaxed) as usize).saturating_sub(is_taken.into())
    }
}

/// A job for its caller and one of those who are looking, in the line that they look at: nothing else goes from one to the
/// other, but for what the task needs.
struct Offer {
    /// [`CLOSED`] and so on.
    state: AtomicU32,
    /// Where the caller ran when the job came.
    processor: UnsafeCell<i32>,
    halves: Halves,
    task: UnsafeCell<Option<Shared>>,
    /// Where that is, for who has not taken it yet, and how many bytes it is.
    near: AtomicPtr<u8>,
    bytes: AtomicU32,
    /// The helper's, once it is through.
    panic: UnsafeCell<Option<Panic>>,
}

// SAFETY: the caller who has it writes to it while it is closed; who has taken it, until it is closed again.
unsafe impl Sync for Offer {}

/// Nothing is offered, or who has taken it is through, and does not look at it again.
const CLOSED: u32 = 0;
/// Whoever looks for work may take it.
const OPEN: u32 = 1;
/// Somebody works on it.
const TAKEN: u32 = 2;
/// The same, and the caller sleeps.
const AWAITED: u32 = 3;

/// Tasks that nobody has begun, for two: in each half the first one and the end, of 16 bits each.
struct Halves(AtomicU64);

impl Halves {
    /// Tasks at most.
    const MOST: usize = u16::MAX as usize;

    /// Of so many, without the first one.
    fn set(&self, tasks: usize) {
        let middle = tasks.div_ceil(2) as u16;
        self.0.store(Halves::packed([1, middle, middle, tasks as u16]), Ordering::Relaxed);
    }

    fn packed(ends: [u16; 4]) -> u64 {
        ends.iter().rev().fold(0, |all, end| all << 16 | u64::from(*end))
    }

    /// The next one of the thread's own half, the first one or the second, else the last one of the other.
    fn take(&self, half: usize) -> Option<usize> {
        let mut left = self.0.load(Ordering::Relaxed);
        loop {
            let mut ends: [u16; 4] = std::array::from_fn(|index| (left >> (16 * index)) as u16);
            let (own, other) = (2 * half, 2 - 2 * half);
            let task = if ends[own] < ends[own + 1] {
                ends[own] += 1;
                ends[own] - 1
            } else if ends[other] < ends[other + 1] {
                ends[other + 1] -= 1;
                ends[other + 1]
            } else {
                return None;
            };
            let ends = Halves::packed(ends);
            // Which of the two has a task is all that is decided here.
            match self.0.compare_exchange(left, ends, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(task.into()),
                Err(now) => left = now,
            }
        }
    }
}

impl Offer {
    const fn new() -> Offer {
        Offer {
            state: AtomicU32::new(CLOSED),
            processor: UnsafeCell::new(-1),
            halves: Halves(AtomicU64::new(0)),
            task: UnsafeCell::new(None),
            near: AtomicPtr::new(std::ptr::null_mut()),
            bytes: AtomicU32::new(0),
            panic: UnsafeCell::new(None),
        }
    }

    /// From one of those to another, if it is so.
    fn turns(&self, from: u32, to: u32) -> bool {
        // Who turns it sees what who turned it before has written, and shows what it has.
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Does a task, if there is one, and what is left of one half, and then of the other. The first panic of a task.
    fn perform(&self, task: Shared, mut next: Option<usize>, half: usize) -> Option<Panic> {
        let mut panic = None;
        while let Some(index) = next {
            let result = catch_unwind(AssertUnwindSafe(|| task.perform(index)));
            panic = panic.or(result.err());
            next = self.halves.take(half);
        }
        panic
    }
}

struct State {
    jobs: Vec<Job>,
    last_id: u64,
    /// Workers that exist or are being made.
    workers: usize,
    /// Workers that have begun, each of which has its number, from 1 on.
    numbers: usize,
    /// Workers that sleep and have not been called.
    sleeping: usize,
    /// Workers that were called and are not awake yet.
    called: usize,
    /// Callers that sleep until their job is done.
    waiting: usize,
    /// What keeps workers that sleep, by their numbers, off where callers were.
    kept_off: Vec<(usize, Off)>,
    /// A job has come or is done, and whoever has the lock is to say so when it lets go of it.
    changed: bool,
}

struct Job {
    id: u64,
    /// The caller's, and only as long as the job is in the list.
    task: Shared,
    /// Where the caller ran when the job came.
    processor: i32,
    tasks: Tasks,
    /// Workers that run a task of it now, and how many may.
    helpers: usize,
    max_helpers: usize,
    panic: Option<Panic>,
}

/// A task, and what is said of its job.
struct Picked {
    id: u64,
    task: Shared,
    index: usize,
    processor: i32,
}

/// Those of a job that nobody has begun: a share for each thread, in order.
struct Tasks {
    shares: [Range<usize>; SHARES],
    count: usize,
    left: usize,
}

impl Tasks {
    fn new(tasks: usize, threads: usize) -> Tasks {
        let count = threads.clamp(2, SHARES);
        let begin = |share: usize| (share * (tasks / count) + share.min(tasks % count)).min(tasks);
        Tasks { shares: std::array::from_fn(|share| begin(share)..begin(share + 1)), count, left: tasks }
    }

    /// The next one of the thread's own share, else the last one of whose share has most.
    fn take(&mut self, thread: usize) -> Option<usize> {
        let shares = &mut self.shares[..self.count];
        // The first is the caller's alone.
        let own = if thread == CALLER { 0 } else { 1 + (thread - 1) % (self.count - 1) };
        let own = shares[own].next();
        let index = own.or_else(|| shares.iter_mut().max_by_key(|share| share.len())?.next_back())?;
        self.left -= 1;
        Some(index)
    }
}

impl Job {
    /// How many more workers it could use now.
    fn places(&self) -> usize {
        (self.max_helpers - self.helpers).min(self.tasks.left)
    }
}

impl State {
    fn job(&mut self, id: u64) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.id == id)
    }

    /// A task for the worker of that number: of the job that has the fewest.
    fn pick(&mut self, worker: usize) -> Option<Picked> {
        let open = self.jobs.iter_mut().filter(|job| job.places() > 0);
        let job = open.min_by_key(|job| job.helpers)?;
        let index = job.tasks.take(worker)?;
        job.helpers += 1;
        Some(Picked { id: job.id, task: job.task, index, processor: job.processor })
    }

    /// How many more workers all jobs could use now.
    fn places(&self) -> usize {
        self.jobs.iter().map(Job::places).sum()
    }

    /// Counts the sleepers off that are to be woken now, where so many threads look for work, by the calling thread. One that
    /// could only run where that one does, which has moved since, would wait for it.
    fn call(&mut self, hints: &Hints) -> usize {
        if self.sleeping == 0 {
            return 0;
        }
        let awake = hints.free() + self.called;
        let calls = self.places().saturating_sub(awake).min(self.sleeping).min(CALLS);
        self.sleeping -= calls;
        self.called += calls;
        if calls > 0 {
            let here = affinity::processor();
            self.kept_off.iter_mut().for_each(|(_, off)| off.turn(here));
        }
        calls
    }
}

impl Pool {
    const fn new() -> Pool {
        let state = State {
            jobs: Vec::new(),
            last_id: 0,
            workers: 0,
            numbers: 0,
            sleeping: 0,
            called: 0,
            waiting: 0,
            kept_off: Vec::new(),
            changed: false,
        };
        Pool {
            state: Mutex::new(state),
            work: Condvar::new(),
            done: Condvar::new(),
            offers: AtomicBool::new(false),
            hints: Hints { changes: AtomicU32::new(0), looking: AtomicU32::new(0), offer: Offer::new() },
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the lock, and tells others what has changed.
    fn unlock(&self, mut state: MutexGuard<'_, State>) {
        let changed = std::mem::take(&mut state.changed);
        let is_awaited = changed && state.waiting > 0;
        drop(state);
        if changed {
            self.hints.changes.fetch_add(1, Ordering::Relaxed);
        }
        if is_awaited {
            self.done.notify_all();
        }
    }

    fn wake(&self, calls: usize) {
        (0..calls).for_each(|_| self.work.notify_one());
    }

    #[cfg(test)]
    fn run(&'static self, helpers: usize, tasks: usize, task: &(impl Fn(usize) + Sync)) -> Duration {
        self.share(helpers, tasks, task)
    }

    fn share(&'static self, helpers: usize, tasks: usize, task: &dyn Task) -> Duration {
        // SAFETY: only the lifetime changes. The reference is called by those who took a task of the
        // job; this function takes the job off the list when no task is left and nobody runs one, and
        // returns after that only: from here to there, nothing unwinds.
        let task: Shared = unsafe { std::mem::transmute(task) };
        let processor = affinity::processor();
        if helpers == 1
            && tasks <= Halves::MOST
            && let Some((panic, waited)) = self.offer(tasks, task, processor)
        {
            if let Some(panic) = panic {
                resume_unwind(panic);
            }
            return waited;
        }
        let mut shares = Tasks::new(tasks, helpers + 1);
        let mut next = shares.take(CALLER);
        let mut state = self.lock();
        if state.workers < helpers {
            self.unlock(state);
            self.hire(helpers);
            state = self.lock();
        }
        if state.jobs.try_reserve(1).is_err() {
            self.unlock(state);
            (0..tasks).for_each(|index| task.perform(index));
            return Duration::ZERO;
        }
        state.last_id += 1;
        let id = state.last_id;
        let tasks = shares;
        state.jobs.push(Job { id, task, processor, tasks, helpers: 0, max_helpers: helpers, panic: None });
        state.changed = true;
        let calls = state.call(&self.hints);
        self.unlock(state);
        self.wake(calls);

        let state = loop {
            let result = next.map_or(Ok(()), |index| catch_unwind(AssertUnwindSafe(|| task.perform(index))));
            let mut state = self.lock();
            let Some(job) = state.job(id) else { return Duration::ZERO };
            job.panic = job.panic.take().or(result.err());
            next = job.tasks.take(CALLER);
            if next.is_none() {
                break state;
            }
            self.unlock(state);
        };
        let (panic, waited) = self.finish(state, id);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        waited
    }

    /// Offers a job to whoever is looking for one, and does it with that one's help, or without if nobody comes. None:
    /// nobody looks, or another job is offered. Else a panic, and how long it was waited for the helper at the end.
    fn offer(&self, tasks: usize, task: Shared, processor: i32) -> Option<(Option<Panic>, Duration)> {
        let Hints { offer, looking, .. } = &self.hints;
        if looking.load(Ordering::Relaxed) == 0 || self.offers.swap(true, Ordering::Acquire) {
            return None;
        }
        // Nothing waits for the line here, which others have: all of this is written when it comes.
        // SAFETY: it is this thread's, and closed.
        unsafe {
            *offer.processor.get() = processor;
            *offer.task.get() = Some(task);
        }
        offer.near.store(std::ptr::from_ref(task).cast_mut().cast(), Ordering::Relaxed);
        offer.bytes.store(size_of_val(task).min(NEAR) as u32, Ordering::Relaxed);
        offer.halves.set(tasks);
        offer.state.store(OPEN, Ordering::Release);
        let mut panic = offer.perform(task, Some(0), CALLER);
        let mut waited = Duration::ZERO;
        // As a rule somebody has come, who has that line.
        if offer.state.load(Ordering::Relaxed) != OPEN || !offer.turns(OPEN, CLOSED) {
            waited = self.wait_for(offer);
            // SAFETY: the helper is through, and it is this thread's.
            let others = unsafe { &mut *offer.panic.get() };
            // Who writes takes the line from the one who looks at it.
            if others.is_some() {
                panic = panic.or(others.take());
            }
        }
        self.offers.store(false, Ordering::Release);
        Some((panic, waited))
    }

    /// Waits until who has taken an offer is through. How long that took, as of when the clock was last looked at.
    fn wait_for(&self, offer: &Offer) -> Duration {
        let is_done = || offer.state.load(Ordering::Acquire) == CLOSED;
        let (mut since, mut waited) = (None, Duration::ZERO);
        while !is_done() {
            if waited >= PATIENCE {
                if offer.turns(TAKEN, AWAITED) {
                    let mut state = self.lock();
                    state.waiting += 1;
                    while !is_done() {
                        state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
                    }
                    state.waiting -= 1;
                }
                waited = since.map_or(waited, |since: Instant| since.elapsed());
                continue;
            }
            // The helper is about to be through as a rule, and to look at a clock takes longer than that.
            for _ in 0..LOOKS {
                std::hint::spin_loop();
                if is_done() {
                    return waited;
                }
            }
            waited = since.get_or_insert_with(Instant::now).elapsed();
            // Who helps may have no other processor to go on.
            if waited > SPIN {
                thread::yield_now();
            }
        }
        waited
    }

    /// Takes what is offered, if anything is, and does its half: where its caller was.
    fn accept(&self) -> Option<i32> {
        let offer = &self.hints.offer;
        if offer.state.load(Ordering::Acquire) != OPEN {
            return None;
        }
        // Before this line is this thread's alone, which everything after it waits for.
        ask_for(offer.near.load(Ordering::Relaxed), offer.bytes.load(Ordering::Relaxed) as usize);
        if !offer.turns(OPEN, TAKEN) {
            return None;
        }
        // SAFETY: it was written before it was open, and its caller waits for this thread.
        let (task, processor) = unsafe { (*offer.task.get(), *offer.processor.get()) };
        let panic = task.and_then(|task| offer.perform(task, offer.halves.take(FIRST_WORKER), FIRST_WORKER));
        if panic.is_some() {
            // SAFETY: its caller looks at it when this thread is through.
            unsafe { *offer.panic.get() = panic };
        }
        if offer.state.swap(CLOSED, Ordering::AcqRel) == AWAITED {
            // Not between the caller's last look and its sleep.
            drop(self.lock());
            self.done.notify_all();
        }
        Some(processor)
    }

    /// Waits until nobody runs a task of a job, of which none is left, and takes it off the list. How long that took,
    /// as of when somebody last looked.
    fn finish<'a>(&'a self, mut state: MutexGuard<'a, State>, id: u64) -> (Option<Panic>, Duration) {
        // Nobody looks at a clock who has the lock.
        let (mut since, mut waited) = (None, Duration::ZERO);
        loop {
            let done = state.jobs.iter().position(|job| job.id == id && job.helpers == 0);
            if let Some(done) = done {
                let panic = state.jobs.swap_remove(done).panic;
                self.unlock(state);
                return (panic, waited);
            }
            if waited < PATIENCE {
                state = self.spin(state, || {
                    waited = since.get_or_insert_with(Instant::now).elapsed();
                    // Who helps may have no other processor to go on.
                    if waited > SPIN {
                        thread::yield_now();
                    }
                    waited < PATIENCE
                });
            } else {
                state.waiting += 1;
                state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.waiting -= 1;
                waited = since.map_or(waited, |since| since.elapsed());
            }
        }
    }

    /// Lets the lock go until something has changed, or for as long as `goes_on` says.
    fn spin<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        mut goes_on: impl FnMut() -> bool,
    ) -> MutexGuard<'a, State> {
        // What this thread tells others it knows itself.
        let seen = self.hints.changes.load(Ordering::Relaxed).wrapping_add(state.changed.into());
        self.unlock(state);
        while self.hints.changes.load(Ordering::Relaxed) == seen && goes_on() {
            std::hint::spin_loop();
        }
        self.lock()
    }

    /// The same for who looks for work, and does what is offered meanwhile: `goes_on` is told where its caller was.
    fn look<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        mut goes_on: impl FnMut(Option<i32>) -> bool,
    ) -> MutexGuard<'a, State> {
        let Hints { changes, looking, .. } = &self.hints;
        looking.fetch_add(1, Ordering::Relaxed);
        // What this thread tells others it knows itself.
        let seen = changes.load(Ordering::Relaxed).wrapping_add(state.changed.into());
        self.unlock(state);
        let is_changed = || changes.load(Ordering::Relaxed) != seen;
        let look = || {
            let accepted = self.accept();
            if accepted.is_none() {
                std::hint::spin_loop();
            }
            (accepted.is_some() || is_changed()).then_some(accepted)
        };
        while goes_on((0..LOOKS).find_map(|_| look()).flatten()) && !is_changed() {}
        let state = self.lock();
        looking.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// Makes one worker if there are fewer than are wanted; it makes the next. Where the system has no
    /// thread for us, there are fewer.
    fn hire(&'static self, wanted: usize) {
        let mut state = self.lock();
        if state.workers >= wanted {
            return;
        }
        state.workers += 1;
        self.unlock(state);
        if !without_signals(|| start_worker(wanted)) {
            self.lock().workers -= 1;
        }
    }

    /// Does a task for its caller.
    fn perform<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        Picked { id, task, index, .. }: Picked,
    ) -> MutexGuard<'a, State> {
        let calls = state.call(&self.hints);
        self.unlock(state);
        self.wake(calls);
        let result = catch_unwind(AssertUnwindSafe(|| task.perform(index)));
        let mut state = self.lock();
        if let Some(job) = state.job(id) {
            job.panic = job.panic.take().or(result.err());
            job.helpers -= 1;
            state.changed |= job.helpers == 0 && job.tasks.left == 0;
        }
        state
    }

    /// What [`help`] says.
    #[allow(dead_code, reason = "only OpenCL waits in that way")]
    fn help(&self, patience: Duration, is_over: &dyn Fn() -> bool) {
        let mut since = Instant::now();
        let mut state = self.lock();
        while !is_over() {
            if let Some(picked) = state.pick(FIRST_WORKER) {
                state = self.perform(state, picked);
                since = Instant::now();
            } else if since.elapsed() < patience {
                state = self.look(state, |accepted| {
                    if accepted.is_some() {
                        since = Instant::now();
                    }
                    !is_over() && since.elapsed() < patience
                });
            } else {
                break;
            }
        }
        // A job that has come meanwhile has counted on this thread.
        let calls = state.call(&self.hints);
        self.unlock(state);
        self.wake(calls);
    }

    /// What a worker does all its life.
    fn work(&self) -> ! {
        // Since when it looks for work, if it does, and whether that is long.
        let (mut since, mut is_late) = (None, false);
        // Where the caller of its last job was.
        let mut last = None;
        let mut state = self.move_away();
        state.numbers += 1;
        let number = state.numbers;
        loop {
            if let Some(picked) = state.pick(number) {
                last = Some(picked.processor);
                state = self.perform(state, picked);
                (since, is_late) = (None, false);
            } else if !is_late {
                state = self.look(state, |accepted| {
                    if accepted.is_some() {
                        (since, last) = (None, accepted);
                    }
                    is_late = since.get_or_insert_with(Instant::now).elapsed() >= LOOKING;
                    !is_late
                });
            } else {
                self.unlock(state);
                let off = last.and_then(Off::processor);
                state = self.lock();
                if let Some(off) = off
                    && state.kept_off.try_reserve(1).is_ok()
                {
                    state.kept_off.push((number, off));
                }
                // Nothing has come meanwhile.
                if state.places() == 0 {
                    state.sleeping += 1;
                    let asleep = |state: &mut State| state.called == 0;
                    state = self.work.wait_while(state, asleep).unwrap_or_else(PoisonError::into_inner);
                    state.called -= 1;
                }
                let own = state.kept_off.iter().position(|(worker, _)| *worker == number);
                let off = own.map(|own| state.kept_off.swap_remove(own));
                self.unlock(state);
                drop(off);
                state = self.move_away();
                // What it was called for may be done, and the next job about to come.
                (since, is_late) = (None, false);
            }
        }
    }

    /// Where a caller runs another thread only takes its time.
    fn move_away(&self) -> MutexGuard<'_, State> {
        let here = affinity::processor();
        let state = self.lock();
        if here < 0 || state.jobs.iter().all(|job| job.processor != here) {
            return state;
        }
        self.unlock(state);
        drop(Off::processor(here));
        self.lock()
    }
}

/// What a worker is made for.
fn worker(wanted: usize) {
    if let Some(pool) = pool() {
        pool.hire(wanted);
        pool.work();
    }
}

/// Makes a worker, of which nobody keeps track; false: there is no thread for us.
fn start_worker(wanted: usize) -> bool {
    #[cfg(unix)]
    {
        extern "C" fn enter(wanted: *mut c_void) -> *mut c_void {
            name_thread();
            worker(wanted.addr());
            std::ptr::null_mut()
        }
        start_thread(enter, std::ptr::without_provenance_mut(wanted))
    }
    #[cfg(not(unix))]
    {
        start_thread(move || worker(wanted))
    }
}

/// Runs a function on a thread of its own, of which nobody keeps track; false: there is no thread for us.
pub fn start(function: fn()) -> bool {
    #[cfg(unix)]
    {
        extern "C" fn enter(function: *mut c_void) -> *mut c_void {
            name_thread();
            // SAFETY: the function that was handed over below; POSIX lets one pass as a pointer.
            unsafe { std::mem::transmute::<*mut c_void, fn()>(function)() };
            std::ptr::null_mut()
        }
        guard_forks() && without_signals(|| start_thread(enter, function as *mut c_void))
    }
    #[cfg(not(unix))]
    {
        start_thread(function)
    }
}

#[cfg(unix)]
fn name_thread() {
    #[cfg(target_os = "linux")]
    // SAFETY: names this thread.
    unsafe {
        libc::pthread_setname_np(libc::pthread_self(), c"arraybridge".as_ptr());
    }
}

/// Not by the standard library, whose new threads panic where memory is short.
#[cfg(unix)]
fn start_thread(enter: extern "C" fn(*mut c_void) -> *mut c_void, argument: *mut c_void) -> bool {
    // SAFETY: what is written is ours, and filled before use; the argument is what `enter` expects.
    unsafe {
        let mut thread: libc::pthread_t = std::mem::zeroed();
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_attr_init(&mut attributes) != 0 {
            return false;
        }
        // A refused size leaves the system's.
        libc::pthread_attr_setstacksize(&mut attributes, STACK_BYTES);
        let detached = libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED) == 0;
        let made = detached && libc::pthread_create(&mut thread, &attributes, enter, argument) == 0;
        libc::pthread_attr_destroy(&mut attributes);
        made
    }
}

#[cfg(not(unix))]
fn start_thread(function: impl FnOnce() + Send + 'static) -> bool {
    let builder = thread::Builder::new().name("arraybridge".into()).stack_size(STACK_BYTES);
    builder.spawn(function).is_ok()
}

/// The pool, written by [`in_child`] only.
struct Global(UnsafeCell<Pool>);

// SAFETY: a pool may be shared, and is replaced only where no other thread is.
unsafe impl Sync for Global {}

static POOL: Global = Global(UnsafeCell::new(Pool::new()));

/// The pool; None where a fork could break it.
fn pool() -> Option<&'static Pool> {
    // SAFETY: it is replaced in a new child only, by its only thread, which is not in here.
    guard_forks().then(|| unsafe { &*POOL.0.get() })
}

/// After a fork the child has none of the workers, and what another thread was doing stays half done,
/// the lock held: it starts anew. What the old pool had allocated stays, for it cannot be trusted.
#[cfg(unix)]
extern "C" fn in_child() {
    // SAFETY: the child has one thread, this one, and it came here from fork, which tasks do not call.
    unsafe { POOL.0.get().write(Pool::new()) };
    super::pages::in_child();
    super::streak::in_child();
}

/// Sees to it that children start anew; false: not yet, or not possible.
fn guard_forks() -> bool {
    #[cfg(unix)]
    {
        const NO: u8 = 0;
        const BEGUN: u8 = 1;
        const YES: u8 = 2;
        // No Once: a child could find it begun by a thread that it does not have, and wait.
        static GUARDED: AtomicU8 = AtomicU8::new(NO);
        if GUARDED.load(Ordering::Acquire) == YES {
            return true;
        }
        if GUARDED.compare_exchange(NO, BEGUN, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return GUARDED.load(Ordering::Acquire) == YES;
        }
        // SAFETY: the function may run in a new child; the library is never unloaded.
        let guarded = unsafe { libc::pthread_atfork(None, None, Some(in_child)) } == 0;
        GUARDED.store(if guarded { YES } else { NO }, Ordering::Release);
        guarded
    }
    #[cfg(not(unix))]
    {
        true
    }
}

/// Runs a function with the program's signals blocked, which a thread made by it inherits: handlers
/// expect to run on threads that the program knows. Faults stay, for whoever reports or repairs them.
fn without_signals<T>(function: impl FnOnce() -> T) -> T {
    #[cfg(unix)]
    {
        let faults = [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGILL,
            libc::SIGTRAP,
            libc::SIGSYS,
            libc::SIGABRT,
        ];
        // SAFETY: sets of bits, filled before use; only this thread's mask changes, and is put back.
        unsafe {
            let mut blocked: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut blocked);
            for signal in faults {
                libc::sigdelset(&mut blocked, signal);
            }
            let changed = libc::pthread_sigmask(libc::SIG_SETMASK, &blocked, &mut before) == 0;
            let value = function();
            if changed {
                libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
            }
            value
        }
    }
    #[cfg(not(unix))]
    {
        function()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Runs a job and checks that every task ran once.
    fn check(threads: usize, tasks: usize) {
        let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
        run(threads, tasks, &|index| {
            counts[index].fetch_add(1, Ordering::Relaxed);
        });
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }

    /// Runs as many tasks as threads, where each waits until all have begun, but not for ever.
    fn meet(threads: usize, task: &(dyn Fn() + Sync)) -> usize {
        // Another test's first job may be under way to its pool.
        while pool().is_none() {
            thread::yield_now();
        }
        let met = AtomicUsize::new(0);
        run(threads, threads, &|_| {
            met.fetch_add(1, Ordering::Relaxed);
            let since = Instant::now();
            while met.load(Ordering::Relaxed) < threads && since.elapsed() < Duration::from_secs(20) {
                thread::yield_now();
            }
            task();
        });
        met.into_inner()
    }

    #[test]
    fn each_thread_begins_with_its_own_share() {
        let mut tasks = Tasks::new(11, 3);
        assert_eq!(tasks.shares[..3], [0..4, 4..8, 8..11]);
        let of = |tasks: &mut Tasks, thread, count| -> Vec<_> {
            (0..count).map_while(|_| tasks.take(thread)).collect()
        };
        assert_eq!(of(&mut tasks, 1, 2), [4, 5]);
        assert_eq!(of(&mut tasks, CALLER, 1), [0]);
        // The third worker has the first one's; then those who have most lose their last ones.
        assert_eq!(of(&mut tasks, 3, 3), [6, 7, 10]);
        assert_eq!(of(&mut tasks, 2, 9), [8, 9, 3, 2, 1]);
        assert_eq!((tasks.left, tasks.take(CALLER)), (0, None));
        for (tasks, threads) in [(0, 2), (1, 2), (1, 9), (5, 16), (100, 16), (1000, 100)] {
            let mut all = Tasks::new(tasks, threads);
            let mut taken: Vec<_> = (0..).map_while(|turn| all.take(turn * 7 % threads)).collect();
            taken.sort_unstable();
            assert!(taken.into_iter().eq(0..tasks), "{tasks} tasks, {threads} threads");
        }
    }

    #[test]
    fn each_of_two_begins_with_its_own_half() {
        let halves = Halves(AtomicU64::new(0));
        halves.set(7);
        let of = |half, count| -> Vec<_> { (0..count).map_while(|_| halves.take(half)).collect() };
        assert_eq!(of(FIRST_WORKER, 2), [4, 5]);
        assert_eq!(of(CALLER, 2), [1, 2]);
        assert_eq!(of(CALLER, 1), [3]);
        assert_eq!(of(CALLER, 9), [6]);
        let most = if cfg!(miri) { 40 } else { Halves::MOST };
        for tasks in [1, 2, 3, most] {
            halves.set(tasks);
            let mut taken: Vec<_> = (0..).map_while(|turn| halves.take(turn % 2)).collect();
            taken.sort_unstable();
            assert!(taken.into_iter().eq(1..tasks), "{tasks} tasks");
        }
    }

    #[test]
    fn runs_every_task_once() {
        for threads in [0, 1, 2, 3, 8, 1000] {
            for tasks in [0, 1, 2, 3, 7, 100, 2000] {
                check(threads, tasks);
            }
        }
        assert!(pool().is_none_or(|pool| pool.lock().workers <= MAX_WORKERS));
    }

    #[test]
    fn stays_on_the_caller_without_need() {
        let caller = thread::current().id();
        let here = |_| assert_eq!(thread::current().id(), caller);
        run(1, 100, &here);
        run(0, 100, &here);
        run(8, 1, &here);
    }

    #[test]
    fn uses_no_more_threads_than_allowed() {
        check(8, 8);
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        run(3, 300, &|_| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::yield_now();
            running.fetch_sub(1, Ordering::SeqCst);
        });
        assert!(most.into_inner() <= 3);
    }

    #[test]
    fn serves_many_callers() {
        thread::scope(|scope| {
            for caller in 0..16 {
                scope.spawn(move || {
                    (0..300).for_each(|round| check(2 + caller % 4, 1 + (round + caller) % 40))
                });
            }
        });
    }

    #[test]
    fn runs_jobs_in_tasks() {
        let count = AtomicUsize::new(0);
        run(4, 8, &|_| {
            run(4, 8, &|_| {
                run(4, 8, &|_| {
                    count.fetch_add(1, Ordering::Relaxed);
                });
            });
        });
        assert_eq!(count.into_inner(), 512);
    }

    #[test]
    fn hands_panics_to_the_caller() {
        for bad in [0, 5, 19] {
            let count = AtomicUsize::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                run(4, 20, &|index| {
                    count.fetch_add(1, Ordering::Relaxed);
                    if index == bad {
                        // Unlike panic!, it prints nothing.
                        resume_unwind(Box::new(index));
                    }
                });
            }));
            assert_eq!(result.unwrap_err().downcast_ref::<usize>(), Some(&bad));
            assert_eq!(count.into_inner(), 20);
            check(4, 100);
        }
        // On a worker.
        let caller = thread::current().id();
        let result = catch_unwind(AssertUnwindSafe(|| {
            meet(2, &|| {
                if thread::current().id() != caller {
                    resume_unwind(Box::new(7));
                }
            });
        }));
        assert_eq!(result.unwrap_err().downcast_ref::<i32>(), Some(&7));
    }

    #[test]
    fn wakes_sleeping_workers() {
        for _ in 0..20 {
            assert_eq!(meet(5, &|| ()), 5);
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// In a pool that no other test has jobs in, with one worker, whose callers do all of it before it is there.
    #[cfg(not(miri))]
    #[test]
    fn who_comes_too_late_looks_for_the_next_job() {
        // One thread at a time cannot see what another one does.
        if affinity::processors() < 2 || std::env::var_os("ARRAYBRIDGE_VALGRIND").is_some() {
            return;
        }
        static POOL: Pool = Pool::new();
        POOL.lock().workers = 1;
        thread::spawn(|| POOL.work());
        let caller = thread::current().id();
        let looks = || {
            while POOL.lock().sleeping == 0 {
                thread::yield_now();
            }
            let late = AtomicUsize::new(1);
            POOL.run(1, 2, &|_| {
                late.fetch_and(usize::from(thread::current().id() == caller), Ordering::Relaxed);
            });
            loop {
                let state = POOL.lock();
                let looking = POOL.hints.looking.load(Ordering::Relaxed) as usize;
                if looking + state.sleeping > 0 {
                    return looking * late.load(Ordering::Relaxed) > 0;
                }
            }
        };
        // Others may use the processor while it does.
        let since = Instant::now();
        while !looks() {
            assert!(since.elapsed() < Duration::from_secs(20), "it has gone to sleep at once");
        }
    }

    /// In a pool that no other test has jobs in, and no worker comes to: how often a thread that waits helps with tasks
    /// of jobs for so many helpers, the panic of one of which is its caller's.
    fn helps(pool: &'static Pool, helpers: usize) -> usize {
        pool.help(Duration::ZERO, &|| false);
        pool.help(Duration::from_secs(20), &|| true);
        let (over, helped) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            let is_over = || over.load(Ordering::Relaxed) == 1;
            let waiting = scope.spawn(move || pool.help(Duration::from_secs(40), &is_over));
            let waiting = waiting.thread().id();
            let since = Instant::now();
            while helped.load(Ordering::Relaxed) < 2 && since.elapsed() < Duration::from_secs(20) {
                // Whoever finds nobody would make a worker.
                if helpers == 1 && pool.hints.looking.load(Ordering::Relaxed) == 0 {
                    thread::yield_now();
                    continue;
                }
                let counts: Vec<AtomicUsize> = (0..30).map(|_| AtomicUsize::new(0)).collect();
                let before = helped.load(Ordering::Relaxed);
                let result = catch_unwind(AssertUnwindSafe(|| {
                    pool.run(helpers, counts.len(), &|index| {
                        counts[index].fetch_add(1, Ordering::Relaxed);
                        let is_here = thread::current().id() == waiting;
                        thread::sleep(Duration::from_millis(1));
                        if is_here && helped.fetch_add(1, Ordering::Relaxed) == before {
                            // Unlike panic!, it prints nothing.
                            resume_unwind(Box::new(index));
                        }
                    });
                }));
                assert_eq!(result.is_err(), helped.load(Ordering::Relaxed) > before);
                assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            }
            over.store(1, Ordering::Relaxed);
        });
        assert_eq!(pool.hints.looking.load(Ordering::Relaxed), 0);
        helped.into_inner()
    }

    #[test]
    fn those_who_wait_help() {
        static POOL: Pool = Pool::new();
        assert!(helps(&POOL, 2) > 0);
    }

    #[test]
    fn those_who_wait_take_what_is_offered() {
        static POOL: Pool = Pool::new();
        assert!(helps(&POOL, 1) > 0);
        assert_eq!(POOL.hints.offer.state.load(Ordering::Relaxed), CLOSED);
        assert!(!POOL.offers.load(Ordering::Relaxed));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn workers_block_signals_but_not_faults() {
        let caller = thread::current().id();
        let helped = AtomicUsize::new(0);
        meet(2, &|| {
            if thread::current().id() == caller {
                return;
            }
            let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
            assert_eq!(name.trim(), "arraybridge");
            // SAFETY: reads this thread's mask.
            unsafe {
                let mut mask: libc::sigset_t = std::mem::zeroed();
                libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &mut mask);
                for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGCHLD, libc::SIGPROF, libc::SIGUSR1] {
                    assert_eq!(libc::sigismember(&mask, signal), 1);
                }
                assert_eq!(libc::sigismember(&mask, libc::SIGSEGV), 0);
            }
            helped.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(helped.into_inner(), 1);
        // SAFETY: reads this thread's mask, which is as it was.
        unsafe {
            let mut mask: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &mut mask);
            assert_eq!(libc::sigismember(&mask, libc::SIGTERM), 0);
        }
    }

    /// Forks; what the child's code says is its exit status.
    #[cfg(target_os = "linux")]
    fn in_fork(child: impl FnOnce() -> i32) -> i32 {
        // SAFETY: the child runs what is tested and leaves by _exit, killed if that takes for ever.
        unsafe {
            let process = libc::fork();
            assert!(process >= 0);
            if process == 0 {
                libc::alarm(60);
                let status = catch_unwind(AssertUnwindSafe(child)).unwrap_or(99);
                libc::_exit(status);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(process, &mut status, 0), process);
            if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -libc::WTERMSIG(status) }
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn works_in_children() {
        let child = || {
            assert_eq!(meet(3, &|| ()), 3);
            check(4, 200);
            // And in theirs.
            in_fork(|| {
                check(4, 200);
                meet(3, &|| ()) as i32
            })
        };
        check(4, 100);
        assert_eq!(in_fork(child), 3);
        // While others are at work, with the lock held or not.
        let stop = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while stop.load(Ordering::Relaxed) == 0 {
                        run(4, 50, &|_| std::hint::spin_loop());
                    }
                });
            }
            let statuses: Vec<i32> = (0..40).map(|_| in_fork(child)).collect();
            stop.store(1, Ordering::Relaxed);
            assert!(statuses.iter().all(|status| *status == 3), "{statuses:?}");
        });
        check(4, 100);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn exits_while_workers_sleep() {
        let status = in_fork(|| {
            meet(4, &|| ());
            // SAFETY: the ordinary way out, with all that runs at exit.
            unsafe { libc::exit(42) }
        });
        assert_eq!(status, 42);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn does_without_threads() {
        let status = in_fork(|| {
            // SAFETY: the limit is this child's only; nobody is exempt from that of address space.
            unsafe {
                let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
                assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &limit), 0);
            }
            // Some workers get the stacks of threads that the child does not have; nothing may fail.
            check(1000, 2000);
            check(1000, 2000);
            0
        });
        assert_eq!(status, 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn counts_what_a_thread_may_run_on() {
        let all = available();
        assert!(all >= 1);
        assert_eq!(available(), all);
        let restricted = thread::spawn(|| {
            // SAFETY: the set is filled before use, and this thread's only.
            unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::sched_getaffinity(0, size_of_val(&set), &mut set);
                let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &set)).unwrap();
                libc::CPU_ZERO(&mut set);
                libc::CPU_SET(first, &mut set);
                libc::sched_setaffinity(0, size_of_val(&set), &set);
            }
            check(4, 100);
            available()
        });
        assert_eq!(restricted.join().unwrap(), 1);
        assert_eq!(available(), all);
    }

    /// For a moment, and only to who has asked.
    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn what_a_thread_may_run_on_is_kept_for_a_moment() {
        const SECOND: u64 = 1_000_000_000;
        let all = available();
        thread::spawn(move || {
            assert_eq!(available_lately(Some(SECOND)), all.min(255));
            // SAFETY: a set of bits, and one within it.
            let only = unsafe {
                let mut one: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(affinity::processor() as usize, &mut one);
                one
            };
            assert!(affinity::restrict(&only));
            assert_eq!(available_lately(Some(2 * SECOND)), 1);
            let other = thread::spawn(|| available_lately(Some(2 * SECOND))).join().unwrap();
            assert_eq!(other, 1, "as restricted as who made it");
        })
        .join()
        .unwrap();
        assert_eq!(available_lately(Some(2 * SECOND)), all.min(255));
    }

    /// In a pool that no other test has jobs in, with one worker.
    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn nobody_sleeps_where_a_caller_would_wake_it() {
        static POOL: Pool = Pool::new();
        static WORKER: AtomicUsize = AtomicUsize::new(0);
        POOL.lock().workers = 1;
        thread::spawn(|| {
            // SAFETY: it takes nothing.
            WORKER.store(unsafe { libc::gettid() } as usize, Ordering::Relaxed);
            POOL.work()
        });
        let processors = |thread: usize| {
            let set = affinity::set_of(thread as i32).unwrap();
            let mut all = 0..libc::CPU_SETSIZE as usize;
            // SAFETY: within the set.
            all.by_ref().filter(|index| unsafe { libc::CPU_ISSET(*index, &set) }).collect::<Vec<_>>()
        };
        let mine = processors(0);
        for here in mine.iter().cycle().take(4) {
            // SAFETY: a set of bits, and one within it.
            let only = unsafe {
                let mut one: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(*here, &mut one);
                one
            };
            assert!(affinity::restrict(&only));
            let met = AtomicUsize::new(0);
            POOL.run(1, 2, &|_| {
                let worker = WORKER.load(Ordering::Relaxed);
                if met.fetch_add(1, Ordering::Relaxed) == 0 && worker > 0 && mine.len() > 1 {
                    assert_ne!(processors(worker), [*here], "where it would wait for this thread");
                }
                while met.load(Ordering::Relaxed) < 2 {
                    thread::yield_now();
                }
                // SAFETY: it takes nothing.
                let this = unsafe { libc::gettid() } as usize;
                let worker = WORKER.load(Ordering::Relaxed);
                assert!(this != worker || processors(0) == mine, "while it works");
            });
            while POOL.lock().sleeping == 0 {
                thread::yield_now();
            }
            let others = mine.iter().filter(|one| *one != here || mine.len() == 1).copied();
            assert_eq!(processors(WORKER.load(Ordering::Relaxed)), others.collect::<Vec<_>>());
        }
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn who_is_woken_beside_a_caller_moves() {
        static POOL: Pool = Pool::new();
        let all = affinity::set_of(0).unwrap();
        let here = affinity::processor();
        let job = Job {
            id: 1,
            task: &|_| (),
            processor: here,
            tasks: Tasks::new(1, 2),
            helpers: 0,
            max_helpers: 1,
            panic: None,
        };
        POOL.lock().jobs.push(job);
        // SAFETY: a set of bits, and one within it.
        let only = unsafe {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(here as usize, &mut one);
            one
        };
        // The system may move it too.
        let stayed = |moves: bool| {
            let stays = (0..100).filter(|_| {
                assert!(affinity::restrict(&only) && affinity::restrict(&all));
                if moves {
                    drop(POOL.move_away());
                }
                affinity::processor() == here
            });
            stays.count()
        };
        if affinity::processors() > 1 {
            let (without, with) = (stayed(false), stayed(true));
            assert!(with < without, "{with} of {without}");
        }
    }
}
