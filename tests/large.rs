//! Jobs that are large enough for several threads and every blocking, and small ones of every shape, against the plainest
//! loop there is.

use std::ffi::c_void;
use std::ptr::null_mut;

use arraybridge::dlpack::raw::{DLDataType, DLDevice, DLTensor};
use arraybridge::ffi::context::{ab_context_create, ab_context_release};
use arraybridge::ffi::convert::ab_copy_into;
use arraybridge::ffi::types::*;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Memory of a tensor whose axes lie in any order, some backwards, with gaps.
struct Side {
    bytes: Vec<u8>,
    strides: Vec<i64>,
    byte_offset: usize,
}

fn side(random: &mut Random, shape: &[i64], size: usize) -> Side {
    let mut order: Vec<usize> = (0..shape.len()).collect();
    for index in (1..order.len()).rev() {
        order.swap(index, random.below(index + 1));
    }
    let mut strides = vec![0; shape.len()];
    let mut step = [1, 1, 1, 2, 3][random.below(5)];
    let mut first = 0;
    for axis in order {
        strides[axis] = step;
        let gap = [0, 0, 0, 1, 5][random.below(5)];
        step = step * shape[axis] + gap;
        if random.below(4) == 0 {
            first += (shape[axis] - 1) * strides[axis];
            strides[axis] = -strides[axis];
        }
    }
    // Not aligned, as likely as not.
    let lead = [0, 1, 7, 64][random.below(4)];
    let mut bytes = vec![0u8; step as usize * size + lead];
    // As many as no axis is a multiple of.
    let noise: Vec<u8> = (0..if cfg!(miri) { 251 } else { 65521 }).map(|_| random.next() as u8).collect();
    for part in bytes.chunks_mut(noise.len()) {
        part.copy_from_slice(&noise[..part.len()]);
    }
    Side { bytes, strides, byte_offset: first as usize * size + lead }
}

fn tensor(side: &Side, shape: &[i64], dtype: DLDataType) -> DLTensor {
    DLTensor {
        data: side.bytes.as_ptr() as *mut c_void,
        device: DLDevice { device_type: 1, device_id: 0 },
        ndim: shape.len() as i32,
        dtype,
        shape: shape.as_ptr().cast_mut(),
        strides: side.strides.as_ptr().cast_mut(),
        byte_offset: side.byte_offset as u64,
    }
}

/// Calls `visit` with the byte offsets of each pair of elements.
fn pairs(shape: &[i64], from: (&Side, usize), to: (&Side, usize), visit: &mut dyn FnMut(usize, usize)) {
    let last = shape.len() - 1;
    let mut index = vec![0i64; last];
    loop {
        let row = |(side, size): (&Side, usize)| {
            let steps: i64 = index.iter().zip(&side.strides).map(|(index, stride)| index * stride).sum();
            (side.byte_offset as i64 + steps * size as i64, side.strides[last] * size as i64)
        };
        let ((mut source, source_step), (mut destination, destination_step)) = (row(from), row(to));
        for _ in 0..shape[last] {
            visit(source as usize, destination as usize);
            source += source_step;
            destination += destination_step;
        }
        let Some(axis) = (0..last).rev().find(|axis| index[*axis] + 1 < shape[*axis]) else { return };
        index[axis] += 1;
        index[axis + 1..].fill(0);
    }
}

/// How many bytes differ, which are looked for one by one only where any does.
#[cfg(not(miri))]
fn wrong(is: &[u8], want: &[u8]) -> usize {
    assert_eq!(is.len(), want.len());
    if is == want { 0 } else { is.iter().zip(want).filter(|(is, want)| is != want).count() }
}

fn copy(from: &DLTensor, to: &DLTensor, context: *mut ab_context) {
    let mut error =
        ab_error { struct_size: size_of::<ab_error>() as u32, code: 0, native_code: 0, message: [0; 496] };
    // SAFETY: both tensors are as large as they say.
    let status = unsafe { ab_copy_into(context, from, 0, to, 0, std::ptr::null(), null_mut(), &mut error) };
    // SAFETY: the message has an end.
    let message = unsafe { std::ffi::CStr::from_ptr(error.message.as_ptr()) };
    assert_eq!(status, AB_OK, "{message:?}");
}

/// Miri is slow: the kernels' edges, without the threads.
#[cfg(miri)]
const SHAPES: [&[i64]; 6] = [&[300], &[19, 18], &[3, 33], &[33, 3], &[5, 3, 9], &[2, 3, 2, 3, 2]];
#[cfg(not(miri))]
const SHAPES: [&[i64]; 14] = [
    &[1_500_000],
    &[1200, 1300],
    &[3, 500_000],
    &[500_000, 3],
    &[7, 200_003],
    &[200_003, 5],
    &[64, 25_000],
    &[130, 97, 121],
    &[1001, 3, 503],
    &[2, 64, 111, 113],
    &[8, 128, 16, 96],
    &[31, 2, 33, 3, 35, 7],
    &[2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 5, 6],
    &[1, 1_000_000, 1, 2],
];

/// One case of so many, where tests/run has the optimised library do all of them as well.
const FEWER: usize = if cfg!(all(debug_assertions, target_arch = "x86_64", not(miri))) { 3 } else { 1 };

/// Each has another third of the sizes; fewer where everything is slow (tests/sanitize).
fn rounds() -> usize {
    let asked = std::env::var("ARRAYBRIDGE_ROUNDS").map_or(3 / FEWER, |text| text.parse().expect("a number"));
    if cfg!(miri) { 1 } else { asked }
}

#[test]
fn moves() {
    let mut random = Random(7);
    for round in 0..rounds() {
        for (index, shape) in SHAPES.iter().enumerate() {
            for size in [1usize, 2, 3, 4, 8, 12, 16, 130] {
                // Every size of every shape, over the rounds.
                if (size + round + index) % 3 != 0 || size > 16 && index % 4 != 0 {
                    continue;
                }
                let dtype = DLDataType { code: 200, bits: 8, lanes: size as u16 };
                let from = side(&mut random, shape, size);
                let to = side(&mut random, shape, size);
                let mut want = to.bytes.clone();
                pairs(shape, (&from, size), (&to, size), &mut |source, destination| {
                    want[destination..destination + size].copy_from_slice(&from.bytes[source..source + size]);
                });
                copy(&tensor(&from, shape, dtype), &tensor(&to, shape, dtype), null_mut());
                let (from_strides, to_strides) = (&from.strides, &to.strides);
                assert!(to.bytes == want, "{shape:?} of {size} bytes, {from_strides:?} to {to_strides:?}");
            }
        }
    }
}

/// Axes of a tensor without gaps that lie in any order, some backwards; the last stays the last, as likely as not.
fn dense(random: &mut Random, shape: &[i64], size: usize) -> Side {
    let mut order: Vec<usize> = (0..shape.len()).collect();
    for index in (1..order.len() - random.below(2)).rev() {
        order.swap(index, random.below(index + 1));
    }
    let (mut strides, mut step, mut first) = (vec![0; shape.len()], 1, 0);
    for axis in order.into_iter().rev() {
        strides[axis] = step;
        step *= shape[axis];
        if random.below(6) == 0 {
            first += (shape[axis] - 1) * strides[axis];
            strides[axis] = -strides[axis];
        }
    }
    let bytes = (0..step as usize * size).map(|_| random.next() as u8).collect();
    Side { bytes, strides, byte_offset: first as usize * size }
}

/// What stays in the caches: runs of every length, short axes, matrices of every height and width.
#[test]
fn in_the_caches() {
    let mut random = Random(15);
    let (jobs, most) = if cfg!(miri) { (12, 400) } else { (1200 / FEWER, 160_000) };
    for job in 0..jobs {
        let size = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 100, 127, 129, 300, 4100][random.below(15)];
        let mut room = (64 + random.below(most)) / size + 1;
        let shape: Vec<i64> = (0..1 + random.below(6))
            .map(|_| {
                let longest = [4, 20, 400][random.below(3)].min(room);
                let extent = 1 + random.below(longest);
                room = (room / extent).max(1);
                extent as i64
            })
            .collect();
        let dtype = DLDataType { code: 200, bits: 8, lanes: size as u16 };
        let from = if job % 3 == 0 { side } else { dense }(&mut random, &shape, size);
        let mut to = if job % 4 == 0 { side } else { dense }(&mut random, &shape, size);
        if job % 2 == 0 {
            // Row-major, as most are.
            let after = |axis: usize| shape[axis + 1..].iter().product();
            to.strides = (0..shape.len()).map(after).collect();
            to.byte_offset = random.below(64);
            to.bytes.resize(to.byte_offset + shape.iter().product::<i64>() as usize * size, 0);
        }
        let (untouched, mut want) = (to.bytes.clone(), to.bytes.clone());
        pairs(&shape, (&from, size), (&to, size), &mut |source, destination| {
            want[destination..destination + size].copy_from_slice(&from.bytes[source..source + size]);
        });
        // What comes again takes another way.
        for round in 0..3 {
            to.bytes.copy_from_slice(&untouched);
            copy(&tensor(&from, &shape, dtype), &tensor(&to, &shape, dtype), null_mut());
            let strides = (&from.strides, &to.strides);
            assert!(to.bytes == want, "{shape:?} of {size} bytes, strides {strides:?}, round {round}");
        }
    }
}

