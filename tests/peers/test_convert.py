"""ab_convert, ab_copy and ab_plan on random tensors and options: values, layout, ownership, flags, report."""

import ctypes as C
import threading

import numpy as np
import pytest

import abi
from abi import ALL, DTYPES, DType
from generate import destination, random_shape, random_tensor
from reference import NUMPY_DTYPES, cast, mismatch
from test_detect import axes, contiguous


def random_options(rng: np.random.Generator, t: abi.Tensor) -> dict:
    fields: dict = {}
    if rng.random() < 0.4:
        fields["dtype"] = ALL[int(rng.integers(len(ALL)))] if rng.random() < 0.7 else t.dtype
    if rng.random() < 0.3:
        fields["copy"] = int(rng.choice([abi.COPY_ALWAYS, abi.COPY_NEVER, abi.COPY_NEVER]))
    if rng.random() < 0.5:
        fields["layout"] = int(rng.integers(0, 4))
    if rng.random() < 0.2:
        fields["alignment"] = int(2 ** rng.integers(0, 13))
    flags = 0
    for bit in (abi.SATURATE, abi.WRITABLE):
        flags |= bit if rng.random() < 0.2 else 0
    if flags:
        fields["flags"] = flags
    if rng.random() < 0.1:
        fields["consumers"] = abi.NUMPY
    if rng.random() < 0.3 or t.device[0] != abi.CPU:
        fields["device"] = (abi.CPU, 0)
    return fields


def reasons(t: abi.Tensor, fields: dict) -> int:
    """Every reason that rules out zero copy."""
    r = 0
    layout = fields.get("layout", abi.LAYOUT_ANY)
    if fields.get("copy") == abi.COPY_ALWAYS:
        r |= abi.R_REQUESTED
    if fields.get("dtype", t.dtype) != t.dtype:
        r |= abi.R_DTYPE
    if layout == abi.LAYOUT_C and not contiguous(t, "C") or layout == abi.LAYOUT_F and not contiguous(t, "F"):
        r |= abi.R_LAYOUT
    if 0 not in t.shape and t.address % fields.get("alignment", 1):
        r |= abi.R_ALIGNMENT
    if fields.get("flags", 0) & abi.WRITABLE and t.flags & abi.READ_ONLY:
        r |= abi.R_READ_ONLY
    return r


def check_struct(result: abi.Result) -> None:
    m = result.managed
    assert (m.version.major, m.version.minor) == (1, 3)
    assert m.deleter and m.dl_tensor.byte_offset == 0
    assert m.dl_tensor.ndim == 0 or m.dl_tensor.strides, "strides are NULL"
    if 0 in result.shape:
        assert not m.dl_tensor.data, "an empty result has data"


def check_layout(t: abi.Tensor, result: abi.Result, layout: int) -> None:
    """Of new memory."""
    got = result.strides
    if 0 in t.shape:
        return
    long = [i for i, n in enumerate(t.shape) if n > 1]
    if layout in (abi.LAYOUT_ANY, abi.LAYOUT_C):
        assert got == abi.compact(t.shape), f"row-major strides {got}"
    elif layout == abi.LAYOUT_F:
        want = abi.compact(t.shape, "F")
        assert [got[i] for i in long] == [want[i] for i in long], f"column-major strides {got}"
    else:
        step = 1
        for i in sorted(long, key=lambda i: got[i]):
            assert got[i] == step, f"KEEP gives strides {got}, not dense"
            step *= t.shape[i]
        for i in long:
            for j in long:
                if abs(t.strides[i]) > abs(t.strides[j]) > 0:
                    assert got[i] > got[j], f"KEEP gives strides {got}: not the source's axis order"


def check_report(t: abi.Tensor, result: abi.Result, outcome: abi.Outcome, copied: bool) -> None:
    r = outcome.report
    if not copied:
        assert r.route == abi.ROUTE_ZERO_COPY
        assert (r.passes, r.bytes_read, r.bytes_written, r.scratch_bytes) == (0, 0, 0, 0)
        return
    assert r.route == abi.ROUTE_HOST
    n, dtype = len(t.offsets), result.dtype
    written = (n * dtype.bits + 7) // 8 if result.packed else n * dtype.size
    if n:
        assert 1 <= r.passes <= 3 and r.bytes_written >= written
        assert r.bytes_read > 0
        if r.passes == 1:
            assert r.bytes_written == written
            if all(s for _, s in axes(t)):
                assert r.bytes_read == t.num_bytes
    else:
        assert (r.bytes_read, r.bytes_written) == (0, 0)


