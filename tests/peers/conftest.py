"""Random tensors through the C ABI, as any program could hand them in.

    pip install -r tests/peers/requirements.txt && cargo build --release && python -m pytest tests/peers

ARRAYBRIDGE_LIBRARY: the shared library, else target/release. ARRAYBRIDGE_SEED: a number, or "random".
ARRAYBRIDGE_ROUNDS: multiplies the number of random cases (1). torch, jax and tensorflow are used if installed."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator

import numpy as np
import pytest

import abi

np.seterr(all="ignore")  # random bit patterns: signalling NaNs, overflows

_text = os.environ.get("ARRAYBRIDGE_SEED") or "20"
SEED = int.from_bytes(os.urandom(4), "little") if _text == "random" else int(_text)
ROUNDS = float(os.environ.get("ARRAYBRIDGE_ROUNDS") or 1)


def pytest_report_header() -> str:
    return f"ARRAYBRIDGE_SEED={SEED} ARRAYBRIDGE_ROUNDS={ROUNDS:g} ARRAYBRIDGE_LIBRARY={abi.library_path()}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.failed:
        report.sections.append(("seed", f"repeat with ARRAYBRIDGE_SEED={SEED} pytest '{item.nodeid}'"))
    return report


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Its own stream for every test, so that one test alone repeats what it did in the whole run."""
    return np.random.default_rng([SEED, zlib.crc32(request.node.name.encode())])


@pytest.fixture
def rounds():
    return lambda n: max(1, int(n * ROUNDS))


@pytest.fixture(scope="session")
def api() -> abi.Api:
    path = abi.library_path()
    if not path.exists():
        pytest.fail(f"{path} does not exist: cargo build --release, or set ARRAYBRIDGE_LIBRARY")
    return abi.Api(abi.load())


def pytest_sessionstart() -> None:
    """PoCL cannot be started any more once TensorFlow is in the process: its clGetPlatformIDs crashes."""
    if abi.library_path().exists():
        abi.Api(abi.load()).backends()
