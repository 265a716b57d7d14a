//! Divides a job among threads, along one axis (`cuts`): whether, among how many, and along which; and what is too large
//! for the caches into what goes around them and what through them.

use std::sync::atomic::{AtomicBool, Ordering};

use super::cuts::{Cuts, LINE};
use super::streak::Streak;
use super::stream;
use super::threads::{self, Task};
use super::walk::{Kernel, walk};
use crate::layout::Axis;

/// Bytes of the larger side from which on a second thread pays for being woken, which takes as long as
/// copying two megabytes: of plain copies, and of jobs that do more with each byte.
pub const PARALLEL: [i64; 2] = [4 << 20, 2 << 20];
/// The same for threads that are awake anyway, of which two are worth it from there on: of what is read and written in order,
/// and of the rest.
pub const AWAKE: [i64; 2] = [256 << 10, 192 << 10];
/// Bytes of a part: small enough to make up for threads that are not equally fast.
const PART: i64 = 512 << 10;
/// The same where a job has few of those, unless it is read and written in order.
const PART_OF_SMALL: i64 = 256 << 10;
/// Elements of a piece that is worth being read by itself.
const PIECE: i64 = 64;

/// Walks a job with at most `limit` threads (0: as many as the process may run on). The destination's
/// steps count bytes, from `destination`.
///
/// # Safety
/// As [`walk`].
pub unsafe fn run<K: Kernel>(
    axes: &[Axis],
    start: (i64, i64),
    kernel: &K,
    destination: u64,
    limit: u32,
) -> bool {
    let steps = kernel.steps();
    let times = |size: i64| axes.iter().fold(size, |bytes, axis| bytes.saturating_mul(axis.extent));
    let (bytes, written) = (times(steps.0.max(steps.1)), times(steps.1));
    let in_order = axes.last().is_some_and(|inner| (inner.source, inner.destination) == steps);
    let plain = in_order && steps.0 == steps.1;
    let through = kernel.through(axes);
    let held = if through.is_some() { stream::held(read(axes), written) } else { 0 };
    let awake = AWAKE[usize::from(!in_order)];
    if bytes < awake || limit == 1 && held == 0 {
        // SAFETY: the caller's.
        return unsafe { walk(axes, start, kernel) };
    }
    let mut job: Option<Job<'_, K>> = None;
    // Others have its lines from the last one, and each would be waited for.
    stream::prefetch_to_write((&raw const job).cast(), threads::NEAR);
    // Who wants no help does not stand in others' way either.
    let mut streak = (limit != 1).then(Streak::begin);
    let is_large = bytes >= PARALLEL[usize::from(!plain)];
    let part = if is_large || in_order { PART } else { PART_OF_SMALL };
    let most = if is_large { usize::MAX } else { (bytes / awake) as usize * 2 };
    let in_a_row = streak.as_ref().filter(|streak| streak.is_long());
    // A few large jobs take longer than a moment.
    let now = |streak: &Streak<'_>| streak.began().or_else(|| is_large.then(threads::nanoseconds));
    let threads = match in_a_row {
        Some(streak) => threads::available_lately(now(streak)),
        None if is_large => threads::available(),
        None => 1,
    };
    let threads = if limit == 0 { threads.min(most) } else { threads.min(most).min(limit as usize) };
    if threads < 2 && held == 0 {
        // SAFETY: the caller's.
        return unsafe { walk(axes, start, kernel) };
    }
    // As many for each thread.
    let all = (written / part / threads as i64).max(1) * threads as i64;
    let several = all.min(threads as i64 * kernel.parts());
    let most = if plain { all } else { several };
    // Of the axes that have several parts for everybody the one that is furthest from innermost on both sides, so
    // that parts keep what follows in memory whole; of those as far the one with the most parts, and the outermost with
    // as many; else the longest. What is innermost in the source is cut into long pieces only: short ones would read a
    // part of each line.
    let nearest = (0..axes.len()).min_by_key(|index| axes[*index].source.unsigned_abs());
    let least = |index: usize| if Some(index) == nearest { several.saturating_mul(PIECE) } else { several };
    let stride = |index: &usize| {
        let Axis { source, destination, .. } = axes[*index];
        (source / steps.0).unsigned_abs().min((destination / steps.1).unsigned_abs())
    };
    let is_enough = |index: &usize| axes[*index].extent >= least(*index);
    let enough = (0..axes.len()).rev().filter(is_enough);
    let enough = enough.max_by_key(|index| (stride(index), most.min(axes[*index].extent)));
    // Of about the longest as well.
    let longest = || {
        let others = || (0..axes.len()).filter(|index| Some(*index) != nearest || axes.len() == 1);
        let extent = others().map(|index| axes[index].extent).max()?;
        others().rev().filter(|index| axes[*index].extent > extent / 4 * 3).max_by_key(stride)
    };
    let Some(picked) = enough.or_else(longest) else {
        // SAFETY: the caller's.
        return unsafe { walk(axes, start, kernel) };
    };
    let axis = axes[picked];
    // What every part has of each outer step is short where there are many.
    let wanted = if picked == 0 { most } else { several };
    let least = match kernel.least() {
        (least, _) if Some(picked) == nearest => least,
        (_, least) if picked + 1 == axes.len() => least,
        _ => 1,
    };
    // As many for each thread, where there are fewer than are wanted.
    let wanted = match axis.extent / least {
        most if most < wanted => (most / threads as i64).max(1) * threads as i64,
        _ => wanted,
    };
    let size = (destination, steps.1);
    let Some(cuts) = Cuts::new((axes, start), size, picked, (wanted, threads as i64)) else {
        // SAFETY: the caller's.
        return unsafe { walk(axes, start, kernel) };
    };
    let parts = cuts.parts();
    let held = if held == 0 { 0 } else { (parts as i128 * held as i128 / written.max(1) as i128) as i64 };
    let is_stopped = AtomicBool::new(false);
    let job = job.insert(Job { is_stopped, held, around: kernel.clone(), cuts, through });
    let waited = threads::share(threads, parts as usize, job);
    if let Some(streak) = streak.as_mut().filter(|_| threads > 1) {
        streak.helped(waited);
    }
    !job.is_stopped.load(Ordering::Relaxed)
}

