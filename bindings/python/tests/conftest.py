"""The tests run on whatever frameworks are installed; those that are not are named by the skips."""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

HOST = ("numpy", "torch", "tensorflow", "jax", "tvm_ffi", "mlx")
OPENCL = ("pyclesperanto", "pyopencl")


def _usable(name: str) -> bool:
    if importlib.util.find_spec(name) is None:
        return False
    if name in OPENCL:
        import arraybridge as ab

        try:
            ab.convert(np.ones((2, 3), np.float32), name)
        except Exception:
            return False
    return True


# OpenCL before TensorFlow, which breaks what is loaded after it.
USABLE = {name: _usable(name) for name in (*OPENCL, *HOST)}


def frameworks(*names: str) -> list[Any]:
    """The names as pytest's parameters, those not installed as skips."""
    return [
        pytest.param(name, marks=[] if USABLE[name] else pytest.mark.skip(reason=f"{name} is not usable here"))
        for name in names
    ]


def module(name: str) -> Any:
    """A framework, or a skip."""
    if not USABLE[name]:
        pytest.skip(f"{name} is not usable here")
    return importlib.import_module(name)
