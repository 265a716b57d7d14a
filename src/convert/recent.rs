//! Small copies within the host's memory that came lately. To look into one takes as long as to do it, and programs copy
//! the same shapes again and again: what is like one that came before is done as that was. It is only where it lies
//! that is looked at each time.
//!
//! Every thread has what it did by itself, so that nobody waits and nothing is locked; where there are more threads than
//! places, the others do without. It is not in thread-local data, for the reason that `host::transpose::stage` has.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::side_of;
use crate::backend::host::{self, Prepared};
use crate::backend::job::{Rules, Transfer, most_axes};
use crate::dlpack::known::{Known, MOST_NDIM};
use crate::dlpack::raw::DLTensor;
use crate::dlpack::view::TensorView;
use crate::dtype::{self, Casting};
use crate::layout::Axis;
use crate::plan::{self, ConvertOptions};
use crate::report::Report;

/// A power of two.
const PLACES: usize = 64;
/// Places that a thread may have, one after another.
const TRIES: usize = 4;
/// Copies that a place has room for.
const COPIES: usize = 4;

static RECENT: [Place; PLACES] = [const { Place::new() }; PLACES];

/// What a thread keeps, in lines of its own.
#[repr(align(128))]
struct Place {
    /// Its [`host::thread`], which no other thread has at the time; one that comes to have it later has the place too.
    /// 0: nobody's. [`IN_USE`] is added while it is.
    owner: AtomicUsize,
    copies: UnsafeCell<Copies>,
}

/// What is no thread's.
const IN_USE: usize = 1;

// SAFETY: its owner alone has what is in it.
unsafe impl Sync for Place {}

struct Copies {
    /// The first `count` are there; not an option each, whose bytes would not be zero and lie in the file.
    copies: [MaybeUninit<Copy>; COPIES],
    count: usize,
    /// The one that came last.
    last: usize,
}

impl Copies {
    const NONE: Copies = Copies { copies: [const { MaybeUninit::uninit() }; COPIES], count: 0, last: 0 };

    /// The first one, beginning with the one that came last, that something is found of.
    #[inline(always)]
    fn find<T>(&mut self, look: impl Fn(&Copy) -> Option<T>) -> Option<(&mut Copy, T)> {
        for index in 0..self.count {
            let at = self.last + index;
            let at = if at < self.count { at } else { at - self.count };
            // SAFETY: it is one of the first.
            if let Some(found) = look(unsafe { self.copies[at].assume_init_ref() }) {
                self.last = at;
                // SAFETY: as above.
                return Some((unsafe { self.copies[at].assume_init_mut() }, found));
            }
        }
        None
    }

    /// Adds one; where there is no room, another one goes, but not the one that came last.
    fn add(&mut self, copy: Copy) {
        let at = if self.count < COPIES { self.count } else { (self.last + 1) % COPIES };
        self.copies[at].write(copy);
        (self.count, self.last) = (self.count.max(at + 1), at);
    }
}

/// A copy that came before.
struct Copy {
    rules: u8,
    source: Known,
    destination: Known,
    /// How it is done, and what is told of it. None: it came once, as many do that never come again.
    prepared: Option<(Prepared, Report)>,
}

impl Place {
    const fn new() -> Place {
        Place { owner: AtomicUsize::new(0), copies: UnsafeCell::new(Copies::NONE) }
    }

    /// That of this thread. None: there is none, or it is in use, by whatever this interrupted.
    #[inline(always)]
    fn take() -> Option<Taken> {
        let thread = host::thread();
        let first = thread.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize) >> (usize::BITS - PLACES.ilog2());
        for index in 0..TRIES {
            let place = &RECENT[(first + index) % PLACES];
            let mut owner = place.owner.load(Ordering::Acquire);
            if owner == 0 {
                let claim = place.owner.compare_exchange(0, thread, Ordering::Acquire, Ordering::Acquire);
                owner = claim.map_or_else(|other| other, |_| thread);
            }
            if owner == thread {
                // Not an exchange, which would wait for all that was written: nobody else writes it.
                place.owner.store(thread + IN_USE, Ordering::Relaxed);
                return Some(Taken { place, thread });
            }
            if owner == thread + IN_USE {
                return None;
            }
        }
        None
    }
}

/// A place until this is dropped.
struct Taken {
    place: &'static Place,
    thread: usize,
}

