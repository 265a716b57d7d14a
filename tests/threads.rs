//! Dozens of threads that convert, hand results to each other, make and release contexts, bring allocators
//! and fork. For a moment here; for as long as ARRAYBRIDGE_SOAK says in seconds (`tests/run --long`), and then
//! the process's memory must not have grown.
#![cfg(unix)]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use arraybridge::dlpack::raw::*;
use arraybridge::ffi::context::*;
use arraybridge::ffi::convert::*;
use arraybridge::ffi::managed::*;
use arraybridge::ffi::types::*;

const THREADS: usize = 48;
/// Rounds of each thread where no time is given.
const ROUNDS: usize = if cfg!(debug_assertions) { 60 } else { 300 };

/// What was handed out and came back.
struct Counts {
    rounds: AtomicU64,
    owners: AtomicUsize,
    told: AtomicUsize,
    allocated: AtomicUsize,
    deallocated: AtomicUsize,
}

/// A tensor on its way to another thread, which ends it.
struct Parcel {
    tensor: *mut DLManagedTensorVersioned,
    legacy: *mut DLManagedTensor,
}

// SAFETY: a tensor may be deleted on any thread.
unsafe impl Send for Parcel {}

impl Drop for Parcel {
    fn drop(&mut self) {
        // SAFETY: both are owned, or NULL.
        unsafe {
            ab_release(self.tensor);
            ab_release_legacy(self.legacy);
        }
    }
}

