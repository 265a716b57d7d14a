//! Structs that lie: any bytes as tensors, options, errors and reports, through every function. Only
//! `data` is honest: where a call may touch it, as much memory is there as the struct says.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};

use arraybridge::dlpack::raw::*;
use arraybridge::ffi::{context::*, convert::*, detect::*, dtype::*, managed::*, types::*};

use super::input::Input;
use super::world::*;

/// What a tensor may visit and a call may touch.
const MOST_BYTES: i128 = 1 << 15;
const MOST_ELEMENTS: i128 = 1 << 12;
const DIMS: usize = 66;

/// A tensor that says what the input wants it to say.
struct Liar {
    memory: Room,
    shape: Room,
    strides: Room,
    tensor: DLTensor,
    flags: u64,
    /// Nothing that it says leads outside its memory.
    honest: bool,
    reach: Option<Reach>,
}

impl Liar {
    fn read(input: &mut Input<'_>) -> Liar {
        let dtype = match input.below(4) {
            0 => DLDataType { code: input.u8(), bits: input.u8(), lanes: input.u16() },
            1 => DLDataType { code: input.u8() % 20, bits: 1 << input.below(8), lanes: 1 + input.u16() % 4 },
            _ => input
                .pick(&[
                    (2, 32),
                    (0, 8),
                    (1, 8),
                    (6, 8),
                    (4, 16),
                    (5, 64),
                    (17, 4),
                    (15, 6),
                    (12, 8),
                    (0, 64),
                ])
                .into_dtype(),
        };
        let flags = if input.once_in(4) { input.u64() } else { u64::from(input.u8() % 8) };
        let ndim = match input.u8() {
            most @ 0..=199 => i32::from(most % 6),
            many @ 200..=239 => i32::from(many) - 200 + 24,
            _ => input.number() as i32,
        };
        let axes = usize::try_from(ndim).unwrap_or(0).min(DIMS);
        let numbers = |input: &mut Input<'_>, extents: bool| -> [i64; DIMS] {
            let mut numbers = [1; DIMS];
            let plain = !input.once_in(4);
            for number in &mut numbers[..axes] {
                *number = match plain {
                    true if extents => i64::from(input.u8() % 5),
                    true => i64::from(input.u8() as i8 % 24),
                    false => input.number(),
                };
            }
            numbers
        };
        let extents = numbers(input, true);
        let steps = numbers(input, false);
        let (with_shape, with_strides) = (!input.once_in(16), !input.once_in(3));
        let byte_offset = match input.below(4) {
            0 => input.number() as u64,
            1 => u64::from(input.u8()),
            _ => 0,
        };
        let device_type = match input.below(8) {
            0 => input.number() as i32,
            1 | 2 => input.pick(&[2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 21, 0, -1]),
            _ => 1,
        };
        let device =
            DLDevice { device_type, device_id: if input.once_in(4) { input.number() as i32 } else { 0 } };

        let padded = flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED != 0;
        let well = (0..=64).contains(&ndim) && (with_shape || ndim == 0);
        let reach = well
            .then(|| {
                Reach::of(
                    dtype,
                    padded,
                    &extents[..axes],
                    with_strides.then_some(&steps[..axes]),
                    byte_offset,
                )
            })
            .flatten();
        let fits = reach.as_ref().filter(|reach| {
            let bytes = reach.bytes();
            reach.elements <= MOST_ELEMENTS && bytes.end - bytes.start <= MOST_BYTES
        });
        let honest = fits.is_some();
        let range = fits.map_or(0..16, |reach| reach.bytes());
        // The last bytes of the memory are the last that the tensor reaches.
        let mut memory = Room::new((range.end - range.start) as usize);
        input.fill(memory.bytes());
        let mut data = (memory.start() as i128).wrapping_sub(range.start) as u64 as usize as *mut c_void;
        let mut honest = honest;
        if input.once_in(8) {
            data = if input.once_in(2) { null_mut() } else { input.number() as usize as *mut c_void };
            honest = false;
        }
        let room = |numbers: &[i64; DIMS], odd: bool| {
            // At an address that no number is aligned to, now and then.
            let mut room = Room::new(size_of_val(numbers) + usize::from(odd));
            // SAFETY: the room is as long.
            unsafe { room.start().cast::<[i64; DIMS]>().write_unaligned(*numbers) };
            room
        };
        let odd = input.once_in(8);
        let (mut shape, mut strides) = (room(&extents, odd), room(&steps, odd));
        let tensor = DLTensor {
            data,
            device,
            ndim,
            dtype,
            shape: if with_shape { shape.start().cast() } else { null_mut() },
            strides: if with_strides { strides.start().cast() } else { null_mut() },
            byte_offset,
        };
        Liar { memory, shape, strides, tensor, flags, honest, reach }
    }

    fn state(&mut self) -> Vec<u8> {
        [self.memory.bytes(), self.shape.bytes(), self.strides.bytes()].concat()
    }

    fn touchable(&self) -> bool {
        self.honest
    }
}

