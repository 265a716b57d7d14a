"""Corrupted structs and options: the right status, a message that names the field, everything left alone."""

from __future__ import annotations

import ctypes as C
import re
from collections.abc import Callable

import numpy as np
import pytest

import abi
from abi import ALL, DTYPES
from generate import random_tensor


def tensor(rng: np.random.Generator, min_ndim: int = 1, min_bits: int = 0, **fields) -> abi.Tensor:
    """Not empty, no size-1 axis, strides given."""
    shape = [int(n) for n in rng.integers(2, 5, int(rng.integers(min_ndim, 5)))]
    dtypes = [t for t in ALL if t.bits >= min_bits]
    fields.setdefault("mode", str(rng.choice(["c", "f", "gaps", "permuted"])))
    t = random_tensor(rng, dtypes[int(rng.integers(len(dtypes)))], shape=shape, **fields)
    if t.null_strides:
        t = abi.Tensor(t.dtype, t.shape, t.strides, t.memory, t.first, t.byte_offset, t.device, t.flags)
    return t


def _axis(t: abi.Tensor, rng: np.random.Generator) -> int:
    return int(rng.integers(len(t.shape)))


def set_ndim(value: int) -> Callable:
    return lambda dl, t, rng: setattr(dl, "ndim", value)


def set_shape(value: int) -> Callable:
    def corrupt(dl, t, rng):
        dl.shape[_axis(t, rng)] = value

    return corrupt


def set_all_shape(value: int) -> Callable:
    def corrupt(dl, t, rng):
        for i in range(dl.ndim):
            dl.shape[i] = value

    return corrupt


def set_stride(value: int) -> Callable:
    def corrupt(dl, t, rng):
        dl.strides[_axis(t, rng)] = value

    return corrupt


def set_dtype(field: str, value: int) -> Callable:
    return lambda dl, t, rng: setattr(dl.dtype, field, value)


def fp6_with_8_bits(dl, t, rng):
    dl.dtype.code, dl.dtype.bits = int(rng.choice([15, 16, 17])), int(rng.choice([3, 5, 7, 8, 16]))


