//! The library's pool of threads (src/backend/host/threads.rs), run by a scheduler that decides at each lock,
//! wait and atomic who goes on, tens of thousands of times in different orders. A lost wake-up shows as a
//! deadlock, a task that runs twice or not at all as a wrong count.
use std::any::Any;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;

use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use shuttle::sync::{Mutex, MutexGuard};
use shuttle::thread;

use super::executions;
use affinity::Off;
use clock::{Duration, Instant};
use closing::Condvar;

/// Time that passes or not, as the scheduler likes.
mod clock {
    use shuttle::rand::Rng;
    pub use std::time::Duration;

    #[derive(Clone, Copy)]
    pub struct Instant;

    impl Instant {
        pub fn now() -> Instant {
            Instant
        }

        pub fn elapsed(&self) -> Duration {
            let late = shuttle::rand::thread_rng().gen_bool(0.5);
            if late { Duration::from_secs(1) } else { Duration::ZERO }
        }
    }
}

/// Workers sleep for ever, but an execution must end: where they would sleep after that, they unwind.
mod closing {
    use std::cell::Cell;
    use std::sync::LockResult;

    use shuttle::sync::MutexGuard;

    std::thread_local! {
        pub static CLOSING: Cell<bool> = const { Cell::new(false) };
    }

    /// What a worker unwinds with.
    pub struct End;

    pub struct Condvar(shuttle::sync::Condvar);

    impl Condvar {
        pub const fn new() -> Condvar {
            Condvar(shuttle::sync::Condvar::new())
        }

        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        pub fn notify_all(&self) {
            self.0.notify_all();
        }

        pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
            self.0.wait(guard)
        }

        pub fn wait_while<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            mut condition: impl FnMut(&mut T) -> bool,
        ) -> LockResult<MutexGuard<'a, T>> {
            while condition(&mut guard) {
                if CLOSING.get() {
                    drop(guard);
                    std::panic::resume_unwind(Box::new(End));
                }
                guard = self.0.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
            Ok(guard)
        }
    }
}

/// Two processors, of which threads move to the other as the scheduler likes.
mod affinity {
    use shuttle::rand::Rng;

    pub fn processor() -> i32 {
        shuttle::rand::thread_rng().gen_range(0..2)
    }

    pub struct Off;

    impl Off {
        pub fn processor(_: i32) -> Option<Off> {
            Some(Off)
        }

        pub fn turn(&mut self, _: i32) {}
    }

    impl Drop for Off {
        fn drop(&mut self) {
            shuttle::thread::yield_now();
        }
    }
}

include!(concat!(env!("OUT_DIR"), "/pool.rs"));

fn ask_for(_: *const u8, _: usize) {}

fn without_signals<T>(function: impl FnOnce() -> T) -> T {
    function()
}

std::thread_local! {
    /// The pool of this execution: all of one run on one thread of the system.
    static POOL: std::cell::Cell<Option<&'static Pool>> = const { std::cell::Cell::new(None) };
}

fn pool() -> Option<&'static Pool> {
    POOL.get()
}

/// Now and then the system has no thread.
fn start_worker(wanted: usize) -> bool {
    use shuttle::rand::Rng;
    if shuttle::rand::thread_rng().gen_bool(0.1) {
        return false;
    }
    drop(shuttle::thread::spawn(move || {
        let end = catch_unwind(AssertUnwindSafe(|| worker(wanted))).expect_err("workers do not return");
        assert!(end.is::<closing::End>());
    }));
    true
}

/// One execution with a pool of its own.
fn explore(executions: usize, body: impl Fn(&'static Pool) + Send + Sync + 'static) {
    let run = move || {
        let pool: &'static Pool = Box::leak(Box::new(Pool::new()));
        POOL.set(Some(pool));
        closing::CLOSING.set(false);
        // The scheduler takes the first execution for the measure of all, and gives up if it saw one thread in it:
        // one does without a worker now and then.
        let bystander = thread::spawn(|| {});
        body(pool);
        bystander.join().unwrap();
        let state = pool.lock();
        assert!(state.jobs.is_empty() && state.waiting == 0);
        assert_eq!(pool.hints.offer.state.load(Ordering::SeqCst), CLOSED);
        assert!(!pool.offers.load(Ordering::SeqCst));
        closing::CLOSING.set(true);
        drop(state);
        pool.work.notify_all();
    };
    let run = std::sync::Arc::new(run);
    let again = run.clone();
    shuttle::check_random(move || run(), executions);
    shuttle::check_pct(move || again(), executions, 3);
}

fn check(pool: &'static Pool, helpers: usize, tasks: usize) {
    let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
    pool.run(helpers, tasks, &|index| {
        counts[index].fetch_add(1, Ordering::SeqCst);
    });
    assert!(counts.iter().all(|count| count.load(Ordering::SeqCst) == 1));
}

#[test]
fn one_caller() {
    explore(executions(), |pool| {
        check(pool, 2, 4);
        check(pool, 1, 2);
    });
}

#[test]
fn two_callers() {
    explore(executions(), |pool| {
        let other = shuttle::thread::spawn(move || check(pool, 2, 3));
        check(pool, 2, 3);
        other.join().unwrap();
        check(pool, 1, 2);
    });
}

#[test]
fn jobs_in_tasks() {
    explore(executions(), |pool| {
        let count = AtomicUsize::new(0);
        pool.run(2, 2, &|_| {
            pool.run(1, 2, &|_| {
                count.fetch_add(1, Ordering::SeqCst);
            });
        });
        assert_eq!(count.load(Ordering::SeqCst), 4);
    });
}

#[test]
fn a_panic_reaches_its_caller_alone() {
    explore(executions(), |pool| {
        let other = shuttle::thread::spawn(move || check(pool, 1, 2));
        let count = AtomicUsize::new(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            pool.run(1, 3, &|index| {
                count.fetch_add(1, Ordering::SeqCst);
                if index == 1 {
                    resume_unwind(Box::new(7));
                }
            });
        }));
        assert_eq!(outcome.unwrap_err().downcast_ref::<i32>(), Some(&7));
        assert_eq!(count.load(Ordering::SeqCst), 3);
        other.join().unwrap();
    });
}

/// Another thread helps until it is told to stop, or of its own accord.
#[test]
fn those_who_wait_help() {
    explore(executions(), |pool| {
        let over = std::sync::Arc::new(AtomicUsize::new(0));
        let seen = over.clone();
        let other = shuttle::thread::spawn(move || {
            pool.help(Duration::from_millis(1), &|| seen.load(Ordering::SeqCst) == 1);
        });
        check(pool, 2, 3);
        over.store(1, Ordering::SeqCst);
        check(pool, 1, 2);
        other.join().unwrap();
        check(pool, 2, 2);
    });
}

/// Whoever has taken what was offered takes so long that the caller sleeps.
#[test]
fn callers_sleep_until_it_is_done() {
    explore(executions(), |pool| {
        check(pool, 1, 2);
        let count = AtomicUsize::new(0);
        pool.run(1, 2, &|index| {
            for _ in 0..index * 20 {
                thread::yield_now();
            }
            count.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(count.load(Ordering::SeqCst), 2);
    });
}
