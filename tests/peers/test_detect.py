"""ab_detect against brute force over the index space."""

from itertools import pairwise, permutations

import numpy as np
import pytest

import abi
from abi import ALL, DTYPES, DType
from generate import MODES, random_tensor


def contiguous(t: abi.Tensor, order: str) -> bool:
    """Size-1 axes and empty tensors never disqualify."""
    if 0 in t.shape:
        return True
    want = abi.compact(t.shape, order)
    return all(n == 1 or s == w for n, s, w in zip(t.shape, t.strides, want, strict=True))


def axes(t: abi.Tensor) -> list[tuple[int, int]]:
    return [(n, s) for n, s in zip(t.shape, t.strides, strict=True) if n > 1]


def dense(t: abi.Tensor) -> bool:
    step = 1
    for n, s in sorted(axes(t), key=lambda a: a[1]):
        if s != step:
            return False
        step *= n
    return True


def regular(t: abi.Tensor) -> bool:
    """Each axis steps over everything that the smaller ones reach: no overlap, plainly."""
    reach = 0
    for n, s in sorted(axes(t), key=lambda a: abs(a[1])):
        if abs(s) <= reach:
            return False
        reach += (n - 1) * abs(s)
    return True


def expected_flags(t: abi.Tensor) -> tuple[int, int]:
    """Flags that must be set, and the mask of those that the contract determines."""
    empty = 0 in t.shape
    device = t.device[0]
    offsets = t.offsets
    want, mask = 0, 0

    def flag(bit: int, value: bool, known: bool = True) -> None:
        nonlocal want, mask
        if known:
            mask |= bit
            want |= bit if value else 0

    flag(abi.T_C_CONTIGUOUS, contiguous(t, "C"))
    flag(abi.T_F_CONTIGUOUS, contiguous(t, "F"))
    negative = any(s < 0 for _, s in axes(t))
    # a dense set of elements walked backwards is no compact permutation, but the words may be read otherwise
    flag(abi.T_DENSE, empty or dense(t), known=empty or not negative)
    flag(abi.T_BROADCAST, not empty and any(s == 0 for _, s in axes(t)))
    flag(abi.T_NEGATIVE_STRIDE, negative, known=not empty)
    shared = len(np.unique(offsets)) < len(offsets)
    flag(abi.T_OVERLAPPING, shared, known=shared or empty or regular(t))
    flag(abi.T_EMPTY, empty)
    flag(abi.T_READ_ONLY, bool(t.flags & abi.READ_ONLY))
    flag(abi.T_SUBBYTE_PACKED, t.packed)
    flag(abi.T_HOST_READABLE, device in (abi.CPU, abi.CUDA_HOST, abi.ROCM_HOST, abi.CUDA_MANAGED))
    flag(abi.T_OPAQUE_HANDLE, device in (abi.OPENCL, abi.VULKAN, abi.METAL, abi.WEBGPU))
    size = 1 if t.packed else t.dtype.size
    opaque = device in (abi.OPENCL, abi.VULKAN, abi.METAL, abi.WEBGPU)
    flag(abi.T_MISALIGNED, t.address % size != 0, known=not empty and not opaque and t.dtype.lanes == 1)
    return want, mask


FLAG_NAMES = {getattr(abi, n): n[2:] for n in dir(abi) if n.startswith("T_")}


def names(bits: int) -> str:
    return "|".join(n for b, n in FLAG_NAMES.items() if bits & b) or "0"


def check(api: abi.Api, t: abi.Tensor) -> None:
    before = t.state()
    outcome, info = api.detect(t)
    assert outcome.ok, f"{t}: {outcome}"
    assert t.state() == before
    want, mask = expected_flags(t)
    wrong = (info.flags ^ want) & mask
    assert not wrong, f"{t}: {names(wrong)} wrong; got {names(info.flags)}, expected {names(want)}"
    assert not info.flags & abi.T_BROADCAST or info.flags & abi.T_OVERLAPPING, f"{t}: broadcast is overlapping"
    n = len(t.offsets)
    begin, end = abi.byte_span(t.offsets, t.dtype, t.packed)
    got = info.num_elements, info.num_bytes, info.ndim, info.dtype.triple()
    assert got == (n, t.num_bytes, len(t.shape), t.dtype.dl().triple()), f"{t}: {got}"
    if n:
        span = info.begin_offset, info.end_offset
        assert span == (t.byte_offset + begin, t.byte_offset + end), f"{t}: {span}"
    else:
        assert info.begin_offset == info.end_offset, f"{t}: an empty range"
    device = (abi.CPU, 0) if t.device[0] == abi.CPU else t.device
    assert info.device.pair() == device or t.device[0] in (abi.CUDA_HOST, abi.CUDA_MANAGED), (
        f"{t}: {info.device.pair()}"
    )
    if info.flags & abi.T_OPAQUE_HANDLE or t.null_data:
        assert info.alignment == 0, f"{t}: alignment {info.alignment}"
    else:
        power = min(4096, t.address & -t.address)
        assert info.alignment == power, f"{t}: alignment {info.alignment}, expected {power}"
    assert info.accepted_by < 2 * abi.TVM_FFI