trait IntoDtype {
    fn into_dtype(self) -> DLDataType;
}

impl IntoDtype for (u8, u8) {
    fn into_dtype(self) -> DLDataType {
        DLDataType { code: self.0, bits: self.1, lanes: 1 }
    }
}

/// A struct that begins with its size, in memory of just that size.
struct Sized {
    room: Room,
    size: usize,
    known: usize,
}

impl Sized {
    fn read(input: &mut Input<'_>, known: usize) -> Sized {
        let size = match input.below(6) {
            0 => input.number() as u32,
            1 => input.u16().into(),
            2 => known as u32 + u32::from(input.u8()),
            _ => known as u32,
        };
        // No more is read than a struct of this ABI can have.
        let bytes = (size as usize).clamp(4, 4096);
        let mut room = Room::new(bytes);
        // SAFETY: there are 4 bytes.
        unsafe { room.start().cast::<u32>().write_unaligned(size) };
        Sized { room, size: size as usize, known }
    }

    fn pointer<T>(&mut self) -> *mut T {
        self.room.start().cast()
    }

    /// Says any bytes behind its size.
    fn garble(&mut self, input: &mut Input<'_>) {
        let from =
            if self.size > self.known && !input.once_in(3) { self.known } else { self.room.bytes().len() };
        let bytes = self.room.bytes();
        let end = from.min(bytes.len());
        input.fill(&mut bytes[4..end.max(4)]);
    }

    fn is_valid(&self) -> bool {
        (self.known..=4096).contains(&self.size)
    }
}

/// The error of a call, possibly malformed or absent.
struct Fault(Option<Sized>);

impl Fault {
    fn read(input: &mut Input<'_>) -> Fault {
        if input.once_in(4) {
            return Fault(None);
        }
        let mut fault = Sized::read(input, size_of::<ab_error>());
        let bytes = fault.room.bytes();
        bytes[4..].fill(0xee);
        Fault(Some(fault))
    }

    fn pointer(&mut self) -> *mut ab_error {
        self.0.as_mut().map_or(null_mut(), |fault| fault.pointer())
    }

    /// Checks what a call left there.
    fn check(&mut self, status: i32) {
        check_status(status);
        let Some(fault) = &mut self.0 else { return };
        if !fault.is_valid() {
            assert_eq!(status, AB_E_INVALID_ARGUMENT);
            assert!(
                fault.room.bytes()[4..].iter().all(|byte| *byte == 0xee),
                "a struct of no known size was written"
            );
            return;
        }
        // SAFETY: it is as long as an ab_error.
        let error = unsafe { fault.room.start().cast::<ab_error>().read_unaligned() };
        let known = size_of::<ab_error>();
        assert!(
            fault.room.bytes()[known..].iter().all(|byte| *byte == 0xee),
            "bytes that are not known were written"
        );
        assert_eq!(error.struct_size as usize, fault.size);
        check_error(&error, status);
    }
}