#[test]
fn casts() {
    let mut random = Random(8);
    let uint8 = "uint8".parse().unwrap();
    let float32 = "float32".parse().unwrap();
    let one_thread = ab_context_options { struct_size: 16, num_threads: 1, staging_bytes: 0 };
    let mut context = null_mut();
    // SAFETY: the pointers are to locals.
    assert_eq!(unsafe { ab_context_create(&one_thread, &mut context, null_mut()) }, AB_OK);
    for (index, shape) in SHAPES.iter().enumerate().step_by(FEWER) {
        let context = if index % 2 == 0 { context } else { null_mut() };
        let (bytes, floats) = (side(&mut random, shape, 1), side(&mut random, shape, 4));
        let mut want = floats.bytes.clone();
        pairs(shape, (&bytes, 1), (&floats, 4), &mut |source, destination| {
            let value = f32::from(bytes.bytes[source]);
            want[destination..destination + 4].copy_from_slice(&value.to_ne_bytes());
        });
        copy(&tensor(&bytes, shape, uint8), &tensor(&floats, shape, float32), context);
        assert!(floats.bytes == want, "{shape:?} up, {:?} to {:?}", bytes.strides, floats.strides);

        let back = side(&mut random, shape, 1);
        let mut want = back.bytes.clone();
        pairs(shape, (&floats, 4), (&back, 1), &mut |source, destination| {
            let value = f32::from_ne_bytes(floats.bytes[source..source + 4].try_into().unwrap());
            want[destination] = value as u8;
        });
        copy(&tensor(&floats, shape, float32), &tensor(&back, shape, uint8), context);
        assert!(back.bytes == want, "{shape:?} down, {:?} to {:?}", floats.strides, back.strides);
    }
    // SAFETY: it is not used any more.
    unsafe { ab_context_release(context) };
}

/// A number of up to 100 as an element of a dtype.
fn number(value: usize, dtype: &str) -> Vec<u8> {
    match dtype {
        "uint8" => vec![value as u8],
        "int16" => (value as i16).to_ne_bytes().to_vec(),
        "int64" => (value as i64).to_ne_bytes().to_vec(),
        "float16" => {
            let power = value.checked_ilog2();
            let fraction = power.map_or(0, |power| (value << (10 - power)) as u16 & 0x3ff);
            (power.map_or(0, |power| (15 + power as u16) << 10) | fraction).to_ne_bytes().to_vec()
        }
        // Seven bits of a fraction are enough.
        "bfloat16" => (((value as f32).to_bits() >> 16) as u16).to_ne_bytes().to_vec(),
        "float32" => (value as f32).to_ne_bytes().to_vec(),
        "float64" => (value as f64).to_ne_bytes().to_vec(),
        "complex64" => [value as f32, 0.0].into_iter().flat_map(f32::to_ne_bytes).collect(),
        _ => unreachable!("{dtype}"),
    }
}

/// Casts of tensors with many short axes, which lie in any order on either side: small ones, and some that are too large
/// for one piece, or for the caches.
#[test]
fn casts_of_short_axes() {
    const DTYPES: [&str; 8] =
        ["uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64", "complex64"];
    let mut random = Random(23);
    let cases = if cfg!(miri) { 3 } else { 400 };
    for case in 0..cases {
        let (from, to) = (DTYPES[random.below(7)], DTYPES[random.below(8)]);
        let (from_size, to_size) = (number(0, from).len(), number(0, to).len());
        let ndim = 2 + random.below(5);
        let longest = if cfg!(miri) { 4 } else { 9 };
        let mut shape: Vec<i64> = (0..ndim).map(|_| 1 + random.below(longest) as i64).collect();
        let all = shape.iter().product::<i64>();
        let most = if cfg!(miri) { 300 } else { [3000, 60_000, 60_000, 6_000_000][random.below(4)] };
        if case % 20 == 0 || most < 1_000_000 {
            // One of them is long.
            shape[random.below(ndim)] *= 1 + random.below((most / all).max(1) as usize) as i64;
        }
        let mut source = side(&mut random, &shape, from_size);
        let result = side(&mut random, &shape, to_size);
        let mut want = result.bytes.clone();
        let mut number_of = 0;
        let mut places = Vec::new();
        pairs(&shape, (&source, from_size), (&result, to_size), &mut |from, to| places.push((from, to)));
        for (at, to_at) in places {
            number_of = (number_of + 37) % 101;
            source.bytes[at..at + from_size].copy_from_slice(&number(number_of, from));
            want[to_at..to_at + to_size].copy_from_slice(&number(number_of, to));
        }
        copy(
            &tensor(&source, &shape, from.parse().unwrap()),
            &tensor(&result, &shape, to.parse().unwrap()),
            null_mut(),
        );
        let (from_strides, to_strides) = (&source.strides, &result.strides);
        assert!(result.bytes == want, "{from} to {to} of {shape:?}, {from_strides:?} to {to_strides:?}");
    }
}

/// Integers of so many bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn kind(bytes: usize, code: u8) -> DLDataType {
    DLDataType { code, bits: 8 * bytes as u8, lanes: 1 }
}

/// Numbers that all of those have.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn small_numbers(random: &mut Random) -> Vec<u8> {
    (0..65521).map(|_| random.next() as u8 & 127).collect()
}

/// So many elements of some bytes that are those, over and over.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn over_and_over(numbers: &[u8], count: usize, size: usize) -> Vec<u8> {
    let mut elements = vec![0; count * size];
    for (element, number) in elements.chunks_exact_mut(size).zip(numbers.iter().cycle()) {
        element[0] = *number;
    }
    elements
}

/// Transposed casts of results that are written around the caches, whose rows are as long as blocks are, or a little
/// longer, and start anywhere in a line.
#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn streamed_casts() {
    const BYTES: usize = 17 << 20;
    // Rows, bytes of an element of either side, and where in a line the result starts.
    const CASES: [(usize, usize, usize, usize); 17] = [
        (512, 4, 1, 6),
        (149, 1, 2, 6),
        (128, 4, 1, 6),
        (149, 1, 2, 0),
        (1024, 1, 8, 24),
        (640, 4, 2, 10),
        (149, 8, 1, 1),
        (768, 2, 4, 0),
        (384, 2, 1, 63),
        (512, 1, 4, 4),
        (150, 4, 8, 8),
        (4097, 1, 2, 2),
        (500, 4, 8, 0),
        (70, 4, 8, 16),
        (300, 1, 2, 2),
        (769, 2, 2, 6),
        (300, 4, 4, 60),
    ];
    // Signed, unsigned: the numbers are ones that both have.
    let mut random = Random(10);
    for (rows, from, to, lead) in CASES {
        let columns = BYTES / from.max(to) / rows + random.below(64);
        let noise = small_numbers(&mut random);
        let source = over_and_over(&noise, rows * columns, from);
        let mut want = vec![0; rows * columns * to + lead];
        for (at, element) in want[lead..].chunks_exact_mut(to).enumerate() {
            element[0] = noise[(at % rows * columns + at / rows) % noise.len()];
        }
        let source = Side { bytes: source, strides: vec![1, columns as i64], byte_offset: 0 };
        let bytes = vec![0; want.len()];
        let result = Side { bytes, strides: vec![rows as i64, 1], byte_offset: lead };
        let shape = [columns as i64, rows as i64];
        copy(&tensor(&source, &shape, kind(from, 0)), &tensor(&result, &shape, kind(to, 1)), null_mut());
        let wrong = wrong(&result.bytes, &want);
        assert!(wrong == 0, "{rows} x {columns} of {from} bytes to {to} after {lead}: {wrong} bytes");
    }
}