def check_result(t: abi.Tensor, fields: dict, outcome: abi.Outcome, copied: bool) -> None:
    result = outcome.result
    goal = fields.get("dtype", t.dtype)
    check_struct(result)
    assert result.shape == list(t.shape)
    assert result.dl.dtype.triple() == goal.dl().triple()
    assert result.dl.device.pair() == ((abi.CPU, 0) if "device" in fields else (t.device[0], 0))
    assert bool(result.flags & abi.IS_COPIED) == copied
    assert bool(result.flags & abi.READ_ONLY) == bool(t.flags & abi.READ_ONLY and not copied)
    check_report(t, result, outcome, copied)
    if copied:
        if len(t.offsets):
            assert result.address % max(256, fields.get("alignment", 1)) == 0, f"new memory at {result.address:#x}"
        check_layout(t, result, fields.get("layout", abi.LAYOUT_ANY))
    elif len(t.offsets):
        assert result.address == t.address, "zero copy moved the first element"
        assert not t.dtype.subbyte or (result.flags ^ t.flags) & abi.PADDED == 0, "PADDED changed"
        want = [c if n == 1 else s for n, s, c in zip(t.shape, t.strides, abi.compact(t.shape), strict=True)]
        assert result.strides == want
    if t.dtype.lanes == 1:
        values = t.values()
        saturate = bool(fields.get("flags", 0) & abi.SATURATE)
        wrong = mismatch(result.values(), cast(values, t.dtype, goal, saturate), values, t.dtype, goal)
        assert not wrong, wrong


def run(api: abi.Api, t: abi.Tensor, fields: dict) -> abi.Outcome:
    o = abi.options(**fields)
    why = reasons(t, fields)
    story = f"{t} {abi.describe(o)}"
    before = t.state()
    plan = api.plan(t, o)
    assert t.state() == before, f"{story}: ab_plan changed something"
    outcome = api.convert(t, o)
    same = outcome.status, outcome.report.facts()
    assert same == (plan.status, plan.report.facts()), f"{story}: {outcome}, but ab_plan says {plan}"
    assert plan.report.nanoseconds == 0
    try:
        if fields.get("consumers") and fields.get("dtype", t.dtype) not in NUMPY_DTYPES:
            assert not outcome.ok, "a consumer that has not this dtype"
        elif why and fields.get("copy") == abi.COPY_NEVER:
            assert outcome.status == abi.E_COPY_REQUIRED, str(outcome)
        else:
            assert outcome.ok, str(outcome)
        if not outcome.ok:
            assert t.state() == before, "a failing call touched its source"
            return outcome
        assert outcome.report.reasons == why, f"reasons {outcome.report.reasons:#x}, expected {why:#x}"
        assert t.deletions == (1 if why and t.has_deleter else 0), "deleter: at once after a copy, not before otherwise"
        check_result(t, fields, outcome, bool(why))
        assert t.memory.tobytes() == before[4], "the source was written"
        outcome.result.release()
        assert t.deletions == (1 if t.has_deleter else 0)
        # ab_copy agrees, and never shares
        if fields.get("copy") != abi.COPY_NEVER:
            copied = api.copy(t, o)
            assert copied.ok, str(copied)
            check_result(t, fields, copied, True)
            copied.result.release()
        else:
            assert api.copy(t, o).status == abi.E_COPY_REQUIRED
        assert t.deletions == (1 if t.has_deleter else 0)
    except AssertionError as e:
        raise AssertionError(f"{story}: {e}") from None
    return outcome


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_random(api, rng, rounds, dtype):
    for _ in range(rounds(60)):
        flags = int(rng.choice([0, 0, 0, abi.READ_ONLY, abi.IS_COPIED]))
        device = (int(rng.choice([abi.CPU] * 8 + [abi.CUDA_HOST, abi.CUDA_MANAGED])), int(rng.choice([0, 0, 0, 1])))
        t = random_tensor(rng, dtype, flags=flags, device=device, has_deleter=bool(rng.random() < 0.9))
        run(api, t, random_options(rng, t))


