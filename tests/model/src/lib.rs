//! What the library synchronises by hand, taken from its source and run by a scheduler that decides at each lock,
//! wait and atomic who goes on, tens of thousands of times in different orders. A lost wake-up shows as a
//! deadlock, what two threads have at once or nobody ever gives back as a wrong count.
#![cfg(test)]
// What is taken from the sources is used in part, and its statics by a macro.
#![allow(dead_code, unused_doc_comments)]

mod kept;
mod lanes;
mod pool;
mod rings;
mod streaks;
mod tickets;

/// How often each test is run by each scheduler.
fn executions() -> usize {
    std::env::var("ARRAYBRIDGE_MODEL").map_or(5000, |text| text.parse().expect("a number"))
}
