//! Rust types that are elements.

use crate::dlpack::raw::DLDataType;
use crate::dtype::Scalar;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that is an element, every bit pattern of which is a value: the integers of 8 to 64 bits,
/// `f32` and `f64`. (A `bool` is none, because a byte of a boolean tensor may be any: read it as `u8` after
/// converting it.)
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// Its dtype.
    const SCALAR: Scalar;
}

macro_rules! elements {
    ($($type:ty => $scalar:ident),*) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const SCALAR: Scalar = Scalar::$scalar;
        }
    )*};
}

elements!(
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64, u8 => Uint8, u16 => Uint16, u32 => Uint32,
    u64 => Uint64, f32 => Float32, f64 => Float64
);

impl DLDataType {
    /// The dtype of a Rust type.
    ///
    /// ```
    /// use arraybridge::DLDataType;
    ///
    /// assert_eq!(DLDataType::of::<f32>(), "float32".parse()?);
    /// # Ok::<(), arraybridge::Error>(())
    /// ```
    pub fn of<T: Element>() -> DLDataType {
        T::SCALAR.dtype()
    }
}
