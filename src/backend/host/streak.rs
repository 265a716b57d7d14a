//! Jobs that are too small for a thread to be woken, one right after the other: after many of them others help, which
//! then are still awake when the next one comes; so they are right after a large job.
//!
//! All of it is a guess, in one atomic. Whoever finds another job under way works alone, and so does everybody for a
//! while after others came late, for then somebody else needs the processors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::threads::{SPIN, nanoseconds};

/// Jobs in a row before others are woken: a wake-up can take as long as some of them, so that those who do a few at a
/// time are better off without.
const JOBS: u64 = 31;
/// The longest wait at the end of a job for those who help.
const LATE: Duration = Duration::from_micros(200);
/// How many times as long as that nobody helps then.
const REST: u32 = 30;

/// The jobs of the process.
static LAST: Last = Last(AtomicU64::new(0));

/// When the last job ended, or when the rest ends; in the low bits, how many jobs were in a row.
struct Last(AtomicU64);

/// Values of the low bits.
const COUNTS: u64 = JOBS + 1;
/// A job is under way.
const BUSY: u64 = u64::MAX;
/// Another one has come meanwhile.
const CONTENDED: u64 = BUSY - 1;

/// One job, until it is dropped.
pub struct Streak<'a> {
    last: &'a Last,
    /// When the one before ended, or when the rest ends.
    ended: u64,
    /// Jobs in a row before it; None: it came while another one was under way.
    before: Option<u64>,
}

impl Last {
    fn begin(&self, now: u64) -> Streak<'_> {
        let last = self.0.swap(BUSY, Ordering::Relaxed);
        if last >= CONTENDED {
            // Unless it has just ended.
            let _ = self.0.compare_exchange(BUSY, CONTENDED, Ordering::Relaxed, Ordering::Relaxed);
            return Streak { last: self, ended: 0, before: None };
        }
        let (ended, jobs) = (last - last % COUNTS, last % COUNTS);
        // A rest ends in time to come.
        let is_close = now.wrapping_sub(ended) < nanos(SPIN);
        Streak { last: self, ended, before: Some(if is_close { jobs } else { 0 }) }
    }
}

impl Streak<'_> {
    /// Begins a job.
    pub fn begin() -> Streak<'static> {
        LAST.begin(nanoseconds())
    }

    /// Whether there were enough jobs right before this one.
    pub fn is_long(&self) -> bool {
        self.before == Some(JOBS)
    }

    /// Takes notice of others that have helped, for whom the job waited so long at its end.
    pub fn helped(&mut self, waited: Duration) {
        self.before = self.before.map(|_| JOBS);
        if waited > LATE {
            self.rest(nanoseconds(), waited);
        }
    }

    fn rest(&mut self, now: u64, lost: Duration) {
        self.ended = now + nanos(lost * REST);
    }

    fn end(&mut self, now: u64) {
        let Some(before) = self.before else { return };
        if self.last.0.load(Ordering::Relaxed) == CONTENDED {
            self.rest(now, LATE);
        }
        let rests = self.ended > now;
        let (time, jobs) = if rests { (self.ended, 0) } else { (now, (before + 1).min(JOBS)) };
        self.last.0.store(time - time % COUNTS + jobs, Ordering::Relaxed);
    }
}

impl Drop for Streak<'_> {
    fn drop(&mut self) {
        self.end(nanoseconds());
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// A child of a fork may have been made while another thread had a job.
#[cfg(unix)]
pub fn in_child() {
    LAST.0.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A job from then for a millisecond; `job` is what happens meanwhile. Whether others were to help.
    fn job(last: &Last, from: u64, job: impl FnOnce(&mut Streak<'_>)) -> bool {
        let mut streak = std::mem::ManuallyDrop::new(last.begin(from));
        let long = streak.is_long();
        job(&mut streak);
        streak.end(from + SECOND / 1000);
        long
    }

    /// Whether others were to help in each of so many jobs that follow each other by `gap`.
    fn jobs(last: &Last, from: u64, gap: u64, count: u64) -> Vec<bool> {
        let at = |index| from + index * (SECOND / 1000 + gap);
        (0..count).map(|index| job(last, at(index), |_| ())).collect()
    }

    #[test]
    fn others_help_after_many_jobs() {
        let last = Last(AtomicU64::new(0));
        let expected: Vec<bool> = (0..JOBS + 3).map(|index| index >= JOBS).collect();
        assert_eq!(jobs(&last, SECOND, 1000, JOBS + 3), expected);
        assert_eq!(jobs(&last, 2 * SECOND, 1000, JOBS + 3), expected);
    }

    #[test]
    fn nobody_is_woken_for_jobs_that_are_apart() {
        let last = Last(AtomicU64::new(0));
        assert!(!jobs(&last, SECOND, nanos(SPIN), 2 * JOBS).contains(&true));
    }

    #[test]
    fn who_has_helped_is_awake() {
        let last = Last(AtomicU64::new(0));
        assert!(!job(&last, SECOND, |streak| streak.helped(Duration::ZERO)));
        assert!(job(&last, SECOND + SECOND / 1000 + 1000, |_| ()));
    }

    #[test]
    fn everybody_rests_where_others_come_late() {
        let last = Last(AtomicU64::new(0));
        let soon =
            |streak: &mut Streak<'_>| streak.rest(SECOND, SECOND as u32 / 1000 * Duration::from_nanos(1));
        job(&last, SECOND, soon);
        assert_eq!(jobs(&last, SECOND + SECOND / 500, 1000, 20), [false; 20]);
        assert!(jobs(&last, 2 * SECOND, 1000, JOBS + 1).contains(&true));
    }

    #[test]
    fn two_at_once_work_alone() {
        let last = Last(AtomicU64::new(0));
        assert!(jobs(&last, SECOND, 1000, JOBS + 1).contains(&true));
        let meanwhile = |_: &mut Streak<'_>| assert_eq!(jobs(&last, 2 * SECOND, 1000, 8), [false; 8]);
        job(&last, 2 * SECOND, meanwhile);
        // The rest of what the longest wait would have cost.
        assert_eq!(jobs(&last, 2 * SECOND + SECOND / 1000 + 1000, 1000, 4), [false; 4]);
        assert!(jobs(&last, 3 * SECOND, 1000, JOBS + 1).contains(&true));
    }
}