unsafe extern "C" fn tell(owner: *mut c_void) {
    // SAFETY: it is the box of wrapped().
    let (counts, _memory) = *unsafe { Box::from_raw(owner.cast::<(&'static Counts, Vec<u8>)>()) };
    counts.told.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn allocate(
    user: *mut c_void,
    _: i32,
    _: i32,
    size: usize,
    align: usize,
    _: i64,
) -> *mut c_void {
    // SAFETY: it is a Counts.
    unsafe { &*user.cast::<Counts>() }.allocated.fetch_add(1, Ordering::Relaxed);
    let mut block = null_mut();
    // SAFETY: the pointer is written to a place of ours.
    if unsafe { libc::posix_memalign(&mut block, align, size) } == 0 { block } else { null_mut() }
}

unsafe extern "C" fn deallocate(user: *mut c_void, _: i32, _: i32, pointer: *mut c_void, _: usize, _: i64) {
    // SAFETY: it is a Counts, and the pointer came from allocate.
    unsafe {
        (*user.cast::<Counts>()).deallocated.fetch_add(1, Ordering::Relaxed);
        libc::free(pointer);
    }
}

fn options() -> ab_convert_options {
    // SAFETY: all zero is what C writes for the defaults.
    let zero = unsafe { std::mem::zeroed() };
    ab_convert_options { struct_size: size_of::<ab_convert_options>() as u32, ..zero }
}

const U8: DLDataType = DLDataType { code: 1, bits: 8, lanes: 1 };
const F32: DLDataType = DLDataType { code: 2, bits: 32, lanes: 1 };

fn tensor(data: &[u8], shape: &[i64]) -> DLTensor {
    DLTensor {
        data: data.as_ptr().cast_mut().cast(),
        device: DLDevice { device_type: 1, device_id: 0 },
        ndim: shape.len() as i32,
        dtype: U8,
        shape: shape.as_ptr().cast_mut(),
        strides: null_mut(),
        byte_offset: 0,
    }
}

/// Copies bytes as a matrix to float32, column-major, and checks some of it.
fn copied(
    context: *mut ab_context,
    data: &[u8],
    columns: i64,
    allocator: Option<&ab_allocator>,
) -> *mut DLManagedTensorVersioned {
    let shape = [data.len() as i64 / columns, columns];
    let allocator = allocator.map_or(std::ptr::null(), |allocator| allocator);
    let options = ab_convert_options { dtype: F32, layout: AB_LAYOUT_F, allocator, ..options() };
    let mut out = null_mut();
    // SAFETY: the tensor is as large as it says.
    let status =
        unsafe { ab_copy(context, &tensor(data, &shape), 0, &options, &mut out, null_mut(), null_mut()) };
    assert_eq!(status, AB_OK);
    // SAFETY: the result is as large.
    unsafe {
        let values = (*out).dl_tensor.data.cast::<f32>();
        for index in [0, shape[0] - 1, shape[0], shape[0] * columns / 2, shape[0] * columns - 1] {
            let (row, column) = (index % shape[0], index / shape[0]);
            assert_eq!(*values.add(index as usize), f32::from(data[(row * columns + column) as usize]));
        }
    }
    out
}

/// A chain over memory of its own: wrapped, shared, bridged there and back.
fn wrapped(counts: &'static Counts, first: u8) -> Parcel {
    counts.owners.fetch_add(1, Ordering::Relaxed);
    let memory: Vec<u8> = (0..200).map(|index| first.wrapping_add(index)).collect();
    let view = tensor(&memory, &[10, 20]);
    let owner: *mut (&'static Counts, Vec<u8>) = Box::into_raw(Box::new((counts, memory)));
    let (mut tensor, mut shared, mut legacy, mut back) = (null_mut(), null_mut(), null_mut(), null_mut());
    // SAFETY: the memory lives until the owner is told.
    unsafe {
        assert_eq!(ab_wrap(&view, 0, owner.cast(), Some(tell), &mut tensor, null_mut()), AB_OK);
        let none = std::ptr::null();
        assert_eq!(ab_convert(null_mut(), tensor, none, &mut shared, null_mut(), null_mut()), AB_OK);
        assert_eq!(ab_to_legacy(shared, &mut legacy, null_mut()), AB_OK);
        if first & 1 == 0 {
            return Parcel { tensor: null_mut(), legacy };
        }
        assert_eq!(ab_from_legacy(legacy, &mut back, null_mut()), AB_OK);
        assert_eq!(*(*back).dl_tensor.data.cast::<u8>().add(199), first.wrapping_add(199));
    }
    Parcel { tensor: back, legacy: null_mut() }
}

/// A child of a process of many threads can use the library, too.
fn forked(data: &[u8]) {
    // SAFETY: the child calls the library and leaves; it is killed if that takes for ever.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            libc::alarm(100);
            let done = std::panic::catch_unwind(|| {
                ab_release(copied(null_mut(), &data[..5000], 50, None));
                ab_release(copied(null_mut(), data, 1000, None));
            });
            libc::_exit(i32::from(done.is_err()));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0, "a child's status");
    }
}

/// Where the tools that look for races know no threads in children: tests/sanitize.
fn may_fork() -> bool {
    std::env::var_os("ARRAYBRIDGE_NO_FORK").is_none()
}

struct Soak {
    counts: &'static Counts,
    until: Option<Instant>,
    large: Vec<u8>,
}

impl Soak {
    fn goes_on(&self, round: usize) -> bool {
        self.until.map_or(round < ROUNDS, |until| Instant::now() < until)
    }

    fn thread(&self, number: usize, send: &SyncSender<Parcel>, receive: &Mutex<Receiver<Parcel>>) {
        let mut state = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let counts = self.counts;
        let user = std::ptr::from_ref(counts).cast_mut().cast();
        let allocator = ab_allocator { user, allocate: Some(allocate), deallocate: Some(deallocate) };
        let mut round = 0;
        while self.goes_on(round) {
            round += 1;
            counts.rounds.fetch_add(1, Ordering::Relaxed);
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let pick = (state >> 33) as usize;
            let context = context(pick % 5);
            let parcel = match pick % 64 {
                0 if number.is_multiple_of(8) && may_fork() => {
                    forked(&self.large);
                    None
                }
                // Large enough for the pool.
                1 | 2 => Some(copied(context, &self.large, [1000, 1024, 7][pick % 3], None)),
                3..24 => Some(copied(context, &self.large[pick % 100..][..600], 20, Some(&allocator))),
                24..44 => Some(copied(context, &self.large[pick % 100..][..900], 30, None)),
                _ => {
                    hand_over(wrapped(counts, pick as u8), send);
                    None
                }
            };
            if let Some(tensor) = parcel {
                hand_over(Parcel { tensor, legacy: null_mut() }, send);
            }
            // SAFETY: it is ours, or NULL; results live on.
            unsafe { ab_context_release(context) };
            // What others made ends here.
            let gone = receive.lock().unwrap().try_recv();
            drop(gone);
        }
    }
}

fn hand_over(parcel: Parcel, send: &SyncSender<Parcel>) {
    match send.try_send(parcel) {
        Ok(()) => {}
        Err(TrySendError::Full(parcel) | TrySendError::Disconnected(parcel)) => drop(parcel),
    }
}

/// One of its own, or the default one.
fn context(threads: usize) -> *mut ab_context {
    if threads == 0 {
        return null_mut();
    }
    let options = ab_context_options { struct_size: 16, num_threads: threads as u32, staging_bytes: 0 };
    let mut context = null_mut();
    // SAFETY: the struct is whole.
    assert_eq!(unsafe { ab_context_create(&options, &mut context, null_mut()) }, AB_OK);
    context
}

/// Bytes that the process has in memory.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split(' ').nth(1)?.parse::<usize>().ok()? * 4096)
}

#[test]
fn dozens_of_threads() {
    let seconds: Option<u64> =
        std::env::var("ARRAYBRIDGE_SOAK").ok().map(|text| text.parse().expect("seconds"));
    static COUNTS: Counts = Counts {
        rounds: AtomicU64::new(0),
        owners: AtomicUsize::new(0),
        told: AtomicUsize::new(0),
        allocated: AtomicUsize::new(0),
        deallocated: AtomicUsize::new(0),
    };
    let counts = &COUNTS;
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let large: Vec<u8> =
        (0..1_400_000u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let soak = Soak { counts, until, large };
    let (send, receive) = sync_channel(200);
    let receive = Mutex::new(receive);
    // The most that was resident in each quarter of the time.
    let mut quarters = [0; 4];
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (soak, send, receive) = (&soak, send.clone(), &receive);
            scope.spawn(move || soak.thread(number, &send, receive));
        }
        let (Some(until), Some(seconds)) = (until, seconds) else { return };
        let quarter = Duration::from_secs(seconds) / 4;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left < Duration::from_millis(500) {
                break;
            }
            let passed = 4 * quarter - left.min(4 * quarter);
            let now = &mut quarters[((passed.as_millis() / quarter.as_millis()) as usize).min(3)];
            *now = resident().unwrap_or(0).max(*now);
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    drop((send, receive));
    let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
    assert_eq!(count(&counts.owners), count(&counts.told));
    assert_eq!(count(&counts.allocated), count(&counts.deallocated));
    assert!(count(&counts.owners) > 0 && count(&counts.allocated) > 0);
    if seconds.is_some() {
        let rounds = counts.rounds.load(Ordering::Relaxed);
        let kib = quarters.map(|most| most >> 10);
        println!("{rounds} rounds of {THREADS} threads; KiB resident at most in each quarter: {kib:?}");
        // Memory may not grow once everything has been used for a while.
        let [_, warm, _, most] = quarters;
        assert!(most <= warm + warm / 4 + (8 << 20), "memory has grown from {warm} to {most} bytes");
    }
}
