//! Copies that come again, which are not looked into again: what must be is checked each time all the same.

#[path = "common/calls.rs"]
mod calls;

use arraybridge::dlpack::raw::{DLPACK_FLAG_BITMASK_READ_ONLY, DLTensor};
use arraybridge::ffi::convert::ab_copy_into;
use arraybridge::ffi::types::*;
use calls::{Array, copy_into, options};

/// Bytes that look random.
fn noise(count: usize, seed: u32) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// A tensor that is written to.
fn written(bytes: &mut [u8], dtype: &'static str, shape: &[i64]) -> Array {
    Array::new(bytes.as_mut_ptr() as u64, calls::CPU, dtype, shape)
}

/// A matrix of numbers, transposed into another.
struct Job {
    shape: [i64; 2],
    source: Vec<u8>,
    destination: Vec<u8>,
}

impl Job {
    fn new(rows: usize, columns: usize, seed: u32) -> Job {
        let bytes = rows * columns * 4;
        Job { shape: [rows as i64, columns as i64], source: noise(bytes, seed), destination: vec![0; bytes] }
    }

    fn from(&self) -> Array {
        Array::host(&self.source, "int32", &self.shape).strided(&[1, self.shape[0]], 0)
    }

    fn to(&mut self) -> Array {
        written(&mut self.destination, "int32", &self.shape).strided(&[self.shape[1], 1], 0)
    }

    /// Does it, and looks at every element.
    fn run(&mut self, seed: u32) {
        self.told(seed);
    }

    /// The same; what is told of it.
    fn told(&mut self, seed: u32) -> ab_report {
        let fresh = noise(self.source.len(), seed);
        self.source.copy_from_slice(&fresh);
        self.destination.fill(0);
        let (from, to) = (self.from(), self.to());
        let report = copy_into(&from, &to, &options()).unwrap();
        let (rows, columns) = (self.shape[0] as usize, self.shape[1] as usize);
        for (index, element) in self.destination.chunks_exact(4).enumerate() {
            let at = 4 * (index / columns + index % columns * rows);
            assert_eq!(*element, fresh[at..at + 4], "{rows} x {columns}, element {index}");
        }
        report
    }
}

/// So often that it is known.
fn known(rows: usize, columns: usize) -> Job {
    let mut job = Job::new(rows, columns, 1);
    (0..4).for_each(|seed| job.run(seed));
    job
}

#[test]
fn elsewhere_and_with_other_numbers() {
    for seed in 0..20 {
        // Each is somewhere else.
        let mut jobs = [Job::new(31, 33, seed), Job::new(31, 33, seed), Job::new(31, 33, seed)];
        jobs.iter_mut().for_each(|job| job.run(seed));
    }
}

#[test]
fn more_shapes_than_are_kept() {
    let mut jobs: Vec<_> = (1..=9).map(|rows| Job::new(rows, 40 - rows, 3)).collect();
    for order in [[0, 1, 2], [3, 4, 0], [5, 6, 0], [7, 8, 0], [0, 0, 0], [8, 0, 8]] {
        for round in 0..6 {
            order.iter().for_each(|index| jobs[*index].run(round));
        }
    }
}

/// Three axes reversed, whose rows and columns are somewhere each: as many as have a place, one more, and far more, again
/// and again.
#[test]
fn many_rows_and_columns() {
    let (most, rounds) = if cfg!(miri) { (16 << 10, 3) } else { (512 << 10, 5) };
    for (dtype, size) in [("uint8", 1), ("int16", 2), ("float32", 4)] {
        for [a, b, c] in
            [[9, 10, 100], [16, 16, 17], [13, 40, 42], [32, 16, 253], [32, 16, 512], [27, 19, 510]]
        {
            if a * b * c * size >= most {
                continue;
            }
            let (mut destination, mut source) = (vec![0; a * b * c * size], vec![0; a * b * c * size]);
            let shape = [c, b, a].map(|extent| extent as i64);
            for seed in 0..rounds {
                source.copy_from_slice(&noise(a * b * c * size, seed));
                destination.fill(0);
                let steps = [1, c, b * c].map(|step| step as i64);
                let from = Array::host(&source, dtype, &shape).strided(&steps, 0);
                let to = written(&mut destination, dtype, &shape);
                copy_into(&from, &to, &options()).unwrap();
                for (index, element) in destination.chunks_exact(size).enumerate() {
                    let at = size * (index % a * b * c + index / a % b * c + index / a / b);
                    assert_eq!(*element, source[at..at + size], "{dtype}, {a} x {b} x {c}, {seed}, {index}");
                }
            }
        }
    }
}

#[test]
fn the_report_is_the_same() {
    let mut job = Job::new(20, 21, 1);
    let told = |report: ab_report| {
        (report.route, report.reasons, report.passes, report.bytes_read, report.bytes_written)
    };
    let first = told(job.told(1));
    assert_eq!(first, (AB_ROUTE_HOST, AB_REASON_LAYOUT | AB_REASON_REQUESTED, 1, 1680, 1680));
    for seed in 2..6 {
        assert_eq!(told(job.told(seed)), first);
    }
}