/// Casts of two axes and more that change places, whose results are written around the caches: long rows and short ones, a few
/// columns and many, ends of either that fill no line, axes that go on in others, and short rows that are kept.
#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn streamed_casts_of_axes() {
    const BYTES: usize = 17 << 20;
    // Bytes of an element of either side, extents of the source but for the first, and the order of its axes in the result.
    type Case = (usize, usize, &'static [i64], &'static [usize]);
    const CASES: [Case; 39] = [
        // Few columns and few rows.
        (4, 2, &[3], &[1, 0]),
        (4, 8, &[5], &[1, 0]),
        (8, 4, &[6], &[1, 0]),
        (4, 4, &[2, 500_003], &[0, 2, 1]),
        (2, 4, &[5, 300_001], &[0, 2, 1]),
        (4, 1, &[517], &[1, 0]),
        (8, 1, &[769], &[1, 0]),
        (4, 2, &[1031], &[1, 0]),
        (2, 2, &[301], &[1, 0]),
        (8, 4, &[129], &[1, 0]),
        (4, 4, &[70], &[1, 0]),
        (8, 8, &[4099], &[1, 0]),
        (4, 2, &[131, 140], &[2, 1, 0]),
        (4, 1, &[700, 260], &[0, 2, 1]),
        (8, 2, &[150, 333], &[2, 0, 1]),
        (8, 4, &[33, 34, 35], &[3, 2, 1, 0]),
        (4, 2, &[12, 1000, 70], &[0, 3, 1, 2]),
        (1, 4, &[80, 50, 128], &[3, 1, 2, 0]),
        (2, 4, &[256, 80, 11], &[3, 2, 1, 0]),
        (1, 8, &[14, 5, 224], &[3, 1, 0, 2]),
        (4, 2, &[100, 264, 5], &[3, 1, 0, 2]),
        (4, 1, &[32, 6, 40, 4], &[4, 0, 3, 1, 2]),
        (1, 4, &[64, 33, 35, 4], &[4, 3, 2, 1, 0]),
        (2, 2, &[33, 35, 3], &[3, 2, 1, 0]),
        (8, 4, &[7, 31], &[2, 1, 0]),
        (4, 8, &[513, 40], &[0, 2, 1]),
        (4, 2, &[2100, 80], &[0, 2, 1]),
        (2, 4, &[77, 91], &[0, 2, 1]),
        (1, 2, &[50, 333, 16], &[1, 0, 3, 2]),
        (1, 4, &[93, 500, 8], &[2, 1, 0, 3]),
        (8, 4, &[50, 100, 32], &[2, 1, 0, 3]),
        (8, 4, &[700, 3], &[1, 0, 2]),
        (2, 4, &[1000, 3], &[2, 1, 0]),
        (4, 8, &[32, 24, 20], &[2, 0, 3, 1]),
        (1, 4, &[100, 24, 20], &[2, 0, 3, 1]),
        (2, 4, &[40, 24, 7], &[2, 0, 3, 1]),
        (4, 8, &[333, 12, 20], &[2, 0, 3, 1]),
        (1, 8, &[33, 6, 150], &[2, 0, 3, 1]),
        (4, 8, &[35, 11, 90], &[2, 0, 3, 1]),
    ];
    let mut random = Random(17);
    for (from, to, extents, order) in CASES {
        // What is larger decides whether the result goes around the caches.
        let first =
            (BYTES / from.max(to)).div_ceil(extents.iter().product::<i64>() as usize) + random.below(3);
        let extents: Vec<i64> = std::iter::once(first as i64).chain(extents.iter().copied()).collect();
        let dense = |extents: &[i64]| {
            let mut strides = vec![1; extents.len()];
            for axis in (1..extents.len()).rev() {
                strides[axis - 1] = strides[axis] * extents[axis];
            }
            strides
        };
        let (count, strides) = (extents.iter().product::<i64>() as usize, dense(&extents));
        let noise = small_numbers(&mut random);
        let mut bytes = vec![0; count * from];
        for (element, value) in bytes.chunks_exact_mut(from).zip(noise.iter().cycle()) {
            element[0] = *value;
        }
        let shape: Vec<i64> = order.iter().map(|axis| extents[*axis]).collect();
        let strides = order.iter().map(|axis| strides[*axis]).collect();
        let source = Side { bytes, strides, byte_offset: 0 };
        for lead in [0, to, 64 + 7] {
            let result =
                Side { bytes: vec![0xa5; lead + count * to + 64], strides: dense(&shape), byte_offset: lead };
            let mut want = result.bytes.clone();
            pairs(&shape, (&source, from), (&result, to), &mut |source_at, at| {
                want[at..at + to].fill(0);
                want[at] = source.bytes[source_at];
            });
            for threads in [1, 0] {
                let options = ab_context_options { struct_size: 16, num_threads: threads, staging_bytes: 0 };
                let mut context = null_mut();
                // SAFETY: the pointers are to locals.
                assert_eq!(unsafe { ab_context_create(&options, &mut context, null_mut()) }, AB_OK);
                copy(&tensor(&source, &shape, kind(from, 0)), &tensor(&result, &shape, kind(to, 1)), context);
                // SAFETY: it is not used any more.
                unsafe { ab_context_release(context) };
                let wrong = wrong(&result.bytes, &want);
                assert!(
                    wrong == 0,
                    "{from} to {to} bytes, {extents:?} {order:?} after {lead}: {wrong} bytes"
                );
            }
        }
    }
}

/// However many are cast together, each becomes what it becomes by itself: numbers that fit and do not, and no numbers.
#[test]
fn casts_of_many() {
    let special = [
        f32::NAN,
        -f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        -0.0,
        -1.0,
        -0.99,
        0.99,
        1.5,
        254.99,
        255.0,
        255.5,
        256.0,
        1e10,
        -1e10,
        65504.0,
        65519.9,
        65520.0,
        6e-8,
        -3e-8,
        1e-40,
        2049.0,
        2051.0,
        0.1,
    ];
    let mut random = Random(18);
    let float32: DLDataType = "float32".parse().unwrap();
    for (name, size) in
        [("uint8", 1), ("int8", 1), ("float16", 2), ("bfloat16", 2), ("int32", 4), ("bool", 1)]
    {
        let dtype: DLDataType = name.parse().unwrap();
        let cast = |values: &[f32]| {
            let bytes = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
            let source = Side { bytes, strides: vec![1], byte_offset: 0 };
            let result = Side { bytes: vec![0; values.len() * size], strides: vec![1], byte_offset: 0 };
            let shape = [values.len() as i64];
            copy(&tensor(&source, &shape, float32), &tensor(&result, &shape, dtype), null_mut());
            result.bytes
        };
        let ones: Vec<Vec<u8>> = special.iter().map(|value| cast(&[*value])).collect();
        let lengths: &[usize] = if cfg!(miri) { &[70] } else { &[63, 511, 512, 513, 600, 1023, 1024, 5003] };
        for n in lengths {
            let picked: Vec<usize> = (0..*n).map(|_| random.below(special.len())).collect();
            let many = cast(&picked.iter().map(|index| special[*index]).collect::<Vec<_>>());
            for (at, (is, index)) in many.chunks(size).zip(picked).enumerate() {
                assert!(is == ones[index], "{} to {name}, {at} of {n}: {is:x?}", special[index]);
            }
        }
    }
}

/// Casts of rows that lie crosswise, short and long, few or many on either side, to a result that is written around the
/// caches and starts anywhere.
#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn streamed_crosswise_casts() {
    const BYTES: usize = 17 << 20;
    // Elements of a row, rows that are next to each other in the source, bytes of an element of either side, and where in
    // a line the result starts.
    const CASES: [(usize, usize, usize, usize, usize); 10] = [
        (64, 16, 4, 2, 0),
        (64, 16, 2, 4, 6),
        (17, 100, 1, 2, 1),
        (40, 33, 8, 1, 13),
        (256, 250, 1, 4, 4),
        (1024, 3, 4, 2, 62),
        (511, 65, 2, 8, 8),
        (515, 40, 4, 8, 16),
        (1000, 32, 8, 4, 0),
        (90, 2, 4, 4, 60),
    ];
    let mut random = Random(12);
    for (n, across, from, to, lead) in CASES {
        let along = BYTES / from.max(to) / n / across + random.below(9);
        let elements = n * across * along;
        let noise = small_numbers(&mut random);
        let source = over_and_over(&noise, elements, from);
        let mut want = vec![0; elements * to + lead];
        for (at, element) in want[lead..].chunks_exact_mut(to).enumerate() {
            let (row, column) = (at / n, at % n);
            element[0] = noise[((row % along * across + row / along) * n + column) % noise.len()];
        }
        let steps = |steps: [usize; 3]| steps.map(|step| step as i64).to_vec();
        let source = Side { bytes: source, strides: steps([n, across * n, 1]), byte_offset: 0 };
        let bytes = vec![0; want.len()];
        let result = Side { bytes, strides: steps([along * n, n, 1]), byte_offset: lead };
        let shape = steps([across, along, n]);
        copy(&tensor(&source, &shape, kind(from, 0)), &tensor(&result, &shape, kind(to, 1)), null_mut());
        let wrong = wrong(&result.bytes, &want);
        assert!(
            wrong == 0,
            "{along} x {across} rows of {n}, {from} bytes to {to}, after {lead}: {wrong} bytes"
        );
    }
}

/// Casts of rows cut from wider ones, short and long, with little between them and much, upwards and downwards, to a result
/// that is written around the caches and starts anywhere.
#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn streamed_casts_of_rows() {
    const BYTES: usize = 13 << 20;
    // Elements of a row and between two, bytes of an element of either side, and where in a line the result starts.
    const CASES: [(usize, usize, usize, usize, usize); 15] = [
        (20, 5, 1, 4, 4),
        (1500, 16, 1, 4, 0),
        (4096, 500, 1, 4, 4),
        (4095, 1, 1, 8, 8),
        (100, 1, 2, 4, 0),
        (53, 1, 4, 8, 8),
        (32, 32, 8, 2, 2),
        (50, 50, 8, 4, 60),
        (200, 10, 4, 2, 6),
        (301, 300, 8, 4, 12),
        (1000, 1, 4, 1, 3),
        (2048, 3, 4, 2, 0),
        (2500, 700, 8, 4, 4),
        (3001, 3000, 4, 2, 62),
        (9000, 100, 2, 4, 32),
    ];
    let mut random = Random(15);
    for (n, between, from, to, lead) in CASES {
        let (count, step) = (BYTES / to / n + random.below(9), n + between);
        let noise = small_numbers(&mut random);
        let elements = over_and_over(&noise, count * step, from);
        for is_back in [false, true] {
            let row = |at: usize| if is_back { count - 1 - at } else { at };
            let mut want = vec![0; count * n * to + lead];
            for (at, element) in want[lead..].chunks_exact_mut(to).enumerate() {
                element[0] = noise[(row(at / n) * step + at % n) % noise.len()];
            }
            let strides = vec![if is_back { -(step as i64) } else { step as i64 }, 1];
            let source = Side { bytes: elements.clone(), strides, byte_offset: row(0) * step * from };
            let bytes = vec![0; want.len()];
            let result = Side { bytes, strides: vec![n as i64, 1], byte_offset: lead };
            let shape = [count as i64, n as i64];
            copy(&tensor(&source, &shape, kind(from, 0)), &tensor(&result, &shape, kind(to, 1)), null_mut());
            let wrong = wrong(&result.bytes, &want);
            assert!(
                wrong == 0,
                "{count} rows of {n}, {step} apart, {from} bytes to {to}, after {lead}, back {is_back}: {wrong} bytes"
            );
        }
    }
}