impl Taken {
    #[inline(always)]
    fn copies(&mut self) -> &mut Copies {
        // SAFETY: nobody else has it.
        unsafe { &mut *self.place.copies.get() }
    }
}

impl Drop for Taken {
    #[inline(always)]
    fn drop(&mut self) {
        self.place.owner.store(self.thread, Ordering::Release);
    }
}

/// What of the options decides whether a copy is done, and how. None: each is looked into.
#[inline(always)]
fn rules(options: &ConvertOptions) -> Option<u8> {
    let is_plain = options.casting != Casting::Exact && !options.verify_pointer;
    is_plain.then_some(options.casting as u8 | u8::from(options.saturate) << 7)
}

/// Does a copy that is like one that came before, and tells of it. False: it is not, and nothing was done.
///
/// # Safety
/// As [`super::copy_into`] of the two tensors, which are such that [`TensorView::read`] may look at them.
#[inline(always)]
pub unsafe fn copy(
    (source, source_flags): (*const DLTensor, u64),
    (destination, destination_flags): (*const DLTensor, u64),
    options: &ConvertOptions,
    tell: impl FnOnce(&Report),
) -> bool {
    let Some(rules) = rules(options) else { return false };
    let Some(mut taken) = Place::take() else { return false };
    let found = taken.copies().find(|copy| {
        if copy.rules != rules || copy.prepared.is_none() {
            return None;
        }
        // SAFETY: the caller's.
        let from = unsafe { copy.source.find(source, source_flags)? };
        // SAFETY: likewise.
        let to = unsafe { copy.destination.find(destination, destination_flags)? };
        from.is_apart_from(&to).then_some((from.first, to.first))
    });
    if let Some((Copy { prepared: Some((prepared, report)), .. }, (from, to))) = found {
        // SAFETY: the caller's.
        unsafe { prepared.run(from, to) };
        tell(report);
        return true;
    }
    false
}

/// Does a copy that has been checked as one that came before, if one did. False: nothing was done.
///
/// # Safety
/// As [`super::copy_into`]; neither is empty.
#[inline(never)]
pub unsafe fn copy_checked(
    source: &TensorView<'_>,
    destination: &TensorView<'_>,
    options: &ConvertOptions,
) -> bool {
    let is_small = source.num_bytes.max(destination.num_bytes) < host::ONE_THREAD;
    if !is_small || dtype::is_subbyte(source.dtype) || dtype::is_subbyte(destination.dtype) {
        return false;
    }
    let Some(rules) = rules(options) else { return false };
    let Some(mut taken) = Place::take() else { return false };
    let copies = taken.copies();
    let look = |copy: &Copy| {
        let is_it =
            copy.rules == rules && copy.source.is_like(source) && copy.destination.is_like(destination);
        is_it.then_some(())
    };
    if let Some((copy, ())) = copies.find(look) {
        if let Some((prepared, _)) = &mut copy.prepared {
            // SAFETY: the caller's; what is not empty and the host's has an address.
            unsafe { prepared.run(source.address, destination.address) };
            return true;
        }
        // SAFETY: the caller's.
        copy.prepared = unsafe { prepared(source, destination, options) };
        return copy.prepared.is_some();
    }
    if let Some((source, destination)) = Known::of(source).zip(Known::of(destination)) {
        copies.add(Copy { rules, source, destination, prepared: None });
    }
    false
}

/// Does a copy and says how. None: not in a way that is kept, and nothing was done.
///
/// # Safety
/// As [`copy_checked`].
#[inline(never)]
unsafe fn prepared(
    source: &TensorView<'_>,
    destination: &TensorView<'_>,
    options: &ConvertOptions,
) -> Option<(Prepared, Report)> {
    let report = Report::from(&plan::copy_into(source, destination, options).ok()?);
    let (from, to) = (source.address, destination.address);
    let moves = source.dtype == destination.dtype;
    if moves && source.has_strides_of(destination) && source.facts.is_dense() {
        // SAFETY: dense elements fill these bytes on both sides.
        unsafe { host::copy_bytes(from, to, source.num_bytes) };
        return Some((Prepared::bytes(source.num_bytes), report));
    }
    let rules = Rules { saturate: options.saturate, exact: false };
    let mut room = [Axis::default(); most_axes(MOST_NDIM)];
    let job = Transfer::new(source.shape, side_of(source), side_of(destination), rules, &mut room);
    // SAFETY: the caller's.
    unsafe { Prepared::make(&job, from, to) }.map(|prepared| (prepared, report))
}
