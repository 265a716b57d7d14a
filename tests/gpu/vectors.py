"""tests/vectors on the devices of this machine: every cast and layout, on every way between them and the
host, bit for bit."""

from __future__ import annotations

import ctypes as C
import json
from collections.abc import Iterator

from library import (
    CAST_EXACT,
    CPU,
    CUDA,
    LOSSY,
    MANAGED,
    PADDED,
    PINNED,
    ROOT,
    SATURATE,
    DataType,
    Driver,
    Failure,
    Memory,
    copy_into,
    options,
    parse,
    tensor,
)

FOLDER = ROOT / "tests/vectors"


def ways(driver: Driver) -> dict[str, tuple[tuple[int, int], tuple[int, int]]]:
    made = {
        "upload": ((CPU, 0), (CUDA, 0)),
        "download": ((CUDA, 0), (CPU, 0)),
        "device": ((CUDA, 0), (CUDA, 0)),
        "pinned": ((PINNED, 0), (CUDA, 0)),
        "managed": ((MANAGED, 0), (PINNED, 0)),
    }
    if driver.count > 1:
        made["peer"] = (CUDA, 0), (CUDA, 1)
    return made


class Room:
    """Memory of one kind that is written and read again and again."""

    def __init__(self, driver: Driver, device: tuple[int, int], size: int):
        self.device = device
        self.memory: Memory | None = None if device[0] == CPU else driver.allocate(size, device)
        self.bytes = C.create_string_buffer(size)
        self.address = C.addressof(self.bytes) if self.memory is None else self.memory.address

    def write(self, data: bytes) -> None:
        if self.memory is None:
            C.memmove(self.address, data, len(data))
        else:
            self.memory.write(data)

    def read(self, size: int) -> bytes:
        return C.string_at(self.address, size) if self.memory is None else self.memory.read(size)


SIZE = 1 << 20


def casts(source: Room, target: Room, quick: bool) -> Iterator[str]:
    """What is wrong."""
    index, data = json.loads((FOLDER / "casts.json").read_text()), (FOLDER / "casts.bin").read_bytes()
    for cast in index["casts"][:: 16 if quick else 1]:
        given, wanted = index["inputs"][cast["from"]], index["inputs"][cast["to"]]
        count, size, to_size = given["count"], given["itemsize"], wanted["itemsize"]
        source.write(data[given["offset"] :][: count * size])
        for step, saturate in [(1, False), (1, True), (-1, False), (2, True)]:
            target.write(b"\xa5" * (count * to_size * 2))
            first = (count - 1) * to_size if step < 0 else 0
            copy_into(
                tensor(source.address, source.device, parse(cast["from"]), [count]),
                tensor(target.address, target.device, parse(cast["to"]), [count], [step], first),
                options(flags=SATURATE if saturate else 0),
                (PADDED, PADDED),
            )
            got = target.read(count * to_size * 2)
            at = (first + index * step * to_size for index in range(count))
            got = b"".join(got[place : place + to_size] for place in at)
            if got != data[cast["saturate_offset" if saturate else "offset"] :][: count * to_size]:
                yield f"{cast['from']} to {cast['to']}, saturate {saturate}, step {step}"


def exact(source: Room, target: Room, quick: bool) -> Iterator[str]:
    """A value of each cast that survives, and one that does not."""
    index, data = json.loads((FOLDER / "casts.json").read_text()), (FOLDER / "casts.bin").read_bytes()
    for cast in index["casts"][:: 16 if quick else 1]:
        if cast["from"] == cast["to"]:
            continue
        given = index["inputs"][cast["from"]]
        count, size = given["count"], given["itemsize"]
        survives = data[cast["exact_offset"] :][:count]
        for element in {survives.find(0), survives.find(1)} - {-1}:
            source.write(data[given["offset"] + element * size :][:size])
            try:
                copy_into(
                    tensor(source.address, source.device, parse(cast["from"]), []),
                    tensor(target.address, target.device, parse(cast["to"]), []),
                    options(casting=CAST_EXACT),
                    (PADDED, PADDED),
                )
                lossy = False
            except Failure as failure:
                if failure.code != LOSSY:
                    raise
                lossy = True
            if lossy == bool(survives[element]):
                yield f"exact {cast['from']} to {cast['to']}, element {element}"


def layouts(source: Room, target: Room, quick: bool) -> Iterator[str]:
    index, data = json.loads((FOLDER / "layouts.json").read_text()), (FOLDER / "layouts.bin").read_bytes()
    for case in (index["cases"] if isinstance(index, dict) else index)[:: 4 if quick else 1]:
        src, dst = case["src"], case["dst"]
        source.write(data[src["offset"] :][: src["size"]])
        target.write(data[dst["before_offset"] :][: dst["size"]])

        def side(room: Room, dtype: dict, of: dict, shape: list[int] = case["shape"]):
            kind = DataType(dtype["code"], dtype["bits"], dtype["lanes"])
            return tensor(room.address, room.device, kind, shape, of["strides"], of["byte_offset"])

        copy_into(
            side(source, case["from"], src),
            side(target, case["to"], dst),
            None,
            (PADDED * src["padded"], PADDED * dst["padded"]),
        )
        if target.read(dst["size"]) != data[dst["after_offset"] :][: dst["size"]]:
            yield f"layout {case['name']}"


def run(driver: Driver, quick: bool) -> Iterator[tuple[str, list[str]]]:
    """What is wrong, by the way."""
    for way, (source, target) in ways(driver).items():
        rooms = Room(driver, source, SIZE), Room(driver, target, SIZE)
        found = [*casts(*rooms, quick), *layouts(*rooms, quick)]
        if way == "device":
            found += exact(*rooms, quick)
        yield way, found
