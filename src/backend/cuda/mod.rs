//! CUDA: devices, pinned and managed memory.
//!
//! The driver's functions are found at the first use (`driver`), and with them the devices (`devices`).
//! What is done on a device is done in its primary context, on streams of our own or the caller's (`lane`,
//! `order`). Runs and rectangles of bytes are copied by the driver's engines (`copy`), all else on a device
//! by kernels (`kernels`). Between a device and the host's pageable memory stands the staging ring, whose
//! slots are here (`slot`). Results, and what an address is, are `memory`'s.

mod copy;
mod devices;
mod driver;
mod kernels;
mod lane;
mod memory;
mod order;
mod slot;

use std::fmt;
use std::time::{Duration, Instant};

use self::copy::Start;
use self::devices::Cuda as Driver;
use self::driver::call;
use self::lane::{Entered, Event, Lane, Relaxed, can_access};
use self::memory::Scratch;
use self::order::Orders;
use self::slot::Pinned;
use super::host::Host;
use super::job::{Cast, Work};
use super::rectangle::Rectangle;
use super::shared::list_of;
use super::staging::{self, Crossing, Packing, Part, Parts};
use super::{Backend, DeviceInfo, Errand, Memory, MemoryKind, Place, PointerInfo, Streams, Transfer, Wanted};
use crate::dlpack::raw::{DLDevice, device_type};
use crate::error::{Error, Result};
use crate::report::Route;

/// Every CUDA device.
pub struct Cuda;

const NAME: &str = "cuda";

/// Up to so many bytes of pageable memory the driver takes with the command itself.
const INLINE: usize = 64 << 10;

/// Bytes of a copy from which on it tells which way is faster.
const WORTH_PROBING: usize = 16 << 20;

impl Backend for Cuda {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serves(&self, device_type: i32) -> bool {
        matches!(device_type, device_type::CUDA | device_type::CUDA_HOST | device_type::CUDA_MANAGED)
    }

    fn available(&self) -> Result<(), &'static str> {
        devices::cuda().map(|_| ())
    }

    fn describe(&self, text: &mut dyn fmt::Write) -> fmt::Result {
        match devices::cuda() {
            Err(why) => text.write_str(why),
            Ok(cuda) => {
                let (major, minor) = (cuda.version / 1000, cuda.version % 1000 / 10);
                write!(text, "libcuda.so.1, CUDA {major}.{minor}")
            }
        }
    }

    fn list_devices(&self, show: &mut dyn FnMut(DeviceInfo, &dyn fmt::Display)) -> Result<()> {
        let cuda = match devices::needed() {
            Ok(cuda) => cuda,
            Err(error @ Error::OutOfMemory { .. }) => return Err(error),
            Err(_) => return Ok(()),
        };
        for device in &cuda.devices {
            let pair = DLDevice { device_type: device_type::CUDA, device_id: device.id };
            // To ask how much is free takes a context, which takes some: none is made for that.
            let free = device.lane_if_made().and_then(free_memory).unwrap_or(0);
            show(DeviceInfo { device: pair, total_memory: device.memory, free_memory: free }, &device.name);
        }
        Ok(())
    }

    fn detect_pointer(&self, address: u64) -> Option<PointerInfo> {
        memory::ask(driver::functions_if_loaded()?, address)?.info
    }

    fn admit(&self, errand: &Errand<'_>, route: Route) -> Result<Route> {
        let cuda = devices::needed()?;
        order::check(errand.streams.source, "options.src_stream")?;
        order::check(errand.streams.destination, "options.dst_stream")?;
        let mut ends = [errand.source.device, errand.target];
        ends.iter_mut().for_each(|device| device.device_id = device.device_id.max(0));
        for device in ends {
            if device.device_type == device_type::CUDA {
                cuda.device(device)?;
            }
        }
        let [from, to] = ends;
        if route != Route::Peer {
            return Ok(route);
        }
        let reaches = can_access(cuda.f, cuda.device(from)?, cuda.device(to)?);
        Ok(if reaches { Route::Peer } else { Route::Staged })
    }

    fn verify(&self, place: &Place) -> Result<()> {
        let cuda = devices::needed()?;
        let declared = place.device;
        cuda.device(declared)?;
        let known = memory::ask(cuda.f, place.address()).and_then(|known| known.info);
        match known {
            Some(_) => Ok(()),
            None => Err(Error::DeclaredDevice { declared, found: super::host::DEVICE }),
        }
    }

    fn allocate(&self, wanted: &Wanted<'_>) -> Result<Memory> {
        let cuda = devices::needed()?;
        let near = wanted.source.map(|place| place.device);
        let near = near.filter(|device| device.device_type == device_type::CUDA);
        let lane = match wanted.device.device_type {
            device_type::CUDA => cuda.lane(wanted.device)?,
            // The host's memory is near all of them.
            _ => cuda.lane(near.unwrap_or(DLDevice { device_type: device_type::CUDA, device_id: 0 }))?,
        };
        memory::allocate(lane, wanted)
    }

    unsafe fn transfer(
        &self,
        job: &Transfer<'_>,
        source: &Place,
        destination: &Place,
        streams: &Streams,
    ) -> Result<()> {
        let cuda = devices::needed()?;
        let bytes = source.end.abs_diff(source.begin).min(destination.end.abs_diff(destination.begin));
        // To ask what memory is pays for larger jobs, and where pinned memory is not waited for.
        let asks = bytes > INLINE as u64 || streams.asynchronous;
        let from = End::of(cuda, source, asks)?;
        let to = End::of(cuda, destination, asks)?;
        let call = Call { cuda, job, streams, fresh: destination.fresh };
        // SAFETY: the caller vouches for both places.
        unsafe {
            match (from, to) {
                (End::Device(a), End::Device(b)) if a.id != b.id => {
                    call.between((a, source), (b, destination))
                }
                (End::Device(lane), End::Device(_))
                | (End::Device(lane), End::Mapped { managed: true, .. })
                | (End::Mapped { managed: true, .. }, End::Device(lane)) => {
                    let (from, to) = (from.on_device(source), to.on_device(destination));
                    call.within(lane, (source, from), (destination, to))
                }
                (End::Device(lane), _) => call.download(lane, source, (destination, to)),
                (_, End::Device(lane)) => call.upload(lane, (source, from), destination),
                _ => call.on_host((source, from), (destination, to)),
            }
        }
    }
}

