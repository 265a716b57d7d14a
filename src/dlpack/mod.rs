//! DLPack as it crosses the boundary: the raw structs, a checked view of a tensor that came in, and
//! the managed tensors that go out.

pub mod known;
pub mod managed;
pub mod raw;
pub mod view;

pub use managed::{Keep, Managed};
pub use view::{Dims, TensorView};
