"""arraybridge beside the driver's own copies, PyTorch, CuPy and JAX on a GPU, in one process and interleaved.

As bench.py: a case is done in rounds, and in each round by everyone once; a ratio is of two times of one
round, and what is reported is the median of the rounds with its quartiles. A time is a loop that ends with
the device being idle. The references: for transfers, the driver's copy of the bytes that cross from or to
pinned memory; on the device, the driver's copy of half the bytes that are read and written together. What the
targets are, and whether they are met, is in TARGETS.
"""

from __future__ import annotations

import argparse
import ctypes as C
import datetime
import importlib
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "gpu"))

# Otherwise JAX takes most of the device's memory at once.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np
from library import ASYNC, CPU, CUDA, PINNED, Driver, Options, copy_into, copy_to, options, path, tensor

MB = 1 << 20
HELPER = ROOT / "target/bench/libhelper.so"
SAMPLE_S = 0.01  # a sample takes at least this long
LEGACY = 1  # the default stream, where everybody here works
GPU = (CUDA, 0)
REFERENCE = "driver"
OURS = ("arraybridge", "driver, pinned", "driver, pageable")


def peer(name: str):
    try:
        module = importlib.import_module(name)
        if name == "torch" and not module.cuda.is_available():
            raise RuntimeError("it sees no GPU")
        if name == "jax":
            module.devices("gpu")
        if name == "cupy":
            module.zeros(1)
        return module
    except Exception as problem:  # noqa: BLE001 whatever a framework raises
        why = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        print(f"SKIPPED: {name}: {why}", file=sys.stderr)
        return None


torch, cupy, jax = peer("torch"), peer("cupy"), peer("jax")

Run = Callable[[], object]


def measure(runs: dict[str, Run], sync: Run, rounds: int) -> dict[str, list[float]]:
    """Seconds of a call, of everyone, in each round."""
    reps = {}
    for name, run in runs.items():
        run(), sync()
        begin = time.perf_counter()
        run(), sync()
        reps[name] = max(1, min(1000, math.ceil(SAMPLE_S / (time.perf_counter() - begin))))
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            sync()
            begin = time.perf_counter()
            for _ in range(reps[name]):
                run()
            sync()
            times[name].append((time.perf_counter() - begin) / reps[name])
    return times