NULL = C.POINTER(C.c_int64)()
CORRUPTIONS: dict[str, tuple[Callable, str]] = {
    "ndim -1": (set_ndim(-1), "ndim"),
    "ndim 65": (set_ndim(65), "ndim"),
    "ndim min": (set_ndim(-(2**31)), "ndim"),
    "ndim max": (set_ndim(2**31 - 1), "ndim"),
    "shape NULL": (lambda dl, t, rng: setattr(dl, "shape", NULL), "shape"),
    "extent -1": (set_shape(-1), "shape"),
    "extent min": (set_shape(-(2**63)), "shape"),
    "extent max": (set_shape(2**63 - 1), "shape|element|byte|stride|extent"),
    "extents 2^62": (set_all_shape(2**62), "shape|element|byte|stride|extent"),
    "data NULL": (lambda dl, t, rng: setattr(dl, "data", None), "data"),
    "stride 2^62": (set_stride(2**62), "stride|extent"),
    "stride max": (set_stride(2**63 - 1), "stride|extent"),
    "stride min": (set_stride(-(2**63)), "stride|extent"),
    "byte_offset max": (lambda dl, t, rng: setattr(dl, "byte_offset", 2**64 - 1), "byte_offset"),
    "byte_offset 2^63": (lambda dl, t, rng: setattr(dl, "byte_offset", 2**63), "byte_offset"),
    "bits 0": (set_dtype("bits", 0), "bits"),
    "lanes 0": (set_dtype("lanes", 0), "lanes"),
    "fp6 with 8 bits": (fp6_with_8_bits, "bits"),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corrupt_tensor(api, rng, rounds, name):
    corrupt, words = CORRUPTIONS[name]
    for _ in range(rounds(40)):
        t = tensor(rng, min_ndim=2, min_bits=16)  # so that the large values overflow
        good = abi.Tensor(t.dtype, t.shape, t.strides, t.memory, t.first, flags=t.flags)
        corrupt(t.dl, t, rng)  # shape and strides are shared with the managed structs
        t.versioned.dl_tensor = t.legacy.dl_tensor = t.dl
        before = t.state()
        owner = abi.new_id()
        o = abi.options(copy=int(rng.integers(0, 2)), layout=int(rng.integers(0, 4)))
        answers = {
            "detect": api.detect(t)[0],
            "plan": api.plan(t, o),
            "copy": api.copy(t, o),
            "convert": api.convert(t, o),
            "copy_into from": api.copy_into(t, good),
            "copy_into to": api.copy_into(good, t),
            "wrap": api.wrap(t, owner),
        }
        for call, outcome in answers.items():
            story = f"{call} with {name}: {t}: {outcome}"
            assert outcome.status == abi.E_INVALID_TENSOR, story
            assert re.search(words, outcome.message), f"{story}: the message names no {words}"
        assert t.state() == before
        assert abi.deleted[owner] == 0


def test_message_gives_the_value(api, rng):
    for value in (-7, 65, 1234567):
        t = tensor(rng)
        t.dl.ndim = value
        assert str(value) in api.detect(t)[0].message
    t = random_tensor(rng, DTYPES["int8"], shape=[4, 4], mode="gaps")
    t.dl.shape[1] = -123456
    assert "-123456" in api.detect(t)[0].message


def test_nothing_is_dereferenced_early(api):
    """A wild data pointer, a NULL shape: described or refused, never read."""
    t = abi.from_numpy(np.arange(6.0))
    t.dl.data = 8
    assert api.detect(t)[0].ok and api.plan(t, abi.options(copy=abi.COPY_ALWAYS)).ok
    t.dl.shape = C.cast(8, C.POINTER(C.c_int64))
    t.dl.ndim = 65
    assert api.detect(t)[0].status == abi.E_INVALID_TENSOR
    t.dl.ndim = -1
    assert api.detect(t)[0].status == abi.E_INVALID_TENSOR


@pytest.mark.parametrize("major", [0, 2, 3, 2**32 - 1])
def test_major_version(api, rng, rounds, major):
    """Nothing else is touched: the rest of the struct may be anything."""
    for _ in range(rounds(10)):
        t = tensor(rng)
        C.memset(C.addressof(t.versioned) + 24, 0xFF, C.sizeof(t.versioned) - 24)
        t.versioned.version.major = major
        before = t.state()
        for outcome in (api.convert(t), api.to_legacy(t.versioned)):
            assert outcome.status == abi.E_VERSION, str(outcome)
            assert str(major) in outcome.message
        assert t.state() == before
        api.library.ab_release(C.addressof(t.versioned))
        assert t.deletions == 1


def test_unknown_code(api, rng, rounds):
    """Moved, but not interpreted."""
    for _ in range(rounds(40)):
        t = random_tensor(rng, DTYPES["int16"], shape=[3, 4])
        t.dl.dtype.code = t.versioned.dl_tensor.dtype.code = int(rng.choice([19, 100, 255]))
        assert api.detect(t)[0].ok
        moved = api.copy(t)
        assert moved.ok, str(moved)
        moved.result.release()
        for options in (abi.options(dtype=DTYPES["float32"]), abi.options(dtype=DTYPES["int16"])):
            outcome = api.copy(t, options)
            assert outcome.status == abi.E_INVALID_TENSOR, str(outcome)


BAD_OPTIONS = [
    {"copy": 3}, {"copy": -1}, {"copy": 2**31 - 1}, {"layout": 4}, {"layout": -1}, {"casting": 4}, {"casting": -5},
    {"alignment": 3}, {"alignment": 48}, {"alignment": 2**31}, {"alignment": 2**32 - 1}, {"alignment": (1 << 30) + 1},
]  # fmt: skip


@pytest.mark.parametrize("fields", BAD_OPTIONS, ids=str)
def test_bad_options(api, rng, fields):
    t = tensor(rng)
    before = t.state()
    for outcome in (
        api.convert(t, abi.options(**fields)),
        api.copy(t, abi.options(**fields)),
        api.plan(t, abi.options(**fields)),
    ):
        assert outcome.status == abi.E_INVALID_ARGUMENT, str(outcome)
        assert next(iter(fields)) in outcome.message, outcome.message
    assert t.state() == before


def test_random_options_do_no_harm(api, rng, rounds):
    """Any integers at all: some status, and on failure nothing changed."""
    for _ in range(rounds(1500)):
        t = tensor(rng)
        o = abi.options()
        for name in ("flags", "copy", "layout", "casting", "alignment", "consumers"):
            if rng.random() < 0.4:
                value = (
                    int(rng.choice([0, 1, 2, 3, 4, 5, 7, 64, 2**31 - 1]))
                    if rng.random() < 0.7
                    else int(rng.integers(2**31))
                )
                setattr(
                    o,
                    name,
                    value & ~abi.VERIFY_POINTER
                    if name == "flags"
                    else min(value, 2**20)
                    if name == "alignment"
                    else value,
                )
        if rng.random() < 0.5:
            o.dtype = abi.DLDataType(*(int(rng.integers(n)) for n in (20, 70, 3)))
        before = t.state()
        plan = api.plan(t, o)
        outcome = api.convert(t, o)
        if outcome.ok:
            assert plan.ok, f"{t} {abi.describe(o)}: converted, but ab_plan says {plan}"
            outcome.result.release()
        else:
            assert t.state() == before, f"{t} {abi.describe(o)}: {outcome}"


class Longer(C.Structure):
    _fields_ = [("options", abi.ConvertOptions), ("tail", C.c_uint8 * 40)]


def test_struct_sizes(api, rng):
    t = tensor(rng)
    longer = Longer()
    longer.options.struct_size = C.sizeof(longer)
    out = api.copy(t, longer.options)
    assert out.ok, str(out)
    out.result.release()
    longer.tail[17] = 1
    assert api.copy(t, longer.options).status == abi.E_VERSION
    for size in (0, 1, 8, 60, 63):
        o = abi.options()
        o.struct_size = size
        assert api.copy(t, o).status == abi.E_INVALID_ARGUMENT, size
    report = abi.Report(struct_size=4)
    assert api.library.ab_plan(None, t.dl, 0, None, report, None) == abi.E_INVALID_ARGUMENT


def test_null_arguments(api, rng):
    t, lib = tensor(rng), api.library
    slot = C.c_void_p(1)
    assert lib.ab_detect(None, 0, abi.TensorInfo(C.sizeof(abi.TensorInfo)), None) == abi.E_INVALID_ARGUMENT
    assert lib.ab_detect(t.dl, 0, None, None) == abi.E_INVALID_ARGUMENT
    assert lib.ab_convert(None, None, None, C.byref(slot), None, None) == abi.E_INVALID_ARGUMENT
    assert lib.ab_convert(None, C.addressof(t.versioned), None, None, None, None) == abi.E_INVALID_ARGUMENT
    assert lib.ab_copy(None, None, 0, None, C.byref(slot), None, None) == abi.E_INVALID_ARGUMENT
    assert lib.ab_copy_into(None, t.dl, 0, None, 0, None, None, None) == abi.E_INVALID_ARGUMENT
    assert lib.ab_copy_into(None, None, 0, t.dl, 0, None, None, None) == abi.E_INVALID_ARGUMENT
    assert lib.ab_plan(None, None, 0, None, None, None) == abi.E_INVALID_ARGUMENT
    assert lib.ab_from_legacy(None, C.byref(slot), None) == abi.E_INVALID_ARGUMENT
    assert lib.ab_to_legacy(None, C.byref(slot), None) == abi.E_INVALID_ARGUMENT
    assert lib.ab_wrap(None, 0, None, None, C.byref(slot), None) == abi.E_INVALID_ARGUMENT
    assert lib.ab_dtype_parse(None, abi.DLDataType(), None) == abi.E_INVALID_ARGUMENT
    assert lib.ab_dtype_parse(b"f", None, None) == abi.E_INVALID_ARGUMENT
    assert t.deletions == 0


WORDS = {
    abi.R_DTYPE: r"dtype|float|int", abi.R_LAYOUT: r"layout|stride|contiguous|row-major|column-major",
    abi.R_ALIGNMENT: r"align", abi.R_READ_ONLY: r"read.?only|writ", abi.R_CONSUMER: r"(?i)consumer|jax|tensorflow",
}  # fmt: skip


def test_never_names_every_reason(api, rng, rounds):
    for _ in range(rounds(100)):
        a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)[:, ::2]
        t = abi.from_numpy(a, flags=abi.READ_ONLY)
        fields, want = {"copy": abi.COPY_NEVER}, 0
        if rng.random() < 0.5:
            fields["dtype"], want = DTYPES["int8"], want | abi.R_DTYPE
        if rng.random() < 0.5:
            fields["layout"], want = int(rng.choice([abi.LAYOUT_C, abi.LAYOUT_F])), want | abi.R_LAYOUT
        if rng.random() < 0.5:
            fields["alignment"], want = 1 << 30, want | abi.R_ALIGNMENT
            if t.address % (1 << 30) == 0:
                continue
        if rng.random() < 0.5:
            fields["flags"], want = abi.WRITABLE, want | abi.R_READ_ONLY
        if rng.random() < 0.3:
            fields["consumers"], want = abi.JAX, want | abi.R_CONSUMER
        before = t.state()
        outcome = api.convert(t, abi.options(**fields))
        if not want:
            assert outcome.ok
            outcome.result.release()
            continue
        assert outcome.status == abi.E_COPY_REQUIRED, str(outcome)
        for bit, words in WORDS.items():
            assert not want & bit or re.search(words, outcome.message), f"no {words} in {outcome.message!r}"
        assert t.state() == before


