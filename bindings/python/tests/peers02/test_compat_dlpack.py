"""pydlpack's names."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import tempfile
from typing import Any

import numpy as np
import pytest

from arraybridge.compat import dlpack
from arraybridge.compat.dlpack import Capsule, DLManagedTensor, DLManagedTensorVersioned, buffer, todict

from .conftest import module_of

DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
          "complex64", "complex128", "bool")  # fmt: skip
ARRAYS = (
    np.array(5.0),
    np.arange(2),
    np.arange(120).reshape(4, 6, 5),
    np.arange(150).reshape(5, 6, 5)[1:3, ::2, ::-1],
    np.zeros((0, 3)),
)
WAYS = ("asdlpack", "asdlpack_dlpack", "asdlpack_array_interface_v3", "asdlpack_buffer")


@pytest.mark.parametrize("form", [None, DLManagedTensor, DLManagedTensorVersioned])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_capsules_say_what_the_array_is(way: str, form: Any, dtype: str) -> None:
    for each in ARRAYS:
        source = each.astype(dtype) if each.flags.c_contiguous else np.ascontiguousarray(each).astype(dtype)[..., ::-1]
        made = getattr(dlpack, way)(source, impl_cls=form)
        assert made.__dlpack_device__() == (1, 0)
        capsule = made.__dlpack__()
        versioned = form is DLManagedTensorVersioned
        assert Capsule(capsule).get_name() == ("dltensor_versioned" if versioned else "dltensor")
        held = todict(capsule)
        tensor = held["dl_tensor"]
        assert tensor["ndim"] == source.ndim
        assert (tensor["shape"] or ()) == source.shape
        if source.size:
            steps = tuple(step // source.itemsize for step in source.strides)
            assert tensor["strides"] in (None, steps)
            assert tensor["data"] + tensor["byte_offset"] == source.ctypes.data
        assert tensor["device"] == {"device_type": "DLCPU", "device_id": 0}
        kinds = {"i": "DLInt", "u": "DLUInt", "f": "DLFloat", "c": "DLComplex", "b": "DLBool"}
        assert tensor["dtype"] == {"code": kinds[source.dtype.kind], "bits": source.itemsize * 8, "lanes": 1}
        if versioned:
            assert held["flags"] == 0
            assert held["version"]["major"] == 1
        del capsule, held, made


@pytest.mark.parametrize("way", WAYS)
def test_consumers(way: str) -> None:
    source = np.arange(6, dtype=np.int32).reshape(2, 3)
    made = getattr(dlpack, way)(source)
    first, second = np.from_dlpack(made), np.from_dlpack(made)
    assert np.shares_memory(first, source)
    assert np.shares_memory(second, source)
    expected = source.copy()
    del source, made, first
    gc.collect()
    np.testing.assert_array_equal(second, expected)
    torch = module_of("torch")
    np.testing.assert_array_equal(torch.from_dlpack(getattr(dlpack, way)(expected)).numpy(), expected)
    np.testing.assert_array_equal(np.from_dlpack(getattr(dlpack, way)(expected), copy=True, device="cpu"), expected)


def buffers() -> list[Any]:
    arrays = [array.array("d", [1.0, 2.0, 3.14]), array.array("l", [1, 2, 3])]
    return [b"1234ABCD", bytearray(32), *arrays, memoryview(b"x")]


@pytest.mark.parametrize("source", buffers(), ids=lambda source: type(source).__name__)
def test_buffers(source: Any) -> None:
    result = np.from_dlpack(dlpack.asdlpack(source))
    np.testing.assert_array_equal(result, np.frombuffer(source, result.dtype))


def test_bytes_stay_read_only() -> None:
    source = b"Hello!"
    assert not np.from_dlpack(dlpack.asdlpack(source)).flags.writeable
    held = todict(dlpack.asdlpack(source).__dlpack__(max_version=(1, 0)))
    assert held["flags"] & 1
    torch = module_of("torch")
    assert torch.from_dlpack(dlpack.asdlpack(source)).tolist() == list(source)
    assert source == b"Hello!"


def test_memory_is_held_until_the_last_consumer_is_gone() -> None:
    source = bytearray(16)
    made = dlpack.asdlpack(source)
    view = np.from_dlpack(made)
    del made
    gc.collect()
    with pytest.raises(BufferError):
        source.extend(b"more")
    view[0] = 7
    assert source[0] == 7
    del view
    gc.collect()
    source.extend(b"more")
    with tempfile.TemporaryFile() as file:
        file.write(bytes(64))
        file.flush()
        mapped = mmap.mmap(file.fileno(), 64)
        view = np.from_dlpack(dlpack.asdlpack_buffer(mapped))
        with pytest.raises(BufferError):
            mapped.close()
        del view
        gc.collect()
        mapped.close()


def test_unused_and_repeated_capsules() -> None:
    made = dlpack.asdlpack(np.arange(3))
    for _ in range(3):
        assert todict(made.__dlpack__())["dl_tensor"]["shape"] == (3,)
        gc.collect()


@pytest.mark.parametrize("way", WAYS[1:])
def test_objects_without_the_protocol(way: str) -> None:
    with pytest.raises((AttributeError, TypeError)):
        getattr(dlpack, way)(object())


@pytest.mark.parametrize(
    "source",
    [
        np.zeros(3, [("flag", "u1"), ("value", "f4")])["value"],
        np.array([1, 2], ">i4"),
        np.array(["2020-01-01"], "M8[D]"),
        np.array([object()]),
    ],
    ids=["packed", "big-endian", "datetime", "object"],
)
def test_what_dlpack_cannot_say_is_refused(source: Any) -> None:
    for way in (dlpack.asdlpack, dlpack.asdlpack_array_interface_v3):
        with pytest.raises((BufferError, ValueError)):
            way(source)


def test_other_ways() -> None:
    with pytest.raises(NotImplementedError):
        dlpack.asdlpack_array_interface_v2(np.zeros(2))
    with pytest.raises(AttributeError):
        dlpack.asdlpack_cuda_array_interface(np.zeros(2))
    with pytest.raises(TypeError, match="impl_cls"):
        dlpack.asdlpack(np.zeros(2), impl_cls=dict)  # type: ignore[arg-type]
    assert dlpack._get_strides((4, 6, 5)) == (30, 5, 1)
    assert dlpack._get_strides(()) == ()


def test_a_producer_of_the_oldest_kind() -> None:
    """Without keywords, and without ``__dlpack_device__``."""

    class Old:
        def __init__(self, wrapped: Any) -> None:
            self.wrapped = wrapped

        def __dlpack__(self, stream: Any = None) -> Any:
            return self.wrapped.__dlpack__()

    for source in (np.arange(3), module_of("torch").arange(3)):
        assert np.from_dlpack(dlpack.asdlpack_dlpack(Old(source))).tolist() == [0, 1, 2]


def test_todict_refuses_other_capsules() -> None:
    capsule = np.arange(3).__dlpack__()
    np_view = todict(capsule)
    assert np_view["dl_tensor"]["ndim"] == 1
    Capsule(capsule).set_name("used_dltensor")
    with pytest.raises(ValueError, match="used_dltensor"):
        todict(capsule)
    Capsule(capsule).set_name("dltensor")
    with pytest.raises(TypeError, match="capsule"):
        todict(5)


def test_structures() -> None:
    device = dlpack.DLDevice(dlpack.DLDeviceType.from_label("DLCUDA"), 3)
    assert device.todict() == {"device_type": "DLCUDA", "device_id": 3}
    assert repr(device) == "DLDevice(device_type='DLCUDA', device_id=3)"
    assert repr(dlpack.DLDataTypeCode(6)) == "DLDataTypeCode('DLBool')"
    assert dlpack.DLDeviceType(99).label == "99"
    assert dlpack.DLDataTypeCode.from_label("DLFloat8_e5m2").value == 12
    assert ctypes.sizeof(dlpack.DLTensor) == 48
    assert ctypes.sizeof(DLManagedTensor) == 64
    assert ctypes.sizeof(DLManagedTensorVersioned) == 80
    assert dlpack.DLPACK_CAPSULE_VALID_NAME == b"dltensor"


class TestCapsule:
    """The wrapper of capsules."""

    def test_pointer_name_and_context(self) -> None:
        first, second = object(), object()
        capsule = Capsule.new(id(first), "mine")
        assert capsule.get_name() == "mine"
        assert capsule.is_valid("mine")
        assert not capsule.is_valid("other")
        assert capsule.get_pointer(b"mine") == id(first)
        with pytest.raises(ValueError, match="incorrect name"):
            capsule.get_pointer("other")
        capsule.set_pointer(id(second))
        assert capsule.get_pointer("mine") == id(second)
        capsule.set_name(None)
        assert capsule.get_name() is None
        assert capsule.is_valid(None)
        assert capsule.get_context() is None
        capsule.set_context(id(first))
        assert capsule.get_context() == id(first)
        capsule.set_context(None)
        assert capsule.get_context() is None
        assert type(capsule.capsule).__name__ == "PyCapsule"
        with pytest.raises(TypeError):
            Capsule(object())
        with pytest.raises(ValueError, match="null"):
            Capsule.new(0, "mine")

    @pytest.mark.parametrize("later", [False, True])
    def test_destructor(self, later: bool) -> None:
        seen: list[Any] = []

        def destructor(dying: Capsule) -> None:
            seen.append((dying.get_name(), dying.is_valid("mine"), dying.get_pointer("mine")))

        thing = object()
        capsule = Capsule.new(id(thing), "mine", None if later else destructor)
        assert bool(capsule.get_destructor()) is not later
        if later:
            capsule.set_destructor(destructor)
        inner = capsule.capsule
        del capsule
        assert seen == []
        del inner
        assert seen == [("mine", True, id(thing))]

    def test_a_destructor_taken_off(self) -> None:
        seen: list[Any] = []
        capsule = Capsule.new(id(seen), "mine", seen.append)
        capsule.set_destructor(None)
        assert not capsule.get_destructor()
        del capsule
        assert seen == []


class TestBuffer:
    """The wrapper of buffers."""

    def test_array(self) -> None:
        source = np.array([[1, 2], [3, 4]], np.int32)
        view = buffer.Buffer(source, buffer.PyBUF_RECORDS_RO)
        assert (view.ndim, view.shape, view.strides, view.suboffsets) == (2, (2, 2), (8, 4), None)
        assert (view.itemsize, view.format, view.pointer) == (4, "i", source.ctypes.data)
        assert not view.readonly

    def test_bytes(self) -> None:
        view = buffer.Buffer(b"123", flags=buffer.PyBUF_RECORDS_RO)
        assert (view.ndim, view.shape, view.strides, view.itemsize, view.format) == (1, (3,), (1,), 1, "B")
        assert view.readonly
        assert buffer.Buffer(b"123").shape is None

    def test_it_holds_the_memory(self) -> None:
        source = bytearray(4)
        view = buffer.Buffer(source)
        with pytest.raises(BufferError):
            source.append(1)
        view.release()
        view.release()
        source.append(1)

    def test_refusals(self) -> None:
        with pytest.raises(TypeError):
            buffer.Buffer(object())
        with pytest.raises(BufferError):
            buffer.Buffer(b"123", buffer.PyBUF_WRITABLE)
