"""Real importers: `accepted_by` says what they do, results are taken by all that were named."""

from __future__ import annotations

import ctypes as C
import gc
import importlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import abi
from abi import ALL, DTYPES, DType
from generate import random_tensor
from reference import NUMPY_DTYPES, cast, mismatch


@dataclass
class Importer:
    """How one library takes a capsule, and where the array it makes lies."""

    name: str
    bit: int
    legacy: bool  # takes the legacy struct only
    take: Callable[[abi.Producer], object]
    address: Callable[[object], int]


def _numpy() -> Importer:
    return Importer("numpy", abi.NUMPY, False, np.from_dlpack, lambda a: a.__array_interface__["data"][0])


def _torch() -> Importer:
    torch = importlib.import_module("torch")
    return Importer("torch", abi.TORCH, False, torch.from_dlpack, lambda a: a.data_ptr())


def _jax() -> Importer:
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    take = importlib.import_module("jax.dlpack").from_dlpack
    return Importer("jax", abi.JAX, True, take, lambda a: a.unsafe_buffer_pointer())


def _tensorflow() -> Importer:
    dlpack = importlib.import_module("tensorflow").experimental.dlpack

    def address(array: object) -> int:
        capsule = dlpack.to_dlpack(array)
        dl = abi.peek_capsule(capsule).dl_tensor
        return dl.data + dl.byte_offset

    return Importer("tensorflow", abi.TENSORFLOW, True, lambda p: dlpack.from_dlpack(p.__dlpack__()), address)


IMPORTERS = {"numpy": _numpy, "torch": _torch, "jax": _jax, "tensorflow": _tensorflow}


@pytest.fixture(params=IMPORTERS)
def importer(request: pytest.FixtureRequest) -> Importer:
    try:
        return IMPORTERS[request.param]()
    except ImportError as e:
        pytest.skip(f"{request.param} is not installed here: {e}")


def available() -> list[Importer]:
    out = []
    for make in IMPORTERS.values():
        try:
            out.append(make())
        except ImportError:
            continue
    return out


def importable(t: abi.Tensor, importer: Importer) -> tuple[bool, str]:
    """Whether the importer takes the tensor where it is."""
    p = abi.producer(t, importer.legacy)
    try:
        array = importer.take(p)
    except Exception as e:  # noqa: BLE001, importers raise what they like
        assert importer.name != "numpy" or not p.taken, "a refused capsule was consumed"
        return False, f"{type(e).__name__}: {e}"
    address = importer.address(array) if len(t.offsets) else 0
    del array
    return not len(t.offsets) or address == t.address, "copied"


def test_accepted_by(api, rng, rounds, importer):
    yes = 0
    for _ in range(rounds(400)):
        hosts = [abi.CPU] * 6 + ([abi.CUDA_HOST, abi.ROCM_HOST, abi.CUDA_MANAGED] if importer.name == "numpy" else [])
        common = rng.random() < 0.7
        dtype = NUMPY_DTYPES[int(rng.integers(len(NUMPY_DTYPES)))] if common else ALL[int(rng.integers(len(ALL)))]
        mode = str(rng.choice(["c", "c", "f", "permuted", "gaps", "negative", "broadcast", "mixed"]))
        aligned = True if rng.random() < 0.5 else None
        t = random_tensor(rng, dtype, limit=100, mode=mode, aligned=aligned, device=(int(rng.choice(hosts)), 0))
        says = bool(api.detect(t)[1].accepted_by & importer.bit)
        does, why = importable(t, importer)
        if "Stride calculation overflowed" in why:
            # PyTorch reads the strides of an empty tensor too, which mean nothing.
            assert not len(t.offsets), str(t)
            continue
        assert says == does, (
            f"{importer.name}: accepted_by says {says}, but it {'takes' if does else 'refuses'} {t} ({why})"
        )
        yes += does
    assert yes > rounds(20), "the generator makes too few tensors that it takes"


def test_accepted_by_lanes(api, rng, importer):
    for lanes in (2, 4):
        t = random_tensor(rng, DType("float32", 2, 32, "f", lanes), shape=[3, 2], mode="c", aligned=True)
        says = bool(api.detect(t)[1].accepted_by & importer.bit)
        if importer.name == "tensorflow":
            assert not says, "it takes vectors as scalars: wrong values"
        else:
            assert says == importable(t, importer)[0]


