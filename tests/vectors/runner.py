"""Runs the vectors through a binding that is written in Python, and records what came of it in
target/bindings. The README beside this file says what counts as one."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

FOLDER = Path(os.environ.get("ARRAYBRIDGE_VECTORS") or Path(__file__).resolve().parent)
ROOT = FOLDER.parents[1]

OK, UNSUPPORTED_DTYPE, LOSSY = "AB_OK", "AB_E_UNSUPPORTED_DTYPE", "AB_E_LOSSY"
UNSAFE, SAME_KIND, SAFE, EXACT = range(4)
SATURATE = 2

DType = tuple[int, int, int]  # code, bits, lanes


@dataclass
class Side:
    """One side of a copy, as DLPack has it; `strides` None is a NULL pointer."""

    data: int
    dtype: DType
    shape: list[int]
    strides: list[int] | None = None
    byte_offset: int = 0
    padded: bool = False


class Binding(Protocol):
    """What a binding must do. Statuses are names, "AB_OK" for example."""

    name: str

    def copy_into(self, source: Side, destination: Side, casting: int, flags: int) -> str: ...

    def spell(self, text: str) -> tuple[str, DType | None, str]:
        """A status and, if it is AB_OK, the dtype (None: the binding has names only) and its name."""
        ...


@dataclass
class Tally:
    passed: int = 0
    wrong: list[str] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)

    def check(self, holds: bool, what: str) -> None:
        if holds:
            self.passed += 1
        else:
            self.wrong.append(what)

    def write(self, name: str) -> None:
        results = ROOT / "target/bindings"
        results.mkdir(parents=True, exist_ok=True)
        found = {"binding": name, "passed": self.passed, "skipped": self.skipped, "failed": len(self.wrong)}
        (results / f"{name}.json").write_text(json.dumps(found) + "\n")


def address(buffer: bytearray) -> int:
    return ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer)) if buffer else 0


def spread(data: bytearray, width: int, step: int) -> bytearray:
    """Every step-th element, or all of them backwards."""
    elements = [data[at : at + width] for at in range(0, len(data), width)]
    return bytearray().join(elements[::step])


def load(name: str) -> Any:
    return json.loads((FOLDER / name).read_bytes())


def named() -> dict[str, DType]:
    """Every dtype by its name."""
    cases = (case for case in load("dtypes.json") if case.get("name") == case["text"])
    return {case["name"]: (case["code"], case["bits"], case["lanes"]) for case in cases}


def casts(binding: Binding, tally: Tally) -> None:
    index, data = load("casts.json"), bytearray((FOLDER / "casts.bin").read_bytes())
    start, inputs = address(data), index["inputs"]
    dtypes = named()
    room = bytearray(16)
    for cast in index["casts"]:
        given, wanted = cast["from"], cast["to"]
        count, size = inputs[given]["count"], inputs[given]["itemsize"]
        first = start + inputs[given]["offset"]
        what = f"{given} to {wanted}"
        width = inputs[wanted]["itemsize"]
        said = []
        # Forwards, backwards and with gaps: each goes through other loops.
        for step, flags in ((1, 0), (1, SATURATE), (-1, 0), (2, SATURATE), (3, 0)):
            result = bytearray(count * width * abs(step))
            begin = (count - 1) * width if step < 0 else 0
            status = binding.copy_into(
                Side(first, dtypes[given], [count], padded=True),
                Side(address(result), dtypes[wanted], [count], [step], begin, padded=True),
                UNSAFE,
                flags,
            )
            expected = cast["saturate_offset" if flags else "offset"]
            if status != OK:
                said.append(status)
            elif spread(result, width, step) != data[expected : expected + count * width]:
                said.append(f"values, step {step}, flags {flags}")
        tally.check(not said, f"{what}: {said}")
        if given == wanted:
            continue
        survives = data[cast["exact_offset"] : cast["exact_offset"] + count]
        destination = Side(address(room), dtypes[wanted], [], padded=True)
        statuses = [
            binding.copy_into(Side(first + at * size, dtypes[given], [], padded=True), destination, EXACT, 0)
            for at in range(count)
        ]
        tally.check(statuses == [OK if each else LOSSY for each in survives], f"{what}, exactly: {set(statuses)}")


def casting_rules(binding: Binding, tally: Tally) -> None:
    allowed = load("can_cast.json")
    dtypes = {name: dtype for name, dtype in named().items() if name in load("casts.json")["inputs"]}
    source, destination = bytearray(16), bytearray(16)
    for rule, casting in (("same_kind", SAME_KIND), ("safe", SAFE)):
        pairs = {tuple(pair) for pair in allowed[rule]}
        for given in dtypes:
            for wanted in dtypes:
                sides = Side(address(source), dtypes[given], []), Side(address(destination), dtypes[wanted], [])
                status = binding.copy_into(*sides, casting, 0)
                expected = OK if (given, wanted) in pairs else LOSSY
                tally.check(status == expected, f"{rule} {given} to {wanted}: {status}")


def spellings(binding: Binding, tally: Tally) -> None:
    for case in load("dtypes.json"):
        found = binding.spell(case["text"])
        if case.get("refused"):
            tally.check(found[0] == UNSUPPORTED_DTYPE, f"{case['text'][:40]!r} is not refused: {found}")
            continue
        dtype = found[1] and (case["code"], case["bits"], case["lanes"])
        tally.check(found == (OK, dtype, case["name"]), f"{case['text'][:40]!r}: {found}")


def layouts(binding: Binding, tally: Tally) -> None:
    data = bytearray((FOLDER / "layouts.bin").read_bytes())
    for case in load("layouts.json"):
        before = case["dst"]["before_offset"]
        result = bytearray(data[before : before + case["dst"]["size"]])
        starts = address(data) + case["src"]["offset"], address(result)
        sides = (
            Side(start, tuple(dtype.values()), case["shape"], side["strides"], side["byte_offset"], side["padded"])
            for start, dtype, side in zip(starts, (case["from"], case["to"]), (case["src"], case["dst"]), strict=True)
        )
        status = binding.copy_into(*sides, UNSAFE, 0)
        after = case["dst"]["after_offset"]
        tally.check(status == OK and result == data[after : after + len(result)], f"{case['name']}: {status}")


def run(binding: Binding, left_out: dict[str, str] | None = None) -> Iterator[str]:
    """Runs all but what is left out (a function's name, and why), and yields what is wrong."""
    tally = Tally()
    for part in (casts, casting_rules, spellings, layouts):
        why = (left_out or {}).get(part.__name__)
        if why:
            tally.skipped.append({"what": part.__name__.replace("_", " "), "why": why})
        else:
            part(binding, tally)
    tally.write(binding.name)
    yield from tally.wrong