def test_all_zero_options_keep_everything(api, rng, rounds):
    """Any tensor that is accepted passes as it is: NULL options, and options of zeros."""
    for _ in range(rounds(200)):
        t = random_tensor(rng, ALL[int(rng.integers(len(ALL)))])
        plain = api.convert(t, None)
        assert plain.ok and plain.report.route == abi.ROUTE_ZERO_COPY, f"{t}: {plain}"
        check_result(t, {}, plain, False)
        plain.result.release()
        run(api, random_tensor(rng, t.dtype), {})


@pytest.mark.parametrize("order", [abi.LAYOUT_C, abi.LAYOUT_F, abi.LAYOUT_KEEP, abi.LAYOUT_ANY])
def test_transposes(api, rng, rounds, order):
    """Permuted, mid-sized tensors of every element size."""
    for name in ("uint8", "int16", "float32", "float64", "complex128"):
        for _ in range(rounds(8)):
            shape = [int(n) for n in rng.choice([2, 3, 5, 8, 17, 31, 32, 64, 100], 3)]
            shape = shape if np.prod(shape) < 60000 else shape[:2]
            t = random_tensor(rng, DTYPES[name], shape=shape, mode="permuted", aligned=True)
            run(api, t, {"layout": order, "copy": abi.COPY_ALWAYS})


def test_lanes_are_moved(api, rng, rounds):
    """Vector elements and unknown codes: a copy is a byte move."""
    for _ in range(rounds(150)):
        base = DTYPES[str(rng.choice(["float32", "int8", "uint16", "complex64", "bfloat16"]))]
        lanes = int(rng.choice([2, 3, 4, 8]))
        code = int(rng.choice([base.code, 77, 255]))
        dtype = DType(base.name, code, base.bits, base.kind, lanes)
        t = random_tensor(rng, dtype, limit=300)
        o = abi.options(copy=abi.COPY_ALWAYS, layout=int(rng.integers(0, 4)))
        outcome = api.convert(t, o)
        assert outcome.ok, f"{t} code {code}: {outcome}"
        assert outcome.result.dl.dtype.triple() == dtype.dl().triple()
        check_layout(t, outcome.result, o.layout)
        offsets = abi.element_offsets(outcome.result.shape, outcome.result.strides)
        if len(offsets):
            n = (int(offsets.max()) + 1) * dtype.size
            memory = np.ctypeslib.as_array((C.c_uint8 * n).from_address(outcome.result.address))
            assert (abi.gather(memory, 0, offsets, dtype, False) == t.values()).all(), f"{t} {abi.describe(o)}"
        outcome.result.release()


@pytest.mark.parametrize("dtype", [t for t in ALL if t.subbyte], ids=str)
def test_subbyte_to_packed_and_back(api, rng, rounds, dtype):
    """Packed and padded sources, same dtype: the elements survive whatever form the result has."""
    for packed in (True, False):
        for _ in range(rounds(30)):
            t = random_tensor(rng, dtype, packed=packed, limit=200)
            run(api, t, {"copy": abi.COPY_ALWAYS, "layout": int(rng.integers(0, 4))})


def test_report_describe(api, rng):
    t = random_tensor(rng, DTYPES["int16"], shape=[30, 4], mode="f")
    outcome = api.convert(t, abi.options(dtype=DTYPES["float32"]))
    size = api.library.ab_report_describe(outcome.report, None, 0)
    text = C.create_string_buffer(size + 1)
    assert api.library.ab_report_describe(outcome.report, text, size + 1) == size == len(text.value)
    line = text.value.decode()
    assert "1 pass," in line and "dtype" in line and "\n" not in line, line
    short = C.create_string_buffer(b"x" * 10, 10)
    assert api.library.ab_report_describe(outcome.report, short, 10) == size
    assert short.raw == text.raw[:9] + b"\0"
    outcome.result.release()