/// Many small matrices, transposed to a result that is written around the caches, and starts at a line or anywhere; their
/// rows follow each other, or have something between them, or run backwards.
#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn streamed_batches() {
    const BYTES: usize = 17 << 20;
    const LINE: usize = 64;
    // Rows, columns, bytes of an element.
    const CASES: [(usize, usize, usize); 46] = [
        (64, 64, 1),
        (6, 6, 16),
        (7, 8, 16),
        (8, 8, 16),
        (128, 64, 1),
        // Some columns at a time, of which the last ones are less than a line.
        (350, 351, 1),
        (500, 500, 1),
        (50, 385, 1),
        (9001, 7, 1),
        (250, 251, 2),
        (180, 181, 4),
        (150, 161, 8),
        (90, 93, 16),
        // What comes next is asked for while some are written.
        (45, 47, 2),
        (29, 27, 8),
        (64, 64, 2),
        (32, 128, 2),
        (64, 64, 4),
        (16, 48, 4),
        (64, 60, 4),
        (32, 32, 8),
        (24, 20, 16),
        (90, 91, 1),
        (37, 50, 2),
        (33, 16, 4),
        (110, 120, 4),
        (9, 8, 8),
        (31, 31, 8),
        (4, 5, 16),
        (60, 67, 16),
        (65, 61, 8),
        (8, 8, 1),
        (3, 3, 4),
        (4, 4, 2),
        (9, 9, 1),
        (2, 3, 8),
        (2, 2, 1),
        // Groups of up to two lines.
        (5, 5, 1),
        (11, 11, 1),
        (3, 5, 2),
        (8, 8, 2),
        (16, 2, 4),
        (3, 3, 8),
        (4, 4, 8),
        (2, 2, 16),
        (3, 2, 16),
    ];
    let mut random = Random(11);
    for (index, (rows, columns, size)) in CASES.into_iter().enumerate() {
        let (matrix, lead) = (rows * columns * size, if index % 3 == 2 { random.below(LINE) } else { 0 });
        let bytes = BYTES.next_multiple_of(matrix);
        let pitch = columns + if index % 4 == 1 { random.below(9) } else { 0 };
        let backwards = index % 4 == 2;
        let source: Vec<u8> =
            (0..bytes / matrix * rows * pitch * size).map(|at| (at / 251 + at * 7) as u8).collect();
        let mut want = vec![0; bytes];
        for (from, to) in source.chunks_exact(rows * pitch * size).zip(want.chunks_exact_mut(matrix)) {
            for (at, element) in to.chunks_exact_mut(size).enumerate() {
                let (row, column) = (at % rows, at / rows);
                let at = (if backwards { rows - 1 - row } else { row } * pitch + column) * size;
                element.copy_from_slice(&from[at..at + size]);
            }
        }
        let dtype = DLDataType { code: 200, bits: 8, lanes: size as u16 };
        let (across, down, row) = (columns as i64, rows as i64, pitch as i64);
        let shape = [(bytes / matrix) as i64, across, down];
        let (step, byte_offset) = if backwards { (-row, (rows - 1) * pitch * size) } else { (row, 0) };
        let source = Side { bytes: source, strides: vec![row * down, 1, step], byte_offset };
        let room = vec![0; bytes + 2 * LINE];
        let lead = room.as_ptr().align_offset(LINE) + lead;
        let result = Side { bytes: room, strides: vec![across * down, down, 1], byte_offset: lead };
        copy(&tensor(&source, &shape, dtype), &tensor(&result, &shape, dtype), null_mut());
        let wrong = wrong(&result.bytes[lead..lead + bytes], &want);
        let around = result.bytes[..lead].iter().chain(&result.bytes[lead + bytes..]).all(|byte| *byte == 0);
        assert!(wrong == 0 && around, "{rows} x {columns} of {size} bytes: {wrong} bytes");
    }
}

/// The same with a cast: as the matrices transposed, and then cast; of so many that they are written around the caches, and
/// of a few.
#[test]
fn batches_of_casts() {
    // Rows, columns.
    const SIDES: [(usize, usize); 6] = [(8, 8), (3, 5), (31, 33), (17, 64), (64, 61), (40, 50)];
    const PAIRS: [(&str, &str); 7] = [
        ("float32", "float16"),
        ("uint8", "float32"),
        ("float64", "uint8"),
        ("int16", "complex128"),
        ("complex64", "float32"),
        ("float8_e4m3fn", "bfloat16"),
        ("float64", "int64"),
    ];
    let mut random = Random(13);
    for (index, (from, to)) in PAIRS.into_iter().enumerate() {
        let dtypes: [DLDataType; 2] = [from, to].map(|name| name.parse().unwrap());
        let sizes = dtypes.map(|dtype| usize::from(dtype.bits) / 8);
        for (rows, columns) in SIDES {
            let matrix = rows * columns;
            if cfg!(miri) && matrix > 64 {
                continue;
            }
            let large = if cfg!(miri) { 150 / matrix } else { (17 << 20) / sizes[1] / matrix };
            for count in [2, 7, large] {
                let elements = count * matrix;
                // Small numbers, which every dtype of these has.
                let bytes: Vec<u8> = (0..elements).map(|at| ((at / 251 + at * 7) % 50) as u8).collect();
                let side =
                    |bytes: Vec<u8>, strides: Vec<i64>, byte_offset| Side { bytes, strides, byte_offset };
                let (across, down) = (columns as i64, rows as i64);
                let shape = [count as i64, across, down];
                let strides = vec![across * down, down, 1];
                let uint8: DLDataType = "uint8".parse().unwrap();
                let mut source = side(vec![0; elements * sizes[0]], vec![across * down, 1, across], 0);
                let flat = side(bytes, vec![1], 0);
                let numbers = side(std::mem::take(&mut source.bytes), vec![1], 0);
                copy(
                    &tensor(&flat, &[elements as i64], uint8),
                    &tensor(&numbers, &[elements as i64], dtypes[0]),
                    null_mut(),
                );
                source.bytes = numbers.bytes;
                let transposed = side(vec![0; elements * sizes[0]], strides.clone(), 0);
                copy(
                    &tensor(&source, &shape, dtypes[0]),
                    &tensor(&transposed, &shape, dtypes[0]),
                    null_mut(),
                );
                let want = side(vec![0; elements * sizes[1]], strides.clone(), 0);
                copy(&tensor(&transposed, &shape, dtypes[0]), &tensor(&want, &shape, dtypes[1]), null_mut());
                let lead = if index % 2 == 0 { 0 } else { (1 + random.below(7)) * sizes[1] };
                let result = side(vec![0xa5; elements * sizes[1] + 16 * sizes[1]], strides, lead);
                copy(&tensor(&source, &shape, dtypes[0]), &tensor(&result, &shape, dtypes[1]), null_mut());
                let end = lead + want.bytes.len();
                let around =
                    result.bytes[..lead].iter().chain(&result.bytes[end..]).all(|byte| *byte == 0xa5);
                let same = result.bytes[lead..end] == want.bytes[..];
                assert!(same && around, "{count} of {rows} x {columns}, {from} to {to}");
            }
        }
    }
}

/// Short rows of something wider, or with the first two of three axes exchanged, to a result that is written around the
/// caches.
#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn streamed_rows() {
    const BYTES: usize = 17 << 20;
    const CASES: [(usize, usize); 20] = [
        (33, 30),
        (40, 4),
        (63, 1),
        (127, 1),
        (128, 64),
        (129, 0),
        (160, 160),
        (256, 16),
        (500, 4096),
        (512, 100),
        (640, 160),
        (640, 161),
        (1000, 3),
        (1920, 64),
        (3001, 100),
        (4095, 5000),
        (8191, 16),
        (9000, 16),
        (20_000, 3),
        (21_000, 500),
    ];
    let mut random = Random(12);
    let dtype = DLDataType { code: 200, bits: 8, lanes: 1 };
    for (bytes, gap) in CASES {
        let (count, outer) = (BYTES / bytes + 1, 7);
        let count = count.next_multiple_of(outer);
        let source: Vec<u8> = (0..count * (bytes + gap)).map(|at| (at / 251 + at * 7) as u8).collect();
        for way in ["forwards", "backwards", "exchanged"] {
            let (last, step, inner) = (count - 1, (bytes + gap) as i64, (count / outer) as i64);
            let from = |row: usize| match way {
                "forwards" => row,
                "backwards" => last - row,
                _ => row % outer * inner as usize + row / outer,
            };
            let byte_offset = from(0) * (bytes + gap);
            let (shape, strides) = match way {
                "forwards" => (vec![count as i64, bytes as i64], vec![step, 1]),
                "backwards" => (vec![count as i64, bytes as i64], vec![-step, 1]),
                _ => (vec![inner, outer as i64, bytes as i64], vec![step, inner * step, 1]),
            };
            let mut strides_to = vec![1; shape.len()];
            for axis in (0..shape.len() - 1).rev() {
                strides_to[axis] = strides_to[axis + 1] * shape[axis + 1];
            }
            let lead = random.below(64);
            let result =
                Side { bytes: vec![0; lead + count * bytes + 64], strides: strides_to, byte_offset: lead };
            let side = Side { bytes: source.clone(), strides, byte_offset };
            copy(&tensor(&side, &shape, dtype), &tensor(&result, &shape, dtype), null_mut());
            let (before, rest) = result.bytes.split_at(lead);
            let (rows, after) = rest.split_at(count * bytes);
            let wrong = rows
                .chunks_exact(bytes)
                .enumerate()
                .filter(|(row, is)| **is != source[from(*row) * (bytes + gap)..][..bytes])
                .count();
            assert!(wrong == 0, "{bytes} of {} bytes {way}: {wrong} rows", bytes + gap);
            assert!(before.iter().chain(after).all(|byte| *byte == 0), "{bytes} of {} {way}", bytes + gap);
        }
    }
}

