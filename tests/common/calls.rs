//! Calls of the C ABI on borrowed tensors.

// Each test crate compiles its own copy and uses a part of it.
#![allow(dead_code)]

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

use arraybridge::dlpack::raw::{DLDevice, DLManagedTensorVersioned, DLTensor};
use arraybridge::ffi::context::ab_detect_pointer;
use arraybridge::ffi::context::{ab_context_create, ab_context_release, ab_list_backends, ab_list_devices};
use arraybridge::ffi::convert::{ab_convert, ab_copy, ab_copy_into, ab_plan};
use arraybridge::ffi::managed::ab_release;
use arraybridge::ffi::types::*;

pub const CPU: (i32, i32) = (1, 0);

/// A status, the driver's code and the message.
pub type Failure = (i32, i64, String);

pub fn error() -> ab_error {
    ab_error { struct_size: size_of::<ab_error>() as u32, code: 1, native_code: 1, message: [1; 496] }
}

/// What C writes for the defaults of a struct.
fn zero<T>() -> T {
    // SAFETY: the structs of the C ABI are numbers and pointers.
    unsafe { std::mem::zeroed() }
}

pub fn options() -> ab_convert_options {
    ab_convert_options { struct_size: size_of::<ab_convert_options>() as u32, ..zero() }
}

pub fn to_device(device: (i32, i32)) -> ab_convert_options {
    ab_convert_options { device: DLDevice { device_type: device.0, device_id: device.1 }, ..options() }
}

fn report() -> ab_report {
    ab_report { struct_size: size_of::<ab_report>() as u32, ..zero() }
}

pub fn text(chars: &[c_char]) -> String {
    // SAFETY: the library ends every text with NUL.
    unsafe { CStr::from_ptr(chars.as_ptr()) }.to_string_lossy().into_owned()
}

fn failure(status: i32, error: &ab_error) -> Failure {
    assert_eq!(status, error.code);
    (status, error.native_code, text(&error.message))
}

/// A borrowed tensor.
#[derive(Clone)]
pub struct Array {
    pub data: u64,
    pub device: (i32, i32),
    pub dtype: &'static str,
    pub shape: Vec<i64>,
    pub strides: Option<Vec<i64>>,
    pub byte_offset: u64,
}

impl Array {
    pub fn new(data: u64, device: (i32, i32), dtype: &'static str, shape: &[i64]) -> Array {
        Array { data, device, dtype, shape: shape.to_vec(), strides: None, byte_offset: 0 }
    }

    pub fn host(bytes: &[u8], dtype: &'static str, shape: &[i64]) -> Array {
        Array::new(bytes.as_ptr() as u64, CPU, dtype, shape)
    }

    pub fn strided(self, strides: &[i64], byte_offset: u64) -> Array {
        Array { strides: Some(strides.to_vec()), byte_offset, ..self }
    }

    /// Shape and strides are this one's.
    pub fn tensor(&self) -> DLTensor {
        DLTensor {
            data: self.data as usize as *mut c_void,
            device: DLDevice { device_type: self.device.0, device_id: self.device.1 },
            ndim: self.shape.len() as i32,
            dtype: self.dtype.parse().unwrap(),
            shape: self.shape.as_ptr().cast_mut(),
            strides: self.strides.as_ref().map_or(null_mut(), |strides| strides.as_ptr().cast_mut()),
            byte_offset: self.byte_offset,
        }
    }
}

pub fn copy_into(from: &Array, to: &Array, options: &ab_convert_options) -> Result<ab_report, Failure> {
    copy_into_in(null_mut(), from, to, options)
}

pub fn copy_into_in(
    context: *mut ab_context,
    from: &Array,
    to: &Array,
    options: &ab_convert_options,
) -> Result<ab_report, Failure> {
    let (mut error, mut report) = (error(), report());
    // SAFETY: the tests' tensors are as large as they say.
    let status = unsafe {
        ab_copy_into(context, &from.tensor(), 0, &to.tensor(), 0, options, &mut report, &mut error)
    };
    if status == AB_OK { Ok(report) } else { Err(failure(status, &error)) }
}

/// A result, freed with this.
pub struct Owned(pub *mut DLManagedTensorVersioned);

// SAFETY: a result may be used and deleted on any thread.
unsafe impl Send for Owned {}

impl Owned {
    pub fn tensor(&self) -> &DLTensor {
        // SAFETY: it is a result.
        unsafe { &(*self.0).dl_tensor }
    }

    pub fn data(&self) -> u64 {
        self.tensor().data as u64
    }

    /// The bytes of a result that the host can read, and that is compact.
    pub fn bytes(&self, count: usize) -> &[u8] {
        // SAFETY: the result is that large.
        unsafe { std::slice::from_raw_parts(self.tensor().data.cast::<u8>(), count) }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it is owned.
        unsafe { ab_release(self.0) };
    }
}

pub fn copy(from: &Array, options: &ab_convert_options) -> Result<(Owned, ab_report), Failure> {
    copy_in(null_mut(), from, options)
}

