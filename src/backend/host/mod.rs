//! The host: its memory and its processor.
//!
//! A job's axes are divided among threads (`split`, `cuts`, `threads`; `streak`: small jobs in a row), walked in blocks
//! that the caches like (`walk`), and handed as rows and matrices to a kernel (`kernel`), which is made of copies
//! (`copy`), transposes (`transpose`), elements that change places within a line (`shuffle`), casts (`cast`, `float`)
//! and elements within bytes (`bits`). What is too large for the caches is written around them (`stream`; rows whose
//! neighbours differ on the two sides: `stream::crossed`). Everything that gains by it is compiled for several sets of
//! instructions (`isa`). Large results come from huge pages (`pages`). What the system tells is read without allocating
//! (`system`); `affinity`: on which processors threads run. `pieces`: what is put together piece by piece first.
//! `prepared`: what a small job came to, to be done again.

mod affinity;
mod bits;
mod cast;
mod copy;
mod cuts;
pub(super) mod float;
mod fuse;
mod isa;
mod kernel;
pub(super) mod pages;
mod pieces;
mod prepared;
mod shuffle;
mod split;
mod streak;
mod stream;
mod system;
pub(super) mod threads;
mod transpose;
mod walk;

use std::fmt;

use self::cast::{CastKernel, Caster};
use self::kernel::{Move, MoveBits, Sides};
pub use self::prepared::Prepared;
use super::job::{Transfer, Work};
use super::{Backend, DeviceInfo, Memory, MemoryKind, Place, PointerInfo, Streams, Wanted};
use crate::dlpack::raw::{DLDevice, device_type};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::{Axis, Folded};

/// The one host.
pub struct Host;

/// Its DLPack pair.
pub const DEVICE: DLDevice = DLDevice { device_type: device_type::CPU, device_id: 0 };

/// Bytes below which one thread does a job by itself, whatever it is.
pub const ONE_THREAD: u64 = split::AWAKE[1] as u64;

/// Bytes below which no thread is woken for a job: a plain copy of runs, or anything else.
#[allow(dead_code, reason = "only OpenCL divides such jobs in another way")]
pub const fn one_thread(in_runs: bool) -> u64 {
    split::PARALLEL[!in_runs as usize] as u64
}