/// A whole tensor of elements of some bytes, or the first ones along each axis of a wider one, with its axes in another order,
/// to results that start anywhere; in `one`, a context of one thread, and with all.
#[cfg(not(miri))]
fn permutes(
    random: &mut Random,
    size: usize,
    (extents, wider): (&[i64], &[i64]),
    order: &[usize],
    one: *mut ab_context,
) {
    let bytes = extents.iter().product::<i64>() as usize * size;
    let row_major = |extents: &[i64]| -> Vec<i64> {
        (0..extents.len()).map(|axis| extents[axis + 1..].iter().product()).collect()
    };
    let from = row_major(wider);
    // There is nothing after its last element.
    let read = 1 + extents.iter().zip(&from).map(|(extent, step)| (extent - 1) * step).sum::<i64>() as usize;
    let shape: Vec<i64> = order.iter().map(|axis| extents[*axis]).collect();
    let noise: Vec<u8> = (0..65521).map(|_| random.next() as u8).collect();
    let mut elements = noise.repeat(read * size / noise.len() + 1);
    elements.truncate(read * size);
    elements.shrink_to_fit();
    let strides = order.iter().map(|axis| from[*axis]).collect();
    let source = Side { bytes: elements, strides, byte_offset: 0 };
    let dtype = DLDataType { code: 200, bits: 8, lanes: size as u16 };
    let mut want = vec![0; bytes];
    let first = Side { bytes: Vec::new(), strides: row_major(&shape), byte_offset: 0 };
    pairs(&shape, (&source, size), (&first, size), &mut |source_at, at| {
        want[at..at + size].copy_from_slice(&source.bytes[source_at..source_at + size]);
    });
    for (context, lead) in [(one, 0), (null_mut(), random.below(64)), (one, 8 + random.below(56))] {
        let room = vec![0xa5; lead + bytes + 64];
        let result = Side { bytes: room, strides: row_major(&shape), byte_offset: lead };
        copy(&tensor(&source, &shape, dtype), &tensor(&result, &shape, dtype), context);
        let (before, rest) = result.bytes.split_at(lead);
        let (is, after) = rest.split_at(bytes);
        let wrong = wrong(is, &want);
        assert!(
            wrong == 0,
            "{extents:?} of {wider:?} of {size} bytes as {order:?} after {lead}: {wrong} bytes"
        );
        let untouched = before.iter().chain(after).all(|byte| *byte == 0xa5);
        assert!(
            untouched,
            "{extents:?} of {wider:?} of {size} bytes as {order:?} after {lead}: beside the result"
        );
    }
}

/// Copies and permutations of whole tensors to a result that is written around the caches and starts anywhere: rows and
/// columns that blocks do not divide, more columns than wait for the rest of their lines at a time, more than a buffer
/// holds, rows a power of two apart; by one thread and by all.
#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn streamed_permutations() {
    // Bytes of an element, extents of the source, and the order in which the result has its axes.
    const CASES: [(usize, &[i64], &[usize]); 49] = [
        (1, &[17_900_003], &[0]),
        (16, &[1_050_007], &[0]),
        (1, &[3001, 6007], &[1, 0]),
        (1, &[761, 64, 381], &[2, 1, 0]),
        (1, &[1278, 35, 383], &[2, 1, 0]),
        (1, &[8192, 2112], &[1, 0]),
        (1, &[1700, 16_384], &[1, 0]),
        (2, &[1031, 8713], &[1, 0]),
        (2, &[4096, 2200], &[1, 0]),
        (2, &[211, 207, 203], &[2, 1, 0]),
        (4, &[700, 6400], &[1, 0]),
        (4, &[64, 66, 63, 65], &[3, 2, 1, 0]),
        (4, &[30, 7, 150, 11, 13], &[2, 0, 4, 1, 3]),
        (8, &[1024, 2112], &[1, 0]),
        (8, &[45, 300, 170], &[2, 1, 0]),
        (8, &[4001, 547], &[1, 0]),
        (16, &[37, 33, 31, 29], &[1, 3, 0, 2]),
        (16, &[258, 4200], &[1, 0]),
        // Rows of the result that follow each other, and are short.
        (1, &[300, 60_001], &[1, 0]),
        (2, &[263, 32_003], &[1, 0]),
        (4, &[150, 28_003], &[1, 0]),
        (8, &[70, 30_005], &[1, 0]),
        (8, &[160, 13_200], &[1, 0]),
        (16, &[50, 21_001], &[1, 0]),
        (4, &[3, 150, 10_001], &[0, 2, 1]),
        // Few long columns, and few long rows.
        (4, &[1_100_003, 4], &[1, 0]),
        (8, &[1_100_001, 2], &[1, 0]),
        (8, &[3, 180_001, 4], &[0, 2, 1]),
        (16, &[400_003, 3], &[1, 0]),
        (1, &[24, 710_003], &[1, 0]),
        (2, &[10, 850_001], &[1, 0]),
        (4, &[5, 850_001], &[1, 0]),
        (4, &[12, 350_003], &[1, 0]),
        (8, &[7, 300_001], &[1, 0]),
        (1, &[2, 8_400_003], &[1, 0]),
        (2, &[2_800_003, 3], &[1, 0]),
        (4, &[850_001, 5], &[1, 0]),
        (16, &[2, 530_001], &[1, 0]),
        // Rows that lie crosswise: short and long ones, few or many on either side, with axes around them.
        (1, &[801, 350, 61], &[1, 0, 2]),
        (2, &[330, 32, 804], &[1, 0, 2]),
        (4, &[131, 129, 261], &[1, 0, 2]),
        (16, &[61, 110, 161], &[1, 0, 2]),
        (2, &[3, 1025, 43, 64], &[0, 2, 1, 3]),
        (4, &[40, 11, 43, 222], &[2, 1, 0, 3]),
        (8, &[4201, 2, 260], &[1, 0, 2]),
        // Short axes innermost on both sides.
        (1, &[201, 3, 7001, 4], &[2, 0, 3, 1]),
        (1, &[130, 3, 90, 120, 4], &[3, 2, 0, 4, 1]),
        (2, &[71, 4, 15_001, 2], &[0, 3, 2, 1]),
        (2, &[133, 2, 37, 113, 8], &[3, 2, 0, 4, 1]),
    ];
    let one_thread = ab_context_options { struct_size: 16, num_threads: 1, staging_bytes: 0 };
    let mut one = null_mut();
    // SAFETY: the pointers are to locals.
    assert_eq!(unsafe { ab_context_create(&one_thread, &mut one, null_mut()) }, AB_OK);
    let mut random = Random(14);
    for (size, extents, order) in CASES {
        let bytes = extents.iter().product::<i64>() as usize * size;
        assert!(bytes >= 16 << 20, "{extents:?} of {size} bytes are not written around the caches");
        permutes(&mut random, size, (extents, extents), order, one);
    }
    // SAFETY: it is not used any more.
    unsafe { ab_context_release(one) };
}

/// Rows and columns that lie a multiple of some kilobytes apart, or nearly so, on one side or on both; by one thread and by
/// all.
#[test]
#[cfg(not(miri))]
fn that_share_sets_of_the_caches() {
    const CASES: [(&[i64], &[usize]); 33] = [
        // On Zen 5, of one size of elements or another: straight, in bands of some lines; whole lines on four sets.
        (&[512, 130], &[1, 0]),
        (&[256, 517], &[1, 0]),
        (&[192, 256], &[1, 0]),
        (&[16, 16, 65], &[2, 1, 0]),
        (&[32, 4, 80], &[2, 1, 0]),
        (&[4, 256, 130], &[2, 1, 0]),
        (&[64, 64, 64], &[2, 1, 0]),
        (&[128, 64, 130], &[2, 1, 0]),
        (&[63, 65, 64], &[2, 1, 0]),
        (&[32, 32, 32, 32], &[3, 2, 1, 0]),
        (&[32, 31, 33, 32], &[1, 3, 0, 2]),
        (&[16, 16, 16, 16, 4], &[4, 3, 2, 1, 0]),
        (&[1023, 260], &[1, 0]),
        (&[260, 1023], &[1, 0]),
        (&[1025, 1024], &[1, 0]),
        (&[513, 512], &[1, 0]),
        (&[2047, 130], &[1, 0]),
        (&[130, 2049], &[1, 0]),
        (&[4097, 67], &[1, 0]),
        (&[67, 4096], &[1, 0]),
        // Columns of several axes that share some sets: with room for a line of each, with none, and no longer than a line.
        (&[4, 5, 6, 4, 9], &[4, 3, 2, 1, 0]),
        (&[8, 9, 10, 8, 11], &[4, 3, 2, 1, 0]),
        (&[16, 5, 4, 9], &[1, 3, 2, 0]),
        (&[32, 12, 12], &[2, 1, 0]),
        (&[16, 32, 12], &[2, 1, 0]),
        (&[14, 16, 32, 10], &[3, 0, 2, 1]),
        (&[5, 32, 12, 8, 8], &[4, 1, 0, 3, 2]),
        (&[24, 16, 24], &[2, 1, 0]),
        (&[4, 24, 32, 5, 9], &[4, 1, 3, 0, 2]),
        // Some more or fewer than a vector has elements, of which a lane has less.
        (&[12, 13, 13], &[2, 1, 0]),
        (&[12, 13, 29], &[2, 1, 0]),
        (&[7, 8, 9, 7, 9], &[2, 0, 4, 1, 3]),
        (&[5, 16, 9, 7], &[0, 3, 2, 1]),
    ];
    permute_all(&CASES, 16);
}

