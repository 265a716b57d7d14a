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
/// Where shapes change all the time, only one of so many takes the place of another.
const ONE_OF: u32 = 8;
/// What others count for beside those that came again, from when on there are many, and the most.
const OTHERS: (u32, u32, u32) = (4, 32, 64);

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

/// All of it zero in the beginning, so that none of it lies in the file.
struct Copies {
    copies: [Copy; COPIES],
    /// How those are done that say so, and what is told of them.
    prepared: [MaybeUninit<Prepared>; COPIES],
    reports: [Report; COPIES],
    /// The one that came last.
    last: usize,
    /// More the more came lately that were none of them.
    others: u32,
    /// How many of those came.
    turn: u32,
    /// What was found of the one that is being done.
    looked: Looked,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Looked {
    NotYet = 0,
    /// It came once.
    Seen(u8),
    /// It is none of them.
    Other,
}

/// A copy that came before, or none.
struct Copy {
    state: State,
    rules: u8,
    source: Known,
    destination: Known,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum State {
    None = 0,
    /// It came once, as many do that never come again.
    Seen,
    Prepared,
}

impl Copies {
    const NONE: Copies = Copies {
        copies: [const { Copy { state: State::None, rules: 0, source: Known::NONE, destination: Known::NONE } };
            COPIES],
        prepared: [const { MaybeUninit::uninit() }; COPIES],
        reports: [Report::NONE; COPIES],
        last: 0,
        others: 0,
        turn: 0,
        looked: Looked::NotYet,
    };

    /// The first one, beginning with the one that came last, that something is found of.
    #[inline(always)]
    fn find<T>(&self, look: impl Fn(&Copy) -> Option<T>) -> Option<(usize, T)> {
        for index in 0..COPIES {
            let at = (self.last + index) % COPIES;
            if let Some(found) = look(&self.copies[at]) {
                return Some((at, found));
            }
        }
        None
    }

    /// Adds one in the place of another one, but not of the one that came last.
    fn add(&mut self, rules: u8, source: &TensorView<'_>, destination: &TensorView<'_>) {
        self.last = (self.last + 1) % COPIES;
        let copy = &mut self.copies[self.last];
        (copy.state, copy.rules) = (State::Seen, rules);
        copy.source.set(source);
        copy.destination.set(destination);
    }
}

impl Place {
    const fn new() -> Place {
        Place { owner: AtomicUsize::new(0), copies: UnsafeCell::new(Copies::NONE) }
    }

