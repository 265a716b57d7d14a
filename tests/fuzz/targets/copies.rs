//! Pairs of valid tensors: what is copied, cast and rearranged is what a loop over the elements gives, to
//! the bit, and nothing beside it changes.

use std::ffi::CStr;
use std::ptr::null_mut;

use arraybridge::dlpack::raw::*;
use arraybridge::dtype::Scalar;
use arraybridge::ffi::{convert::*, managed::*, types::*};

use super::input::Input;
use super::values;
use super::world::*;

/// Elements of a tensor, lanes counted, at most.
const MOST: i64 = 1024;

struct Array {
    memory: Room,
    dtype: DLDataType,
    padded: bool,
    strides: Vec<i64>,
    byte_offset: u64,
    /// Bytes from `data` to the first that is used.
    begin: i128,
}

/// Strides that let no two indices meet, unless they may be 0.
fn strides(input: &mut Input<'_>, shape: &[i64], broadcasts: bool) -> Vec<i64> {
    let mut order: Vec<usize> = (0..shape.len()).rev().collect();
    if !input.once_in(3) {
        for last in (1..order.len()).rev() {
            order.swap(last, input.below(last + 1));
        }
    }
    let plain = input.once_in(2);
    let mut strides = vec![0; shape.len()];
    let mut reach = 1;
    for axis in order {
        let gap = if plain { 0 } else { i64::from(input.u8() % 3) };
        let step = reach + gap;
        let sign = if !plain && input.once_in(4) { -1 } else { 1 };
        strides[axis] = step * sign;
        if broadcasts && !plain && input.once_in(8) {
            strides[axis] = 0;
            continue;
        }
        reach = step * shape[axis].max(1);
    }
    strides
}

impl Array {
    fn read(input: &mut Input<'_>, dtype: DLDataType, shape: &[i64], is_source: bool) -> Option<Array> {
        let padded = dtype.bits < 8 && input.once_in(2);
        let strides = strides(input, shape, is_source);
        let byte_offset = if input.once_in(4) { u64::from(input.u8()) } else { 0 };
        let range = Reach::of(dtype, padded, shape, Some(&strides), byte_offset)?.bytes();
        if range.end - range.start > 1 << 18 {
            return None;
        }
        let mut memory = Room::new((range.end - range.start).max(1) as usize);
        input.fill(memory.bytes());
        Some(Array { memory, dtype, padded, strides, byte_offset, begin: range.start })
    }

    fn flags(&self) -> u64 {
        if self.padded { DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED } else { 0 }
    }

    fn tensor(&mut self, shape: &[i64]) -> DLTensor {
        DLTensor {
            data: (self.memory.start() as i128 - self.begin) as u64 as usize as *mut _,
            device: DLDevice { device_type: 1, device_id: 0 },
            ndim: shape.len() as i32,
            dtype: self.dtype,
            shape: shape.as_ptr().cast_mut(),
            strides: self.strides.as_ptr().cast_mut(),
            byte_offset: self.byte_offset,
        }
    }

    /// The first bit of an element in the memory.
    fn bit(&self, index: &[i64]) -> usize {
        let steps: i64 = index.iter().zip(&self.strides).map(|(index, stride)| index * stride).sum();
        let bits = i128::from(steps) * element_bits(self.dtype, self.padded);
        (bits + (i128::from(self.byte_offset) - self.begin) * 8) as usize
    }

    fn storage(&self) -> usize {
        element_bits(self.dtype, self.padded) as usize
    }
}

/// Up to 64 bits that start anywhere.
fn get(bytes: &[u8], start: usize, bits: usize) -> u64 {
    if start.is_multiple_of(8) && bits.is_multiple_of(8) {
        let bytes = &bytes[start / 8..][..bits / 8];
        return bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
    }
    (0..bits).fold(0, |value, bit| {
        let at = start + bit;
        value | u64::from(bytes[at / 8] >> (at % 8) & 1) << bit
    })
}