/// Blocks in the caches with rows and columns about as many as tiles of vectors have, whole and cut from wider tensors: fewer
/// columns than a tile has but more than a lane, whole tiles, and what is left of either; results that start anywhere, with
/// columns that start at halves of lines and do not.
#[test]
#[cfg(not(miri))]
fn by_tiles() {
    type Case = (&'static [i64], &'static [i64], &'static [usize]);
    const CASES: [Case; 21] = [
        (&[15, 16, 17], &[15, 16, 17], &[2, 1, 0]),
        (&[15, 16, 31], &[15, 16, 33], &[2, 1, 0]),
        (&[9, 40, 11, 23], &[9, 40, 11, 23], &[3, 1, 2, 0]),
        (&[8, 13, 19, 11], &[8, 13, 19, 11], &[1, 3, 2, 0]),
        (&[8, 13, 19, 9], &[8, 13, 20, 10], &[1, 3, 2, 0]),
        (&[7, 8, 9, 7, 15], &[7, 8, 9, 7, 15], &[2, 0, 4, 1, 3]),
        (&[4, 5, 6, 4, 5, 7], &[4, 5, 6, 4, 5, 7], &[3, 0, 5, 2, 4, 1]),
        (&[17, 21, 30, 5], &[17, 21, 30, 6], &[3, 1, 0, 2]),
        (&[22, 23, 11, 3], &[22, 23, 11, 3], &[3, 1, 0, 2]),
        (&[9, 25, 4, 6], &[9, 25, 4, 6], &[1, 0, 3, 2]),
        (&[16, 20, 24], &[16, 20, 24], &[2, 1, 0]),
        (&[4, 5, 6, 4], &[4, 5, 6, 4], &[3, 2, 1, 0]),
        (&[15, 16, 17, 16], &[15, 16, 17, 16], &[3, 2, 1, 0]),
        (&[8, 9, 10, 8, 11], &[8, 9, 10, 9, 12], &[4, 3, 2, 1, 0]),
        (&[26, 27, 28, 27], &[26, 27, 28, 27], &[3, 2, 1, 0]),
        (&[31, 32, 33], &[31, 33, 35], &[2, 1, 0]),
        // What both innermost axes may have makes fewer rows than a tile has as many: of elements of some bytes each.
        (&[5, 8, 12, 3, 12], &[5, 8, 12, 3, 12], &[4, 3, 2, 1, 0]),
        (&[3, 7, 16, 16], &[3, 7, 16, 17], &[3, 2, 1, 0]),
        (&[4, 5, 6, 4, 4], &[4, 5, 6, 4, 4], &[4, 3, 2, 1, 0]),
        (&[6, 13, 20, 9], &[6, 13, 20, 10], &[0, 3, 2, 1]),
        (&[9, 7, 40, 5], &[9, 7, 40, 5], &[0, 3, 2, 1]),
    ];
    permute_parts(&CASES, 47);
}

/// Parts of wider tensors, whose short rows are followed by what is not theirs: by little, by pages, and by nothing.
#[test]
#[cfg(not(miri))]
fn parts_of_wider_ones() {
    type Case = (&'static [i64], &'static [i64], &'static [usize]);
    const CASES: [Case; 20] = [
        // A few of the elements of each group, of few and of as many as are written around the caches.
        (&[901, 3], &[901, 4], &[1, 0]),
        (&[20, 90, 2], &[20, 90, 4], &[0, 2, 1]),
        (&[20, 90, 2], &[20, 91, 6], &[0, 2, 1]),
        (&[20, 9, 5, 90], &[20, 18, 5, 90], &[0, 2, 1, 3]),
        (&[20, 64, 5], &[20, 64, 6], &[2, 0, 1]),
        (&[400_000, 3], &[400_000, 4], &[1, 0]),
        (&[2, 300_000, 2], &[2, 300_000, 3], &[0, 2, 1]),
        (&[3, 100_001, 4], &[3, 100_001, 6], &[0, 2, 1]),
        (&[9, 10, 11, 8, 10, 12], &[9, 10, 11, 9, 10, 12], &[3, 0, 5, 2, 4, 1]),
        (&[9, 10, 11, 9, 10, 12], &[9, 11, 12, 9, 10, 12], &[3, 0, 5, 2, 4, 1]),
        (&[15, 16, 17, 15, 9], &[15, 16, 17, 15, 10], &[4, 3, 2, 1, 0]),
        (&[15, 16, 17, 15, 17], &[15, 16, 17, 15, 18], &[4, 3, 2, 1, 0]),
        (&[15, 16, 7, 15, 3], &[15, 16, 7, 15, 17], &[4, 3, 2, 1, 0]),
        (&[13, 14, 5, 12, 11], &[13, 14, 5, 12, 11], &[2, 0, 4, 1, 3]),
        (&[13, 14, 5, 12, 11], &[13, 14, 6, 13, 12], &[2, 0, 4, 1, 3]),
        (&[40, 50, 5], &[40, 50, 4097], &[2, 1, 0]),
        (&[40, 50, 11], &[40, 50, 1030], &[2, 1, 0]),
        (&[40, 7, 50, 11], &[40, 7, 60, 12], &[1, 3, 2, 0]),
        (&[33, 34, 3], &[33, 34, 5], &[2, 1, 0]),
        (&[4, 33, 34, 6], &[4, 33, 34, 7], &[3, 0, 2, 1]),
    ];
    permute_parts(&CASES, 18);
}

/// Steps in the innermost axis of a source that is transposed, whose axes are short or not, and short runs with something
/// between them.
#[test]
#[cfg(not(miri))]
fn steps_of_short_axes() {
    type Case = (&'static [i64], &'static [i64], &'static [usize]);
    // As parts of one axis more, of which there is the first element.
    const CASES: [Case; 28] = [
        // Lines that would push each other out of the caches.
        (&[2, 64, 312, 1], &[2, 64, 312, 2], &[2, 1, 0, 3]),
        (&[4, 256, 60, 1], &[4, 256, 60, 2], &[2, 1, 0, 3]),
        (&[2, 4, 8, 16, 2, 34, 1], &[2, 4, 8, 16, 2, 34, 2], &[5, 4, 1, 3, 2, 0, 6]),
        (&[104, 1024, 2, 1], &[104, 1024, 2, 2], &[1, 0, 2, 3]),
        (&[8, 145, 16, 4, 1], &[8, 145, 16, 4, 2], &[0, 2, 1, 3, 4]),
        (&[64, 64, 32, 1], &[64, 64, 32, 2], &[1, 2, 0, 3]),
        // Axes that go on in the source where a short one ends.
        (&[3, 12, 7, 20, 11, 5, 1], &[3, 12, 7, 20, 11, 5, 2], &[2, 0, 5, 3, 4, 1, 6]),
        (&[1120, 64, 2, 2, 1], &[1120, 64, 2, 2, 2], &[1, 2, 0, 3, 4]),
        // Short rows that stay innermost, with few or many next to each other in the result.
        (&[2, 10, 4, 11, 8, 4, 1], &[2, 10, 4, 11, 8, 4, 2], &[3, 4, 1, 2, 0, 5, 6]),
        (&[55, 9, 2, 11, 15, 1], &[55, 9, 2, 11, 15, 2], &[1, 0, 3, 2, 4, 5]),
        (&[2, 3, 2, 2, 55, 15, 1], &[2, 3, 2, 2, 55, 15, 3], &[3, 4, 2, 1, 0, 5, 6]),
        (&[3, 300, 2, 31, 1], &[3, 300, 2, 31, 2], &[2, 1, 0, 3, 4]),
        (&[2, 55, 2, 5, 2, 1], &[2, 55, 2, 5, 2, 2], &[2, 1, 3, 0, 4, 5]),
        (&[7, 256, 5, 1, 1], &[7, 256, 5, 1, 2], &[1, 0, 2, 3, 4]),
        (&[4, 96, 32, 2, 1], &[4, 96, 32, 2, 2], &[3, 2, 1, 0, 4]),
        (&[10, 9, 4, 18, 3, 1], &[10, 9, 4, 18, 3, 2], &[1, 0, 4, 3, 2, 5]),
        (&[3, 10, 66, 12, 1], &[3, 10, 66, 12, 2], &[3, 2, 1, 0, 4]),
        (&[6, 10, 100, 4, 1], &[6, 10, 100, 4, 4], &[3, 2, 1, 0, 4]),
        (&[20, 10, 30, 4, 1], &[20, 10, 30, 5, 2], &[3, 2, 1, 0, 4]),
        (&[60, 10, 6, 6, 1], &[60, 10, 6, 6, 3], &[3, 2, 1, 0, 4]),
        (&[17, 4, 20, 8, 30, 3, 1], &[17, 4, 20, 8, 30, 3, 2], &[4, 3, 2, 5, 1, 0, 6]),
        (&[300, 201, 1], &[300, 201, 3], &[1, 0, 2]),
        (&[5, 80, 60, 1], &[5, 80, 60, 2], &[2, 1, 0, 3]),
        (&[2, 4, 701, 8, 1, 2], &[2, 4, 701, 8, 2, 2], &[3, 1, 2, 5, 0, 4]),
        (&[40, 4, 71, 8, 2], &[40, 4, 71, 9, 2], &[3, 1, 2, 4, 0]),
        (&[3, 50, 41, 1, 3], &[3, 50, 41, 2, 3], &[4, 2, 0, 1, 3]),
        (&[7, 3, 23, 2, 3, 2], &[7, 3, 23, 2, 3, 2], &[1, 0, 2, 3, 5, 4]),
        (&[30, 3, 17, 3, 2], &[30, 3, 18, 3, 2], &[1, 0, 2, 4, 3]),
    ];
    permute_parts(&CASES, 31);
}

/// Windows of a source that overlap, and elements that come more than once, some apart or not: whichever axis is the next one
/// in the source, what is put together in pieces is done once.
#[test]
#[cfg(not(miri))]
fn steps_that_overlap() {
    let mut random = Random(33);
    for _ in 0..rounds() * 100 {
        let size = 1 << random.below(5);
        let ndim = 3 + random.below(3);
        let mut shape: Vec<i64> = (0..ndim).map(|_| 2 + random.below(5) as i64).collect();
        let strides: Vec<i64> =
            (0..ndim).map(|_| [0, 1, 2, 2, 3, 4, 6, 8, 16, 64][random.below(10)]).collect();
        shape[0] = 4096 / shape[1..].iter().product::<i64>() + 1;
        let reach = |axis: usize| (shape[axis] - 1) * strides[axis];
        let elements = 1 + (0..ndim).map(reach).sum::<i64>() as usize;
        let bytes: Vec<u8> = (0..elements * size).map(|_| random.next() as u8).collect();
        let source = Side { bytes, strides, byte_offset: 0 };
        let result = dense(&mut random, &shape, size);
        let dtype = DLDataType { code: 200, bits: 8, lanes: size as u16 };
        let mut want = result.bytes.clone();
        pairs(&shape, (&source, size), (&result, size), &mut |from, to| {
            want[to..to + size].copy_from_slice(&source.bytes[from..from + size]);
        });
        copy(&tensor(&source, &shape, dtype), &tensor(&result, &shape, dtype), null_mut());
        let wrong = wrong(&result.bytes, &want);
        assert!(wrong == 0, "{shape:?} of steps {:?}, {size} bytes: {wrong} bytes", source.strides);
    }
}

/// Short axes whose elements stay within a line or two, groups of which change places, alone and in more pieces than one; and
/// few long rows that are interleaved; of some bytes, and of many.
#[test]
#[cfg(not(miri))]
fn of_short_axes() {
    const CASES: [(&[i64], &[usize]); 19] = [
        (&[8, 136, 2, 2, 3, 2], &[2, 1, 0, 3, 5, 4]),
        (&[30, 136, 2, 3, 2], &[1, 0, 2, 4, 3]),
        (&[9, 70, 3, 2, 2, 2], &[1, 0, 2, 5, 4, 3]),
        (&[73, 2, 5, 4, 3], &[1, 2, 0, 4, 3]),
        (&[73, 21, 5, 2, 2, 2], &[1, 2, 0, 5, 4, 3]),
        (&[1000, 3, 4, 8], &[1, 0, 3, 2]),
        (&[333, 257, 3, 3], &[1, 0, 3, 2]),
        (&[40, 30, 20, 4, 7], &[2, 1, 0, 4, 3]),
        (&[700, 200, 5, 4], &[1, 0, 3, 2]),
        (&[2, 94, 64, 32], &[2, 1, 3, 0]),
        (&[3, 30, 20, 300], &[2, 1, 3, 0]),
        (&[4, 300, 20, 150], &[2, 1, 3, 0]),
        (&[2, 8, 20, 8, 584], &[1, 3, 2, 4, 0]),
        (&[3, 75, 51, 32, 45], &[1, 3, 2, 0, 4]),
        (&[7, 31, 33, 17, 15], &[3, 1, 2, 0, 4]),
        (&[22, 5, 13, 25, 18, 5], &[4, 3, 0, 1, 5, 2]),
        (&[8, 6, 4, 64, 4], &[0, 2, 3, 1, 4]),
        (&[50, 70, 5, 5], &[1, 0, 3, 2]),
        (&[30, 40, 20, 3, 2, 2], &[2, 1, 0, 5, 3, 4]),
    ];
    permute_all(&CASES, 29);
}

/// Extents of the source, and the order in which the result has its axes, of elements of some sizes each.
#[cfg(not(miri))]
fn permute_all(cases: &[(&[i64], &[usize])], seed: u64) {
    let parts: Vec<_> = cases.iter().map(|(extents, order)| (*extents, *extents, *order)).collect();
    permute_parts(&parts, seed);
}

/// The same of parts of wider tensors.
#[cfg(not(miri))]
fn permute_parts(cases: &[(&[i64], &[i64], &[usize])], seed: u64) {
    let one_thread = ab_context_options { struct_size: 16, num_threads: 1, staging_bytes: 0 };
    let mut one = null_mut();
    // SAFETY: the pointers are to locals.
    assert_eq!(unsafe { ab_context_create(&one_thread, &mut one, null_mut()) }, AB_OK);
    let mut random = Random(seed);
    for (extents, wider, order) in cases {
        for size in [1usize, 2, 4, 8, 16].into_iter().skip(random.below(FEWER)).step_by(FEWER) {
            permutes(&mut random, size, (extents, wider), order, one);
        }
    }
    // SAFETY: it is not used any more.
    unsafe { ab_context_release(one) };
}

/// Jobs of a megabyte, one right after the other: no thread is woken for the first ones, and others help with those
/// that follow.
#[test]
#[ignore = "run by jobs_in_a_row, in a process that has nothing else to do"]
fn in_a_row() {
    let mut random = Random(9);
    let shapes: [&[i64]; 5] =
        [&[300_000], &[600, 530], &[71, 5, 801], &[22, 25, 24, 23], &[9, 11, 8, 7, 6, 8]];
    for (round, shape) in shapes.iter().cycle().take(40).enumerate() {
        let size = [1, 2, 4, 8, 16][round / shapes.len() % 5] as usize;
        let dtype = DLDataType { code: 200, bits: 8, lanes: size as u16 };
        let mut wide = shape.to_vec();
        wide[0] *= (4 / size as i64).max(1);
        let from = side(&mut random, &wide, size);
        let to: Vec<Side> = (0..6).map(|_| side(&mut random, &wide, size)).collect();
        let want = to.iter().map(|to| {
            let mut want = to.bytes.clone();
            pairs(&wide, (&from, size), (to, size), &mut |source, destination| {
                want[destination..destination + size].copy_from_slice(&from.bytes[source..source + size]);
            });
            want
        });
        let want: Vec<_> = want.collect();
        let tensors: Vec<_> = to.iter().map(|to| tensor(to, &wide, dtype)).collect();
        let source = tensor(&from, &wide, dtype);
        for to in tensors.iter().cycle().take(48) {
            copy(&source, to, null_mut());
        }
        for (to, want) in to.iter().zip(&want) {
            assert!(to.bytes == *want, "{wide:?} of {size} bytes, {:?} to {:?}", from.strides, to.strides);
        }
    }
}

/// Elements of any size that follow each other on both sides, from where one thread does them to where all do, one copy right
/// after another, at any place in a line; nothing beside them is written.
#[test]
#[cfg(not(miri))]
fn that_follow_each_other() {
    let mut random = Random(31);
    let one_thread = ab_context_options { struct_size: 16, num_threads: 1, staging_bytes: 0 };
    let mut alone = null_mut();
    // SAFETY: the options and the place for the result are ours; it is released below.
    assert_eq!(unsafe { ab_context_create(&one_thread, &mut alone, null_mut()) }, AB_OK);
    let noise: Vec<u8> = (0..9 << 20).map(|_| random.next() as u8).collect();
    for bytes in [100_000, 196_608, 262_144, 300_001, 1 << 20, 3 << 20, 8 << 20] {
        for lanes in [1, 3, 4, 16, 300, 65_535] {
            let count = (bytes / lanes).max(1);
            let dtype = DLDataType { code: 200, bits: 8, lanes: lanes as u16 };
            let shape = [1, count as i64, 1];
            for (from, to) in [(0, 0), (1, 16), (64, 63)] {
                let own = count * lanes;
                let mut destination = vec![0u8; own + 128];
                let tensor = |memory: *mut u8, byte_offset| DLTensor {
                    data: memory.cast(),
                    device: DLDevice { device_type: 1, device_id: 0 },
                    ndim: 3,
                    dtype,
                    shape: shape.as_ptr().cast_mut(),
                    strides: null_mut(),
                    byte_offset,
                };
                let source = tensor(noise.as_ptr().cast_mut(), from);
                for context in [null_mut(), alone] {
                    destination.fill(0xa5);
                    for _ in 0..3 {
                        copy(&source, &tensor(destination.as_mut_ptr(), to), context);
                    }
                    let which = format!("{count} of {lanes}, {from} to {to}");
                    let (begin, end) = (to as usize, to as usize + own);
                    assert_eq!(wrong(&destination[begin..end], &noise[from as usize..][..own]), 0, "{which}");
                    let is_left = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0xa5);
                    assert!(is_left(&destination[..begin]) && is_left(&destination[end..]), "{which}");
                }
            }
        }
    }
    // SAFETY: nobody has it any more.
    unsafe { ab_context_release(alone) };
}

#[test]
#[cfg(not(miri))]
fn jobs_in_a_row() {
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "in_a_row"])
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && output.contains("1 passed"), "{output}");
}

