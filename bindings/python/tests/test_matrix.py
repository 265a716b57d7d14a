"""Every framework to every framework, for the dtypes, layouts and extremes that both sides have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import HOST, OPENCL, USABLE, frameworks, module

import arraybridge as ab

ALL = (*HOST, *OPENCL)
COMMON = ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32", "complex64")
WIDE = ("int64", "uint64", "float64", "complex128")
LACKING = {
    "pyclesperanto": {"bool", "float16", "complex64", *WIDE},
    "mlx": {"float64", "complex128"},
    "jax": set(WIDE),
    "tvm_ffi": set(),
}


def values(dtype: str, shape: tuple[int, ...] = (3, 5)) -> np.ndarray[Any, Any]:
    numbers = np.arange(int(np.prod(shape))).reshape(shape) % 100
    return numbers.astype(dtype) if dtype != "bool" else numbers % 2 == 0


def has(name: str, dtype: str) -> bool:
    return dtype not in LACKING.get(name, set())


@pytest.mark.parametrize(
    ("source", "target", "dtype"),
    [
        (source, target, dtype)
        for dtype in (*COMMON, *WIDE)
        for source in ALL
        for target in ALL
        if has(source, dtype) and has(target, dtype)
    ],
)
def test_values_and_dtype_survive(source: str, target: str, dtype: str) -> None:
    for name in (source, target):
        module(name)
    expected = values(dtype)
    x = ab.convert(expected, source)
    planned = ab.plan(x, target)
    result, report = ab.convert(x, target, report=True)
    info = ab.detect(result)
    assert (info.framework, info.dtype, info.shape) == (target, dtype, (3, 5))
    np.testing.assert_array_equal(ab.to_host(result), expected)
    np.testing.assert_array_equal(ab.to_host(x), expected)  # the source is as it was
    assert (report.passes == 0) == (report.route == "zero copy") == report.zero_copy
    # The alignment of what a framework downloads is its own affair.
    if report.route != "download":
        # Whether two frameworks share an OpenCL context shows only when the result is there.
        route = "device" if report.route == "staged" and source in OPENCL and target in OPENCL else report.route
        assert (planned.route, planned.reasons, planned.passes) == (route, report.reasons, report.passes)
    if report.zero_copy and target in HOST and source in HOST:
        assert ab.asdlpack(x).data_ptr == ab.asdlpack(result).data_ptr
    shortcut = ab.convert(x, target)
    np.testing.assert_array_equal(ab.to_host(shortcut), expected)


@pytest.mark.parametrize("target", frameworks(*HOST))
@pytest.mark.parametrize("source", frameworks(*HOST))
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1, 1, 4), (2, 1, 3)])
def test_extreme_shapes(source: str, target: str, shape: tuple[int, ...]) -> None:
    expected = values("float32", shape)
    result = ab.convert(ab.convert(expected, source), target)
    assert ab.detect(result).shape == shape
    np.testing.assert_array_equal(ab.to_host(result), expected)


@pytest.mark.parametrize("target", frameworks(*ALL))
@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::-1],
        lambda a: a[:, ::2],
        lambda a: a.T,
        lambda a: a[1:, 1:],
        lambda a: np.broadcast_to(a[0], (4, 6)),
        lambda a: a[::-1, ::-2],
    ],
    ids=["reversed", "every second", "transposed", "inner", "broadcast", "backwards"],
)
def test_strided_sources(target: str, view: Any) -> None:
    expected = view(values("float32", (4, 6)))
    for x in (expected, *([ab.convert(expected, "torch")] if USABLE["torch"] else [])):
        result, report = ab.convert(x, target, report=True)
        np.testing.assert_array_equal(ab.to_host(result), expected)
        np.testing.assert_array_equal(ab.to_host(ab.convert(x, target)), expected)
        assert report.route


@pytest.mark.parametrize("target", frameworks("torch", "tensorflow", "jax", "tvm_ffi"))
def test_read_only_memory_is_never_made_writable(target: str) -> None:
    x = values("float32")
    x.flags.writeable = False
    result, report = ab.convert(x, target, report=True)
    assert not report.zero_copy
    assert ab.asdlpack(result).data_ptr != x.ctypes.data
    assert ab.asdlpack(ab.convert(x, target)).data_ptr != x.ctypes.data
    with pytest.raises(ab.CopyRequiredError):
        ab.convert(x, target, copy=False)


@pytest.mark.parametrize("source", frameworks("jax", "tensorflow", "mlx"))
def test_views_of_immutable_arrays_are_read_only(source: str) -> None:
    x = ab.convert(values("float32"), source)
    for array in (ab.convert(x, "numpy"), ab.convert(x, "numpy", report=True)[0], ab.to_host(x)):
        assert not array.flags.writeable
    assert ab.convert(x, "numpy", writable=True).flags.writeable
    assert ab.asdlpack(x).read_only
    assert ab.detect(x).read_only


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("target", frameworks("torch", "jax", "tensorflow"))
def test_low_precision(target: str, dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    expected = np.array([0.5, 1, -2, 3], getattr(ml_dtypes, dtype))
    if target == "tensorflow" and dtype != "bfloat16":
        with pytest.raises(ab.UnsupportedDtypeError, match="tensorflow"):
            ab.convert(expected, target)
        return
    x = ab.convert(expected, target)
    back = ab.convert(x, "numpy")
    assert back.dtype == expected.dtype
    np.testing.assert_array_equal(back.view("u1"), expected.view("u1"))
    np.testing.assert_array_equal(np.asarray(ab.asdlpack(x)).astype("f4"), expected.astype("f4"))


@pytest.mark.parametrize("target", frameworks(*HOST, *OPENCL))
def test_casts(target: str) -> None:
    x = values("uint16", (6, 8))[:, ::2]
    result, report = ab.convert(x, target, dtype="float32", report=True)
    assert "dtype" in report.reasons
    assert ab.detect(result).dtype == "float32"
    np.testing.assert_array_equal(ab.to_host(result), x.astype("float32"))


@pytest.mark.parametrize("target", frameworks(*HOST))
def test_copies_are_independent(target: str) -> None:
    x = values("float32", (64, 64))
    result, report = ab.convert(x, target, copy=True, report=True)
    assert report.passes >= 1
    before = x.copy()
    x[:] = -1
    np.testing.assert_array_equal(ab.to_host(result), before)


def test_what_a_framework_has_not_is_refused() -> None:
    for name, dtype, instead in (("jax", "int64", "int32"), ("mlx", "float64", "float32")):
        module(name if name != "mlx" else "mlx")
        with pytest.raises(ab.UnsupportedDtypeError, match=instead):
            ab.convert(values(dtype), name)


@pytest.mark.parametrize("dtype", ["bool", "int64", "uint64", "float16", "float64", "complex64"])
def test_pyclesperanto_never_narrows(dtype: str) -> None:
    module("pyclesperanto")
    with pytest.raises(ab.UnsupportedDtypeError, match="pyclesperanto"):
        ab.convert(values(dtype), "pyclesperanto")
    with pytest.raises(ab.UnsupportedDtypeError):
        ab.plan(values(dtype), "pyclesperanto")


@pytest.mark.parametrize("shape", [(), (0, 3), (1, 2, 3, 4)])
def test_pyclesperanto_refuses_shapes_that_it_has_not(shape: tuple[int, ...]) -> None:
    module("pyclesperanto")
    with pytest.raises(ab.UnsupportedLayoutError, match="pyclesperanto"):
        ab.convert(values("float32", shape), "pyclesperanto")


def test_pyclesperanto_computes_with_what_it_is_given() -> None:
    cle = module("pyclesperanto")
    x = ab.convert(values("float32", (4, 6))[::-1], "pyclesperanto")
    np.testing.assert_allclose(ab.to_host(cle.add_image_and_scalar(x, scalar=1)), values("float32", (4, 6))[::-1] + 1)


def test_pyopencl_takes_the_queue_that_it_is_given() -> None:
    cl = module("pyopencl")
    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    x = ab.convert(values("float32"), "pyopencl", device=queue)
    assert x.context == queue.context
    np.testing.assert_array_equal(ab.to_host(x[1:, 1:]), values("float32")[1:, 1:])


def test_same_framework_gives_the_same_object() -> None:
    for name in filter(USABLE.get, HOST):
        x = ab.convert(values("float32"), name)
        assert ab.convert(x) is x
        assert ab.convert(x, name, copy=False) is x
