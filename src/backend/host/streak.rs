//! Jobs that are too small for a thread to be woken, one right after the other: when they have taken some time together
//! others help, which then are still awake when the next one comes; so they are right after a large job.
//!
//! All of it is a guess, in one atomic. Whoever finds another job under way works alone, and so does everybody for a
//! while after others came late, for then somebody else needs the processors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::threads::{LOOKING, PATIENCE, nanoseconds};

/// How long jobs in a row take before others are woken: some times as long as a wake-up, so that those who do a few at a
/// time lose little, and those who do many have not lost much before.
const ENOUGH: u64 = 31;
/// What that is counted in, at least one for each job.
const UNIT: Duration = Duration::from_micros(8);
/// How long nobody helps after two jobs at once.
const CROWDED: Duration = Duration::from_millis(2);
/// How long nobody helps after those who do were waited for beyond [`PATIENCE`]: as long as that took, and twice as long
/// each time that the next help is late as well, up to so many times. One who was late once, as where a system works for
/// a moment, costs little; where the processors are always somebody else's, there is hardly a wait left.
const MOST_LATE: u64 = 4;

/// The jobs of the process.
static LAST: Last = Last(AtomicU64::new(0));

/// When the last job ended, or when the rest ends; in the low bits, how long jobs in a row have taken, and how often
/// in a row help was late.
struct Last(AtomicU64);

/// Values of the low bits, and of those of them that are about the time.
const COUNTS: u64 = TIMES * 8;
const TIMES: u64 = ENOUGH + 1;
/// A job is under way.
const BUSY: u64 = u64::MAX;
/// Another one has come meanwhile.
const CONTENDED: u64 = BUSY - 1;

/// One job, until it is dropped.
pub struct Streak<'a> {
    last: &'a Last,
    began: u64,
    /// When the one before ended, or when the rest ends.
    ended: u64,
    /// How long those in a row before it took; None: it came while another one was under way.
    before: Option<u64>,
    /// How often in a row help was late.
    late: u64,
}

impl Last {
    fn begin(&self, now: u64) -> Streak<'_> {
        let last = self.0.swap(BUSY, Ordering::Relaxed);
        if last >= CONTENDED {
            // Unless it has just ended.
            let _ = self.0.compare_exchange(BUSY, CONTENDED, Ordering::Relaxed, Ordering::Relaxed);
            return Streak { last: self, began: now, ended: 0, before: None, late: 0 };
        }
        let (ended, took, late) = (last - last % COUNTS, last % TIMES, last % COUNTS / TIMES);
        // A rest ends in time to come.
        let is_close = now.wrapping_sub(ended) < nanos(LOOKING);
        Streak { last: self, began: now, ended, before: Some(if is_close { took } else { 0 }), late }
    }
}

