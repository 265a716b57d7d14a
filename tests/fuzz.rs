//! The functions of tests/fuzz over their committed corpus, and over bytes made here: what the fuzzers do
//! for as long as one likes (`tests/run --long`), on the toolchain that the library is built with.

#[path = "fuzz/targets/mod.rs"]
mod targets;

use std::path::Path;

/// Cases made here, besides the corpus.
const CASES: u64 = if cfg!(miri) { 5 } else { 4000 };

fn replay(name: &str, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(name);
    let mut files: Vec<_> = std::fs::read_dir(&corpus)
        .unwrap_or_else(|error| panic!("{}: {error}", corpus.display()))
        .map(|entry| entry.expect("an entry of the corpus").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", corpus.display());
    if cfg!(miri) {
        files.truncate(3);
    }
    for file in files {
        let case = std::fs::read(&file).expect("a case");
        // Which one it was, if it fails.
        println!("{}", file.display());
        run(&case);
    }
    for seed in 1..=CASES {
        let case = random(seed);
        let panic = std::panic::catch_unwind(|| run(&case));
        if let Err(panic) = panic {
            eprintln!("{name}: seed {seed}, bytes {case:x?}");
            std::panic::resume_unwind(panic);
        }
    }
}

fn random(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    let length = usize::from(next()) * 2;
    (0..length).map(|_| next()).collect()
}

#[test]
fn structs_that_lie() {
    replay("structs", targets::structs::run);
}

#[test]
fn copies_against_a_loop() {
    replay("copies", targets::copies::run);
}

#[test]
fn dtypes_and_npy_headers() {
    replay("texts", targets::texts::run);
}

#[test]
fn sequences_of_calls() {
    replay("calls", targets::calls::run);
}
