//! Arrays of the crate ndarray, in and out, without copying.

use ndarray::{
    Array, ArrayView, ArrayViewD, ArrayViewMut, ArrayViewMutD, Axis, Dimension, IxDyn, ShapeBuilder,
};

use super::{Element, Tensor, View, ViewMut};
use crate::error::{Error, Result};
use crate::layout;

/// Takes over an array's memory, whatever its layout.
///
/// ```
/// use arraybridge::{LayoutPolicy, Tensor, To, convert};
/// use ndarray::array;
///
/// let image = array![[1u8, 2, 3], [4, 5, 6]].reversed_axes(); // column-major now
/// let (floats, _) = convert(Tensor::try_from(image)?, &To::new().element::<f32>().layout(LayoutPolicy::C))?;
/// assert_eq!(floats.view().as_ndarray::<f32>()?, array![[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]].into_dyn());
/// # Ok::<(), arraybridge::Error>(())
/// ```
impl<A: Element, D: Dimension + 'static> TryFrom<Array<A, D>> for Tensor {
    type Error = Error;

    fn try_from(mut array: Array<A, D>) -> Result<Tensor> {
        let (shape, strides) = dims(array.shape(), array.strides());
        // SAFETY: the array is the memory, moved but not reallocated.
        unsafe {
            let view = View::build(array.as_mut_ptr().cast(), A::SCALAR.dtype(), &shape, Some(&strides))?;
            Tensor::own(&view, Box::new(array))
        }
    }
}

/// An array's memory, borrowed.
///
/// ```
/// use arraybridge::{To, View, copy};
/// use ndarray::{Array3, s};
///
/// let volume = Array3::<u16>::from_shape_fn((2, 4, 6), |(z, y, x)| (z * 24 + y * 6 + x) as u16);
/// let part = View::try_from(volume.slice(s![1, ..;-1, 1..3]))?;
/// let (part, _) = copy(&part, &To::new().element::<f64>())?;
/// assert_eq!(part.as_slice::<f64>()?, [43.0, 44.0, 37.0, 38.0, 31.0, 32.0, 25.0, 26.0]);
/// # Ok::<(), arraybridge::Error>(())
/// ```
impl<'a, A: Element, D: Dimension> TryFrom<ArrayView<'a, A, D>> for View<'a> {
    type Error = Error;

    fn try_from(array: ArrayView<'a, A, D>) -> Result<View<'a>> {
        let (shape, strides) = dims(array.shape(), array.strides());
        // SAFETY: the array is as much memory as it says, for 'a.
        unsafe { View::build(array.as_ptr().cast(), A::SCALAR.dtype(), &shape, Some(&strides)) }
    }
}

/// An array's memory, borrowed for writing.
///
/// ```
/// use arraybridge::{To, View, ViewMut, copy_into};
/// use ndarray::{Array2, array};
///
/// let mut columns = Array2::<f32>::zeros((2, 2));
/// copy_into(&View::of(&[1i32, 2, 3, 4], &[2, 2])?, &mut ViewMut::try_from(columns.view_mut().reversed_axes())?, &To::new())?;
/// assert_eq!(columns, array![[1.0, 3.0], [2.0, 4.0]]);
/// # Ok::<(), arraybridge::Error>(())
/// ```
impl<'a, A: Element, D: Dimension> TryFrom<ArrayViewMut<'a, A, D>> for ViewMut<'a> {
    type Error = Error;

    fn try_from(mut array: ArrayViewMut<'a, A, D>) -> Result<ViewMut<'a>> {
        let (shape, strides) = dims(array.shape(), array.strides());
        // SAFETY: the array is as much memory as it says, and nobody else's for 'a.
        unsafe {
            let view = View::build(array.as_mut_ptr().cast(), A::SCALAR.dtype(), &shape, Some(&strides))?;
            Ok(ViewMut::assume(view.read()))
        }
    }
}

impl<'a> View<'a> {
    /// The tensor as an array over the same memory, strides and all. It must be on the host, aligned and of
    /// this type: an error says what it is instead.
    pub fn as_ndarray<A: Element>(&self) -> Result<ArrayViewD<'a, A>> {
        let (start, shape, steps, reversed) = self.unreversed(self.first::<A>()?)?;
        // SAFETY: the elements are where the strides say, aligned, of A, and borrowed for 'a.
        let mut array = unsafe { ArrayView::from_shape_ptr(IxDyn(&shape).strides(IxDyn(&steps)), start) };
        reversed.into_iter().for_each(|axis| array.invert_axis(axis));
        Ok(array)
    }

    /// ndarray makes arrays with positive strides only, and then reverses axes: the lowest element, the
    /// shape, the strides without their signs, and the axes to reverse.
    #[allow(clippy::type_complexity)]
    fn unreversed<A>(&self, first: *mut A) -> Result<(*mut A, Vec<usize>, Vec<usize>, Vec<Axis>)> {
        let view = self.read();
        let steps = view.strides.iter().map(|stride| stride.unsigned_abs() as usize).collect();
        let negative = |axis: &usize| view.strides[*axis] < 0 && view.shape[*axis] > 1;
        let reversed = (0..view.shape.len()).filter(negative).map(Axis).collect();
        // The offsets of the struct are those of all elements, in bytes; its start is none of them.
        let lowest = layout::facts(view.shape, view.strides).map_or(0, |facts| facts.lowest);
        let shape = view.shape.iter().map(|extent| *extent as usize).collect();
        Ok((first.wrapping_offset(lowest as isize), shape, steps, reversed))
    }
}

impl<'a> ViewMut<'a> {
    /// As [`View::as_ndarray`], for writing: the tensor must not be read-only, nor may two indices share an
    /// element.
    pub fn into_ndarray<A: Element>(self) -> Result<ArrayViewMutD<'a, A>> {
        let (start, shape, steps, reversed) = self.as_view().unreversed(self.first_mut::<A>()?)?;
        // SAFETY: as above, and nobody else's for 'a.
        let mut array = unsafe { ArrayViewMut::from_shape_ptr(IxDyn(&shape).strides(IxDyn(&steps)), start) };
        reversed.into_iter().for_each(|axis| array.invert_axis(axis));
        Ok(array)
    }
}

/// As DLPack counts.
fn dims(shape: &[usize], strides: &[isize]) -> (Vec<i64>, Vec<i64>) {
    (
        shape.iter().map(|extent| *extent as i64).collect(),
        strides.iter().map(|stride| *stride as i64).collect(),
    )
}