def test_read_only_is_for_numpy(api, rng, rounds):
    """Others drop the flag or take legacy structs only."""
    for _ in range(rounds(30)):
        t = random_tensor(rng, DTYPES["float32"], flags=abi.READ_ONLY, aligned=True, mode="c")
        assert api.detect(t)[1].accepted_by & ~abi.NUMPY == 0, str(t)
        assert api.detect(t)[1].accepted_by & abi.NUMPY


def hand_over(api: abi.Api, result: abi.Result, importer: Importer) -> object:
    if importer.legacy:
        bridged = api.to_legacy(result.pointer)
        assert bridged.ok, str(bridged)
        result = bridged.result
    address, empty = result.address, 0 in result.shape
    p = abi.producer(result)
    array = importer.take(p)
    assert p.taken
    assert empty or importer.address(array) == address, f"{importer.name} copied"
    return array


def test_consumers_take_the_results(api, rng, rounds):
    """For any set of importers, whatever the source: one result that each takes without a copy of its own."""
    importers = available()
    for _ in range(rounds(300)):
        chosen = [i for i in importers if rng.random() < 0.6] or importers[:1]
        mask = sum(i.bit for i in chosen)
        flags = int(rng.choice([0, 0, abi.READ_ONLY]))
        dtype = NUMPY_DTYPES[int(rng.integers(len(NUMPY_DTYPES)))]
        story = ""
        for importer in chosen:
            t = random_tensor(rng, dtype, limit=200, flags=flags)
            folded = abi.DLTensor.from_buffer_copy(t.dl)  # as a result is handed out
            folded.data, folded.byte_offset = (folded.data or 0) + folded.byte_offset, 0
            accepted = api.detect(folded, t.flags)[1].accepted_by & mask == mask
            outcome = api.convert(t, abi.options(consumers=mask))
            story = f"{t} for {[i.name for i in chosen]}: {outcome}"
            assert outcome.ok, story
            zero = outcome.report.route == abi.ROUTE_ZERO_COPY
            assert zero == accepted, f"{story}: accepted_by said {accepted}"
            assert outcome.report.reasons == (0 if accepted else abi.R_CONSUMER), story
            values = t.values()
            array = hand_over(api, outcome.result, importer)
            if importer.name == "numpy":
                assert not mismatch(np.ascontiguousarray(array).ravel(), [values], values, dtype, dtype), story
            del array
            if importer.name in ("numpy", "torch"):  # others may free later
                assert t.deletions == 1, story
        assert story


def test_alignment_for_jax(api, rng, rounds):
    """Zero copy there needs 64 bytes."""
    for _ in range(rounds(60)):
        t = random_tensor(rng, DTYPES["float32"], shape=[int(rng.integers(1, 50))], mode="c")
        outcome = api.convert(t, abi.options(consumers=abi.JAX))
        assert outcome.ok and outcome.result.address % 64 == 0, str(outcome)
        assert (outcome.report.reasons == 0) == (t.address % 64 == 0), f"{t}: {outcome}"
        outcome.result.release()


def test_a_dtype_that_a_consumer_lacks(api, rng):
    for name in ("bfloat16", "float8_e5m2", "float6_e2m3fn", "float4_e2m1fn"):
        t = random_tensor(rng, DTYPES[name])
        before = t.state()
        outcome = api.convert(t, abi.options(consumers=abi.NUMPY))
        assert outcome.status == abi.E_UNSUPPORTED_DTYPE, str(outcome)
        assert "numpy" in outcome.message.lower(), outcome.message
        assert t.state() == before
        fixed = api.convert(t, abi.options(consumers=abi.NUMPY, dtype=DTYPES["float32"]))
        assert fixed.ok, str(fixed)
        fixed.result.release()


# ---- NumPy, closely --------------------------------------------------------------------------


@pytest.mark.parametrize("legacy", [False, True], ids=["versioned", "legacy"])
def test_numpy_takes_results(api, rng, rounds, legacy):
    numpy = _numpy()
    for _ in range(rounds(300)):
        dtype = NUMPY_DTYPES[int(rng.integers(len(NUMPY_DTYPES)))]
        target = NUMPY_DTYPES[int(rng.integers(len(NUMPY_DTYPES)))]
        t = random_tensor(rng, dtype, flags=0 if legacy else int(rng.choice([0, abi.READ_ONLY])))
        fields = {"layout": int(rng.integers(0, 4)), "copy": int(rng.integers(0, 2))}
        if rng.random() < 0.5:
            fields["dtype"] = target
        outcome = api.convert(t, abi.options(**fields))
        assert outcome.ok, f"{t}: {outcome}"
        result = outcome.result
        read_only = bool(result.flags & abi.READ_ONLY)
        if legacy:
            result = api.to_legacy(result.pointer).result
        shape, address, values = result.shape, result.address, t.values()
        array = numpy.take(p := abi.producer(result))
        assert p.taken
        assert list(array.shape) == shape and array.dtype == fields.get("dtype", dtype).np
        assert not array.size or numpy.address(array) == address
        if array.size:  # NumPy gives an empty result memory of its own
            assert array.flags.writeable != (read_only or legacy), "NumPy reads legacy structs as read-only"
        got = np.ascontiguousarray(array).ravel()
        goal = fields.get("dtype", dtype)
        wrong = mismatch(got, cast(values, dtype, goal), values, dtype, goal)
        assert not wrong, f"{t} {fields}: {wrong}"
        copied = outcome.report.route != abi.ROUTE_ZERO_COPY
        assert t.deletions == copied
        del array, got
        assert t.deletions == 1