fn put(bytes: &mut [u8], start: usize, bits: usize, value: u64) {
    if start.is_multiple_of(8) && bits.is_multiple_of(8) {
        return bytes[start / 8..][..bits / 8].copy_from_slice(&value.to_le_bytes()[..bits / 8]);
    }
    for bit in 0..bits {
        let at = start + bit;
        bytes[at / 8] = bytes[at / 8] & !(1 << (at % 8)) | ((value >> bit & 1) as u8) << (at % 8);
    }
}

fn move_bits(from: &[u8], source: usize, to: &mut [u8], destination: usize, bits: usize) {
    for bit in (0..bits).step_by(64) {
        let n = (bits - bit).min(64);
        put(to, destination + bit, n, get(from, source + bit, n));
    }
}

/// Every index of a shape, row-major.
fn indices(shape: &[i64]) -> impl Iterator<Item = Vec<i64>> {
    let count: i64 = shape.iter().product();
    let shape = shape.to_vec();
    (0..count).map(move |mut at| {
        let mut index = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            index[axis] = at % shape[axis];
            at /= shape[axis];
        }
        index
    })
}

/// What an element of one dtype becomes in another, by values. False: a value is not the same after it.
/// Where NaN is expected, `actual` says which.
fn cast(
    (from, source): (DLDataType, (&[u8], usize)),
    (to, destination): (DLDataType, (&mut [u8], usize)),
    actual: &[u8],
    saturate: bool,
) -> bool {
    let (from_scalar, to_scalar) = (Scalar::of(from).unwrap(), Scalar::of(to).unwrap());
    let (bytes, start) = source;
    let (out, out_start) = destination;
    let mut kept = true;
    for lane in 0..usize::from(from.lanes) {
        let at = start + lane * usize::from(from.bits);
        let place = out_start + lane * usize::from(to.bits);
        let part = |scalar: Scalar| scalar.complex_part().unwrap_or(scalar);
        let (from_part, to_part) = (part(from_scalar), part(to_scalar));
        let (from_bits, to_bits) = (from_part.bits() as usize, to_part.bits() as usize);
        let parts = if from_scalar.complex_part().is_some() { 2 } else { 1 };
        let read = |index: usize| get(bytes, at + index * from_bits, from_bits);
        let is_zero = |bits| values::same(values::decode(from_part, bits), values::decode(Scalar::Int8, 0));
        let mut one = |index: usize, bits: u64| {
            let place = place + index * to_bits;
            if from_part == to_part {
                return put(out, place, to_bits, bits);
            }
            let value = values::decode(from_part, bits);
            let expected = values::encode(to_part, value, values::is_integer(from_part), saturate);
            let there = get(actual, place, to_bits);
            let result = match expected {
                Some(bits) => bits,
                None => {
                    assert!(
                        values::is_nan(to_part, there),
                        "{from_part:?} {bits:#x} is {to_part:?} {there:#x}, no NaN"
                    );
                    there
                }
            };
            kept &= values::same(value, values::decode(to_part, result));
            put(out, place, to_bits, result);
        };
        match (parts, to_scalar.complex_part()) {
            (2, Some(_)) => (0..2).for_each(|index| one(index, read(index))),
            (2, None) if to_scalar == Scalar::Bool => {
                let index = usize::from(is_zero(read(0)));
                one(0, read(index));
                kept &= is_zero(read(1));
            }
            (2, None) => {
                one(0, read(0));
                kept &= is_zero(read(1));
            }
            (_, Some(_)) => {
                one(0, read(0));
                put(out, place + to_bits, to_bits, 0);
            }
            (_, None) => one(0, read(0)),
        }
    }
    kept
}

pub fn run(bytes: &[u8]) {
    without_drivers();
    let mut input = Input::new(bytes);
    while !input.is_empty() {
        one_pair(&mut input);
    }
}

fn dtypes(input: &mut Input<'_>) -> (DLDataType, DLDataType) {
    let scalars: Vec<Scalar> = Scalar::all().collect();
    let lanes = if input.once_in(6) { 1 + input.u16() % 4 } else { 1 };
    if input.once_in(4) {
        // Moved, whatever it is.
        let code = input.u8() % 24;
        let bits = match code {
            15 | 16 => 6,
            17 => 4,
            _ => input.pick(&[1, 2, 4, 8, 16, 32, 64, 128, 3, 12, 24, 255]),
        };
        let dtype = DLDataType { code, bits, lanes };
        return (dtype, dtype);
    }
    let mut one = || DLDataType { lanes, ..input.pick(&scalars).dtype() };
    (one(), one())
}

