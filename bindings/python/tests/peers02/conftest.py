"""The frameworks of these tests. OpenCL comes first: PoCL cannot be loaded once TensorFlow is."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

try:
    import pyclesperanto
except Exception:  # not installed, or no OpenCL driver
    pyclesperanto = None
else:
    try:  # PoCL builds its first kernel by symbols that TensorFlow brings versions of
        pyclesperanto.add_image_and_scalar(pyclesperanto.push(np.zeros((2, 2), np.float32)), scalar=1)
    except Exception:
        pyclesperanto = None

SIX = ("numpy", "cupy", "torch", "tensorflow", "jax", "pyclesperanto")


def module_of(name: str) -> ModuleType:
    """The framework's module; skips the test without it."""
    if name == "pyclesperanto" and pyclesperanto is None:
        pytest.skip("no pyclesperanto with an OpenCL device")
    try:
        module = importlib.import_module(name)
    except ImportError:
        pytest.skip(f"{name} is not installed")
    if name == "cupy":
        try:
            if module.cuda.runtime.getDeviceCount() == 0:
                pytest.skip("no CUDA device")
        except Exception as error:
            pytest.skip(f"no CUDA device: {error}")
    return module


def made(name: str, array: np.ndarray[Any, Any]) -> Any:
    """An array of the framework, made by its own means."""
    module: Any = module_of(name)
    return {
        "numpy": array.copy,
        "cupy": lambda: module.asarray(array),
        "torch": lambda: module.tensor(array),
        "tensorflow": lambda: module.constant(array),
        "jax": lambda: module.numpy.asarray(array),
        "pyclesperanto": lambda: module.push(array),
    }[name]()


def values(array: Any) -> np.ndarray[Any, Any]:
    """An array's values, read by its framework's own means."""
    top = type(array).__module__.partition(".")[0]
    if top == "torch":
        return array.detach().cpu().numpy()
    if top == "tensorflow":
        return array.numpy()
    if top == "cupy":
        return array.get()
    if top.startswith("pyclesperanto"):
        return pyclesperanto.pull(array)
    return np.asarray(array)


@pytest.fixture(params=SIX)
def framework(request: pytest.FixtureRequest) -> str:
    """Each of the six frameworks that is here."""
    module_of(request.param)
    return str(request.param)


@pytest.fixture(params=[name for name in SIX if name != "cupy"])
def host_framework(request: pytest.FixtureRequest) -> str:
    """Each of the frameworks that need no GPU, of those that are here."""
    module_of(request.param)
    return str(request.param)
