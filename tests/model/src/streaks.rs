//! Whether jobs follow each other (src/backend/host/streak.rs), asked by several threads at once.

use std::time::Duration;

use shuttle::rand::Rng;
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;

use super::executions;

const LOOKING: Duration = Duration::from_micros(50);
const PATIENCE: Duration = Duration::from_micros(200);

/// Now and then.
fn is_anybody_looking() -> bool {
    shuttle::rand::thread_rng().gen_bool(0.5)
}

/// Later each time.
fn nanoseconds() -> u64 {
    static NOW: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1 << 40);
    NOW.fetch_add(1000, std::sync::atomic::Ordering::Relaxed)
}

include!(concat!(env!("OUT_DIR"), "/streak.rs"));

/// One job at a time has what was before it, and after the last one nobody is thought to be at work.
fn jobs_of_several_threads() {
    let (last, counted) = (Arc::new(Last(AtomicU64::new(0))), Arc::new(AtomicU64::new(0)));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (last, counted) = (last.clone(), counted.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    let streak = last.begin(is_anybody_looking(), nanoseconds);
                    if streak.before.is_some() {
                        assert_eq!(counted.fetch_add(1, Ordering::Relaxed), 0);
                        thread::yield_now();
                        counted.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(last.0.load(Ordering::Relaxed) < CONTENDED);
    assert!(last.begin(false, nanoseconds).before.is_some());
}

#[test]
fn jobs_end() {
    shuttle::check_random(jobs_of_several_threads, executions());
    shuttle::check_pct(jobs_of_several_threads, executions(), 3);
}
