"""Tensor, and every protocol in and out."""

from __future__ import annotations

import array
import gc
import mmap
import pickle
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import module

import arraybridge as ab
from arraybridge import _native


def grid(dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.arange(12).reshape(3, 4).astype(dtype)


def test_attributes_and_repr() -> None:
    t = ab.asdlpack(grid()[:, ::2])
    assert (t.shape, t.strides, t.dtype, t.ndim, t.size, t.nbytes) == ((3, 2), (4, 2), "float32", 2, 6, 24)
    assert (str(t.device), t.device.pair, t.read_only) == ("cpu", (1, 0), False)
    assert repr(t) == "arraybridge.Tensor(shape=(3, 2), strides=(4, 2), dtype='float32', device='cpu')"
    assert "read_only=True" in repr(ab.asdlpack(b"x"))
    with pytest.raises(TypeError):
        ab.Tensor()


def test_every_way_out() -> None:
    x = grid()[::-1]
    t = ab.asdlpack(x)
    for y in (np.from_dlpack(t), np.asarray(t), np.asarray(memoryview(t)), t.to("numpy"), t.__array__()):  # type: ignore[arg-type]
        assert y.ctypes.data == x.ctypes.data
        np.testing.assert_array_equal(y, x)
    interface = t.__array_interface__
    assert (interface["version"], interface["typestr"], interface["strides"]) == (3, "<f4", (-16, 4))
    assert not hasattr(t, "__cuda_array_interface__")
    assert t.to("numpy", dtype="float64").dtype == np.float64
    assert np.array(t, dtype="i4").dtype == np.int32


def test_dlpack_keywords() -> None:
    x = grid()
    t = ab.asdlpack(x)
    assert t.__dlpack_device__() == (1, 0)
    assert '"dltensor"' in repr(t.__dlpack__())
    assert '"dltensor"' in repr(t.__dlpack__(max_version=(0, 8)))
    assert '"dltensor_versioned"' in repr(t.__dlpack__(max_version=(1, 0)))
    assert '"dltensor_versioned"' in repr(t.__dlpack__(max_version=(2, 0), stream=None, dl_device=(1, 0), copy=False))
    copied = np.from_dlpack(t, copy=True)  # type: ignore[arg-type]
    assert copied.ctypes.data != x.ctypes.data
    assert copied.flags.writeable
    for keywords, error in (
        ({"stream": 1}, ValueError),
        ({"stream": -1}, ValueError),
        ({"stream": "x"}, ValueError),
        ({"max_version": 3}, ValueError),
        ({"max_version": (1,)}, ValueError),
        ({"dl_device": "cpu"}, ValueError),
        ({"dl_device": (77, 0)}, BufferError),
        ({"copy": 1}, ValueError),
        ({"other": 1}, TypeError),
    ):
        with pytest.raises(error):
            t.__dlpack__(**keywords)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        t.__dlpack__(None)  # type: ignore[misc]


def test_read_only_has_no_legacy_form() -> None:
    t = ab.asdlpack(b"abc")
    assert t.read_only
    assert not np.from_dlpack(t).flags.writeable  # type: ignore[arg-type]
    assert np.asarray(t).tolist() == [97, 98, 99]
    with pytest.raises(BufferError, match="max_version"):
        t.__dlpack__()
    assert '"dltensor"' in repr(t.__dlpack__(copy=True))
    assert memoryview(t).readonly


def test_buffer_owners_are_held(tmp_path: Path) -> None:
    data = bytearray(b"abcdef")
    y = np.from_dlpack(ab.asdlpack(data))  # type: ignore[arg-type]
    with pytest.raises(BufferError):
        data.append(1)
    y[0] = 65
    assert data[0] == 65
    del y
    gc.collect()
    data.append(1)
    path = tmp_path / "file"
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
        t = ab.asdlpack(mapped)
        capsule = t.__dlpack__(max_version=(1, 0))
        del t
        with pytest.raises(BufferError):
            mapped.close()
        del capsule
        mapped.close()


@pytest.mark.parametrize("code", "bBhHiIlLqQfd")
def test_arrays_of_the_standard_library(code: str) -> None:
    x = array.array(code, [1, 2, 3])
    assert ab.to_host(ab.asdlpack(x)).tolist() == [1, 2, 3]
    assert ab.detect(x).shape == (3,)
    assert np.asarray(ab.asdlpack(x)).dtype == np.asarray(memoryview(x)).dtype


def test_owner_lives_until_the_last_consumer_is_gone() -> None:
    torch = module("torch")

    class Owned(np.ndarray[Any, Any]):
        pass

    x = grid().view(Owned)
    gone = weakref.ref(x)
    t = ab.asdlpack(x)
    capsule, y, z = t.__dlpack__(max_version=(1, 0)), np.from_dlpack(t), torch.from_dlpack(t)  # type: ignore[arg-type]
    del x, t
    for _ in range(3):
        gc.collect()
        assert gone() is not None
        if capsule is not None:
            capsule = None
        elif y is not None:
            y = None  # type: ignore[assignment]
    assert z.sum() == 66
    del z
    gc.collect()
    assert gone() is None


def test_nothing_leaks() -> None:
    torch, jax = module("torch"), module("jax")
    x, t, j = grid(), torch.zeros(3, 4), jax.numpy.zeros((3, 4))
    refused = np.array([1], ">i4")

    def once() -> None:
        ab.convert(x, "torch"), ab.convert(t, "numpy"), ab.convert(j, "numpy"), ab.convert(x, "jax")
        ab.asdlpack(x).__dlpack__(), ab.asdlpack(bytearray(8)), torch.from_dlpack(ab.asdlpack(x))
        for bad in (lambda: ab.convert(refused, "torch"), lambda: ab.asdlpack(b"").__dlpack__(stream=3)):
            with pytest.raises((BufferError, ValueError)):
                bad()

    once()
    gc.collect()
    counts = sys.getrefcount(x), sys.getrefcount(t), sys.getrefcount(None)
    for _ in range(200):
        once()
    gc.collect()
    after = sys.getrefcount(x), sys.getrefcount(t), sys.getrefcount(None)
    assert after[:2] == counts[:2]
    assert abs(after[2] - counts[2]) < 100


def test_capsules_are_taken_once() -> None:
    capsule = grid().__dlpack__(max_version=(1, 0))
    t = ab.asdlpack(capsule)
    assert t.shape == (3, 4)
    with pytest.raises(ab.InvalidTensorError, match="taken already"):
        ab.asdlpack(capsule)
    assert ab.asdlpack(grid().__dlpack__()).shape == (3, 4)

    class Odd:
        def __init__(self, answer: Any) -> None:
            self.answer = answer

        def __dlpack__(self, **keywords: Any) -> Any:
            return self.answer

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    for answer in (None, 5, "x", ab.Tensor.__dlpack_c_exchange_api__):
        with pytest.raises(BufferError):
            ab.convert(Odd(answer), "numpy")


def test_a_refusing_consumer_that_deletes_does_no_harm() -> None:
    torch = module("torch")
    x = grid()
    count = sys.getrefcount(x)
    t = _native.wrap(x.ctypes.data, (3, 4), None, "float32", 12, 0, x, False, 0)  # a device that torch knows not here
    for _ in range(20):
        with pytest.raises(Exception):  # noqa: B017
            torch.from_dlpack(t)
    del t
    gc.collect()
    assert sys.getrefcount(x) == count


def test_threads_without_the_gil_and_with() -> None:
    torch = module("torch")
    x, t, failures = grid(), torch.arange(12.0), []

    def work() -> None:
        try:
            for _ in range(300):
                assert ab.convert(x, "torch").sum() == 66
                assert ab.convert(t, "numpy").sum() == 66
                assert ab.convert(np.ones((200, 200), "u2")[::-1], "torch", dtype="float32").sum() == 40000
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_deleters_run_on_other_threads_and_with_an_exception_pending() -> None:
    held = [ab.asdlpack(bytearray(16)).__dlpack__() for _ in range(50)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert not held

    def fail() -> None:
        capsule = ab.asdlpack(grid()).__dlpack__()
        assert capsule
        raise KeyError("pending")

    with pytest.raises(KeyError, match="pending"):
        fail()


@pytest.mark.parametrize("keep", ["sys.keep = keep", "import builtins; builtins.keep = keep", "del keep"])
def test_interpreter_exit(keep: str) -> None:
    import subprocess

    code = f"""
import sys, threading, numpy as np, arraybridge as ab
class Cycle: pass
keep = Cycle(); keep.me = keep
keep.arrays = [ab.asdlpack(bytearray(8)).__dlpack__(), np.asarray(ab.asdlpack(np.ones(4))), ab.asdlpack(b'x')]
keep.capsule = ab.asdlpack(np.ones(3)).__dlpack__(max_version=(1, 0))
threading.Thread(target=__import__('time').sleep, args=(0.05,), daemon=True).start()
{keep}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_exchange_api_both_ways() -> None:
    torch = module("torch")
    t = ab.asdlpack(grid())
    y = _native.to_exchange(torch.Tensor, t)
    assert y.data_ptr() == t.data_ptr
    again = _native.from_exchange(t)
    assert again.data_ptr == t.data_ptr
    assert isinstance(_native.to_exchange(ab.Tensor, t), ab.Tensor)

    class Drafted:
        __c_dlpack_exchange_api__ = None

    assert ab.detect(ab.convert(grid(), "torch")).protocol == "dlpack exchange api"
    with pytest.raises((BufferError, ValueError)):
        _native.to_exchange(Drafted, t)


def test_what_an_exchange_api_refuses_is_let_go() -> None:
    torch = module("torch")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.zeros(8, ml_dtypes.float8_e3m4)  # which PyTorch does not have
    held = sys.getrefcount(x)
    t = ab.asdlpack(x)
    with pytest.raises(Exception):  # noqa: B017 # whatever PyTorch says
        _native.to_exchange(torch.Tensor, t)
    del t
    gc.collect()
    assert sys.getrefcount(x) == held


def test_array_interfaces() -> None:
    module("torch")

    class Interface:
        def __init__(self, **changes: Any) -> None:
            self.x = grid()[:, ::-1]
            self.__array_interface__ = {**self.x.__array_interface__, **changes}

    i = Interface()
    assert ab.asdlpack(i).data_ptr == i.x.ctypes.data
    np.testing.assert_array_equal(ab.convert(i, "torch"), i.x)
    changes: dict[str, Any]
    for changes in ({"typestr": ">f4"}, {"typestr": "<M8"}, {"typestr": 3}, {"version": 1}, {"mask": i.x},
                    {"shape": (3, -4)}, {"shape": 3}, {"strides": (16, 2)}, {"strides": (1,)}, {"data": (1, 2, 3, "a")[3:]},
                    {"shape": (2**62, 2**62)}, {"shape": (1,) * 70, "strides": None}):  # fmt: skip
        with pytest.raises((BufferError, ValueError, TypeError)):
            ab.asdlpack(Interface(**changes))

    class Struct:
        def __init__(self) -> None:
            self.x = grid()
            self.__array_struct__ = self.x.__array_struct__

    np.testing.assert_array_equal(ab.convert(Struct(), "numpy"), grid())


def test_a_cuda_array_interface_is_believed_where_nothing_is_read() -> None:
    class Cuda:
        __cuda_array_interface__ = {  # noqa: RUF012
            "shape": (2, 3), "typestr": "<f4", "data": (0x7F0000000000, True), "version": 3, "stream": 2,
        }  # fmt: skip

    t = ab.asdlpack(Cuda())
    assert (t.device.pair, t.read_only, t.__dlpack_device__()) == ((2, 0), True, (2, 0))
    assert t.__cuda_array_interface__["data"] == (0x7F0000000000, True)
    assert not hasattr(t, "__array_interface__")
    with pytest.raises(BufferError):
        memoryview(t)


def test_struct_fields() -> None:
    module("torch")
    packed = np.zeros(3, [("a", "u1"), ("b", "f4")])
    with pytest.raises(BufferError, match="multiple"):
        ab.asdlpack(packed["b"])
    with pytest.raises(BufferError, match="multiple"):
        ab.convert(packed["b"], "torch")
    even = np.zeros(3, [("a", "f4"), ("b", "f4")])
    even["b"] = [1, 2, 3]
    assert ab.convert(even["b"], "torch").tolist() == [1, 2, 3]


def test_errors_travel() -> None:
    module("torch")
    with pytest.raises(ab.CopyRequiredError) as caught:
        ab.convert(grid()[::-1], "torch", copy=False)
    error = caught.value
    assert (error.source_type, error.target_type) == ("numpy", "torch")
    assert isinstance(error, (BufferError)) and isinstance(error, ValueError)
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert "torch" in str(ab.MemoryConversionError("numpy", "torch", "dlpack", "because"))
