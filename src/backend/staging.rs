//! Staging: a bounded ring of pinned slots through which the host's memory meets a device's.
//!
//! Copy engines reach pageable memory through a driver's own buffer only, one copy at a time and slowly.
//! Here a job is cut into parts whose packed elements fit a slot. Several threads fill slots, gathering
//! and casting as they go, while others are on their way; downloads are the same in reverse. Nothing is
//! pinned per call.
//!
//! A caller takes all of its slots at once, waits for one only while it holds none, and holds no lock
//! while a driver works, so callers never wait for each other in a circle. Before it takes slots it has to
//! have waited for whatever its own copies wait for. A slot whose copy may still be on its way is never
//! used or freed again.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::host::{self, Host, threads};
use super::job::{Transfer, Work};
use super::prefault::prefault;
use super::shared::{Shared, list, reserve};
use super::{Backend, Place, Streams};
use crate::error::Result;
use crate::layout::{Axis, Folded, MAX_NDIM};

/// Pinned memory of a ring, and what is on its way from or to it.
pub trait Slot: Send {
    /// Its first byte, of as many as its ring's slots have.
    fn memory(&self) -> NonNull<u8>;

    /// Waits for the copies that were begun. Where that fails it is not known whether they are over.
    fn land(&mut self) -> Result<()>;
}

/// Bytes of all slots of a ring, where a context sets no limit.
const DEFAULT_BYTES: u64 = 16 << 20;
/// Bytes of a slot: it stays in a cache while it is filled, and takes a copy engine long enough.
const SLOT_BYTES: u64 = 2 << 20;
/// Slots are rather smaller than fewer than this.
const SLOTS: u64 = 8;
/// Smaller slots cost more to hand over than to copy.
const SMALLEST: u64 = 64 << 10;
/// Slots of a thread: one is filled while the other is on its way.
const SLOTS_OF_THREAD: usize = 2;
/// Rings that a device keeps while nobody uses them.
const KEPT: usize = 4;

/// The rings of a device: contexts of one limit share one.
pub struct Rings<S>(Mutex<Vec<Shared<Ring<S>>>>);

impl<S: Slot> Default for Rings<S> {
    fn default() -> Rings<S> {
        Rings::new()
    }
}

impl<S: Slot> Rings<S> {
    /// None yet.
    pub const fn new() -> Rings<S> {
        Rings(Mutex::new(Vec::new()))
    }

    /// The ring of a limit in bytes; 0: the default.
    pub fn of(&self, limit: u64) -> Result<Shared<Ring<S>>> {
        let limit = if limit == 0 { DEFAULT_BYTES } else { limit };
        let mut unused = None;
        let mut rings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ring) = rings.iter().find(|ring| ring.limit == limit) {
            return Ok(ring.clone());
        }
        reserve(&mut rings, 1)?;
        let ring = Shared::new(Ring::new(limit))?;
        if rings.len() >= KEPT
            && let Some(index) = rings.iter().position(|ring| ring.owners() == 1)
        {
            unused = Some(rings.remove(index));
        }
        rings.push(ring.clone());
        // Its slots are freed without the lock.
        drop(rings);
        drop(unused);
        Ok(ring)
    }
}

/// Bytes of a slot of a ring of so many bytes.
fn slot_bytes(limit: u64) -> u64 {
    (limit / SLOTS).clamp(SMALLEST, SLOT_BYTES).min(limit)
}

/// Bytes of the slots that a job takes at most, whose elements are packed to so many bytes, and its parts.
/// None: it cannot cross.
#[cfg(feature = "opencl")]
pub fn slots_for<'a>(job: &Transfer<'a>, size: u64) -> Option<(u64, Parts<'a>)> {
    let limit = if job.staging_bytes == 0 { DEFAULT_BYTES } else { job.staging_bytes };
    let bytes = slot_bytes(limit);
    let parts = Parts::of(job, size, usize::try_from(bytes).ok()?)?;
    let slots = slots_of(parts.count, workers(parts.count, job.threads)) as u64;
    Some((slots.min(limit / bytes) * bytes, parts))
}

/// Bytes of one slot of a ring of so many, as in [`Transfer`].
#[cfg(feature = "opencl")]
pub fn one_slot(limit: u64) -> u64 {
    slot_bytes(if limit == 0 { DEFAULT_BYTES } else { limit })
}

