"""The package's calls beside those of its peers that do the same: interleaved, in one process.

    target/python/bin/python benches/python.py [--json FILE]

Small arrays show what a call costs. The last cases are work: 256 MB of strided uint16 to row-major float32, in
the peers' spellings. Each result is let go of before the next call, as in a loop over images. The pages of ours
are kept for the next result for a second, while malloc gives such large ones back to the system at once; so the
same is measured after pauses too, when every result is of new pages. What is not installed is named and left out.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter, sleep
from typing import Any

import arraybridge as ab
import numpy as np

ROUNDS = 25
CALLS = 1000
PAUSE = 2.0
OURS = "arraybridge"
Calls = dict[str, Callable[[], Any]]


def optional(name: str) -> Any:
    """A peer, or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"SKIPPED: {name} is not installed", file=sys.stderr)
        return None


def cases() -> dict[str, Calls]:
    """Every case: what does it, by name; ours first."""
    torch, jax, tvm_ffi, dlpack = (optional(name) for name in ("torch", "jax", "tvm_ffi", "dlpack"))
    x, data, found = np.arange(24, dtype=np.float32).reshape(4, 6), bytes(96), {}
    if torch:
        t = torch.arange(24.0).reshape(4, 6)
        found["numpy to torch"] = {
            OURS: lambda: ab.convert(x, "torch"),
            "torch.from_dlpack": lambda: torch.from_dlpack(x),
        }
        found["torch to numpy"] = {
            OURS: lambda: ab.convert(t, "numpy"),
            "np.from_dlpack": lambda: np.from_dlpack(t),
            "np.asarray": lambda: np.asarray(t),
        }
    if jax:
        j = jax.numpy.arange(24.0).reshape(4, 6)
        found["jax to numpy"] = {
            OURS: lambda: ab.convert(j, "numpy"),
            "np.from_dlpack": lambda: np.from_dlpack(j),
            "np.asarray": lambda: np.asarray(j),
        }
    found["asdlpack(numpy)"] = {OURS: lambda: ab.asdlpack(x), "np.from_dlpack": lambda: np.from_dlpack(x)}
    if tvm_ffi:
        found["asdlpack(numpy)"]["tvm_ffi.from_dlpack"] = lambda: tvm_ffi.from_dlpack(x)
    found["asdlpack(bytes)"] = {
        OURS: lambda: ab.asdlpack(data),
        "np.asarray(memoryview)": lambda: np.asarray(memoryview(data)),
        "np.frombuffer": lambda: np.frombuffer(data, np.uint8),
    }
    found["asdlpack and export"] = {OURS: lambda: ab.asdlpack(x).__dlpack__()}
    if dlpack:
        found["asdlpack and export"]["pydlpack"] = lambda: dlpack.asdlpack(x).__dlpack__()
    return found


def work() -> dict[str, Calls]:
    """256 MB read or written: every second column, and channels last to channels first, both cast."""
    torch = optional("torch")
    if not torch:
        return {}
    columns = np.ones((8192, 16384), np.uint16)[:, ::2]
    pictures = np.ones((16, 2048, 1365, 3), np.uint16).transpose(0, 3, 1, 2)
    found = {}
    for case, x in (("every second column", columns), ("channels last to first", pictures)):
        same = torch.from_numpy(x.view(np.int16)).view(torch.uint16)
        found[f"256 MB, uint16 to float32, {case}"] = {
            OURS: lambda x=x: ab.convert(x, "torch", dtype="float32"),
            "torch.from_numpy(x.astype(order='C'))": lambda x=x: torch.from_numpy(x.astype(np.float32, order="C")),
            "torch .to(float32, contiguous)": lambda t=same: t.to(torch.float32, memory_format=torch.contiguous_format),
            "torch.from_numpy(ascontiguousarray).to": lambda x=x: torch.from_numpy(np.ascontiguousarray(x)).to(
                torch.float32
            ),
        }
    return found


def paused(found: dict[str, Calls]) -> dict[str, Calls]:
    """The same cases by another name, ours and the first peer's."""
    return {f"{case}, after a pause": dict(list(calls.items())[:2]) for case, calls in found.items()}


def measure(calls: Calls, rounds: int, count: int, pause: float) -> dict[str, list[float]]:
    """Seconds of a call, each round of all of them after another, each after so many seconds."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            if pause:
                sleep(pause)
                # A virtual machine's free pages may have gone to its host meanwhile: for each call they come back.
                np.ones(1 << 29, np.uint8)
            start = perf_counter()
            for _ in range(count):
                call()
            times[name].append((perf_counter() - start) / count)
    return times


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    large = work()
    for group, rounds, count, pause in (
        (cases(), ROUNDS, CALLS, 0.0),
        (large, 5, 1, 0.0),
        (paused(large), 3, 1, PAUSE),
    ):
        for case, calls in group.items():
            times = measure(calls, rounds, count, pause)
            rows += [
                {
                    "case": case,
                    "call": name,
                    "seconds": median(values),
                    # Of the rounds' own ratios: what slows a round slows both.
                    "times_ours": median(other / ours for other, ours in zip(values, times[OURS], strict=True)),
                }
                for name, values in times.items()
            ]
    print(f"| case | call | median | / {OURS} |\n|---|---|---:|---:|")
    for row in rows:
        took = row["seconds"]
        shown = (
            f"{took * 1e9:.0f} ns" if took < 1e-5 else f"{took * 1e6:.1f} us" if took < 1e-3 else f"{took * 1e3:.1f} ms"
        )
        print(f"| {row['case']} | {row['call']} | {shown} | {row['times_ours']:.2f} |")
    if options.json:
        about = {"python": platform.python_version(), "numpy": np.__version__, "machine": ab.devices()[0].name}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"about": about, "rows": rows}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