    /// That of this thread. None: there is none, or it is in use, by whatever this interrupted.
    #[inline(always)]
    fn take() -> Option<Taken> {
        let thread = host::thread();
        // Nobody's, as that of a thread which the system's library does not know may be.
        if thread == 0 {
            return None;
        }
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
// By itself, so that those that are none of them are read with all registers.
#[inline(never)]
pub unsafe fn copy(
    (source, source_flags): (*const DLTensor, u64),
    (destination, destination_flags): (*const DLTensor, u64),
    options: &ConvertOptions,
    tell: impl FnOnce(&Report),
) -> bool {
    let Some(rules) = rules(options) else { return false };
    let Some(mut taken) = Place::take() else { return false };
    let copies = taken.copies();
    let found = copies.find(|copy| {
        if copy.state == State::None || copy.rules != rules {
            return None;
        }
        // SAFETY: the caller's.
        let from = unsafe { copy.source.find(source, source_flags)? };
        // SAFETY: likewise.
        let to = unsafe { copy.destination.find(destination, destination_flags)? };
        from.is_apart_from(&to).then_some((from.first, to.first))
    });
    let Some((at, (from, to))) = found else {
        copies.looked = Looked::Other;
        return false;
    };
    if copies.copies[at].state == State::Seen {
        copies.looked = Looked::Seen(at as u8);
        return false;
    }
    (copies.last, copies.others) = (at, copies.others.saturating_sub(1));
    // SAFETY: it is prepared; the caller's.
    unsafe {
        copies.prepared[at].assume_init_mut().run(from, to);
        tell(&copies.reports[at]);
    }
    true
}

/// Does a copy that has been checked as one that came before, if one did. False: nothing was done.
///
/// # Safety
/// As [`super::copy_into`]; neither is empty.
#[inline(always)]
pub unsafe fn copy_checked(
    source: &TensorView<'_>,
    destination: &TensorView<'_>,
    options: &ConvertOptions,
) -> bool {
    // Rows of the same elements take no longer to copy than to find.
    let is_row = |view: &TensorView<'_>| view.shape.len() == 1 && view.facts.is_c_contiguous();
    let are_rows = is_row(source) && is_row(destination) && source.dtype == destination.dtype;
    let is_small = source.num_bytes.max(destination.num_bytes) < host::ONE_THREAD;
    if are_rows || !is_small {
        return false;
    }
    // Copies, so that those that need not be in memory are not.
    let (source, destination) = (*source, *destination);
    // SAFETY: the caller's.
    unsafe { copy_small(&source, &destination, options) }
}

/// # Safety
/// As [`copy_checked`].
#[inline(never)]
unsafe fn copy_small(
    source: &TensorView<'_>,
    destination: &TensorView<'_>,
    options: &ConvertOptions,
) -> bool {
    if dtype::is_subbyte(source.dtype) || dtype::is_subbyte(destination.dtype) {
        return false;
    }
    let Some(rules) = rules(options) else { return false };
    let Some(mut taken) = Place::take() else { return false };
    let copies = taken.copies();
    let looked = std::mem::replace(&mut copies.looked, Looked::NotYet);
    let is_like = |copy: &Copy| {
        let is_like = copy.state != State::None
            && copy.rules == rules
            && copy.source.is_like(source)
            && copy.destination.is_like(destination);
        is_like.then_some(())
    };
    let found = match looked {
        // It is looked at once more, for another one may have been done meanwhile.
        Looked::Seen(at) => is_like(&copies.copies[usize::from(at)]).map(|()| usize::from(at)),
        Looked::Other => None,
        Looked::NotYet => copies.find(is_like).map(|(at, ())| at),
    };
    let Some(at) = found else {
        let (more, many, most) = OTHERS;
        (copies.others, copies.turn) = ((copies.others + more).min(most), copies.turn.wrapping_add(1));
        let has_turn = copies.others <= many || copies.turn.is_multiple_of(ONE_OF);
        if has_turn && Known::can_be(source) && Known::can_be(destination) {
            copies.add(rules, source, destination);
        }
        return false;
    };
    (copies.last, copies.others) = (at, copies.others.saturating_sub(1));
    // SAFETY: it is prepared, or that is its place; the caller's.
    unsafe {
        if copies.copies[at].state == State::Prepared {
            copies.prepared[at].assume_init_mut().run(source.address, destination.address);
            return true;
        }
        let report = prepare(&mut copies.prepared[at], source, destination, options);
        if let Some(report) = report {
            (copies.copies[at].state, copies.reports[at]) = (State::Prepared, report);
        }
        report.is_some()
    }
}

/// Does a copy, keeps how, and says what is told of it. None: not in a way that is kept, and nothing was done.
///
/// # Safety
/// As [`copy_checked`].
#[inline(never)]
unsafe fn prepare(
    place: &mut MaybeUninit<Prepared>,
    source: &TensorView<'_>,
    destination: &TensorView<'_>,
    options: &ConvertOptions,
) -> Option<Report> {
    let report = Report::from(&plan::copy_into(source, destination, options).ok()?);
    let (from, to) = (source.address, destination.address);
    let moves = source.dtype == destination.dtype;
    if moves && source.has_strides_of(destination) && source.facts.is_dense() {
        // SAFETY: dense elements fill these bytes on both sides.
        unsafe { host::copy_bytes(from, to, source.num_bytes) };
        Prepared::bytes(place, source.num_bytes);
        return Some(report);
    }
    let rules = Rules { saturate: options.saturate, exact: false };
    let mut room = [Axis::default(); most_axes(MOST_NDIM)];
    let job = Transfer::new(source.shape, side_of(source), side_of(destination), rules, &mut room);
    // SAFETY: the caller's.
    unsafe { Prepared::make(place, &job, from, to) }.then_some(report)
}