/// What threads need of a job: in few lines, each of which they have to bring from the one that made it.
#[repr(C, align(64))]
struct Job<'a, K> {
    /// The kernel stopped.
    is_stopped: AtomicBool,
    /// So many of the parts, evenly spread, go through the caches.
    held: i64,
    around: K,
    cuts: Cuts<'a>,
    /// By which they do.
    through: Option<K>,
}

impl<K: Kernel> Task for Job<'_, K> {
    fn perform(&self, index: usize) {
        if self.is_stopped.load(Ordering::Relaxed) {
            return;
        }
        let (index, parts) = (index as i64, self.cuts.parts());
        let is_held = || (index + 1) * self.held / parts > index * self.held / parts;
        let through = self.through.as_ref().filter(|_| self.held > 0 && is_held());
        // SAFETY: the parts are the job of who called `run`, each once.
        if !unsafe { self.cuts.part(index, through.unwrap_or(&self.around)) } {
            self.is_stopped.store(true, Ordering::Relaxed);
        }
    }
}

/// Bytes of the source that a job looks at, about: all from the first one to the last, or the rows with what is beside them
/// in their lines.
fn read(axes: &[Axis]) -> i64 {
    let reach = |axis: &Axis| (axis.extent - 1).saturating_mul(axis.source.saturating_abs());
    let span = axes.iter().fold(0, |bytes: i64, axis| bytes.saturating_add(reach(axis)));
    let Some((inner, outer)) = axes.split_last() else { return span };
    let row = reach(inner).saturating_add(LINE);
    span.min(outer.iter().fold(row, |bytes, axis| bytes.saturating_mul(axis.extent)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Arc, Mutex};

    use super::super::kernel::Sides;
    use super::*;

    /// Notes what it is asked to do.
    #[derive(Clone)]
    struct Notes {
        least: (i64, i64),
        matrices: Arc<Mutex<Vec<(usize, usize)>>>,
        /// Twice the elements of lines that two parts would share, which both of them do, and of the rows beside those.
        heads: Arc<AtomicUsize>,
        is_elsewhere: bool,
    }

    impl Kernel for Notes {
        fn steps(&self) -> (i64, i64) {
            (4, 4)
        }

        fn transposes(&self) -> bool {
            true
        }

        fn least(&self) -> (i64, i64) {
            self.least
        }

        unsafe fn row(&self, _from: (i64, i64), _to: (i64, i64), n: usize) -> bool {
            // Beside a head there may be one row.
            let twice = if self.is_elsewhere { 1 } else { 2 };
            self.heads.fetch_add(twice * n, Ordering::Relaxed);
            true
        }

        fn sides(&self) -> Sides {
            Sides { source: std::ptr::null(), destination: std::ptr::null_mut() }
        }

        fn reading(&self, _source: *const u8) -> Notes {
            self.elsewhere(std::ptr::null_mut())
        }

        fn elsewhere(&self, _destination: *mut u8) -> Notes {
            let (matrices, heads) = (Arc::default(), self.heads.clone());
            Notes { least: self.least, matrices, heads, is_elsewhere: true }
        }

        unsafe fn matrix(
            &self,
            _from: (i64, i64),
            _to: (i64, i64),
            rows: usize,
            columns: usize,
            _ahead: i64,
        ) -> bool {
            if self.is_elsewhere {
                self.heads.fetch_add(rows * columns, Ordering::Relaxed);
            } else {
                self.matrices.lock().unwrap().push((rows, columns));
            }
            true
        }
    }

    /// However narrow a matrix is, its parts are no narrower than they should be, and threads have as many.
    #[test]
    fn parts_of_matrices() {
        for (rows, columns) in
            [(25905, 647), (16384, 1024), (4096, 4096), (647, 25905), (30000, 300), (300, 30000)]
        {
            for least in [(256, 96), (128, 512), (1, 1)] {
                let axes = [
                    Axis { extent: columns, source: 4, destination: 4 * rows },
                    Axis { extent: rows, source: 4 * columns, destination: 4 },
                ];
                let notes =
                    Notes { least, matrices: Arc::default(), heads: Arc::default(), is_elsewhere: false };
                // What is in lines that parts would share is written there: nothing that anybody reads.
                let mut memory = vec![0u8; (4 * rows * columns) as usize];
                let destination = memory.as_mut_ptr().expose_provenance() as u64;
                // SAFETY: as many bytes are there; nothing is read.
                let done = unsafe { run(&axes, (0, 0), &notes, destination, 2) };
                let matrices = notes.matrices.lock().unwrap();
                let which = format!("{rows} x {columns}, {least:?}: {matrices:?}");
                assert!(done, "{which}");
                let elements: usize = matrices.iter().map(|(rows, columns)| rows * columns).sum();
                let heads = notes.heads.load(Ordering::Relaxed);
                assert_eq!(elements + heads / 2, (rows * columns) as usize, "{which}");
                if matrices.len() == 1 {
                    continue; // there is one processor
                }
                // What is left for the last parts is less by the lines that the others are rounded to.
                let is_less = |have: usize, least: i64, all: i64| (have as i64) < least.min(all) - LINE;
                let narrow = matrices.iter().filter(|(_, have)| is_less(*have, least.0, columns));
                let short = matrices.iter().filter(|(have, _)| is_less(*have, least.1, rows));
                assert_eq!((narrow.count(), short.count()), (0, 0), "{which}");
            }
        }
    }
}
