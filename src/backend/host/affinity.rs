//! On which processors a thread may run, and does.

/// Processors that the calling thread may run on; very many: unknown.
pub fn processors() -> usize {
    #[cfg(target_os = "linux")]
    if let Some(set) = set_of(0) {
        // SAFETY: it counts bits.
        return (unsafe { libc::CPU_COUNT(&set) } as usize).max(1);
    }
    usize::MAX
}

/// Those of a thread, by its number; 0: the calling one.
#[cfg(target_os = "linux")]
pub fn set_of(thread: libc::pid_t) -> Option<libc::cpu_set_t> {
    // SAFETY: a set of bits, as large as is said, which the call fills.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (libc::sched_getaffinity(thread, size_of_val(&set), &mut set) == 0).then_some(set)
    }
}

/// Lets the calling thread run on those only; false: it may not.
#[cfg(target_os = "linux")]
pub fn restrict(set: &libc::cpu_set_t) -> bool {
    restrict_thread(0, set)
}

#[cfg(target_os = "linux")]
fn restrict_thread(thread: libc::pid_t, set: &libc::cpu_set_t) -> bool {
    // SAFETY: a set of bits, as large as is said.
    unsafe { libc::sched_setaffinity(thread, size_of_val(set), set) == 0 }
}

/// All of those but one. None: it is not one of them, or the only one.
#[cfg(target_os = "linux")]
fn without(set: &libc::cpu_set_t, processor: i32) -> Option<libc::cpu_set_t> {
    let index = usize::try_from(processor).ok().filter(|index| *index < libc::CPU_SETSIZE as usize)?;
    let mut others = *set;
    // SAFETY: within the set, of which the others count and compare the bits.
    unsafe {
        libc::CPU_CLR(index, &mut others);
        (!libc::CPU_EQUAL(set, &others) && libc::CPU_COUNT(&others) > 0).then_some(others)
    }
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
    thread: libc::pid_t,
    #[cfg(target_os = "linux")]
    before: libc::cpu_set_t,
    #[cfg(target_os = "linux")]
    others: libc::cpu_set_t,
}

impl Off {
    /// None: the thread may not run there, or nowhere else, or is not to be moved.
    pub fn processor(processor: i32) -> Option<Off> {
        #[cfg(target_os = "linux")]
        {
            let before = set_of(0)?;
            let others = without(&before, processor)?;
            // SAFETY: it takes nothing.
            let thread = unsafe { libc::gettid() };
            restrict(&others).then_some(Off { thread, before, others })
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = processor;
            None
        }
    }

    /// Keeps the thread, which may be another one than the calling one, off this processor rather than off that one, if it
    /// may run nowhere else.
    pub fn turn(&mut self, processor: i32) {
        #[cfg(target_os = "linux")]
        if without(&self.others, processor).is_none()
            && let Some(others) = without(&self.before, processor)
            // SAFETY: it compares bits.
            && !unsafe { libc::CPU_EQUAL(&others, &self.others) }
            && restrict_thread(self.thread, &others)
        {
            self.others = others;
        }
        #[cfg(not(target_os = "linux"))]
        let _ = processor;
    }
}

#[cfg(target_os = "linux")]
impl Drop for Off {
    fn drop(&mut self) {
        // What somebody else has set meanwhile stays.
        // SAFETY: it compares bits.
        if set_of(0).is_some_and(|now| unsafe { libc::CPU_EQUAL(&now, &self.others) }) {
            restrict(&self.before);
        }
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    fn own() -> libc::cpu_set_t {
        set_of(0).unwrap()
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
        // SAFETY: a set of bits, and one within it.
        let other = unsafe {
            let mut other: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(here as usize, &mut other);
            other
        };
        assert!(restrict(&other));
        drop(off);
        assert_eq!(numbers(&own()), [here]);
        assert!(Off::processor(here).is_none());
        assert!(restrict(&before));
    }

    #[test]
    fn processors_that_are_not_there() {
        for processor in [-1, i32::MIN, libc::CPU_SETSIZE, i32::MAX] {
            assert!(Off::processor(processor).is_none());
        }
        assert!(processor() >= 0 && processors() >= 1);
    }
}
