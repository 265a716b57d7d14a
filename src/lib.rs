//! Brings any DLPack tensor to the device, dtype and layout that the caller needs: zero copy whenever
//! that is physically possible, else in one pass.
//!
//! There is one way through the library, for every call:
//!
//! ```text
//! C struct ──▶ dlpack::TensorView ──▶ plan::Plan ──▶ backend jobs ──▶ dlpack::Managed (C struct)
//!  ffi           validated, borrowed     pure, no I/O    host · cuda · opencl              ffi
//! ```
//!
//! Nothing flows back: `ffi` calls `convert`, `convert` asks `plan`, hands jobs to backends, wraps the
//! result. `plan` knows no driver and moves no byte; a backend knows no DLPack and no policy.
//!
//! | module | what it answers |
//! |---|---|
//! | [`ffi`] | what C sees: every `ab_*` function, its structs and constants |
//! | [`dlpack`] | the raw structs; [`dlpack::TensorView`], checked; [`dlpack::Managed`], handed out |
//! | [`mod@dtype`] | codes, sizes, names, casting rules |
//! | [`layout`] | bounds, contiguity, overlap, folding two stride sets into one job |
//! | [`consumers`] | the table of what each importer takes |
//! | [`mod@plan`] | request and view to route, reasons and steps |
//! | [`mod@convert`] | runs a plan |
//! | [`report`] | routes and reasons, and the words for them |
//! | [`context`] | limits, backends, the default context |
//! | [`backend`] | the one table that the host, CUDA and OpenCL fill, and the job that they get |
//! | [`error`] | what can go wrong |
//! | [`tensor`] | the Rust API over all of it |
//!
//! `unsafe` is confined to `ffi`, `dlpack`, `backend` and `convert`, which joins them, and `tensor`.

pub mod backend;
pub mod consumers;
pub mod context;
pub mod convert;
pub mod dlpack;
pub mod dtype;
pub mod error;
pub mod ffi;
pub mod layout;
pub mod plan;
pub mod report;
pub mod tensor;

pub use context::{Context, ContextOptions};
pub use dlpack::raw::{DLDataType, DLDevice};
pub use error::{Error, Result};
pub use plan::{ConvertOptions, CopyPolicy, LayoutPolicy};
pub use report::Report;
pub use tensor::{Tensor, convert, copy, plan};

/// The crate's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
