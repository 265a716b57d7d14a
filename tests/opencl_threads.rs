//! OpenCL from dozens of threads: contexts of strangers that come and go while others convert in them, results
//! that end on other threads, contexts of our own, queues, staging of every size and kernels that several want at
//! once. The library's OpenCL lanes, programs, rings and kept mappings are shared by all of it.
#![cfg(feature = "opencl")]

#[path = "common/calls.rs"]
mod calls;
#[path = "common/cl.rs"]
mod cl;
mod common;

use std::process::Command;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Barrier, Mutex, RwLock};

use arraybridge::ffi::context::{ab_context_create, ab_context_release};
use arraybridge::ffi::types::*;
use calls::{Array, CPU, Owned, Random, copy_in, options, to_device};
use cl::{Desk, devices};
use opencl3::memory::*;

const OPENCL: (i32, i32) = (4, 0);
const THREADS: usize = 32;
/// Rounds of each thread.
const ROUNDS: usize = 24;
const SHAPE: [i64; 2] = [40, 30];
/// One that crosses in several slots, and one that is kept mapped.
const LARGE: [i64; 2] = [600, 500];

/// A stranger's context and queue, and a buffer in it.
struct Stranger {
    buffer: cl::Buffer,
    desk: Desk,
    bytes: Vec<u8>,
}

// SAFETY: contexts, queues and buffers may be used on any thread.
unsafe impl Send for Stranger {}
// SAFETY: as above.
unsafe impl Sync for Stranger {}

impl Stranger {
    fn new(seed: u8, shape: [i64; 2]) -> Stranger {
        let desk = Desk::new().expect("a device of OpenCL");
        let bytes = bytes(seed, shape);
        Stranger { buffer: desk.buffer(&bytes, CL_MEM_READ_WRITE), desk, bytes }
    }

    fn array(&self, shape: [i64; 2]) -> Array {
        Array::new(self.buffer.mem as u64, OPENCL, "uint8", &shape)
    }

    fn references(&self) -> u32 {
        let what = opencl3::context::context::CL_CONTEXT_REFERENCE_COUNT;
        opencl3::context::context::get_context_info(self.desk.context, what).expect("a context").to_uint()
    }
}

fn bytes(seed: u8, shape: [i64; 2]) -> Vec<u8> {
    (0..shape[0] * shape[1]).map(|at| (at as u8).wrapping_mul(7) ^ seed).collect()
}

/// A result that another thread ends, with what must be in it.
struct Parcel {
    result: Owned,
    shape: [i64; 2],
    dtype: &'static str,
    want: Vec<u8>,
}

// SAFETY: a result may be used and deleted on any thread.
unsafe impl Send for Parcel {}

impl Parcel {
    /// Whoever gets it looks at what is in it, in the host's memory.
    fn open(self, context: *mut ab_context) {
        let tensor = self.result.tensor();
        assert_eq!(tensor.device.device_type, OPENCL.0);
        let array = Array::new(tensor.data as u64, OPENCL, self.dtype, &self.shape);
        let wanted = ab_convert_options { layout: AB_LAYOUT_C, ..with_dtype(to_device(CPU), "uint8") };
        let (back, _) = copy_in(context, &array, &wanted).expect("a download");
        assert!(back.bytes(self.want.len()) == self.want, "{} {:?}", self.dtype, self.shape);
    }
}

fn with_dtype(options: ab_convert_options, dtype: &str) -> ab_convert_options {
    ab_convert_options { dtype: dtype.parse().expect("a dtype"), ..options }
}

/// One of its own, or the default one.
fn context(pick: i64) -> *mut ab_context {
    if pick == 0 {
        return null_mut();
    }
    let staging_bytes = [0, 1 << 16, 1 << 20][pick as usize % 3];
    let options = ab_context_options { struct_size: 16, num_threads: (pick as u32 % 3) + 1, staging_bytes };
    let mut context = null_mut();
    // SAFETY: the struct is whole.
    assert_eq!(unsafe { ab_context_create(&options, &mut context, null_mut()) }, AB_OK);
    context
}

struct Scene {
    /// Those whom everybody knows, until another takes the place.
    strangers: [RwLock<Arc<Stranger>>; 3],
    sent: AtomicUsize,
    opened: AtomicUsize,
}

impl Scene {
    fn thread(&self, number: usize, send: &SyncSender<Parcel>, receive: &Mutex<Receiver<Parcel>>) {
        let mut random = Random(number as u64 + 1);
        for round in 0..ROUNDS {
            let seed = (number * ROUNDS + round) as u8;
            let context = context(random.below(4));
            let shape = if random.below(12) == 0 { LARGE } else { SHAPE };
            let dtype = ["uint8", "float32", "int16"][random.below(3) as usize];
            let wanted = with_dtype(to_device(OPENCL), dtype);
            let parcel = match random.below(8) {
                // Up into a context of ours.
                0 | 1 => {
                    let want = bytes(seed, shape);
                    let (result, _) =
                        copy_in(context, &Array::host(&want, "uint8", &shape), &wanted).expect("an upload");
                    Parcel { result, shape, dtype, want }
                }
                // A context that goes while its result stays.
                2 | 3 => self.of(&Stranger::new(seed, shape), context, shape, dtype, 0),
                // Up into somebody else's, behind what is in their queue.
                4 => {
                    let stranger = self.known(&mut random);
                    let options = ab_convert_options { dst_stream: stranger.desk.stream(), ..wanted };
                    let want = bytes(seed, shape);
                    let (result, _) =
                        copy_in(context, &Array::host(&want, "uint8", &shape), &options).expect("an upload");
                    Parcel { result, shape, dtype, want }
                }
                // Another takes a place of those whom everybody knows.
                5 if number.is_multiple_of(4) => {
                    let stranger = Arc::new(Stranger::new(seed, SHAPE));
                    let parcel = self.of(&stranger, context, SHAPE, dtype, 1);
                    let place = &self.strangers[random.below(3) as usize];
                    let gone = std::mem::replace(&mut *place.write().expect("no panic"), stranger);
                    drop(gone);
                    parcel
                }
                turned => {
                    let stranger = self.known(&mut random);
                    self.of(&stranger, context, SHAPE, dtype, turned % 2)
                }
            };
            self.sent.fetch_add(1, Ordering::Relaxed);
            match send.try_send(parcel) {
                Ok(()) => {}
                Err(TrySendError::Full(parcel) | TrySendError::Disconnected(parcel)) => {
                    self.open(parcel, context);
                }
            }
            let other = receive.lock().expect("no panic").try_recv();
            if let Ok(parcel) = other {
                self.open(parcel, context);
            }
            // SAFETY: it is ours, or NULL; results live on.
            unsafe { ab_context_release(context) };
        }
    }