/// Whether this process has the driver, so that it says of every address whether it is its own.
pub fn knows_addresses() -> bool {
    driver::functions_if_loaded().is_some()
}

/// Bytes of a device that nobody has taken.
fn free_memory(lane: &Lane) -> Option<u64> {
    // A capture elsewhere is none of this question's business.
    let _relaxed = Relaxed::new(lane.f);
    let _entered = Entered::new(lane.f, lane.context).ok()?;
    let (mut free, mut total) = (0, 0);
    // SAFETY: both values have their place.
    unsafe { call!(lane.f, cuMemGetInfo(&mut free, &mut total)).ok()? };
    Some(free as u64)
}

/// One side of a job.
#[derive(Clone, Copy)]
enum End {
    /// Pageable memory.
    Host,
    /// Pinned, registered or managed memory: the first element's address on devices.
    Mapped { on_device: u64, managed: bool, device_id: i32 },
    /// A device's memory.
    Device(&'static Lane),
}

impl End {
    fn of(cuda: &'static Driver, place: &Place, asks: bool) -> Result<End> {
        let kind = place.device.device_type;
        if kind == device_type::CUDA {
            return cuda.lane(place.device).map(End::Device);
        }
        let declared = matches!(kind, device_type::CUDA_HOST | device_type::CUDA_MANAGED);
        if !asks && !declared {
            return Ok(End::Host);
        }
        Ok(match memory::ask_of_host(cuda.f, place) {
            Some(known) => {
                let managed = known.info.is_some_and(|info| info.memory == MemoryKind::Managed);
                End::Mapped { on_device: known.on_device, managed, device_id: known.device_id }
            }
            None => End::Host,
        })
    }

    /// The address of a place for devices; what is pageable has none.
    fn on_device(&self, place: &Place) -> u64 {
        match self {
            End::Mapped { on_device, .. } if *on_device != 0 => *on_device,
            _ => place.address(),
        }
    }
}

/// A job and how it is to be ordered.
struct Call<'a> {
    cuda: &'static Driver,
    job: &'a Transfer<'a>,
    streams: &'a Streams,
    fresh: bool,
}