#[test]
fn what_is_refused_is_refused_again() {
    let mut job = known(30, 20);
    let refused = |from: &Array, to: &Array, status: ab_status, word: &str| {
        let (code, _, message) = copy_into(from, to, &options()).err().expect("an error");
        assert_eq!(code, status, "{message}");
        assert!(message.contains(word), "{message}");
    };
    let (from, to) = (job.from(), job.to());
    refused(&Array { data: 0, ..from.clone() }, &to, AB_E_INVALID_TENSOR, "data");
    refused(&from, &Array { data: 0, ..to.clone() }, AB_E_INVALID_TENSOR, "data");
    refused(&Array { data: u64::MAX - 100, ..from.clone() }, &to, AB_E_INVALID_TENSOR, "data");
    refused(&from, &Array { byte_offset: u64::MAX, ..to.clone() }, AB_E_INVALID_TENSOR, "byte_offset");
    refused(&Array { byte_offset: i64::MAX as u64, ..from.clone() }, &to, AB_E_INVALID_TENSOR, "byte_offset");
    refused(&from, &Array { shape: vec![30, 21], ..to.clone() }, AB_E_INVALID_ARGUMENT, "21");
    refused(&Array { shape: vec![31, 20], ..from.clone() }, &to, AB_E_INVALID_ARGUMENT, "31");
    refused(&from, &Array { strides: Some(vec![0, 1]), ..to.clone() }, AB_E_OVERLAP, "destination");
    refused(
        &from,
        &Array { dtype: "float32x2", shape: vec![30, 20], ..to.clone() },
        AB_E_UNSUPPORTED_DTYPE,
        "lanes",
    );
    // One on the other, whole or in part.
    for offset in [0, 4, 2396] {
        refused(&from, &Array { data: from.data + offset, ..to.clone() }, AB_E_OVERLAP, "source");
    }
    refused(&Array { data: to.data - 2396, ..from.clone() }, &to, AB_E_OVERLAP, "source");
    // What only may be read.
    let (from, to) = (from.tensor(), to.tensor());
    let copy = |from: &DLTensor, to: &DLTensor, flags: u64| {
        let null = std::ptr::null_mut();
        // SAFETY: the test's tensors are as large as they say.
        unsafe { ab_copy_into(null, from, 0, to, flags, std::ptr::null(), null.cast(), null.cast()) }
    };
    for _ in 0..3 {
        assert_eq!(copy(&from, &to, 0), AB_OK);
        assert_eq!(copy(&from, &to, DLPACK_FLAG_BITMASK_READ_ONLY), AB_E_READ_ONLY);
        assert_eq!(copy(&DLTensor { ndim: -1, ..from }, &to, 0), AB_E_INVALID_TENSOR);
        assert_eq!(copy(&DLTensor { shape: std::ptr::null_mut(), ..from }, &to, 0), AB_E_INVALID_TENSOR);
    }
    job.run(9);
}

/// Rules for values that do not fit decide what is known too.
#[test]
fn other_options_are_other_copies() {
    let source: Vec<u8> = [300, -5, 7].into_iter().flat_map(i32::to_ne_bytes).collect();
    let mut result = vec![0u8; 3];
    let (from, to) = (Array::host(&source, "int32", &[3]), written(&mut result, "uint8", &[3]));
    let saturating = ab_convert_options { flags: AB_CONVERT_SATURATE, ..options() };
    let casting = |casting| ab_convert_options { casting, ..options() };
    for _ in 0..4 {
        copy_into(&from, &to, &saturating).unwrap();
        // SAFETY: only the library writes it, through an address that came from it.
        let read = || unsafe { std::slice::from_raw_parts(to.data as *const u8, 3).to_vec() };
        assert_eq!(read(), [255, 0, 7]);
        copy_into(&from, &to, &options()).unwrap();
        assert_eq!(read(), [44, 251, 7]);
        assert_eq!(copy_into(&from, &to, &casting(AB_CAST_SAFE)).err().unwrap().0, AB_E_LOSSY);
        assert_eq!(copy_into(&from, &to, &casting(AB_CAST_EXACT)).err().unwrap().0, AB_E_LOSSY);
    }
    let bad = ab_convert_options { casting: 77, ..options() };
    assert_eq!(copy_into(&from, &to, &bad).err().unwrap().0, AB_E_INVALID_ARGUMENT);
}

#[test]
fn strides_that_say_nothing() {
    let (source, mut result) = (noise(4 * 60, 5), vec![0u8; 4 * 60]);
    let from = Array::host(&source, "float32", &[1, 60]);
    let to = written(&mut result, "float32", &[1, 60]);
    let strides = [None, Some(vec![60, 1]), Some(vec![-7, 1]), Some(vec![i64::MAX, 1]), Some(vec![0, 1])];
    for round in 0..20 {
        let from = Array { strides: strides[round % 5].clone(), ..from.clone() };
        let to = Array { strides: strides[round / 4].clone(), ..to.clone() };
        // SAFETY: only the library and this write it.
        unsafe { (to.data as *mut u8).write_bytes(0, 240) };
        copy_into(&from, &to, &options()).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { std::slice::from_raw_parts(to.data as *const u8, 240) }, source);
    }
    // Where they do say something.
    let reversed = Array { strides: Some(vec![60, -1]), byte_offset: 4 * 59, ..from };
    copy_into(&reversed, &to, &options()).unwrap();
    // SAFETY: as above.
    let result = unsafe { std::slice::from_raw_parts(to.data as *const u8, 240) };
    assert!(result.chunks_exact(4).eq(source.chunks_exact(4).rev()));
}

/// More threads than there are places, some at once and some after each other, with shapes of their own and shared ones.
#[test]
fn by_many_threads() {
    let (waves, threads, rounds) = if cfg!(miri) { (2, 3, 4) } else { (3, 90, 40) };
    for wave in 0..waves {
        std::thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || {
                    let mut jobs = [Job::new(9, 10, 1), Job::new(3 + thread % 30, 20 + wave, 2)];
                    for round in 0..rounds {
                        jobs.iter_mut().for_each(|job| job.run(round));
                    }
                });
            }
        });
    }
}