/// An even number that no other thread has at the time, unless it is 0: where the system's library keeps what it knows of
/// this one. Thread-local data of our own would be in memory that is taken when it is first touched.
#[inline(always)]
pub fn thread() -> usize {
    let thread: usize;
    // SAFETY: both are there to be read in every thread.
    #[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
    unsafe {
        use std::arch::asm;
        asm!("mov {}, fs:0", out(reg) thread, options(pure, readonly, nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", target_os = "linux", not(miri)))]
    // SAFETY: as above.
    unsafe {
        use std::arch::asm;
        asm!("mrs {}, tpidr_el0", out(reg) thread, options(pure, nomem, nostack, preserves_flags));
    }
    #[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), not(target_os = "linux"), miri))]
    {
        thread_local!(static HERE: u16 = const { 0 });
        thread = HERE.with(|here| (&raw const *here).addr());
    }
    thread
}

/// Copies bytes.
///
/// # Safety
/// So many are readable and writable there, and do not overlap.
#[inline(always)]
pub unsafe fn copy_bytes(source: u64, destination: u64, bytes: u64) {
    let (source, destination) = (source as usize as *const u8, destination as usize as *mut u8);
    // SAFETY: as the caller says.
    unsafe { copy::bytes(source, destination, bytes as usize) };
}

/// Copies many elements of so many bytes in all, which follow each other, on so many threads at most.
///
/// # Safety
/// As [`copy_bytes`].
pub unsafe fn copy_row(source: u64, destination: u64, count: i64, bytes: u64, threads: u32) {
    let size = bytes as i64 / count;
    let axes = [Axis { extent: count, source: size, destination: size }];
    let kernel = Move::new(Sides::between(source, destination), size as usize, bytes as usize, threads);
    // SAFETY: the caller's.
    unsafe { split::run(&axes, (0, 0), &kernel, destination, threads) };
}

impl Backend for Host {
    fn name(&self) -> &'static str {
        "host"
    }

    fn serves(&self, device_type: i32) -> bool {
        device_type == device_type::CPU
    }

    fn available(&self) -> Result<(), &'static str> {
        Ok(())
    }

    fn describe(&self, text: &mut dyn fmt::Write) -> fmt::Result {
        write!(text, "{}, {}, {}", std::env::consts::OS, std::env::consts::ARCH, isa::Isa::get().name())
    }

    fn list_devices(&self, show: &mut dyn FnMut(DeviceInfo, &dyn fmt::Display)) -> Result<()> {
        let (total_memory, free_memory) = memory_sizes();
        let mut room = [0; 1024];
        let name = processor_model(&mut room).unwrap_or(std::env::consts::ARCH);
        show(DeviceInfo { device: DEVICE, total_memory, free_memory }, &name);
        Ok(())
    }

    fn detect_pointer(&self, address: u64) -> Option<PointerInfo> {
        let info = PointerInfo { memory: MemoryKind::Host, device: None, base: 0, size: 0 };
        // A device's driver reserves addresses too: while one is loaded that is not asked, a mapped
        // address may be its.
        (is_mapped(address) && !a_device_driver_is_loaded()).then_some(info)
    }

    fn allocate(&self, wanted: &Wanted<'_>) -> Result<Memory> {
        // As it comes, for to take it apart and put it together again costs as much as to find it.
        let mut memory = Memory::on_host(wanted.device, wanted.size, wanted.alignment);
        if wanted.zeroed
            && let Ok(memory) = &mut memory
        {
            memory.clear();
        }
        memory
    }

    unsafe fn transfer(
        &self,
        job: &Transfer<'_>,
        source: &Place,
        destination: &Place,
        _streams: &Streams,
    ) -> Result<()> {
        // SAFETY: the caller vouches for every place of the job.
        unsafe { run(job, source.address(), destination.address()) }
    }
}

/// Does a job between two addresses: those of the first elements.
///
/// # Safety
/// As [`Backend::transfer`].
pub unsafe fn run(job: &Transfer<'_>, source: u64, destination: u64) -> Result<()> {
    let sides = Sides::between(source, destination);
    let Folded { axes, source_offset, destination_offset } = job.folded;
    let start = (source_offset, destination_offset);
    // SAFETY: the caller vouches for every place of the job.
    let kept = unsafe {
        match job.work {
            Work::Move { size } => {
                move_elements(&job.folded, size, job.threads, source, destination);
                true
            }
            // Neighbours share bytes, which only one thread may write.
            Work::MoveBits { bits, room } => walk::walk(axes, start, &MoveBits { sides, bits, room }),
            Work::Cast(cast) => {
                let bits = |scalar: Scalar, counts: bool| counts.then(|| scalar.bits());
                let bits = (bits(cast.from, cast.from_bits), bits(cast.to, cast.to_bits));
                let kernel = CastKernel::new(sides, Caster::new(&cast), (elements(axes), job.threads), bits);
                if cast.to_bits {
                    walk::walk(axes, start, &kernel)
                } else {
                    split::run(axes, start, &kernel, destination, job.threads)
                }
            }
        }
    };
    match job.work {
        Work::Cast(cast) if !kept => Err(Error::ValueLost { from: cast.from.dtype(), to: cast.to.dtype() }),
        _ => Ok(()),
    }
}

/// The same for elements of so many bytes that stay as they are, on so many threads at most.
///
/// # Safety
/// As [`run`].
pub unsafe fn move_elements(folded: &Folded<'_>, size: u64, threads: u32, source: u64, destination: u64) {
    let sides = Sides::between(source, destination);
    let start = (folded.source_offset, folded.destination_offset);
    let (axes, size) = larger_elements(folded.axes, size);
    let bytes = elements(axes).saturating_mul(size as usize);
    let kernel = Move::new(sides, size as usize, bytes, threads);
    // SAFETY: the caller vouches for every place of the job.
    unsafe {
        if (bytes as u64) < ONE_THREAD {
            walk::walk(axes, start, &kernel);
        } else {
            split::run(axes, start, &kernel, destination, threads);
        }
    }
}

/// How many elements the axes visit.
fn elements(axes: &[Axis]) -> usize {
    axes.iter().fold(1, |count: usize, axis| count.saturating_mul(axis.extent as usize))
}

/// An innermost axis that is short and contiguous on both sides makes one larger element.
fn larger_elements(mut axes: &[Axis], mut size: u64) -> (&[Axis], u64) {
    const LARGEST: u64 = 32;
    while let Some((inner, outer)) = axes.split_last()
        && (inner.source, inner.destination) == (size as i64, size as i64)
        && size * inner.extent as u64 <= LARGEST
    {
        size *= inner.extent as u64;
        axes = outer;
    }
    (axes, size)
}

/// Total and available bytes; 0: unknown.
fn memory_sizes() -> (u64, u64) {
    let mut room = [0; 512];
    let Some(text) = system::read(c"/proc/meminfo", &mut room) else { return (0, 0) };
    let field = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        rest.trim_start_matches(':').trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    let bytes = |name: &str| field(name).unwrap_or(0) * 1024;
    (bytes("MemTotal"), bytes("MemAvailable"))
}

/// Written to `room`; None: unknown.
fn processor_model(room: &mut [u8]) -> Option<&str> {
    let text = system::read(c"/proc/cpuinfo", room)?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

/// Whether the process has a page at the address.
fn is_mapped(address: u64) -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: sysconf reads a constant; mincore looks at the page table only, and writes one byte.
        unsafe {
            let page = libc::sysconf(libc::_SC_PAGESIZE) as u64;
            let mut resident = 0u8;
            let start = (address & !(page - 1)) as usize as *mut libc::c_void;
            address != 0 && libc::mincore(start, 1, &mut resident) == 0
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = address;
        false
    }
}

/// Whether somebody has loaded a driver whose memory has addresses in this process.
fn a_device_driver_is_loaded() -> bool {
    #[cfg(unix)]
    {
        #[cfg(feature = "cuda")]
        let asked = super::cuda::knows_addresses();
        #[cfg(not(feature = "cuda"))]
        let asked = false;
        let libraries = [c"libcuda.so.1", c"libamdhip64.so", c"libze_loader.so.1"];
        libraries[usize::from(asked)..].iter().any(|name| {
            // SAFETY: NOLOAD opens nothing; what it returns is closed at once.
            unsafe {
                let library = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
                !library.is_null() && libc::dlclose(library) == 0
            }
        })
    }
    #[cfg(not(unix))]
    {
        true
    }
}
