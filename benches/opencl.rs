//! OpenCL beside the driver's own copies and the host: every pair of rows is measured in turn in one process.
//!
//!     cargo bench --bench opencl -- [--device N] [--json FILE]
//!
//! A ratio is the reference's time by ours: above 1, ours is faster. What each reference is stands in its row.

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

/// Seconds for each of a pair, of which the medians count.
const SECONDS: f64 = 0.6;
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

/// A measured pair.
struct Row {
    what: &'static str,
    reference: &'static str,
    bytes: usize,
    ours: f64,
    theirs: f64,
}

/// The medians of both, measured in turn.
fn in_turn(ours: &mut dyn FnMut(), theirs: &mut dyn FnMut()) -> (f64, f64) {
    let mut times = (Vec::new(), Vec::new());
    let begin = Instant::now();
    ours();
    theirs();
    while times.0.len() < LEAST_ROUNDS || begin.elapsed().as_secs_f64() < 2.0 * SECONDS {
        for which in [true, false] {
            let start = Instant::now();
            if which {
                ours()
            } else {
                theirs()
            }
            let times = if which { &mut times.0 } else { &mut times.1 };
            times.push(start.elapsed().as_secs_f64());
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    (median(&mut times.0), median(&mut times.1))
}

/// Everything, on one device.
fn measure(device: usize, mebibytes: usize) -> Vec<Row> {
    let desk = cl::Desk::on(&cl::devices()[device..device + 1], 0);
    let bytes = mebibytes << 20;
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
    let mut rows = Vec::new();
    let mut pair = |what, reference, bytes, ours: &mut dyn FnMut(), theirs: &mut dyn FnMut()| {
        let (ours, theirs) = in_turn(ours, theirs);
        rows.push(Row { what, reference, bytes, ours, theirs });
    };
    pair("upload", "clEnqueueWriteBuffer", bytes, &mut || upload(), &mut || {
        // SAFETY: the buffer and the host's memory are that large.
        let event = unsafe {
            enqueue_write_buffer(desk.queue, first.mem, 1, 0, bytes, near, 0, null()).expect("a write")
        };
        // SAFETY: it is ours.
        unsafe { opencl3::event::release_event(event) }.expect("a release");
    });
    pair("download", "clEnqueueReadBuffer", bytes, &mut || download(), &mut || {
        // SAFETY: as above.
        let event = unsafe {
            enqueue_read_buffer(desk.queue, first.mem, 1, 0, bytes, near, 0, null()).expect("a read")
        };
        // SAFETY: it is ours.
        unsafe { opencl3::event::release_event(event) }.expect("a release");
    });
    let is_processor = get_device_info(cl::devices()[device], CL_DEVICE_TYPE)
        .is_ok_and(|kind| kind.to_ulong() & CL_DEVICE_TYPE_CPU != 0);
    for (up, down, strides) in layouts {
        let (from, to) = (float(near, on_host, strides), float(second.mem, on_device, dense));
        pair(up, "a contiguous upload", bytes, &mut || copy(&from, &to), &mut || upload());
        if is_processor {
            pair(up, "mapping and unmapping, without a copy", bytes, &mut || copy(&from, &to), &mut || {
                desk.map_and_unmap(&[(second.mem, bytes)]);
            });
        }
        let (from, to) = (float(first.mem, on_device, strides), float(near_too, on_host, dense));
        pair(down, "a contiguous download", bytes, &mut || copy(&from, &to), &mut || download());
    }
    let half = |data, device| array(data, device, "float16", dense);
    let cases: [(&str, [i64; 2], bool); 3] = [
        ("on the device, float32 to float16", dense, true),
        ("on the device, transposed", [1, height], false),
        ("on the device, every second element", [2 * width, 2], false),
    ];
    for (what, strides, casts) in cases {
        let from = float(first.mem, on_device, strides);
        let to = if casts { half(second.mem, on_device) } else { float(second.mem, on_device, dense) };
        let mut ours = || copy(&from, &to);
        if is_processor {
            let from = float(near, on_host, strides);
            let to = if casts { half(near_too, on_host) } else { float(near_too, on_host, dense) };
            pair(what, "the host backend", bytes, &mut ours, &mut || copy(&from, &to));
            pair(what, "mapping and unmapping both, without a copy", bytes, &mut ours, &mut || {
                desk.map_and_unmap(&[(first.mem, bytes), (second.mem, bytes)]);
            });
        } else {
            pair(what, "clEnqueueCopyBuffer", bytes, &mut ours, &mut || {
                // SAFETY: both buffers are that large; the event is ours.
                unsafe {
                    let event =
                        enqueue_copy_buffer(desk.queue, first.mem, second.mem, 0, 0, bytes, 0, null())
                            .expect("a copy");
                    finish(desk.queue).expect("an end");
                    opencl3::event::release_event(event).expect("a release");
                }
            });
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
    println!("{:>6}  {:<40} {:>9}  {:>6}  of", "MiB", "", "GB/s", "ratio");
    let mut results = Vec::new();
    for mebibytes in [1, 32] {
        for row in measure(device, mebibytes) {
            let Row { what, reference, bytes, ours, theirs } = row;
            let (speed, ratio) = (bytes as f64 / ours / 1e9, theirs / ours);
            println!("{mebibytes:>6}  {what:<40} {speed:>9.1}  {ratio:>6.2}  {reference}");
            results.push(serde_json::json!({
                "bytes": bytes, "what": what, "reference": reference, "seconds": ours,
                "reference_seconds": theirs, "ratio": ratio,
            }));
        }
    }
    if let Some(path) = value("--json") {
        let all = serde_json::json!({ "device": name, "version": arraybridge::VERSION, "results": results });
        let text = serde_json::to_string_pretty(&all).expect("JSON") + "\n";
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}
