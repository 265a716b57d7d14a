"""ab_copy_into: any layout and dtype on both sides, nothing written beside the elements, overlap refused."""

import numpy as np
import pytest

import abi
from abi import ALL, DTYPES, DType
from generate import destination, random_shape, random_tensor
from reference import cast, mismatch


def untouched(t: abi.Tensor, before: np.ndarray) -> bool:
    """Whether every bit that belongs to no element is as it was. A packed tensor owns its last byte."""
    mask = np.zeros(len(before) * 8, bool)
    bits = t.dtype.bits if t.packed else t.dtype.size * 8
    offsets = t.offsets
    if len(offsets):
        where = (t.first * 8 + offsets * bits)[:, None] + np.arange(bits)
        mask[where] = True
        end = int(where.max()) + 1
        mask[end : -(-end // 8) * 8] = True
    changed = np.unpackbits(before ^ t.memory, bitorder="little").astype(bool)
    return not (changed & ~mask).any()


def run(api: abi.Api, source: abi.Tensor, target: abi.Tensor, saturate: bool = False) -> None:
    o = abi.options(flags=abi.SATURATE if saturate else 0)
    values, before, held = source.values(), target.memory.copy(), source.memory.tobytes()
    outcome = api.copy_into(source, target, o)
    story = f"{source}\n  -> {target} {abi.describe(o)}"
    assert outcome.ok, f"{story}: {outcome}"
    wrong = mismatch(
        target.values(), cast(values, source.dtype, target.dtype, saturate), values, source.dtype, target.dtype
    )
    assert not wrong, f"{story}: {wrong}"
    assert untouched(target, before), f"{story}: wrote beside the destination's elements"
    assert source.memory.tobytes() == held, f"{story}: the source was written"
    assert outcome.report.route == abi.ROUTE_HOST
    assert not len(source.offsets) or outcome.report.bytes_written >= target.num_bytes, str(outcome)
    assert source.deletions == target.deletions == 0, "both are borrowed"


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_random(api, rng, rounds, dtype):
    for _ in range(rounds(60)):
        goal = dtype if rng.random() < 0.4 else ALL[int(rng.integers(len(ALL)))]
        shape = random_shape(rng, 700)
        source = random_tensor(rng, dtype, shape=shape, flags=int(rng.choice([0, abi.READ_ONLY])))
        run(api, source, destination(rng, goal, shape), bool(rng.random() < 0.3))


@pytest.mark.parametrize("size", ["uint8", "int16", "float32", "float64", "complex128"])
def test_transposes_into_gaps(api, rng, rounds, size):
    for _ in range(rounds(10)):
        shape = [int(n) for n in rng.choice([1, 2, 7, 16, 33, 64, 65, 130], 2)]
        source = random_tensor(rng, DTYPES[size], shape=shape, mode="permuted")
        run(api, source, destination(rng, DTYPES[size], shape))


def test_lanes(api, rng, rounds):
    for _ in range(rounds(40)):
        dtype = DType("int16", 0, 16, "i", int(rng.choice([2, 3, 4])))
        shape = random_shape(rng, 200)
        source, target = random_tensor(rng, dtype, shape=shape), destination(rng, dtype, shape)
        outcome = api.copy_into(source, target)
        assert outcome.ok, f"{source} -> {target}: {outcome}"
        assert (source.values() == target.values()).all(), f"{source} -> {target}"
    a, b = (DType("int16", 0, 16, "i", lanes) for lanes in (2, 4))
    source, target = random_tensor(rng, a, shape=[4]), destination(rng, b, [4])
    assert not api.copy_into(source, target).ok, "lanes differ"


def test_read_only_destination(api, rng, rounds):
    for _ in range(rounds(20)):
        shape = random_shape(rng, 100, empty=0)
        source = random_tensor(rng, DTYPES["int32"], shape=shape)
        target = destination(rng, DTYPES["float32"], shape, flags=abi.READ_ONLY)
        before = target.state()
        outcome = api.copy_into(source, target)
        assert outcome.status == abi.E_READ_ONLY, f"{source} -> {target}: {outcome}"
        assert target.state() == before


def test_shapes_differ(api, rng, rounds):
    for _ in range(rounds(50)):
        shape = random_shape(rng, 100)
        other = [*shape, 1] if rng.random() < 0.5 or not shape else [n + (i == 0) for i, n in enumerate(shape)]
        source, target = random_tensor(rng, DTYPES["int8"], shape=shape), destination(rng, DTYPES["int8"], other)
        before = target.state()
        assert api.copy_into(source, target).status == abi.E_INVALID_ARGUMENT, f"{source} -> {target}"
        assert target.state() == before


def test_destination_overlaps_itself(api, rng, rounds):
    """Certainly so, by brute force: always refused, nothing written."""
    refused = 0
    while refused < rounds(150):
        shape = random_shape(rng, 100, empty=0, high_rank=0)
        mode = str(rng.choice(["broadcast", "overlapping"]))
        target = random_tensor(rng, DTYPES["int16"], shape=shape, mode=mode)
        if len(np.unique(target.offsets)) == len(target.offsets):
            continue
        refused += 1
        source, before = random_tensor(rng, DTYPES["int16"], shape=shape), target.state()
        outcome = api.copy_into(source, target)
        assert outcome.status == abi.E_OVERLAP, f"{source} -> {target}: {outcome}"
        assert target.state() == before


def _view(memory: np.ndarray, dtype: DType, shape: list[int], strides: list[int], first: int) -> abi.Tensor:
    return abi.Tensor(dtype, shape, strides, memory, first)


def _bytes(t: abi.Tensor) -> set[int]:
    return set((t.first + t.offsets[:, None] * t.dtype.size + np.arange(t.dtype.size)).ravel().tolist())


def test_views_of_one_buffer(api, rng, rounds):
    """Random pairs in the same memory. Sharing a byte: refused. Ranges apart: accepted. Between: either."""
    accepted = between = 0
    for _ in range(rounds(600)):
        memory = rng.integers(0, 256, 400, np.uint8)
        shape = [int(n) for n in rng.integers(1, 5, int(rng.integers(1, 4)))]
        names = rng.choice(["uint8", "int16"], 2) if rng.random() < 0.5 else [str(rng.choice(["uint8", "int16"]))] * 2
        spread = int(rng.integers(2, 5)) if rng.random() < 0.6 else 0  # leaves room for the other between elements
        tensors: list[abi.Tensor] = []
        for dtype in (DTYPES[str(name)] for name in names):
            strides = [s * spread for s in abi.compact(shape)] if spread else destination(rng, dtype, shape).strides
            begin, end = abi.byte_span(abi.element_offsets(shape, strides), dtype, False)
            if end - begin > 400:
                break
            first = int(rng.integers(-begin, 401 - end))
            if spread and tensors:
                first = min(max(-begin, tensors[0].first + int(rng.integers(-12, 13))), 400 - end)
            tensors.append(_view(memory, dtype, shape, strides, first))
        if len(tensors) < 2:
            continue
        source, target = tensors
        shared = _bytes(source) & _bytes(target)
        low, high = [(min(b), max(b)) for b in (_bytes(source), _bytes(target))]
        apart = low[1] < high[0] or high[1] < low[0]
        values, before = source.values(), target.memory.copy()
        outcome = api.copy_into(source, target)
        story = f"{source} first={source.first}\n  -> {target} first={target.first}: {outcome}"
        if shared:
            assert outcome.status == abi.E_OVERLAP, f"{story}, but byte {min(shared)} is in both"
            assert (memory == before).all()
        elif apart:
            assert outcome.ok, story
        else:
            between += 1
            accepted += outcome.ok
            assert outcome.ok or outcome.status == abi.E_OVERLAP, story
        if outcome.ok:
            wrong = mismatch(
                target.values(), cast(values, source.dtype, target.dtype), values, source.dtype, target.dtype
            )
            assert not wrong, f"{story}: {wrong}"
            assert untouched(target, before), f"{story}: wrote beside the elements"
    assert between > rounds(50)
    print(f"{accepted} of {between} interleaved pairs that share nothing were accepted")


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "complex128"])
def test_interleaved_views_are_accepted(api, rng, dtype):
    """a[::2] -> a[1::2], columns of one matrix, reversed halves: nothing is shared."""

    def check(source: np.ndarray, target: np.ndarray) -> None:
        want = source.copy()
        outcome = api.copy_into(abi.from_numpy(source), abi.from_numpy(target))
        assert outcome.ok, f"{source.shape} {source.strides} -> {target.strides}: {outcome}"
        assert (target == want).all()

    for n in (2, 10, 64, 1000):
        a = rng.integers(0, 100, 2 * n).astype(dtype)
        check(a[::2], a[1::2])
        check(a[1::2], a[::2])
        check(a[::-2], a[::2])
        check(a[:n], a[n:])
        check(a[:n][::-1], a[n:])
        b = rng.integers(0, 100, (n, 6)).astype(dtype)
        check(b[:, :3], b[:, 3:])
        check(b[:, ::2], b[:, 1::2])
        check(b[::-1, 5], b[:, 0])
        check(b[: n // 2], b[n // 2 : n // 2 * 2])
        check(b[::2, 1:3][: n // 2], b[1::2, 1:3][: n // 2])


def test_the_same_view_overlaps(api):
    a = np.arange(12.0)
    for source, target in ((a, a), (a[:-1], a[1:]), (a[1:], a[:-1]), (a[::-1], a), (a[:6], a[3:9])):
        held = a.copy()
        assert api.copy_into(abi.from_numpy(source), abi.from_numpy(target)).status == abi.E_OVERLAP
        assert (a == held).all()


def test_empty_never_overlaps(api):
    a = np.zeros((0, 4), np.int8)
    assert api.copy_into(abi.from_numpy(a), abi.from_numpy(a)).ok
