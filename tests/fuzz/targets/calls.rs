//! Sequences of calls: whatever is converted, wrapped, bridged and released in whatever order, each
//! owner is told once, and what lives on keeps its values.

use std::ffi::c_void;
use std::ptr::null_mut;

use arraybridge::dlpack::raw::*;
use arraybridge::ffi::{context::*, convert::*, managed::*, types::*};

use super::input::Input;
use super::world::*;

/// A tensor that the caller owns now.
enum Held {
    Versioned(*mut DLManagedTensorVersioned),
    Legacy(*mut DLManagedTensor),
}

struct Live {
    held: Held,
    /// What element i must be: this, plus i.
    first: u8,
    /// The owner that is told when it goes, by its place; None: the library's own memory.
    owner: Option<usize>,
}

/// Memory of ours, and how often we were told that it is free.
struct Owner {
    memory: Vec<u8>,
    told: Counter,
}

const ROWS: usize = 4;
const COLUMNS: usize = 6;
static SHAPE: [i64; 2] = [ROWS as i64, COLUMNS as i64];
static STRIDES: [i64; 2] = [COLUMNS as i64, 1];

/// The caller's allocator: how much of it is out.
struct Arena {
    out: Vec<(usize, std::alloc::Layout)>,
    /// Fails when 0.
    left: usize,
}

unsafe extern "C" fn allocate(
    user: *mut c_void,
    _: i32,
    _: i32,
    size: usize,
    align: usize,
    _: i64,
) -> *mut c_void {
    // SAFETY: it is an Arena.
    let arena = unsafe { &mut *user.cast::<Arena>() };
    if arena.left == 0 {
        return null_mut();
    }
    arena.left -= 1;
    let layout = std::alloc::Layout::from_size_align(size, align).unwrap();
    // SAFETY: the size is not 0.
    let pointer = unsafe { std::alloc::alloc(layout) };
    arena.out.push((pointer as usize, layout));
    pointer.cast()
}

unsafe extern "C" fn deallocate(
    user: *mut c_void,
    _: i32,
    _: i32,
    pointer: *mut c_void,
    size: usize,
    _: i64,
) {
    // SAFETY: it is an Arena.
    let arena = unsafe { &mut *user.cast::<Arena>() };
    let at = arena.out.iter().position(|(address, _)| *address == pointer as usize).expect("ours, and once");
    let (_, layout) = arena.out.swap_remove(at);
    assert_eq!(layout.size(), size);
    // SAFETY: it came from allocate.
    unsafe { std::alloc::dealloc(pointer.cast(), layout) };
}

pub fn run(bytes: &[u8]) {
    without_drivers();
    let mut input = Input::new(bytes);
    let mut owners: Vec<Owner> = Vec::new();
    let mut live: Vec<Live> = Vec::new();
    let mut contexts: Vec<*mut ab_context> = vec![null_mut()];
    let mut arena = Arena { out: Vec::new(), left: usize::MAX };
    let user = (&raw mut arena).cast::<c_void>();
    let allocator = ab_allocator { user, allocate: Some(allocate), deallocate: Some(deallocate) };
    let mut steps = 0;
    while !input.is_empty() && steps < 400 {
        steps += 1;
        let context = input.pick(&contexts);
        match input.below(10) {
            0 | 1 => begin(&mut input, &mut owners, &mut live),
            2..=4 if !live.is_empty() => {
                let at = input.below(live.len());
                // SAFETY: fields of our own.
                unsafe { (*user.cast::<Arena>()).left = if input.once_in(8) { 0 } else { usize::MAX } };
                convert(&mut input, context, &mut live[at], &owners, &allocator);
            }
            5 if !live.is_empty() => {
                let at = input.below(live.len());
                bridge(&mut live[at], &owners);
            }
            6 | 7 if !live.is_empty() => {
                let at = input.below(live.len());
                let gone = live.swap_remove(at);
                release(gone, &owners);
            }
            8 if contexts.len() < 5 => {
                let options = ab_context_options {
                    struct_size: 16,
                    num_threads: input.u8().into(),
                    staging_bytes: input.u64(),
                };
                let mut made = null_mut();
                // SAFETY: the struct is whole.
                assert_eq!(unsafe { ab_context_create(&options, &mut made, null_mut()) }, AB_OK);
                contexts.push(made);
            }
            9 if contexts.len() > 1 => {
                let at = 1 + input.below(contexts.len() - 1);
                // SAFETY: it is ours, and released once.
                unsafe { ab_context_release(contexts.swap_remove(at)) };
            }
            _ => live.iter().for_each(check),
        }
    }
    // SAFETY: as above.
    contexts.into_iter().for_each(|context| unsafe { ab_context_release(context) });
    live.iter().for_each(check);
    while let Some(gone) = live.pop() {
        release(gone, &owners);
    }
    assert!(owners.iter().all(|owner| owner.told.get() == 1), "an owner was told never, or twice");
    assert!(arena.out.is_empty(), "memory was not given back");
}