def test_devices_that_are_not_here(api, rng):
    here = api.backends()
    for device, backend in ((abi.CUDA, "cuda"), (abi.OPENCL, "opencl")):
        if here.get(backend):
            continue
        t = tensor(rng, device=(device, 0))
        back = api.convert(t, abi.options(device=(abi.CPU, 0)))
        assert back.status == abi.E_BACKEND_UNAVAILABLE, str(back)
        there = api.convert(tensor(rng), abi.options(device=(device, 0)))
        assert there.status == abi.E_BACKEND_UNAVAILABLE, str(there)
        kept = api.convert(t)  # nothing has to move
        assert kept.ok and kept.report.route == abi.ROUTE_ZERO_COPY, str(kept)
        kept.result.release()
    for device in (abi.CUDA_HOST, abi.CUDA_MANAGED):
        if not here.get("cuda"):
            outcome = api.convert(tensor(rng), abi.options(device=(device, 0), copy=abi.COPY_ALWAYS))
            assert outcome.status == abi.E_BACKEND_UNAVAILABLE, str(outcome)
    for device in (abi.VULKAN, abi.METAL, 9, abi.ROCM, 12, 14, 15, 16, 17, 18, 21, 77, 2**31 - 1):
        t = tensor(rng, device=(device, 0))
        before = t.state()
        for outcome in (
            api.convert(t, abi.options(device=(abi.CPU, 0))),
            api.convert(t, abi.options(copy=abi.COPY_ALWAYS)),
        ):
            assert outcome.status == abi.E_UNSUPPORTED_DEVICE, f"device {device}: {outcome}"
        there = api.convert(tensor(rng), abi.options(device=(device, 0)))
        assert there.status == abi.E_UNSUPPORTED_DEVICE, f"to device {device}: {there}"
        assert t.state() == before
        kept = api.convert(t)
        assert kept.ok, f"device {device}: {kept}"
        kept.result.release()


