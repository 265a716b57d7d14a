//! Takes the pool of threads as it stands in the library, with its locks, threads and clock exchanged for
//! those of the model.

use std::path::Path;
use std::{env, fs};

const SOURCE: &str = "../../src/backend/host/threads.rs";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    let source = fs::read_to_string(SOURCE).expect("the library's source");
    let pool = between(
        &source,
        "/// How long a thread that has just worked",
        "/// Makes a worker, of which nobody keeps track",
    );
    // What is in there is only what the model knows.
    for word in ["std::sync", "std::thread", "libc::", "static "] {
        let found = pool.replace("'static ", "").contains(word);
        assert!(!found, "{SOURCE} has {word:?} where the model does not exchange it");
    }
    let out = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join("pool.rs");
    fs::write(out, pool).expect("OUT_DIR is writable");
}

fn between<'a>(source: &'a str, first: &str, end: &str) -> &'a str {
    let start = source.find(first).unwrap_or_else(|| panic!("{SOURCE} has no {first:?}"));
    let length = source[start..].find(end).unwrap_or_else(|| panic!("{SOURCE} has no {end:?}"));
    &source[start..start + length]
}
