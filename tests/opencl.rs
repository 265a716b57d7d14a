//! OpenCL: devices, buffers of other contexts, and every way between them and the host.
#![cfg(feature = "opencl")]

#[path = "common/calls.rs"]
mod calls;
#[path = "common/cl.rs"]
mod cl;
mod common;

use std::ffi::{CStr, c_void};
use std::process::Command;
use std::ptr::null_mut;

use arraybridge::backend::Transfer;
use arraybridge::backend::job::{Rules, Side};
use arraybridge::backend::kernels::{HOST, JOBS as KERNELS, Kernel, Launches, NUMBERS};
use arraybridge::ffi::types::*;
use arraybridge::layout::Axis;
use calls::{
    Array, CPU, Owned, Random, backend, convert, copy, copy_into, list_devices, options, plan, to_device,
};
use cl::{Desk, devices};
use opencl3::command_queue::*;
use opencl3::event::{CL_COMPLETE, create_user_event, release_event, set_user_event_status};
use opencl3::memory::*;

const OPENCL: (i32, i32) = (4, 0);

/// As a device that works in the host's memory and runs its functions, as one that maps it only, and as one
/// with memory of its own: what ARRAYBRIDGE_OPENCL_MAP may be.
const WAYS_OF_MEMORY: [&str; 3] = ["", "1", "0"];

impl Array {
    fn opencl(mem: cl_mem, dtype: &'static str, shape: &[i64]) -> Array {
        Array::new(mem as u64, OPENCL, dtype, shape)
    }
}

impl Owned {
    fn mem(&self) -> cl_mem {
        self.tensor().data
    }
}

/// Whether devices count as having memory of their own.
fn is_apart() -> bool {
    std::env::var("ARRAYBRIDGE_OPENCL_MAP").is_ok_and(|map| map == "0")
}

/// A desk, or None after saying that there is no OpenCL here.
fn desk() -> Option<Desk> {
    let desk = Desk::new();
    if desk.is_none() {
        common::skipped("the tests of OpenCL: no OpenCL device is here (pocl-opencl-icd is one)");
    }
    desk
}

#[test]
fn devices_are_listed_in_order() {
    if desk().is_none() {
        return;
    }
    let listed = list_devices(4);
    assert_eq!(listed.len(), devices().len());
    for (index, info) in listed.iter().enumerate() {
        assert_eq!(info.device.device_id, index as i32);
        let size =
            opencl3::device::get_device_info(devices()[index], opencl3::device::CL_DEVICE_GLOBAL_MEM_SIZE);
        assert_eq!(info.total_memory, size.unwrap().to_ulong());
    }
    let (available, detail) = backend("opencl");
    assert!(available && detail.contains("OpenCL"), "{detail}");
}

/// This program again, one test of it, with other OpenCL drivers.
fn again(test: &str, variables: &[(&str, &str)]) {
    let mut run = Command::new(std::env::current_exe().unwrap());
    run.args(["--exact", test, "--ignored"]).envs(variables.iter().copied());
    let output = run.output().unwrap();
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{variables:?}: {text}{said}");
    // How many errors there were is what PoCL's compiler says by itself.
    let is_silent = said.lines().all(|line| line.ends_with(" generated."));
    assert!(is_silent, "{variables:?}: on stderr: {said}");
}

#[test]
#[ignore = "run by what_is_missing_is_named"]
fn unavailable() {
    let wanted = std::env::var("ARRAYBRIDGE_TEST_WHY").unwrap();
    let (available, detail) = backend("opencl");
    assert!(!available && detail.contains(&wanted), "{detail}");
    let bytes = [0u8; 16];
    let (status, _, message) = copy(&Array::host(&bytes, "float32", &[4]), &to_device(OPENCL)).err().unwrap();
    assert_eq!(status, AB_E_BACKEND_UNAVAILABLE);
    assert!(message.contains(&wanted), "{message}");
}

#[test]
fn what_is_missing_is_named() {
    if desk().is_none() {
        return;
    }
    let empty = tempfile::tempdir().unwrap();
    let path = empty.path().to_str().unwrap();
    again("unavailable", &[("OCL_ICD_VENDORS", path), ("ARRAYBRIDGE_TEST_WHY", "no OpenCL driver (ICD)")]);
    // A library of the name that has nothing of OpenCL in it.
    let library = empty.path().join("libOpenCL.so.1");
    std::fs::write(empty.path().join("empty.c"), "int nothing;").unwrap();
    let mut cc = common::cc();
    cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(empty.path().join("empty.c"));
    common::succeed_silently(&mut cc);
    again("unavailable", &[("LD_LIBRARY_PATH", path), ("ARRAYBRIDGE_TEST_WHY", "lacks a function")]);
    std::fs::write(&library, "this is no library").unwrap();
    again(
        "unavailable",
        &[("LD_LIBRARY_PATH", path), ("ARRAYBRIDGE_TEST_WHY", "libOpenCL.so.1 cannot be opened")],
    );
}

fn floats(count: usize) -> Vec<u8> {
    (0..count).flat_map(|index| (index as f32 * 0.5 - 3.0).to_ne_bytes()).collect()
}

#[test]
fn there_and_back() {
    if desk().is_none() {
        return;
    }
    let bytes = floats(24);
    let source = Array::host(&bytes, "float32", &[2, 3, 4]);
    let (there, up) = copy(&source, &to_device(OPENCL)).unwrap();
    assert_eq!((up.route, up.passes, up.bytes_written), (AB_ROUTE_UPLOAD, 1, 96));
    let tensor = there.tensor();
    assert_eq!((tensor.device.device_type, tensor.device.device_id, tensor.byte_offset), (4, 0, 0));
    // SAFETY: a result has as many strides as axes.
    let strides = unsafe { std::slice::from_raw_parts(tensor.strides, 3) };
    assert_eq!(strides, [12, 4, 1]);
    assert_eq!(cl::references(there.mem()), 1);
    // Zero copy, and a device copy beside it in the same context.
    let on_device = Array::opencl(there.mem(), "float32", &[2, 3, 4]);
    let (other, report) = copy(&on_device, &options()).unwrap();
    assert_eq!(report.route, AB_ROUTE_DEVICE);
    let context = |mem| get_mem_object_info(mem, CL_MEM_CONTEXT).unwrap().to_ptr();
    assert_eq!(context(other.mem()), context(there.mem()));
    let (back, report) = convert(there, &to_device(CPU)).map_err(|(_, failure)| failure).unwrap();
    assert_eq!(report.route, AB_ROUTE_DOWNLOAD);
    assert_eq!(back.bytes(bytes.len()), bytes);
}

#[test]
fn a_tensor_of_another_context() {
    let Some(desk) = desk() else { return };
    let bytes = floats(64);
    let buffer = desk.buffer(&bytes, CL_MEM_READ_WRITE);
    // Rows 1 and 2, every second column, backwards: an offset and a negative stride.
    let view = Array {
        strides: Some(vec![8, -2]),
        byte_offset: (8 + 6) * 4,
        ..Array::opencl(buffer.mem, "float32", &[2, 4])
    };
    let (result, report) =
        copy(&view, &ab_convert_options { dtype: "int16".parse().unwrap(), ..options() }).unwrap();
    assert_eq!((report.route, report.passes), (AB_ROUTE_DEVICE, 1));
    // Nothing is kept.
    settles(|| buffer.references(), 1);
    let got = desk.read(result.mem(), 16);
    let value = |index: usize| (index as f32 * 0.5 - 3.0) as i16;
    let want: Vec<u8> =
        [14, 12, 10, 8, 22, 20, 18, 16].into_iter().flat_map(|index| value(index).to_ne_bytes()).collect();
    assert_eq!(got, want);
    assert_eq!(desk.read(buffer.mem, bytes.len()), bytes);
}

#[test]
fn results_outlive_the_context_that_made_their_source() {
    let Some(desk) = desk() else { return };
    let bytes = floats(16);
    let buffer = desk.buffer(&bytes, CL_MEM_READ_WRITE);
    let (result, _) = copy(&Array::opencl(buffer.mem, "float32", &[16]), &options()).unwrap();
    drop(buffer);
    drop(desk);
    let (back, _) = copy(&Array::opencl(result.mem(), "float32", &[16]), &to_device(CPU)).unwrap();
    assert_eq!(back.bytes(bytes.len()), bytes);
}