    fn known(&self, random: &mut Random) -> Arc<Stranger> {
        self.strangers[random.below(3) as usize].read().expect("no panic").clone()
    }

    /// What a stranger has, as it is or transposed, in their context.
    fn of(
        &self,
        stranger: &Stranger,
        context: *mut ab_context,
        shape: [i64; 2],
        dtype: &'static str,
        turned: i64,
    ) -> Parcel {
        let (array, [rows, columns]) = (stranger.array(shape), shape);
        if turned == 0 {
            let (result, _) = copy_in(context, &array, &with_dtype(options(), dtype)).expect("a copy");
            return Parcel { result, shape, dtype, want: stranger.bytes.clone() };
        }
        let view = Array { shape: vec![columns, rows], strides: Some(vec![1, columns]), ..array };
        let wanted = ab_convert_options { layout: AB_LAYOUT_C, ..with_dtype(options(), dtype) };
        let (result, _) = copy_in(context, &view, &wanted).expect("a copy");
        let at = |index: i64| stranger.bytes[((index % rows) * columns + index / rows) as usize];
        Parcel { result, shape: [columns, rows], dtype, want: (0..rows * columns).map(at).collect() }
    }

    fn open(&self, parcel: Parcel, context: *mut ab_context) {
        parcel.open(context);
        self.opened.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
#[ignore = "run by dozens_of_threads"]
fn convert_and_come_and_go() {
    // PoCL's first enumeration is one thread's.
    assert!(!devices().is_empty());
    let strangers = [0u8, 1, 2].map(|seed| RwLock::new(Arc::new(Stranger::new(seed, SHAPE))));
    let scene = Scene { strangers, sent: AtomicUsize::new(0), opened: AtomicUsize::new(0) };
    // Whatever is launched later is no larger: PoCL 3.1 compiles a kernel again where it is, and takes one for the
    // other when both are in use (its assertion `found->ref_count > 0`).
    let large = Stranger::new(7, LARGE);
    for dtype in ["uint8", "float32", "int16"] {
        for turned in [0, 1] {
            scene.of(&large, null_mut(), LARGE, dtype, turned).open(null_mut());
        }
        let (want, wanted) = (bytes(7, LARGE), with_dtype(to_device(OPENCL), dtype));
        let upload = copy_in(null_mut(), &Array::host(&want, "uint8", &LARGE), &wanted);
        Parcel { result: upload.expect("an upload").0, shape: LARGE, dtype, want }.open(null_mut());
    }
    drop(large);
    let (send, receive) = sync_channel(40);
    let receive = Mutex::new(receive);
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (scene, send, receive) = (&scene, send.clone(), &receive);
            scope.spawn(move || scene.thread(number, &send, receive));
        }
    });
    drop(send);
    for parcel in receive.into_inner().expect("no panic") {
        scene.open(parcel, null_mut());
    }
    let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
    assert_eq!((count(&scene.sent), count(&scene.opened)), (THREADS * ROUNDS, THREADS * ROUNDS));
}

/// Many begin and end with a context at once, again and again: it is let go when all have.
#[test]
#[ignore = "run by dozens_of_threads"]
fn leave_at_once() {
    assert!(!devices().is_empty());
    let stranger = Stranger::new(3, SHAPE);
    let one = || copy_in(null_mut(), &stranger.array(SHAPE), &options()).expect("a copy").0;
    // PoCL takes references of its own at the first commands, and programs are kept for about a second.
    drop(one());
    // In steps, since the library's thread stands still where this one does.
    (0..300).for_each(|_| std::thread::sleep(std::time::Duration::from_millis(10)));
    let before = stranger.references();
    let together = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let result = one();
                    together.wait();
                    drop(result);
                    together.wait();
                }
            });
        }
    });
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while stranger.references() != before && std::time::Instant::now() < patience {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(stranger.references(), before);
}

#[test]
fn dozens_of_threads() {
    if devices().is_empty() {
        return common::skipped("OpenCL from dozens of threads: no OpenCL device is here");
    }
    // As a device that runs functions of the host, one that is mapped, and one with memory of its own.
    for map in ["", "1", "0"] {
        let mut run = Command::new(std::env::current_exe().expect("the path of this program"));
        run.args(["--ignored", "--test-threads=1"]).env("ARRAYBRIDGE_OPENCL_MAP", map);
        let output = run.output().expect("this program");
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("2 passed"), "{map:?}: {text}");
    }
}
