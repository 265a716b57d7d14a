//! On which processors a thread may run, and does.

/// Processors that the calling thread may run on; very many: unknown.
pub fn processors() -> usize {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: a set of bits, as large as is said, which the call fills.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            if libc::sched_getaffinity(0, size_of_val(&set), &mut set) == 0 {
                return (libc::CPU_COUNT(&set) as usize).max(1);
            }
        }
    }
    usize::MAX
}

/// The one that the calling thread runs on now; below 0: unknown.
pub fn processor() -> i32 {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: it takes nothing.
    unsafe {
        libc::sched_getcpu()
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    -1
}

/// Keeps the calling thread off one of its processors until it is dropped: if it runs there now, it moves.
///
/// A system wakes a thread where its waker runs if it takes the other processors for busy, as virtual machines do with
/// some that sleep. There one waits for the other, until the system looks again some milliseconds later.
pub struct Off {
    #[cfg(target_os = "linux")]
    before: libc::cpu_set_t,
    #[cfg(target_os = "linux")]
    others: libc::cpu_set_t,
}

impl Off {
    /// None: the thread may not run there, or nowhere else, or is not to be moved.
    pub fn processor(processor: i32) -> Option<Off> {
        #[cfg(target_os = "linux")]
        // SAFETY: sets of bits, the first of which is filled before use; only this thread's change.
        unsafe {
            let index =
                usize::try_from(processor).ok().filter(|index| *index < libc::CPU_SETSIZE as usize)?;
            let mut before: libc::cpu_set_t = std::mem::zeroed();
            if libc::sched_getaffinity(0, size_of_val(&before), &mut before) != 0 {
                return None;
            }
            let mut others = before;
            libc::CPU_CLR(index, &mut others);
            let may = !libc::CPU_EQUAL(&before, &others) && libc::CPU_COUNT(&others) > 0;
            let moved = may && libc::sched_setaffinity(0, size_of_val(&others), &others) == 0;
            moved.then_some(Off { before, others })
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = processor;
            None
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for Off {
    fn drop(&mut self) {
        // SAFETY: as above. What somebody else has set meanwhile stays.
        unsafe {
            let mut now: libc::cpu_set_t = std::mem::zeroed();
            let is_known = libc::sched_getaffinity(0, size_of_val(&now), &mut now) == 0;
            if is_known && libc::CPU_EQUAL(&now, &self.others) {
                libc::sched_setaffinity(0, size_of_val(&self.before), &self.before);
            }
        }
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    /// Those of this thread.
    fn own() -> libc::cpu_set_t {
        // SAFETY: a set of bits, which the call fills.
        unsafe {
            let mut set = std::mem::zeroed();
            assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
            set
        }
    }

    fn numbers(set: &libc::cpu_set_t) -> Vec<i32> {
        // SAFETY: within the set.
        (0..libc::CPU_SETSIZE).filter(|index| unsafe { libc::CPU_ISSET(*index as usize, set) }).collect()
    }

    #[test]
    fn a_thread_moves_and_may_come_back() {
        let before = numbers(&own());
        for processor in &before {
            let off = Off::processor(*processor);
            assert_eq!(off.is_some(), before.len() > 1);
            if off.is_some() {
                assert_ne!(super::processor(), *processor);
                assert_eq!(
                    numbers(&own()),
                    before.iter().filter(|one| *one != processor).copied().collect::<Vec<_>>()
                );
            }
            drop(off);
            assert_eq!(numbers(&own()), before);
        }
    }

    #[test]
    fn others_have_the_last_word() {
        let before = own();
        let here = numbers(&before)[0];
        let Some(off) = Off::processor(here) else { return };
        // SAFETY: sets of bits, of this thread.
        unsafe {
            let mut other: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(here as usize, &mut other);
            assert_eq!(libc::sched_setaffinity(0, size_of_val(&other), &other), 0);
            drop(off);
            assert_eq!(numbers(&own()), [here]);
            assert!(Off::processor(here).is_none());
            assert_eq!(libc::sched_setaffinity(0, size_of_val(&before), &before), 0);
        }
    }

    #[test]
    fn processors_that_are_not_there() {
        for processor in [-1, i32::MIN, libc::CPU_SETSIZE, i32::MAX] {
            assert!(Off::processor(processor).is_none());
        }
        assert!(processor() >= 0 && processors() >= 1);
    }
}