/// Waits for a count of references: PoCL's own threads let go of what finished commands had a little later.
fn settles(references: impl Fn() -> u32, wanted: u32) {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while references() != wanted && std::time::Instant::now() < patience {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(references(), wanted);
}

/// The count of references when it has not changed for a while: before, those threads may still have some.
fn settled_at(references: impl Fn() -> u32) -> u32 {
    let (mut count, mut since) = (references(), std::time::Instant::now());
    while since.elapsed() < std::time::Duration::from_millis(200) {
        std::thread::sleep(std::time::Duration::from_millis(1));
        let now = references();
        if now != count {
            (count, since) = (now, std::time::Instant::now());
        }
    }
    count
}

#[test]
#[ignore = "run by contexts_are_let_go, alone"]
fn a_context_is_let_go_with_its_last_tensor() {
    let desk = Desk::new().expect("a device of OpenCL");
    let references = || {
        let what = opencl3::context::context::CL_CONTEXT_REFERENCE_COUNT;
        opencl3::context::context::get_context_info(desk.context, what).unwrap().to_uint()
    };
    let bytes = floats(16);
    let buffer = desk.buffer(&bytes, CL_MEM_READ_WRITE);
    let array = Array::opencl(buffer.mem, "float32", &[16]);
    // PoCL takes references of its own at the first commands; tests/fault/opencl_memory.c looks without them, and
    // whether what has no programs goes at once.
    copy(&array, &options()).unwrap();
    let settled = |wanted: u32| settles(references, wanted);
    // Programs are kept for about a second. In steps, since the library's thread stands still where this one does.
    let rounds = if is_apart() { 2 } else { 10 };
    if is_apart() {
        (0..300).for_each(|_| std::thread::sleep(std::time::Duration::from_millis(10)));
    }
    let before = settled_at(references);
    for _ in 0..rounds {
        // A result elsewhere keeps nothing.
        let half = ab_convert_options { dtype: "float16".parse().unwrap(), ..to_device(CPU) };
        let (result, _) = copy(&array, &half).unwrap();
        settled(before);
        drop(result);
        let (result, _) = copy(&array, &options()).unwrap();
        assert!(references() > before);
        let (other, _) = copy(&array, &options()).unwrap();
        drop(result);
        assert!(references() > before);
        drop(other);
        settled(before);
    }
}

#[test]
fn contexts_are_let_go() {
    if desk().is_some() {
        for map in WAYS_OF_MEMORY {
            again("a_context_is_let_go_with_its_last_tensor", &[("ARRAYBRIDGE_OPENCL_MAP", map)]);
        }
    }
}

#[test]
fn what_cannot_be_read_is_refused() {
    let Some(desk) = desk() else { return };
    let bytes = floats(16);
    let buffer = desk.buffer(&bytes, CL_MEM_READ_WRITE);
    let refused = |array: &Array, words: &str| {
        let (status, _, message) = copy(array, &to_device(CPU)).err().unwrap();
        assert_eq!(status, AB_E_INVALID_TENSOR, "{message}");
        assert!(message.starts_with("source.data is a cl_mem") && message.contains(words), "{message}");
        assert_eq!(plan(array, &to_device(CPU)).err().unwrap(), (status, 0, message));
    };
    refused(&Array::opencl(buffer.mem, "float32", &[17]), "of 64 bytes");
    let view = Array::opencl(buffer.mem, "float32", &[4]);
    refused(&Array { byte_offset: 52, ..view.clone() }, "to byte 68");
    refused(&Array { strides: Some(vec![-1]), byte_offset: 8, ..view }, "from byte -4");
    let hidden = desk.buffer(&bytes, CL_MEM_WRITE_ONLY);
    refused(&Array::opencl(hidden.mem, "float32", &[4]), "CL_MEM_WRITE_ONLY");
    assert_eq!((buffer.references(), hidden.references()), (1, 1));

    let format = cl_image_format { image_channel_order: CL_RGBA, image_channel_data_type: CL_UNORM_INT8 };
    // SAFETY: all zero is what C writes.
    let mut shape: cl_image_desc = unsafe { std::mem::zeroed() };
    (shape.image_type, shape.image_width, shape.image_height) = (CL_MEM_OBJECT_IMAGE2D, 4, 4);
    // SAFETY: format and shape are valid.
    match unsafe { create_image(desk.context, CL_MEM_READ_WRITE, &format, &shape, null_mut()) } {
        Ok(image) => {
            refused(&Array::opencl(image, "uint8", &[4]), "type 0x10f1: expected a buffer");
            // SAFETY: it is ours.
            unsafe { release_mem_object(image) }.unwrap();
        }
        Err(code) => common::skipped(format_args!("images of OpenCL: the device has none ({code})")),
    }
}

#[test]
fn devices_that_there_are_not() {
    if desk().is_none() {
        return;
    }
    let bytes = floats(4);
    let (status, _, message) =
        copy(&Array::host(&bytes, "float32", &[4]), &to_device((4, 99))).err().unwrap();
    assert_eq!(status, AB_E_UNSUPPORTED_DEVICE);
    assert!(
        message.starts_with("device opencl:99: there ") && message.contains(" OpenCL device"),
        "{message}"
    );
}

/// Parts of devices have contexts and queues, but no ids: their tensors go by what their handles say.
#[test]
fn parts_of_devices() {
    use opencl3::device::{CL_DEVICE_PARTITION_EQUALLY, create_sub_devices, release_device};
    if desk().is_none() {
        return;
    }
    let parts = create_sub_devices(devices()[0], &[CL_DEVICE_PARTITION_EQUALLY, 1, 0]);
    let Some(parts) = parts.ok().filter(|parts| !parts.is_empty()) else {
        common::skipped("parts of OpenCL devices: the device cannot be divided");
        return;
    };
    let desk = Desk::on(&parts[..1], 0);
    let bytes = floats(64);
    let buffer = desk.buffer(&bytes, CL_MEM_READ_WRITE);
    let region = cl_buffer_region { origin: 0, size: 128 };
    // SAFETY: the region is within the buffer.
    let part = unsafe {
        let place = (&raw const region).cast();
        create_sub_buffer(buffer.mem, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, place).unwrap()
    };
    for mem in [buffer.mem, part] {
        let turned = Array::opencl(mem, "float32", &[4, 8]).strided(&[1, 4], 0);
        let verify = ab_convert_options { flags: AB_CONVERT_VERIFY_POINTER, ..options() };
        let (beside, report) = copy(&turned, &verify).unwrap();
        assert_eq!(report.route, AB_ROUTE_DEVICE);
        let context = get_mem_object_info(beside.mem(), CL_MEM_CONTEXT).unwrap().to_ptr();
        assert_eq!(context, desk.context as isize);
        let (back, _) =
            copy(&Array::opencl(beside.mem(), "float32", &[8, 4]).strided(&[1, 8], 0), &to_device(CPU))
                .unwrap();
        let (want, _) =
            copy(&Array::host(&bytes, "float32", &[4, 8]).strided(&[1, 4], 0), &to_device(CPU)).unwrap();
        let (want, _) =
            copy(&Array::host(want.bytes(128), "float32", &[8, 4]).strided(&[1, 8], 0), &to_device(CPU))
                .unwrap();
        assert_eq!(back.bytes(128), want.bytes(128));
        // Its queue says where an upload goes.
        let up = ab_convert_options { dst_stream: desk.stream(), ..to_device(OPENCL) };
        let (there, _) = copy(&Array::host(&bytes, "float32", &[64]), &up).unwrap();
        assert_eq!(desk.read(there.mem(), 256), bytes);
    }
    // SAFETY: all are ours.
    unsafe {
        release_mem_object(part).unwrap();
        drop((buffer, desk));
        for device in parts {
            release_device(device).unwrap();
        }
    }
}

#[test]
fn declared_devices_are_verified() {
    let Some(desk) = desk() else { return };
    let buffer = desk.buffer(&floats(4), CL_MEM_READ_WRITE);
    let lie = Array { device: (4, 7), ..Array::opencl(buffer.mem, "float32", &[4]) };
    let verify = ab_convert_options { flags: AB_CONVERT_VERIFY_POINTER, ..to_device(CPU) };
    let (status, _, message) = copy(&lie, &verify).err().unwrap();
    assert_eq!(status, AB_E_UNSUPPORTED_DEVICE);
    assert!(message.contains("opencl:7") && message.contains("opencl:0"), "{message}");
    // Trusted otherwise; the context knows better.
    assert!(copy(&lie, &to_device(CPU)).is_ok());
    assert!(copy(&Array { device: OPENCL, ..lie }, &verify).is_ok());
}

#[test]
fn parts_of_buffers() {
    let Some(desk) = desk() else { return };
    let bytes = floats(1024);
    let buffer = desk.buffer(&bytes, CL_MEM_READ_WRITE);
    let part = |origin: usize, size: usize| {
        let region = cl_buffer_region { origin, size };
        let place = (&raw const region).cast();
        // SAFETY: the region is within the buffer.
        unsafe { create_sub_buffer(buffer.mem, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, place) }
            .unwrap()
    };
    let (first, second, across) = (part(0, 1024), part(1024, 1024), part(512, 1024));
    let view = |mem| Array { byte_offset: 4, ..Array::opencl(mem, "float32", &[8]) };
    copy_into(&view(second), &view(first), &options()).unwrap();
    let mut want = bytes.clone();
    want.copy_within(1028..1060, 4);
    assert_eq!(desk.read(buffer.mem, want.len()), want);
    assert!(copy(&Array::opencl(first, "float32", &[257]), &to_device(CPU)).is_err());
    // Parts of one buffer may share memory; so may views of one handle.
    let whole = Array::opencl(first, "float32", &[256]);
    let (status, ..) =
        copy_into(&whole, &Array { data: across as u64, ..whole.clone() }, &options()).err().unwrap();
    assert_eq!(status, AB_E_OVERLAP);
    let (status, ..) =
        copy_into(&view(first), &Array { byte_offset: 8, ..view(first) }, &options()).err().unwrap();
    assert_eq!(status, AB_E_OVERLAP);
    // Even and odd elements share none.
    let every_second = Array { strides: Some(vec![2]), ..Array::opencl(buffer.mem, "float32", &[32]) };
    copy_into(&every_second, &Array { byte_offset: 4, ..every_second.clone() }, &options()).unwrap();
    for index in (0..64).step_by(2) {
        want.copy_within(index * 4..index * 4 + 4, index * 4 + 4);
    }
    assert_eq!(desk.read(buffer.mem, want.len()), want);
    for mem in [first, second, across] {
        assert_eq!(cl::references(mem), 1);
        // SAFETY: it is ours.
        unsafe { release_mem_object(mem) }.unwrap();
    }
}

#[test]
fn buffers_that_the_host_may_not_touch() {
    let Some(desk) = desk() else { return };
    let bytes = floats(32);
    let plain = desk.buffer(&bytes, CL_MEM_READ_WRITE);
    let closed = desk.buffer(&[0; 128], CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS);
    let whole = |mem| Array::opencl(mem, "float32", &[32]);
    copy_into(&Array::host(&bytes, "float32", &[32]), &whole(closed.mem), &options()).unwrap();
    let back = [0u8; 128];
    copy_into(&whole(closed.mem), &Array::host(&back, "float32", &[32]), &options()).unwrap();
    assert_eq!(std::hint::black_box(&back)[..], bytes);
    let every_second = Array { strides: Some(vec![2]), ..Array::opencl(closed.mem, "float32", &[16]) };
    copy_into(&Array::opencl(plain.mem, "float32", &[16]), &every_second, &options()).unwrap();
    copy_into(&whole(closed.mem), &Array::host(&back, "float32", &[32]), &options()).unwrap();
    let mut want = bytes.clone();
    for index in 0..16 {
        want[index * 8..index * 8 + 4].copy_from_slice(&bytes[index * 4..index * 4 + 4]);
    }
    assert_eq!(std::hint::black_box(&back)[..], want);
}

#[test]
fn callers_queues() {
    let Some(desk) = desk() else { return };
    let Some(other) = self::desk() else { return };
    let bytes = floats(16);
    let host = Array::host(&bytes, "float32", &[16]);
    // A new result is where the caller's queue is.
    let up = ab_convert_options { dst_stream: desk.stream(), ..to_device(OPENCL) };
    let (result, _) = copy(&host, &up).unwrap();
    let context = get_mem_object_info(result.mem(), CL_MEM_CONTEXT).unwrap().to_ptr();
    assert_eq!(context, desk.context as isize);
    let array = Array::opencl(result.mem(), "float32", &[16]);
    let (moved, report) =
        copy(&array, &ab_convert_options { dst_stream: other.stream(), ..options() }).unwrap();
    assert_eq!(report.route, AB_ROUTE_STAGED);
    assert_eq!(other.read(moved.mem(), 64), bytes);
    // Queues of other contexts, and what is none.
    for (name, options) in [
        ("options.src_stream", ab_convert_options { src_stream: other.stream(), ..options() }),
        ("options.src_stream", ab_convert_options { src_stream: 2, ..options() }),
        ("options.dst_stream", ab_convert_options { dst_stream: 1, ..options() }),
    ] {
        let (status, _, message) = copy(&array, &options).err().unwrap();
        assert_eq!(status, AB_E_INVALID_ARGUMENT);
        assert!(message.starts_with(name), "{message}");
    }
    let elsewhere = ab_convert_options { dst_stream: other.stream(), ..options() };
    assert!(copy_into(&host, &array, &elsewhere).is_err());
}

/// What is in the caller's queue comes first, also where the queue is out of order.
#[test]
fn work_in_flight_is_waited_for() {
    if desk().is_none() {
        return;
    }
    for properties in [0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE] {
        let desk = Desk::on(&devices()[..1], properties);
        let before = floats(16);
        let after: Vec<u8> = before.iter().rev().copied().collect();
        let buffer = desk.buffer(&before, CL_MEM_READ_WRITE);
        let gate = create_user_event(desk.context).unwrap();
        // SAFETY: the buffer and what is written to it live until the queue is finished.
        let write = unsafe {
            let data = after.as_ptr().cast();
            enqueue_write_buffer(desk.queue, buffer.mem, CL_FALSE, 0, 64, data, 1, &gate).unwrap()
        };
        let address = gate as usize;
        let opener = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            set_user_event_status(address as cl_event, CL_COMPLETE).unwrap();
        });
        let options = ab_convert_options { src_stream: desk.stream(), ..to_device(CPU) };
        let (result, _) = copy(&Array::opencl(buffer.mem, "float32", &[16]), &options).unwrap();
        assert_eq!(result.bytes(64), after);
        opener.join().unwrap();
        // SAFETY: both are ours.
        unsafe {
            release_event(write).unwrap();
            release_event(gate).unwrap();
        }
    }
}