fn one_pair(input: &mut Input<'_>) {
    let (from, to) = dtypes(input);
    let ndim = input.below(6);
    let long = input.once_in(4);
    let mut shape: Vec<i64> = (0..ndim).map(|_| i64::from(input.u8() % 7)).collect();
    if long && ndim > 0 {
        let axis = input.below(ndim);
        shape[axis] = input.below(600) as i64;
    }
    while shape.iter().product::<i64>() * i64::from(from.lanes) > MOST {
        let longest = (0..ndim).max_by_key(|axis| shape[*axis]).unwrap();
        shape[longest] /= 2;
    }
    let flags = input.u8();
    let saturate = flags & 1 != 0;
    let exact = flags & 6 == 6;
    let Some(mut source) = Array::read(input, from, &shape, true) else { return };
    let Some(mut destination) = Array::read(input, to, &shape, false) else { return };

    let (tensor, to_tensor) = (source.tensor(&shape), destination.tensor(&shape));
    let before = source.memory.bytes().to_vec();
    let untouched = destination.memory.bytes().to_vec();
    let mut expected = untouched.clone();
    let mut options = options();
    options.flags = if saturate { AB_CONVERT_SATURATE } else { 0 };
    options.casting = if exact { AB_CAST_EXACT } else { AB_CAST_UNSAFE };
    let mut fault = error();
    let flags = (source.flags(), destination.flags());
    let mut copy = || {
        // SAFETY: both are as much memory as they say.
        let status = unsafe {
            ab_copy_into(null_mut(), &tensor, flags.0, &to_tensor, flags.1, &options, null_mut(), &mut fault)
        };
        check_error(&fault, status);
        // SAFETY: it ends.
        (status, unsafe { CStr::from_ptr(fault.message.as_ptr()) }.to_owned())
    };
    let (status, message) = copy();
    assert_eq!(source.memory.bytes(), before, "the source was written to");
    assert!(matches!(status, AB_OK | AB_E_LOSSY), "{from} to {to}, {shape:?}: {message:?}");
    let actual = destination.memory.bytes().to_vec();
    let mut kept = true;
    for index in indices(&shape) {
        let (source_at, at) = (source.bit(&index), destination.bit(&index));
        kept &=
            element(&source, &before, source_at, &destination, &mut expected, at, &actual, saturate, status);
    }
    assert_eq!(status, if exact && !kept { AB_E_LOSSY } else { AB_OK }, "{from} to {to}, {shape:?}");
    if status == AB_OK {
        assert!(
            expected == actual,
            "{from} to {to}, {shape:?}, strides {:?} to {:?}:\n{expected:x?}\n{actual:x?}",
            source.strides,
            destination.strides
        );
        // What comes again takes another way.
        for _ in 0..3 {
            destination.memory.bytes().copy_from_slice(&untouched);
            assert_eq!(copy().0, AB_OK);
            assert!(actual == destination.memory.bytes(), "{from} to {to}, {shape:?}, again");
        }
        converted(input, &mut source, &mut destination, &shape, options);
    }
}

/// Writes what one element becomes. False: its value is not the same after it.
#[allow(clippy::too_many_arguments)]
fn element(
    source: &Array,
    bytes: &[u8],
    from: usize,
    destination: &Array,
    expected: &mut [u8],
    to: usize,
    actual: &[u8],
    saturate: bool,
    status: i32,
) -> bool {
    let (room, content) =
        (destination.storage(), usize::from(source.dtype.bits) * usize::from(source.dtype.lanes));
    if source.dtype == destination.dtype {
        let whole = source.storage() == room && room.is_multiple_of(8);
        for bit in (0..room).step_by(64) {
            put(expected, to + bit, (room - bit).min(64), 0);
        }
        move_bits(bytes, from, expected, to, if whole { room } else { content });
        return true;
    }
    for bit in (0..room).step_by(64) {
        put(expected, to + bit, (room - bit).min(64), 0);
    }
    if status == AB_OK {
        return cast((source.dtype, (bytes, from)), (destination.dtype, (expected, to)), actual, saturate);
    }
    // After a failure the contents are unspecified.
    fill_nan(destination, expected, to);
    let there = expected[to / 8..].iter().copied().take(room / 8 + 2).collect::<Vec<u8>>();
    let mut scratch = there.clone();
    cast((source.dtype, (bytes, from)), (destination.dtype, (&mut scratch, to % 8)), &there, saturate)
}

