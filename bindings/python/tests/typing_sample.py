"""What a user's checker sees: mypy --strict passes on this file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import arraybridge as ab


def host(x: object) -> NDArray[np.float32]:
    array: NDArray[np.float32] = ab.to_host(x).astype(np.float32)
    return array


def several(x: NDArray[np.uint16]) -> tuple[int, str]:
    result, report = ab.convert(x, "torch", dtype="float32", layout="C", report=True)
    route: str = report.route
    passes: int = report.passes
    tensor: ab.Tensor = ab.asdlpack(result)
    shape: tuple[int, ...] = tensor.shape
    planned: ab.Report = ab.plan(x, "jax", device="cpu", copy=None)
    info: ab.TensorInfo = ab.detect(result)
    name: str | None = info.framework
    numbers = ab.convert(x, "numpy")
    numbers.sum()
    try:
        ab.from_dlpack(x, copy=False)
    except ab.CopyRequiredError as error:
        return len(shape), error.reason
    for device in ab.devices():
        print(device.type, device.id, device.name)
    for backend in ab.backends():
        print(backend.name, backend.available)
    return passes, f"{route} {planned} {name} {ab.get_include()}"