unsafe extern "C" fn tell(owner: *mut c_void) {
    // SAFETY: it is an owner's counter.
    unsafe { count(owner) };
}

unsafe extern "C" fn delete_versioned(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: it is the box of begin().
    let tensor = unsafe { Box::from_raw(tensor) };
    // SAFETY: as above.
    unsafe { count(tensor.manager_ctx) };
}

unsafe extern "C" fn delete_legacy(tensor: *mut DLManagedTensor) {
    // SAFETY: it is the box of begin().
    let tensor = unsafe { Box::from_raw(tensor) };
    // SAFETY: as above.
    unsafe { count(tensor.manager_ctx) };
}

/// Makes a tensor over memory of ours, in one of three ways.
fn begin(input: &mut Input<'_>, owners: &mut Vec<Owner>, live: &mut Vec<Live>) {
    let first = input.u8();
    let memory = (0..ROWS * COLUMNS).map(|index| first.wrapping_add(index as u8)).collect();
    let owner = Owner { memory, told: Counter::new() };
    let tensor = DLTensor {
        data: owner.memory.as_ptr().cast_mut().cast(),
        device: DLDevice { device_type: input.pick(&[1, 1, 3, 13]), device_id: 0 },
        ndim: 2,
        dtype: DLDataType { code: 1, bits: 8, lanes: 1 },
        shape: SHAPE.as_ptr().cast_mut(),
        strides: STRIDES.as_ptr().cast_mut(),
        byte_offset: 0,
    };
    let counter = owner.told.context();
    let flags = if input.once_in(8) { DLPACK_FLAG_BITMASK_READ_ONLY } else { 0 };
    let held = match input.below(3) {
        0 => {
            let mut out = null_mut();
            // SAFETY: the memory lives as long as the owner is kept.
            let status = unsafe { ab_wrap(&tensor, flags, counter, Some(tell), &mut out, null_mut()) };
            assert_eq!(status, AB_OK);
            Held::Versioned(out)
        }
        1 => Held::Versioned(Box::into_raw(Box::new(DLManagedTensorVersioned {
            version: DLPackVersion { major: 1, minor: input.u8().into() },
            manager_ctx: counter,
            deleter: Some(delete_versioned),
            flags,
            dl_tensor: tensor,
        }))),
        _ => Held::Legacy(Box::into_raw(Box::new(DLManagedTensor {
            dl_tensor: tensor,
            manager_ctx: counter,
            deleter: Some(delete_legacy),
        }))),
    };
    live.push(Live { held, first, owner: Some(owners.len()) });
    owners.push(owner);
}

fn told(owners: &[Owner], live: &Live) -> u32 {
    live.owner.map_or(0, |owner| owners[owner].told.get())
}