@pytest.mark.parametrize("device", [0, -1, -3, -(2**31)])
def test_device_types_below_one(api, rng, device):
    """Integers like any other: AB_E_INVALID_TENSOR's list does not have them, no backend does either."""
    t = tensor(rng, device=(device, 0))
    before = t.state()
    outcome = api.convert(t, abi.options(device=(abi.CPU, 0)))
    assert outcome.status == abi.E_UNSUPPORTED_DEVICE, str(outcome)
    assert t.state() == before


def test_names_and_version(api):
    lib = api.library
    assert lib.ab_abi_version() >> 16 == abi.ABI_MAJOR
    assert re.fullmatch(rb"\d+\.\d+\.\d+", lib.ab_version())
    for status, name in abi.STATUS.items():
        assert lib.ab_status_name(status).decode() == name
    assert lib.ab_status_name(-999) == lib.ab_status_name(5) == b"AB_E_UNKNOWN"
    assert "host" in api.backends()


def test_detect_pointer_starts_no_driver(api):
    a = np.zeros(10)
    info = abi.PointerInfo(struct_size=C.sizeof(abi.PointerInfo))
    assert api.library.ab_detect_pointer(None, a.ctypes.data, info, None) == abi.OK
    assert info.memory in (abi.MEMORY_UNKNOWN, abi.MEMORY_HOST)
    assert info.device.pair() in ((0, 0), (abi.CPU, 0))
