"""python -m arraybridge: what is here, and how long each conversion takes."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from . import __version__, adapters, convert, core
from .matrix_view import as_svg, show

SHAPE = (512, 512)
MATRIX = ("numpy", "torch", "tensorflow", "jax", "pyclesperanto", "pyopencl", "cupy", "numba", "paddle", "mlx", "dpnp",
          "tvm_ffi")  # fmt: skip
# OpenCL before TensorFlow, which breaks what is loaded after it.
OPENCL = ("pyclesperanto", "pyopencl")
ROW_TIMEOUT = 300


def cell(source: str, target: str) -> dict[str, Any]:
    """One conversion: its report and its time, or why it is refused."""
    values = np.arange(SHAPE[0] * SHAPE[1], dtype=np.float32).reshape(SHAPE)
    try:
        x = convert(values, source)
        result, report = convert(x, target, report=True)
        right = bool(np.array_equal(core.to_host(result), values))
        times = []
        for _ in range(15):
            start = perf_counter()
            result = convert(x, target)
            times.append(perf_counter() - start)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {
        "route": report.route,
        "reasons": list(report.reasons),
        "passes": report.passes,
        "protocol": report.protocol,
        "seconds": median(times),
        "right": right,
    }


def run_row(source: str, targets: list[str]) -> None:
    """Prints the cells of a row, one a line, in this process."""
    for name in sorted({source, *targets}, key=lambda name: name not in OPENCL):
        try:
            core.convert(np.ones(SHAPE, np.float32), name)  # warms it up, in the order that works
        except Exception:
            continue  # its cells will say why
    for target in targets:
        print(json.dumps([target, cell(source, target)]), flush=True)


def row(source: str, targets: list[str]) -> dict[str, Any]:
    """The cells of a row from a child process; those that it did not get to, each from one of its own."""
    command = [sys.executable, "-m", "arraybridge", "--row", source, *targets]
    environment = {**os.environ, "LD_BIND_NOW": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        child = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=ROW_TIMEOUT, check=False
        )
        output, code = child.stdout, str(child.returncode)
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        code = "timeout"
    cells: dict[str, Any] = dict(json.loads(line) for line in output.splitlines() if line.startswith("["))
    missing = [target for target in targets if target not in cells]
    if len(targets) == 1 and missing:
        cells[missing[0]] = {"error": f"the process ended with {code}"}
    elif missing:
        for target in missing:
            cells.update(row(source, [target]))
    return cells


def survey(matrix: bool = True) -> dict[str, Any]:
    """Everything that is printed, as JSON has it."""
    installed = {adapter.name: adapter.installed() for adapter in adapters.every()}
    frameworks = [
        {"name": name, "installed": there, "version": adapters.named(name).version() if there else ""}
        for name, there in installed.items()
    ]
    names = [name for name, there in installed.items() if there]
    names.sort(key=lambda name: MATRIX.index(name) if name in MATRIX else len(MATRIX))
    return {
        "version": __version__,
        "backends": [vars(backend) for backend in core.backends()],
        "devices": [{"device": str(device), **vars(device)} for device in core.devices()],
        "frameworks": frameworks,
        "shape": list(SHAPE),
        "dtype": "float32",
        "matrix": {source: row(source, list(names)) for source in names} if matrix else {},
    }


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m arraybridge", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--plot", metavar="FILE.svg", help="draw the matrix to a file")
    parser.add_argument("--no-matrix", action="store_true", help="leave the conversions out")
    parser.add_argument("--row", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.row:
        run_row(options.row[0], options.row[1:])
        return 0
    found = survey(not options.no_matrix)
    if options.plot:
        with open(options.plot, "w", encoding="utf-8") as file:
            file.write(as_svg(found))
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
