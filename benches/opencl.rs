//! OpenCL beside the driver's own copies and the host: what is compared is measured in turn in one process.
//!
//!     cargo bench --bench opencl -- [--device N] [--kib SIZE] [--json FILE]
//!
//! A ratio is the reference's time by ours: above 1, ours is faster. What each reference is stands in its row.
//! On a processor a job is the driver's commands around the host's work, and both are measured by themselves too:
//! the limit is the reference's time by the sum of the two, and nothing else. The host works on one thread, but for
//! large jobs.

#[path = "../tests/common/cl.rs"]
mod cl;

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::time::Instant;

use arraybridge::dlpack::raw::{DLDevice, DLTensor};
use arraybridge::ffi::convert::ab_copy_into;
use arraybridge::ffi::types::*;
use opencl3::command_queue::*;
use opencl3::device::{CL_DEVICE_NAME, CL_DEVICE_TYPE, CL_DEVICE_TYPE_CPU, get_device_info};
use opencl3::memory::CL_MEM_READ_WRITE;

/// Seconds that things are measured in turn, of whose times the medians count.
const SECONDS: f64 = 1.0;
const LEAST_ROUNDS: usize = 5;

/// A tensor of the host's or a device's memory.
struct Array {
    data: *mut c_void,
    device: DLDevice,
    dtype: &'static str,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl Array {
    fn tensor(&self) -> DLTensor {
        DLTensor {
            data: self.data,
            device: self.device,
            ndim: self.shape.len() as i32,
            dtype: self.dtype.parse().expect("a dtype"),
            shape: self.shape.as_ptr().cast_mut(),
            strides: self.strides.as_ptr().cast_mut(),
            byte_offset: 0,
        }
    }
}

fn copy(from: &Array, to: &Array) {
    // SAFETY: all zero is what C writes for the defaults.
    let zero: ab_convert_options = unsafe { std::mem::zeroed() };
    let options = ab_convert_options { struct_size: size_of::<ab_convert_options>() as u32, ..zero };
    // SAFETY: the tensors are as large as they say.
    let status = unsafe {
        ab_copy_into(null_mut(), &from.tensor(), 0, &to.tensor(), 0, &options, null_mut(), null_mut())
    };
    assert_eq!(status, AB_OK);
}

/// What a job is compared with.
struct Beside<'a> {
    name: &'static str,
    run: &'a dyn Fn(),
    /// The driver's commands for the job without its work, and the work by itself.
    alone: Option<[&'a dyn Fn(); 2]>,
}

/// A measured job: seconds.
struct Row {
    what: &'static str,
    reference: &'static str,
    ours: f64,
    theirs: f64,
    /// Of the driver's commands, and of the host's work.
    alone: Option<[f64; 2]>,
}

impl Row {
    fn of(what: &'static str, ours: &dyn Fn(), beside: Beside<'_>) -> Row {
        let times = in_turn(&[ours, beside.run]);
        // By themselves, but with as much in between: what would be done twice in a round is in the caches.
        let alone = beside.alone.map(|[driver, host]| {
            let times = in_turn(&[ours, driver, host]);
            [times[1], times[2]]
        });
        Row { what, reference: beside.name, ours: times[0], theirs: times[1], alone }
    }

    fn limit(&self) -> Option<f64> {
        self.alone.map(|[driver, host]| self.theirs / (driver + host))
    }
}

