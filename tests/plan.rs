//! Plans as a table of cases: what a source and a request come to, without memory or driver.

use std::ffi::c_void;
use std::ptr::null_mut;

use arraybridge::dlpack::raw::{DLDataType, DLDevice, DLTensor};
use arraybridge::dlpack::{Dims, TensorView};
use arraybridge::dtype::Casting;
use arraybridge::layout::Order;
use arraybridge::plan::{self, ConvertOptions, CopyPolicy, LayoutPolicy, Step};
use arraybridge::report::{Bytes, Reasons, Report, Route};

const CPU: (i32, i32) = (1, 0);
const CUDA: (i32, i32) = (2, 0);
const CUDA_1: (i32, i32) = (2, 1);
const PINNED: (i32, i32) = (3, 0);
const OPENCL: (i32, i32) = (4, 0);
const MANAGED: (i32, i32) = (13, 0);
const ROCM: (i32, i32) = (10, 0);

const READ_ONLY: u64 = 1;
const PADDED: u64 = 4;

const NUMPY: u32 = 0x1;
const TORCH: u32 = 0x2;
const JAX: u32 = 0x4;
const TENSORFLOW: u32 = 0x8;
const CUPY: u32 = 0x10;
const PYCLESPERANTO: u32 = 0x40;
const PADDLE: u32 = 0x80;

/// A source; no memory is behind its address.
#[derive(Clone, Copy)]
struct Source {
    device: (i32, i32),
    dtype: &'static str,
    shape: &'static [i64],
    strides: Option<&'static [i64]>,
    address: usize,
    byte_offset: u64,
    flags: u64,
}

/// float32, 2 x 3, row-major, on the host, well aligned.
const PLAIN: Source = Source {
    device: CPU,
    dtype: "float32",
    shape: &[2, 3],
    strides: None,
    address: 0x10_0000,
    byte_offset: 0,
    flags: 0,
};
const F_ORDER: Source = Source { strides: Some(&[1, 2]), ..PLAIN };
const GAPS: Source = Source { strides: Some(&[8, 1]), ..PLAIN };
const REVERSED: Source = Source { strides: Some(&[-3, 1]), byte_offset: 12, ..PLAIN };
const EMPTY: Source = Source { shape: &[0, 3], address: 0, ..PLAIN };

