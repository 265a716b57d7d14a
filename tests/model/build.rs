//! Takes what is synchronised by hand as it stands in the library, with its locks, threads and clock exchanged
//! for those of the model.

use std::path::Path;
use std::{env, fs};

fn main() {
    // How long threads look for work, up to how the system makes them.
    take(
        "pool.rs",
        "../../src/backend/host/threads.rs",
        &[("/// How long a thread that has just worked", "/// Makes a worker, of which nobody keeps track")],
    );
    take(
        "rings.rs",
        "../../src/backend/staging.rs",
        &[
            (
                "/// Pinned memory of a ring, and what is on its way",
                "/// Bytes of the slots that a job takes",
            ),
            ("/// Slots that callers take and give back.", "/// How the elements of a job cross:"),
        ],
    );
    take(
        "shared.rs",
        "../../src/backend/shared.rs",
        &[("/// A value that several own; the last one drops it.", "#[cfg(test)]")],
    );
    take(
        "lanes.rs",
        "../../src/backend/opencl/lane.rs",
        &[
            (
                "/// A lane for as long as it is in use",
                "    /// Of the context of our own that each device has.",
            ),
            ("    /// Whether both are one.", "impl std::fmt::Debug for Held"),
        ],
    );
    take(
        "idle.rs",
        "../../src/backend/opencl/idle.rs",
        &[("/// The programs of a context and a device.", "")],
    );
    take("ticket.rs", "../../src/backend/opencl/ticket.rs", &[("/// A job in pieces.", "")]);
    take(
        "streak.rs",
        "../../src/backend/host/streak.rs",
        &[
            ("/// How long jobs in a row take before others are woken:", "/// The jobs of the process."),
            ("/// When the last job ended, or when the rest ends;", "    /// Begins a job."),
            ("    /// Whether the jobs right before this one took", "/// A child of a fork"),
        ],
    );
    take("stage.rs", "../../src/backend/host/transpose/stage.rs", &[("/// A power of two;", "impl Stage {")]);
    take(
        "pages.rs",
        "../../src/backend/host/pages.rs",
        &[
            ("/// Pages of a result, which go back", "impl Mapping {"),
            ("/// The mapping that was freed last;", "/// A child of a fork has none"),
            ("/// The kept mapping, if it is", "/// A new mapping of so many bytes"),
        ],
    );
}

/// Writes parts of a source, each from a text up to another, or to the end.
fn take(name: &str, source: &str, parts: &[(&str, &str)]) {
    println!("cargo::rerun-if-changed={source}");
    let text = fs::read_to_string(source).expect("the library's source");
    let taken: String = parts.iter().map(|(first, end)| between(source, &text, first, end)).collect();
    let taken = taken.replace("std::thread::sleep", "sleep");
    // Anew in each execution.
    let anew = |line: &str| match line.strip_prefix("static ") {
        Some(rest) => format!("shuttle::lazy_static! {{ static ref {rest} }}\n"),
        None => format!("{line}\n"),
    };
    let taken: String = taken.lines().map(anew).collect();
    // What is in there is only what the model knows.
    for word in ["std::sync", "std::thread", "libc::"] {
        assert!(!taken.contains(word), "{source} has {word:?} where the model does not exchange it");
    }
    let out = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join(name);
    fs::write(out, taken).expect("OUT_DIR is writable");
}

fn between<'a>(name: &str, source: &'a str, first: &str, end: &str) -> &'a str {
    let start = source.find(first).unwrap_or_else(|| panic!("{name} has no {first:?}"));
    if end.is_empty() {
        return &source[start..];
    }
    let length = source[start..].find(end).unwrap_or_else(|| panic!("{name} has no {end:?}"));
    &source[start..start + length]
}