def random_view(rng: np.random.Generator) -> np.ndarray:
    dtype = NUMPY_DTYPES[int(rng.integers(len(NUMPY_DTYPES)))].np
    a = rng.integers(0, 100, [int(n) for n in rng.integers(0, 7, int(rng.integers(0, 5)))]).astype(dtype)
    a = np.asarray(a).transpose(rng.permutation(np.ndim(a)))
    a = a[(*(slice(None, None, int(rng.choice([1, 1, 2, -1, -2]))) for _ in a.shape), ...)]
    if rng.random() < 0.2:
        a = np.broadcast_to(a, (3, *a.shape))
    return a


@pytest.mark.parametrize("max_version", [None, (1, 0)], ids=["legacy", "versioned"])
def test_numpy_capsules_as_sources(api, rng, rounds, max_version):
    for _ in range(rounds(300)):
        a = random_view(rng)
        if max_version is None and not a.flags.writeable:
            continue
        address, legacy = abi.take_capsule(a.__dlpack__(max_version=max_version))
        assert legacy == (max_version is None)
        source = api.from_legacy(address).result.pointer if legacy else address
        target = NUMPY_DTYPES[int(rng.integers(len(NUMPY_DTYPES)))] if rng.random() < 0.5 else None
        fields = {} if target is None else {"dtype": target}
        source_dtype = abi.dtype_of_numpy(a.dtype)
        outcome = api.convert(source, abi.options(layout=int(rng.integers(0, 4)), **fields))
        assert outcome.ok, f"{a.shape} {a.strides}: {outcome}"
        zero = outcome.report.route == abi.ROUTE_ZERO_COPY
        assert not zero or not a.size or outcome.result.address == a.__array_interface__["data"][0]
        assert bool(outcome.result.flags & abi.READ_ONLY) == (zero and not a.flags.writeable)
        values = np.ascontiguousarray(a).ravel()
        goal = target or source_dtype
        wrong = mismatch(outcome.result.values(), cast(values, source_dtype, goal), values, source_dtype, goal)
        outcome.result.release()
        assert not wrong, f"{a.shape} {a.strides} {a.dtype}: {wrong}"


def test_numpy_memory_lives_as_long_as_the_result(api):
    import weakref

    class Array(np.ndarray):
        pass

    a = np.arange(1000.0).view(Array)
    watch = weakref.ref(a)
    address, _ = abi.take_capsule(a.__dlpack__(max_version=(1, 0)))
    result = api.convert(address).result
    del a
    gc.collect()
    assert watch() is not None, "freed under the result"
    assert (result.values() == np.arange(1000.0)).all()
    result.release()
    gc.collect()
    assert watch() is None, "leaked"


def test_round_trip_through_numpy(api, rng, rounds):
    """numpy -> library -> numpy -> library: the same memory, one chain of deleters."""
    for _ in range(rounds(50)):
        t = random_tensor(rng, DTYPES["float64"], limit=100)
        first = api.convert(t).result
        array = np.from_dlpack(abi.producer(first))
        address, _ = abi.take_capsule(array.__dlpack__(max_version=(1, 0)))
        del array
        second = api.convert(address)
        assert second.ok and (0 in t.shape or second.result.address == t.address), str(second)
        assert t.deletions == 0
        second.result.release()
        assert t.deletions == 1


def test_wrapped_memory_in_numpy(api):
    owner = abi.new_id()
    memory = np.arange(12, dtype=np.int32)
    t = abi.from_numpy(memory.reshape(3, 4).T)
    array = np.from_dlpack(abi.producer(api.wrap(t, owner).result))
    array[1, 2] = -5
    assert memory[9] == -5
    assert C.sizeof(t.dl) == 48
    del array
    gc.collect()
    assert abi.deleted[owner] == 1