/// A context that is released at the end.
pub struct OwnContext(pub *mut ab_context);

impl Drop for OwnContext {
    fn drop(&mut self) {
        // SAFETY: it is owned, and no call is under way.
        unsafe { ab_context_release(self.0) };
    }
}

/// A context with so much memory for staging, and one thread.
pub fn context(staging_bytes: u64) -> OwnContext {
    let options = ab_context_options {
        struct_size: size_of::<ab_context_options>() as u32,
        num_threads: 1,
        staging_bytes,
    };
    let (mut context, mut error) = (null_mut(), error());
    // SAFETY: every pointer is to a local.
    assert_eq!(unsafe { ab_context_create(&options, &mut context, &mut error) }, AB_OK);
    OwnContext(context)
}

pub fn copy_in(
    context: *mut ab_context,
    from: &Array,
    options: &ab_convert_options,
) -> Result<(Owned, ab_report), Failure> {
    let (mut error, mut report, mut out) = (error(), report(), null_mut());
    // SAFETY: the tests' tensors are as large as they say.
    let status = unsafe { ab_copy(context, &from.tensor(), 0, options, &mut out, &mut report, &mut error) };
    if status == AB_OK {
        Ok((Owned(out), report))
    } else {
        assert!(out.is_null());
        Err(failure(status, &error))
    }
}

/// Gives up the source if it succeeds.
pub fn convert(from: Owned, options: &ab_convert_options) -> Result<(Owned, ab_report), (Owned, Failure)> {
    let (mut error, mut report, mut out) = (error(), report(), null_mut());
    // SAFETY: the tensor is owned.
    let status = unsafe { ab_convert(null_mut(), from.0, options, &mut out, &mut report, &mut error) };
    if status == AB_OK {
        std::mem::forget(from);
        Ok((Owned(out), report))
    } else {
        assert!(out.is_null());
        Err((from, failure(status, &error)))
    }
}

pub fn plan(from: &Array, options: &ab_convert_options) -> Result<ab_report, Failure> {
    let (mut error, mut report) = (error(), report());
    // SAFETY: the tensor is readable.
    let status = unsafe { ab_plan(null_mut(), &from.tensor(), 0, options, &mut report, &mut error) };
    if status == AB_OK { Ok(report) } else { Err(failure(status, &error)) }
}

/// A backend, by its name: whether it is available, and what it says.
pub fn backend(name: &str) -> (bool, String) {
    let mut list: [ab_backend_info; 8] = zero();
    list[0].struct_size = size_of::<ab_backend_info>() as u32;
    let (mut count, mut error) = (0, error());
    // SAFETY: the list has eight entries.
    let status = unsafe { ab_list_backends(null_mut(), list.as_mut_ptr(), 8, &mut count, &mut error) };
    assert_eq!(status, AB_OK);
    let found = list[..count].iter().find(|info| text(&info.name) == name).expect("it is listed");
    (found.available == 1, text(&found.detail))
}

/// The devices of a type.
pub fn list_devices(device_type: i32) -> Vec<ab_device_info> {
    let mut list: [ab_device_info; 32] = zero();
    list[0].struct_size = size_of::<ab_device_info>() as u32;
    let (mut count, mut error) = (0, error());
    // SAFETY: the list has so many entries.
    let status = unsafe { ab_list_devices(null_mut(), list.as_mut_ptr(), 32, &mut count, &mut error) };
    assert_eq!(status, AB_OK);
    list[..count].iter().filter(|info| info.device.device_type == device_type).copied().collect()
}

pub fn detect_pointer(address: u64) -> ab_pointer_info {
    let (mut info, mut error) = (zero::<ab_pointer_info>(), error());
    info.struct_size = size_of::<ab_pointer_info>() as u32;
    let pointer = address as usize as *const c_void;
    // SAFETY: the pointer is only asked about.
    assert_eq!(unsafe { ab_detect_pointer(null_mut(), pointer, &mut info, &mut error) }, AB_OK);
    info
}

/// A small generator, so that the tests need no dependency and repeat.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> i64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % end) as i64
    }

    /// Strides of a view with gaps, any order of axes and any signs: strides, first element, elements.
    pub fn layout(&mut self, shape: &[i64]) -> (Vec<i64>, i64, i64) {
        let mut axes: Vec<usize> = (0..shape.len()).collect();
        for end in (1..axes.len()).rev() {
            axes.swap(end, self.below(end as u64 + 1) as usize);
        }
        let (mut strides, mut step, mut first) = (vec![0; shape.len()], 1 + self.below(2), self.below(3));
        for axis in axes {
            strides[axis] = step;
            step = step * shape[axis] + self.below(3);
            if self.below(3) == 0 {
                first += strides[axis] * (shape[axis] - 1);
                strides[axis] = -strides[axis];
            }
        }
        let reach: i64 =
            shape.iter().zip(&strides).map(|(extent, stride)| (extent - 1) * stride.max(&0)).sum();
        (strides, first, first + reach + 1)
    }
}
