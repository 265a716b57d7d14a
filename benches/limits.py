"""How far arraybridge is from its limits: beside each case that has a target in multiples of memcpy, the best of some
hundred C routines that decide nothing (limits.c). They are told every address; none is of the library.

- "moves", from 4 MB on: reads every line of the source once and writes every line of the result once, by blocks, in
  pieces as long and as far apart as a conversion by such blocks has them, through a buffer that the caches hold.
  Nothing is transposed or cast. Tried: pieces of 64 bytes to 4 KB each way, plain stores and stores around the caches,
  the next block asked for or not, blocks in the order of the source and of the result. On several threads each has as
  many of the blocks, and none sleeps.
- "tiles", up to 2 MB: a permutation by vector shuffles, right (it is checked against NumPy). Tried: every choice of axes
  for the tiles' rows and columns, tiles from 16 bytes to 64 x 64, vectors of 16 to 64 bytes, both orders; where the
  innermost axis stays, copies of its runs. "loads": the same without the shuffles, so with a wrong result. All look at
  two tensors in each call, as a library has to. On several threads, from 1 MB on, each has as much of the rows, the
  columns, or the axes around them; what each has is tried, and none sleeps.

The best of them are then measured with memcpy and the library in rounds, as bench.py does. 1 is as fast as memcpy (or
as the limit), above 1 faster. A limit is the best that was found, not a proof: rows above 1 of it say how much better
one can be.
"""

from __future__ import annotations

import argparse
import ctypes as C
import functools
import itertools
import json
import math
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import bench
from bench import ALL, KB, MB, Case, Memory, Run, abi, report

PIECES = [64 << i for i in range(7)]
BLOCKS = 4 * KB, 768 * KB  # bytes of one, in the second cache at most
SEVERAL = MB  # bytes read and written from which on several threads are tried
FINALISTS = 3
SEARCH_NS = 5_000, 50_000
GROUPS = [
    "copy",
    "permute",
    "permute small",
    "channels",
    "batched transpose",
    "every second",
    "reversed",
    "cast",
    "picture",
]


class Form(C.Structure):
    _fields_ = [(n, C.c_int64) for n in ("reads", "writes", "read_bytes", "write_bytes")]
    _fields_ += [("src", C.c_void_p), ("dst", C.c_void_p)]


class Moves(C.Structure):
    _fields_ = [(n, C.c_void_p) for n in ("src", "dst", "blocks", "forms")] + [("count", C.c_int64)]
    _fields_ += [(n, C.c_int32) for n in ("around", "ahead", "fold", "step")]


class Tiles(C.Structure):
    _fields_ = [(n, C.c_void_p) for n in ("src", "dst")] + [(n, C.c_int64) for n in ("matrices", "m", "n", "main")]
    _fields_ += [(n, C.c_void_p) for n in ("src_at", "dst_at", "rows", "cols")]
    _fields_ += [(n, C.c_int32) for n in ("kernel", "rest", "across")]


class Runs(C.Structure):
    _fields_ = [(n, C.c_void_p) for n in ("src", "dst", "src_at")]
    _fields_ += [("count", C.c_int64), ("bytes", C.c_int64), ("vector", C.c_int32)]


class Kernel(C.Structure):
    _fields_ = [(n, C.c_int32) for n in ("w", "rows", "columns", "shuffles")] + [("run", C.c_void_p)]


# What differs little: (name, plan, what it points to). Where the first is slow, the others are not tried.
Group = list[tuple[str, C.Structure, object]]


@dataclass(frozen=True)
class Axis:
    n: int
    src: int  # bytes from one element to the next
    dst: int


def folded(view: np.ndarray, result: np.ndarray) -> list[Axis]:
    """The axes as the result has them, without those of one element, and those as one that are walked as one."""
    axes: list[Axis] = []
    for n, src, dst in zip(view.shape, view.strides, result.strides):
        last = axes[-1] if axes else None
        if last and (last.src, last.dst) == (n * src, n * dst):
            axes[-1] = Axis(last.n * n, src, dst)
        elif n > 1:
            axes.append(Axis(n, src, dst))
    return axes


