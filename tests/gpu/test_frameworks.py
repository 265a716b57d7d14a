"""Every conversion between NumPy and what has arrays on a GPU: values, dtype, place, and what is shared."""

from __future__ import annotations

import importlib
from typing import Any

import arraybridge as ab
import numpy as np
import pytest

FRAMEWORKS = ("cupy", "numba", "torch")
DTYPES = ("bool", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64")


def gpus(name: str) -> int:
    """How many GPUs a framework can use; 0 where it is not installed."""
    try:
        if name == "cupy":
            return int(importlib.import_module("cupy").cuda.runtime.getDeviceCount())
        if name == "numba":
            return len(importlib.import_module("numba.cuda").gpus)
        return int(importlib.import_module("torch").cuda.device_count())
    except Exception:
        return 0


GPUS = {name: gpus(name) for name in FRAMEWORKS}


def on_gpu(*names: str) -> None:
    for name in names:
        if not GPUS[name]:
            pytest.skip(f"{name} has no GPU here")


def array(dtype: str, shape: tuple[int, ...] = (3, 4, 5)) -> Any:
    return (np.arange(np.prod(shape)) % 7).astype(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_up_and_down(name: str, dtype: str) -> None:
    on_gpu(name)
    x = array(dtype)
    there = ab.convert(x, name, device="cuda:0")
    assert ab.detect(there).device[:2] == (2, 0)
    back = ab.convert(there, "numpy")
    assert back.dtype == x.dtype
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 1, 3)])
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_shapes(name: str, shape: tuple[int, ...]) -> None:
    on_gpu(name)
    x = array("float32", shape)
    there = ab.convert(x, name, device="cuda:0")
    assert tuple(there.shape) == shape
    np.testing.assert_array_equal(ab.to_host(there), x)


@pytest.mark.parametrize("source", FRAMEWORKS)
@pytest.mark.parametrize("target", FRAMEWORKS)
def test_between(source: str, target: str) -> None:
    on_gpu(source, target)
    x = array("float32")
    there = ab.convert(x, source, device="cuda:0")
    moved, report = ab.convert(there, target, copy=False, report=True)
    assert report.passes == 0
    assert ab.detect(moved).device[:2] == (2, 0)
    np.testing.assert_array_equal(ab.to_host(moved), x)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_writes_are_seen_through_shared_memory(name: str) -> None:
    on_gpu(name, "torch")
    torch = importlib.import_module("torch")
    there = ab.convert(array("float32"), name, device="cuda:0")
    shared = ab.convert(there, "torch")
    shared.fill_(9)
    torch.cuda.synchronize()
    assert (ab.to_host(there) == 9).all()


def test_a_gpu_that_is_not_there() -> None:
    on_gpu("torch")
    with pytest.raises(ab.MemoryConversionError, match="cuda"):
        ab.convert(array("float32"), "torch", device="cuda:99")