fn read_options(input: &mut Input<'_>, allocator: &mut ab_allocator) -> Option<Sized> {
    if input.once_in(8) {
        return None;
    }
    let mut given = Sized::read(input, size_of::<ab_convert_options>());
    if input.once_in(6) {
        given.garble(input);
    } else if given.size >= size_of::<ab_convert_options>() && given.size <= 4096 {
        let mut options = options();
        options.struct_size = given.size as u32;
        if input.once_in(2) {
            let numbers = [
                (2, 32),
                (0, 8),
                (0, 16),
                (1, 64),
                (6, 8),
                (4, 16),
                (5, 128),
                (17, 4),
                (15, 6),
                (9, 8),
                (14, 8),
            ];
            options.dtype = input.pick(&numbers).into_dtype();
            options.dtype.lanes = 1 + u16::from(input.once_in(4));
        }
        if input.once_in(4) {
            options.dtype = DLDataType { code: input.u8(), bits: input.u8(), lanes: input.u16() };
        }
        if input.once_in(4) {
            let device_type = input.pick(&[1, 1, 2, 3, 4, 7, 13, 15, 99, -1]);
            options.device =
                DLDevice { device_type, device_id: if input.once_in(3) { input.number() as i32 } else { 0 } };
        }
        options.copy = if input.once_in(12) { input.number() as i32 } else { input.below(3) as i32 };
        options.layout = if input.once_in(12) { input.number() as i32 } else { input.below(4) as i32 };
        options.casting = if input.once_in(12) { input.number() as i32 } else { input.below(4) as i32 };
        options.flags = if input.once_in(12) { input.u32() } else { input.u32() % 16 };
        options.alignment = if input.once_in(12) { input.u32() } else { 1 << input.below(13) };
        options.consumers = if input.once_in(4) { 1 << input.below(10) } else { 0 };
        if input.once_in(12) {
            options.consumers = input.u32();
        }
        if input.once_in(8) {
            (options.src_stream, options.dst_stream) = (input.number(), input.number());
        }
        if input.once_in(8) {
            options.allocator = allocator;
        }
        // SAFETY: the struct is as long.
        unsafe { given.pointer::<ab_convert_options>().write_unaligned(options) };
    }
    // What leads to memory must: an alignment is an extent too, and an allocator a pointer.
    if given.size >= 64 {
        // SAFETY: as above.
        unsafe {
            let options: *mut ab_convert_options = given.pointer();
            let mut read = options.read_unaligned();
            if read.alignment > 1 << 16 && read.alignment.is_power_of_two() {
                read.alignment = 1 << 16;
            }
            if !std::ptr::eq(read.allocator, allocator) {
                read.allocator = null();
            }
            if cfg!(miri) {
                // It knows no system call that looks at page tables.
                read.flags &= !AB_CONVERT_VERIFY_POINTER;
            }
            options.write_unaligned(read);
        }
    }
    Some(given)
}

/// An allocator that hands out heap memory, or none, or memory that is not aligned.
struct Heap {
    kind: usize,
    live: usize,
}

const HEADER: usize = 1 << 17;

unsafe extern "C" fn allocate(
    user: *mut c_void,
    _: i32,
    _: i32,
    size: usize,
    alignment: usize,
    _: i64,
) -> *mut c_void {
    // SAFETY: it is a Heap.
    let heap = unsafe { &mut *user.cast::<Heap>() };
    let skew = match heap.kind {
        0 => return null_mut(),
        1 => 1,
        _ => 0,
    };
    assert!(alignment.is_power_of_two() && size > 0);
    heap.live += 1;
    let layout = std::alloc::Layout::from_size_align(size + HEADER, HEADER).unwrap();
    // SAFETY: the layout is not empty; a multiple of every alignment lies at its end and its start.
    unsafe { std::alloc::alloc(layout).add(skew).cast() }
}

unsafe extern "C" fn deallocate(
    user: *mut c_void,
    _: i32,
    _: i32,
    pointer: *mut c_void,
    size: usize,
    _: i64,
) {
    // SAFETY: it is a Heap's memory.
    unsafe {
        let heap = &mut *user.cast::<Heap>();
        heap.live -= 1;
        let layout = std::alloc::Layout::from_size_align(size + HEADER, HEADER).unwrap();
        std::alloc::dealloc(pointer.cast::<u8>().sub(usize::from(heap.kind == 1)), layout);
    }
}