def offsets(axes: Sequence[Axis], lengths: Sequence[int], side: str) -> np.ndarray:
    """Of every index, the last axis innermost."""
    at = np.zeros(1, np.int64)
    for axis, n in zip(axes, lengths):
        at = (at[:, None] + np.arange(n) * getattr(axis, side)).ravel()
    return at


def by_stride(axes: Sequence[Axis], side: str) -> list[int]:
    """From the outermost to the innermost in memory."""
    return sorted(range(len(axes)), key=lambda i: -abs(getattr(axes[i], side)))


# ---- moves -----------------------------------------------------------------------------------------


def reach(axes: Sequence[Axis], side: str, unit: int, piece: int) -> list[int]:
    """How much of each axis a piece of so many bytes has, as far as memory is contiguous."""
    lengths, run = [1] * len(axes), unit
    for i in reversed(by_stride(axes, side)):
        if abs(getattr(axes[i], side)) != run:
            break
        lengths[i] = min(axes[i].n, -(-piece // run))
        run *= lengths[i]
        if lengths[i] < axes[i].n:
            break
    return lengths


def pieces(axes: Sequence[Axis], lengths: Sequence[int], side: str, unit: int) -> tuple[np.ndarray, int]:
    """Where the contiguous pieces of a block begin, in the order of addresses, and their bytes."""
    order, run = by_stride(axes, side), unit
    low = sum(min(0, (n - 1) * getattr(a, side)) for a, n in zip(axes, lengths))
    rest = list(order)
    while rest and (abs(getattr(axes[rest[-1]], side)) == run or lengths[rest[-1]] == 1):
        run *= lengths[rest.pop()]
    outer = [Axis(axes[i].n, abs(axes[i].src), abs(axes[i].dst)) for i in rest]
    return (low + offsets(outer, [lengths[i] for i in rest], side)).astype(np.int32), run


def moves(axes: Sequence[Axis], view: np.ndarray, result: np.ndarray) -> Iterator[Group]:
    span = min(abs(a.src) for a in axes)  # with what lies between the elements
    fold, step = max(1, span // result.itemsize), min(64, 64 * span // result.itemsize)
    seen = set()
    for read, write in itertools.product(PIECES, PIECES):
        both = zip(reach(axes, "src", span, read), reach(axes, "dst", result.itemsize, write))
        lengths = [-(-a.n // max(1, round(a.n / max(pair)))) for a, pair in zip(axes, both)]  # about equal ones
        size = math.prod(lengths) * max(span, result.itemsize)
        if tuple(lengths) in seen or size > BLOCKS[1] or (size < BLOCKS[0] and len(seen)):
            continue
        seen.add(tuple(lengths))
        forms, keep, blocks = [], [], []
        # Along each axis whole blocks, and one at its end.
        cuts = [[(0, n, a.n // n)] + [(a.n // n * n, a.n % n, 1)] * (a.n % n > 0) for a, n in zip(axes, lengths)]
        for combination in itertools.product(*cuts):
            own = [n for _, n, _ in combination]
            src, read_bytes = pieces(axes, own, "src", span)
            dst, write_bytes = pieces(axes, own, "dst", result.itemsize)
            keep += [src, dst]
            forms.append(Form(len(src), len(dst), read_bytes, write_bytes, src.ctypes.data, dst.ctypes.data))
            steps = [Axis(0, a.src * n, a.dst * n) for a, n in zip(axes, own)]
            at = [
                sum(getattr(a, side) * first for a, (first, _, _) in zip(axes, combination))
                + offsets(steps, [count for *_, count in combination], side)
                for side in ("src", "dst")
            ]
            blocks.append(np.stack([*at, np.full(len(at[0]), len(forms) - 1)], 1))
        table, forms = np.concatenate(blocks), (Form * len(forms))(*forms)
        group = []
        for order, around, ahead in itertools.product([0, 1], [1, 0], [1, 0]):
            ordered = np.ascontiguousarray(table[np.argsort(table[:, order], kind="stable")])
            plan = Moves(view.ctypes.data, result.ctypes.data, ordered.ctypes.data, C.addressof(forms), len(ordered),
                         around, ahead, fold, step)  # fmt: skip
            name = f"{'x'.join(map(str, lengths))} by {['source', 'result'][order]}"
            group.append((name + " around" * around + " ahead" * ahead, plan, (ordered, forms, keep)))
        yield group


# ---- tiles -----------------------------------------------------------------------------------------


def innermost(axes: Sequence[Axis], side: str, width: int) -> list[list[int]]:
    """The innermost axis, the two innermost, and so on, as far as memory is contiguous."""
    found, run, chosen = [], width, []
    for i in reversed(by_stride(axes, side)):
        if getattr(axes[i], side) != run:
            break
        run *= axes[i].n
        chosen = [i, *chosen]
        found.append(chosen)
    return found


def int32(values: np.ndarray) -> np.ndarray:
    """With room for a tile that reaches over the end."""
    return np.concatenate([values, np.zeros(64, np.int64)]).astype(np.int32)


def shares(count: int, threads: int, multiple: int = 1) -> list[range] | None:
    """About as much for each thread, if there is enough for all of them."""
    ends = [count * t // threads // multiple * multiple for t in range(threads)] + [count]
    return [range(*pair) for pair in itertools.pairwise(ends)] if sorted(set(ends)) == ends else None


def tiles(
    axes: Sequence[Axis], view: np.ndarray, result: np.ndarray, kernels: Sequence[tuple], shuffles: int, threads: int
) -> Iterator[Group]:
    width = result.itemsize
    own = [(i, r, c) for i, (w, r, c, s) in enumerate(kernels) if w == width and s == shuffles]
    for across, down in itertools.product(innermost(axes, "src", width), innermost(axes, "dst", width)):
        if set(across) & set(down):
            continue
        others = [i for i in by_stride(axes, "dst") if i not in across and i not in down]
        m, n, count = (math.prod(axes[i].n for i in some) for some in (down, across, others))

        def at(chosen: list[int], side: str) -> np.ndarray:
            return int32(offsets([axes[i] for i in chosen], [axes[i].n for i in chosen], side))

        orders = [others]
        if threads > 1 and len(others) > 1:  # each thread's share of the source is the longer run
            orders.append([i for i in by_stride(axes, "src") if i in others])
        tables = [(at(order, "src"), at(order, "dst"), at(down, "src"), at(across, "dst")) for order in orders]
        for kernel, high, wide in own:
            if high > m or (wide >= 2 * n and wide * width > 4):
                continue
            whole = range(count), range(m), range(n)
            cuts = [("", [whole])] if threads == 1 else []
            cut = [shares(count, threads), shares(m, threads, max(high, 64 // width)), shares(n, threads, wide)]
            for axis, parts in enumerate(cut if threads > 1 else []):
                if parts:
                    name = f", cut by {['matrices', 'rows', 'columns'][axis]}"
                    cuts.append((name, [(*whole[:axis], part, *whole[axis + 1 :]) for part in parts]))
            group = []
            for (cut_by, parts), (ordered, (src_at, dst_at, rows, cols)) in itertools.product(cuts, enumerate(tables)):
                if ordered and "matrices" not in cut_by or any(high > len(r) for _, r, _ in parts):
                    continue
                # Rows that are left: by the same tile, or by a lower one.
                left = any(len(r) % high for _, r, _ in parts)
                rest = [k for k, h, w in own if h <= high and w == wide] if left else [-1]
                for last, order in itertools.product(rest, [1, 0]):
                    plan = (Tiles * len(parts))(*(
                        Tiles(view.ctypes.data + c.start * width, result.ctypes.data + r.start * width,
                              len(x), len(r), len(c), len(r) - len(r) % high,
                              src_at[x.start :].ctypes.data, dst_at[x.start :].ctypes.data,
                              rows[r.start :].ctypes.data, cols[c.start :].ctypes.data,
                              kernel, last if len(r) % high else -1, order)
                        for x, r, c in parts
                    ))  # fmt: skip
                    name = f"{high}x{wide} of {m}x{n}" + (f" and {kernels[last][1]}" if left else "")
                    name += [" down", " across"][order] + cut_by + " of the source" * ordered
                    group.append((name, plan, tables))
            if group:
                yield group


def runs(axes: Sequence[Axis], view: np.ndarray, result: np.ndarray, threads: int) -> Iterator[Group]:
    width = result.itemsize
    last = axes[-1]
    if (last.src, last.dst) != (width, width):
        return
    count, size = math.prod(a.n for a in axes[:-1]), last.n * width
    table = int32(offsets(axes[:-1], [a.n for a in axes[:-1]], "src"))
    parts = shares(count, threads)
    for vector in (8, 16, 32, 64) if parts else ():
        plan = (Runs * threads)(*(
            Runs(view.ctypes.data, result.ctypes.data + x.start * size, table[x.start :].ctypes.data, len(x), size, vector)
            for x in parts
        ))  # fmt: skip
        yield [(f"runs of {size} by {vector}", plan, table)]


def whole(view: np.ndarray, result: np.ndarray, threads: int) -> Group:
    plan = (Runs * threads)(*(
        Runs(view.ctypes.data + x.start, result.ctypes.data + x.start, None, 1, len(x), 0)
        for x in shares(view.nbytes, threads, 64)
    ))  # fmt: skip
    return [("memcpy", plan, None)]


# ---- one case --------------------------------------------------------------------------------------


class Limits:
    def __init__(self, path: str) -> None:
        self.library = C.CDLL(path)
        for name in ("memcpy", "moves", "tiles", "runs"):
            if hasattr(self.library, f"limits_{name}"):
                getattr(self.library, f"limits_{name}").restype = C.c_int64
        self.kernels = []
        if hasattr(self.library, "limits_tiles"):
            at = C.addressof(Kernel.in_dll(self.library, "limits_kernels"))
            while (k := Kernel.from_address(at + len(self.kernels) * C.sizeof(Kernel))).w:
                self.kernels.append((k.w, k.rows, k.columns, k.shuffles))

    def runs_of(self, function: str, group: Group, *arguments) -> list[tuple[str, Run]]:
        call = getattr(self.library, f"limits_{function}")

        def run(reps: int, plan: C.Structure, keep: object) -> int:
            ns = call(C.byref(plan), *arguments, C.c_int64(reps))
            if ns < 0:
                raise RuntimeError(f"{function}: {ns}")
            return ns

        return [(name, functools.partial(run, plan=plan, keep=keep)) for name, plan, keep in group]

    def candidates(
        self, view: np.ndarray, result: np.ndarray, dls: Sequence, threads: int
    ) -> Iterator[tuple[str, list[tuple[str, Run]]]]:
        """All that is tried, of each kind."""
        axes, threaded = folded(view, result), (C.c_int(threads), *dls)
        if result.nbytes + view.nbytes >= 4 * MB:
            for group in moves(axes, view, result):
                yield "moves", self.runs_of("moves", group, C.c_int(threads))
        if view.nbytes > 2 * MB or view.dtype != result.dtype:
            return
        if threads > 1 and view.nbytes + result.nbytes < SEVERAL:
            return
        if view.flags.c_contiguous:
            yield "tiles", self.runs_of("memcpy", whole(view, result, threads), *threaded)
            return
        for shuffles in (1, 0):
            for group in tiles(axes, view, result, self.kernels, shuffles, threads):
                yield ["loads", "tiles"][shuffles], self.runs_of("tiles", group, *threaded)
        for group in runs(axes, view, result, threads) if self.kernels else ():
            yield "tiles", self.runs_of("runs", group, *threaded)


def best(candidates: Iterator, memory: Memory, result: np.ndarray) -> dict[str, list]:
    """The fastest few of each kind; those whose result counts are checked."""
    found: dict[str, list] = defaultdict(list)
    for kind, group in candidates:
        least = min((f[0] for f in found[kind]), default=math.inf)
        for i, (name, run) in enumerate(group):
            ns = run(1)
            for budget in SEARCH_NS:  # small jobs more often: code and tables were cold
                if ns < 1.4 * least or ns < 20 * budget:
                    reps = max(1, int(budget // ns))
                    ns = min(ns, run(reps) / reps)
            found[kind].append((ns, name, run))
            if i == 0 and ns > 1.4 * least:
                break
    finalists = {kind: sorted(of, key=lambda f: f[0])[:FINALISTS] for kind, of in found.items()}
    for _, name, run in finalists.get("tiles", []):
        memory.destination[: result.nbytes] = 0
        run(1)
        if not np.array_equal(result.reshape(-1).view(np.uint8), memory.expected[: result.nbytes]):
            raise SystemExit(f"{name}: wrong")
    return finalists


def measure(case: Case, memory: Memory, library: bench.Library, limits: Limits, threads: int, rounds: int):
    memory.fill(case.dtype if case.to else None)
    view = case.view(bench.over(memory.source, case.dtype, case.shape))
    to = case.to or case.dtype
    result, expected = (bench.over(m, to, view.shape) for m in (memory.destination, memory.expected))
    np.copyto(expected, view, casting="unsafe")
    source, target = abi.from_numpy(view), abi.from_numpy(result)
    dls = C.byref(source.dl), C.byref(target.dl)
    size, kinds = view.nbytes + result.nbytes, best(limits.candidates(view, result, dls, threads), memory, result)
    if not kinds:
        return None
    nowhere = C.c_size_t(0), C.c_size_t(0)
    own = library.run("copy_into", "ab_copy_into", library.contexts[threads], *dls, *nowhere)
    run = {
        ("memcpy", "", threads): library.awake(library.memcpy(memory, size // 2, threads, nowhere), threads, size),
        ("arraybridge", "", threads): library.awake(own, threads, size),
    }
    for kind, finalists in kinds.items():
        run |= {(kind, f"{i} {name}", threads): run_ for i, (_, name, run_) in enumerate(finalists)}
    times = bench.measure(run, rounds, bench.SAMPLE_NS, library.core)
    memcpy, own = times["memcpy", "", threads], times["arraybridge", "", threads]
    record = {
        "group": case.group,
        "name": case.name,
        "dtype": case.dtype,
        "to": to,
        "threads": threads,
        "bytes": size,
        "ns": {"memcpy": float(np.median(memcpy)), "arraybridge": float(np.median(own))},
        "of_memcpy": {"arraybridge": bench.ratio(memcpy, own)},
        "of_limit": {},
        "by": {},
    }
    for kind in kinds:
        key = min((k for k in times if k[0] == kind), key=lambda k: np.median(times[k]))
        record["ns"][kind] = float(np.median(times[key]))
        record["of_memcpy"][kind] = bench.ratio(memcpy, times[key])
        record["of_limit"][kind] = bench.ratio(times[key], own)
        record["by"][kind] = key[1].split(" ", 1)[1]
    return record


# ---- what is printed -------------------------------------------------------------------------------


def limit_of(record: dict) -> str:
    """What counts as the limit: what has the right result, where there is such."""
    return "tiles" if "tiles" in record["of_limit"] else "moves"


def heading(group: str) -> str:
    return (
        f"\n{group:<46}{'threads':>8}{'memcpy us':>11}{'own us':>9}{'limit us':>10}"
        f"{'own/memcpy':>19}{'limit/memcpy':>19}{'own/limit':>19}{'loads':>7}  limit"
    )


def line(record: dict) -> str:
    kind, ns = limit_of(record), record["ns"]
    text = f"{record['name']:<46}{record['threads']:>8}{ns['memcpy'] / 1000:>11.2f}{ns['arraybridge'] / 1000:>9.2f}"
    text += f"{ns[kind] / 1000:>10.2f}"
    for values in (record["of_memcpy"]["arraybridge"], record["of_memcpy"][kind], record["of_limit"][kind]):
        text += f"{'{} [{}-{}]'.format(*map(report.number, values)):>19}"
    loads = record["of_memcpy"].get("loads")
    return text + f"{report.number(loads[0]) if loads else '':>7}  {record['by'][kind]}"


def summary(records: Sequence[dict]) -> str:
    """Geometric means, and what is far from its limit."""
    groups = defaultdict(list)
    for r in records:
        what = r["name"].split()[0] if r["group"] in ("cast", "channels") else "1-D" * r["name"].startswith("1-D")
        what = what if r["group"] in ("cast", "channels", "every second", "reversed") else r["dtype"]
        size = re.search(r"\d+ [KM]B$", r["name"])
        groups[r["threads"], f"{r['group']}, {what}, {size[0] if size else ''}"].append(r)
    lines = [f"\n{'':<46}{'threads':>8}{'cases':>6}{'own/memcpy':>12}{'limit/memcpy':>14}{'own/limit':>11}{'least':>7}"]
    for (threads, name), some in groups.items():
        values = [
            [r["of_memcpy"]["arraybridge"][0], r["of_memcpy"][limit_of(r)][0], r["of_limit"][limit_of(r)][0]]
            for r in some
        ]
        own, limit, ratio = map(report.geomean, zip(*values))
        least = min(v[2] for v in values)
        lines.append(f"{name:<46}{threads:>8}{len(some):>6}{own:>12.2f}{limit:>14.2f}{ratio:>11.2f}{least:>7.2f}")
    one = {(r["group"], r["name"]): r for r in records if r["threads"] == 1}
    for t in sorted({r["threads"] for r in records} - {1}):
        pairs = [(one[key], r) for r in records if r["threads"] == t and (key := (r["group"], r["name"])) in one]
        if pairs:
            gains = [
                report.geomean([a["ns"][what or limit_of(a)] / b["ns"][what or limit_of(b)] for a, b in pairs])
                for what in ("memcpy", "arraybridge", "")
            ]
            text = "{} threads / 1 thread, {} cases: memcpy {:.2f}, own {:.2f}, limit {:.2f}"
            lines.append("\n" + text.format(t, len(pairs), *gains))
    far = sorted((r for r in records if r["of_limit"][limit_of(r)][0] < 0.7), key=lambda r: r["of_limit"][limit_of(r)])
    lines.append(f"\n{len(far)} of {len(records)} rows below 0.7 of their limit")
    for r in far:
        kind = limit_of(r)
        lines.append(
            f"  {r['of_limit'][kind][0]:.2f}  {r['group']}/{r['name']}, {r['threads']} threads: "
            f"{r['of_memcpy']['arraybridge'][0]:.2f} of memcpy, limit {r['of_memcpy'][kind][0]:.2f} ({r['by'][kind]})"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds")
    parser.add_argument("--filter", metavar="REGEX", help="cases whose group/name it is found in")
    parser.add_argument("--threads", default="1,all", help="as for benches/run; several only from 1 MB on")
    parser.add_argument("--repeat", type=int, metavar="N", help="at least N rounds (default 7, quick 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the figures there")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    parser.add_argument("--summary", type=Path, nargs="+", metavar="FILE", help="of what --json saved before")
    parser.add_argument("--built", default=str(bench.ROOT / "target" / "bench"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.summary:
        print(summary([r for path in arguments.summary for r in json.loads(path.read_text())["cases"]]))
        return
    chosen = [c for c in bench.cases(arguments.quick) if c.group in GROUPS]
    chosen = [c for c in chosen if not arguments.filter or re.search(arguments.filter, c.id)]
    if arguments.list:
        print(*(c.id for c in chosen), sep="\n")
        return
    arguments.repeat = arguments.repeat or (5 if arguments.quick else 7)
    threads = sorted({ALL if t == "all" else int(t) for t in arguments.threads.split(",")})
    library = bench.Library(f"{arguments.built}/libhelper.so", threads)
    limits = Limits(f"{arguments.built}/liblimits.so")
    result = {"machine": bench.machine(library, arguments), "nanoseconds": [], "cases": []}
    memory, began, group = Memory(), time.monotonic(), None
    try:
        for case, t in itertools.product(chosen, threads):
            record = measure(case, memory, library, limits, t, arguments.repeat)
            if not record:
                continue
            if case.group != group:
                group = case.group
                print(heading(group), flush=True)
            result["cases"].append(record)
            print(line(record), flush=True)
    except KeyboardInterrupt:
        print("stopped: what follows is incomplete")
    result["machine"] |= {"seconds": round(time.monotonic() - began), "shared_core": library.core.share()}
    print(summary(result["cases"]))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(report.dumps(result))


if __name__ == "__main__":
    main()