impl Call<'_> {
    /// # Safety
    /// The streams are what their numbers say.
    unsafe fn orders(&self, source: &Lane, destination: &Lane) -> Result<Orders> {
        // SAFETY: as the caller says.
        unsafe { Orders::of(self.streams, source, destination, self.fresh) }
    }

    /// Within what one device reaches.
    ///
    /// # Safety
    /// As [`Backend::transfer`]; the addresses are the device's.
    unsafe fn within(
        &self,
        lane: &'static Lane,
        (source, from): (&Place, u64),
        (destination, to): (&Place, u64),
    ) -> Result<()> {
        let _entered = lane.enter()?;
        let way = Way::of(self.job, lane);
        // SAFETY: the caller vouches for both sides.
        unsafe {
            let orders = self.orders(lane, lane)?;
            if let Work::Cast(cast) = self.job.work
                && cast.exact
                && kernels::has(self.job)
            {
                return self.exact(&orders, lane, cast, (from, to));
            }
            let Some(way) = way else {
                return self.mirrored(&orders, (Some(lane), source), (Some(lane), destination));
            };
            let track = orders.begin(lane)?;
            let (from, to) = (Start::Device(from), Start::Device(to));
            let worked = way.go(lane, track.stream(), self.job, from, to);
            orders.end(&track, worked)
        }
    }

    /// A cast on a device that looks at each value, so that the host waits for what it says.
    ///
    /// # Safety
    /// As [`Call::within`]. The lane's context is current.
    unsafe fn exact(
        &self,
        orders: &Orders,
        lane: &'static Lane,
        cast: Cast,
        (from, to): (u64, u64),
    ) -> Result<()> {
        refuse_capture(orders.is_capturing())?;
        let f = lane.f;
        let mut lost = 0u32;
        // SAFETY: the caller vouches for both sides; the word has its place here and there.
        unsafe {
            let track = orders.begin(lane)?;
            let stream = track.stream();
            let mut work = || {
                let word = Scratch::new(lane, stream, 4)?;
                call!(f, cuMemsetD8Async(word.address, 0, 4, stream))?;
                kernels::launch(lane, stream, self.job, from, to, word.address)?;
                call!(f, cuMemcpyDtoHAsync((&raw mut lost).cast(), word.address, 4, stream))
            };
            let worked = work();
            let waited = orders.finish(&track);
            orders.end(&track, worked.and(waited))?;
        }
        if lost == 0 {
            Ok(())
        } else {
            Err(Error::ValueLost { from: cast.from.dtype(), to: cast.to.dtype() })
        }
    }

    /// From one device to another.
    ///
    /// # Safety
    /// As [`Backend::transfer`].
    unsafe fn between(
        &self,
        (a, source): (&'static Lane, &Place),
        (b, destination): (&'static Lane, &Place),
    ) -> Result<()> {
        let whole =
            Parts::of(self.job, 1, usize::MAX).and_then(|parts| (parts.count == 1).then(|| parts.part(0)));
        // Casts are done where fewer bytes cross, as between host and device.
        let packing = Packing::of(self.job.work, true, true);
        // SAFETY: the caller vouches for both sides.
        unsafe {
            let orders = self.orders(a, b)?;
            let (Some(part), Some(Packing { host: before, device: after, size })) = (whole, packing) else {
                return self.mirrored(&orders, (Some(a), source), (Some(b), destination));
            };
            let (mut first, mut second) = (staging::room(), staging::room());
            let (pack, unpack) = (part.pack(before, size, &mut first), part.unpack(after, size, &mut second));
            let is_run = |job: &Transfer<'_>| Rectangle::of(job).is_some_and(|copy| copy.is_run());
            let (packs, unpacks) = (!is_run(&pack), !is_run(&unpack));
            let (Some(there), Some(here)) = (Way::of(&pack, a), Way::of(&unpack, b)) else {
                return self.mirrored(&orders, (Some(a), source), (Some(b), destination));
            };
            let (from, to) = (&self.cuda.devices[a.id as usize], &self.cuda.devices[b.id as usize]);
            // Without that the driver goes through the host.
            b.reaches(to, from, a);
            let bytes = part.elements * size;

            let _entered = b.enter()?;
            let track = orders.begin(b)?;
            let stream = track.stream();
            let work = || {
                let mut from = source.address().wrapping_add_signed(part.source);
                let to = destination.address().wrapping_add_signed(part.destination);
                let mut keep = (None, None);
                // The default stream is that of the context that is current.
                if packs {
                    let ready = Event::after(b.f, stream)?;
                    let entered = a.enter()?;
                    let own = a.stream()?;
                    ready.delays(own.stream)?;
                    let scratch = Scratch::new(a, own.stream, bytes)?;
                    there.go(a, own.stream, &pack, Start::Device(from), Start::Device(scratch.address))?;
                    from = scratch.address;
                    let packed = Event::after(a.f, own.stream)?;
                    drop(entered);
                    packed.delays(stream)?;
                    keep.0 = Some((scratch, own));
                }
                if unpacks {
                    keep.1 = Some(Scratch::new(b, stream, bytes)?);
                }
                let landing = keep.1.as_ref().map_or(to, |scratch| scratch.address);
                call!(b.f, cuMemcpyPeerAsync(landing, b.context, from, a.context, bytes as usize, stream))?;
                if unpacks {
                    here.go(b, stream, &unpack, Start::Device(landing), Start::Device(to))?;
                }
                if let Some((_, own)) = &keep.0 {
                    // What was packed goes back once it has been read.
                    let read = Event::after(b.f, stream)?;
                    let _entered = a.enter()?;
                    read.delays(own.stream)?;
                }
                Ok(())
            };
            let worked = work();
            orders.end(&track, worked)
        }
    }

    /// From the host to a device.
    ///
    /// # Safety
    /// As [`Backend::transfer`].
    unsafe fn upload(
        &self,
        lane: &'static Lane,
        (source, from): (&Place, End),
        destination: &Place,
    ) -> Result<()> {
        let _entered = lane.enter()?;
        // SAFETY: the caller vouches for both sides.
        unsafe {
            let mut orders = self.orders(lane, lane)?;
            let pinned = matches!(from, End::Mapped { .. });
            if !pinned {
                orders.ignore_default_source(self.streams);
            } else if self.streams.gives_up {
                // Whoever owns pinned memory does not know when a stream has read it.
                orders.synchronise();
            }
            let capturing = orders.is_capturing();
            let to = Start::Device(destination.address());
            if let Some(copy) = Rectangle::of(self.job).filter(|copy| copy.suits(lane))
                && (pinned || copy.is_run() && copy.bytes() <= INLINE && !capturing)
            {
                let track = orders.begin(lane)?;
                let from = Start::Host(source.address());
                let worked = copy.enqueue(lane, track.stream(), from, to);
                return orders.end(&track, worked);
            }
            if pinned
                && orders.is_asynchronous()
                && let Some(way) = Way::of(self.job, lane)
            {
                let track = orders.begin(lane)?;
                let from = Start::Device(from.on_device(source));
                let worked = way.go(lane, track.stream(), self.job, from, to);
                return orders.end(&track, worked);
            }
            refuse_capture(capturing)?;
            if let Some(outcome) = self.packed(lane, &orders, source.address(), to)? {
                return outcome;
            }
            orders.settle()?;
            match self.pageable(lane, true, source.address(), destination.address()) {
                Some(outcome) => outcome,
                None => self.mirrored(&orders, (None, source), (Some(lane), destination)),
            }
        }
    }

    /// A small upload whose elements are packed first, so that they go with the command. None: it is none.
    ///
    /// # Safety
    /// As [`Backend::transfer`].
    unsafe fn packed(
        &self,
        lane: &'static Lane,
        orders: &Orders,
        from: u64,
        to: Start,
    ) -> Result<Option<Result<()>>> {
        let Some(packing) = Packing::of(self.job.work, true, false) else { return Ok(None) };
        let Some(parts) = Parts::of(self.job, packing.size, INLINE) else { return Ok(None) };
        if parts.count != 1 {
            return Ok(None);
        }
        let (part, size) = (parts.part(0), packing.size);
        let (mut first, mut second) = (staging::room(), staging::room());
        let unpack = part.unpack(packing.device, size, &mut second);
        let Some(copy) = Rectangle::of(&unpack).filter(Rectangle::is_run) else { return Ok(None) };
        let mut bytes = list_of(0u8, (part.elements * size) as usize)?;
        let packed = bytes.as_mut_ptr() as usize as u64;
        // SAFETY: the caller vouches for both sides; the bytes are as many as are packed.
        unsafe {
            let pack = part.pack(packing.host, size, &mut first);
            staging::on_host(&pack, from.wrapping_add_signed(part.source), packed)?;
            let track = orders.begin(lane)?;
            let worked = copy.enqueue(lane, track.stream(), Start::Host(packed), to.at(part.destination));
            Ok(Some(orders.end(&track, worked)))
        }
    }

    /// From a device to the host.
    ///
    /// # Safety
    /// As [`Backend::transfer`].
    unsafe fn download(
        &self,
        lane: &'static Lane,
        source: &Place,
        (destination, to): (&Place, End),
    ) -> Result<()> {
        let _entered = lane.enter()?;
        // SAFETY: the caller vouches for both sides.
        unsafe {
            let orders = self.orders(lane, lane)?;
            let pinned = matches!(to, End::Mapped { .. });
            let capturing = orders.is_capturing();
            let from = Start::Device(source.address());
            if let Some(copy) = Rectangle::of(self.job).filter(|copy| copy.suits(lane))
                && (pinned || copy.is_run() && copy.bytes() <= INLINE && !capturing)
            {
                let track = orders.begin(lane)?;
                let host = Start::Host(destination.address());
                let worked = copy.enqueue(lane, track.stream(), from, host);
                return orders.end(&track, worked);
            }
            if pinned
                && orders.is_asynchronous()
                && let Some(way) = Way::of(self.job, lane)
            {
                let track = orders.begin(lane)?;
                let to = Start::Device(to.on_device(destination));
                let worked = way.go(lane, track.stream(), self.job, from, to);
                return orders.end(&track, worked);
            }
            refuse_capture(capturing)?;
            orders.settle()?;
            match self.pageable(lane, false, destination.address(), source.address()) {
                Some(outcome) => outcome,
                None => self.mirrored(&orders, (Some(lane), source), (None, destination)),
            }
        }
    }

    /// Through the staging ring, unless the device is one that copies pageable memory faster by itself.
    ///
    /// # Safety
    /// As [`Call::staged`]. The lane's context is current.
    unsafe fn pageable(&self, lane: &'static Lane, up: bool, host: u64, device: u64) -> Option<Result<()>> {
        // SAFETY: the caller's.
        let staged = || unsafe { self.staged(lane, up, host, device) };
        let copy = Rectangle::of(self.job).filter(|copy| lane.shares_pages && copy.is_run());
        let Some(copy) = copy.filter(|copy| copy.bytes() >= WORTH_PROBING) else { return staged() };
        let direct = || {
            let stream = lane.stream()?;
            let (host, device) = (Start::Host(host), Start::Device(device));
            let (from, to) = if up { (host, device) } else { (device, host) };
            // SAFETY: the caller vouches for both sides.
            let copied = unsafe { copy.enqueue(lane, stream.stream, from, to) };
            let waited = stream.wait();
            copied.and(waited)
        };
        let found = &lane.pageable[usize::from(up)];
        match found.is_direct() {
            Some(true) => Some(direct()),
            Some(false) => staged(),
            None => {
                // Twice each: what is touched and made first is no part of either.
                let mut best = [Duration::MAX; 2];
                for _ in 0..2 {
                    let start = Instant::now();
                    if let Err(error) = direct() {
                        return Some(Err(error));
                    }
                    best[0] = best[0].min(start.elapsed());
                    let start = Instant::now();
                    match staged() {
                        None => return Some(Ok(())),
                        Some(Err(error)) => return Some(Err(error)),
                        Some(Ok(())) => best[1] = best[1].min(start.elapsed()),
                    }
                }
                found.found(best[0] < best[1]);
                Some(Ok(()))
            }
        }
    }

    /// Through the staging ring, between an address of the host's and one of the device's, both of which
    /// are ready. None: not so.
    ///
    /// # Safety
    /// As [`Backend::transfer`].
    unsafe fn staged(&self, lane: &'static Lane, up: bool, host: u64, device: u64) -> Option<Result<()>> {
        let ring = match lane.rings.of(self.job.staging_bytes) {
            Ok(ring) => ring,
            Err(error) => return Some(Err(error)),
        };
        let casts = |casts| {
            let packing = Packing::of(self.job.work, up, casts)?;
            let parts = Parts::of(self.job, packing.size, ring.slot_bytes())?;
            // All parts are of one kind.
            let (part, mut room) = (parts.part(0), staging::room());
            Way::of(&part.half(up, &packing, &mut room), lane)?;
            Some((packing, parts))
        };
        // Values are cast on the host where the device has no kernel for it.
        let (packing, parts) = casts(true).or_else(|| casts(false))?;
        let make = |bytes| {
            let _relaxed = Relaxed::new(lane.f);
            let _entered = lane.enter()?;
            Pinned::new(lane, bytes)
        };
        let crossing = match Crossing::new(&ring, &parts, packing, self.job.threads, make).transpose()? {
            Ok(crossing) => crossing,
            Err(error) => return Some(Err(error)),
        };
        let cross = |slot: &mut Pinned, part: &Part, bytes: u64| {
            let _entered = lane.enter()?;
            let mut room = staging::room();
            let job = part.half(up, &packing, &mut room);
            let far = device.wrapping_add_signed(if up { part.destination } else { part.source });
            // SAFETY: the caller vouches for the device's side; the part fits the slot.
            unsafe { cross(lane, slot, &job, up, Start::Device(far), bytes as usize) }
        };
        // SAFETY: the caller vouches for the host's side.
        Some(unsafe { if up { crossing.upload(host, &cross) } else { crossing.download(host, &cross) } })
    }

    /// By the host, on copies of both sides that are as long as what they reach: for elements that start
    /// within bytes, and where there is neither an engine nor a kernel for a job.
    ///
    /// # Safety
    /// As [`Backend::transfer`].
    unsafe fn mirrored(
        &self,
        orders: &Orders,
        (a, source): (Option<&'static Lane>, &Place),
        (b, destination): (Option<&'static Lane>, &Place),
    ) -> Result<()> {
        refuse_capture(orders.is_capturing())?;
        orders.settle()?;
        // SAFETY: the caller vouches for both sides.
        unsafe {
            let from = match a {
                Some(lane) => Some(Mirror::new(lane, source, true)?),
                None => None,
            };
            let to = match b {
                Some(lane) => Some(Mirror::new(lane, destination, !destination.dense)?),
                None => None,
            };
            let place = |place: &Place, mirror: &Option<Mirror>| {
                mirror.as_ref().map_or(*place, |mirror| mirror.place(place))
            };
            let (near, far) = (place(source, &from), place(destination, &to));
            Host.transfer(self.job, &near, &far, &Streams::default())?;
            match to {
                Some(mirror) => mirror.write_back(destination),
                None => Ok(()),
            }
        }
    }

    /// Between pinned and managed memory and the host's own, by the host.
    ///
    /// # Safety
    /// As [`Backend::transfer`].
    unsafe fn on_host(&self, (source, from): (&Place, End), (destination, to): (&Place, End)) -> Result<()> {
        // The default stream is that of the device that the memory was made for.
        let lane = |end| {
            let device_id = if let End::Mapped { device_id, .. } = end { device_id } else { 0 };
            let device = DLDevice { device_type: device_type::CUDA, device_id };
            self.cuda.lane(device).or_else(|_| self.cuda.lane(DLDevice { device_id: 0, ..device }))
        };
        // SAFETY: the caller vouches for both sides.
        unsafe {
            let orders = self.orders(lane(from)?, lane(to)?)?;
            refuse_capture(orders.is_capturing())?;
            orders.settle()?;
            Host.transfer(self.job, source, destination, &Streams::default())
        }
    }
}

impl Part {
    /// What the device does with a part: to put packed elements where they belong, or to pack them.
    fn half<'r>(&self, up: bool, packing: &Packing, room: &'r mut [crate::layout::Axis]) -> Transfer<'r> {
        let (work, size) = (packing.device, packing.size);
        if up { self.unpack(work, size, room) } else { self.pack(work, size, room) }
    }
}

/// Puts the copy between a slot and the device on the slot's stream. The lane's context is current.
///
/// # Safety
/// The job may be done between the slot and `far`.
unsafe fn cross(
    lane: &'static Lane,
    slot: &mut Pinned,
    job: &Transfer<'_>,
    up: bool,
    far: Start,
    bytes: usize,
) -> Result<()> {
    let near = Start::Host(staging::Slot::memory(slot).as_ptr() as usize as u64);
    // SAFETY: as the caller says.
    unsafe {
        match Way::of(job, lane) {
            Some(Way::Copy(copy)) => {
                let stream = slot.begin();
                let (from, to) = if up { (near, far) } else { (far, near) };
                copy.enqueue(lane, stream, from, to)
            }
            Some(way @ Way::Kernel) => {
                let scratch = Start::Device(slot.scratch()?);
                let stream = slot.begin();
                let copy = Rectangle::run(bytes);
                if up {
                    copy.enqueue(lane, stream, near, scratch)?;
                    way.go(lane, stream, job, scratch, far)
                } else {
                    way.go(lane, stream, job, far, scratch)?;
                    copy.enqueue(lane, stream, scratch, near)
                }
            }
            None => Err(Error::Internal(crate::error::Excerpt::new("a part is unlike the first one"))),
        }
    }
}

/// What does a job on a device.
#[derive(Clone, Copy)]
enum Way {
    /// The copy engine.
    Copy(Rectangle),
    /// A kernel.
    Kernel,
}

impl Way {
    fn of(job: &Transfer<'_>, lane: &Lane) -> Option<Way> {
        if let Some(copy) = Rectangle::of(job).filter(|copy| copy.suits(lane)) {
            return Some(Way::Copy(copy));
        }
        kernels::can(job).then_some(Way::Kernel)
    }

    /// Puts it on a stream. The lane's context is current.
    ///
    /// # Safety
    /// The job is the one that this is for; the device reaches every place of it from both starts.
    unsafe fn go(
        self,
        lane: &'static Lane,
        stream: cudarc::driver::sys::CUstream,
        job: &Transfer<'_>,
        source: Start,
        destination: Start,
    ) -> Result<()> {
        // SAFETY: as the caller says.
        unsafe {
            match self {
                Way::Copy(copy) => copy.enqueue(lane, stream, source, destination),
                Way::Kernel => kernels::launch(lane, stream, job, source.address(), destination.address(), 0),
            }
        }
    }
}

/// What a device cannot do without the host is not part of a graph.
fn refuse_capture(capturing: bool) -> Result<()> {
    if capturing {
        let expected = "no AB_CONVERT_ASYNC while options.dst_stream is being captured: the host takes part \
                        in this conversion; with pinned memory it need not";
        return Err(Error::Option { name: "options.flags", value: 1, expected });
    }
    Ok(())
}

/// A copy on the host of all that a place on a device reaches.
struct Mirror {
    lane: &'static Lane,
    memory: Memory,
    bytes: usize,
}

impl Mirror {
    /// Fills it, if it is to be read.
    ///
    /// # Safety
    /// The place is readable, and ready.
    unsafe fn new(lane: &'static Lane, place: &Place, filled: bool) -> Result<Mirror> {
        let bytes = place.end.abs_diff(place.begin);
        let memory = Memory::on_host(super::host::DEVICE, bytes, 64)?;
        let mirror = Mirror { lane, memory, bytes: bytes as usize };
        if filled {
            let here = Start::Host(mirror.memory.address());
            let there = Start::Device(place.data.wrapping_add_signed(place.begin));
            // SAFETY: as the caller says.
            unsafe { mirror.copy(there, here)? };
        }
        Ok(mirror)
    }

    /// The place in this copy.
    fn place(&self, place: &Place) -> Place {
        let byte_offset = place.byte_offset.wrapping_sub(place.begin as u64);
        Place { data: self.memory.address(), byte_offset, ..*place }
    }

    /// Writes it to the device.
    ///
    /// # Safety
    /// The place is writable, and ready.
    unsafe fn write_back(&self, place: &Place) -> Result<()> {
        let there = Start::Device(place.data.wrapping_add_signed(place.begin));
        // SAFETY: as the caller says.
        unsafe { self.copy(Start::Host(self.memory.address()), there) }
    }

    /// # Safety
    /// Both sides are as long as this.
    unsafe fn copy(&self, from: Start, to: Start) -> Result<()> {
        let _entered = self.lane.enter()?;
        let stream = self.lane.stream()?;
        // SAFETY: as the caller says.
        let copied = unsafe { Rectangle::run(self.bytes).enqueue(self.lane, stream.stream, from, to) };
        let waited = stream.wait();
        copied.and(waited)
    }
}
