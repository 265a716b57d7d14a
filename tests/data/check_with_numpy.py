"""Compares what ab writes with what NumPy makes of the same file. Run by tests/cli.rs: ab is argv[1], and
in.npy of the working directory is the photograph."""

import io
import itertools
import subprocess
import sys
import warnings

try:
    import numpy as np
except ImportError:
    print("SKIPPED: NumPy's view of the tool's files: the interpreter has no NumPy")
    sys.exit()


def ab(*arguments):
    return subprocess.run([sys.argv[1], *arguments], check=True, capture_output=True, text=True).stdout


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def check(array, *options, expected):
    np.save("array.npy", array)
    ab("convert", "array.npy", "result.npy", *options)
    with open("result.npy", "rb") as file:
        assert file.read() == saved(expected), (array.dtype, array.shape, options)


photograph = np.load("in.npy")
check(photograph, "--permute", "2,0,1", "--dtype", "float32",
      expected=np.ascontiguousarray(photograph.transpose(2, 0, 1).astype("float32")))
ab("convert", "in.npy", "out.npy", "--permute", "2,0,1", "--dtype", "float32")
assert np.array_equal(np.load("out.npy"), photograph.transpose(2, 0, 1).astype("float32"))

plain = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split()
random = np.random.default_rng(1)
for source, target in itertools.product(plain, plain):
    array = random.integers(0, 100, (3, 4, 5)).astype(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        converted = array.astype(target)
    name = np.dtype(target).name
    check(array, "--dtype", name, "--permute", "1,-1,0", expected=np.ascontiguousarray(converted.transpose(1, 2, 0)))
    check(np.asfortranarray(array), "--dtype", name, "--layout", "f", expected=np.asfortranarray(converted))
for shape in [(), (0,), (1,), (5,), (2, 0, 3), (1, 1), (7, 1, 2), (10**6,), (2,) * 20]:
    array = np.ones(shape, "f4")
    for order in "CF":
        check(array, "--dtype", "float64", "--layout", order.lower(), expected=np.array(array, "f8", order=order))

try:
    import ml_dtypes
except ImportError:
    print("SKIPPED: ml_dtypes' view of the tool's files: the interpreter has no ml_dtypes")
    sys.exit()

array = np.linspace(-8, 8, 60, dtype="f4").reshape(3, 20)
for name in """bfloat16 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2
               float8_e5m2fnuz float8_e8m0fnu float6_e2m3fn float6_e3m2fn float4_e2m1fn""".split():
    dtype = np.dtype(name)
    small = (np.abs(array) + 1 if name == "float8_e8m0fnu" else array)
    check(small, "--dtype", name, "--permute", "1,0", expected=np.ascontiguousarray(small.astype(dtype).T))
    named = [] if name in ("bfloat16", "float8_e5m2") else ["--source-dtype", name]
    check(small.astype(dtype), "--dtype", "float32", *named, expected=small.astype(dtype).astype("f4"))
    check(small.astype(dtype), *named, expected=small.astype(dtype))
for name in "int2 int4 uint2 uint4".split():
    array = np.arange(6).reshape(2, 3).astype(name)
    check(array, "--source-dtype", name, "--permute", "1,0", expected=np.ascontiguousarray(array.T))