def spread(values: list[float]) -> list[float]:
    """The median and the quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    return [middle, low, high]


class Bench:
    def __init__(self, rounds: int, only: str, seconds: float):
        self.driver, self.rounds, self.only = Driver(), rounds, only
        self.end = time.monotonic() + seconds
        self.cases: list[dict] = []
        self.failures: list[str] = []
        self.left_out = 0
        self.on_device = options(flags=ASYNC, src_stream=LEGACY, dst_stream=LEGACY)

    def sync(self) -> None:
        self.driver.call("cuCtxSynchronize")

    def attempt(self, what: str, work: Run) -> None:
        """One case that fails is told, and leaves the others be; so is what there is no time for."""
        if time.monotonic() > self.end:
            self.left_out += 1
            return
        try:
            work()
        except Exception as problem:  # noqa: BLE001 whatever a framework raises
            self.failures.append(f"{what}: {type(problem).__name__}: {problem}")
            print(f"FAILED: {self.failures[-1]}", flush=True)

    def case(self, group: str, name: str, size: int, runs: dict[str, Run]) -> None:
        """`size`: bytes by which the rates are counted. The first run is the reference."""
        if self.only not in f"{group}/{name}":
            return
        for peer in [who for who in runs if who not in (REFERENCE, *OURS)]:
            try:
                runs[peer](), self.sync()
            except Exception as problem:  # noqa: BLE001 whatever a framework raises
                print(f"SKIPPED: {group} {name}: {peer}: {str(problem).splitlines()[:1]}", flush=True)
                del runs[peer]
        times = measure(runs, self.sync, self.rounds)
        ours = times["arraybridge"]
        record = {"group": group, "name": name, "bytes": size, "times": {}, "of": {}}
        for who, seconds in times.items():
            record["times"][who] = spread(seconds)
            if who != "arraybridge":  # how many times as fast we are
                record["of"][who] = spread([theirs / mine for theirs, mine in zip(seconds, ours)])
        self.cases.append(record)
        rate = size / record["times"]["arraybridge"][0] / 1e9
        ratios = "  ".join(f"{who} {r[0]:.2f} [{r[1]:.2f}, {r[2]:.2f}]" for who, r in record["of"].items())
        print(f"{group:10} {name:48} {rate:8.1f} GB/s  {ratios}", flush=True)

    # ---- between host and device ----

    def transfers(self, size: int) -> None:
        host, pinned = np.ones(size, np.uint8), self.driver.allocate(size, (PINNED, 0))
        C.memset(pinned.address, 1, size)
        device = self.driver.allocate(size, GPU)
        call, to, count = self.driver.call, C.c_uint64(device.address), C.c_size_t(size)
        zero, here = C.c_void_p(0), host.ctypes.data
        a_host = tensor(here, (CPU, 0), "uint8", [size])
        a_pinned = tensor(pinned.address, (PINNED, 0), "uint8", [size])
        a_device = tensor(device.address, GPU, "uint8", [size])
        name = f"{size // MB} MB"

        up: dict[str, Run] = {
            "driver, pinned": lambda: call("cuMemcpyHtoDAsync_v2", to, C.c_void_p(pinned.address), count, zero),
            "arraybridge": lambda: copy_into(a_host, a_device),
            "driver, pageable": lambda: call("cuMemcpyHtoD_v2", to, C.c_void_p(here), count),
        }
        down: dict[str, Run] = {
            "driver, pinned": lambda: call("cuMemcpyDtoHAsync_v2", C.c_void_p(pinned.address), to, count, zero),
            "arraybridge": lambda: copy_into(a_device, a_host),
            "driver, pageable": lambda: call("cuMemcpyDtoH_v2", C.c_void_p(here), to, count),
        }
        # The same to memory that is made for it, as torch.Tensor.cuda() and .cpu() do.
        new_up: dict[str, Run] = {
            "driver, pinned": up["driver, pinned"],
            "arraybridge": lambda: copy_to(a_host, GPU),
        }
        new_down: dict[str, Run] = {
            "driver, pinned": down["driver, pinned"],
            "arraybridge": lambda: copy_to(a_device, (CPU, 0)),
        }
        if torch:
            t_host, t_device = torch.from_numpy(host), torch.empty(size, dtype=torch.uint8, device="cuda")
            up["torch"], down["torch"] = (lambda: t_device.copy_(t_host)), (lambda: t_host.copy_(t_device))
            new_up["torch"], new_down["torch"] = (lambda: t_host.cuda()), (lambda: t_device.cpu())
        if cupy:
            c_device = cupy.empty(size, cupy.uint8)
            up["cupy"], down["cupy"] = (lambda: c_device.set(host)), (lambda: c_device.get(out=host))
            new_up["cupy"], new_down["cupy"] = (lambda: cupy.asarray(host)), (lambda: c_device.get())
        if jax:
            j_device = jax.device_put(host, jax.devices("gpu")[0])
            new_up["jax"] = lambda: jax.device_put(host, jax.devices("gpu")[0]).block_until_ready()
            # A JAX array keeps what it has fetched: a new one each time.
            new_down["jax"] = lambda: np.asarray(j_device + 0)
        self.case("upload", f"pageable {name}", size, up)
        self.case("download", f"pageable {name}", size, down)
        self.case("upload", f"new, pageable {name}", size, new_up)
        self.case("download", f"new, pageable {name}", size, new_down)
        for group, source, target, reference in [
            ("upload", a_pinned, a_device, up),
            ("download", a_device, a_pinned, down),
        ]:
            runs = {
                "driver, pinned": reference["driver, pinned"],
                "arraybridge": lambda s=source, t=target: copy_into(s, t),
            }
            self.case(group, f"pinned {name}", size, runs)

    def pictures(self, rows: int, columns: int) -> None:
        """uint8 pixels to float32 channels: a quarter of the bytes crosses."""
        shape, size = (3, rows, columns), 3 * rows * columns
        host = np.ones((rows, columns, 3), np.uint8)
        device, pinned = self.driver.allocate(4 * size, GPU), self.driver.allocate(size, (PINNED, 0))
        source = tensor(host.ctypes.data, (CPU, 0), "uint8", shape, [1, 3 * columns, 3])
        target = tensor(device.address, GPU, "float32", shape)
        to, count = C.c_uint64(device.address), C.c_size_t(size)
        runs: dict[str, Run] = {
            "driver, pinned": lambda: self.driver.call(
                "cuMemcpyHtoDAsync_v2", to, C.c_void_p(pinned.address), count, C.c_void_p(0)
            ),
            "arraybridge": lambda: copy_into(source, target),
        }
        if torch:
            picture = torch.from_numpy(host)
            runs["torch"] = lambda: (
                picture.cuda().permute(2, 0, 1).to(torch.float32, memory_format=torch.contiguous_format)
            )
        if cupy:
            runs["cupy"] = lambda: cupy.asarray(host).transpose(2, 0, 1).astype(cupy.float32, order="C")
        self.case("upload", f"uint8 HWC to float32 CHW {rows} x {columns}", size, runs)

    # ---- on the device ----

    def device(self, group: str, name: str, dtype: str, shape: tuple[int, ...], axes: tuple[int, ...], to: str) -> None:
        count = math.prod(shape)
        item, out = np.dtype(dtype).itemsize, np.dtype(to).itemsize
        total = count * (item + out)
        a, b = self.driver.allocate(count * item, GPU), self.driver.allocate(count * out, GPU)
        a_copy, b_copy = self.driver.allocate(total // 2, GPU), self.driver.allocate(total // 2, GPU)
        self.driver.call("cuMemsetD8_v2", C.c_uint64(a.address), C.c_ubyte(1), C.c_size_t(count * item))
        steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        view = [shape[i] for i in axes]
        source = tensor(a.address, GPU, dtype, view, [steps[i] for i in axes])
        target = tensor(b.address, GPU, to, view)
        half = C.c_size_t(total // 2)
        runs: dict[str, Run] = {
            REFERENCE: lambda: self.driver.call(
                "cuMemcpyDtoDAsync_v2", C.c_uint64(b_copy.address), C.c_uint64(a_copy.address), half, C.c_void_p(0)
            ),
            "arraybridge": lambda: copy_into(source, target, self.on_device),
        }
        if torch:
            x = torch.ones(shape, dtype=getattr(torch, dtype), device="cuda").permute(axes)
            y = torch.empty(view, dtype=getattr(torch, to), device="cuda")
            runs["torch"] = lambda: y.copy_(x)
        if cupy:
            p, q = cupy.ones(shape, dtype).transpose(axes), cupy.empty(view, to)
            runs["cupy"] = lambda: cupy.copyto(q, p, casting="unsafe")
        if jax and not {dtype, to} & {"float64", "int64", "complex128"}:
            work = jax.jit(lambda v: jax.numpy.transpose(v, axes).astype(to))
            j = jax.numpy.ones(shape, dtype)
            runs["jax"] = lambda: work(j).block_until_ready()
        self.case(group, name, total, runs)

    def zero_copy(self) -> None:
        if not HELPER.exists():
            print(f"SKIPPED: zero copy: there is no {HELPER} (tests/gpu/run --prepare builds it)", flush=True)
            return
        bench = C.CDLL(str(HELPER)).bench_convert
        bench.restype = C.c_int64
        memory = self.driver.allocate(4096, GPU)
        given = tensor(memory.address, GPU, "float32", [4, 16, 16])
        function = C.cast(C.CDLL(str(path())).ab_convert, C.c_void_p)
        ns = []
        for _ in range(max(self.rounds, 15)):
            taken = bench(function, None, C.byref(given), C.cast(None, C.POINTER(Options)), C.c_int64(20000))
            if taken < 0:
                raise RuntimeError(f"ab_convert: {taken}")
            ns.append(taken / 20000)
        self.cases.append({"group": "zero copy", "name": "convert and delete", "nanoseconds": spread(ns)})
        print(f"zero copy  convert and delete {spread(ns)[0]:.0f} ns", flush=True)

    def driver_calls(self) -> None:
        """How often a zero-copy conversion calls the driver, counted by a library that stands before it."""
        count = ROOT / "tests/gpu/calls.py"
        done = subprocess.run([sys.executable, str(count)], capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-300:] or f"exit status {done.returncode}")
        if done.stdout.startswith("SKIPPED"):
            print(done.stdout.strip(), flush=True)
            return
        calls = json.loads(done.stdout)
        self.cases.append({"group": "zero copy", "name": "calls of the driver", **calls})
        print(f"zero copy  calls of the driver: {calls}", flush=True)


PERMUTATIONS = [(1, 0), (2, 1, 0), (1, 0, 2), (0, 2, 1), (0, 3, 1, 2), (3, 2, 1, 0), (2, 0, 4, 1, 3)]
CASTS = [("float32", "float16"), ("float16", "float32"), ("float32", "float64"), ("int32", "float32"),
         ("float32", "int32"), ("uint8", "float32"), ("float32", "uint8"), ("int64", "float32")]  # fmt: skip


def extents(count: int, ndim: int) -> tuple[int, ...]:
    base = round(count ** (1 / ndim))
    axes = [base + (i % 3 - 1) * max(1, base // 40) for i in range(ndim - 1)]
    return *axes, round(count / math.prod(axes))


def mean_of(cases: list[dict], who: str, holds: Callable[[dict], bool]) -> float | None:
    """The geometric mean of how many times as fast we are, of the cases of which it holds."""
    ratios = [case["of"][who][0] for case in cases if holds(case) and who in case.get("of", {})]
    return statistics.geometric_mean(ratios) if ratios else None


def least_of(cases: list[dict], who: str, holds: Callable[[dict], bool]) -> float | None:
    return min((case["of"][who][0] for case in cases if holds(case) and who in case.get("of", {})), default=None)


def is_large(group: str, name: str = "pageable") -> Callable[[dict], bool]:
    return lambda case: case["group"] == group and case["name"].startswith(name) and case["bytes"] >= 64 * MB


def is_picture(case: dict) -> bool:
    return case["group"] == "upload" and case["name"].startswith("uint8 HWC")


def is_on_device(case: dict) -> bool:
    return case["group"] in ("permute", "cast")


def is_transpose(case: dict) -> bool:
    return case["group"] == "permute" and case["name"].startswith("1,0 ")


# What is to be reached, by what it is found, and how much that has to be.
TARGETS: list[tuple[str, Callable[[list[dict]], float | None], float]] = [
    ("pageable uploads of 64 MB and more, of pinned ones", lambda c: least_of(c, "driver, pinned", is_large("upload")), 0.85),
    ("the same downloads", lambda c: least_of(c, "driver, pinned", is_large("download")), 0.85),
    ("pageable uploads, times torch.Tensor.cuda()", lambda c: least_of(c, "torch", is_large("upload", "new")), 2),
    ("pageable downloads, times torch.Tensor.cpu()", lambda c: least_of(c, "torch", is_large("download", "new")), 2),
    ("strided uint8 to float32 uploads, of the bus", lambda c: least_of(c, "driver, pinned", is_picture), 0.8),
    ("on the device, mean of memcpy", lambda c: mean_of(c, REFERENCE, is_on_device), 0.85),
    ("on the device, least of PyTorch", lambda c: least_of(c, "torch", is_on_device), 1),
    ("on the device, least of CuPy", lambda c: least_of(c, "cupy", is_on_device), 1),
    ("on the device, least of JAX", lambda c: least_of(c, "jax", is_on_device), 1),
    ("matrix transposes, mean of PyTorch", lambda c: mean_of(c, "torch", is_transpose), 3),
    ("zero copy, of 100 ns", lambda c: next((100 / x["nanoseconds"][0] for x in c if "nanoseconds" in x), None), 1),
    ("zero copy without a call of the driver", lambda c: next((float(x["in conversions"] == 0) for x in c if "in conversions" in x), None), 1),
]  # fmt: skip


def verdicts(cases: list[dict]) -> list[dict]:
    found = []
    for what, figure, wanted in TARGETS:
        value = figure(cases)
        outcome = "open" if value is None else "met" if value >= wanted else "missed"
        found.append({"target": what, "wanted": wanted, "found": value, "outcome": outcome})
        print(f"{outcome:7} {what:56} {'-' if value is None else f'{value:.2f}':>8} of {wanted}", flush=True)
    return found


def jobs(bench: Bench, given: argparse.Namespace) -> list[tuple[str, Run]]:
    """What is measured, in the order of what is wanted most."""
    quick, size = given.quick, given.megabytes * MB
    work: list[tuple[str, Run]] = [
        ("zero copy", bench.zero_copy),
        ("calls of the driver", bench.driver_calls),
    ]
    for megabytes in given.transfers or ([64] if quick else [64, 512, 1, 16]):
        work.append((f"transfers of {megabytes} MB", lambda n=megabytes: bench.transfers(n * MB)))
    for rows, columns in [(3500, 5200)] if quick else [(3500, 5200), (8000, 10000), (1080, 1920)]:
        if given.megabytes < 64:
            rows, columns = rows // 16, columns // 16
        work.append((f"a picture of {rows} x {columns}", lambda r=rows, c=columns: bench.pictures(r, c)))
    for dtype in ["float32"] if quick else ["float32", "uint8", "float16", "float64", "complex128"]:
        for axes in PERMUTATIONS[:: 3 if quick else 1]:
            shape = extents(size // np.dtype(dtype).itemsize, len(axes))
            name = f"{','.join(map(str, axes))} {dtype}"
            work.append((name, lambda n=name, d=dtype, s=shape, a=axes: bench.device("permute", n, d, s, a, d)))
    for dtype, to in CASTS[:: 3 if quick else 1]:
        count = size // max(np.dtype(dtype).itemsize, np.dtype(to).itemsize)
        for name, shape, axes in [("", (count,), (0,)), (", transposed", extents(count, 2), (1, 0))]:
            name = f"{dtype} to {to}{name}"
            work.append((name, lambda n=name, d=dtype, t=to, s=shape, a=axes: bench.device("cast", n, d, s, a, t)))
    return work


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose group/name it is found in")
    parser.add_argument("--megabytes", type=int, default=256, help="of the jobs on the device")
    parser.add_argument(
        "--transfers", type=int, action="append", metavar="MEGABYTES", help="of those between host and device"
    )
    parser.add_argument("--rounds", type=int, help="of each case; 15, or 7 where it is quick")
    parser.add_argument("--seconds", type=float, default=500, help="after which no other case is begun")
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the figures there")
    given = parser.parse_args()
    bench = Bench(given.rounds or (7 if given.quick else 15), given.only, given.seconds)
    versions = {m.__name__: m.__version__ for m in (np, torch, cupy, jax) if m}
    result: dict = {
        "machine": {
            "date": datetime.date.today().isoformat(),
            "device": bench.driver.name(0),
            "driver": bench.driver.version(),
            "threads": len(os.sched_getaffinity(0)),
            "system": f"{platform.system()} {platform.release()}",
            "versions": versions,
        },
        "cases": bench.cases,
        "failures": bench.failures,
    }

    def save() -> None:
        if given.json:
            given.json.parent.mkdir(parents=True, exist_ok=True)
            given.json.write_text(json.dumps(result, indent=1) + "\n")

    for what, work in jobs(bench, given):
        bench.attempt(what, work)
        # What is known is kept, whatever comes.
        save()
    if bench.left_out:
        print(f"SKIPPED: {bench.left_out} kinds of cases: the time is up ({given.seconds:.0f} s)")
    result["left_out"] = bench.left_out
    result["targets"] = verdicts(bench.cases)
    save()
    return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main())