/// Slots that callers take and give back.
pub struct Ring<S> {
    /// Bytes of all of them.
    limit: u64,
    /// Bytes of each.
    slot_bytes: usize,
    /// How many there may be.
    most: usize,
    state: Mutex<State<S>>,
    /// Callers that hold no slot wait here.
    freed: Condvar,
}

struct State<S> {
    free: Vec<S>,
    /// All that are there or being made.
    made: usize,
    /// Those among them that are never used again.
    lost: usize,
}

impl<S: Slot> Ring<S> {
    fn new(limit: u64) -> Ring<S> {
        let bytes = slot_bytes(limit);
        let state = Mutex::new(State { free: Vec::new(), made: 0, lost: 0 });
        let most = usize::try_from(limit / bytes).unwrap_or(usize::MAX);
        Ring { limit, slot_bytes: bytes as usize, most, state, freed: Condvar::new() }
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes at least one slot and at most `wanted`; waits while all are taken. `make` makes one of so many
    /// bytes. None: there are none to be had.
    pub fn take(
        ring: &Shared<Self>,
        wanted: usize,
        make: impl Fn(usize) -> Result<S>,
    ) -> Result<Option<Lease<S>>> {
        let wanted = wanted.clamp(1, ring.most);
        let mut slots = list(wanted)?;
        let mut state = ring.state();
        loop {
            // So that they can be given back, whatever happens.
            let more = state.made.saturating_add(wanted).min(ring.most) - state.free.len();
            reserve(&mut state.free, more)?;
            let left = state.free.len().saturating_sub(wanted);
            slots.extend(state.free.drain(left..));
            let mut missing = (wanted - slots.len()).min(ring.most - state.made);
            if !slots.is_empty() || missing > 0 {
                state.made += missing;
                drop(state);
                let mut lease = Lease { ring: ring.clone(), slots };
                while missing > 0
                    && let Ok(slot) = make(ring.slot_bytes)
                {
                    lease.slots.push(slot);
                    missing -= 1;
                }
                if missing > 0 {
                    ring.state().made -= missing;
                    ring.freed.notify_all();
                }
                return Ok((!lease.slots.is_empty()).then_some(lease));
            }
            if state.made == state.lost {
                return Ok(None);
            }
            state = ring.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Slots that a caller has.
pub struct Lease<S: Slot> {
    ring: Shared<Ring<S>>,
    slots: Vec<S>,
}

impl<S: Slot> Lease<S> {
    /// Waits for all copies, and gives the slots back.
    fn finish(&mut self) -> Result<()> {
        let mut outcome = Ok(());
        for mut slot in self.slots.drain(..) {
            match slot.land() {
                // There is room for it since it was taken.
                Ok(()) => self.ring.state().free.push(slot),
                Err(error) => {
                    // A copy engine may still use it.
                    std::mem::forget(slot);
                    self.ring.state().lost += 1;
                    outcome = outcome.and(Err(error));
                }
            }
        }
        self.ring.freed.notify_all();
        outcome
    }
}

impl<S: Slot> Drop for Lease<S> {
    fn drop(&mut self) {
        if !self.slots.is_empty() {
            // What failed first is what is told.
            let _ = self.finish();
        }
    }
}

/// How the elements of a job cross: what each side does with them, and how many bytes one takes between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packing {
    /// The host's part.
    pub host: Work,
    /// The device's part.
    pub device: Work,
    /// Bytes of a packed element.
    pub size: u64,
}

impl Packing {
    /// Casts where fewer bytes cross. None: elements start within bytes, and cannot be packed here.
    pub fn of(work: Work, from_host: bool, device_casts: bool) -> Option<Packing> {
        let cast = match work {
            Work::Move { size } => return Some(Packing { host: work, device: work, size }),
            Work::Cast(cast) if !cast.from_bits && !cast.to_bits => cast,
            _ => return None,
        };
        let bytes = |bits: u32| u64::from(bits.div_ceil(8));
        let (from, to) = (bytes(cast.from.bits()), bytes(cast.to.bits()));
        let narrows = to < from;
        // Before it crosses, if it becomes narrower. Values that may be lost are looked at on the host.
        let on_host = cast.exact || !device_casts || narrows == from_host;
        let size = if on_host == from_host { to } else { from };
        let moved = Work::Move { size };
        Some(if on_host {
            Packing { host: work, device: moved, size }
        } else {
            Packing { host: moved, device: work, size }
        })
    }
}

/// A job in parts, of which each one's packed elements fit a slot. Elements are packed in the order of the
/// job's axes.
pub struct Parts<'a> {
    axes: &'a [Axis],
    start: (i64, i64),
    /// The axis that is cut; those behind it are whole in each part.
    cut: usize,
    /// Steps of a part along it.
    length: i64,
    /// How many.
    pub count: u64,
}

/// One of them. Offsets are from the first element of each side.
pub struct Part {
    axes: [Axis; MAX_AXES],
    len: usize,
    /// To its first element in the source.
    pub source: i64,
    /// Likewise in the destination.
    pub destination: i64,
    /// Elements of the job before it.
    pub before: u64,
    /// Its elements.
    pub elements: u64,
}

/// Lanes and the parts of complex numbers make an axis each.
const MAX_AXES: usize = MAX_NDIM + 2;

impl<'a> Parts<'a> {
    /// Cuts a job. None: an element is larger than a slot.
    pub fn of(job: &Transfer<'a>, size: u64, slot_bytes: usize) -> Option<Parts<'a>> {
        let Folded { axes, source_offset, destination_offset } = job.folded;
        let fit = i64::try_from(slot_bytes as u64 / size.max(1)).unwrap_or(i64::MAX);
        if fit == 0 {
            return None;
        }
        let (mut cut, mut inner) = (axes.len(), 1);
        while cut > 0 && inner <= fit / axes[cut - 1].extent {
            cut -= 1;
            inner *= axes[cut].extent;
        }
        let outer: u64 = axes[..cut.saturating_sub(1)].iter().map(|axis| axis.extent as u64).product();
        let (length, count) = match cut.checked_sub(1) {
            None => (1, 1),
            Some(cut) => {
                let pieces = (axes[cut].extent as u64).div_ceil((fit / inner) as u64);
                // All about equally long.
                let length = (axes[cut].extent as u64).div_ceil(pieces);
                (length as i64, outer * (axes[cut].extent as u64).div_ceil(length))
            }
        };
        Some(Parts { axes, start: (source_offset, destination_offset), cut, length, count })
    }

    /// One part.
    pub fn part(&self, index: u64) -> Part {
        let mut part = Part {
            axes: [Axis::default(); MAX_AXES],
            len: 0,
            source: self.start.0,
            destination: self.start.1,
            before: 0,
            elements: 1,
        };
        let whole = &self.axes[self.cut..];
        let mut push = |axis: Axis| {
            part.axes[part.len] = axis;
            part.len += 1;
            part.elements *= axis.extent as u64;
        };
        let Some(cut) = self.cut.checked_sub(1) else {
            whole.iter().for_each(|axis| push(*axis));
            return part;
        };
        let axis = self.axes[cut];
        let pieces = (axis.extent as u64).div_ceil(self.length as u64);
        let begin = (index % pieces) as i64 * self.length;
        let extent = self.length.min(axis.extent - begin);
        push(Axis { extent, ..axis });
        whole.iter().for_each(|axis| push(*axis));

        let mut step: u64 = whole.iter().map(|axis| axis.extent as u64).product();
        let mut rest = index / pieces;
        let mut go = |axis: &Axis, at: u64| {
            part.source += at as i64 * axis.source;
            part.destination += at as i64 * axis.destination;
            part.before += at * step;
            step *= axis.extent as u64;
        };
        go(&axis, begin as u64);
        for outer in self.axes[..cut].iter().rev() {
            go(outer, rest % outer.extent as u64);
            rest /= outer.extent as u64;
        }
        part
    }
}

impl Part {
    /// The axes with one side packed.
    fn packed(&self, size: u64, side: fn(Axis, i64) -> Axis) -> impl Iterator<Item = Axis> + Clone {
        let mut axes = self.axes;
        let mut step = size as i64;
        for axis in axes[..self.len].iter_mut().rev() {
            let extent = axis.extent;
            *axis = side(*axis, step);
            step *= extent;
        }
        axes.into_iter().take(self.len)
    }

    /// From its places in the source to packed elements of so many bytes.
    pub fn pack<'r>(&self, work: Work, size: u64, room: &'r mut [Axis]) -> Transfer<'r> {
        let axes = self.packed(size, |axis, step| Axis { destination: step, ..axis });
        Transfer { folded: Folded::new(axes, room), work, threads: 1, staging_bytes: 0 }
    }

    /// Where its bytes are in the destination, as an offset and how many, if they follow each other.
    fn run(&self, work: Work) -> Option<(i64, u64)> {
        let size = match work {
            Work::Move { size } => size,
            Work::Cast(cast) if !cast.to_bits => u64::from(cast.to.bits().div_ceil(8)),
            _ => return None,
        };
        let (mut begin, mut end) = (0, i64::try_from(size).ok()?);
        for axis in &self.axes[..self.len] {
            let reach = axis.destination * (axis.extent - 1);
            if reach < 0 { begin += reach } else { end += reach }
        }
        let bytes = self.elements * size;
        ((end - begin) as u64 == bytes).then_some((self.destination + begin, bytes))
    }

    /// From packed elements of so many bytes to their places in the destination.
    pub fn unpack<'r>(&self, work: Work, size: u64, room: &'r mut [Axis]) -> Transfer<'r> {
        let axes = self.packed(size, |axis, step| Axis { source: step, ..axis });
        Transfer { folded: Folded::new(axes, room), work, threads: 1, staging_bytes: 0 }
    }
}

