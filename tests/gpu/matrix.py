"""The Python package between NumPy and what has arrays on a GPU here: values, dtype, place, and what is shared."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

DTYPES = ("bool", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64")
NOT_IN_JAX = ("int64", "float64")  # unless it is told to
SHAPES = ((3, 4, 5), (), (1,), (0, 3), (2, 1, 3))

POINTER: dict[str, Callable[[Any], int]] = {
    "torch": lambda x: x.data_ptr(),
    "cupy": lambda x: x.data.ptr,
    "numba": lambda x: x.__cuda_array_interface__["data"][0],
    "jax": lambda x: x.unsafe_buffer_pointer(),
}


def gpus(name: str) -> int:
    """How many GPUs a framework can use; it raises where it is not installed."""
    if name == "cupy":
        return int(importlib.import_module("cupy").cuda.runtime.getDeviceCount())
    if name == "numba":
        return len(importlib.import_module("numba.cuda").gpus)
    if name == "jax":
        return len(importlib.import_module("jax").devices("gpu"))
    return int(importlib.import_module("torch").cuda.device_count())


def frameworks() -> tuple[list[str], dict[str, str]]:
    """Those that have a GPU here, and why the others have not."""
    there, missing = [], {}
    for name in POINTER:
        try:
            if not gpus(name):
                raise RuntimeError("it sees no GPU")
            there.append(name)
        except Exception as problem:  # noqa: BLE001 whatever a framework raises
            missing[name] = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
    return there, missing


def array(dtype: str, shape: tuple[int, ...] = (3, 4, 5)) -> Any:
    return (np.arange(np.prod(shape, dtype=int)) % 7).astype(dtype).reshape(shape)


class OnlyInterface:
    """What hands its memory out by __cuda_array_interface__ alone."""

    def __init__(self, x: Any):
        self.kept, self.__cuda_array_interface__ = x, x.__cuda_array_interface__


class OnlyDLPack:
    """What does so by DLPack alone."""

    def __init__(self, x: Any):
        self.x = x

    def __dlpack__(self, **given: Any) -> Any:
        return self.x.__dlpack__(**given)

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()


def check(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)


def up_and_down(ab: Any, name: str) -> None:
    for dtype in DTYPES:
        if name == "jax" and dtype in NOT_IN_JAX:
            continue
        for shape in SHAPES:
            x = array(dtype, shape)
            there = ab.convert(x, name, device="cuda:0")
            back = ab.to_host(there)
            check(tuple(there.shape) == shape and back.dtype == x.dtype and bool((back == x).all()), f"{dtype} {shape}")
    # A view, and a cast on the way.
    picture = (np.arange(30 * 20 * 3) % 256).astype(np.uint8).reshape(30, 20, 3)
    there = ab.convert(picture.transpose(2, 0, 1), name, device="cuda:0", dtype="float32")
    check(bool((ab.to_host(there) == picture.transpose(2, 0, 1)).all()), "a picture's channels, as float32")


def shared(ab: Any, source: str, target: str) -> None:
    """No copy: the pointers are equal."""
    for dtype in DTYPES:
        if "jax" in (source, target) and dtype in NOT_IN_JAX:
            continue
        x = array(dtype)
        there = ab.convert(x, source, device="cuda:0")
        given = [("itself", there)]
        if hasattr(there, "__cuda_array_interface__"):
            given.append(("__cuda_array_interface__", OnlyInterface(there)))
        if hasattr(there, "__dlpack__"):
            given.append(("__dlpack__", OnlyDLPack(there)))
        for way, wrapped in given:
            moved, report = ab.convert(wrapped, target, copy=False, report=True)
            check(report.passes == 0, f"{dtype} by {way}: {report.passes} passes")
            check(POINTER[target](moved) == POINTER[source](there), f"{dtype} by {way}: another pointer")
            check(bool((ab.to_host(moved) == x).all()), f"{dtype} by {way}: other values")


def refused(ab: Any, name: str) -> None:
    try:
        ab.convert(array("float32"), name, device="cuda:99")
    except ab.MemoryConversionError as error:
        check("cuda" in str(error), str(error))
        return
    raise AssertionError("a GPU that is not there was taken")


def rows(ab: Any, names: list[str]) -> Iterator[tuple[str, Callable[[], None]]]:
    """What is checked, and how."""
    for name in names:
        yield f"NumPy and {name}, both ways", lambda name=name: up_and_down(ab, name)
        yield f"{name}: a GPU that is not there", lambda name=name: refused(ab, name)
    for source in names:
        for target in names:
            yield f"{source} to {target}, shared", lambda a=source, b=target: shared(ab, a, b)