fn with_view<T>(source: &Source, body: impl FnOnce(&TensorView<'_>) -> T) -> T {
    let dtype: DLDataType = source.dtype.parse().unwrap();
    let tensor = DLTensor {
        data: source.address as *mut c_void,
        device: DLDevice { device_type: source.device.0, device_id: source.device.1 },
        ndim: source.shape.len() as i32,
        dtype,
        shape: source.shape.as_ptr().cast_mut(),
        strides: source.strides.map_or(null_mut(), |strides| strides.as_ptr().cast_mut()),
        byte_offset: source.byte_offset,
    };
    let mut dims = Dims::new();
    // SAFETY: the shape and strides are as long as they say; the data is not read.
    body(&unsafe { TensorView::read(&tensor, source.flags, "source", &mut dims) }.unwrap())
}

fn keep() -> ConvertOptions {
    ConvertOptions::default()
}

fn device(pair: (i32, i32)) -> ConvertOptions {
    ConvertOptions { device: Some(DLDevice { device_type: pair.0, device_id: pair.1 }), ..keep() }
}

fn dtype(name: &str) -> ConvertOptions {
    ConvertOptions { dtype: Some(name.parse().unwrap()), ..keep() }
}

fn layout(layout: LayoutPolicy) -> ConvertOptions {
    ConvertOptions { layout, ..keep() }
}

fn consumers(consumers: u32) -> ConvertOptions {
    ConvertOptions { consumers, ..keep() }
}

fn aligned(alignment: u32) -> ConvertOptions {
    ConvertOptions { alignment, ..keep() }
}

fn copy(copy: CopyPolicy) -> ConvertOptions {
    ConvertOptions { copy, ..keep() }
}

const REQUESTED: u32 = Reasons::REQUESTED;
const DEVICE: u32 = Reasons::DEVICE;
const DTYPE: u32 = Reasons::DTYPE;
const LAYOUT: u32 = Reasons::LAYOUT;
const ALIGNMENT: u32 = Reasons::ALIGNMENT;
const READ_ONLY_REASON: u32 = Reasons::READ_ONLY;
const CONSUMER: u32 = Reasons::CONSUMER;

#[test]
fn routes_and_reasons() {
    use LayoutPolicy::{Any, C, F, Keep};
    let writable = ConvertOptions { writable: true, ..keep() };
    let locked = Source { flags: READ_ONLY, ..PLAIN };
    let odd = Source { address: 0x10_0004, ..PLAIN };
    let on = |device| Source { device, ..PLAIN };
    let all = ConvertOptions {
        dtype: Some("float16".parse().unwrap()),
        copy: CopyPolicy::Always,
        layout: C,
        alignment: 64,
        consumers: TENSORFLOW,
        writable: true,
        ..device(CUDA)
    };
    let everything = Source { flags: READ_ONLY, address: 0x10_0004, ..GAPS };
    #[rustfmt::skip]
    let cases = [
        // source, request, route, reasons
        ("keep",                  PLAIN,    keep(),               Route::ZeroCopy, 0),
        ("same dtype",            PLAIN,    dtype("float32"),     Route::ZeroCopy, 0),
        ("same device",           PLAIN,    device(CPU),          Route::ZeroCopy, 0),
        ("another cpu id",        PLAIN,    device((1, 7)),       Route::ZeroCopy, 0),
        ("always",                PLAIN,    copy(CopyPolicy::Always), Route::Host, REQUESTED),
        ("never, possible",       PLAIN,    copy(CopyPolicy::Never),  Route::ZeroCopy, 0),
        ("cast",                  PLAIN,    dtype("float16"),     Route::Host,     DTYPE),
        ("equal width",           PLAIN,    dtype("int32"),       Route::Host,     DTYPE),
        ("gaps, any",             GAPS,     layout(Any),          Route::ZeroCopy, 0),
        ("gaps, keep",            GAPS,     layout(Keep),         Route::ZeroCopy, 0),
        ("gaps, C",               GAPS,     layout(C),            Route::Host,     LAYOUT),
        ("row-major, C",          PLAIN,    layout(C),            Route::ZeroCopy, 0),
        ("row-major, F",          PLAIN,    layout(F),            Route::Host,     LAYOUT),
        ("column-major, F",       F_ORDER,  layout(F),            Route::ZeroCopy, 0),
        ("column-major, C",       F_ORDER,  layout(C),            Route::Host,     LAYOUT),
        ("reversed, any",         REVERSED, keep(),               Route::ZeroCopy, 0),
        ("reversed, C",           REVERSED, layout(C),            Route::Host,     LAYOUT),
        ("empty, F",              EMPTY,    layout(F),            Route::ZeroCopy, 0),
        ("empty, cast",           EMPTY,    dtype("int8"),        Route::Host,     DTYPE),
        ("aligned already",       PLAIN,    aligned(4096),        Route::ZeroCopy, 0),
        ("not aligned",           odd,      aligned(8),           Route::Host,     ALIGNMENT),
        ("aligned to 4",          odd,      aligned(4),           Route::ZeroCopy, 0),
        ("empty is aligned",      EMPTY,    aligned(4096),        Route::ZeroCopy, 0),
        ("read-only",             locked,   keep(),               Route::ZeroCopy, 0),
        ("read-only to writable", locked,   writable,             Route::Host,     READ_ONLY_REASON),
        ("writable already",      PLAIN,    writable,             Route::ZeroCopy, 0),
        ("upload",                PLAIN,    device(CUDA),         Route::Upload,   DEVICE),
        ("upload and cast",       PLAIN,    ConvertOptions { dtype: dtype("int8").dtype, ..device(OPENCL) },
                                                                  Route::Upload,   DEVICE | DTYPE),
        ("download",              on(CUDA), device(CPU),          Route::Download, DEVICE),
        ("stay on the device",    on(CUDA), keep(),               Route::ZeroCopy, 0),
        ("cast on the device",    on(CUDA), dtype("int8"),        Route::Device,   DTYPE),
        ("to a peer",             on(CUDA), device(CUDA_1),       Route::Peer,     DEVICE),
        ("through the host",      on(CUDA), device(OPENCL),       Route::Staged,   DEVICE),
        ("pinned as cpu",         on(PINNED), device(CPU),        Route::ZeroCopy, 0),
        ("managed as cpu",        on(MANAGED), device(CPU),       Route::ZeroCopy, 0),
        ("pinned stays",          on(PINNED), keep(),             Route::ZeroCopy, 0),
        ("pinned of another id",  on((3, 5)), device(PINNED),     Route::ZeroCopy, 0),
        ("cpu to pinned",         PLAIN,    device(PINNED),       Route::Host,     DEVICE),
        ("managed to pinned",     on(MANAGED), device(PINNED),    Route::Host,     DEVICE),
        ("any device is kept",    on((77, 3)), keep(),            Route::ZeroCopy, 0),
        ("numpy",                 REVERSED, consumers(NUMPY),     Route::ZeroCopy, 0),
        ("torch, reversed",       REVERSED, consumers(TORCH),     Route::Host,     CONSUMER),
        ("jax, column-major",     F_ORDER,  consumers(JAX),       Route::ZeroCopy, 0),
        ("jax, gaps",             GAPS,     consumers(JAX),       Route::Host,     CONSUMER),
        ("jax, not aligned",      odd,      consumers(JAX),       Route::Host,     CONSUMER),
        ("tf, column-major",      F_ORDER,  consumers(TENSORFLOW), Route::Host,    CONSUMER),
        ("paddle, offset",        Source { byte_offset: 64, ..PLAIN }, consumers(PADDLE), Route::ZeroCopy, 0),
        ("torch, read-only",      locked,   consumers(TORCH),     Route::Host,     CONSUMER),
        ("numpy, read-only",      locked,   consumers(NUMPY),     Route::ZeroCopy, 0),
        ("the wanted dtype counts", Source { dtype: "bfloat16", ..PLAIN },
                                            ConvertOptions { consumers: NUMPY, ..dtype("float32") },
                                                                  Route::Host,     DTYPE),
        ("torch takes no pinned", on(PINNED), consumers(TORCH),   Route::ZeroCopy, 0),
        ("cupy from the host",    PLAIN,    consumers(CUPY),      Route::Upload,   DEVICE),
        ("numpy from cuda",       on(CUDA), consumers(NUMPY),     Route::Download, DEVICE),
        ("pyclesperanto",         PLAIN,    consumers(PYCLESPERANTO), Route::Upload, DEVICE),
        ("every reason",          everything, all, Route::Upload,
            REQUESTED | DEVICE | DTYPE | LAYOUT | ALIGNMENT | READ_ONLY_REASON | CONSUMER),
    ];
    for (name, source, options, route, reasons) in cases {
        with_view(&source, |view| {
            let plan = plan::convert(view, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(plan.route, route, "{name}");
            let names = |bits| Reasons::names(bits).collect::<Vec<_>>();
            assert_eq!(names(plan.reasons), names(reasons), "{name}");
            let copies = route != Route::ZeroCopy;
            // The stop between the devices of two drivers is memory too, written and read.
            let stop = if route == Route::Staged { view.num_bytes.min(plan.bytes_written / 2) } else { 0 };
            assert_eq!(plan.passes, u32::from(copies) + u32::from(stop > 0), "{name}");
            assert_eq!(plan.bytes_read, if copies { view.num_bytes + stop } else { 0 }, "{name}");
            assert_eq!(plan.scratch_bytes, stop, "{name}");
            let steps: &[Step] = if copies { &[Step::Allocate, Step::Transfer] } else { &[Step::Share] };
            assert_eq!(plan.steps, steps, "{name}");

            // A copy that may not be is refused, and told why in the same words.
            let never = plan::convert(view, &ConvertOptions { copy: CopyPolicy::Never, ..options });
            match never {
                Ok(_) => assert!(!copies || reasons == REQUESTED, "{name}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(copies, "{name}: {text}");
                    for reason in names(reasons & !REQUESTED) {
                        assert!(text.contains(reason), "{name}: no \"{reason}\" in \"{text}\"");
                    }
                }
            }
        });
    }
}

#[test]
fn targets() {
    use LayoutPolicy::{Any, C, F, Keep};
    let packed = Source { dtype: "float4_e2m1fn", ..PLAIN };
    let padded = Source { flags: PADDED, ..packed };
    let always = |layout| ConvertOptions { layout, ..copy(CopyPolicy::Always) };
    #[rustfmt::skip]
    let cases = [
        // source, request, order, padded, bytes written, alignment
        ("any is row-major",   F_ORDER, always(Any),             Order::C,    false, 24, 256),
        ("C",                  F_ORDER, always(C),               Order::C,    false, 24, 256),
        ("F",                  PLAIN,   always(F),               Order::F,    false, 24, 256),
        ("keep",               F_ORDER, always(Keep),            Order::Keep, false, 24, 256),
        ("aligned beyond",     PLAIN,   ConvertOptions { alignment: 4096, ..always(Any) },
                                                                 Order::C,    false, 24, 4096),
        ("packed",             packed,  always(Any),             Order::C,    false, 3,  256),
        ("padded stays so",    padded,  always(Any),             Order::C,    true,  6,  256),
        ("a cast from padded", padded,  dtype("float6_e2m3fn"),  Order::C,    true,  6,  256),
        ("to whole bytes",     padded,  dtype("int16"),          Order::C,    false, 12, 256),
        ("a cast to packed",   PLAIN,   dtype("float6_e2m3fn"),  Order::C,    false, 5,  256),
        ("keep for tf is C",   F_ORDER, ConvertOptions { consumers: TENSORFLOW, ..always(Keep) },
                                                                 Order::C,    false, 24, 256),
        ("keep for jax is kept", F_ORDER, ConvertOptions { consumers: JAX, ..always(Keep) },
                                                                 Order::Keep, false, 24, 256),
    ];
    for (name, source, options, order, padded, bytes, alignment) in cases {
        with_view(&source, |view| {
            let plan = plan::convert(view, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(plan.target.order, order, "{name}");
            assert_eq!(plan.target.padded, padded, "{name}");
            assert_eq!(plan.bytes_written, bytes, "{name}");
            assert_eq!(plan.target.alignment, alignment, "{name}");
        });
    }
}

#[test]
fn refusals() {
    let cast = |name: &str, casting| ConvertOptions { casting, ..dtype(name) };
    let vector = Source { dtype: "float32x4", ..PLAIN };
    let on = |device| Source { device, ..PLAIN };
    let of = |dtype| Source { dtype, ..PLAIN };
    let no_axes = Source { shape: &[], ..PLAIN };
    let many_axes = Source { shape: &[1; 10], ..PLAIN };
    let cases = [
        ("lanes", vector, dtype("float16"), "lanes"),
        ("int4", of("int4"), dtype("int8"), "int4"),
        ("to int4", PLAIN, dtype("int4"), "int4"),
        ("complex32", of("complex32"), dtype("complex64"), "complex32"),
        ("handles", of("handle64"), dtype("uint64"), "handle64"),
        ("safe", PLAIN, cast("float16", Casting::Safe), "AB_CAST_SAFE"),
        ("same kind", PLAIN, cast("int32", Casting::SameKind), "AB_CAST_SAME_KIND"),
        ("numpy has no bfloat16", of("bfloat16"), consumers(NUMPY), "numpy"),
        ("paddle has no uint16", of("uint16"), consumers(PADDLE), "paddle"),
        ("paddle has 9 axes", many_axes, consumers(PADDLE), "ndim 10"),
        (
            "tf has no F order",
            PLAIN,
            ConvertOptions { consumers: TENSORFLOW, ..layout(LayoutPolicy::F) },
            "AB_LAYOUT_F",
        ),
        (
            "keep, and another refuses the dtype",
            Source { dtype: "bfloat16", ..F_ORDER },
            ConvertOptions { layout: LayoutPolicy::Keep, ..consumers(NUMPY | TENSORFLOW) },
            "numpy",
        ),
        ("torch has no pinned", PLAIN, ConvertOptions { consumers: TORCH, ..device(PINNED) }, "torch"),
        ("numpy has no cuda", PLAIN, ConvertOptions { consumers: NUMPY, ..device(CUDA) }, "numpy"),
        ("no place for both", PLAIN, consumers(NUMPY | CUPY | TORCH), "cupy"),
        ("no axes", no_axes, consumers(PYCLESPERANTO), "ndim 0"),
        ("empty", EMPTY, consumers(PYCLESPERANTO), "empty"),
        ("rocm for tf", on(ROCM), ConvertOptions { consumers: TENSORFLOW, ..device(ROCM) }, "tensorflow"),
    ];
    for (name, source, options, word) in cases {
        with_view(&source, |view| match plan::convert(view, &options) {
            Ok(plan) => panic!("{name}: {plan:?}"),
            Err(error) => assert!(error.to_string().contains(word), "{name}: {error}"),
        });
    }
}

#[test]
fn copies_into() {
    let at = |address, source: Source| Source { address, ..source };
    let far = at(0x20_0000, PLAIN);
    let cases = [
        ("apart", PLAIN, far, Ok(REQUESTED)),
        ("another layout", PLAIN, at(0x20_0000, F_ORDER), Ok(REQUESTED | LAYOUT)),
        ("cast", PLAIN, Source { dtype: "int8", ..far }, Ok(REQUESTED | DTYPE)),
        ("to a device", PLAIN, Source { device: CUDA, ..far }, Ok(REQUESTED | DEVICE)),
        ("the same memory", PLAIN, PLAIN, Err("overlaps the source")),
        ("by a byte", PLAIN, at(0x10_0017, PLAIN), Err("overlaps the source")),
        ("next to it", PLAIN, at(0x10_0018, PLAIN), Ok(REQUESTED)),
        (
            "interleaved",
            Source { strides: Some(&[6, 2]), ..PLAIN },
            Source { strides: Some(&[6, 2]), address: 0x10_0004, ..PLAIN },
            Ok(REQUESTED),
        ),
        ("onto itself", PLAIN, Source { strides: Some(&[0, 1]), ..far }, Err("share an element")),
        (
            "onto itself, not broadcast",
            PLAIN,
            Source { strides: Some(&[1, 1]), ..far },
            Err("share an element"),
        ),
        ("read-only", PLAIN, Source { flags: READ_ONLY, ..far }, Err("READ_ONLY")),
        ("other axes", PLAIN, Source { shape: &[6], ..far }, Err("ndim")),
        ("other extents", PLAIN, Source { shape: &[3, 2], ..far }, Err("shape[0]")),
        ("empty onto itself", EMPTY, EMPTY, Ok(REQUESTED)),
    ];
    for (name, source, destination, want) in cases {
        with_view(&source, |source| {
            with_view(&destination, |destination| {
                match (plan::copy_into(source, destination, &keep()), want) {
                    (Ok(plan), Ok(reasons)) => assert_eq!(plan.reasons, reasons, "{name}"),
                    (Err(error), Err(word)) => assert!(error.to_string().contains(word), "{name}: {error}"),
                    (got, want) => panic!("{name}: {got:?}, not {want:?}"),
                }
            });
        });
    }
}

#[test]
fn reports_in_words() {
    let report = Report {
        route: Route::Upload as i32,
        reasons: DEVICE | DTYPE,
        passes: 1,
        bytes_read: 12 << 20,
        bytes_written: 6 << 20,
        scratch_bytes: 0,
        nanoseconds: 5,
    };
    assert_eq!(report.to_string(), "upload, 1 pass, 12.0 MiB read, 6.0 MiB written (device, dtype)");
    let zero = Report { route: 0, reasons: 0, passes: 0, bytes_read: 0, bytes_written: 0, ..report };
    assert_eq!(zero.to_string(), "zero copy, 0 passes, 0 B read, 0 B written");
    let staged = Report { route: 6, passes: 2, scratch_bytes: 1536, ..report };
    assert_eq!(
        staged.to_string(),
        "staged, 2 passes, 12.0 MiB read, 6.0 MiB written, 1.5 KiB scratch (device, dtype)"
    );
    assert_eq!(Bytes(1023).to_string(), "1023 B");
    assert_eq!(Bytes(1 << 20).to_string(), "1.0 MiB");
    assert_eq!(Bytes((1 << 20) - 1).to_string(), "1.0 MiB");
    assert_eq!(Bytes(u64::MAX).to_string(), "16.0 EiB");
}
