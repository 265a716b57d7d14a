"""Plain buffers through the plain shared library, with cffi in ABI mode: arraybridge.cdef is all it needs.

usage: example.py    ARRAYBRIDGE_LIBRARY: the shared library, else target/release/libarraybridge.so
"""

import array
import os
import sys
from pathlib import Path

# [page]
import cffi

ffi = cffi.FFI()
ffi.cdef((Path(__file__).resolve().parents[1] / "arraybridge.cdef").read_text())
path = os.environ.get("ARRAYBRIDGE_LIBRARY", "target/release/libarraybridge.so")
ab = ffi.dlopen(path)
major, minor = divmod(ab.ab_abi_version(), 1 << 16)
if major != ab.AB_ABI_MAJOR or minor < ab.AB_ABI_MINOR:
    needed = f"{ab.AB_ABI_MAJOR}.{ab.AB_ABI_MINOR} or a later minor version is needed"
    raise OSError(f"{path} has ABI {major}.{minor}: {needed}")


class Failure(Exception):
    """What the library refused, and why: its message."""


def call(function, *arguments):
    """Calls a function whose last parameter is an ab_error."""
    error = struct("ab_error")
    if function(*arguments, error) != ab.AB_OK:
        raise Failure(ffi.string(error.message).decode())


def struct(kind, **fields):
    made = ffi.new(f"{kind} *", fields)
    made.struct_size = ffi.sizeof(kind)
    return made


def dtype(name):
    found = ffi.new("DLDataType *")
    call(ab.ab_dtype_parse, name.encode(), found)
    return found[0]


def tensor(buffer, name, shape, strides=None):
    """A DLTensor over a buffer's memory, and what it points to: keep both as long as it is used."""
    data = ffi.from_buffer(buffer)
    shape, strides = ffi.new("int64_t[]", shape), ffi.new("int64_t[]", strides) if strides else ffi.NULL
    view = {"data": data, "device": (ab.kDLCPU, 0), "ndim": len(shape), "dtype": dtype(name)}
    made = ffi.new("DLTensor *", view | {"shape": shape, "strides": strides})
    return made, (data, shape, strides)


# [/page]


def main():
    # [page]
    pixels = bytearray([10, 20, 30, 11, 21, 31])  # two RGB pixels: 2 x 3 in memory, 3 x 2 by these strides
    picture, _kept = tensor(pixels, "uint8", [3, 2], strides=[1, 3])

    # What is it? Nothing is read but the struct.
    info = struct("ab_tensor_info")
    call(ab.ab_detect, picture, 0, info)
    print("detect:", info.num_elements, "elements,", "dense" if info.flags & ab.AB_TENSOR_DENSE else "with gaps")

    # Cast and transposed, in one pass, to memory of the library's, which ffi.gc releases.
    options = struct("ab_convert_options", dtype=dtype("float32"), layout=ab.AB_LAYOUT_C)
    report, out = struct("ab_report"), ffi.new("DLManagedTensorVersioned **")
    call(ab.ab_copy, ffi.NULL, picture, 0, options, out, report)
    planes = ffi.gc(out[0], ab.ab_release)
    print("copy:", ffi.unpack(ffi.cast("float *", planes.dl_tensor.data), 6))

    # The same memory under another owner: ab_wrap makes it a managed tensor, which ab_convert takes over.
    call(ab.ab_wrap, picture, 0, ffi.NULL, ffi.NULL, out)
    call(ab.ab_convert, ffi.NULL, out[0], ffi.NULL, out, report)
    shared = ffi.gc(out[0], ab.ab_release)
    ffi.cast("uint8_t *", shared.dl_tensor.data)[0] = 7
    print("convert:", "zero copy," if report.route == ab.AB_ROUTE_ZERO_COPY else "a copy,", pixels[0])

    # Into memory that is there.
    numbers = array.array("h", bytes(12))
    target, _also_kept = tensor(numbers, "int16", [3, 2])
    call(ab.ab_copy_into, ffi.NULL, picture, 0, target, 0, ffi.NULL, ffi.NULL)
    print("copy_into:", numbers.tolist())

    # What cannot be done says why.
    options.copy = ab.AB_COPY_NEVER
    try:
        call(ab.ab_plan, ffi.NULL, picture, 0, options, report)
    except Failure as failure:
        print("refused:", failure)
    # [/page]


if __name__ == "__main__":
    sys.exit(main())
