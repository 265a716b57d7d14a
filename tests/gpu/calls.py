"""Counts how often zero-copy conversions of a device tensor call CUDA's driver: calls.c, built in target/gpu/calls,
stands before it in a process of its own. Prints JSON, or why it cannot."""

from __future__ import annotations

import ctypes as C
import ctypes.util
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COUNTER = ROOT / "target/gpu/calls/libcuda.so.1"
CONVERSIONS = 1000


def real_driver() -> str:
    """Where the driver is that would be used."""
    C.CDLL("libcuda.so.1")
    maps = Path("/proc/self/maps").read_text().split()
    return next(word for word in maps if os.path.basename(word).startswith("libcuda.so"))


def count() -> dict[str, int]:
    from library import CUDA, Driver, Options, ab, ab_h, sized, tensor

    calls = C.CDLL(str(COUNTER)).counted_calls
    calls.restype = C.c_long
    driver = Driver()
    memory = driver.allocate(4096, (CUDA, 0))
    given = tensor(memory.address, (CUDA, 0), "float32", [4, 16, 16])
    error = sized(ab_h.ab_error)

    def convert(options: Options) -> None:
        out = C.POINTER(ab_h.DLManagedTensorVersioned)()
        source = ab_h.DLManagedTensorVersioned(version=ab_h.DLPackVersion(1, 3), dl_tensor=given)
        if ab.ab_convert(None, C.byref(source), C.byref(options), C.byref(out), None, C.byref(error)):
            raise RuntimeError(error.message.decode())
        ab.ab_release(out)

    # A copy, so that it is known that calls are counted.
    convert(sized(Options))
    before = calls()
    convert(Options(struct_size=C.sizeof(Options), copy=ab_h.AB_COPY_ALWAYS))
    copied = calls() - before
    before = calls()
    for _ in range(CONVERSIONS):
        convert(sized(Options))
    return {"conversions": CONVERSIONS, "in conversions": calls() - before, "in a copy": copied}


def main() -> int:
    if os.environ.get("AB_REAL_CUDA"):
        counted = count()
        print(json.dumps(counted))
        return 0 if counted["in a copy"] else 1
    if not COUNTER.exists():
        print(f"SKIPPED: calls of the driver: there is no {COUNTER} (tests/gpu/run --prepare builds it on x86-64)")
        return 0
    path = f"{COUNTER.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    os.environ.update(AB_REAL_CUDA=real_driver(), LD_LIBRARY_PATH=path)
    os.execv(sys.executable, [sys.executable, __file__])
    return 1


if __name__ == "__main__":
    sys.exit(main())
