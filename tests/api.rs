//! The Rust API as a program uses it.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::thread;

use arraybridge::dlpack::managed::Parts;
use arraybridge::dlpack::raw::{DLManagedTensor, DLManagedTensorVersioned, DLTensor};
use arraybridge::info::Info;
use arraybridge::{
    Context, ContextOptions, CopyPolicy, DLDataType, DLDevice, Error, LayoutPolicy, Rejected, Tensor, To,
    View, ViewMut, convert, copy, copy_into, detect, plan,
};

const CPU: DLDevice = DLDevice { device_type: 1, device_id: 0 };

#[test]
fn five_lines() -> Result<(), Error> {
    // [readme]
    let pixels = vec![10u8, 20, 30, 11, 21, 31]; // two RGB pixels
    let planes = View::strided(&pixels, &[3, 2], &[1, 3], 0)?; // channels first, by strides
    let (planes, report) = copy(&planes, &To::new().element::<f32>().layout(LayoutPolicy::C))?;
    assert_eq!(planes.as_slice::<f32>()?, [10.0, 11.0, 20.0, 21.0, 30.0, 31.0]);
    assert_eq!(report.passes, 1);
    // [/readme]
    Ok(())
}

#[test]
fn tensors_go_to_other_threads() {
    fn check<T: Send + Sync>() {}
    check::<Tensor>();
    check::<View<'_>>();
    check::<ViewMut<'_>>();
    check::<To>();
    check::<Rejected>();
    let tensor = Arc::new(Tensor::from_vec((0..1000i32).collect(), &[10, 100]).unwrap());
    let threads: Vec<_> = (0..4)
        .map(|row| {
            let tensor = tensor.clone();
            thread::spawn(move || {
                let (result, _) = copy(&tensor.view(), &To::new().element::<f64>()).unwrap();
                assert_eq!(result.as_slice::<f64>().unwrap()[row * 100], row as f64 * 100.0);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn wrapped(elements: &mut [i16], flags: u64) -> (Tensor, Arc<()>) {
    let alive = Arc::new(());
    let parts = Parts {
        data: elements.as_mut_ptr() as usize as u64,
        device: CPU,
        dtype: DLDataType::of::<i16>(),
        shape: &[2, 2],
        strides: &[1, 2],
        byte_offset: 0,
        flags,
    };
    // SAFETY: the caller's elements outlive what the tests do with it.
    (unsafe { Tensor::wrap(parts, Box::new(alive.clone())) }.unwrap(), alive)
}

#[test]
fn owners_are_let_go_once() {
    let mut elements = [1, 2, 3, 4];
    let (tensor, alive) = wrapped(&mut elements, 0);
    assert_eq!((tensor.shape(), tensor.view().strides(), tensor.device()), (&[2, 2][..], &[1, 2][..], CPU));
    let (shared, report) = convert(tensor, &To::new()).unwrap();
    assert_eq!((report.passes, Arc::strong_count(&alive)), (0, 2));
    // To the C structs and back, of both generations.
    let legacy = shared.into_raw_legacy().unwrap();
    // SAFETY: it is owned here.
    let shared = unsafe { Tensor::from_raw_legacy(legacy) }.unwrap();
    // SAFETY: it is owned here.
    let shared = unsafe { Tensor::from_raw(shared.into_raw()) }.unwrap();
    assert_eq!(Arc::strong_count(&alive), 2);
    assert_eq!(shared.to_vec::<i16>().unwrap(), [1, 3, 2, 4]);
    drop(shared);
    assert_eq!(Arc::strong_count(&alive), 1);

    let (tensor, alive) = wrapped(&mut elements, 0);
    let (result, _) = convert(tensor, &To::new().layout(LayoutPolicy::C)).unwrap();
    assert_eq!(Arc::strong_count(&alive), 1); // it was copied
    assert_eq!(result.as_slice::<i16>().unwrap(), [1, 3, 2, 4]);
}

#[test]
fn what_is_rejected_comes_back() {
    let mut elements = [1, 2, 3, 4];
    let (tensor, alive) = wrapped(&mut elements, 1);
    let rejected = convert(tensor, &To::new().writable().copy(CopyPolicy::Never)).unwrap_err();
    assert!(rejected.to_string().contains("read-only"), "{rejected}");
    let Err(rejected) = rejected.tensor.into_raw_legacy() else { panic!("a read-only legacy tensor") };
    assert_eq!(rejected.error, Error::LegacyReadOnly);
    assert_eq!(Arc::strong_count(&alive), 2);
    let mut tensor = rejected.tensor;
    assert_eq!(
        copy_into(&View::of(&[0i16; 4], &[2, 2]).unwrap(), &mut tensor.view_mut(), &To::new()).unwrap_err(),
        Error::DestinationReadOnly
    );
    assert_eq!(tensor.as_mut_slice::<i16>().unwrap_err(), Error::DestinationReadOnly);
    drop(tensor);
    assert_eq!(Arc::strong_count(&alive), 1);
    for (to, message) in [
        (To::new().alignment(3), "options.alignment is 3: expected 0 or a power of two up to 1073741824"),
        (To::new().consumers(1 << 31), "options.consumers is 0x80000000: bits 0x80000000 are not known"),
        (To::new().dtype(DLDataType { code: 2, bits: 0, lanes: 1 }), "options.dtype.bits is 0"),
    ] {
        let error: Error = convert(Tensor::from_vec(vec![0u8], &[1]).unwrap(), &to).unwrap_err().into();
        assert!(error.to_string().starts_with(message), "{error}");
    }
}

#[test]
fn slices_are_what_they_are_asked_for() {
    let mut tensor = Tensor::from_vec(vec![1.5f32, 2.5, 3.5, 4.5], &[2, 2]).unwrap();
    tensor.as_mut_slice::<f32>().unwrap()[3] = 9.0;
    assert_eq!(tensor.as_slice::<f32>().unwrap(), [1.5, 2.5, 3.5, 9.0]);
    assert_eq!(
        tensor.as_slice::<i32>().unwrap_err().to_string(),
        "dtype is float32: expected int32; convert to it first"
    );
    assert_eq!(
        tensor.to_vec::<u8>().unwrap_err().to_string(),
        "dtype is float32: expected uint8; convert to it first"
    );
    assert_eq!(Tensor::from_vec(Vec::<u8>::new(), &[0, 3]).unwrap().as_slice::<u8>().unwrap(), []);
    assert_eq!(Tensor::from_vec(vec![7u8], &[]).unwrap().to_vec::<u8>().unwrap(), [7]);
    for shape in [&[3][..], &[-1, -4], &[i64::MAX, 2], &[1; 65]] {
        assert!(Tensor::from_vec(vec![0u8; 4], shape).is_err(), "{shape:?}");
    }

    let (bytes, mut shape) = ([0u8; 16], [2i64]);
    let shape = shape.as_mut_ptr();
    let misaligned = DLTensor {
        data: bytes.as_ptr().wrapping_add(1 + bytes.as_ptr().align_offset(4)) as *mut c_void,
        device: CPU,
        ndim: 1,
        dtype: DLDataType::of::<f32>(),
        shape,
        strides: null_mut(),
        byte_offset: 0,
    };
    // SAFETY: it lies within the bytes.
    let misaligned = unsafe { View::from_raw(&misaligned, 0) }.unwrap();
    assert!(detect(&misaligned).is(Info::MISALIGNED));
    assert!(matches!(misaligned.as_slice::<f32>(), Err(Error::Misaligned { .. })));
    assert_eq!(misaligned.to_vec::<f32>().unwrap(), [0.0, 0.0]);
    let elsewhere = DLTensor {
        data: 4096 as *mut c_void,
        device: DLDevice { device_type: 2, device_id: 1 },
        ndim: 1,
        dtype: DLDataType::of::<f32>(),
        shape,
        strides: null_mut(),
        byte_offset: 0,
    };
    // SAFETY: nothing reads it here.
    let elsewhere = unsafe { View::from_raw(&elsewhere, 0) }.unwrap();
    assert!(
        elsewhere
            .as_slice::<f32>()
            .unwrap_err()
            .to_string()
            .starts_with("device is cuda:1: the host cannot read it")
    );
}

#[test]
fn strides_stay_within_the_slice() {
    let elements = [0u32; 12];
    for (shape, strides, first, fits) in [
        (&[3, 4][..], &[4, 1][..], 0, true),
        (&[3, 4], &[4, 1], 1, false),
        (&[3, 4], &[-4, -1], 11, true),
        (&[3, 4], &[-4, -1], 10, false),
        (&[1, 12], &[i64::MIN, 1], 0, true),
        (&[100], &[0], 11, true),
        (&[100], &[0], 12, false),
        (&[0, 5], &[i64::MAX, 1], 99, true),
        (&[2], &[i64::MAX], 0, false),
        (&[2, 2], &[1], 0, false),
        (&[-1], &[1], 0, false),
        (&[], &[], 0, true),
    ] {
        let view = View::strided(&elements, shape, strides, first);
        assert_eq!(view.is_ok(), fits, "{shape:?} {strides:?} {first}: {view:?}");
    }
    let error = View::strided(&elements, &[3, 4], &[4, 2], 0).unwrap_err();
    assert_eq!(error.to_string(), "strides reach from element 0 to element 14 of a slice of 12");
    assert!(View::strided(&[0u8; 0], &[1], &[1], 0).is_err());
}

#[test]
fn a_context_has_limits_of_its_own() {
    let context = Context::new(ContextOptions { num_threads: 1, ..Default::default() });
    let source = Tensor::from_vec(vec![1u8, 2, 3, 4], &[2, 2]).unwrap();
    let to = To::new().layout(LayoutPolicy::F).copy(CopyPolicy::Always);
    let planned = context.plan(&source.view(), &to).unwrap();
    let (result, done) = context.convert(source, &to).unwrap();
    assert_eq!(planned, done);
    assert_eq!(plan(&result.view(), &To::new()).unwrap().passes, 0);
    assert_eq!(
        format!("{result:?}"),
        "Tensor { shape: [2, 2], strides: [1, 2], dtype: uint8, device: cpu:0, .. }"
    );
}

#[test]
fn raw_tensors_are_checked() {
    unsafe extern "C" fn never(_: *mut DLManagedTensorVersioned) {
        panic!("released");
    }
    unsafe extern "C" fn never_legacy(_: *mut DLManagedTensor) {
        panic!("released");
    }
    let tensor = DLTensor {
        data: null_mut(),
        device: CPU,
        ndim: -1,
        dtype: DLDataType::of::<u8>(),
        shape: null_mut(),
        strides: null_mut(),
        byte_offset: 0,
    };
    let version = arraybridge::dlpack::raw::DLPackVersion { major: 1, minor: 0 };
    let mut managed = DLManagedTensorVersioned {
        version,
        manager_ctx: null_mut(),
        deleter: Some(never),
        flags: 0,
        dl_tensor: tensor,
    };
    // SAFETY: what is refused stays here.
    let refused = unsafe { Tensor::from_raw(NonNull::from(&mut managed)) }.unwrap_err();
    assert_eq!(refused.to_string(), "tensor.ndim is -1: expected 0 to 64");
    managed.version.major = 2;
    // SAFETY: as above.
    let refused = unsafe { Tensor::from_raw(NonNull::from(&mut managed)) }.unwrap_err();
    assert!(matches!(refused, Error::DlpackVersion { major: 2, .. }));
    let mut legacy =
        DLManagedTensor { dl_tensor: tensor, manager_ctx: null_mut(), deleter: Some(never_legacy) };
    // SAFETY: as above.
    assert!(unsafe { Tensor::from_raw_legacy(NonNull::from(&mut legacy)) }.is_err());
}

#[cfg(feature = "ndarray")]
mod ndarray {
    use ::ndarray::{Array1, Array2, Array3, ArrayD, Axis, IxDyn, s};

    use super::*;

    #[test]
    fn every_slice_goes_in_and_out() {
        let volume = Array3::<i32>::from_shape_fn((3, 4, 5), |(z, y, x)| (z * 20 + y * 5 + x) as i32);
        let first = volume.slice(s![0..1, .., ..]);
        let slices = [
            volume.view().into_dyn(),
            volume.slice(s![.., ..;-1, ..]).into_dyn(),
            volume.slice(s![..;-2, 1..3, ..;-1]).into_dyn(),
            volume.slice(s![1, .., ..;3]).into_dyn(),
            volume.slice(s![0..0, .., ..]).into_dyn(),
            volume.view().permuted_axes([2, 0, 1]).into_dyn(),
            first.broadcast((7, 4, 5)).unwrap().into_dyn(),
        ];
        for slice in slices {
            let view = View::try_from(slice.clone()).unwrap();
            assert_eq!(view.as_ndarray::<i32>().unwrap(), slice);
            assert!(slice.is_empty() || view.as_ndarray::<i32>().unwrap().as_ptr() == slice.as_ptr());
            let (copied, _) = copy(&view, &To::new().element::<i64>().layout(LayoutPolicy::F)).unwrap();
            assert_eq!(copied.view().as_ndarray::<i64>().unwrap(), slice.mapv(i64::from));
        }
    }

    #[test]
    fn an_owned_array_is_not_copied() {
        let mut array = Array2::<f64>::from_shape_fn((3, 4), |(y, x)| (10 * y + x) as f64);
        array.invert_axis(Axis(0));
        let (address, want) = (array.as_ptr(), array.clone().into_dyn());
        let mut tensor = Tensor::try_from(array).unwrap();
        assert_eq!(tensor.view().as_ndarray::<f64>().unwrap().as_ptr(), address);
        assert_eq!(tensor.view().as_ndarray::<f64>().unwrap(), want);
        tensor.view_mut().into_ndarray::<f64>().unwrap()[[0, 0]] = -1.0;
        assert_eq!(tensor.to_vec::<f64>().unwrap()[0], -1.0);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let elements = [0u8; 4];
        let twice = View::strided(&elements, &[2, 4], &[0, 1], 0).unwrap();
        assert_eq!(twice.as_ndarray::<u8>().unwrap().shape(), [2, 4]);
        assert!(twice.as_ndarray::<i8>().is_err());
        let mut elements = [0u8; 4];
        let twice = ViewMut::strided(&mut elements, &[2, 4], &[0, 1], 0).unwrap();
        assert_eq!(twice.into_ndarray::<u8>().unwrap_err(), Error::DestinationOverlaps);
        assert!(Tensor::try_from(ArrayD::<u8>::zeros(IxDyn(&[1; 65]))).is_err());
        assert_eq!(Tensor::try_from(Array1::<u8>::zeros(0)).unwrap().shape(), [0]);
    }
}
