"""Runs tests/vectors through cffi.

usage: vectors.py    ARRAYBRIDGE_LIBRARY as in example.py
"""

import sys
from pathlib import Path

from example import ab, ffi, struct

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/vectors"))
import runner


class Cffi:
    name = "cffi"
    options = struct("ab_convert_options")

    def copy_into(self, source, destination, casting, flags):
        self.options.casting, self.options.flags = casting, flags
        (from_, _kept), (to, _also_kept) = self.tensor(source), self.tensor(destination)
        sides = from_, self.flags(source), to, self.flags(destination)
        return self.name_of(ab.ab_copy_into(ffi.NULL, *sides, self.options, ffi.NULL, ffi.NULL))

    def spell(self, text):
        dtype, name = ffi.new("DLDataType *"), ffi.new("char[]", 64)
        status = ab.ab_dtype_parse(text.encode(), dtype, ffi.NULL)
        ab.ab_dtype_format(dtype, name, len(name))
        return self.name_of(status), (dtype.code, dtype.bits, dtype.lanes), ffi.string(name).decode()

    def name_of(self, status):
        return ffi.string(ab.ab_status_name(status)).decode()

    def tensor(self, side):
        shape = ffi.new("int64_t[]", side.shape)
        strides = ffi.NULL if side.strides is None else ffi.new("int64_t[]", side.strides)
        data = ffi.cast("void *", side.data)
        fields = data, (ab.kDLCPU, 0), len(shape), side.dtype, shape, strides, side.byte_offset
        return ffi.new("DLTensor *", fields), (shape, strides)

    def flags(self, side):
        return ab.DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED if side.padded else 0


if __name__ == "__main__":
    wrong = list(runner.run(Cffi()))
    sys.exit("\n".join(wrong[:20]) or None)
