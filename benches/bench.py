"""arraybridge beside memcpy, NumPy, PyTorch and ml_dtypes, in one process and interleaved.

A case is one conversion. It is done in rounds, and in each round by everyone once, each time beginning with
another. Every ratio is of two times of one round, and what is reported is the median of the rounds with its
quartiles. A time is a loop of at least SAMPLE_NS where one call is shorter, after a call that is not counted, for the
first finds in the caches what others have left there: in C for memcpy and arraybridge (helper.c), in Python for NumPy
and PyTorch, whose interpreter's share (some hundred nanoseconds a call) therefore counts at small sizes. On several
threads such a call comes before every time, for cores that others have left idle are slow at first, and everyone's
threads are awake when it begins. It is taken again where somebody else used the same core at its end. In a loop the
library knows a small job from before, as it does where a program repeats its shapes; what it takes else is measured "by
turns". Slow peers get fewer rounds. memcpy copies as many bytes as the case reads and writes together;
"writes" writes as many as the case writes, around the caches, and reads nothing.
"""

from __future__ import annotations

import argparse
import ctypes as C
import datetime
import functools
import itertools
import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "peers"), str(ROOT / "benches")]

import abi
import ml_dtypes
import numpy as np

import report

try:
    import torch
except (ImportError, OSError) as problem:
    torch = None
    print(f"SKIPPED: PyTorch, which cannot be imported: {problem}", file=sys.stderr)

KB, MB = 1 << 10, 1 << 20
SAMPLE_NS = 400_000  # a sample takes at least this long
MAX_ROUNDS = 21  # for what is fast
WRITTEN = 16 * MB  # from which on a result stands beside writing alone: what memory takes of it
FAST_NS = 120_000_000  # how long a contestant's rounds beyond the least may take
PEER_NS = 1_000_000_000  # likewise for peers, below which they have fewer rounds, but 3
COLD_NS = 50_000_000  # where the first call takes less, a second one tells how long one takes
AGAIN = 3, 20_000_000  # how often a sample is taken while somebody else uses the core, and the longest that is again
# How long, and how often at most, is looked whether PyTorch's threads are at work: 6 to 9 ms were seen.
SETTLING_S, MOST_SETTLING = 0.005, 20
IN_A_ROW, SHORT = 48, 8 * MB  # jobs after which our threads are awake too, and what they may read and write
ALL = len(os.sched_getaffinity(0))

LIMITS = "moves", "tiles", "loads"  # of limits.py: contestants of their own
WIDTH = {1: "uint8", 2: "int16", 4: "float32", 8: "float64", 16: "complex128"}

# ---- memory --------------------------------------------------------------------------------------

ARENA = 272 * MB


def _arena(shift: int) -> np.ndarray:
    """Bytes on huge pages (NumPy asks for them), `shift` after a page boundary, all of them touched."""
    memory = np.ones(ARENA + 8 * KB, np.uint8)
    start = -memory.ctypes.data % 4096 + shift
    return memory[start : start + ARENA]


class Memory:
    """One source and one destination for everyone, and one to check against."""

    def __init__(self) -> None:
        self.source, self.destination, self.expected = _arena(0), _arena(1088), _arena(2112)
        self.filled: str | None = None
        rng = np.random.default_rng(1)
        self.bits = rng.integers(0, 256, 4 * MB, np.uint8)
        self.values = (rng.random(MB + 7, np.float32) * 255).astype(np.float32)

    def fill(self, name: str | None) -> None:
        """The source: numbers from 0 to 255 of that dtype, or any bits."""
        if name == self.filled:
            return
        pattern = self.bits if name is None else self.values.astype(abi.DTYPES[name].np).view(np.uint8)
        for start in range(0, ARENA, len(pattern)):
            part = self.source[start : start + len(pattern)]
            part[:] = pattern[: len(part)]
        self.filled = name