@pytest.mark.parametrize("mode", MODES)
def test_random_layouts(api, rng, rounds, mode):
    for _ in range(rounds(500)):
        dtype = ALL[int(rng.integers(len(ALL)))]
        check(api, random_tensor(rng, dtype, mode=mode, limit=600, flags=int(rng.choice([0, 0, 1, 2, 3, 1 << 40]))))


def test_random_devices(api, rng, rounds):
    for _ in range(rounds(400)):
        device = int(rng.choice([1, 1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 77]))
        check(
            api, random_tensor(rng, ALL[int(rng.integers(len(ALL)))], limit=100, device=(device, int(rng.integers(3))))
        )


def test_lanes(api, rng, rounds):
    for _ in range(rounds(200)):
        base = DTYPES[str(rng.choice(["float32", "int8", "uint16", "complex64", "float8_e5m2"]))]
        lanes = int(rng.choice([2, 3, 4, 8]))
        check(api, random_tensor(rng, DType(base.name, base.code, base.bits, base.kind, lanes), limit=200))


def test_small_overlaps(api, rng, rounds):
    """Few elements, strides up to 12: overlapping or not is decided by brute force."""
    reported, exact = 0, 0
    for _ in range(rounds(3000)):
        shape = [int(n) for n in rng.integers(1, 5, int(rng.integers(1, 5)))]
        strides = [int(s) for s in rng.integers(-12, 13, len(shape))]
        t = random_tensor(rng, DTYPES["uint8"], shape=shape, strides=strides)
        check(api, t)
        _, info = api.detect(t)
        reported += bool(info.flags & abi.T_OVERLAPPING)
        exact += len(np.unique(t.offsets)) < len(t.offsets)
    assert reported >= exact


def test_contiguity_agrees_with_numpy(api, rng, rounds):
    for _ in range(rounds(400)):
        a = np.empty([int(n) for n in rng.integers(0, 4, int(rng.integers(0, 5)))], np.int16)
        a = a.transpose(rng.permutation(a.ndim))
        if a.ndim and rng.random() < 0.5:
            a = a[:: int(rng.integers(1, 3))]
        _, info = api.detect(abi.from_numpy(a))
        got = bool(info.flags & abi.T_C_CONTIGUOUS), bool(info.flags & abi.T_F_CONTIGUOUS)
        assert got == (a.flags.c_contiguous, a.flags.f_contiguous), f"{a.shape} {a.strides}"


def test_every_order_of_up_to_five_axes(api):
    """Dense whatever the order of the axes, unless a row is cut from a wider one, or an axis is repeated."""
    for shape in [(3,), (2, 3), (1, 3, 2), (2, 3, 4), (2, 3, 1, 4), (4, 2, 3, 2), (2, 1, 3, 2, 2), (2, 3, 2, 3, 2)]:
        whole = np.empty(shape, np.int16)
        cut = np.empty([*shape[:-1], shape[-1] + 1], np.int16)[..., :-1]
        repeated = np.broadcast_to(np.empty(shape[:-1], np.int16)[..., None], shape)
        for order in permutations(range(len(shape))):
            _, info = api.detect(abi.from_numpy(whole.transpose(order)))
            assert info.flags & abi.T_DENSE and not info.flags & abi.T_OVERLAPPING, (shape, order)
            for array in (whole, cut, repeated):
                check(api, abi.from_numpy(array.transpose(order)))


def test_alignments(api):
    memory = np.zeros(3 * 8192, np.uint8)
    page = -memory.ctypes.data % 8192
    for first in [page + d for d in (0, 1, 2, 4, 6, 8, 32, 48, 64, 4096, 4096 + 256)]:
        check(api, abi.Tensor(DTYPES["uint8"], [3], [1], memory, first))
        check(api, abi.Tensor(DTYPES["float32"], [3], [1], memory, first, byte_offset=5))


def test_info_keeps_its_tail(api):
    """Output structs: min(struct_size, known) bytes are written, the rest is left."""
    import ctypes as C

    class Longer(C.Structure):
        _fields_ = [("info", abi.TensorInfo), ("tail", C.c_uint8 * 32)]

    t = abi.from_numpy(np.arange(6.0))
    longer = Longer()
    C.memset(C.byref(longer), 0xCD, C.sizeof(longer))
    longer.info.struct_size = C.sizeof(longer)
    assert api.library.ab_detect(t.dl, 0, longer.info, None) == abi.OK
    assert longer.info.num_elements == 6 and set(longer.tail) == {0xCD}
    short = abi.TensorInfo(struct_size=3)
    assert api.library.ab_detect(t.dl, 0, short, None) == abi.E_INVALID_ARGUMENT


def test_strictly_nested_strides_do_not_overlap(api, rng, rounds):
    for _ in range(rounds(200)):
        t = random_tensor(rng, DTYPES["int32"], mode="gaps", limit=300)
        if regular(t):
            _, info = api.detect(t)
            assert not info.flags & abi.T_OVERLAPPING, str(t)
            steps = sorted(abs(s) for n, s in zip(t.shape, t.strides, strict=True) if n > 1)
            assert all(a < b for a, b in pairwise(steps))
