//! What is fuzzed: functions that read a test case from any bytes and panic when a promise is broken.

// Each fuzzer compiles its own copy and uses a part of it.
#![allow(dead_code)]

pub mod calls;
pub mod copies;
pub mod input;
pub mod structs;
pub mod texts;
pub mod values;
pub mod world;