def over(memory: np.ndarray, name: str, shape: Sequence[int]) -> np.ndarray:
    dtype = abi.DTYPES[name].np
    return memory[: math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


# ---- cases ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    group: str
    name: str
    dtype: str
    shape: tuple[int, ...]  # of a compact array in the source's memory
    view: Callable[[np.ndarray], np.ndarray] = lambda a: a  # what of it is converted
    to: str = ""
    cold: bool = False  # in another place each time; beside memcpy only

    @property
    def id(self) -> str:
        return f"{self.group}/{self.name}"


def extents(count: int, ndim: int) -> tuple[int, ...]:
    """About `count` elements on axes of about equal, but not the same, lengths."""
    base = max(2, round(count ** (1 / ndim)))
    axes = [max(2, base + (i % 3 - 1) * max(1, base // 40)) for i in range(ndim - 1)]
    return *axes, max(2, round(count / math.prod(axes)))


def size_name(size: int) -> str:
    return f"{size // MB} MB" if size >= MB else f"{size // KB} KB"


# Of 4 KB of float32, about.
SHAPES = [(5, 6, 7, 5), (4, 7, 6, 6), (6, 6, 5, 6), (5, 5, 6, 7), (6, 7, 5, 5), (7, 5, 6, 5), (4, 8, 6, 5), (8, 5, 5, 5)]
PERMUTATIONS = ["10", "210", "102", "201", "3210", "1302", "43210", "20413", "543210", "305241"]
SMALL = [4 * KB, 64 * KB, MB]


def permutations(size: int, width: int, orders: Sequence[str]) -> Iterator[Case]:
    group = "permute" if size >= 64 * MB else "permute small"
    for order in orders:
        axes = [int(c) for c in order]
        shape = extents(size // width, len(axes))
        name = f"{len(axes)}-D {','.join(order)} {WIDTH[width]} {size_name(size)}"
        yield Case(group, name, WIDTH[width], shape, lambda a, axes=axes: a.transpose(axes))
    if "10" in orders:  # rows that fall on the same cache sets
        bits = (size // width).bit_length() - 1
        shape = 1 << bits // 2, 1 << (bits + 1) // 2
        yield Case(group, f"2-D 1,0 power of two {WIDTH[width]} {size_name(size)}", WIDTH[width], shape, np.transpose)


CASTS = ["float16", "bfloat16", "float64", "int32", "uint8", "float8_e4m3fn"]


def casts(size: int, layouts: Sequence[str]) -> Iterator[Case]:
    for other, back, layout in itertools.product(CASTS, [False, True], layouts):
        source, to = (other, "float32") if back else ("float32", other)
        count = size // max(abi.DTYPES[source].size, abi.DTYPES[to].size)
        rows, columns = extents(count, 2)
        shape, view = {
            "contiguous": ((count,), lambda a: a),
            "rows": ((rows, columns + 16), lambda a: a[:, :-16]),  # a picture cut from a wider one
            "transposed": ((columns, rows), np.transpose),
            "every second": ((rows, 2 * columns), lambda a: a[:, ::2]),
        }[layout]
        group = "cast" if size >= 64 * MB else "cast small"
        yield Case(group, f"{layout} {source} to {to} {size_name(size)}", source, shape, view, to)


def cases(quick: bool) -> Iterator[Case]:
    sizes = [4 * KB, 64 * KB, MB, 64 * MB] if quick else [4 * KB << 2 * i for i in range(9)]
    for size in sizes:
        yield Case("copy", size_name(size), "float32", (size // 4,))

    for size in SMALL if quick else sizes[:5]:
        yield Case("copy cold", size_name(size), "float32", (size // 4,), cold=True)

    if quick:
        some = ["10", "201", "3210", "20413", "543210"]
        for width in (1, 4, 8):
            yield from permutations(64 * MB, width, some if width == 4 else some[:2])
        for size in SMALL:
            yield from permutations(size, 4, some)
    else:
        for width in WIDTH:
            yield from permutations(64 * MB, width, PERMUTATIONS)
        yield from permutations(256 * MB, 4, PERMUTATIONS)
        for size, width in itertools.product(SMALL, WIDTH):
            yield from permutations(size, width, PERMUTATIONS)

    for size, channels, width in itertools.product([MB, 64 * MB], [3, 64], [4] if quick else [1, 2, 4]):
        pixels = size // width // channels
        side = 224 if size > MB else 32 if channels == 3 else 16
        shape = max(1, pixels // side**2), side, side
        what = f"{channels} channels {WIDTH[width]} {size_name(size)}"
        to_nchw, to_nhwc = (lambda a: a.transpose(0, 3, 1, 2)), (lambda a: a.transpose(0, 2, 3, 1))
        yield Case("channels", f"NHWC to NCHW {what}", WIDTH[width], (*shape, channels), to_nchw)
        yield Case("channels", f"NCHW to NHWC {what}", WIDTH[width], (shape[0], channels, *shape[1:]), to_nhwc)

    for side, width in itertools.product([64] if quick else [8, 64, 500], [4] if quick else [1, 2, 4, 8, 16]):
        shape = 64 * MB // width // side**2, side, side
        name = f"{side} x {side} {WIDTH[width]} 64 MB"
        yield Case("batched transpose", name, WIDTH[width], shape, lambda a: a.transpose(0, 2, 1))

    for size, width in itertools.product([4 * KB, MB, 64 * MB], [4] if quick else WIDTH):
        count = size // width
        rows, columns = extents(count, 2)
        what = f"{WIDTH[width]} {size_name(size)}"
        yield Case("every second", f"1-D {what}", WIDTH[width], (2 * count,), lambda a: a[::2])
        yield Case("every second", f"of rows and columns {what}", WIDTH[width], (2 * rows, 2 * columns),
                   lambda a: a[::2, ::2])  # fmt: skip
        yield Case("reversed", f"1-D {what}", WIDTH[width], (count,), lambda a: a[::-1])
        yield Case("reversed", f"rows {what}", WIDTH[width], (rows, columns), lambda a: a[::-1])
        yield Case("reversed", f"rows and columns {what}", WIDTH[width], (rows, columns), lambda a: a[::-1, ::-1])

    layouts = ["contiguous", "rows", "transposed", "every second"]
    yield from casts(64 * MB, layouts[::2] if quick else layouts)
    for size in [] if quick else SMALL:
        yield from casts(size, layouts[:1])

    for rows, columns in [(224, 224), (1080, 1920), (3500, 5200)]:
        name, shape = f"uint8 HWC to float32 CHW {rows} x {columns}", (rows, columns, 3)
        yield Case("picture", name, "uint8", shape, lambda a: a.transpose(2, 0, 1), "float32")


# ---- contestants: each is called with a number of repetitions and answers with nanoseconds ----------

Run = Callable[[int], int]


def looped(call: Callable[[], object]) -> Run:
    def run(reps: int) -> int:
        counter = itertools.repeat(None, reps)
        begin = time.perf_counter_ns()
        for _ in counter:
            call()
        return time.perf_counter_ns() - begin

    return run


class Core:
    """A core has two threads on many machines, of which a virtual one may have one: while somebody else uses the other,
    all that is computed takes up to twice as long, for milliseconds or minutes, and memcpy of much does not."""

    ADDS = 2_000  # about a microsecond

    def __init__(self, helper: C.CDLL):
        self.adds = helper.bench_adds
        self.least = min(self._ns() for _ in range(2_000))
        self.samples = self.shared = 0

    def _ns(self) -> int:
        return self.adds(C.c_int64(self.ADDS))

    def is_shared(self) -> bool:
        return min(self._ns() for _ in range(3)) > 1.25 * self.least

    def sample(self, run: Run, reps: int) -> int:
        times, longest = AGAIN
        for _ in range(times):
            ns = run(reps)
            shared = self.is_shared()
            if not shared or ns > longest:
                break
        self.samples, self.shared = self.samples + 1, self.shared + shared
        return ns

    def share(self) -> float:
        """Of the samples, those that somebody else used the core in."""
        return round(self.shared / max(1, self.samples), 3)


class Library:
    def __init__(self, helper: str, threads: Sequence[int]):
        self.ab, self.helper = abi.load(), C.CDLL(helper)
        for name in ("memcpy", "copy_into", "by_turns", "copy", "convert", "header", "detect", "adds"):
            getattr(self.helper, f"bench_{name}").restype = C.c_int64
        self.core = Core(self.helper)
        self.contexts = {t: self._context(t) for t in threads}

    def _context(self, threads: int) -> C.c_void_p:
        context = C.c_void_p()
        options = abi.ContextOptions(C.sizeof(abi.ContextOptions), 0 if threads == ALL > 1 else threads, 0)
        if self.ab.ab_context_create(options, C.byref(context), None):
            raise SystemExit("ab_context_create failed")
        return context

    def run(self, name: str, *arguments) -> Run:
        """bench_<name> with these arguments; one that is a string is the library's function."""
        function = getattr(self.helper, f"bench_{name}")
        given = [C.cast(getattr(self.ab, a), C.c_void_p) if isinstance(a, str) else a for a in arguments]

        def run(reps: int) -> int:
            ns = function(*given, C.c_int64(reps))
            if ns < 0:
                raise RuntimeError(f"{name}: {abi.STATUS.get(ns, ns)}")
            return ns

        return run

    def awake(self, run: Run, threads: int, size: int) -> Run:
        """The library and memcpy on so many threads, which are ready before the time is taken, as PyTorch's: in the midst of
        many jobs, where these are short."""
        if threads == 1 or size > SHORT:
            return run

        def timed(reps: int) -> int:
            self.helper.bench_uncounted(C.c_int64(IN_A_ROW))
            try:
                return run(reps)
            finally:
                self.helper.bench_uncounted(C.c_int64(0))

        return timed

    def memcpy(self, memory: Memory, size: int, threads: int, cold: Sequence[C.c_size_t]) -> Run:
        to, source = memory.destination.ctypes.data, memory.source.ctypes.data
        return self.run("memcpy", C.c_void_p(to), C.c_void_p(source), C.c_size_t(size), C.c_int(threads), *cold)

    def writes(self, memory: Memory, size: int, threads: int) -> Run:
        """Writing around the caches, and nothing else."""
        to, always = memory.destination.ctypes.data, [C.c_size_t(0)] * 2
        return self.run("memcpy", C.c_void_p(to), None, C.c_size_t(size), C.c_int(threads), *always)


def torch_view(array: np.ndarray, memory: np.ndarray, name: str) -> torch.Tensor:
    """The same view of the same memory; its strides must not be negative."""
    flat = torch.from_numpy(memory[: len(memory) // 16 * 16]).view(getattr(torch, name))
    offset = array.__array_interface__["data"][0] - memory.ctypes.data
    return flat.as_strided(array.shape, [s // array.itemsize for s in array.strides], offset // array.itemsize)


def torch_calls(view: np.ndarray, result: np.ndarray, case: Case, memory: Memory) -> dict[str, Callable[[], object]]:
    flipped = [axis for axis, stride in enumerate(view.strides) if stride < 0]
    if flipped:  # PyTorch has no negative strides, and no flip into memory that is there
        source = torch_view(np.flip(view, flipped), memory.source, case.dtype)
        return dict.fromkeys(["reused", "new"], lambda: source.flip(flipped))
    source = torch_view(view, memory.source, case.dtype)
    target = torch_view(result, memory.destination, case.to or case.dtype)
    keep, dtype = torch.contiguous_format, target.dtype
    new = (lambda: source.to(dtype, memory_format=keep)) if case.to else (lambda: source.clone(memory_format=keep))
    return {"reused": lambda: target.copy_(source), "new": new}


def settle() -> None:
    """Sleeps until this process does nothing else: threads of PyTorch look for work for some milliseconds after theirs, and
    longer where they share a processor."""
    for _ in range(MOST_SETTLING):
        others = time.process_time() - time.thread_time()
        time.sleep(SETTLING_S)
        if time.process_time() - time.thread_time() - others < SETTLING_S / 10:
            return


def with_threads(run: Run, threads: int) -> Run:
    """PyTorch with so many threads, which it has ready before the time is taken, and asleep after it."""
    work = torch.empty(256 * KB, dtype=torch.uint8)

    def timed(reps: int) -> int:
        torch.set_num_threads(threads)
        if threads > 1:
            work.add_(1)
        ns = run(reps)
        if threads > 1:
            settle()
        return ns

    return timed


Key = tuple[str, str, int]  # who, into which memory, on how many threads


def contestants(case: Case, memory: Memory, library: Library, threads: Sequence[int]) -> tuple[dict[Key, Run], int]:
    memory.fill(case.dtype if case.to else None)
    view = case.view(over(memory.source, case.dtype, case.shape))
    to = case.to or case.dtype
    result, expected = over(memory.destination, to, view.shape), over(memory.expected, to, view.shape)
    read_and_written = view.size * (view.itemsize + result.itemsize)
    source, target = abi.from_numpy(view), abi.from_numpy(result)
    options = abi.options(layout=abi.LAYOUT_C, copy=abi.COPY_ALWAYS, dtype=abi.DTYPES[to])
    copy_into = functools.partial(np.copyto, result, view, **({"casting": "unsafe"} if case.to else {}))
    new_copy = functools.partial(view.astype, result.dtype, "C")

    runs: dict[Key, Run] = {}
    if not case.cold:
        runs = {("numpy", "reused", 1): looped(copy_into), ("numpy", "new", 1): looped(new_copy)}
    peer = torch_calls(view, result, case, memory) if torch and not case.cold else {}
    # Out of cache: a page and a line further each time, through most of the arenas.
    span, around = (-(-result.nbytes // 4096) * 4096 + 4160, 256 * MB - result.nbytes) if case.cold else (0, 0)
    cold = C.c_size_t(span), C.c_size_t(around)
    for t in threads:
        context = library.contexts[t]
        dls = C.byref(source.dl), C.byref(target.dl)
        ours = {
            ("memcpy", "reused", t): library.memcpy(memory, read_and_written // 2, t, cold),
            ("arraybridge", "reused", t): library.run("copy_into", "ab_copy_into", context, *dls, *cold),
        }
        if not case.cold:
            ours["arraybridge", "new", t] = library.run("copy", "ab_copy", context, dls[0], C.byref(options))
        runs |= {key: library.awake(run, t, read_and_written) for key, run in ours.items()}
        if result.nbytes >= WRITTEN and not case.cold:
            runs["writes", "reused", t] = library.writes(memory, result.nbytes, t)
        for kind in peer:
            runs["torch", kind, t] = with_threads(looped(peer[kind]), t)

    np.copyto(expected, view, casting="unsafe")
    for t in threads:
        memory.destination[: result.nbytes] = 0
        runs["arraybridge", "reused", t](1)
        same = result.reshape(-1).view(np.uint8) == expected.reshape(-1).view(np.uint8)
        if not same.all():
            raise SystemExit(f"{case.id} on {t} threads: wrong in {np.count_nonzero(~same)} of {same.size} bytes")
    return runs, read_and_written


# ---- measuring -----------------------------------------------------------------------------------


def measure(
    runs: dict[Key, Run], rounds: int, sample_ns: int, core: Core, cold: bool = False
) -> dict[Key, list[float]]:
    """Nanoseconds of one call by everyone in each round in which it took part: always the first ones."""
    reps, take, warm = {}, {}, set()
    for key, run in runs.items():
        once = max(1, run(1))
        if once < COLD_NS:  # the first was cold: new memory is mapped and cleared
            once = max(1, run(1))
        if once < sample_ns:
            several = max(1, min(64, sample_ns // (4 * once)))
            once = max(1, run(several) // several)
        reps[key] = max(1, math.ceil(sample_ns / once))
        sample = once * reps[key]
        # Who is slower by that much hardly finds in the caches what the last call has left there, or gains little by it.
        if not cold and (once < 4 * sample_ns or key[2] > 1):
            warm.add(key)
        if key[0] in ("memcpy", "writes", "arraybridge", *LIMITS):
            take[key] = min(max(rounds, FAST_NS // sample), max(rounds, MAX_ROUNDS))
        else:
            take[key] = max(min(3, rounds), min(rounds, PEER_NS // sample))
    times: dict[Key, list[float]] = {key: [] for key in runs}
    order = list(runs.items())
    for index in range(max(take.values())):
        turn = index % len(order)
        for key, run in order[turn:] + order[:turn]:
            if index < take[key]:
                if key in warm:
                    run(1)
                times[key].append(core.sample(run, reps[key]) / reps[key])
    return times


def spread(values: Sequence[float]) -> list[float]:
    """Median, first and third quartile."""
    return [float(f"{v:.4g}") for v in np.percentile(values, [50, 25, 75])]


def ratio(of: Sequence[float], to: Sequence[float]) -> list[float]:
    return spread([a / b for a, b in zip(of, to)])


def records(case: Case, times: dict[Key, list[float]], size: int, threads: Sequence[int]) -> Iterator[dict]:
    for memory, t in itertools.product(["reused"] if case.cold else ["reused", "new"], threads):
        beside = {
            "memcpy": times["memcpy", "reused", t],
            "writes": times.get(("writes", "reused", t)),
            "torch": times.get(("torch", memory, t)),
            "numpy": times.get(("numpy", memory, 1)),
        }
        beside = {name: values for name, values in beside.items() if values}
        own = times["arraybridge", memory, t]
        record = {
            "group": case.group,
            "name": case.name,
            "dtype": case.dtype,
            "to": case.to or case.dtype,
            "threads": t,
            "memory": memory,
            "bytes": size,
            "ns": {n: round(float(np.median(v)), 1) for n, v in {"arraybridge": own, **beside}.items()},
            "rounds": {n: len(v) for n, v in {"arraybridge": own, **beside}.items()},
            "ratio": {n: ratio(v, own) for n, v in beside.items()},  # above 1: arraybridge is faster
        }
        if t > 1 and 1 in threads:
            record["gain"] = ratio(times["arraybridge", memory, 1], own)
            record["memcpy_gain"] = ratio(times["memcpy", "reused", 1], beside["memcpy"])
        yield record


def nanoseconds(library: Library, rounds: int) -> list[dict]:
    """Calls whose cost is all overhead, on one thread."""
    if torch:
        torch.set_num_threads(1)
    context = library.contexts[min(library.contexts)]
    image = np.zeros((2, 3, 4, 5), np.float32)
    detected = {"contiguous": image, "permuted": image.transpose(0, 3, 1, 2)}
    tensors = {name: abi.from_numpy(a) for name, a in detected.items()}
    dl = {name: C.byref(t.dl) for name, t in tensors.items()}
    consumers = abi.NUMPY | abi.TORCH | abi.JAX
    options = {
        "no options": None,
        "layout, dtype, consumers": C.byref(
            abi.options(layout=abi.LAYOUT_C, dtype=abi.DTYPES["float32"], consumers=consumers)
        ),
    }
    aligned = np.zeros(1024, np.uint8)
    start = -aligned.ctypes.data % 256
    consumable = abi.from_numpy(aligned[start : start + 480].view(np.float32).reshape(2, 3, 4, 5))
    runs: dict[Key, Run] = {}
    for name, o in options.items():
        runs[f"convert and delete, {name}", "", 1] = library.run(
            "convert", "ab_convert", context, C.byref(consumable.dl), o
        )
    runs["malloc, fill and free a header", "", 1] = library.run("header", C.byref(consumable.dl))
    for name, tensor in dl.items():
        runs[f"detect, 4-D {name}", "", 1] = library.run("detect", "ab_detect", tensor)
    small = {"64 elements, 8 x 8 transposed": np.ones((8, 8), np.float32).T,
             "64 elements, every second": np.ones(128, np.float32)[::2]}  # fmt: skip
    keep = []
    for name, array in small.items():
        result = np.zeros(array.shape, np.float32)
        pair = abi.from_numpy(array), abi.from_numpy(result)
        keep.append((pair, result))
        runs[name, "", 1] = library.run(
            "copy_into", "ab_copy_into", context, *(C.byref(t.dl) for t in pair), C.c_size_t(0), C.c_size_t(0)
        )
        runs[f"{name}, NumPy", "", 1] = looped(functools.partial(np.copyto, result, array))
        if torch:
            a, b = torch.from_numpy(array), torch.from_numpy(result)
            runs[f"{name}, PyTorch", "", 1] = looped(functools.partial(b.copy_, a))
    # What a shape takes that the library has not just seen: more of them than it keeps (src/convert/recent.rs).
    many = [(np.ones(shape, np.float32).T, np.ones(shape[::-1], np.float32)) for shape in SHAPES]
    for name, some in {"one": many[:1], "one of eight by turns": many}.items():
        pairs = [(abi.from_numpy(a), abi.from_numpy(b)) for a, b in some]
        keep.append(pairs)
        pointers = [(C.c_void_p * len(pairs))(*(C.addressof(pair[side].dl) for pair in pairs)) for side in (0, 1)]
        name = f"4 KB, 4-D 3,2,1,0 float32, {name}"
        runs[name, "", 1] = library.run("by_turns", "ab_copy_into", context, *pointers, C.c_size_t(len(pairs)))
        copies = itertools.cycle([functools.partial(np.copyto, b, a) for a, b in some])
        runs[f"{name}, NumPy", "", 1] = looped(lambda copies=copies: next(copies)())
    times = measure(runs, max(rounds, 15), 2_000_000, library.core)
    header = times["malloc, fill and free a header", "", 1]
    return [{"name": key[0], "ns": spread(v), "of_header": ratio(v, header)} for key, v in times.items()]


# ---- the machine -----------------------------------------------------------------------------------


def text(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def output(*command: str) -> str | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def machine(library: Library, arguments: argparse.Namespace) -> dict:
    model = re.search(r"model name\s*:\s*(.+)", text("/proc/cpuinfo") or "")
    caches = {}
    for i in range(8):
        index = f"/sys/devices/system/cpu/cpu0/cache/index{i}/"
        if (level := text(index + "level")) and text(index + "type") != "Instruction":
            caches[f"L{level}"] = text(index + "size")
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": model[1] if model else platform.processor(),
        "threads": ALL,
        "caches": caches,
        "governor": text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "unknown",
        "huge_pages": text("/sys/kernel/mm/transparent_hugepage/enabled"),
        "load_before": [round(load, 2) for load in os.getloadavg()],
        "system": f"{platform.system()} {platform.release()}",
        "versions": {
            "arraybridge": library.ab.ab_version().decode(),
            "commit": None  # of a library that was built elsewhere
            if os.environ.get("ARRAYBRIDGE_LIBRARY")
            else output("git", "describe", "--always", "--dirty", "--exclude=*"),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "ml_dtypes": ml_dtypes.__version__,
            "torch": torch.__version__ if torch else None,
            "libc": " ".join(platform.libc_ver()),
            "rustc": output("rustc", "--version"),
        },
        "arguments": {"quick": arguments.quick, "filter": arguments.filter, "rounds": arguments.repeat},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds")
    parser.add_argument("--filter", metavar="REGEX", help="cases whose group/name it is found in")
    parser.add_argument("--threads", default="1,all", help="1, all, a number, or several: 1,all (the default)")
    parser.add_argument("--repeat", type=int, metavar="N", help="at least N rounds (default 7, quick 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the figures there")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="save the chart there")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    parser.add_argument("--helper", default=str(ROOT / "target" / "bench" / "libhelper.so"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.repeat = arguments.repeat or (5 if arguments.quick else 7)
    threads = sorted({ALL if t == "all" else int(t) for t in arguments.threads.split(",")})
    chosen = [c for c in cases(arguments.quick) if not arguments.filter or re.search(arguments.filter, c.id)]
    if arguments.list:
        print(*(c.id for c in chosen), sep="\n")
        return

    if (load := os.getloadavg()[0]) > 0.5:
        print(f"others are at work here (load {load:.1f}): spreads will be wide", file=sys.stderr)
    library = Library(arguments.helper, threads)
    result = {"machine": machine(library, arguments), "cases": [], "nanoseconds": []}
    memory, began, group = Memory(), time.monotonic(), None
    try:
        if not arguments.filter or re.search(arguments.filter, "nanoseconds"):
            result["nanoseconds"] = nanoseconds(library, arguments.repeat)
        for case in chosen:
            if case.group != group:
                group = case.group
                print(report.heading(group), flush=True)
            runs, size = contestants(case, memory, library, threads)
            times = measure(runs, arguments.repeat, SAMPLE_NS, library.core, case.cold)
            for record in records(case, times, size, threads):
                result["cases"].append(record)
                print(report.line(record), flush=True)
    except KeyboardInterrupt:
        print("stopped: what follows is incomplete")
    result["machine"] |= {"seconds": round(time.monotonic() - began), "shared_core": library.core.share()}
    print(report.summary(result))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(report.dumps(result))
    if arguments.svg:
        arguments.svg.parent.mkdir(parents=True, exist_ok=True)
        arguments.svg.write_text(report.svg(result))


if __name__ == "__main__":
    main()
