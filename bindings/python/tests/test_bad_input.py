"""Anything at all as an argument: an exception that names it, never a crash."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from conftest import frameworks, module

import arraybridge as ab


class Raises:
    """An object none of whose attributes can be had."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Unhashable:
    __hash__ = None  # type: ignore[assignment]


class Liar:
    def __init__(self, capsule: Any = None, device: Any = (1, 0)) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> Any:
        return self.device


ODD: list[Any] = [
    None, 0, -1, 2**70, 1.5, float("nan"), "", "x" * 10000, "cpu:", "cuda:-1", "cuda:99999999999", "\0", "torch\0", "日本",
    b"", b"abc", (), (1,), (1, 2), (1, 2, 3), (2**40, 2**40), (None, None), [], [[]], [1, [2]], {}, {"a": 1}, {1}, object(),
    type, int, np, random, lambda: 0, Raises(), Unhashable(), Liar(), Liar(device=5), ..., NotImplemented, 1j, range(3),
    np.float32, np.dtype("O"), np.dtype([("a", "i4")]), np.array([object()]), np.array(["a"]), np.array([1], "M8[s]"),
    np.array([1], ">i2"), np.ma.array([1], mask=[1]), np.zeros(3, [("a", "i4")]), np.array([1], "longdouble"),
    memoryview(b"abc"), Exception("x"),
]  # fmt: skip

ALLOWED = (ab.MemoryConversionError, TypeError, ValueError, BufferError, AttributeError, RuntimeError, ImportError)


@pytest.mark.parametrize("argument", ["x", "to", "device", "dtype", "copy", "layout", "stream", "writable"])
@pytest.mark.parametrize("index", range(len(ODD)))
def test_anything(argument: str, index: int) -> None:
    keywords: dict[str, Any] = {"x": np.ones((2, 3), np.float32), argument: ODD[index]}
    x = keywords.pop("x")
    for function in (ab.convert, ab.plan):
        if function is ab.plan and argument == "stream":
            continue
        try:
            function(x, **keywords)
        except ALLOWED as error:
            assert str(error)
    if argument == "x":
        for one in (ab.asdlpack, ab.detect, ab.to_host, ab.from_dlpack):
            try:
                one(x)  # type: ignore[operator]
            except ALLOWED as error:
                assert str(error)


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (np.array([1], ">i4"), "byte order"),
        (np.array([object()]), "objects"),
        (np.array([1], "M8[s]"), "int64"),
        (np.ma.array([1.0, 2.0], mask=[0, 1]), "masked"),
        (np.zeros(3, [("a", "i4")]), "fields"),
        (np.array([1], "longdouble"), "float64"),
        ("text", "'text'"),
        (None, "None"),
        ({"a": 1}, "dict"),
        ([[1], [1, 2]], r"\[\[1\], \[1, 2\]\]"),
    ],
)
@pytest.mark.parametrize("target", frameworks("torch", "jax"))
def test_refusals_say_what_to_do(x: Any, text: str, target: str) -> None:
    for call in (lambda: ab.convert(x, target), lambda: ab.plan(x, target), lambda: ab.asdlpack(x)):
        with pytest.raises(BufferError, match=text):
            call()


def test_a_masked_array_is_no_numpy_array() -> None:
    with pytest.raises(BufferError, match="masked"):
        ab.convert(np.ma.array([1.0, 2.0], mask=[0, 1]), "numpy")


def test_arguments_are_named() -> None:
    x = np.ones(3)
    cases: list[tuple[dict[str, Any], str, type[Exception]]] = [
        ({"to": "pytorch"}, "pytorch", ab.InvalidMemoryTypeError),
        ({"to": 5}, "to is 5", ab.InvalidMemoryTypeError),
        ({"to": random}, "random", ab.InvalidMemoryTypeError),
        ({"device": "nowhere"}, "nowhere", ValueError),
        ({"device": "cuda:x"}, "cuda:x", ValueError),
        ({"dtype": "float33"}, "float33", ab.UnsupportedDtypeError),
        ({"dtype": np.dtype("O")}, "object", ab.UnsupportedDtypeError),
        ({"copy": "yes"}, "copy is 'yes'", ValueError),
        ({"layout": "G"}, "layout is 'G'", ValueError),
        ({"stream": 0}, "stream is 0", ValueError),
        ({"to": "numpy", "stream": 1}, "host memory", ValueError),
        ({"stream": 1}, "host memory", ValueError),
        ({"writable": 3}, "writable is 3", ValueError),
        ({"to": "numpy", "device": "cuda"}, "cuda:0", ab.UnsupportedDeviceError),
    ]
    for keywords, text, error in cases:
        with pytest.raises(error, match=text):
            ab.convert(x, **keywords)
    with pytest.raises(ab.InvalidMemoryTypeError, match="^Invalid memory type"):
        ab.convert(x, "nothing")


def test_what_torch_cannot_share() -> None:
    torch = module("torch")
    x = torch.ones(3, requires_grad=True)
    for call in (lambda: ab.convert(x, "numpy"), lambda: ab.asdlpack(x), lambda: ab.plan(x, "jax")):
        with pytest.raises(BufferError, match="detach"):
            call()
    assert ab.convert(x, "torch") is x
    half = ab.convert(x, "torch", dtype="float16")
    assert half.requires_grad and half.dtype == torch.float16
    assert ab.plan(x, "torch", dtype="float16").protocol == "torch"
    y = torch.ones(3, dtype=torch.complex64).conj()
    with pytest.raises(BufferError, match="resolve_conj"):
        ab.convert(y, "numpy")
    for call in (lambda: ab.convert(y.imag, "numpy"), lambda: ab.from_dlpack(y.imag)):
        with pytest.raises(BufferError, match="resolve_neg"):
            call()
    with pytest.raises(BufferError, match="to_dense"):
        ab.convert(torch.eye(3).to_sparse(), "numpy")
    assert ab.convert(torch.nn.Parameter(torch.ones(2), requires_grad=False), "numpy").tolist() == [1, 1]


