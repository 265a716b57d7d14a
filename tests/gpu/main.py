"""Runs everything that needs a GPU with what this machine has, prints one table and writes JSON. The exit
status is 1 if something failed; what is missing is named. Each part is a process of its own with a limit of time,
so that neither a crash nor a device that is lost keeps the others from running."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import library

PACKAGE = library.ROOT / "target/gpu/package"
SANITIZERS = ("memcheck", "racecheck", "synccheck")
# Each part with its limit in seconds, in the order of what is wanted most.
PARTS = {"vectors": 120, "frameworks": 120, "streams": 60, "benches": 300, "sanitizer": 240}


class Table:
    """Rows of a part, each of which is in a file as soon as it is known."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, part: str, what: str, outcome: str) -> None:
        outcome = " ".join(outcome.split())
        with self.path.open("a") as file:
            file.write(json.dumps({"part": part, "what": what, "outcome": outcome}) + "\n")
        print(f"{part:12} {what:44} {outcome}", flush=True)

    def run(self, part: str, what: str, work: Callable[[], object]) -> None:
        try:
            work()
            self.add(part, what, "ok")
        except Exception as problem:  # noqa: BLE001 whatever a framework raises
            traceback.print_exc()
            self.add(part, what, f"FAILED: {type(problem).__name__}: {problem}")

    def rows(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]


def run_vectors(table: Table, given: argparse.Namespace) -> None:
    import vectors

    driver = library.Driver()
    for way, wrong in vectors.run(driver, given.quick):
        for one in wrong[:20]:
            print(f"  {way}: {one}")
        table.add("vectors", way, f"FAILED: {len(wrong)} cases" if wrong else "ok")
    if driver.count < 2:
        table.add("vectors", "peer", "SKIPPED: there is one GPU")


def run_frameworks(table: Table, _given: argparse.Namespace) -> None:
    sys.path.insert(0, str(PACKAGE))
    try:
        import arraybridge

        import matrix
    except ImportError as problem:
        table.add("frameworks", "the Python package", f"SKIPPED: {problem}")
        return
    there, missing = matrix.frameworks()
    for name, why in missing.items():
        table.add("frameworks", name, f"SKIPPED: {why}")
    for what, work in matrix.rows(arraybridge, there):
        table.run("frameworks", what, work)


def run_streams(table: Table, _given: argparse.Namespace) -> None:
    try:
        import torch

        if not torch.cuda.is_available():
            raise ImportError("PyTorch sees no GPU")
    except ImportError as problem:
        table.add("streams", "late producers", f"SKIPPED: {problem}")
        return
    import streams

    for what, work in streams.rows(torch):
        table.run("streams", what, work)


def run_sanitizer(table: Table, given: argparse.Namespace) -> None:
    places = (None, "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer")
    tool = next(filter(None, (shutil.which("compute-sanitizer", path=place) for place in places)), None)
    end = time.monotonic() + given.seconds
    for at, name in enumerate(SANITIZERS):
        if tool is None:
            table.add("sanitizer", name, "SKIPPED: there is no compute-sanitizer")
            continue
        command = [tool, "--tool", name, "--error-exitcode", "9", sys.executable, __file__]
        command += ["--part", "vectors", "--quick", "--rows", os.devnull]
        limit = (end - time.monotonic()) / (len(SANITIZERS) - at)
        code, output = run_limited(command, limit, capture=True)
        text = output[-6000:]
        if code == 0:
            table.add("sanitizer", name, "ok")
        elif "not supported" in text:
            table.add("sanitizer", name, "SKIPPED: compute-sanitizer does not support this device here")
        else:
            print(text)
            why = f"not done in {limit:.0f} s" if code is None else f"exit status {code}"
            table.add("sanitizer", name, f"FAILED: {why}")


def run_benches(table: Table, given: argparse.Namespace) -> None:
    path = given.json.with_name(given.json.stem + "-benches.json")
    command = [sys.executable, str(library.ROOT / "benches/gpu.py"), "--json", str(path)]
    # It stops by itself, with what it has.
    command += ["--seconds", str(round(given.seconds * 0.9))] + ["--quick"] * given.quick
    code, _ = run_limited(command, given.seconds)
    table.add("benches", str(path), "ok" if code == 0 else f"FAILED: exit status {code}")


def run_limited(command: list[str], seconds: float, capture: bool = False) -> tuple[int | None, str]:
    """The exit status, None if it took too long, and what it wrote where that is wanted. Its children end with it."""
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        where = {"stdout": file, "stderr": subprocess.STDOUT} if capture else {}
        process = subprocess.Popen(command, start_new_session=True, **where)
        try:
            code = process.wait(max(seconds, 1))
        except subprocess.TimeoutExpired:
            code = None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        file.seek(0)
        return code, file.read()


def machine() -> dict[str, object]:
    found: dict[str, object] = {
        "date": datetime.date.today().isoformat(),
        "system": f"{platform.system()} {platform.release()}",
        "processors": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
    }
    try:
        driver = library.Driver()
        found["devices"] = [driver.name(device) for device in range(driver.count)]
        found["driver"] = driver.version()
    except Exception as problem:  # noqa: BLE001 the rows are wanted all the same
        found["driver"] = str(problem)
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; all of them without this")
    parser.add_argument("--quick", action="store_true", help="some of the vectors and benches")
    parser.add_argument("--seconds", type=float, default=560, help="for all of it")
    default = Path(os.environ.get("OUT", library.ROOT / "target/gpu")) / "gpu.json"
    parser.add_argument("--json", type=Path, default=default, metavar="FILE", help="where the results go")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def run_part(given: argparse.Namespace) -> int:
    table = Table(given.rows)
    work: dict[str, Callable[[Table, argparse.Namespace], None]] = {
        "vectors": run_vectors,
        "frameworks": run_frameworks,
        "streams": run_streams,
        "sanitizer": run_sanitizer,
        "benches": run_benches,
    }
    try:
        work[given.part](table, given)
    except Exception as problem:  # noqa: BLE001 whatever a framework raises
        traceback.print_exc()
        table.add(given.part, "all of it", f"FAILED: {type(problem).__name__}: {problem}")
        return 1
    return 0


def main() -> int:
    given = arguments()
    if given.part:
        return run_part(given)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + given.seconds
    with tempfile.TemporaryDirectory() as folder:
        table = Table(Path(folder) / "rows")
        table.path.touch()
        for part in given.only or PARTS:
            limit = min(PARTS[part], end - time.monotonic())
            if limit < 5:
                table.add(part, "all of it", "SKIPPED: there is no time left")
                continue
            command = [sys.executable, __file__, "--part", part, "--rows", str(table.path)]
            command += ["--json", str(given.json), "--seconds", str(limit - 2)] + ["--quick"] * given.quick
            code, _ = run_limited(command, limit)
            if code is None:
                table.add(part, "the rest", f"FAILED: not done in {limit:.0f} s")
            elif code < 0:
                table.add(part, "the rest", f"FAILED: ended by signal {-code}")
            rows = table.rows()
            given.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    given.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")
    print("\n" + "\n".join(f"{row['part']:12} {row['what']:44} {row['outcome'][:120]}" for row in rows))
    failures = sum(row["outcome"].startswith("FAILED") for row in rows)
    skipped = sum(row["outcome"].startswith("SKIPPED") for row in rows)
    print(f"{len(rows)} rows, {failures} failed, {skipped} skipped; {given.json}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
