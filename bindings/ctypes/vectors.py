"""Runs tests/vectors through ctypes.

usage: vectors.py    ARRAYBRIDGE_LIBRARY as in example.py
"""

import ctypes as C
import sys
from pathlib import Path

import declarations as d
from example import ab

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/vectors"))
import runner


class Ctypes:
    name = "ctypes"
    # Structs are passed by address, and made anew only where they differ.
    options = d.ab_convert_options(struct_size=C.sizeof(d.ab_convert_options))
    names = {value: name for name, value in vars(d).items() if name == "AB_OK" or name.startswith("AB_E_")}

    def copy_into(self, source, destination, casting, flags):
        self.options.casting, self.options.flags = casting, flags
        from_, to = self.tensor(source), self.tensor(destination)
        status = ab.ab_copy_into(None, from_, self.flags(source), to, self.flags(destination), self.options, None, None)
        return self.names[status]

    def spell(self, text):
        dtype, name = d.DLDataType(), C.create_string_buffer(64)
        status = ab.ab_dtype_parse(text.encode(), dtype, None)
        ab.ab_dtype_format(dtype, name, len(name))
        return self.names[status], (dtype.code, dtype.bits, dtype.lanes), name.value.decode()

    def tensor(self, side):
        dims = C.c_int64 * len(side.shape)
        strides = None if side.strides is None else dims(*side.strides)
        device, shape = (d.kDLCPU, 0), dims(*side.shape)
        return d.DLTensor(side.data, device, len(side.shape), side.dtype, shape, strides, side.byte_offset)

    def flags(self, side):
        return d.DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED if side.padded else 0


if __name__ == "__main__":
    wrong = list(runner.run(Ctypes()))
    sys.exit("\n".join(wrong[:20]) or None)