/// The medians of each, measured in turn.
fn in_turn(all: &[&dyn Fn()]) -> Vec<f64> {
    let mut times = vec![Vec::new(); all.len()];
    all.iter().for_each(|run| run());
    let begin = Instant::now();
    while times[0].len() < LEAST_ROUNDS || begin.elapsed().as_secs_f64() < SECONDS {
        for (run, times) in all.iter().zip(&mut times) {
            let start = Instant::now();
            run();
            times.push(start.elapsed().as_secs_f64());
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    times.into_iter().map(median).collect()
}

/// Everything, on one device.
fn measure(device: usize, bytes: usize) -> Vec<Row> {
    let desk = cl::Desk::on(&cl::devices()[device..device + 1], 0);
    let side = 1i64 << ((bytes / 4).ilog2() / 2);
    let (height, width) = ((bytes / 4) as i64 / side, side);
    let mut host = vec![1.5f32; 2 * bytes / 4];
    let mut other = vec![0f32; 2 * bytes / 4];
    let (first, second) = (
        desk.buffer(&vec![1u8; 2 * bytes], CL_MEM_READ_WRITE),
        desk.buffer(&vec![1u8; 2 * bytes], CL_MEM_READ_WRITE),
    );
    let on_host = DLDevice { device_type: 1, device_id: 0 };
    let on_device = DLDevice { device_type: 4, device_id: device as i32 };
    let array = |data, device, dtype, strides: [i64; 2]| Array {
        data,
        device,
        dtype,
        shape: vec![height, width],
        strides: strides.to_vec(),
    };
    let (near, near_too) = (host.as_mut_ptr().cast::<c_void>(), other.as_mut_ptr().cast::<c_void>());
    let dense = [width, 1];
    let layouts: [(&str, &str, [i64; 2]); 3] = [
        ("upload, rows of half the pitch", "download, rows of half the pitch", [2 * width, 1]),
        ("upload, every second element", "download, every second element", [2 * width, 2]),
        ("upload, transposed", "download, transposed", [1, height]),
    ];
    let float = |data, device, strides| array(data, device, "float32", strides);
    let upload = || copy(&float(near, on_host, dense), &float(first.mem, on_device, dense));
    let download = || copy(&float(first.mem, on_device, dense), &float(near, on_host, dense));
    let is_processor = get_device_info(cl::devices()[device], CL_DEVICE_TYPE)
        .is_ok_and(|kind| kind.to_ulong() & CL_DEVICE_TYPE_CPU != 0);

    let write = || {
        // SAFETY: the buffer and the host's memory are that large.
        let event = unsafe { enqueue_write_buffer(desk.queue, first.mem, 1, 0, bytes, near, 0, null()) };
        // SAFETY: it is ours.
        unsafe { opencl3::event::release_event(event.expect("a write")) }.expect("a release");
    };
    let read = || {
        // SAFETY: as above.
        let event = unsafe { enqueue_read_buffer(desk.queue, first.mem, 1, 0, bytes, near, 0, null()) };
        // SAFETY: it is ours.
        unsafe { opencl3::event::release_event(event.expect("a read")) }.expect("a release");
    };
    fn beside<'a>(name: &'static str, run: &'a dyn Fn()) -> Beside<'a> {
        Beside { name, run, alone: None }
    }
    let mut rows = vec![
        Row::of("upload", &upload, beside("clEnqueueWriteBuffer", &write)),
        Row::of("download", &download, beside("clEnqueueReadBuffer", &read)),
    ];
    for (up, down, strides) in layouts {
        let work = || copy(&float(near, on_host, strides), &float(near_too, on_host, dense));
        let driver = || desk.empty_job(second.mem, None);
        let alone: [&dyn Fn(); 2] = [&driver, &work];
        let alone = is_processor.then_some(alone);
        let (from, to) = (float(near, on_host, strides), float(second.mem, on_device, dense));
        let contiguous = Beside { name: "a contiguous upload", run: &upload, alone };
        rows.push(Row::of(up, &|| copy(&from, &to), contiguous));
        let (from, to) = (float(first.mem, on_device, strides), float(near_too, on_host, dense));
        let contiguous = Beside { name: "a contiguous download", run: &download, alone };
        rows.push(Row::of(down, &|| copy(&from, &to), contiguous));
    }
    let half = |data, device| array(data, device, "float16", dense);
    let cases: [(&str, [i64; 2], bool); 3] = [
        ("on the device, float32 to float16", dense, true),
        ("on the device, transposed", [1, height], false),
        ("on the device, every second element", [2 * width, 2], false),
    ];
    for (what, strides, casts) in cases {
        let to = |data, device| if casts { half(data, device) } else { float(data, device, dense) };
        let (from, result) = (float(first.mem, on_device, strides), to(second.mem, on_device));
        let ours = || copy(&from, &result);
        if is_processor {
            let (from, result) = (float(near, on_host, strides), to(near_too, on_host));
            let work = || copy(&from, &result);
            let driver = || desk.empty_job(second.mem, Some((first.mem, bytes)));
            let host = Beside { name: "the host backend", run: &work, alone: Some([&driver, &work]) };
            rows.push(Row::of(what, &ours, host));
        } else {
            let device = || {
                // SAFETY: both buffers are that large; the event is ours.
                unsafe {
                    let (from, to) = (first.mem, second.mem);
                    let event = enqueue_copy_buffer(desk.queue, from, to, 0, 0, bytes, 0, null());
                    finish(desk.queue).expect("an end");
                    opencl3::event::release_event(event.expect("a copy")).expect("a release");
                }
            };
            rows.push(Row::of(what, &ours, beside("clEnqueueCopyBuffer", &device)));
        }
    }
    rows
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let device = value("--device").map_or(0, |device| device.parse().expect("--device: a number"));
    if cl::devices().len() <= device {
        println!("SKIPPED: OpenCL: there is no device {device}");
        return;
    }
    let name = get_device_info(cl::devices()[device], CL_DEVICE_NAME).expect("a name").to_string();
    let name = name.trim_end_matches('\0').trim().to_owned();
    println!("{name}");
    println!("{:>6}  {:<36} {:>9} {:>6} {:>6}  of", "KiB", "", "GB/s", "ratio", "limit");
    let mut results = Vec::new();
    let sizes = value("--kib").map(|size| vec![size.parse().expect("--kib: a number")]);
    for kibibytes in sizes.unwrap_or(vec![64, 1024, 4096, 32768]) {
        let bytes = kibibytes << 10;
        for row in measure(device, bytes) {
            let Row { what, reference, ours, theirs, alone } = row;
            let (speed, ratio, limit) = (bytes as f64 / ours / 1e9, theirs / ours, row.limit());
            let told = limit.map_or(String::new(), |limit| format!("{limit:.2}"));
            println!("{kibibytes:>6}  {what:<36} {speed:>9.1} {ratio:>6.2} {told:>6}  {reference}");
            let mut result = serde_json::json!({
                "bytes": bytes, "what": what, "reference": reference, "seconds": ours,
                "reference_seconds": theirs, "ratio": ratio,
            });
            if let Some([driver, host]) = alone {
                result["driver_seconds"] = driver.into();
                result["host_seconds"] = host.into();
                result["limit"] = limit.into();
            }
            results.push(result);
        }
    }
    if let Some(path) = value("--json") {
        let all = serde_json::json!({ "device": name, "version": arraybridge::VERSION, "results": results });
        let text = serde_json::to_string_pretty(&all).expect("JSON") + "\n";
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}
