//! AArch64.

use std::arch::aarch64::*;

use super::{Lane, Table, Vector};

/// NEON.
#[derive(Clone, Copy)]
pub struct Neon(uint8x16_t);

impl Lane for Neon {
    const SHUFFLES: bool = true;

    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        // SAFETY: as the caller vouches.
        unsafe {
            let value = super::read_part(from, bytes).to_ne_bytes();
            Neon(vld1q_u8(value.as_ptr()))
        }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: as the caller vouches.
        unsafe {
            let mut value = [0; 16];
            vst1q_u8(value.as_mut_ptr(), self.0);
            super::write_part(to, bytes, u128::from_ne_bytes(value));
        }
    }

    #[inline(always)]
    unsafe fn load_halves(low: *const u8, high: *const u8) -> Self {
        // SAFETY: as the caller vouches.
        unsafe { Neon(vcombine_u8(vld1_u8(low), vld1_u8(high))) }
    }

    #[inline(always)]
    unsafe fn store_halves(self, low: *mut u8, high: *mut u8) {
        // SAFETY: as the caller vouches.
        unsafe {
            vst1_u8(low, vget_low_u8(self.0));
            vst1_u8(high, vget_high_u8(self.0));
        }
    }
}

impl Vector for Neon {
    const LANES: usize = 1;
    type Lane = Self;
    type Half = Self;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: as the caller vouches.
        unsafe { Neon(vld1q_u8(from)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: as the caller vouches.
        unsafe { vst1q_u8(to, self.0) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: as the caller vouches.
        unsafe { self.store(to) }
    }

    #[inline(always)]
    unsafe fn from_lanes(lanes: [Self; 4]) -> Self {
        lanes[0]
    }

    #[inline(always)]
    unsafe fn lane(self, _index: usize) -> Self {
        self
    }

    #[inline(always)]
    unsafe fn zip<const SIZE: usize>(self, other: Self) -> (Self, Self) {
        let (a, b) = (self.0, other.0);
        // SAFETY: NEON is always there.
        unsafe {
            match SIZE {
                1 => (Neon(vzip1q_u8(a, b)), Neon(vzip2q_u8(a, b))),
                2 => {
                    let (a, b) = (vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b));
                    let (low, high) = (vzip1q_u16(a, b), vzip2q_u16(a, b));
                    (Neon(vreinterpretq_u8_u16(low)), Neon(vreinterpretq_u8_u16(high)))
                }
                4 => {
                    let (a, b) = (vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b));
                    let (low, high) = (vzip1q_u32(a, b), vzip2q_u32(a, b));
                    (Neon(vreinterpretq_u8_u32(low)), Neon(vreinterpretq_u8_u32(high)))
                }
                _ => {
                    let (a, b) = (vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b));
                    let (low, high) = (vzip1q_u64(a, b), vzip2q_u64(a, b));
                    (Neon(vreinterpretq_u8_u64(low)), Neon(vreinterpretq_u8_u64(high)))
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn exchange(group: [Self; 4]) -> [Self; 4] {
        group
    }

    #[inline(always)]
    unsafe fn shuffle(self, table: &Table) -> Self {
        // SAFETY: NEON is always there; places past the end give zero.
        unsafe { Neon(vqtbl1q_u8(self.0, vld1q_u8(table.as_ptr()))) }
    }
}
