//! Jobs that are too small for a thread to be woken, one right after the other: when they have taken some time together
//! others help, which then are still awake when the next one comes; so they are right after a large job.
//!
//! All of it is a guess, in one atomic. Whoever finds another job under way works alone, and so does everybody for a
//! while after others came late, for then somebody else needs the processors. Who looks for work has done some a moment
//! ago, so that no clock is needed to know that a job follows another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::threads::{LOOKING, PATIENCE, is_anybody_looking, nanoseconds};

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
/// After how many jobs in a row a clock is looked at.
const UNTIMED: u64 = 32;

/// The jobs of the process.
static LAST: Last = Last(AtomicU64::new(0));

/// When the last job ended, or when the rest ends; in the low bits, how long jobs in a row have taken, how often
/// in a row help was late, and how many jobs ago that was.
struct Last(AtomicU64);

/// Values of the low bits: all, those without the number of jobs, and those of them that are about the time.
const COUNTS: u64 = JOB * UNTIMED;
const JOB: u64 = TIMES * 8;
const TIMES: u64 = ENOUGH + 1;
/// A job is under way.
const BUSY: u64 = u64::MAX;
/// Another one has come meanwhile.
const CONTENDED: u64 = BUSY - 1;

/// One job, until it is dropped.
pub struct Streak<'a> {
    last: &'a Last,
    /// None: the one before and this one are in a row, and others help.
    began: Option<u64>,
    /// When the one before ended, or when the rest ends.
    ended: u64,
    /// How long those in a row before it took; None: it came while another one was under way.
    before: Option<u64>,
    /// How often in a row help was late.
    late: u64,
    /// How many jobs ago a clock was looked at.
    untimed: u64,
}

impl Last {
    /// A job, while somebody looks for work or not.
    fn begin(&self, is_anybody_looking: bool, now: impl FnOnce() -> u64) -> Streak<'_> {
        let last = self.0.swap(BUSY, Ordering::Relaxed);
        if last >= CONTENDED {
            // Unless it has just ended.
            let _ = self.0.compare_exchange(BUSY, CONTENDED, Ordering::Relaxed, Ordering::Relaxed);
            return Streak { last: self, began: None, ended: 0, before: None, late: 0, untimed: 0 };
        }
        let (ended, took, late) = (last - last % COUNTS, last % TIMES, last % JOB / TIMES);
        let untimed = last % COUNTS / JOB + 1;
        // Nobody rests who has helped as long as that.
        let is_awake = is_anybody_looking && took == ENOUGH;
        if is_awake && late == 0 && untimed < UNTIMED {
            return Streak { last: self, began: None, ended, before: Some(took), late, untimed };
        }
        let now = now();
        // A rest ends in time to come.
        let is_close = is_awake || now.wrapping_sub(ended) < nanos(LOOKING);
        let before = Some(if is_close { took } else { 0 });
        Streak { last: self, began: Some(now), ended, before, late, untimed: 0 }
    }
}

impl Streak<'_> {
    /// Begins a job.
    pub fn begin() -> Streak<'static> {
        LAST.begin(is_anybody_looking(), nanoseconds)
    }

    /// When that was; None: a moment after the one before.
    pub fn began(&self) -> Option<u64> {
        self.began
    }

    /// Whether the jobs right before this one took long enough.
    pub fn is_long(&self) -> bool {
        self.before == Some(ENOUGH)
    }

    /// Takes notice of others that have helped, for whom the job waited so long at its end.
    pub fn helped(&mut self, waited: Duration) {
        self.helped_until(waited, nanoseconds);
    }

    fn helped_until(&mut self, waited: Duration, now: impl FnOnce() -> u64) {
        self.before = self.before.map(|_| ENOUGH);
        if waited < PATIENCE {
            self.late = 0;
            return;
        }
        self.ended = now() + (nanos(waited) << self.late);
        self.late = (self.late + 1).min(MOST_LATE);
        // Until then, everybody is to know.
        self.untimed = 0;
    }

    fn end(&mut self, now: impl FnOnce() -> u64) {
        let Some(before) = self.before else { return };
        let is_contended = self.last.0.load(Ordering::Relaxed) == CONTENDED;
        let (time, took) = if self.untimed > 0 && !is_contended {
            (self.ended, before)
        } else {
            let now = now();
            if is_contended {
                self.ended = now + nanos(CROWDED);
            }
            let took = before + 1 + now.saturating_sub(self.began.unwrap_or(now)) / nanos(UNIT);
            self.untimed = 0;
            if self.ended > now { (self.ended, 0) } else { (now, took.min(ENOUGH)) }
        };
        let counts = self.untimed * JOB + self.late * TIMES + took;
        self.last.0.store(time - time % COUNTS + counts, Ordering::Relaxed);
    }
}

impl Drop for Streak<'_> {
    fn drop(&mut self) {
        self.end(nanoseconds);
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
        let mut streak = std::mem::ManuallyDrop::new(last.begin(false, || from));
        let long = streak.is_long();
        job(&mut streak);
        streak.end(|| from + 2 * nanos(UNIT));
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
        let mut streak = std::mem::ManuallyDrop::new(last.begin(false, || SECOND));
        assert!(!streak.is_long());
        let end = SECOND + ENOUGH * nanos(UNIT);
        streak.end(|| end);
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

    /// Where somebody looks for work a clock is looked at now and then; where help was late, at once.
    #[test]
    fn who_is_awake_tells_the_time() {
        let last = Last(AtomicU64::new(0));
        let (time, times) = (std::cell::Cell::new(SECOND), std::cell::Cell::new(0));
        // One that takes a third of how long others stay awake.
        let job = |is_anybody_looking, waited| {
            times.set(0);
            time.set(time.get() + nanos(LOOKING) / 3);
            let now = || {
                times.set(times.get() + 1);
                time.get()
            };
            let mut streak = std::mem::ManuallyDrop::new(last.begin(is_anybody_looking, now));
            let long = streak.is_long();
            streak.helped_until(waited, now);
            streak.end(now);
            (long, times.get())
        };
        assert_eq!(job(true, Duration::ZERO), (false, 2), "the first one");
        for _ in 0..3 {
            let untimed = (0..100).take_while(|_| job(true, Duration::ZERO) == (true, 0)).count();
            assert_eq!(untimed, UNTIMED as usize - 1);
        }
        assert!((0..3).all(|_| job(true, Duration::ZERO) == (true, 0)));
        assert_eq!(job(false, Duration::ZERO), (false, 2), "who sleeps has for long");
        assert_eq!(job(false, Duration::ZERO), (true, 2));
        assert_eq!(job(true, PATIENCE), (true, 2));
        assert_eq!(job(true, Duration::ZERO), (false, 2), "a rest");
        let from = 2 * SECOND;
        self::job(&last, from, |streak| streak.helped(Duration::ZERO));
        let mut streak = std::mem::ManuallyDrop::new(last.begin(true, || from));
        assert_eq!((streak.is_long(), streak.began()), (true, None));
        // Another one meanwhile is a rest as well.
        assert!(!std::mem::ManuallyDrop::new(last.begin(true, || from)).is_long());
        streak.end(|| from);
        assert!(!std::mem::ManuallyDrop::new(last.begin(true, || from + 1000)).is_long());
    }

    /// For how many milliseconds nobody helps after a job was waited for.
    fn rest_after(last: &Last, from: u64, waited: Duration) -> u64 {
        job(last, from, |streak| streak.helped_until(waited, || from));
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
        job(&last, 9 * SECOND, |streak| streak.helped(PATIENCE / 2));
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
