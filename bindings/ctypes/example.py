"""NumPy arrays through the plain shared library, with ctypes: beside this, declarations.py is all it needs.

usage: example.py    ARRAYBRIDGE_LIBRARY: the shared library, else target/release/libarraybridge.so
"""

import ctypes as C
import os
import sys

import declarations as d
import numpy as np

# [page]
ab = d.load(os.environ.get("ARRAYBRIDGE_LIBRARY", "target/release/libarraybridge.so"))


class Failure(Exception):
    """What the library refused, and why: its message."""


def call(function, *arguments):
    """Calls a function whose last parameter is an ab_error."""
    error = d.ab_error(struct_size=C.sizeof(d.ab_error))
    if function(*arguments, error) != d.AB_OK:
        raise Failure(error.message.decode())


def struct(kind, **fields):
    return kind(struct_size=C.sizeof(kind), **fields)


def dtype(name):
    found = d.DLDataType()
    call(ab.ab_dtype_parse, name.encode(), found)
    return found


def tensor(array):
    """A DLTensor over an array's memory, as long as the array lives."""
    dims = C.c_int64 * array.ndim
    shape, strides = dims(*array.shape), dims(*(step // array.itemsize for step in array.strides))
    return d.DLTensor(array.ctypes.data, (d.kDLCPU, 0), array.ndim, dtype(array.dtype.str), shape, strides)


class Result:
    """A tensor that is ours: np.asarray gives an array of its memory, and the last such array releases it."""

    def __init__(self, managed, owner=None):
        self.managed, self.owner = managed, owner

    @property
    def __array_interface__(self):
        t = self.managed.contents.dl_tensor
        name = C.create_string_buffer(64)
        ab.ab_dtype_format(t.dtype, name, len(name))
        kind = np.dtype(name.value.decode())
        strides = tuple(step * kind.itemsize for step in t.strides[: t.ndim])
        read_only = bool(self.managed.contents.flags & d.DLPACK_FLAG_BITMASK_READ_ONLY)
        found = {"typestr": kind.str, "shape": tuple(t.shape[: t.ndim]), "strides": strides}
        return found | {"version": 3, "data": (t.data or 0, read_only)}

    def __del__(self):
        ab.ab_release(self.managed)


# [/page]


def main():
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)  # height x width x channels

    # [page]
    # What is it? Nothing is read but the struct.
    info = struct(d.ab_tensor_info)
    call(ab.ab_detect, tensor(image.transpose(2, 0, 1)), 0, info)
    print("detect:", info.num_elements, "elements,", "dense" if info.flags & d.AB_TENSOR_DENSE else "with gaps")

    # [readme]
    # Cast and transposed, in one pass, to memory of the library's.
    options = struct(d.ab_convert_options, dtype=dtype("float32"), layout=d.AB_LAYOUT_C)
    report, out = struct(d.ab_report), C.POINTER(d.DLManagedTensorVersioned)()
    call(ab.ab_copy, None, tensor(image.transpose(2, 0, 1)), 0, options, C.byref(out), report)
    planes = np.asarray(Result(out))
    # [/readme]
    print("copy:", planes.shape, planes.dtype, planes[2].tolist())

    # The same memory under another owner: ab_wrap makes it a managed tensor, which ab_convert takes over.
    wrapped, shared = C.POINTER(d.DLManagedTensorVersioned)(), C.POINTER(d.DLManagedTensorVersioned)()
    call(ab.ab_wrap, tensor(image), 0, None, d.FUNCTIONS["ab_wrap"][1][3](), C.byref(wrapped))
    call(ab.ab_convert, None, wrapped, None, C.byref(shared), report)
    shared = np.asarray(Result(shared, owner=image))
    shared[0, 0, 0] = 7
    print("convert:", "zero copy," if report.route == d.AB_ROUTE_ZERO_COPY else "a copy,", image[0, 0, 0])

    # Into memory that is there.
    reversed_rows = np.zeros((2, 4, 3), np.int16)
    call(ab.ab_copy_into, None, tensor(image), 0, tensor(reversed_rows[::-1]), 0, None, None)
    print("copy_into:", reversed_rows[1, 0].tolist())

    # What cannot be done says why.
    try:
        call(ab.ab_copy_into, None, tensor(image), 0, tensor(reversed_rows[:, :3]), 0, None, None)
    except Failure as failure:
        print("refused:", failure)
    # [/page]


if __name__ == "__main__":
    sys.exit(main())