/// Room for the axes of a part's job.
pub fn room() -> [Axis; MAX_AXES] {
    [Axis::default(); MAX_AXES]
}

#[cfg(feature = "opencl")]
impl<S: Slot> Lease<S> {
    /// Its slots; at least one.
    pub fn slots(&mut self) -> &mut [S] {
        &mut self.slots
    }
}

/// What a thread does with its slots, and with parts while there are any.
type Worker<'a, S> = dyn Fn(&mut [S], &dyn Fn() -> Option<Part>) -> Result<()> + Sync + 'a;

/// Threads that are worth having for so many parts, of as many as [`Transfer`] says.
fn workers(parts: u64, threads: u32) -> usize {
    match threads {
        _ if parts == 1 => 1,
        0 => threads::available(),
        limit => threads::available().min(limit as usize),
    }
}

/// Slots that they want.
fn slots_of(parts: u64, workers: usize) -> usize {
    workers.saturating_mul(SLOTS_OF_THREAD).min(usize::try_from(parts).unwrap_or(usize::MAX))
}

/// A job that crosses a ring.
pub struct Crossing<'a, S: Slot> {
    lease: Lease<S>,
    parts: &'a Parts<'a>,
    packing: Packing,
    workers: usize,
}

impl<'a, S: Slot> Crossing<'a, S> {
    /// Takes slots for a job. `threads` as in [`Transfer`]. None: there are no slots.
    pub fn new(
        ring: &Shared<Ring<S>>,
        parts: &'a Parts<'a>,
        packing: Packing,
        threads: u32,
        make: impl Fn(usize) -> Result<S>,
    ) -> Result<Option<Crossing<'a, S>>> {
        let threads = workers(parts.count, threads);
        let Some(lease) = Ring::take(ring, slots_of(parts.count, threads), make)? else { return Ok(None) };
        let workers = lease.slots.len().div_ceil(SLOTS_OF_THREAD).min(threads);
        Ok(Some(Crossing { lease, parts, packing, workers }))
    }

    /// Packs each part into a slot and has it sent from there. `send` begins to copy so many packed bytes
    /// to the part's places.
    ///
    /// # Safety
    /// Every place that the job visits from `source` is readable.
    pub unsafe fn upload(
        self,
        source: u64,
        send: &(dyn Fn(&mut S, &Part, u64) -> Result<()> + Sync),
    ) -> Result<()> {
        let Packing { host: work, size, .. } = self.packing;
        self.run(&|slots: &mut [S], next: &dyn Fn() -> Option<Part>| {
            let (count, mut turn) = (slots.len(), 0);
            while let Some(part) = next() {
                let slot = &mut slots[turn % count];
                turn += 1;
                slot.land()?;
                let (from, to) = (source.wrapping_add_signed(part.source), address(slot));
                // SAFETY: the source is readable, and the part fits the slot, which nobody else has.
                unsafe { on_host(&part.pack(work, size, &mut room()), from, to)? };
                send(slot, &part, part.elements * size)?;
            }
            Ok(())
        })
    }

    /// Has each part fetched into a slot, and puts its elements where they belong. `fetch` begins to copy
    /// so many packed bytes from the part's places.
    ///
    /// # Safety
    /// Every place that the job visits from `destination` is writable.
    pub unsafe fn download(
        self,
        destination: u64,
        fetch: &(dyn Fn(&mut S, &Part, u64) -> Result<()> + Sync),
    ) -> Result<()> {
        let Packing { host: work, size, .. } = self.packing;
        self.run(&|slots: &mut [S], next: &dyn Fn() -> Option<Part>| {
            let fetch = |slot: &mut S, part: &Part| {
                fetch(slot, part, part.elements * size)?;
                // While that is on its way.
                if let Some((begin, bytes)) = part.run(work) {
                    prefault(destination.wrapping_add_signed(begin), bytes);
                }
                Ok(())
            };
            in_turn(slots, next, &fetch, &|slot, part| {
                let (from, to) = (address(slot), destination.wrapping_add_signed(part.destination));
                // SAFETY: the part has landed in the slot, and its places are the caller's.
                unsafe { on_host(&part.unpack(work, size, &mut room()), from, to) }
            })
        })
    }

    /// Has each part fetched into a slot, and sent on from there once it has landed: between two devices
    /// that share no memory. The host does nothing with it.
    #[cfg(feature = "opencl")]
    pub fn relay(
        self,
        fetch: &(dyn Fn(&mut S, &Part, u64) -> Result<()> + Sync),
        send: &(dyn Fn(&mut S, &Part, u64) -> Result<()> + Sync),
    ) -> Result<()> {
        let size = self.packing.size;
        self.run(&|slots: &mut [S], next: &dyn Fn() -> Option<Part>| {
            let fetch = |slot: &mut S, part: &Part| {
                slot.land()?;
                fetch(slot, part, part.elements * size)
            };
            in_turn(slots, next, &fetch, &|slot, part| send(slot, part, part.elements * size))
        })
    }

    /// Has every part done by threads that have slots of their own.
    fn run(mut self, work: &Worker<'_, S>) -> Result<()> {
        let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
        let outcome = Mutex::new(Ok(()));
        let parts = self.parts;
        let take = || {
            let index = next.fetch_add(1, Ordering::Relaxed);
            (index < parts.count && !failed.load(Ordering::Relaxed)).then(|| parts.part(index))
        };
        let each = self.lease.slots.len().div_ceil(self.workers);
        let mut shares = list(self.lease.slots.len().div_ceil(each))?;
        shares.extend(self.lease.slots.chunks_mut(each).map(Mutex::new));
        threads::run(self.workers, shares.len(), &|worker| {
            let mut slots = shares[worker].lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = work(&mut slots, &take) {
                failed.store(true, Ordering::Relaxed);
                let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                *outcome = outcome.and(Err(error));
            }
        });
        drop(shares);
        let landed = self.lease.finish();
        outcome.into_inner().unwrap_or_else(PoisonError::into_inner).and(landed)
    }
}

