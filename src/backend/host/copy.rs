//! Copies of rows whose elements are moved as they are.

use super::isa::Isa;

/// Copies `n` elements: source, its step in bytes, destination, its step, n.
pub type CopyFn = unsafe fn(*const u8, isize, *mut u8, isize, usize);

/// # Safety
/// `n` elements of `SIZE` bytes are readable and writable at their steps, and do not overlap.
#[inline(always)]
unsafe fn row<const SIZE: usize>(
    source: *const u8,
    source_step: isize,
    destination: *mut u8,
    destination_step: isize,
    n: usize,
) {
    let size = SIZE as isize;
    // SAFETY: index stays below n.
    let copy = |source_step: isize, destination_step: isize| unsafe {
        for index in 0..n as isize {
            let value = source.offset(index * source_step).cast::<[u8; SIZE]>().read();
            destination.offset(index * destination_step).cast::<[u8; SIZE]>().write(value);
        }
    };
    // The same loop with the steps of common views constant, for which it is vectorised.
    if destination_step == size {
        match source_step {
            step if step == size => copy(size, size),
            step if step == -size => copy(-size, size),
            step if step == 2 * size => copy(2 * size, size),
            step if step == 3 * size => copy(3 * size, size),
            step if step == 4 * size => copy(4 * size, size),
            step => copy(step, size),
        }
    } else {
        copy(source_step, destination_step);
    }
}

macro_rules! compiled {
    ($name:ident $($feature:literal)?) => {
        mod $name {
            use super::CopyFn;

            /// # Safety
            /// As [`super::row`]; the processor has the instructions.
            $(#[target_feature(enable = $feature)])?
            unsafe fn row<const SIZE: usize>(
                source: *const u8,
                source_step: isize,
                destination: *mut u8,
                destination_step: isize,
                n: usize,
            ) {
                // SAFETY: as the caller says.
                unsafe { super::row::<SIZE>(source, source_step, destination, destination_step, n) }
            }

            pub fn for_size(size: usize) -> Option<CopyFn> {
                Some(match size {
                    1 => row::<1>,
                    2 => row::<2>,
                    3 => row::<3>,
                    4 => row::<4>,
                    6 => row::<6>,
                    8 => row::<8>,
                    12 => row::<12>,
                    16 => row::<16>,
                    24 => row::<24>,
                    32 => row::<32>,
                    _ => return None,
                })
            }
        }
    };
}

compiled! { baseline }
#[cfg(target_arch = "x86_64")]
compiled! { avx2 "avx2,bmi2" }
#[cfg(target_arch = "x86_64")]
compiled! { avx512 "avx2,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi" }

/// The copy for elements of a size; None: they are copied one by one.
pub fn for_size(isa: Isa, size: usize) -> Option<CopyFn> {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2::for_size(size),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => avx512::for_size(size),
        _ => baseline::for_size(size),
    }
}

/// Copies `n` elements of any size.
///
/// # Safety
/// They are readable and writable at their steps, and do not overlap.
pub unsafe fn one_by_one(
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