/// Where nothing is known of what was written, NaN is taken to be NaN.
fn fill_nan(destination: &Array, scratch: &mut [u8], to: usize) {
    let Some(scalar) = Scalar::of(destination.dtype) else { return };
    let part = scalar.complex_part().unwrap_or(scalar);
    let bits = part.bits() as usize;
    let all = usize::from(destination.dtype.bits) * usize::from(destination.dtype.lanes);
    let candidates = [u64::MAX, 1 << (bits - 1), 0x7ff8 << 48, 0x7fc0_0000, 0x7e00, 0x7fc0, 0x7f, 0x78, 0x7c];
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let nan = candidates.into_iter().map(|code| code & mask).find(|code| values::is_nan(part, *code));
    let Some(nan) = nan else { return };
    for at in (0..all).step_by(bits) {
        put(scratch, to + at, bits, nan);
    }
}

/// A new tensor of the source has the same elements in its layout.
fn converted(
    input: &mut Input<'_>,
    source: &mut Array,
    destination: &mut Array,
    shape: &[i64],
    mut options: ab_convert_options,
) {
    let tensor = source.tensor(shape);
    options.dtype = destination.dtype;
    options.layout = input.below(4) as i32;
    options.copy = input.below(2) as i32;
    options.alignment = if input.once_in(4) { 1 << input.below(13) } else { 0 };
    let mut held = Source::new(tensor, source.flags());
    let (mut out, mut fault) = (null_mut(), error());
    // SAFETY: it is as much memory as it says.
    let status =
        unsafe { ab_convert(null_mut(), &mut held.versioned, &options, &mut out, null_mut(), &mut fault) };
    check_error(&fault, status);
    assert_eq!(status, AB_OK);
    // SAFETY: it is a result.
    let (result, flags) = unsafe { ((*out).dl_tensor, (*out).flags) };
    let ndim = shape.len();
    let numbers = |from: *mut i64| {
        // SAFETY: a result has as many numbers as axes.
        if ndim == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(from, ndim) }.to_vec() }
    };
    assert_eq!(numbers(result.shape), shape);
    assert_eq!(result.dtype, destination.dtype);
    let padded = flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED != 0;
    let strides = numbers(result.strides);
    let reach = Reach::of(result.dtype, padded, shape, Some(&strides), result.byte_offset)
        .expect("a result is valid");
    let range = reach.bytes();
    if reach.elements > 0 {
        // SAFETY: the result is as long as it says.
        let bytes = unsafe {
            let start = result.data.cast::<u8>().offset(range.start as isize);
            std::slice::from_raw_parts(start, (range.end - range.start) as usize).to_vec()
        };
        let memory = Room::new(0);
        let there = Array {
            memory,
            dtype: result.dtype,
            padded,
            strides,
            byte_offset: result.byte_offset,
            begin: range.start,
        };
        let content = usize::from(result.dtype.bits) * usize::from(result.dtype.lanes);
        let expected = destination.memory.bytes().to_vec();
        for index in indices(shape) {
            let (mut one, mut other) = ([0u8; 200], [0u8; 200]);
            // All lanes of the largest element.
            let content = content.min(one.len() * 8);
            move_bits(&expected, destination.bit(&index), &mut one, 0, content);
            move_bits(&bytes, there.bit(&index), &mut other, 0, content);
            assert_eq!(one, other, "{index:?} of {shape:?}");
        }
        let first = (result.data as usize as u64).wrapping_add(result.byte_offset);
        assert!(options.alignment == 0 || first.is_multiple_of(options.alignment.into()));
    }
    // SAFETY: it is ours.
    unsafe { ab_release(out) };
    assert_eq!(held.deleted.get(), 1);
}
