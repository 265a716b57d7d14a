//! What all fuzzers share: structs as a C caller fills them in, and what is promised of every call.

use std::cell::Cell;
use std::ffi::{CStr, c_void};

use arraybridge::dlpack::raw::*;
use arraybridge::ffi::types::*;

/// Programs that fuzz must not start drivers, whose handles cannot be told from other pointers.
pub fn without_drivers() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    // SAFETY: before any other thread of ours, and nobody else's reads the environment.
    ONCE.call_once(|| unsafe {
        libc::setenv(c"OCL_ICD_VENDORS".as_ptr(), c"/nonexistent".as_ptr(), 1);
        libc::setenv(c"CUDA_VISIBLE_DEVICES".as_ptr(), c"".as_ptr(), 1);
    });
}

/// Memory of exactly so many bytes, which a checker of memory guards on both sides. Raw: structs keep its
/// address, which a box that moves would make invalid.
pub struct Room(*mut [u64], usize);

const CANARY: u64 = 0xa5a5_5a5a_c3c3_3c3c;

impl Room {
    pub fn new(bytes: usize) -> Room {
        let words = vec![CANARY; bytes.div_ceil(8) + 2].into_boxed_slice();
        let mut room = Room(Box::into_raw(words), bytes);
        room.bytes().fill(0);
        room
    }

    /// The word behind its bytes.
    fn end(&self) -> *mut u64 {
        // SAFETY: the last of its words.
        unsafe { self.0.cast::<u64>().add(self.0.len() - 1) }
    }

    pub fn start(&mut self) -> *mut u8 {
        // SAFETY: the bytes lie between the first and the last word.
        unsafe { self.end().cast::<u8>().sub(self.1) }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        let (start, len) = (self.start(), self.1);
        // SAFETY: it is its own memory.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }

    /// Nobody has written beside it.
    pub fn check(&self) {
        // SAFETY: its first and its last word.
        let around = unsafe { (self.0.cast::<u64>().read(), self.end().read()) };
        assert_eq!(around.0, CANARY, "something wrote before a struct");
        assert_eq!(around.1, CANARY, "something wrote behind a struct");
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check();
        }
        // SAFETY: it is the box of new().
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// Counts calls of a deleter, whose context it is, wherever it moves.
pub struct Counter(*mut Cell<u32>);

impl Counter {
    pub fn new() -> Counter {
        Counter(Box::into_raw(Box::new(Cell::new(0))))
    }

    pub fn context(&self) -> *mut c_void {
        self.0.cast()
    }

    pub fn get(&self) -> u32 {
        // SAFETY: it is the box of new().
        unsafe { (*self.0).get() }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// A status that a caller may see; never that of a bug.
pub fn check_status(status: i32) {
    assert!((AB_E_LOSSY..=AB_OK).contains(&status), "status {status}");
}

/// A whole error struct, before a call.
pub fn error() -> ab_error {
    ab_error { struct_size: size_of::<ab_error>() as u32, code: 77, native_code: 77, message: [1; 496] }
}

/// What is promised of an error that was passed, whatever happened.
pub fn check_error(error: &ab_error, status: i32) {
    check_status(status);
    assert_eq!(error.code, status);
    assert!(error.native_code == 0 || status == AB_E_DEVICE, "the number of no driver's error");
    let message = error.message.map(|c| c as u8);
    let text = CStr::from_bytes_until_nul(&message).expect("an end of the message");
    assert_eq!(text.is_empty(), status == AB_OK, "{text:?} with {status}");
    text.to_str().expect("UTF-8");
}

/// Options that keep everything.
pub fn options() -> ab_convert_options {
    // SAFETY: all zero is what C writes for the defaults.
    let zero = unsafe { std::mem::zeroed() };
    ab_convert_options { struct_size: size_of::<ab_convert_options>() as u32, ..zero }
}

/// A managed tensor of a stranger's, and how often it was deleted.
pub struct Source {
    pub versioned: DLManagedTensorVersioned,
    pub legacy: DLManagedTensor,
    pub deleted: Counter,
}

impl Source {
    pub fn new(dl_tensor: DLTensor, flags: u64) -> Source {
        let version = DLPackVersion { major: 1, minor: 3 };
        let deleted = Counter::new();
        let manager_ctx = deleted.context();
        let deleter = Some(delete_versioned as _);
        Source {
            versioned: DLManagedTensorVersioned { version, manager_ctx, deleter, flags, dl_tensor },
            legacy: DLManagedTensor { dl_tensor, manager_ctx, deleter: Some(delete_legacy) },
            deleted,
        }
    }
}

unsafe extern "C" fn delete_versioned(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: the context is the source's counter.
    unsafe { count((*tensor).manager_ctx) };
}

unsafe extern "C" fn delete_legacy(tensor: *mut DLManagedTensor) {
    // SAFETY: as above.
    unsafe { count((*tensor).manager_ctx) };
}

/// # Safety
/// It is a counter.
pub unsafe extern "C" fn count(counter: *mut c_void) {
    // SAFETY: as the caller says.
    let counter = unsafe { &*counter.cast::<Cell<u32>>() };
    counter.set(counter.get() + 1);
}

/// What a tensor's struct says, worked out by itself: elements, the first and the last offset in bits from
/// `data`, in numbers that cannot overflow. None: it is not well-formed.
pub struct Reach {
    pub elements: i128,
    /// In bits, and of the last element its end.
    pub begin: i128,
    pub end: i128,
}

impl Reach {
    pub fn of(
        dtype: DLDataType,
        padded: bool,
        shape: &[i64],
        strides: Option<&[i64]>,
        offset: u64,
    ) -> Option<Reach> {
        if dtype.bits == 0 || dtype.lanes == 0 || shape.iter().any(|extent| *extent < 0) {
            return None;
        }
        if shape.contains(&0) {
            let start = i128::from(offset) * 8;
            return Some(Reach { elements: 0, begin: start, end: start });
        }
        let bits = element_bits(dtype, padded);
        let (mut elements, mut low, mut high) = (1i128, 0i128, 0i128);
        for axis in (0..shape.len()).rev() {
            let extent = i128::from(shape[axis]);
            let stride = match strides {
                Some(strides) => i128::from(strides[axis]),
                None => elements,
            };
            if extent > 1 {
                let reach = (extent - 1).checked_mul(stride)?;
                low += reach.min(0);
                high += reach.max(0);
            }
            elements = elements.checked_mul(extent).filter(|count| *count < 1 << 63)?;
        }
        let begin = low.checked_mul(bits)? + i128::from(offset) * 8;
        let end = high.checked_add(1)?.checked_mul(bits)? + i128::from(offset) * 8;
        Some(Reach { elements, begin, end })
    }

    pub fn bytes(&self) -> std::ops::Range<i128> {
        self.begin.div_euclid(8)..-(-self.end).div_euclid(8)
    }
}

/// Bits from one element to the next.
pub fn element_bits(dtype: DLDataType, padded: bool) -> i128 {
    let bits = i128::from(dtype.bits) * i128::from(dtype.lanes);
    if dtype.bits < 8 && !padded { bits } else { (bits + 7) / 8 * 8 }
}
