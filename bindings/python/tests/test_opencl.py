"""OpenCL's frameworks: memory is shared by its handle, to the library and back, and work in flight is waited for."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from conftest import HOST, OPENCL, frameworks, module

import arraybridge as ab

KDLOPENCL = 4


def values(shape: tuple[int, ...] = (4, 6)) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def handle(x: Any) -> int:
    """The cl_mem of a pyclesperanto or PyOpenCL array."""
    return x.base_data.int_ptr if hasattr(x, "base_data") else ab.asdlpack(x).data_ptr


def test_a_pyclesperanto_array_is_shared_there_and_back() -> None:
    cle = module("pyclesperanto")
    x = cle.push(values())
    tensor = ab.asdlpack(x)
    assert tensor.__dlpack_device__()[0] == KDLOPENCL
    assert (tensor.shape, tensor.dtype, tensor.data_ptr) == ((4, 6), "float32", handle(x))
    report = ab.convert(x, report=True)[1]
    assert (report.route, report.passes) == ("zero copy", 0)
    back = cle.from_dlpack(tensor)
    assert handle(back) == tensor.data_ptr
    # It is one memory: what is computed into it is seen by all, also by who is left last.
    cle.add_image_and_scalar(x, back, scalar=1)
    # A tensor made before knows nothing of the queue, which pull() waits for.
    np.testing.assert_array_equal(cle.pull(back), values() + 1)
    np.testing.assert_array_equal(ab.to_host(tensor), values() + 1)
    del x, back
    gc.collect()
    np.testing.assert_array_equal(ab.to_host(tensor), values() + 1)


def test_a_pyopencl_array_is_shared_there_and_back() -> None:
    cl = module("pyopencl")
    import pyopencl.array

    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    x = pyopencl.array.to_device(queue, values())
    tensor = ab.asdlpack(x)
    assert tensor.__dlpack_device__()[0] == KDLOPENCL
    assert tensor.data_ptr == handle(x)
    buffer = cl.MemoryObject.from_int_ptr(tensor.data_ptr)
    back = pyopencl.array.Array(queue, tensor.shape, np.float32, data=buffer)
    assert handle(back) == handle(x)
    back += 1
    queue.finish()
    np.testing.assert_array_equal(ab.to_host(tensor), values() + 1)
    del x, back, buffer
    gc.collect()
    np.testing.assert_array_equal(ab.to_host(tensor), values() + 1)


@pytest.mark.parametrize("view", [np.s_[1:3, 2:5], np.s_[::2], np.s_[:, ::-2]], ids=["inner", "rows", "backwards"])
def test_views_of_pyopencl_are_offsets_in_the_same_memory(view: Any) -> None:
    cl = module("pyopencl")
    import pyopencl.array

    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    x = pyopencl.array.to_device(queue, values())[view]
    assert ab.asdlpack(x).data_ptr == handle(x)
    np.testing.assert_array_equal(ab.to_host(x), values()[view])
    np.testing.assert_array_equal(ab.to_host(ab.convert(x, "pyopencl", dtype="float16")), values()[view])


@pytest.mark.parametrize("framework", frameworks(*(name for name in HOST if name in ("numpy", "torch", "jax"))))
@pytest.mark.parametrize("opencl", frameworks(*OPENCL))
def test_the_library_moves_the_data(framework: str, opencl: str) -> None:
    # Not the framework's own push and pull, which a report would name.
    x = ab.convert(values(), framework)
    there, up = ab.convert(x, opencl, report=True)
    back, down = ab.convert(there, framework, report=True)
    assert (up.route, up.passes, down.route, down.passes) == ("upload", 1, "download", 1)
    adapter = {"pyclesperanto": ("push", "pull"), "pyopencl": ("to_device", "Array.get")}[opencl]
    assert not any(own in str(report) for own in adapter for report in (up, down))
    np.testing.assert_array_equal(ab.to_host(back), values())


def test_what_pyclesperanto_has_still_to_do_comes_first() -> None:
    cle = module("pyclesperanto")
    x = cle.push(np.zeros(1 << 18, np.float32))
    for _ in range(20):
        cle.add_image_and_scalar(x, x, scalar=1)
    assert (ab.to_host(x) == 20).all()


def test_what_a_pyopencl_queue_has_still_to_do_comes_first() -> None:
    cl = module("pyopencl")
    import pyopencl.array

    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    x = pyopencl.array.to_device(queue, np.zeros(1 << 18, np.float32))
    for _ in range(20):
        x += 1
    assert (ab.to_host(x) == 20).all()