/// Has parts fetched into all slots, and each one passed on once it has landed.
fn in_turn<S: Slot>(
    slots: &mut [S],
    next: &dyn Fn() -> Option<Part>,
    fetch: &dyn Fn(&mut S, &Part) -> Result<()>,
    pass_on: &dyn Fn(&mut S, &Part) -> Result<()>,
) -> Result<()> {
    // Of each slot, what has been fetched into it.
    let mut fetched = list(slots.len())?;
    loop {
        let mut all = true;
        for (index, slot) in slots.iter_mut().enumerate() {
            if index < fetched.len()
                && let Some(part) = Option::take(&mut fetched[index])
            {
                slot.land()?;
                pass_on(slot, &part)?;
            }
            let Some(part) = next() else { continue };
            all = false;
            fetch(slot, &part)?;
            if index < fetched.len() {
                fetched[index] = Some(part);
            } else {
                fetched.push(Some(part));
            }
        }
        if all {
            return Ok(());
        }
    }
}

fn address<S: Slot>(slot: &S) -> u64 {
    slot.memory().as_ptr() as usize as u64
}

/// Does a job within the host's memory, on this thread.
///
/// # Safety
/// As [`Backend::transfer`].
pub unsafe fn on_host(job: &Transfer<'_>, source: u64, destination: u64) -> Result<()> {
    let place = |data| Place {
        device: host::DEVICE,
        data,
        byte_offset: 0,
        begin: 0,
        end: 0,
        dense: false,
        fresh: false,
    };
    // SAFETY: as the caller says.
    unsafe { Host.transfer(job, &place(source), &place(destination), &Streams::default()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::job::{Rules, Side};
    #[cfg(target_os = "linux")]
    use crate::backend::prefault::tests::{Fresh, is_possible};
    use crate::dlpack::raw::DLDataType;
    use crate::error::Error;
    use std::sync::atomic::AtomicUsize;

    /// A device whose copies happen no earlier than they are waited for.
    #[derive(Default)]
    struct Device {
        slots: AtomicUsize,
        most: AtomicUsize,
        /// So many slots fail to be made from now on.
        refuses: AtomicUsize,
        /// So many copies fail to be waited for from now on.
        loses: AtomicUsize,
        /// Where copies go in the end; `seen` are the pages of it that were there when each was waited for.
        #[cfg(target_os = "linux")]
        watched: Mutex<Option<Fresh>>,
        seen: Mutex<Vec<usize>>,
    }

    struct Pinned<'a> {
        device: &'a Device,
        bytes: Vec<u8>,
        /// From, to, bytes.
        flight: Vec<(usize, usize, usize)>,
    }

    fn counts_down(count: &AtomicUsize) -> bool {
        let mut left = count.load(Ordering::SeqCst);
        while left > 0 {
            match count.compare_exchange(left, left - 1, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return true,
                Err(now) => left = now,
            }
        }
        false
    }

    const FAILURE: Error = Error::Driver { call: "land", name: "LOST", code: 7 };

    impl Device {
        fn make(&self, bytes: usize) -> Result<Pinned<'_>> {
            if counts_down(&self.refuses) {
                return Err(FAILURE);
            }
            let slots = self.slots.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(slots, Ordering::SeqCst);
            Ok(Pinned { device: self, bytes: vec![0xee; bytes], flight: Vec::new() })
        }
    }

    impl Slot for Pinned<'_> {
        fn memory(&self) -> NonNull<u8> {
            NonNull::new(self.bytes.as_ptr().cast_mut()).unwrap()
        }

        fn land(&mut self) -> Result<()> {
            if !self.flight.is_empty() && counts_down(&self.device.loses) {
                return Err(FAILURE);
            }
            #[cfg(target_os = "linux")]
            if let Some(watched) = &*self.device.watched.lock().unwrap()
                && !self.flight.is_empty()
            {
                self.device.seen.lock().unwrap().push(watched.residents());
            }
            for (from, to, bytes) in self.flight.drain(..) {
                // SAFETY: the tests give places of theirs.
                unsafe { (from as *const u8).copy_to_nonoverlapping(to as *mut u8, bytes) };
            }
            Ok(())
        }
    }

    impl Drop for Pinned<'_> {
        fn drop(&mut self) {
            assert!(self.flight.is_empty(), "freed while a copy was on its way");
            self.device.slots.fetch_sub(1, Ordering::SeqCst);
        }
    }

    const F32: DLDataType = DLDataType { code: 2, bits: 32, lanes: 1 };
    const I16: DLDataType = DLDataType { code: 0, bits: 16, lanes: 1 };

    /// int16 in Fortran order to float32 in C order, of this shape.
    struct Case {
        shape: [i64; 3],
        source: Vec<i16>,
    }

    impl Case {
        fn new(shape: [i64; 3]) -> Case {
            let count = shape.iter().product::<i64>();
            Case { shape, source: (0..count).map(|value| (value * 7) as i16).collect() }
        }

        fn with<R>(&self, run: impl FnOnce(&Transfer<'_>) -> R) -> R {
            let [a, b, c] = self.shape;
            let source = Side { dtype: I16, padded: false, strides: &[1, a, a * b] };
            let destination = Side { dtype: F32, padded: false, strides: &[b * c, c, 1] };
            run(&Transfer::new(&self.shape, source, destination, Rules::default(), &mut room()))
        }

        fn expected(&self) -> Vec<f32> {
            let [a, b, c] = self.shape;
            let mut values = Vec::new();
            for index in 0..a * b * c {
                let (i, j, k) = (index / (b * c), index / c % b, index % c);
                values.push(f32::from(self.source[(i + j * a + k * a * b) as usize]));
            }
            values
        }

        /// Uploads to a device that holds what is packed, in order; then downloads that.
        fn there_and_back<'d>(
            &self,
            rings: &Rings<Pinned<'d>>,
            limit: u64,
            device: &'d Device,
        ) -> Option<Result<()>> {
            self.with(|job| {
                let ring = rings.of(limit).unwrap();
                let make = |bytes| device.make(bytes);
                let packing = Packing::of(job.work, true, true)?;
                assert_eq!(packing.size, 2, "the narrower side crosses");
                let parts = Parts::of(job, packing.size, ring.slot_bytes())?;
                let there = vec![0u8; self.source.len() * 2];
                let (at, source) = (there.as_ptr() as usize, self.source.as_ptr() as usize as u64);
                let crossing = Crossing::new(&ring, &parts, packing, 3, make).unwrap()?;
                let send = |slot: &mut Pinned<'d>, part: &Part, bytes: u64| {
                    let to = at + (part.before * 2) as usize;
                    slot.flight.push((slot.bytes.as_ptr() as usize, to, bytes as usize));
                    Ok(())
                };
                // SAFETY: source and device are as long as the shape says.
                if let Err(error) = unsafe { crossing.upload(source, &send) } {
                    return Some(Err(error));
                }

                let back = vec![0f32; self.source.len()];
                let Work::Cast(_) = packing.device else { panic!("it widens") };
                let packing = Packing { host: packing.device, device: packing.host, size: 2 };
                let crossing = Crossing::new(&ring, &parts, packing, 3, make).unwrap()?;
                let fetch = |slot: &mut Pinned<'d>, part: &Part, bytes: u64| {
                    let from = at + (part.before * 2) as usize;
                    slot.flight.push((from, slot.bytes.as_ptr() as usize, bytes as usize));
                    Ok(())
                };
                // SAFETY: as above.
                if let Err(error) = unsafe { crossing.download(back.as_ptr() as usize as u64, &fetch) } {
                    return Some(Err(error));
                }
                assert_eq!(back, self.expected());
                Some(Ok(()))
            })
        }
    }

    #[test]
    fn parts_cover_a_job_once_in_packed_order() {
        for (shape, slot) in
            [([3, 5, 7], 2), ([3, 5, 7], 22), ([3, 5, 7], 30), ([3, 5, 7], 1000), ([1, 1, 1], 64)]
        {
            Case::new(shape).with(|job| {
                let parts = Parts::of(job, 2, slot).unwrap();
                let mut before = 0;
                for index in 0..parts.count {
                    let part = parts.part(index);
                    assert_eq!(part.before, before, "part {index} of {shape:?} in {slot} bytes");
                    assert!(part.elements * 2 <= slot as u64 && part.elements > 0);
                    before += part.elements;
                }
                assert_eq!(before as i64, shape.iter().product::<i64>());
                assert!(Parts::of(job, 2, 1).is_none());
            });
        }
    }

    #[test]
    fn values_arrive_through_rings_of_any_size() {
        let device = Device::default();
        {
            let rings = Rings::new();
            for limit in [0, 2, 3, 64, 4096, 100_000, 1 << 20] {
                for shape in [[1, 1, 1], [2, 3, 4], [13, 1, 17], [40, 50, 61]] {
                    device.most.store(0, Ordering::SeqCst);
                    let before = device.slots.load(Ordering::SeqCst);
                    let case = Case::new(shape);
                    assert_eq!(
                        case.there_and_back(&rings, limit, &device),
                        Some(Ok(())),
                        "{limit} {shape:?}"
                    );
                    let ring = rings.of(limit).unwrap();
                    let made = device.most.load(Ordering::SeqCst).saturating_sub(before);
                    assert!(
                        (made * ring.slot_bytes()) as u64 <= if limit == 0 { DEFAULT_BYTES } else { limit }
                    );
                }
            }
        }
        assert_eq!(device.slots.load(Ordering::SeqCst), 0);
    }

    /// Each part's pages are made while the copy is on its way, and those of no other one.
    #[cfg(target_os = "linux")]
    #[test]
    fn destinations_are_there_before_what_is_fetched() {
        if !is_possible() {
            return;
        }
        const PARTS: usize = 5;
        let device = Device::default();
        let there: Vec<u8> = (0..PARTS * SMALLEST as usize).map(|at| (at % 251) as u8).collect();
        let memory = Fresh::new(there.len());
        let (pages, destination) = (memory.pages(), memory.start);
        *device.watched.lock().unwrap() = Some(memory);
        let axes = [Axis { extent: there.len() as i64, source: 1, destination: 1 }];
        let folded = Folded { axes: &axes, source_offset: 0, destination_offset: 0 };
        let job = Transfer { folded, work: Work::Move { size: 1 }, threads: 1, staging_bytes: SMALLEST };
        let rings = Rings::new();
        // One slot, so that one part goes after the other.
        let ring = rings.of(SMALLEST).unwrap();
        let parts = Parts::of(&job, 1, ring.slot_bytes()).unwrap();
        let packing = Packing::of(job.work, false, true).unwrap();
        let crossing = Crossing::new(&ring, &parts, packing, 1, |bytes| device.make(bytes)).unwrap().unwrap();
        let fetch = |slot: &mut Pinned<'_>, part: &Part, bytes: u64| {
            let from = there.as_ptr() as usize + part.before as usize;
            slot.flight.push((from, slot.bytes.as_ptr() as usize, bytes as usize));
            Ok(())
        };
        // SAFETY: both sides are as long as the job.
        unsafe { crossing.download(destination as u64, &fetch) }.unwrap();
        // SAFETY: as above.
        assert!(unsafe { std::slice::from_raw_parts(destination as *const u8, there.len()) } == there);
        let ahead: Vec<usize> = (1..=PARTS).map(|part| part * pages / PARTS).collect();
        assert_eq!(*device.seen.lock().unwrap(), ahead);
    }

    #[test]
    fn many_callers_share_few_slots() {
        let device = Device::default();
        let rings = Rings::new();
        let case = Case::new([30, 40, 50]);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..4 {
                        assert_eq!(case.there_and_back(&rings, 3 * SMALLEST, &device), Some(Ok(())));
                    }
                });
            }
        });
        assert!(device.most.load(Ordering::SeqCst) <= 3);
    }

    #[test]
    fn without_slots_there_is_no_crossing() {
        let device = Device::default();
        let rings = Rings::new();
        let case = Case::new([30, 40, 50]);
        device.refuses.store(1, Ordering::SeqCst);
        assert_eq!(case.there_and_back(&rings, SMALLEST, &device), None);
        assert_eq!(case.there_and_back(&rings, SMALLEST, &device), Some(Ok(())));
        // One slot less is no failure.
        device.refuses.store(1, Ordering::SeqCst);
        assert_eq!(case.there_and_back(&rings, 2 * SMALLEST, &device), None);
        assert_eq!(case.there_and_back(&rings, 2 * SMALLEST, &device), Some(Ok(())));
    }

    #[test]
    fn a_slot_that_may_be_in_use_is_never_used_again() {
        let device = Device::default();
        let rings = Rings::new();
        let case = Case::new([30, 40, 50]);
        device.loses.store(1, Ordering::SeqCst);
        // The failure is tried once more before the slot is given up; that one lands.
        assert_eq!(case.there_and_back(&rings, SMALLEST, &device), Some(Err(FAILURE)));
        assert_eq!(case.there_and_back(&rings, SMALLEST, &device), Some(Ok(())));
        device.loses.store(2, Ordering::SeqCst);
        assert_eq!(case.there_and_back(&rings, SMALLEST, &device), Some(Err(FAILURE)));
        // It was the only one.
        assert_eq!(case.there_and_back(&rings, SMALLEST, &device), None);
        assert_eq!(device.slots.load(Ordering::SeqCst), 1);
    }
}
