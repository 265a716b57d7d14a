//! Copies of rows whose elements are moved as they are.

/// Copies `n` elements: source, its step in bytes, destination, its step, n, bytes of an element.
pub type CopyFn = unsafe fn(*const u8, isize, *mut u8, isize, usize, usize);

/// # Safety
/// `n` elements of `SIZE` bytes are readable and writable at their steps, and do not overlap.
unsafe fn sized<const SIZE: usize>(
    source: *const u8,
    source_step: isize,
    destination: *mut u8,
    destination_step: isize,
    n: usize,
    _size: usize,
) {
    // SAFETY: index stays below n.
    unsafe {
        for index in 0..n as isize {
            let value = source.offset(index * source_step).cast::<[u8; SIZE]>().read();
            destination.offset(index * destination_step).cast::<[u8; SIZE]>().write(value);
        }
    }
}

/// # Safety
/// As [`sized`], with `size` bytes.
unsafe fn any_size(
    source: *const u8,
    source_step: isize,
    destination: *mut u8,
    destination_step: isize,
    n: usize,
    size: usize,
) {
    // SAFETY: index stays below n.
    unsafe {
        for index in 0..n as isize {
            let from = source.offset(index * source_step);
            from.copy_to_nonoverlapping(destination.offset(index * destination_step), size);
        }
    }
}

/// The copy for elements of a size.
pub fn for_size(size: usize) -> CopyFn {
    match size {
        1 => sized::<1>,
        2 => sized::<2>,
        3 => sized::<3>,
        4 => sized::<4>,
        6 => sized::<6>,
        8 => sized::<8>,
        12 => sized::<12>,
        16 => sized::<16>,
        24 => sized::<24>,
        32 => sized::<32>,
        _ => any_size,
    }
}