#[test]
fn uploads_do_not_wait_for_the_callers_queue() {
    let Some(desk) = desk() else { return };
    let bytes = floats(16);
    let gate = create_user_event(desk.context).unwrap();
    // SAFETY: the event is of the queue's context.
    let barrier = unsafe { enqueue_barrier_with_wait_list(desk.queue, 1, &gate).unwrap() };
    let options =
        ab_convert_options { flags: AB_CONVERT_ASYNC, dst_stream: desk.stream(), ..to_device(OPENCL) };
    let (result, _) = copy(&Array::host(&bytes, "float32", &[16]), &options).unwrap();
    set_user_event_status(gate, CL_COMPLETE).unwrap();
    assert_eq!(desk.read(result.mem(), 64), bytes);
    // SAFETY: both are ours.
    unsafe {
        release_event(barrier).unwrap();
        release_event(gate).unwrap();
    }
}

/// Within a context the device copies while the host goes on; the caller's queue comes after it.
#[test]
fn copies_of_the_device_are_ordered_by_events() {
    if desk().is_none() {
        return;
    }
    for properties in [0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE] {
        let desk = Desk::on(&devices()[..1], properties);
        let (before, after) = (vec![1u8; 4096], vec![2u8; 4096]);
        let buffer = desk.buffer(&before, CL_MEM_READ_WRITE);
        let gate = create_user_event(desk.context).unwrap();
        // SAFETY: the buffer and what is written to it live until the queue is finished.
        let write = unsafe {
            let data = after.as_ptr().cast();
            enqueue_write_buffer(desk.queue, buffer.mem, CL_FALSE, 0, 4096, data, 1, &gate).unwrap()
        };
        let options = ab_convert_options {
            flags: AB_CONVERT_ASYNC,
            src_stream: desk.stream(),
            dst_stream: desk.stream(),
            ..options()
        };
        // It returns although the gate is shut.
        let (result, report) = copy(&Array::opencl(buffer.mem, "uint8", &[4096]), &options).unwrap();
        assert_eq!(report.route, AB_ROUTE_DEVICE);
        // Nor do kernels wait for it here, whatever device it is.
        let transposed =
            Array { strides: Some(vec![1, 64]), ..Array::opencl(buffer.mem, "uint8", &[64, 64]) };
        let wider = ab_convert_options { dtype: "uint16".parse().unwrap(), ..options };
        let (cast, report) = copy(&transposed, &wider).unwrap();
        assert_eq!(report.route, AB_ROUTE_DEVICE);
        set_user_event_status(gate, CL_COMPLETE).unwrap();
        // What is enqueued behind it sees it.
        let seen = desk.buffer(&before, CL_MEM_READ_WRITE);
        // SAFETY: both buffers are that large.
        let event = unsafe {
            enqueue_copy_buffer(desk.queue, result.mem(), seen.mem, 0, 0, 4096, 0, std::ptr::null()).unwrap()
        };
        finish(desk.queue).unwrap();
        assert_eq!(desk.read(seen.mem, 4096), after);
        assert_eq!(desk.read(cast.mem(), 8192), [2u8, 0].repeat(4096));
        // SAFETY: all are ours.
        unsafe {
            release_event(event).unwrap();
            release_event(write).unwrap();
            release_event(gate).unwrap();
        }
    }
}

