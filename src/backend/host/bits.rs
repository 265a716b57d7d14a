//! Elements that start within a byte. Bit `i` of a tensor is bit `i % 8` of byte `i / 8`, counted from
//! the least significant.

/// Reads at most 8 bits.
///
/// # Safety
/// The bytes that hold them are readable.
pub unsafe fn read(base: *const u8, at: i64, count: u32) -> u8 {
    let shift = (at & 7) as u32;
    // SAFETY: the second byte is read only where it holds some of the bits.
    unsafe {
        let first = base.offset((at >> 3) as isize);
        let mut word = u16::from(first.read());
        if shift + count > 8 {
            word |= u16::from(first.add(1).read()) << 8;
        }
        (word >> shift) as u8 & mask(count)
    }
}

/// Writes at most 8 bits and keeps the others of their bytes.
///
/// # Safety
/// The bytes that hold them are readable and writable.
pub unsafe fn write(base: *mut u8, at: i64, count: u32, value: u8) {
    let shift = (at & 7) as u32;
    let mask = u16::from(mask(count)) << shift;
    let value = u16::from(value) << shift & mask;
    // SAFETY: the second byte is touched only where it holds some of the bits.
    unsafe {
        let first = base.offset((at >> 3) as isize);
        first.write(first.read() & !(mask as u8) | value as u8);
        if shift + count > 8 {
            let second = first.add(1);
            second.write(second.read() & !((mask >> 8) as u8) | (value >> 8) as u8);
        }
    }
}

/// Copies `count` bits, then clears bits up to `room` of them.
///
/// # Safety
/// The bytes that hold them are readable in the source, and readable and writable in the destination.
pub unsafe fn copy(source: *const u8, from: i64, destination: *mut u8, to: i64, count: u64, room: u64) {
    let mut done = 0;
    while done < room {
        let some = (room - done).min(8) as u32;
        let bits = count.saturating_sub(done).min(some.into()) as u32;
        let at = done as i64;
        // SAFETY: all of it is within the caller's element.
        unsafe {
            let value = if bits > 0 { read(source, from + at, bits) } else { 0 };
            write(destination, to + at, some, value);
        }
        done += u64::from(some);
    }
}

fn mask(count: u32) -> u8 {
    ((1u16 << count) - 1) as u8
}
