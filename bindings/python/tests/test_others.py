"""Frameworks that are not installed for every run, each tried where it is: Paddle, dpnp, pyclesperanto's prototype, CuPy
and Numba without a driver."""

from __future__ import annotations

import gc
import importlib.util
import os
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import arraybridge as ab

X = np.arange(24, dtype=np.float32).reshape(4, 6)
DTYPES = ("bool", "int8", "int32", "int64", "uint8", "float16", "float32", "float64", "complex64")


def has(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")


def alone(code: str, **environment: str) -> None:
    """Runs code in a process of its own: these frameworks are not made to share one with the others."""
    code = f"import numpy as np, arraybridge as ab\nX = np.arange(24, dtype='f4').reshape(4, 6)\n{code}"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def there_and_back(name: str, dtypes: tuple[str, ...] = DTYPES) -> None:
    for dtype in dtypes:
        expected = X.astype(dtype) if dtype != "bool" else X % 2 == 0
        for shape in ((4, 6), (), (0, 3)):
            part = expected if shape == (4, 6) else expected.reshape(-1)[: int(np.prod(shape))].reshape(shape)
            x = ab.convert(part, name)
            assert (ab.detect(x).framework, ab.detect(x).dtype, ab.detect(x).shape) == (name, dtype, shape)
            np.testing.assert_array_equal(ab.to_host(x), part)
    for view in (X[::-1], X[:, ::2], X.T, np.broadcast_to(X[0], (4, 6))):
        np.testing.assert_array_equal(ab.to_host(ab.convert(view, name)), view)
    x = ab.convert(X, name)
    assert ab.convert(x, name) is x


@has("paddle")
def test_paddle() -> None:
    alone(
        f"""
import gc, sys, weakref
sys.path[:0] = [{os.path.dirname(__file__)!r}]
import paddle, pytest, test_others
test_others.there_and_back("paddle")
x, report = ab.convert(X, "paddle", report=True)
assert report.zero_copy and ab.asdlpack(x).data_ptr == X.ctypes.data
assert ab.convert(x, device=paddle.CPUPlace()) is x and ab.plan(X, "paddle", device=x.place).zero_copy
graded = paddle.to_tensor(X, stop_gradient=False)
assert ab.convert(graded) is graded and not ab.convert(graded, dtype="float16").stop_gradient
for call in (ab.asdlpack, ab.detect, lambda x: ab.convert(x, "numpy")):
    with pytest.raises(BufferError, match="detach"):
        call(graded)
with pytest.raises(BufferError, match="to_dense"):
    ab.convert(paddle.to_tensor(X).to_sparse_coo(2), "numpy")
# A tensor over a tensor's memory: the deleter of the one ends the other.
outer = ab.convert(ab.convert(paddle.to_tensor(X), "numpy"), "paddle")
del outer
class Owner(bytearray): pass
owner = Owner(400)
gone = weakref.ref(owner)
held = ab.convert(np.frombuffer(owner, "f4"), "paddle")
del owner
gc.collect()
assert gone() is not None
del held
for _ in range(100): pass  # loans end when Python runs
gc.collect()
assert gone() is None
"""
    )


@has("dpnp")
def test_dpnp() -> None:
    try:
        import dpnp

        dpnp.asarray(X)
    except Exception as error:
        pytest.skip(f"dpnp has no device here: {error}")
    there_and_back("dpnp")
    x, report = ab.convert(X, "dpnp", dtype="float64", report=True)
    assert (report.route, ab.detect(x).device.type) == ("upload", 14)
    assert ab.convert(x, "dpnp", device=x.device) is not None
    with pytest.raises(ab.UnsupportedDtypeError, match="dpnp"):
        ab.convert(ab.convert(X, dtype="bfloat16"), "dpnp")
    assert ab.from_dlpack(x, device="cpu").dtype == "float64"
    for copy_never in (lambda: ab.convert(X, "dpnp", copy=False), lambda: ab.to_host(x, copy=False)):
        with pytest.raises(ab.CopyRequiredError):
            copy_never()


@has("pyclesperanto_prototype")
def test_pyclesperanto_prototype() -> None:
    alone("""
import sys
sys.modules["pyclesperanto"] = None  # which would be preferred
x = ab.convert(X[::-1], "pyclesperanto")
assert type(x).__module__.startswith("pyclesperanto_prototype") and ab.detect(x).framework == "pyclesperanto"
np.testing.assert_array_equal(ab.to_host(x), X[::-1])
import pyclesperanto_prototype as cle
np.testing.assert_array_equal(ab.to_host(cle.add_image_and_scalar(x, scalar=1)), X[::-1] + 1)
""")


@pytest.mark.parametrize("name", ["cupy", "numba"])
def test_without_a_driver_it_is_said(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    if any(device.type == 2 for device in ab.devices()):
        pytest.skip("there is a CUDA device here")
    alone(
        f"""
for call in (ab.convert, ab.plan):
    for keywords in ({{}}, {{"device": "cuda:0"}}, {{"dtype": "float16"}}):
        try:
            call(X, {name!r}, **keywords)
        except ab.BackendUnavailableError as error:
            assert "cuda" in str(error), error
        else:
            raise AssertionError(keywords)
""",
        NUMBA_ENABLE_CUDASIM="1",
    )


def test_an_array_that_lies_in_a_device_that_its_target_lacks_comes_to_the_host() -> None:
    torch = pytest.importorskip("torch")
    from arraybridge.adapters import named

    there = [("cuda", 2, torch.cuda.is_available()), ("xpu", 14, torch.xpu.is_available())]
    for _, kind, usable in there:
        assert named("torch").place((kind, 0)) == ((kind, 0) if usable else named("torch").default_device())


def test_late_ends() -> None:
    """Loans of capsules that end late do so once, whoever deletes them, and however often."""
    from arraybridge import _native

    class Owner(bytearray):
        pass

    owner = Owner(64)
    gone = weakref.ref(owner)
    tensor = ab.asdlpack(memoryview(owner))
    capsules: list[Any] = [_native.late_capsule(tensor) for _ in range(50)]
    arrays = [ab.from_dlpack(_Given(capsule)) for capsule in capsules[:40]]
    del owner, tensor, capsules
    gc.collect()
    assert gone() is not None
    assert [array.shape for array in arrays] == [(64,)] * 40
    del arrays
    for _ in range(1000):  # they end when Python next runs
        if gone() is None:
            break
    gc.collect()
    assert gone() is None
    with pytest.raises(TypeError):
        _native.late_capsule(5)  # type: ignore[arg-type]


class _Given:
    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.capsule
