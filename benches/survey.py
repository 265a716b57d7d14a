"""Random conversions beside NumPy and PyTorch, by turns in one process: whatever shape, order of axes, steps and dtypes.

`benches/run` measures cases that were chosen; this looks for those that nobody thought of. Extents are anything, powers
of two, or short; axes come in any order; some have a step, a gap behind each row, or are reversed; a part is cast. Every
result is compared with NumPy's. A ratio is of the medians of five rounds each, so it is rough, and of what takes less than
a microsecond most is the peers' interpreter. Printed are the means of all, and each that was slower than a peer, worst
first: the peer's time by the library's, who, extents, order, what else, dtypes, MB read and written, microseconds, GB/s.
"""

import argparse
import ctypes as C
import math
import random
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests/peers")]

import abi  # noqa: E402
import bench  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

MOVED = ["complex64", "complex128"]
DTYPES = ["uint8", "int16", "float16", "int32", "float32", "float64", "int64"]
SAMPLE_NS = 300_000
LARGEST = 200 << 20


def extents(some: random.Random, elements: int) -> list[int]:
    ndim, powers, shape = some.choice([1, 2, 2, 3, 3, 4, 4, 5, 6]), some.random() < 0.4, []
    for left in range(ndim, 1, -1):
        even = max(elements, 2) ** (1 / left)
        extent = 2 ** some.randint(1, max(1, int(1.4 * math.log2(even)))) if powers else int(even * some.uniform(0.3, 1.8))
        extent = some.choice([1, 2, 3, 4, 3, 4]) if some.random() < 0.12 else max(1, extent)
        shape.append(extent)
        elements = max(1, elements // extent)
    shape.append(elements)
    some.shuffle(shape)
    return shape


def view_of(some: random.Random, memory: bench.Memory, dtype: str, shape: list[int]) -> tuple[np.ndarray, str] | None:
    """Some view of that shape, with its axes in another order, and what is special about it."""
    whole, index, said = list(shape), [slice(None)] * len(shape), ""
    kind, axis = some.random(), some.randrange(len(shape))
    if kind < 0.12:
        whole[axis], index[axis], said = 2 * shape[axis], slice(None, None, 2), f"step of {axis}"
    elif kind < 0.2:
        whole[axis], index[axis], said = shape[axis] + some.choice([1, 3, 16]), slice(0, shape[axis]), f"gap of {axis}"
    elif kind < 0.25:
        index[axis], said = slice(None, None, -1), f"reversed {axis}"
    if math.prod(whole) * np.dtype(dtype).itemsize > LARGEST:
        return None
    order = list(range(len(shape)))
    if some.random() < 0.75:
        some.shuffle(order)
    view = bench.over(memory.source, dtype, tuple(whole))[tuple(index)].transpose(order)
    return view, f"{tuple(shape)} {order} {said}".rstrip()


def median_ns(runs: dict[str, bench.Run], threads: int) -> dict[str, float]:
    reps, times = {}, {who: [] for who in runs}
    for who, run in runs.items():
        run(1)
        some = max(1, min(20, SAMPLE_NS // max(1, run(1))))
        reps[who] = max(1, min(20_000, SAMPLE_NS * some // max(1, run(some))))
    for _ in range(5):
        for who, run in runs.items():
            # On several threads, so that they are all awake.
            run(max(3, min(reps[who], 40)) if threads > 1 else 1)
            times[who].append(run(reps[who]) / reps[who])
            if who == "torch" and threads > 1:
                bench.settle()
    return {who: statistics.median(all_of) for who, all_of in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--casts", type=float, default=0.35, help="the part that is cast")
    given = parser.parse_args()
    some, threads = random.Random(given.seed), given.threads
    library = bench.Library(str(HERE.parent / "target/bench/libhelper.so"), [threads])
    memory, slower, ratios, cases = bench.Memory(), [], {}, 0
    memory.fill(None)
    torch.set_num_threads(threads)
    end = time.monotonic() + given.seconds
    while time.monotonic() < end:
        dtype = some.choice(DTYPES + MOVED)
        to = some.choice(DTYPES) if dtype in DTYPES and some.random() < given.casts else dtype
        size = max(np.dtype(dtype).itemsize, np.dtype(to).itemsize)
        shape = extents(some, int(2 ** some.uniform(13, 25)) // size)
        found = view_of(some, memory, dtype, shape) if math.prod(shape) >= 64 else None
        if found is None:
            continue
        view, said = found
        memory.fill(dtype if to != dtype else None)
        result = bench.over(memory.destination, to, view.shape)
        source, target, none = abi.from_numpy(view), abi.from_numpy(result), [C.c_size_t(0)] * 2
        dls = C.byref(source.dl), C.byref(target.dl)
        moved = view.nbytes + result.nbytes
        run = library.run("copy_into", "ab_copy_into", library.contexts[threads], *dls, *none)
        runs = {"arraybridge": library.awake(run, threads, moved)}
        if min(view.strides, default=0) >= 0:
            from_torch = bench.torch_view(view, memory.source, dtype)
            to_torch = bench.torch_view(result, memory.destination, to)
            runs["torch"] = bench.looped(lambda: to_torch.copy_(from_torch))
        runs["numpy"] = bench.looped(lambda: np.copyto(result, view, casting="unsafe"))
        runs["arraybridge"](1)
        is_same = np.array_equal(result.reshape(-1).view(np.uint8), view.astype(to, "C").reshape(-1).view(np.uint8))
        if not is_same:
            raise SystemExit(f"{said} {dtype} to {to}: not what NumPy makes of it")
        ns = median_ns(runs, threads)
        cases += 1
        ours = ns.pop("arraybridge")
        for peer, its in ns.items():
            ratios.setdefault(peer, []).append(math.log(its / ours))
            if its < ours:
                numbers = f"{moved / 1e6:.3f} MB {ours / 1e3:.2f} us {moved / ours:.1f} GB/s"
                slower.append((its / ours, f"{peer} {said} {dtype} to {to} {numbers}"))
    print(f"{cases} cases, {threads} threads, seed {given.seed}")
    for peer, logs in ratios.items():
        logs.sort()
        parts = [sum(log < math.log(bound) for log in logs) / len(logs) for bound in (0.5, 0.8, 1)]
        shares = ", ".join(f"{100 * part:.1f} % below {bound}" for part, bound in zip(parts, (0.5, 0.8, 1), strict=True))
        print(f"{peer}: {math.exp(statistics.fmean(logs)):.2f} in the mean, least {math.exp(logs[0]):.2f}; {shares}")
    for ratio, text in sorted(slower)[:60]:
        print(f"{ratio:.2f} {text}")


if __name__ == "__main__":
    main()
