//! The rings of staging slots (src/backend/staging.rs), which count their owners (src/backend/shared.rs).

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::PoisonError;

use shuttle::rand::Rng;
use shuttle::sync::atomic::{AtomicUsize, Ordering, fence};
use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::executions;

pub type Result<T> = std::result::Result<T, &'static str>;

include!(concat!(env!("OUT_DIR"), "/shared.rs"));
include!(concat!(env!("OUT_DIR"), "/rings.rs"));

/// There is always memory of the library's own here.
fn boxed<T>(value: T) -> Result<Box<T>> {
    Ok(Box::new(value))
}

fn list<T>(room: usize) -> Result<Vec<T>> {
    Ok(Vec::with_capacity(room))
}

pub fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<()> {
    list.reserve(more);
    Ok(())
}

/// What a device has made, and whom it has given it to.
#[derive(Default)]
struct Device {
    made: AtomicUsize,
    /// How often copies may not be waited for.
    loses: usize,
    lost: AtomicUsize,
    /// Now and then there is no memory for a slot.
    refuses: bool,
}

struct Pinned {
    device: Arc<Device>,
    used: AtomicUsize,
    lands: bool,
}

impl Device {
    fn make(self: &Arc<Device>) -> Result<Pinned> {
        if self.refuses && shuttle::rand::thread_rng().gen_bool(0.3) {
            return Err("no memory");
        }
        self.made.fetch_add(1, Ordering::SeqCst);
        Ok(Pinned { device: self.clone(), used: AtomicUsize::new(0), lands: true })
    }
}

impl Slot for Pinned {
    fn memory(&self) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn land(&mut self) -> Result<()> {
        assert!(self.lands, "a slot that may be in use came back");
        shuttle::thread::yield_now();
        let device = &self.device;
        let loses = |lost| (lost < device.loses).then_some(lost + 1);
        if shuttle::rand::thread_rng().gen_bool(0.5)
            && device.lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, loses).is_ok()
        {
            self.lands = false;
            return Err("lost");
        }
        Ok(())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        assert!(self.lands, "freed while a copy may be on its way");
        self.device.made.fetch_sub(1, Ordering::SeqCst);
    }
}

const SLOTS_OF_RING: u64 = 2;

/// A caller: takes slots, uses them and gives them back. Whether it got any.
fn cross(ring: &Shared<Ring<Pinned>>, device: &Arc<Device>, wanted: usize) -> bool {
    let Some(mut lease) = Ring::take(ring, wanted, |_| device.make()).unwrap() else { return false };
    assert!(!lease.slots.is_empty() && lease.slots.len() <= wanted.max(1));
    for slot in &lease.slots {
        assert_eq!(slot.used.fetch_add(1, Ordering::SeqCst), 0, "two callers have a slot");
    }
    assert!(device.made.load(Ordering::SeqCst) <= SLOTS_OF_RING as usize);
    shuttle::thread::yield_now();
    for slot in &lease.slots {
        slot.used.fetch_sub(1, Ordering::SeqCst);
    }
    // One says that it is done, another fails and drops it.
    if shuttle::rand::thread_rng().gen_bool(0.5) {
        let _ = lease.finish();
    }
    true
}

/// Three callers of a ring of two slots; how many got some, and what was lost on the way.
fn explore(loses: usize, refuses: bool, check: fn(got: usize, lost: usize)) {
    let run = move || {
        let device = Arc::new(Device { loses, refuses, ..Device::default() });
        let rings = Arc::new(Rings::new());
        let callers = [1, 2, 2].map(|wanted| {
            let (rings, device) = (rings.clone(), device.clone());
            shuttle::thread::spawn(move || {
                let ring = rings.of(SLOTS_OF_RING * SMALLEST).unwrap();
                usize::from(cross(&ring, &device, wanted)) + usize::from(cross(&ring, &device, 1))
            })
        });
        let got = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
        drop(rings);
        let lost = device.lost.load(Ordering::SeqCst);
        assert_eq!(device.made.load(Ordering::SeqCst), lost, "what is not lost is freed with the rings");
        check(got, lost);
    };
    shuttle::check_random(run, executions());
    shuttle::check_pct(run, executions(), 3);
}

#[test]
fn callers_share_a_ring() {
    explore(0, false, |got, _| assert_eq!(got, 6));
}

#[test]
fn slots_that_cannot_be_made() {
    explore(0, true, |_, _| {});
}

#[test]
fn slots_that_are_lost() {
    explore(1, false, |got, lost| assert!(got == 6 && lost <= 1));
    explore(2, false, |got, lost| assert!(lost == 2 || got == 6));
    explore(2, true, |_, _| {});
}

/// As many limits as are kept, and one more: rings go when nobody uses them, and nobody's goes.
#[test]
fn rings_come_and_go() {
    let run = || {
        let device = Arc::new(Device::default());
        let rings = Arc::new(Rings::new());
        let callers: Vec<_> = (0..3)
            .map(|first| {
                let (rings, device) = (rings.clone(), device.clone());
                shuttle::thread::spawn(move || {
                    for limit in [1 + first, 4 + first] {
                        let ring = rings.of(limit * SMALLEST).unwrap();
                        let again = rings.of(limit * SMALLEST).unwrap();
                        assert!(ring.0 == again.0, "a ring in use was forgotten");
                        let lease = Ring::take(&ring, 1, |_| device.make()).unwrap().expect("a slot");
                        drop((ring, again));
                        shuttle::thread::yield_now();
                        drop(lease);
                    }
                })
            })
            .collect();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        assert!(rings.0.lock().unwrap().len() <= KEPT + 2);
        drop(rings);
        assert_eq!(device.made.load(Ordering::SeqCst), 0);
    };
    shuttle::check_random(run, executions());
    shuttle::check_pct(run, executions(), 3);
}