fn convert(
    input: &mut Input<'_>,
    context: *mut ab_context,
    live: &mut Live,
    owners: &[Owner],
    allocator: &ab_allocator,
) {
    let Held::Versioned(source) = live.held else { return };
    let mut options = options();
    options.copy = input.below(3) as i32;
    options.layout = input.below(4) as i32;
    options.flags = if input.once_in(4) { AB_CONVERT_WRITABLE } else { 0 };
    options.device.device_type = i32::from(input.once_in(2));
    let widths: [(u8, u8); 6] = [(0, 0), (1, 8), (1, 16), (0, 32), (2, 32), (2, 64)];
    let (code, bits) = input.pick(&widths);
    options.dtype = DLDataType { code, bits, lanes: 1 };
    if input.once_in(2) {
        options.allocator = allocator;
    }
    let (mut out, mut fault) = (null_mut(), error());
    let copies = input.once_in(4);
    // SAFETY: the source is ours.
    let status = unsafe {
        if copies {
            let (tensor, flags) = (&raw const (*source).dl_tensor, (*source).flags);
            ab_copy(context, tensor, flags, &options, &mut out, null_mut(), &mut fault)
        } else {
            ab_convert(context, source, &options, &mut out, null_mut(), &mut fault)
        }
    };
    check_error(&fault, status);
    assert_eq!(out.is_null(), status != AB_OK);
    if status != AB_OK {
        check(live);
        return;
    }
    // SAFETY: it is a result.
    let copied = unsafe { (*out).flags } & DLPACK_FLAG_BITMASK_IS_COPIED != 0;
    if copies {
        let was = Live { held: Held::Versioned(out), first: live.first, owner: None };
        check(&was);
        release(was, owners);
        return check(live);
    }
    live.held = Held::Versioned(out);
    if copied {
        assert_eq!(
            told(owners, live),
            u32::from(live.owner.is_some()),
            "its owner is told when it is copied"
        );
        live.owner = None;
    } else {
        assert_eq!(told(owners, live), 0);
    }
    check(live);
}

/// To the other generation.
fn bridge(live: &mut Live, owners: &[Owner]) {
    let mut fault = error();
    match live.held {
        Held::Versioned(source) => {
            let mut out = null_mut();
            // SAFETY: the source is ours.
            let status = unsafe { ab_to_legacy(source, &mut out, &mut fault) };
            check_error(&fault, status);
            assert!(matches!(status, AB_OK | AB_E_READ_ONLY));
            if status == AB_OK {
                live.held = Held::Legacy(out);
            }
        }
        Held::Legacy(source) => {
            let mut out = null_mut();
            // SAFETY: the source is ours.
            let status = unsafe { ab_from_legacy(source, &mut out, &mut fault) };
            check_error(&fault, status);
            assert_eq!(status, AB_OK);
            live.held = Held::Versioned(out);
        }
    }
    assert_eq!(told(owners, live), 0);
    check(live);
}

fn release(live: Live, owners: &[Owner]) {
    assert_eq!(told(owners, &live), 0);
    // SAFETY: it is ours, and released once.
    unsafe {
        match live.held {
            Held::Versioned(tensor) => ab_release(tensor),
            Held::Legacy(tensor) => ab_release_legacy(tensor),
        }
    }
    assert_eq!(told(owners, &live), u32::from(live.owner.is_some()));
}

/// Every element is what it was made as.
fn check(live: &Live) {
    // SAFETY: what is held is valid.
    let tensor = unsafe {
        match live.held {
            Held::Versioned(tensor) => (*tensor).dl_tensor,
            Held::Legacy(tensor) => (*tensor).dl_tensor,
        }
    };
    assert_eq!((tensor.ndim, tensor.byte_offset), (2, 0));
    for index in 0..ROWS * COLUMNS {
        let expected = live.first.wrapping_add(index as u8);
        // SAFETY: the tensor is as large as it says.
        let value = unsafe {
            let (row, column) = ((index / COLUMNS) as isize, (index % COLUMNS) as isize);
            let at = row * *tensor.strides as isize + column * *tensor.strides.add(1) as isize;
            let data = tensor.data;
            match (tensor.dtype.code, tensor.dtype.bits) {
                (1, 8) => f64::from(*data.cast::<u8>().offset(at)),
                (1, 16) => f64::from(*data.cast::<u16>().offset(at)),
                (0, 32) => f64::from(*data.cast::<i32>().offset(at)),
                (2, 32) => f64::from(*data.cast::<f32>().offset(at)),
                _ => *data.cast::<f64>().offset(at),
            }
        };
        assert_eq!(value, f64::from(expected));
    }
}
