//! The C boundary, and nothing else: pointers are checked, panics caught, errors mapped.

// These are C's names, and the header's documentation is written for C.
#![allow(non_camel_case_types, clippy::missing_safety_doc)]

mod boundary;
pub mod context;
pub mod convert;
pub mod detect;
pub mod dtype;
pub mod managed;
pub mod types;