/// Reads every byte that a result on the host says it has.
fn read_all(tensor: &DLTensor, flags: u64) {
    let ndim = tensor.ndim as usize;
    assert!(ndim == 0 || (!tensor.shape.is_null() && !tensor.strides.is_null()));
    if ndim == 0 && tensor.shape.is_null() {
        return;
    }
    // SAFETY: results have as many numbers as axes.
    let (shape, strides) = unsafe {
        (std::slice::from_raw_parts(tensor.shape, ndim), std::slice::from_raw_parts(tensor.strides, ndim))
    };
    let padded = flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED != 0;
    let reach =
        Reach::of(tensor.dtype, padded, shape, Some(strides), tensor.byte_offset).expect("a result is valid");
    if reach.elements == 0 {
        assert!(tensor.data.is_null(), "an empty result with data");
        return;
    }
    if matches!(tensor.device.device_type, 1 | 3 | 11 | 13) {
        assert_eq!(tensor.byte_offset, 0);
        let range = reach.bytes();
        // SAFETY: the result is as long as it says, or a checker of memory tells.
        let bytes = unsafe {
            let start = tensor.data.cast::<u8>().offset(range.start as isize);
            std::slice::from_raw_parts(start, (range.end - range.start) as usize)
        };
        std::hint::black_box(bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
    }
}

pub fn run(bytes: &[u8]) {
    without_drivers();
    let mut input = Input::new(bytes);
    let mut context = null_mut();
    while !input.is_empty() {
        one_call(&mut input, &mut context);
    }
    // SAFETY: it is ours, or NULL.
    unsafe { ab_context_release(context) };
}

fn one_call(input: &mut Input<'_>, context: &mut *mut ab_context) {
    let what = input.below(13);
    let mut fault = Fault::read(input);
    let error = fault.pointer();
    match what {
        0..=5 => with_tensor(what, input, *context, &mut fault),
        6 => {
            let mut given = Sized::read(input, size_of::<ab_context_options>());
            given.garble(input);
            let mut made = null_mut();
            // SAFETY: the structs are as long as they say.
            let status = unsafe { ab_context_create(given.pointer(), &mut made, error) };
            fault.check(status);
            assert_eq!(made.is_null(), status != AB_OK);
            if status == AB_OK {
                // SAFETY: nobody uses the one before.
                unsafe { ab_context_release(std::mem::replace(context, made)) };
            }
        }
        7 | 8 => {
            let known = if what == 7 { size_of::<ab_backend_info>() } else { size_of::<ab_device_info>() };
            let mut first = Sized::read(input, known);
            let capacity = input.below(5);
            let mut all = Room::new(first.room.bytes().len() * capacity.max(1));
            let size = first.room.bytes().len();
            all.bytes()[..size].copy_from_slice(first.room.bytes());
            let mut count = usize::MAX;
            let out = if input.once_in(8) { null_mut() } else { all.start() };
            let count_at = if input.once_in(8) { null_mut() } else { &raw mut count };
            // SAFETY: the array has as many structs of the size that the first says.
            let status = unsafe {
                if what == 7 {
                    ab_list_backends(*context, out.cast(), capacity, count_at, error)
                } else {
                    ab_list_devices(*context, out.cast(), capacity, count_at, error)
                }
            };
            fault.check(status);
            assert!(status != AB_OK || count < 100);
        }
        9 => {
            let mut info = Sized::read(input, size_of::<ab_pointer_info>());
            info.garble(input);
            let address = input.number() as usize as *const c_void;
            if cfg!(miri) {
                // As above.
                return;
            }
            // SAFETY: any address will do.
            let status = unsafe { ab_detect_pointer(*context, address, info.pointer(), error) };
            fault.check(status);
        }
        10 => {
            let mut report = Sized::read(input, size_of::<ab_report>());
            report.garble(input);
            let mut text = Room::new(input.below(300));
            let (place, capacity) = (text.start().cast::<c_char>(), text.bytes().len());
            // SAFETY: the structs are as long as they say.
            let length = unsafe { ab_report_describe(report.pointer(), place, capacity) };
            assert!(length < 4096);
            if capacity > 0 {
                let line = CStr::from_bytes_until_nul(text.bytes()).expect("an end");
                assert!(line.to_bytes().len() <= length);
            }
            // SAFETY: any number is a status.
            unsafe { CStr::from_ptr(ab_status_name(input.number() as i32)) }.to_str().unwrap();
        }
        11 => {
            let dtype = DLDataType { code: input.u8(), bits: input.u8(), lanes: input.u16() };
            let mut text = Room::new(input.below(64));
            let (place, capacity) = (text.start().cast::<c_char>(), text.bytes().len());
            // SAFETY: the text has so much room.
            let length = unsafe { ab_dtype_format(&dtype, place, capacity) };
            assert!(length < 64);
        }
        _ => {
            let mut name = input.array::<24>().to_vec();
            name.push(0);
            let mut dtype = DLDataType { code: 9, bits: 99, lanes: 999 };
            let before = dtype;
            // SAFETY: the text ends.
            let status = unsafe { ab_dtype_parse(name.as_ptr().cast(), &mut dtype, error) };
            fault.check(status);
            assert!(status == AB_OK || dtype == before);
        }
    }
}

fn with_tensor(what: usize, input: &mut Input<'_>, context: *mut ab_context, fault: &mut Fault) {
    let error = fault.pointer();
    let mut liar = Liar::read(input);
    let before = liar.state();
    let (tensor, flags) = (liar.tensor, liar.flags);
    let mut source = Source::new(tensor, flags);
    if input.once_in(16) {
        source.versioned.version.major = input.u32();
    }
    if input.once_in(16) {
        source.versioned.deleter = None;
    }
    let has_deleter = source.versioned.deleter.is_some();
    match what {
        0 => {
            let mut info = Sized::read(input, size_of::<ab_tensor_info>());
            // SAFETY: the structs are as long as they say.
            let status = unsafe { ab_detect(&tensor, flags, info.pointer(), error) };
            fault.check(status);
            if status == AB_OK {
                // SAFETY: it is as long.
                let info = unsafe { info.pointer::<ab_tensor_info>().read_unaligned() };
                check_info(&liar, &info);
            }
        }
        1 | 2 => {
            let mut heap = Heap { kind: input.below(4), live: 0 };
            let user = (&raw mut heap).cast();
            let mut allocator = ab_allocator { user, allocate: Some(allocate), deallocate: Some(deallocate) };
            if input.once_in(16) {
                allocator.deallocate = None;
            }
            let mut given = read_options(input, &mut allocator);
            let options = given.as_mut().map_or(null(), |given| given.pointer::<ab_convert_options>());
            let mut report = Sized::read(input, size_of::<ab_report>());
            let report_at = if input.once_in(4) { null_mut() } else { report.pointer() };
            let mut own = self::error();
            // SAFETY: the structs are as long as they say; data is not touched.
            let planned = unsafe { ab_plan(context, &tensor, flags, options, null_mut(), &mut own) };
            check_error(&own, planned);
            if !liar.touchable() {
                return;
            }
            let mut out = std::ptr::dangling_mut::<DLManagedTensorVersioned>();
            // SAFETY: besides, the memory is as long as the struct says.
            let status = unsafe {
                if what == 1 {
                    ab_convert(context, &mut source.versioned, options, &mut out, report_at, error)
                } else {
                    ab_copy(context, &tensor, flags, options, &mut out, report_at, error)
                }
            };
            fault.check(status);
            assert_eq!(out.is_null(), status != AB_OK);
            assert_eq!(liar.state(), before, "the source was written to");
            if what == 1 && status == AB_OK {
                assert_eq!(planned, AB_OK, "converted what the plan refuses");
            }
            if status != AB_OK {
                assert_eq!(source.deleted.get(), 0, "deleted after a failure");
                assert_eq!(heap.live, 0);
                return;
            }
            // SAFETY: it is a result.
            unsafe {
                read_all(&(*out).dl_tensor, (*out).flags);
                ab_release(out);
            }
            assert_eq!(source.deleted.get(), u32::from(what == 1 && has_deleter));
            assert_eq!(heap.live, 0, "memory was not given back");
        }
        3 => {
            let mut other = Liar::read(input);
            if !liar.touchable() || !other.touchable() {
                return;
            }
            let mut given =
                read_options(input, &mut ab_allocator { user: null_mut(), allocate: None, deallocate: None });
            let options = given.as_mut().map_or(null(), |given| given.pointer::<ab_convert_options>());
            let dims = [other.shape.bytes().to_vec(), other.strides.bytes().to_vec()];
            let memory = other.memory.bytes().to_vec();
            // SAFETY: both are as long as they say.
            let status = unsafe {
                ab_copy_into(context, &tensor, flags, &other.tensor, other.flags, options, null_mut(), error)
            };
            fault.check(status);
            assert_eq!(liar.state(), before, "the source was written to");
            assert_eq!([other.shape.bytes().to_vec(), other.strides.bytes().to_vec()], dims);
            assert!(
                matches!(status, AB_OK | AB_E_LOSSY) || other.memory.bytes() == memory,
                "a failure changed the destination"
            );
        }
        4 => {
            let mut out = std::ptr::dangling_mut::<DLManagedTensorVersioned>();
            let owner = source.deleted.context();
            // SAFETY: the structs are as long as they say.
            let status = unsafe { ab_wrap(&tensor, flags, owner, Some(count), &mut out, error) };
            fault.check(status);
            assert_eq!(out.is_null(), status != AB_OK);
            if status == AB_OK {
                // SAFETY: it is a result.
                unsafe {
                    if liar.touchable() {
                        read_all(&(*out).dl_tensor, (*out).flags);
                    }
                    ab_release(out);
                }
            }
            assert_eq!(source.deleted.get(), u32::from(status == AB_OK));
        }
        _ => {
            let mut versioned = std::ptr::dangling_mut::<DLManagedTensorVersioned>();
            let mut legacy = std::ptr::dangling_mut::<DLManagedTensor>();
            // SAFETY: the structs are as long as they say.
            let status = unsafe { ab_to_legacy(&mut source.versioned, &mut legacy, error) };
            fault.check(status);
            assert_eq!(legacy.is_null(), status != AB_OK);
            // SAFETY: it is a result, or NULL.
            unsafe { ab_release_legacy(legacy) };
            let deleted = u32::from(status == AB_OK && has_deleter);
            assert_eq!(source.deleted.get(), deleted);
            // SAFETY: the structs are as long as they say.
            let status = unsafe { ab_from_legacy(&mut source.legacy, &mut versioned, error) };
            fault.check(status);
            assert_eq!(versioned.is_null(), status != AB_OK);
            // SAFETY: it is a result, or NULL.
            unsafe { ab_release(versioned) };
            assert_eq!(source.deleted.get(), deleted + u32::from(status == AB_OK));
        }
    }
    assert_eq!(liar.state(), before);
}

/// What ab_detect says against what the struct says.
fn check_info(liar: &Liar, info: &ab_tensor_info) {
    let reach = liar.reach.as_ref().expect("what is accepted is well-formed");
    assert_eq!(i128::from(info.num_elements), reach.elements);
    assert_eq!(info.flags & AB_TENSOR_EMPTY != 0, reach.elements == 0);
    assert_eq!(info.ndim, liar.tensor.ndim);
    assert_eq!(info.dtype, liar.tensor.dtype);
    if reach.elements == 0 {
        return;
    }
    let bytes = reach.bytes();
    assert_eq!((i128::from(info.begin_offset), i128::from(info.end_offset)), (bytes.start, bytes.end));
    if reach.elements > 512 {
        return;
    }
    let ndim = liar.tensor.ndim as usize;
    // SAFETY: there are so many numbers, wherever they are.
    let number = |from: *mut i64, axis: usize| unsafe { from.add(axis).read_unaligned() };
    let shape: Vec<i64> = (0..ndim).map(|axis| number(liar.tensor.shape, axis)).collect();
    let mut strides = vec![1; ndim];
    for axis in (0..ndim.saturating_sub(1)).rev() {
        strides[axis] = strides[axis + 1] * shape[axis + 1];
    }
    if !liar.tensor.strides.is_null() {
        strides = (0..ndim).map(|axis| number(liar.tensor.strides, axis)).collect();
    }
    // Every element, one by one, in row-major order.
    let mut offsets = vec![0i64];
    for (extent, stride) in shape.iter().zip(&strides) {
        let steps = |offset: &i64| {
            let offset = *offset;
            (0..*extent).map(move |index| if index == 0 { offset } else { offset + index * stride })
        };
        offsets = offsets.iter().flat_map(steps).collect();
    }
    let row_major = offsets.iter().enumerate().all(|(index, offset)| *offset == index as i64);
    assert_eq!(info.flags & AB_TENSOR_C_CONTIGUOUS != 0, row_major);
    let mut sorted = offsets.clone();
    sorted.sort_unstable();
    let distinct = sorted.windows(2).all(|pair| pair[0] != pair[1]);
    assert_eq!(info.flags & AB_TENSOR_OVERLAPPING == 0, distinct, "{shape:?} {strides:?}");
    let dense = distinct && sorted[0] == 0 && sorted[sorted.len() - 1] == sorted.len() as i64 - 1;
    assert_eq!(info.flags & AB_TENSOR_DENSE != 0, dense);
}