impl Streak<'_> {
    /// Begins a job.
    pub fn begin() -> Streak<'static> {
        LAST.begin(nanoseconds())
    }

    /// When that was.
    pub fn began(&self) -> u64 {
        self.began
    }

    /// Whether the jobs right before this one took long enough.
    pub fn is_long(&self) -> bool {
        self.before == Some(ENOUGH)
    }

    /// Takes notice of others that have helped, for whom the job waited so long at its end.
    pub fn helped(&mut self, waited: Duration) {
        self.before = self.before.map(|_| ENOUGH);
        // Who has not waited long need not look at the clock.
        self.waited(if waited < PATIENCE { 0 } else { nanoseconds() }, waited);
    }

    fn waited(&mut self, now: u64, waited: Duration) {
        if waited < PATIENCE {
            self.late = 0;
            return;
        }
        self.ended = now + (nanos(waited) << self.late);
        self.late = (self.late + 1).min(MOST_LATE);
    }

    fn end(&mut self, now: u64) {
        let Some(before) = self.before else { return };
        if self.last.0.load(Ordering::Relaxed) == CONTENDED {
            self.ended = now + nanos(CROWDED);
        }
        let rests = self.ended > now;
        let took = before + 1 + now.saturating_sub(self.began) / nanos(UNIT);
        let (time, took) = if rests { (self.ended, 0) } else { (now, took.min(ENOUGH)) };
        self.last.0.store(time - time % COUNTS + self.late * TIMES + took, Ordering::Relaxed);
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

    /// A job from then for two of what jobs are counted in; `job` is what happens meanwhile. Whether others were to help.
    fn job(last: &Last, from: u64, job: impl FnOnce(&mut Streak<'_>)) -> bool {
        let mut streak = std::mem::ManuallyDrop::new(last.begin(from));
        let long = streak.is_long();
        job(&mut streak);
        streak.end(from + 2 * nanos(UNIT));
        long
    }

    /// Whether others were to help in each of so many jobs that follow each other by `gap`.
    fn jobs(last: &Last, from: u64, gap: u64, count: u64) -> Vec<bool> {
        let at = |index| from + index * (2 * nanos(UNIT) + gap);
        (0..count).map(|index| job(last, at(index), |_| ())).collect()
    }

    /// So many of those take long enough together.
    const JOBS: u64 = ENOUGH.div_ceil(3);

    #[test]
    fn others_help_after_many_jobs() {
        let last = Last(AtomicU64::new(0));
        let expected: Vec<bool> = (0..JOBS + 3).map(|index| index >= JOBS).collect();
        assert_eq!(jobs(&last, SECOND, 1000, JOBS + 3), expected);
        assert_eq!(jobs(&last, 2 * SECOND, 1000, JOBS + 3), expected);
    }

    #[test]
    fn others_help_after_a_long_job() {
        let last = Last(AtomicU64::new(0));
        let mut streak = std::mem::ManuallyDrop::new(last.begin(SECOND));
        assert!(!streak.is_long());
        let end = SECOND + ENOUGH * nanos(UNIT);
        streak.end(end);
        assert!(job(&last, end + 1000, |_| ()));
    }

    #[test]
    fn nobody_is_woken_for_jobs_that_are_apart() {
        let last = Last(AtomicU64::new(0));
        assert!(!jobs(&last, SECOND, nanos(LOOKING), 2 * JOBS).contains(&true));
    }

    #[test]
    fn who_has_helped_is_awake() {
        let last = Last(AtomicU64::new(0));
        assert!(!job(&last, SECOND, |streak| streak.helped(Duration::ZERO)));
        assert!(job(&last, SECOND + 2 * nanos(UNIT) + 1000, |_| ()));
    }

    /// For how many milliseconds nobody helps after a job was waited for.
    fn rest_after(last: &Last, from: u64, waited: Duration) -> u64 {
        job(last, from, |streak| streak.waited(from, waited));
        let helps = |ms: &u64| jobs(last, from + ms * SECOND / 1000, 1000, JOBS + 1).contains(&true);
        (1..100).find(helps).unwrap()
    }

    #[test]
    fn everybody_rests_where_others_come_late() {
        let last = Last(AtomicU64::new(0));
        let wait = Duration::from_millis(1);
        let rests: Vec<u64> = (1..8).map(|second| rest_after(&last, second * SECOND, wait)).collect();
        assert_eq!(rests, [1, 2, 4, 8, 16, 16, 16]);
        // Once in time.
        job(&last, 9 * SECOND, |streak| streak.waited(9 * SECOND, PATIENCE / 2));
        assert_eq!(rest_after(&last, 10 * SECOND, wait), 1);
    }

    #[test]
    fn two_at_once_work_alone() {
        let last = Last(AtomicU64::new(0));
        assert!(jobs(&last, SECOND, 1000, JOBS + 1).contains(&true));
        let meanwhile = |_: &mut Streak<'_>| assert_eq!(jobs(&last, 2 * SECOND, 1000, 8), [false; 8]);
        job(&last, 2 * SECOND, meanwhile);
        // The rest of what the longest wait would have cost.
        assert_eq!(jobs(&last, 2 * SECOND + 2 * nanos(UNIT) + 1000, 1000, 4), [false; 4]);
        assert!(jobs(&last, 3 * SECOND, 1000, JOBS + 1).contains(&true));
    }
}
