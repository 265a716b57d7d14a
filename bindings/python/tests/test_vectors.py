"""tests/vectors through the package's tensors: every cast, layout, spelling and casting rule."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

import pytest

from arraybridge import _native, errors
from arraybridge.compat.dlpack import Capsule, DLManagedTensorVersioned

folder = os.environ.get("ARRAYBRIDGE_VECTORS")
if folder is None:
    pytest.skip("the vectors: ARRAYBRIDGE_VECTORS does not name their folder", allow_module_level=True)
sys.path.insert(0, folder)
import runner  # noqa: E402

STATUSES = {errors.LossyCastError: runner.LOSSY, errors.UnsupportedDtypeError: runner.UNSUPPORTED_DTYPE}


class Package:
    name = "python"

    def copy_into(self, source: Any, destination: Any, casting: int, flags: int) -> str:
        (from_, _kept), (to, _also_kept) = self.tensor(source), self.tensor(destination)
        try:
            from_._copy_into(to, casting=casting, flags=flags)
        except errors.MemoryConversionError as error:
            return STATUSES.get(type(error), repr(error))
        return str(runner.OK)

    def spell(self, text: str) -> tuple[str, None, str]:
        try:
            return runner.OK, None, _native.parse_dtype(text)
        except errors.MemoryConversionError as error:
            return STATUSES.get(type(error), repr(error)), None, ""

    def tensor(self, side: Any) -> tuple[Any, Any]:
        managed = DLManagedTensorVersioned()
        managed.version.major, managed.version.minor = 1, 3
        managed.flags = 4 if side.padded else 0
        t = managed.dl_tensor
        dims = ctypes.c_int64 * len(side.shape)
        shape, strides = dims(*side.shape), None if side.strides is None else dims(*side.strides)
        t.data, t.ndim, t.byte_offset = side.data, len(side.shape), side.byte_offset
        t.device.device_type, t.device.device_id = 1, 0
        t.dtype.code, t.dtype.bits, t.dtype.lanes = side.dtype
        t.shape = shape
        if strides is not None:
            t.strides = strides
        capsule = Capsule.new(ctypes.addressof(managed), "dltensor_versioned").capsule
        return _native.from_capsule(capsule), (managed, shape, strides)


def test_every_vector() -> None:
    wrong = list(runner.run(Package()))
    assert not wrong, "\n".join(wrong[:20])