def test_any_thread_may_release(api, rng, rounds):
    for copy in (abi.COPY_IF_NEEDED, abi.COPY_ALWAYS):
        tensors = [random_tensor(rng, DTYPES["float32"], limit=100) for _ in range(rounds(20))]
        results = [api.convert(t, abi.options(copy=copy)).result for t in tensors]
        threads = [threading.Thread(target=r.release) for r in results]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [t.deletions for t in tensors] == [1] * len(tensors)


def test_threads_convert_at_once(api, rng, rounds):
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        np.seterr(all="ignore")  # its own in every thread
        own = np.random.default_rng(seed)
        try:
            for _ in range(rounds(60)):
                dtype = ALL[int(own.integers(len(ALL)))]
                t = random_tensor(own, dtype, limit=3000)
                run(api, t, random_options(own, t))
        except BaseException as e:  # noqa: BLE001, reported by the main thread
            failures.append(e)

    threads = [threading.Thread(target=work, args=(int(rng.integers(2**32)),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


@pytest.mark.parametrize("threads", [1, 2, 0])
def test_contexts(api, rng, threads):
    """A result outlives its context."""
    o = abi.ContextOptions(C.sizeof(abi.ContextOptions), threads, 0)
    context = C.c_void_p()
    assert api.library.ab_context_create(o, C.byref(context), None) == abi.OK
    own = abi.Api(api.library)
    own.context = context.value
    a = np.arange(800 * 600, dtype=np.int32).reshape(800, 600)
    outcome = own.copy(abi.from_numpy(a.T), abi.options(dtype=DTYPES["float64"], layout=abi.LAYOUT_C))
    zero = own.convert(t := abi.from_numpy(a), None)
    api.library.ab_context_release(context)
    assert (outcome.result.values().reshape(600, 800) == a.T).all()
    outcome.result.release()
    zero.result.release()
    assert t.deletions == 1


class Heap:
    """An ab_allocator that counts."""

    def __init__(self, misalign: int = 0, fail: bool = False):
        self.live: dict[int, tuple[np.ndarray, int]] = {}
        self.misalign, self.fail, self.calls = misalign, fail, 0
        self.struct = abi.Allocator(0x1234, abi.ALLOCATE(self.allocate), abi.DEALLOCATE(self.deallocate))

    def allocate(self, user, device_type, device_id, size, alignment, stream):
        self.calls += 1
        assert (user, device_type, device_id) == (0x1234, abi.CPU, 0)
        if self.fail:
            return None
        block = np.zeros(size + alignment + 64, np.uint8)
        address = block.ctypes.data + (-block.ctypes.data) % alignment + self.misalign
        self.live[address] = block, size
        return address

    def deallocate(self, user, device_type, device_id, pointer, size, stream):
        assert self.live.pop(pointer)[1] == size and user == 0x1234


def test_allocator(api, rng, rounds):
    heap = Heap()
    for _ in range(rounds(60)):
        t = random_tensor(rng, ALL[int(rng.integers(len(ALL)))], limit=300)
        dtype = ALL[int(rng.integers(len(ALL)))]
        o = abi.options(dtype=dtype, copy=abi.COPY_ALWAYS, allocator=heap.struct, alignment=int(rng.choice([0, 512])))
        outcome = api.convert(t, o)
        assert outcome.ok, f"{t}: {outcome}"
        if len(t.offsets):
            assert outcome.result.address in heap.live, "the result is not in the allocator's memory"
            assert outcome.result.address % max(1, o.alignment) == 0
        values = t.values()
        wrong = mismatch(outcome.result.values(), cast(values, t.dtype, dtype), values, t.dtype, dtype)
        assert not wrong, f"{t}: {wrong}"
        outcome.result.release()
        assert not heap.live, "not given back"
    t = random_tensor(rng, DTYPES["int8"], shape=[100])
    before, calls = t.state(), heap.calls
    outcome = api.convert(t, abi.options(allocator=heap.struct))
    assert heap.calls == calls, "zero copy allocated"
    outcome.result.release()
    for bad, status in ((Heap(fail=True), abi.E_OUT_OF_MEMORY), (Heap(misalign=1), abi.E_INVALID_ARGUMENT)):
        t = random_tensor(rng, DTYPES["int32"], shape=[100], mode="c", flags=abi.READ_ONLY)
        before = t.state()
        outcome = api.convert(t, abi.options(copy=abi.COPY_ALWAYS, allocator=bad.struct, alignment=64))
        assert (outcome.status, t.state()) == (status, before), str(outcome)
        assert bad.calls and not bad.live, "misaligned memory is given back"


# ---- wrap and bridge -------------------------------------------------------------------------


def test_wrap(api, rng, rounds):
    for _ in range(rounds(200)):
        t = random_tensor(rng, ALL[int(rng.integers(len(ALL)))], flags=int(rng.choice([0, abi.READ_ONLY])))
        owner = abi.new_id()
        outcome = api.wrap(t, owner)
        assert outcome.ok, f"{t}: {outcome}"
        result = outcome.result
        C.memset(t._shape, 0xFF, C.sizeof(t._shape)) if t._shape else None  # shape and strides are copied
        C.memset(t._strides, 0xFF, C.sizeof(t._strides)) if t._strides else None
        check_struct(result)
        assert result.shape == list(t.shape)
        assert result.flags & (abi.READ_ONLY | abi.IS_COPIED) == t.flags & abi.READ_ONLY
        assert not len(t.offsets) or result.address == t.address
        assert result.values().tobytes() == t.values().tobytes(), str(t)
        assert abi.deleted[owner] == 0
        result.release()
        assert abi.deleted[owner] == 1


def test_wrap_failure_does_not_release(api, rng):
    t = random_tensor(rng, DTYPES["int8"], shape=[3])
    t.dl.ndim = -1
    owner = abi.new_id()
    assert api.wrap(t, owner).status == abi.E_INVALID_TENSOR
    assert abi.deleted[owner] == 0


def test_bridge(api, rng, rounds):
    """legacy -> versioned -> legacy keeps the memory and one call of the deleter."""
    for _ in range(rounds(200)):
        dtype = ALL[int(rng.integers(len(ALL)))]
        t = random_tensor(rng, dtype, packed=True)
        up = api.from_legacy(t.legacy)
        assert up.ok, f"{t}: {up}"
        check_struct(up.result)
        assert up.result.flags & (abi.READ_ONLY | abi.IS_COPIED) == 0
        assert up.result.values().tobytes() == t.values().tobytes(), str(t)
        down = api.to_legacy(up.result.pointer)
        assert down.ok, f"{t}: {down}"
        assert down.result.shape == list(t.shape) and down.result.dl.byte_offset == 0
        assert down.result.values().tobytes() == t.values().tobytes(), str(t)
        assert t.deletions == 0
        down.result.release()
        assert t.deletions == 1


def test_read_only_has_no_legacy_form(api, rng):
    t = random_tensor(rng, DTYPES["float32"], flags=abi.READ_ONLY)
    before = t.state()
    assert api.to_legacy(t.versioned).status == abi.E_READ_ONLY
    assert t.state() == before


def test_release(api, rng):
    api.library.ab_release(None)
    api.library.ab_release_legacy(None)
    for major in (0, 1, 2, 99):
        t = random_tensor(rng, DTYPES["int8"])
        t.versioned.version.major = major
        api.library.ab_release(C.addressof(t.versioned))
        assert t.deletions == 1
    t = random_tensor(rng, DTYPES["int8"], has_deleter=False)
    api.library.ab_release(C.addressof(t.versioned))
    api.library.ab_release_legacy(C.addressof(t.legacy))


def test_shapes_as_generated(rng):
    """The generators reach what they claim to."""
    shapes = [random_shape(rng) for _ in range(2000)]
    assert {len(s) for s in shapes} >= set(range(7)) and max(map(len, shapes)) > 40
    assert any(0 in s for s in shapes)
    for _ in range(300):
        offsets = destination(rng, DTYPES["uint8"], random_shape(rng)).offsets
        assert len(np.unique(offsets)) == len(offsets)
