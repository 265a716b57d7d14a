"""Runs everything that needs a GPU with what this machine has, prints one table and writes JSON. The exit
status is 1 if something failed; what is missing is named."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import library
import vectors

PACKAGE = library.ROOT / "target/gpu/package"
SANITIZERS = ("memcheck", "racecheck", "synccheck")


class Table:
    def __init__(self) -> None:
        self.rows: list[dict[str, str]] = []

    def add(self, part: str, what: str, outcome: str) -> None:
        self.rows.append({"part": part, "what": what, "outcome": outcome})
        print(f"{part:12} {what:44} {outcome}", flush=True)

    def run(self, part: str, what: str, work: Callable[[], object]) -> None:
        try:
            work()
            self.add(part, what, "ok")
        except Exception as problem:  # noqa: BLE001 whatever a framework raises
            traceback.print_exc()
            self.add(part, what, f"FAILED: {type(problem).__name__}: {problem}")

    def failed(self) -> bool:
        return any(row["outcome"].startswith("FAILED") for row in self.rows)


def run_vectors(table: Table, quick: bool) -> None:
    driver = library.Driver()
    for way, wrong in vectors.run(driver, quick).items():
        for one in wrong[:20]:
            print(f"  {way}: {one}")
        table.add("vectors", way, f"FAILED: {len(wrong)} cases" if wrong else "ok")
    if driver.count < 2:
        table.add("vectors", "peer", "SKIPPED: there is one GPU")


def run_frameworks(table: Table) -> None:
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


def run_streams(table: Table) -> None:
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


def run_sanitizer(table: Table) -> None:
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    for name in SANITIZERS:
        if tool is None:
            table.add("sanitizer", name, "SKIPPED: there is no compute-sanitizer")
            continue
        command = [
            tool,
            "--tool",
            name,
            "--error-exitcode",
            "9",
            sys.executable,
            __file__,
            "--only",
            "vectors",
            "--quick",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stdout[-4000:], done.stderr[-2000:])
        table.add("sanitizer", name, "ok" if done.returncode == 0 else f"FAILED: exit status {done.returncode}")


def run_benches(table: Table, json_path: Path) -> None:
    path = json_path.with_name(json_path.stem + "-benches.json")
    done = subprocess.run([str(library.ROOT / "benches/run"), "--gpu", "--json", str(path)], check=False)
    table.add("benches", str(path), "ok" if done.returncode == 0 else f"FAILED: exit status {done.returncode}")


PARTS = ("vectors", "frameworks", "streams", "sanitizer", "benches")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; all of them without this")
    parser.add_argument("--quick", action="store_true", help="some of the vectors")
    default = Path(os.environ.get("OUT", library.ROOT / "target/gpu")) / "gpu.json"
    parser.add_argument("--json", type=Path, default=default, metavar="FILE", help="where the results go")
    given = parser.parse_args()
    parts = given.only or PARTS
    table = Table()
    work: dict[str, Callable[[], None]] = {
        "vectors": lambda: run_vectors(table, given.quick),
        "frameworks": lambda: run_frameworks(table),
        "streams": lambda: run_streams(table),
        "sanitizer": lambda: run_sanitizer(table),
        "benches": lambda: run_benches(table, given.json),
    }
    for part in parts:
        try:
            work[part]()
        except Exception as problem:  # noqa: BLE001 whatever a framework raises
            traceback.print_exc()
            table.add(part, "all of it", f"FAILED: {type(problem).__name__}: {problem}")
    driver = library.Driver()
    given.json.parent.mkdir(parents=True, exist_ok=True)
    machine = {
        "date": datetime.date.today().isoformat(),
        "devices": [driver.name(device) for device in range(driver.count)],
        "driver": driver.version(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
    given.json.write_text(json.dumps({"machine": machine, "rows": table.rows}, indent=1) + "\n")
    failures = sum(row["outcome"].startswith("FAILED") for row in table.rows)
    skipped = sum(row["outcome"].startswith("SKIPPED") for row in table.rows)
    print(f"{len(table.rows)} rows, {failures} failed, {skipped} skipped; {given.json}")
    return 1 if table.failed() else 0


if __name__ == "__main__":
    sys.exit(main())