def test_producers_that_raise() -> None:
    class Raising:
        def __dlpack__(self, **keywords: Any) -> Any:
            raise ZeroDivisionError("mine")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    for call in (lambda: ab.convert(Raising(), "numpy"), lambda: ab.from_dlpack(Raising())):
        with pytest.raises(ZeroDivisionError, match="mine"):
            call()


def test_from_dlpack() -> None:
    torch = module("torch")
    x = np.arange(6.0)
    t = ab.from_dlpack(x)
    assert t.data_ptr == x.ctypes.data
    assert ab.from_dlpack(x, copy=True).data_ptr != x.ctypes.data
    assert ab.from_dlpack(torch.ones(3), device="cpu", copy=False).shape == (3,)
    asked: list[dict[str, Any]] = []

    class Old:
        def __dlpack__(self, stream: Any = None) -> Any:
            asked.append({"stream": stream})
            return x.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    assert ab.from_dlpack(Old()).data_ptr == x.ctypes.data
    assert ab.from_dlpack(Old(), copy=True).data_ptr != x.ctypes.data
    assert ab.from_dlpack(Old(), device="cpu", copy=False).data_ptr == x.ctypes.data
    with pytest.raises(AttributeError):
        ab.from_dlpack(b"abc")

    class Never:
        def __dlpack__(self, **keywords: Any) -> Any:
            raise BufferError("not mine to give")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    with pytest.raises(ab.CopyRequiredError, match="not mine") as caught:
        ab.from_dlpack(Never(), copy=False)
    assert isinstance(caught.value.__cause__, BufferError)
    with pytest.raises(ab.BackendUnavailableError):
        ab.from_dlpack(x, device="cuda")
    with pytest.raises(ab.CopyRequiredError):
        ab.from_dlpack(x, device="cuda", copy=False)


def test_random_capsules() -> None:
    """Producers that lie about their tensor are refused by the library, whatever they say."""
    # Not of OpenCL, whose driver takes what it is given for a handle.
    from arraybridge import _native

    chance = random.Random(1)
    owner = bytearray(64)
    address = np.frombuffer(owner, np.uint8).ctypes.data
    for _ in range(2000):
        numbers = [-1, 0, 1, 2, 3, 2**31, 2**62, -(2**63)]
        shape = tuple(chance.choice(numbers) for _ in range(chance.randrange(4)))
        strides = chance.choice([None, tuple(chance.choice(numbers) for _ in shape)])
        small = all(0 <= extent <= 2 for extent in shape) and strides is None
        try:
            t = _native.wrap(
                address if small else chance.choice([0, 8, 2**63]), shape, strides,
                chance.choice(["float32", "bool", "complex64", "float4_e2m1fn", "int7", "x"]),
                1 if small else chance.choice([2, 8, 77]), chance.choice([0, 1, -1]), owner, chance.random() < 0.5, 0,
            )  # fmt: skip
            ab.plan(t, "numpy", dtype=chance.choice([None, "float32", "int8"]))
        except (ab.MemoryConversionError, ValueError, OverflowError):
            continue


@pytest.mark.parametrize(
    "change",
    [
        {"shape": ("a",)}, {"strides": "x"}, {"data": (2**70, False)}, {"data": ("a", False)}, {"offset": -4},
        {"offset": "q"}, {"offset": 2**70}, {"typestr": "<f4\0"}, {"version": "x"}, {"stream": "x"}, {"stream": -7},
        {"stream": 2**70},
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["__array_interface__", "__cuda_array_interface__"])
def test_interfaces_that_make_no_sense(name: str, change: dict[str, Any]) -> None:
    if "stream" in change and name == "__array_interface__":
        return
    numbers = np.ones(3, np.float32)
    interface = {"shape": (3,), "typestr": "<f4", "data": (numbers.ctypes.data, False), "version": 3, **change}
    x = type("Interface", (), {name: interface})()
    for call in (ab.asdlpack, ab.detect, lambda x: ab.convert(x, "numpy")):
        with pytest.raises(ab.InvalidTensorError, match=name):
            call(x)


@pytest.mark.parametrize("attribute", ["__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"])
@pytest.mark.parametrize("value", [5, 0, -1, 2**70, None, "no", 4097])
def test_exchange_tables_that_are_none(attribute: str, value: Any) -> None:
    alone = type("Alone", (), {attribute: value})
    with pytest.raises(ab.InvalidTensorError, match="exchange"):
        ab.convert(alone(), "numpy")
    also = type("Also", (Liar,), {attribute: value})
    assert ab.convert(also(np.ones(3).__dlpack__(max_version=(1, 0))), "numpy").tolist() == [1, 1, 1]


def test_of_many_takers_of_a_capsule_one_gets_it() -> None:
    import threading

    for version in [None, (1, 0)] * 50:
        producer = Liar(ab.asdlpack(np.ones(8)).__dlpack__(max_version=version))
        start, taken = threading.Barrier(3), []

        def take(producer: Liar = producer, start: Any = start, taken: list[int] = taken) -> None:
            start.wait()
            try:
                ab.from_dlpack(producer)
                taken.append(1)
            except BufferError:
                pass

        threads = [threading.Thread(target=take) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert taken == [1]