#[test]
fn every_instruction_set() {
    let all = ["moves", "casts", "casts_of_short_axes", "in_the_caches"];
    // These read and write in another order with AVX2, as processors like it that have no more.
    let around: &[&str] = &[
        "streamed_permutations",
        "streamed_rows",
        "streamed_steps",
        "streamed_casts",
        "streamed_casts_of_axes",
        "of_short_axes",
        "by_tiles",
        "that_share_sets_of_the_caches",
        "parts_of_wider_ones",
        "steps_of_short_axes",
        "steps_that_overlap",
    ];
    let lesser: &[(&str, &[&str])] = if cfg!(target_arch = "x86_64") {
        &[
            (
                "baseline",
                &[
                    "that_share_sets_of_the_caches",
                    "parts_of_wider_ones",
                    "steps_of_short_axes",
                    "steps_that_overlap",
                ],
            ),
            ("avx2", around),
        ]
    } else {
        &[("baseline", &[])]
    };
    for (isa, more) in lesser {
        let this = std::env::current_exe().unwrap();
        let run = std::process::Command::new(this)
            .arg("--exact")
            .args(all.iter().chain(*more))
            .env("ARRAYBRIDGE_ISA", isa)
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&run.stdout);
        let passed = format!("{} passed", all.len() + more.len());
        assert!(run.status.success() && output.contains(&passed), "{isa}: {output}");
    }
}