/// Rows and slices at steps, as a device's copy engine takes them, and as it does not.
#[test]
fn rectangles() {
    let Some(desk) = desk() else { return };
    let size = 6 * 5 * 256;
    let from: Vec<u8> = (0..size).map(|index| (index * 7 % 251) as u8).collect();
    let to = vec![9u8; size];
    let second = Desk::on(&devices()[devices().len() - 1..], 0);
    // Strides and first element of a side.
    type Side = (&'static [i64], u64);
    let cases: [(&[i64], Side, Side); 7] = [
        (&[4096], (&[1], 100), (&[1], 200)),
        (&[16, 100], (&[256, 1], 3), (&[128, 1], 700)),
        (&[3, 4, 80], (&[1280, 256, 1], 1291), (&[960, 96, 1], 10)),
        (&[3, 4, 80], (&[1280, 256, 1], 2000), (&[400, 80, 1], 5)),
        (&[3, 4, 80], (&[-1280, 256, 1], 2600), (&[400, 80, 1], 5)),
        (&[80, 16], (&[1, 256], 0), (&[1, 128], 64)),
        (&[3, 4, 80], (&[1000, 96, 1], 0), (&[700, 96, 1], 5)),
    ];
    for (shape, (from_strides, from_first), (to_strides, to_first)) in cases {
        let array = |data: u64, device, strides: &[i64], first| Array {
            data,
            device,
            dtype: "uint8",
            shape: shape.to_vec(),
            strides: Some(strides.to_vec()),
            byte_offset: first,
        };
        let source = |data: u64, device| array(data, device, from_strides, from_first);
        let target = |data: u64, device| array(data, device, to_strides, to_first);
        let on_host = source(from.as_ptr() as u64, CPU);
        let mut want = to.clone();
        copy_into(&on_host, &target(want.as_mut_ptr() as u64, CPU), &options()).unwrap();
        let here = desk.buffer(&from, CL_MEM_READ_WRITE);
        let on_device = source(here.mem as u64, OPENCL);
        let mut down = to.clone();
        copy_into(&on_device, &target(down.as_mut_ptr() as u64, CPU), &options()).unwrap();
        assert_eq!(down, want, "{shape:?} {from_strides:?}");
        for (source, desk) in [(&on_host, &desk), (&on_device, &desk), (&on_device, &second)] {
            let buffer = desk.buffer(&to, CL_MEM_READ_WRITE);
            copy_into(source, &target(buffer.mem as u64, OPENCL), &options()).unwrap();
            assert_eq!(desk.read(buffer.mem, size), want, "{shape:?} {from_strides:?}");
        }
    }
}

/// As on devices that do not run the host's functions, or share no memory: copies by the driver, and kernels.
#[test]
fn other_ways_of_memory() {
    if desk().is_none() {
        return;
    }
    for map in WAYS_OF_MEMORY.into_iter().filter(|map| !map.is_empty()) {
        let mut run = Command::new(std::env::current_exe().unwrap());
        run.args(HERE).arg("--exact").env("ARRAYBRIDGE_OPENCL_MAP", map);
        let output = run.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let passed = format!("{} passed", HERE.len());
        assert!(output.status.success() && text.contains(&passed), "{text}");
    }
}

/// The tests whose ways depend on where a device's memory is.
const HERE: [&str; 19] = [
    "parts_of_devices",
    "there_and_back",
    "a_tensor_of_another_context",
    "results_outlive_the_context_that_made_their_source",
    "what_cannot_be_read_is_refused",
    "declared_devices_are_verified",
    "parts_of_buffers",
    "buffers_that_the_host_may_not_touch",
    "buffers_with_restrictions",
    "callers_queues",
    "work_in_flight_is_waited_for",
    "uploads_do_not_wait_for_the_callers_queue",
    "copies_of_the_device_are_ordered_by_events",
    "rectangles",
    "random_strides",
    "packed_elements_that_are_spread_out",
    "large_jobs",
    "scratch_is_what_the_ring_takes",
    "results_that_no_device_has_room_for",
];

/// What tests/fault/opencl.c adds to the driver.
struct Faults {
    arm: extern "C" fn(i64, i32),
    lose: extern "C" fn(i64, i32),
    fired: extern "C" fn() -> *const std::ffi::c_char,
    compilations: extern "C" fn() -> i64,
    builds: extern "C" fn() -> i64,
    largest_buffer: extern "C" fn() -> i64,
    spoil: extern "C" fn(i32),
}

impl Faults {
    fn find() -> Faults {
        // SAFETY: the library of these tests has the functions, of these types.
        unsafe {
            let library = libc::dlopen(c"libOpenCL.so.1".as_ptr(), libc::RTLD_NOW);
            let find = |name: &CStr| {
                let address = libc::dlsym(library, name.as_ptr());
                assert!(!address.is_null(), "{name:?}");
                address
            };
            Faults {
                arm: std::mem::transmute::<*mut c_void, extern "C" fn(i64, i32)>(find(c"fault_arm")),
                lose: std::mem::transmute::<*mut c_void, extern "C" fn(i64, i32)>(find(c"fault_lose")),
                fired: std::mem::transmute::<*mut c_void, extern "C" fn() -> *const std::ffi::c_char>(find(
                    c"fault_fired",
                )),
                compilations: std::mem::transmute::<*mut c_void, extern "C" fn() -> i64>(find(
                    c"fault_compilations",
                )),
                builds: std::mem::transmute::<*mut c_void, extern "C" fn() -> i64>(find(c"fault_builds")),
                largest_buffer: std::mem::transmute::<*mut c_void, extern "C" fn() -> i64>(find(
                    c"fault_largest_buffer",
                )),
                spoil: std::mem::transmute::<*mut c_void, extern "C" fn(i32)>(find(c"fault_spoil")),
            }
        }
    }

    /// The call that failed first.
    fn fired(&self) -> Option<&'static str> {
        let name = (self.fired)();
        // SAFETY: the name is a literal of the library's.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().unwrap())
    }
}