/// Long rows whose elements are some apart, or in reverse order, of memory or with other rows between them, to a result
/// that is written around the caches: moved, and cast. A few rows are some by turns, one is one.
#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn streamed_steps() {
    const BYTES: usize = 17 << 20;
    let mut random = Random(13);
    let numbers = |bytes: usize, code| DLDataType { code, bits: 8 * bytes as u8, lanes: 1 };
    let bits = |bytes: usize| DLDataType { code: 200, bits: 8, lanes: bytes as u16 };
    // Bytes of an element of either side, how far elements are apart, how many rows there are for each that is taken,
    // and rows; 0: of about 6000 bytes.
    const CASES: [(usize, usize, i64, usize, usize); 28] = [
        (1, 1, 2, 2, 0),
        (2, 2, 2, 2, 0),
        (4, 4, 2, 2, 0),
        (8, 8, 2, 2, 0),
        (16, 16, 2, 2, 0),
        (1, 1, 1, 2, 0),
        (2, 2, 1, 3, 7),
        (8, 8, 1, 1, 5),
        (4, 4, 2, 1, 3),
        (16, 16, 2, 1, 1),
        (1, 1, 9, 1, 1),
        (1, 1, 7, 1, 0),
        (2, 2, 3, 1, 1),
        (4, 4, -1, 2, 0),
        (3, 3, 3, 1, 0),
        (1, 4, 1, 2, 0),
        (4, 1, 1, 1, 0),
        (8, 4, 2, 1, 0),
        (4, 8, 2, 1, 1),
        (8, 2, 2, 1, 0),
        (4, 2, 2, 1, 1),
        (2, 4, 2, 3, 0),
        (2, 4, 1, 2, 0),
        (4, 8, 1, 3, 9),
        (1, 2, 2, 1, 3),
        (1, 8, 32, 1, 0),
        (2, 1, 5, 1, 0),
        (8, 1, -1, 1, 0),
    ];
    for (from, to, step, skip, rows) in CASES {
        let long = 4200 + random.below(3000);
        let rows = if rows == 0 { BYTES / from.max(to) * to / long } else { rows };
        let columns = (BYTES / from.max(to)).div_ceil(rows) + random.below(5);
        let wide = columns * step.unsigned_abs() as usize;
        let noise = small_numbers(&mut random);
        let mut source = vec![0; rows * skip * wide * from];
        if from == to {
            for part in source.chunks_mut(noise.len()) {
                part.copy_from_slice(&noise[..part.len()]);
            }
        } else {
            for (element, value) in source.chunks_exact_mut(from).zip(noise.iter().cycle()) {
                element[0] = *value;
            }
        }
        let first = if step < 0 { wide - 1 } else { 0 };
        let dtypes = if from == to { (bits(from), bits(to)) } else { (numbers(from, 0), numbers(to, 1)) };
        // The last one begins at no multiple of its elements.
        for lead in [0, to * random.below(64 / to), 3] {
            let from_side = Side {
                bytes: std::mem::take(&mut source),
                strides: vec![(skip * wide) as i64, step],
                byte_offset: first * from,
            };
            let result = Side {
                bytes: vec![0; lead + rows * columns * to + 64],
                strides: vec![columns as i64, 1],
                byte_offset: lead,
            };
            let shape = [rows as i64, columns as i64];
            copy(&tensor(&from_side, &shape, dtypes.0), &tensor(&result, &shape, dtypes.1), null_mut());
            let mut want = vec![0; result.bytes.len()];
            pairs(&shape, (&from_side, from), (&result, to), &mut |source, destination| {
                let some = from.min(to);
                want[destination..destination + some]
                    .copy_from_slice(&from_side.bytes[source..source + some]);
            });
            assert!(
                result.bytes == want,
                "{rows} x {columns} of {from} bytes at {step} to {to} after {lead}"
            );
            source = from_side.bytes;
        }
    }
}

/// Results of which the caches hold a part, which is written through them: rows, casts and channels by one thread and by
/// all, of sizes around those from which on that is done.
#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn held() {
    // Bytes of an element of either side and of the result, channels (side by side in the source), rows.
    const CASES: [(usize, usize, usize, usize, usize); 14] = [
        (1, 1, (12 << 20) + 100, 1, 1),
        (4, 4, 13 << 20, 1, 1),
        (16, 16, 15 << 20, 1, 1),
        (3, 3, 14 << 20, 1, 1),
        (2, 4, 12 << 20, 1, 1),
        (4, 2, (12 << 20) + 2, 1, 1),
        (1, 4, 20 << 20, 1, 1),
        (1, 8, 30 << 20, 1, 1),
        (4, 8, 13 << 20, 1, 700),
        (2, 1, 13 << 20, 1, 3),
        (1, 4, 24 << 20, 3, 500),
        (1, 4, 25 << 20, 4, 1),
        (1, 2, 16 << 20, 3, 7),
        (1, 2, 13 << 20, 2, 900),
    ];
    let one_thread = ab_context_options { struct_size: 16, num_threads: 1, staging_bytes: 0 };
    let mut one = null_mut();
    // SAFETY: the options and the context are valid.
    assert_eq!(unsafe { ab_context_create(&one_thread, &mut one, null_mut()) }, AB_OK);
    let mut random = Random(17);
    let noise: Vec<u8> = (0..65521).map(|_| random.next() as u8 & 127).collect();
    for (from, to, bytes, channels, rows) in CASES {
        let columns = bytes / to / channels / rows;
        let elements = channels * rows * columns;
        let mut source = vec![0; elements * from];
        let filled = if from == to { from } else { 1 };
        for (at, element) in source.chunks_exact_mut(from).enumerate() {
            for (byte, value) in element[..filled].iter_mut().enumerate() {
                *value = noise[(at * filled + byte) % noise.len()];
            }
        }
        let source = Side {
            bytes: source,
            strides: vec![1, (columns * channels) as i64, channels as i64],
            byte_offset: 0,
        };
        let shape = [channels as i64, rows as i64, columns as i64];
        let dtype = |bytes: usize, code| match from == to {
            true => DLDataType { code: 200, bits: 8, lanes: bytes as u16 },
            false => DLDataType { code, bits: 8 * bytes as u8, lanes: 1 },
        };
        // The last one begins at no multiple of its elements.
        for lead in [0, to * random.below(64 / to), 3] {
            for context in [one, null_mut()] {
                let strides = vec![(rows * columns) as i64, columns as i64, 1];
                let bytes = vec![0xee; lead + elements * to + 64];
                let result = Side { bytes, strides, byte_offset: lead };
                let mut want = result.bytes.clone();
                pairs(&shape, (&source, from), (&result, to), &mut |source_at, at| {
                    want[at..at + to].fill(0);
                    want[at..at + filled].copy_from_slice(&source.bytes[source_at..source_at + filled]);
                });
                copy(
                    &tensor(&source, &shape, dtype(from, 0)),
                    &tensor(&result, &shape, dtype(to, 1)),
                    context,
                );
                assert!(result.bytes == want, "{shape:?} of {from} bytes to {to} after {lead}");
            }
        }
    }
    // SAFETY: nothing uses it any more.
    unsafe { ab_context_release(one) };
}