/// Runs a test of this program with the driver of tests/fault.
fn with_faults(test: &str, more: &[(&str, &str)]) {
    // SAFETY: the name is that of a function of the library, which is loaded.
    let real = unsafe {
        let library = libc::dlopen(c"libOpenCL.so.1".as_ptr(), libc::RTLD_NOW);
        let mut found: libc::Dl_info = std::mem::zeroed();
        assert_ne!(libc::dladdr(libc::dlsym(library, c"clFinish".as_ptr()), &mut found), 0);
        CStr::from_ptr(found.dli_fname).to_str().unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fault/opencl.c");
    let mut cc = common::cc();
    cc.args(["-shared", "-fPIC", "-o"]).arg(folder.path().join("libOpenCL.so.1")).arg(source).arg("-ldl");
    common::succeed_silently(&mut cc);
    let path = folder.path().to_str().unwrap();
    again(test, &[&[("LD_LIBRARY_PATH", path), ("ARRAYBRIDGE_TEST_OPENCL", real)], more].concat());
}

/// A job on one of the ways that data takes, in contexts of its own.
struct Way {
    source: Array,
    options: ab_convert_options,
    buffer: cl::Buffer,
    bytes: Vec<u8>,
    desk: Desk,
    _other: Desk,
}

impl Way {
    const NAMES: [&str; 10] = [
        "upload",
        "upload by a queue",
        "upload of packed elements",
        "upload, transposed",
        "download",
        "download, transposed",
        "device",
        "device, exact",
        "device, asynchronous",
        "staged",
    ];

    fn new(name: &str) -> Way {
        let [desk, other] = [(); 2].map(|()| Desk::new().expect("a device of OpenCL"));
        let bytes = floats(64);
        let buffer = desk.buffer(&bytes, CL_MEM_READ_WRITE);
        let array = Array::opencl(buffer.mem, "float32", &[8, 8]);
        let host = Array::host(&bytes, "float32", &[8, 8]);
        let transposed = Array { strides: Some(vec![1, 8]), ..array.clone() };
        let host_transposed = Array { strides: Some(vec![1, 8]), ..host.clone() };
        let queues = |to: &Desk, options: ab_convert_options| ab_convert_options {
            dst_stream: to.stream(),
            ..options
        };
        let asynchronous = ab_convert_options { flags: AB_CONVERT_ASYNC, ..queues(&desk, options()) };
        let packed = ab_convert_options { dtype: "float4_e2m1fn".parse().unwrap(), ..to_device(OPENCL) };
        let exact = ab_convert_options {
            dtype: "float64".parse().unwrap(),
            casting: AB_CAST_EXACT,
            copy: AB_COPY_ALWAYS,
            ..options()
        };
        let down = ab_convert_options { src_stream: desk.stream(), ..to_device(CPU) };
        let (source, options) = match name {
            "upload" => (host, to_device(OPENCL)),
            "upload by a queue" => (host, queues(&desk, to_device(OPENCL))),
            "upload of packed elements" => (host, packed),
            "upload, transposed" => (host_transposed, queues(&desk, to_device(OPENCL))),
            "download" => (array, down),
            "download, transposed" => (transposed, down),
            "device" => (transposed, options()),
            "device, exact" => (array, exact),
            "device, asynchronous" => (array, asynchronous),
            "staged" => (transposed, queues(&other, options())),
            name => panic!("{name} is no way"),
        };
        Way { source, options, buffer, bytes, desk, _other: other }
    }

    /// Each way, in contexts that are new in every turn, where programs have to be loaded, and in those of the turn
    /// before, where they are kept. It is told which turn it is, and says whether that was the last.
    fn each(mut run: impl FnMut(&str, &Way, i64, &mut u32) -> bool) {
        for (name, anew) in Way::NAMES.into_iter().flat_map(|name| [(name, true), (name, false)]) {
            let (mut way, mut told) = (Way::new(name), 0);
            for nth in 0.. {
                if run(name, &way, nth, &mut told) {
                    break;
                }
                if anew {
                    way = Way::new(name);
                }
            }
            assert!(told > 5, "{name}: {told} calls");
        }
    }
}

#[test]
#[ignore = "run by failures_of_the_driver_are_told"]
fn every_call_fails_once() {
    let faults = Faults::find();
    Way::each(|name, way, nth, told| {
        let Way { source, options, buffer, bytes, desk, .. } = way;
        (faults.arm)(nth, -5);
        let outcome = copy(source, options);
        let fired = faults.fired();
        (faults.arm)(-1, 0);
        let failed = outcome.map(|_| ());
        finish(desk.queue).unwrap();
        settles(|| buffer.references(), 1);
        assert_eq!(desk.read(buffer.mem, bytes.len()), *bytes, "{name}: {fired:?}");
        match (fired, failed) {
            (None, outcome) => {
                assert_eq!(outcome, Ok(()), "{name}");
                return true;
            }
            // What is only a hint has a default.
            (Some("clGetDeviceInfo" | "clGetProgramInfo" | "clGetEventInfo"), Ok(())) => {}
            // Where no slot can be made, buffers are mapped; where what another context compiled cannot be
            // had, it is compiled.
            (
                Some(
                    "clCreateBuffer" | "clEnqueueMapBuffer" | "clCreateProgramWithBinary" | "clBuildProgram",
                ),
                Ok(()),
            ) => {}
            // Slots of a context go with its last use, when all has been done.
            (Some("clEnqueueUnmapMemObject" | "clWaitForEvents"), Ok(())) if is_apart() => {}
            (Some(fired), outcome) => {
                let message = format!("{fired}: CL_OUT_OF_RESOURCES (-5)");
                assert_eq!(outcome, Err((AB_E_DEVICE, -5, message)), "{name}");
                *told += 1;
            }
        }
        false
    });
}

#[test]
fn failures_of_the_driver_are_told() {
    if desk().is_some() {
        for map in WAYS_OF_MEMORY {
            with_faults("every_call_fails_once", &[("ARRAYBRIDGE_OPENCL_MAP", map)]);
        }
    }
}

/// From some call on the device is gone; then it is there again.
#[test]
#[ignore = "run by devices_are_lost"]
fn the_device_is_lost() {
    let faults = Faults::find();
    // CL_DEVICE_NOT_AVAILABLE and CL_OUT_OF_RESOURCES, as drivers say it.
    for code in [-2, -5] {
        Way::each(|name, way, nth, told| {
            let Way { source, options, buffer, bytes, desk, .. } = way;
            (faults.lose)(nth, code);
            let outcome = copy(source, options);
            let fired = faults.fired();
            (faults.arm)(-1, 0);
            finish(desk.queue).unwrap();
            assert_eq!(desk.read(buffer.mem, bytes.len()), *bytes, "{name}: {fired:?}");
            let Some(fired) = fired else {
                assert!(outcome.is_ok(), "{name}");
                return true;
            };
            // After all has been done nothing may have to be asked of it.
            if let Err((status, native_code, message)) = outcome {
                let told_rightly =
                    (status, native_code) == (AB_E_DEVICE, code.into()) || status == AB_E_OUT_OF_MEMORY;
                assert!(told_rightly, "{name}: {fired}: {message}");
                *told += 1;
            }
            false
        });
    }
}

#[test]
fn devices_are_lost() {
    if desk().is_some() {
        for map in WAYS_OF_MEMORY {
            with_faults("the_device_is_lost", &[("ARRAYBRIDGE_OPENCL_MAP", map)]);
        }
    }
}

/// A second context gets what was compiled for the first.
#[test]
#[ignore = "run by programs_are_built_once"]
fn kernels_are_compiled_once() {
    let faults = Faults::find();
    let bytes = floats(64);
    let before = (faults.compilations)();
    for _ in 0..3 {
        let desk = Desk::new().expect("a device of OpenCL");
        let buffer = desk.buffer(&bytes, CL_MEM_READ_WRITE);
        let array = Array { strides: Some(vec![1, 8]), ..Array::opencl(buffer.mem, "float32", &[8, 8]) };
        for _ in 0..3 {
            let (result, _) = copy(&array, &options()).unwrap();
            assert_eq!(&desk.read(result.mem(), 8)[4..], &bytes[32..36]);
        }
    }
    assert_eq!((faults.compilations)() - before, 1);
}

/// Who converts in a loop and keeps no result loads a program once. Where something stops this process for a second
/// in the midst of it the programs go, so not every attempt is one without a break.
#[test]
#[ignore = "run by programs_are_built_once"]
fn programs_are_kept_for_a_moment() {
    let faults = Faults::find();
    let desk = Desk::new().expect("a device of OpenCL");
    let bytes = floats(64);
    let [from, to] = [(); 2].map(|()| desk.buffer(&bytes, CL_MEM_READ_WRITE));
    let source = Array { strides: Some(vec![1, 8]), ..Array::opencl(from.mem, "float32", &[8, 8]) };
    let destination = Array::opencl(to.mem, "float32", &[8, 8]);
    let mut counts = (0..10).map(|_| {
        let before = (faults.builds)();
        for _ in 0..20 {
            copy_into(&source, &destination, &options()).unwrap();
        }
        assert_eq!(&desk.read(to.mem, 8)[4..], &bytes[32..36]);
        (faults.builds)() - before
    });
    assert!(counts.any(|builds| builds <= 1), "a program is loaded for each call");
}

/// What a device's compiler says is told, and it is not asked again.
#[test]
#[ignore = "run by programs_are_built_once"]
fn the_compilers_words_are_told() {
    let faults = Faults::find();
    let desk = Desk::new().expect("a device of OpenCL");
    let bytes = floats(64);
    let buffer = desk.buffer(&bytes, CL_MEM_READ_WRITE);
    let array = Array { strides: Some(vec![1, 8]), ..Array::opencl(buffer.mem, "float32", &[8, 8]) };
    (faults.spoil)(1);
    for _ in 0..2 {
        let (status, native_code, message) = copy(&array, &options()).err().unwrap();
        assert_eq!((status, native_code), (AB_E_DEVICE, -11));
        let beginning = "clBuildProgram: CL_BUILD_PROGRAM_FAILURE (-11): ab_transpose_4: ";
        assert!(message.starts_with(beginning) && message.contains("error"), "{message}");
        assert_eq!((faults.compilations)(), 1);
    }
}

#[test]
fn programs_are_built_once() {
    if desk().is_some() {
        with_faults("the_compilers_words_are_told", &[("ARRAYBRIDGE_OPENCL_MAP", "0")]);
        with_faults("kernels_are_compiled_once", &[("ARRAYBRIDGE_OPENCL_MAP", "0")]);
        with_faults("programs_are_kept_for_a_moment", &[("ARRAYBRIDGE_OPENCL_MAP", "0")]);
    }
}

/// Whoever may touch buffers, none is made beside the result but what the plan tells of, which is less than the
/// job.
#[test]
#[ignore = "run by no_buffer_is_made_that_is_not_told"]
fn buffers_are_small_and_told() {
    let faults = Faults::find();
    let bytes = floats(1 << 18);
    let shape = [1 << 9, 1 << 9];
    let own = calls::context(256 << 10);
    let context = own.0;
    let hosts = [0, CL_MEM_HOST_NO_ACCESS, CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_WRITE_ONLY];
    for (from_flags, to_flags) in hosts.into_iter().flat_map(|from| hosts.map(|to| (from, to))) {
        for (strides, dtype) in [([1 << 9, 1], "float32"), ([1, 1 << 9], "float32"), ([1, 1 << 9], "float16")]
        {
            // Contexts that have no slots yet.
            let (desk, other) = (Desk::new().unwrap(), Desk::new().unwrap());
            let (lent, taken, beyond) = (
                desk.buffer(&bytes, CL_MEM_READ_WRITE | from_flags),
                desk.buffer(&bytes, CL_MEM_READ_WRITE | to_flags),
                other.buffer(&bytes, CL_MEM_READ_WRITE | to_flags),
            );
            let mut near = bytes.clone();
            let side = |data: u64, device, dtype, strides: &[i64]| {
                Array::new(data, device, dtype, &shape).strided(strides, 0)
            };
            let on_device = side(lent.mem as u64, OPENCL, "float32", &strides);
            let on_host = side(near.as_mut_ptr() as u64, CPU, "float32", &strides);
            let to = |data: u64, device| side(data, device, dtype, &[1 << 9, 1]);
            let ways = [
                ("up", &on_host, to(taken.mem as u64, OPENCL)),
                ("down", &on_device, to(near.as_mut_ptr() as u64, CPU)),
                ("within", &on_device, to(taken.mem as u64, OPENCL)),
                ("between", &on_device, to(beyond.mem as u64, OPENCL)),
            ];
            for (way, from, to) in ways {
                (faults.largest_buffer)();
                let told = calls::copy_into_in(context, from, &to, &options()).unwrap().scratch_bytes;
                let largest = (faults.largest_buffer)();
                let name = format!("{way}, {from_flags:#x} to {to_flags:#x}, {strides:?} to {dtype}");
                assert!(largest <= told as i64 && told <= 512 << 10, "{name}: {largest}, told {told}");
            }
        }
    }
}

#[test]
fn no_buffer_is_made_that_is_not_told() {
    if desk().is_some() {
        for map in WAYS_OF_MEMORY {
            with_faults("buffers_are_small_and_told", &[("ARRAYBRIDGE_OPENCL_MAP", map)]);
        }
    }
}

#[test]
fn platforms_without_a_device() {
    if desk().is_some() {
        let why = "the OpenCL platforms have no device";
        with_faults("unavailable", &[("ARRAYBRIDGE_TEST_NO_DEVICE", "1"), ("ARRAYBRIDGE_TEST_WHY", why)]);
    }
}

/// Every way between two contexts and the host gives what the host gives.
#[test]
fn random_strides() {
    let Some(desk) = desk() else { return };
    let second = Desk::on(&devices()[devices().len() - 1..], 0);
    const DTYPES: [(&str, usize); 8] = [
        ("int8", 1),
        ("float16", 2),
        ("bfloat16", 2),
        ("float32", 4),
        ("uint32", 4),
        ("int64", 8),
        ("complex64", 8),
        ("complex128", 16),
    ];
    let mut random = Random(7);
    // Kernels take a device's compiler a while: then not every pair of types.
    let apart = is_apart();
    for round in 0..400 {
        let shape: Vec<i64> = (0..random.below(5)).map(|_| 1 + random.below(6)).collect();
        let from_type = random.below(8);
        let to_type = match random.below(8) {
            any if !apart => any,
            any if any < 4 => from_type,
            _ => (from_type * 3 + 1) % 8,
        };
        let mut side = |which: i64| {
            let (dtype, size) = DTYPES[which as usize];
            let (strides, first, elements) = random.layout(&shape);
            let bytes: Vec<u8> = (0..elements as usize * size).map(|_| random.below(256) as u8).collect();
            (dtype, size, strides, first, bytes)
        };
        let (from_dtype, from_size, from_strides, from_first, from) = side(from_type);
        let (to_dtype, to_size, to_strides, to_first, to) = side(to_type);
        let array = |data: u64, device, dtype, strides: &Vec<i64>, first: i64, size: usize| Array {
            data,
            device,
            dtype,
            shape: shape.clone(),
            strides: Some(strides.clone()),
            byte_offset: first as u64 * size as u64,
        };
        let source =
            |data: u64, device| array(data, device, from_dtype, &from_strides, from_first, from_size);
        let target = |data: u64, device| array(data, device, to_dtype, &to_strides, to_first, to_size);
        let mut want = to.clone();
        let on_host = source(from.as_ptr() as u64, CPU);
        copy_into(&on_host, &target(want.as_mut_ptr() as u64, CPU), &options()).unwrap();

        let here = desk.buffer(&from, CL_MEM_READ_ONLY);
        let there = |desk: &Desk| desk.buffer(&to, CL_MEM_READ_WRITE);
        let name =
            format!("round {round}: {from_dtype} {shape:?} {from_strides:?} to {to_dtype} {to_strides:?}");
        let buffer = there(&desk);
        let report = copy_into(&on_host, &target(buffer.mem as u64, OPENCL), &options()).unwrap();
        assert_eq!(
            (report.route, desk.read(buffer.mem, to.len())),
            (AB_ROUTE_UPLOAD, want.clone()),
            "{name}"
        );
        let mut down = to.clone();
        let on_device = source(here.mem as u64, OPENCL);
        let report = copy_into(&on_device, &target(down.as_mut_ptr() as u64, CPU), &options()).unwrap();
        assert_eq!((report.route, &down), (AB_ROUTE_DOWNLOAD, &want), "{name}");
        let buffer = there(&desk);
        let report = copy_into(&on_device, &target(buffer.mem as u64, OPENCL), &options()).unwrap();
        assert_eq!(
            (report.route, desk.read(buffer.mem, to.len())),
            (AB_ROUTE_DEVICE, want.clone()),
            "{name}"
        );
        let buffer = there(&second);
        let report = copy_into(&on_device, &target(buffer.mem as u64, OPENCL), &options()).unwrap();
        assert_eq!((report.route, second.read(buffer.mem, to.len())), (AB_ROUTE_STAGED, want), "{name}");
    }
}

/// A job for each kind of kernel: from, to, shape, strides of both sides, and their first bytes.
type Job = (&'static str, &'static str, &'static [i64], (&'static [i64], u64), (&'static [i64], u64));
const JOBS: [Job; 19] = [
    ("uint8", "uint8", &[5, 7], (&[9, 1], 1), (&[7, 1], 0)),
    ("int16", "int16", &[3, 5], (&[20, 3], 2), (&[5, 1], 4)),
    ("float32", "float32", &[4, 3, 5], (&[1, 40, 4], 0), (&[15, 5, 1], 0)),
    ("int64", "int64", &[7], (&[2], 8), (&[1], 0)),
    ("float32", "float32", &[4, 8], (&[16, 1], 16), (&[8, 1], 0)),
    ("uint8", "uint8", &[65, 9], (&[1, 70], 3), (&[9, 1], 0)),
    ("float16", "float16", &[9, 66], (&[1, 9], 0), (&[70, 1], 2)),
    ("float32", "float32", &[2, 33, 9], (&[297, 1, 33], 0), (&[300, 9, 1], 0)),
    ("complex64", "complex64", &[9, 33], (&[-1, 9], 64), (&[33, 1], 0)),
    ("complex128", "complex128", &[9, 9], (&[1, 9], 0), (&[9, 1], 0)),
    ("float32", "float16", &[1030], (&[1], 0), (&[1], 0)),
    ("float32", "float16", &[33, 40], (&[1, 33], 0), (&[40, 1], 0)),
    ("float64", "int32", &[5, 5], (&[5, 1], 3), (&[6, 1], 1)),
    ("complex64", "bool", &[6], (&[2], 0), (&[1], 0)),
    ("uint16", "complex128", &[6], (&[1], 0), (&[1], 0)),
    ("float8_e4m3fn", "bfloat16", &[20], (&[1], 0), (&[1], 0)),
    ("float6_e2m3fn", "float32", &[21], (&[1], 0), (&[1], 0)),
    ("float32", "float6_e3m2fn", &[21], (&[1], 0), (&[1], 1)),
    ("float4_e2m1fn", "float4_e2m1fn", &[3, 7], (&[9, 1], 0), (&[7, 1], 0)),
];

/// Does a job on a device, in buffers as large as it and no larger, so that what is read or written beside it
/// is seen; and on the host, which gives the same. Returns its kernel.
fn beside_the_host(desk: &Desk, random: &mut Random, job: &Job) -> Kernel {
    let (from_dtype, to_dtype, shape, (from_strides, from_first), (to_strides, to_first)) = *job;
    let array = |data: u64, device, dtype, strides: &[i64], first| {
        Array::new(data, device, dtype, shape).strided(strides, first)
    };
    let size = |dtype: &str, strides: &[i64], first: u64| {
        let dtype: arraybridge::DLDataType = dtype.parse().unwrap();
        let last: i64 = shape.iter().zip(strides).map(|(extent, stride)| (extent - 1) * stride.max(&0)).sum();
        first as usize + ((last as usize + 1) * usize::from(dtype.bits)).div_ceil(8)
    };
    let mut bytes = |size| (0..size).map(|_| random.below(256) as u8).collect::<Vec<u8>>();
    let from = bytes(size(from_dtype, from_strides, from_first));
    let to = bytes(size(to_dtype, to_strides, to_first));
    let source = |data: u64, device| array(data, device, from_dtype, from_strides, from_first);
    let target = |data: u64, device| array(data, device, to_dtype, to_strides, to_first);
    let mut want = to.clone();
    let on_host = source(from.as_ptr() as u64, CPU);
    copy_into(&on_host, &target(want.as_mut_ptr() as u64, CPU), &options()).unwrap();
    let (here, there) = (desk.buffer(&from, CL_MEM_READ_ONLY), desk.buffer(&to, CL_MEM_READ_WRITE));
    let on_device = source(here.mem as u64, OPENCL);
    copy_into(&on_device, &target(there.mem as u64, OPENCL), &options()).unwrap();
    assert_eq!(desk.read(there.mem, to.len()), want, "{from_dtype} {shape:?} to {to_dtype}");
    if from_dtype != to_dtype {
        let exact = ab_convert_options { casting: AB_CAST_EXACT, ..options() };
        let found = copy_into(&on_device, &target(there.mem as u64, OPENCL), &exact);
        let told = copy_into(&on_host, &target(want.as_mut_ptr() as u64, CPU), &exact);
        assert_eq!(found.map(|_| ()), told.map(|_| ()), "{from_dtype} to {to_dtype}");
    }
    let side = |dtype: &str, strides| Side { dtype: dtype.parse().unwrap(), padded: false, strides };
    let mut room = [Axis::default(); 8];
    let sides = (side(from_dtype, from_strides), side(to_dtype, to_strides));
    let job = Transfer::new(shape, sides.0, sides.1, Rules::default(), &mut room);
    Launches::of(&job, from_first, to_first).expect("a kernel").kernel()
}

#[test]
#[ignore = "run by kernels_touch_what_is_theirs"]
fn every_kind_of_kernel() {
    let desk = Desk::new().expect("a device of OpenCL");
    let mut random = Random(3);
    for job in &JOBS {
        beside_the_host(&desk, &mut random, job);
    }
}

/// A job for each kernel that changes types: every pair of them, by tiles and not, and each to packed bits.
fn casts() -> impl Iterator<Item = Job> {
    const TYPES: [&str; 14] = [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "float8_e4m3fn",
    ];
    const PARTS: [(&str, &str); 5] = [
        ("complex64", "float32"),
        ("float32", "complex64"),
        ("complex128", "float64"),
        ("float64", "complex128"),
        ("float8_e4m3fn", "float8_e5m2"),
    ];
    let pairs = || TYPES.into_iter().flat_map(|from| TYPES.map(|to| (from, to))).chain(PARTS);
    let spread = |(from, to)| -> Job { (from, to, &[3, 5], (&[11, 2], 0), (&[5, 1], 0)) };
    let turned = |(from, to)| -> Job { (from, to, &[9, 10], (&[1, 9], 0), (&[10, 1], 0)) };
    let packed = |from| -> Job { (from, "float4_e2m1fn", &[21], (&[1], 0), (&[1], 0)) };
    let others = || pairs().filter(|(from, to)| from != to);
    others().map(spread).chain(others().map(turned)).chain(TYPES.into_iter().map(packed))
}

/// One in so many of the kernels that change types, from one on: ARRAYBRIDGE_TEST_CASTS is "STEP FIRST".
#[test]
#[ignore = "run by kernels_touch_what_is_theirs"]
fn every_cast() {
    let desk = Desk::new().expect("a device of OpenCL");
    let which = std::env::var("ARRAYBRIDGE_TEST_CASTS").unwrap();
    let which: Vec<usize> = which.split(' ').map(|number| number.parse().unwrap()).collect();
    let mut random = Random(5);
    let jobs = casts().skip(which[1]).step_by(which[0]);
    let mut done: Vec<Kernel> = jobs.map(|job| beside_the_host(&desk, &mut random, &job)).collect();
    if which == [1, 0] {
        done.extend(JOBS.iter().map(|job| beside_the_host(&desk, &mut random, job)));
        // There is nothing to change between equal types, unless they are parts of complex numbers.
        let never = |kernel: &Kernel| matches!(kernel, Kernel::Cast(from, to) | Kernel::CastTransposed(from, to) if from == to);
        let left: Vec<_> = Kernel::all().filter(|kernel| !done.contains(kernel) && !never(kernel)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
    println!("{} casts", done.len());
}

/// A driver that follows every access of a kernel finds none out of bounds, and no race. It takes a second for
/// each kernel: one of 20 of those that change types is enough, since every one of them is done by the same
/// text, which tests/kernels.rs has a compiler of C look at. ARRAYBRIDGE_VECTORS_ALL=1 leaves none out.
#[test]
fn kernels_touch_what_is_theirs() {
    const LIBRARY: &str = "/usr/lib/oclgrind/liboclgrind-rt-icd.so";
    if desk().is_none() {
        return;
    }
    if !std::path::Path::new(LIBRARY).exists() {
        common::skipped("kernels under oclgrind: it is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("oclgrind.icd"), LIBRARY).unwrap();
    let all = std::env::var("ARRAYBRIDGE_VECTORS_ALL").is_ok_and(|all| all == "1");
    let casts = if all { "1 0" } else { "20 7" };
    for test in ["every_kind_of_kernel", "every_cast"] {
        let mut run = Command::new(std::env::current_exe().unwrap());
        run.args(["--exact", test, "--ignored", "--nocapture"]).env("ARRAYBRIDGE_TEST_CASTS", casts);
        run.env("OCL_ICD_VENDORS", folder.path()).env("ARRAYBRIDGE_OPENCL_MAP", "0");
        // Its interpreter lacks some of what the optimiser comes up with.
        run.env("OCLGRIND_DATA_RACES", "1").env("OCLGRIND_BUILD_OPTIONS", "-cl-opt-disable");
        let output = run.output().unwrap();
        let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && text.contains("1 passed"), "{text}{said}");
        assert!(!said.contains("Invalid") && !said.contains("race"), "{said}");
        print!("{text}");
    }
}

/// Every flag that says who may touch a buffer, on either side, contiguous and not: the result is as on the
/// host, or what cannot be is refused with what would have worked.
#[test]
fn buffers_with_restrictions() {
    let Some(desk) = desk() else { return };
    let second = Desk::on(&devices()[devices().len() - 1..], 0);
    let (from, to) = (floats(64), floats(64).into_iter().rev().collect::<Vec<u8>>());
    let kernels = [CL_MEM_READ_WRITE, CL_MEM_READ_ONLY, CL_MEM_WRITE_ONLY];
    let hosts = [0, CL_MEM_HOST_NO_ACCESS, CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_WRITE_ONLY];
    // Plain to read back what nobody else may.
    let read = |desk: &Desk, buffer: &cl::Buffer| {
        let plain = desk.buffer(&[0; 256], CL_MEM_READ_WRITE);
        // SAFETY: both buffers are that large; the event is ours.
        unsafe {
            let (none, mem) = (std::ptr::null(), plain.mem);
            let event = enqueue_copy_buffer(desk.queue, buffer.mem, mem, 0, 0, 256, 0, none).unwrap();
            finish(desk.queue).unwrap();
            release_event(event).unwrap();
        }
        desk.read(plain.mem, 256)
    };
    for flags in kernels.into_iter().flat_map(|kernel| hosts.map(|host| kernel | host)) {
        for strides in [[8, 1], [1, 8]] {
            let side = |data: u64, device, strides: [i64; 2]| {
                Array::new(data, device, "float32", &[8, 8]).strided(&strides, 0)
            };
            let host_source = side(from.as_ptr() as u64, CPU, strides);
            let mut want = to.clone();
            copy_into(&host_source, &side(want.as_mut_ptr() as u64, CPU, [8, 1]), &options()).unwrap();
            let name = format!("{flags:#x} {strides:?}");
            // As a destination.
            let ways =
                [("up", None, &desk), ("within", Some(&desk), &desk), ("between", Some(&desk), &second)];
            for (way, source, desk) in ways {
                let name = format!("{name} {way}");
                let taken = desk.buffer(&to, flags);
                let lent = source.map(|desk| desk.buffer(&from, CL_MEM_READ_WRITE));
                let source = lent.as_ref().map(|lent| side(lent.mem as u64, OPENCL, strides));
                let target = side(taken.mem as u64, OPENCL, [8, 1]);
                copy_into(source.as_ref().unwrap_or(&host_source), &target, &options()).expect(&name);
                assert_eq!(read(desk, &taken), want, "{name}");
            }
            // As a source.
            let lent = desk.buffer(&from, flags);
            let source = side(lent.mem as u64, OPENCL, strides);
            let mut down = to.clone();
            let taken = (desk.buffer(&to, CL_MEM_READ_WRITE), second.buffer(&to, CL_MEM_READ_WRITE));
            for (target, device) in
                [(down.as_mut_ptr() as u64, CPU), (taken.0.mem as u64, OPENCL), (taken.1.mem as u64, OPENCL)]
            {
                let outcome = copy_into(&source, &side(target, device, [8, 1]), &options());
                if flags & CL_MEM_WRITE_ONLY != 0 {
                    let (status, _, message) = outcome.err().expect(&name);
                    assert_eq!(status, AB_E_INVALID_TENSOR, "{name}");
                    assert!(message.contains("CL_MEM_WRITE_ONLY"), "{name}: {message}");
                } else {
                    outcome.expect(&name);
                }
            }
            if flags & CL_MEM_WRITE_ONLY == 0 {
                assert_eq!(down, want, "{name}");
                assert_eq!((read(&desk, &taken.0), read(&second, &taken.1)), (want.clone(), want), "{name}");
            }
        }
    }
}

/// Elements of four bits at steps, on either side, and so many that they fill slots.
#[test]
fn packed_elements_that_are_spread_out() {
    let Some(desk) = desk() else { return };
    let second = Desk::on(&devices()[devices().len() - 1..], 0);
    let count = 5000i64;
    let from: Vec<u8> = (0..3 * count / 2 + 1).map(|index| (index * 7 % 251) as u8).collect();
    let to = vec![0x9a; from.len()];
    let own = calls::context(4096);
    let small = own.0;
    for (from_step, to_step) in [(1, 1), (3, 1), (1, 3), (2, 3)] {
        for to_dtype in ["float4_e2m1fn", "float6_e2m3fn"] {
            let side = |data: u64, device, dtype, step| {
                // Of six bits, half as many fit.
                Array::new(data, device, dtype, &[count / 2]).strided(&[step], 1)
            };
            let source = |data: u64, device| side(data, device, "float4_e2m1fn", from_step);
            let target = |data: u64, device| side(data, device, to_dtype, to_step);
            let on_host = source(from.as_ptr() as u64, CPU);
            let name = format!("{from_step} to {to_step} {to_dtype}");
            let mut want = to.clone();
            copy_into(&on_host, &target(want.as_mut_ptr() as u64, CPU), &options()).unwrap();
            let (lent, mut down) = (desk.buffer(&from, CL_MEM_READ_WRITE), to.clone());
            let on_device = source(lent.mem as u64, OPENCL);
            let copy_into =
                |from: &Array, to: &Array| calls::copy_into_in(small, from, to, &options()).unwrap();
            copy_into(&on_device, &target(down.as_mut_ptr() as u64, CPU));
            assert!(down == want, "{name}: down");
            for (source, desk) in [(&on_host, &desk), (&on_device, &desk), (&on_device, &second)] {
                let buffer = desk.buffer(&to, CL_MEM_READ_WRITE);
                copy_into(source, &target(buffer.mem as u64, OPENCL));
                assert!(desk.read(buffer.mem, to.len()) == want, "{name}: up, within or between");
            }
        }
    }
}

/// A plan tells what slots a job takes, which is never more than the context's limit and as much of the device.
#[test]
fn scratch_is_what_the_ring_takes() {
    let Some(desk) = desk() else { return };
    let apart = is_apart();
    let limit = 256u64 << 10;
    let own = calls::context(limit);
    let context = own.0;
    let bytes = vec![0u8; 4 << 20];
    let buffer = desk.buffer(&bytes, CL_MEM_READ_WRITE);
    let scratch = |from: &Array, options: &ab_convert_options| {
        let (_, report) = calls::copy_in(context, from, options).unwrap();
        report.scratch_bytes
    };
    let host = |dtype, shape: &[i64], strides: &[i64]| Array::host(&bytes, dtype, shape).strided(strides, 0);
    let device =
        |dtype, shape: &[i64], strides: &[i64]| Array::opencl(buffer.mem, dtype, shape).strided(strides, 0);
    let up = ab_convert_options { dst_stream: desk.stream(), ..to_device(OPENCL) };
    let cast = |options| ab_convert_options { dtype: "float16".parse().unwrap(), ..options };
    // What the driver copies by itself, and what kernels do.
    assert_eq!(scratch(&host("float32", &[1 << 20], &[1]), &up), 0);
    assert_eq!(scratch(&device("float32", &[1 << 20], &[1]), &to_device(CPU)), 0);
    assert_eq!(scratch(&device("float32", &[1 << 9, 1 << 9], &[1, 1 << 9]), &options()), 0);
    // What is cast on the host as it goes up crosses as it comes.
    let slots = if apart { 2 * (64 << 10) } else { 0 };
    assert_eq!(scratch(&host("float32", &[1 << 20], &[1]), &cast(up)), slots);
    // What is gathered on the device, there too.
    let gathered = device("float32", &[1 << 9, 1 << 9], &[1, 1 << 9]);
    assert_eq!(scratch(&gathered, &to_device(CPU)), 2 * slots);
    // Between contexts.
    let other = Desk::new().expect("a device of OpenCL");
    let across = ab_convert_options { dst_stream: other.stream(), ..options() };
    assert_eq!(scratch(&device("float32", &[1 << 20], &[1]), &across), slots);
    assert_eq!(scratch(&gathered, &across), 2 * slots);
    // A slot is enough for what is spread out within bytes.
    let half = device("float4_e2m1fn", &[1 << 10], &[2]);
    assert_eq!(scratch(&half, &to_device(CPU)), slots / 2);
}

/// The devices of tests/fault/opencl_device.c, and the program of tests/fault/opencl_memory.c, in a folder.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn devices_of_the_tests() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let source = folder.path().join("driver.c");
    // Those of the scenarios: few are compiled sooner.
    let named = ["ab_transpose_4", "ab_cast_u8_f32", "ab_cast_f32_u8", "ab_cast_f32_f16", "ab_pack_bits"];
    let wanted = |kernel: &Kernel| matches!(kernel, Kernel::Copy(_)) || named.contains(&&*kernel.name());
    let kernels: Vec<Kernel> = Kernel::all().filter(wanted).collect();
    let lines: String = kernels.iter().map(|kernel| kernel.line()).collect();
    let table: String = kernels.iter().map(|kernel| format!("{{\"{kernel}\", {kernel}}}, ")).collect();
    let driver = std::fs::read_to_string(tests.join("fault/opencl_device.c")).unwrap();
    let kernels = "typedef void kernel_function(u32, const u8 *, u8 *, u32 *, ab_params);\n\
        static const struct { const char *name; kernel_function *run; } KERNELS[] = {";
    std::fs::write(
        &source,
        [HOST, NUMBERS, KERNELS, &lines, kernels, &table, "{0, 0}};\n", &driver].concat(),
    )
    .unwrap();
    let mut cc = common::cc();
    cc.args(["-std=gnu11", "-O1", "-g", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]);
    cc.args(["-Wno-unused-function", "-Wl,-soname,libOpenCL.so.1", "-pthread", "-o"]);
    common::succeed_silently(cc.arg(folder.path().join("libOpenCL.so.1")).arg(&source));
    let program = folder.path().join("memory");
    let mut cc = common::cc();
    cc.arg("-std=c99").args(common::WARNINGS).args(["-g", "-pthread", "-rdynamic", "-I"]);
    cc.arg(common::include()).arg(tests.join("fault/opencl_memory.c")).arg("-o").arg(&program).arg("-ldl");
    common::succeed_silently(&mut cc);
    folder
}

/// A scenario of the program in a folder; `None`: with the drivers that there are.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn scenario(folder: &std::path::Path, drivers: Option<&std::path::Path>, words: &[&str]) {
    let mut command = Command::new(folder.join("memory"));
    command.arg(common::library("so")).args(words).env_remove("ARRAYBRIDGE_OPENCL_MAP");
    match drivers {
        Some(path) => command.env("LD_LIBRARY_PATH", path),
        None => command.env("ARRAYBRIDGE_OPENCL_MAP", "0"),
    };
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{words:?}: {}\n{text}{said}", output.status);
    print!("{text}");
}

/// On devices where everything that asks for memory is the library itself.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn every_allocation_fails_in_turn() {
    let folder = devices_of_the_tests();
    for name in ["apart", "native", "mapped", "staged", "mixed", "packed", "foreign", "listed"] {
        scenario(folder.path(), Some(folder.path()), &[name]);
    }
}

/// A process may exit whenever it likes: programs that are kept, and the thread that lets them go, call no driver
/// that has gone.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn exits_with_programs_kept() {
    let folder = devices_of_the_tests();
    scenario(folder.path(), Some(folder.path()), &["exits", "200"]);
    if desk().is_some() {
        scenario(folder.path(), None, &["exits", "100"]);
    }
}

/// Jobs of several parts: strided on either side, with and without a cast.
#[test]
fn large_jobs() {
    let Some(desk) = desk() else { return };
    let (rows, columns) = (1500i64, 1100i64);
    let bytes: Vec<u8> = (0..rows * columns * 4).map(|index| (index * 7 % 251) as u8).collect();
    let shapes: [(&[i64], &[i64], &[i64]); 3] = [
        (&[rows, columns], &[columns, 1], &[columns, 1]),
        (&[columns, rows], &[1, columns], &[rows, 1]),
        (&[rows, columns / 2], &[columns, 2], &[1, rows]),
    ];
    for (shape, from_strides, to_strides) in shapes {
        for to_dtype in ["int32", "int16"] {
            let array = |data: u64, device, dtype, strides: &[i64]| Array {
                data,
                device,
                dtype,
                shape: shape.to_vec(),
                strides: Some(strides.to_vec()),
                byte_offset: 0,
            };
            let on_host = array(bytes.as_ptr() as u64, CPU, "int32", from_strides);
            let to = vec![9u8; bytes.len()];
            let mut want = to.clone();
            let target = |data: u64, device| array(data, device, to_dtype, to_strides);
            copy_into(&on_host, &target(want.as_mut_ptr() as u64, CPU), &options()).unwrap();
            let up = desk.buffer(&to, CL_MEM_READ_WRITE);
            copy_into(&on_host, &target(up.mem as u64, OPENCL), &options()).unwrap();
            assert!(desk.read(up.mem, to.len()) == want, "{shape:?} to {to_dtype}: up");
            let (here, mut down) = (desk.buffer(&bytes, CL_MEM_READ_WRITE), to.clone());
            let on_device = array(here.mem as u64, OPENCL, "int32", from_strides);
            copy_into(&on_device, &target(down.as_mut_ptr() as u64, CPU), &options()).unwrap();
            assert!(down == want, "{shape:?} to {to_dtype}: down");
        }
    }
}

#[test]
#[ignore = "run by two_devices"]
fn peers() {
    let both = devices();
    if both.len() != 2 {
        panic!("{} devices", both.len());
    }
    let desk = Desk::on(&both, 0);
    let bytes = floats(16);
    let buffer = desk.buffer(&bytes, CL_MEM_READ_WRITE);
    let array = Array::opencl(buffer.mem, "float32", &[16]);
    let (result, report) = copy(&array, &to_device((4, 1))).unwrap();
    assert_eq!((report.route, result.tensor().device.device_id), (AB_ROUTE_PEER, 1));
    let context = get_mem_object_info(result.mem(), CL_MEM_CONTEXT).unwrap().to_ptr();
    assert_eq!(context, desk.context as isize);
    assert_eq!(desk.read(result.mem(), 64), bytes);
    // Of a context without the other device.
    let alone = Desk::on(&both[..1], 0);
    let buffer = alone.buffer(&bytes, CL_MEM_READ_WRITE);
    let array = Array::opencl(buffer.mem, "float32", &[16]);
    let (result, report) = copy(&array, &to_device((4, 1))).unwrap();
    assert_eq!(report.route, AB_ROUTE_STAGED);
    let (back, _) = copy(&Array::opencl(result.mem(), "float32", &[16]), &to_device(CPU)).unwrap();
    assert_eq!(back.bytes(64), bytes);
    // A queue of a device that the result is not for.
    let queue = ab_convert_options { dst_stream: alone.stream(), ..to_device((4, 1)) };
    let (status, _, message) = copy(&Array::host(&bytes, "float32", &[16]), &queue).err().unwrap();
    assert!(status == AB_E_INVALID_ARGUMENT && message.starts_with("options.dst_stream"), "{message}");
    // The rest again, from the first device to the second.
    random_strides();
}

#[test]
fn two_devices() {
    if desk().is_none() {
        return;
    }
    let run = || again("peers", &[("POCL_DEVICES", "pthread basic")]);
    let platform = opencl3::platform::platform::get_platform_ids().unwrap()[0];
    let name = opencl3::platform::platform::get_platform_data(
        platform,
        opencl3::platform::platform::CL_PLATFORM_NAME,
    );
    if name.unwrap().starts_with(b"Portable Computing Language") {
        run();
    } else {
        common::skipped("two OpenCL devices: the first platform is not PoCL, which can show two");
    }
}

#[test]
fn results_that_no_device_has_room_for() {
    let Some(desk) = desk() else { return };
    let buffer = desk.buffer(&floats(4), CL_MEM_READ_WRITE);
    let shape = [1 << 30, 1 << 22];
    let huge = Array { strides: Some(vec![0, 0]), ..Array::opencl(buffer.mem, "float32", &shape) };
    let (status, _, message) = copy(&huge, &options()).err().unwrap();
    assert_eq!(status, AB_E_OUT_OF_MEMORY, "{message}");
    assert_eq!(buffer.references(), 1);
}
