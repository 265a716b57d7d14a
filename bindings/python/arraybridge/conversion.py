"""Records of what conversions did: the native reports, in the shape of arraybridge 0.5.

Install a ``ConversionObserver`` and each ``convert_memory`` of its context that moved, copied or wrapped
data hands it a ``ConversionRecord``; without one, nothing is measured.
"""

from __future__ import annotations

from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import arraybridge
from arraybridge.places import place_of


@dataclass(frozen=True, slots=True)
class ConversionRecord:
    """One conversion that moved, copied or wrapped data. Pickles, and becomes JSON and back.

    ``mechanism`` is the route that was taken, as ``Report.route`` has it, and ``declined_mechanisms`` the
    reasons why a shorter one was not. ``nbytes`` are the bytes of the result, ``seconds`` the time taken.
    """

    source_library: str
    source_device: str
    target_library: str
    target_device: str
    mechanism: str
    nbytes: int
    seconds: float
    declined_mechanisms: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The fields as a dictionary that ``json`` takes."""
        return {**asdict(self), "declined_mechanisms": list(self.declined_mechanisms)}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> ConversionRecord:
        """The record that ``to_json`` made ``row`` of."""
        return cls(**{**row, "declined_mechanisms": tuple(row["declined_mechanisms"])})


class _CurrentOfThisContext(ABCMeta):
    """Gives ``ConversionObserver.current``, which every context has its own of."""

    @property
    def current(cls) -> ConversionObserver:
        """The observer of the running thread or asyncio task. Assigning replaces it."""
        return _current.get()

    @current.setter
    def current(cls, observer: ConversionObserver) -> None:
        _current.set(observer)


class ConversionObserver(ABC, metaclass=_CurrentOfThisContext):
    """Is handed a record of each conversion while it is installed.

    An observer belongs to the context (``contextvars``) that installed it: a thread starts without one,
    an asyncio task with that of the code which made it. To observe a thread of your own, run it in
    ``contextvars.copy_context().run``.
    """

    wants_records: ClassVar[bool] = True
    """Whether conversions are measured for it."""

    @abstractmethod
    def record(self, record: ConversionRecord) -> None:
        """Takes the record of one finished conversion."""

    def install(self) -> ConversionObserver:
        """Makes this the observer of the running context; returns the one that it replaces."""
        previous = _current.get()
        _current.set(self)
        return previous

    @contextmanager
    def installed(self) -> Iterator[ConversionObserver]:
        """Installs it for the length of a ``with`` block."""
        previous = self.install()
        try:
            yield self
        finally:
            previous.install()


class IgnoreConversions(ConversionObserver):
    """The observer that a context starts with: it asks for no records."""

    wants_records = False

    def record(self, record: ConversionRecord) -> None:
        """Drops the record."""


_IGNORE = IgnoreConversions()
_current: ContextVar[ConversionObserver] = ContextVar("arraybridge_observer", default=_IGNORE)

_MEASURED = ("nbytes", "seconds")
_KIND = tuple(name for name in ConversionRecord.__dataclass_fields__ if name not in _MEASURED)


@dataclass(slots=True)
class ConversionTotal:
    """How many conversions of one kind there were, with their bytes and seconds."""

    count: int = 0
    nbytes: int = 0
    seconds: float = 0.0

    def add(self, count: int, nbytes: int, seconds: float) -> None:
        """Adds conversions to the total."""
        self.count += count
        self.nbytes += nbytes
        self.seconds += seconds


@dataclass(slots=True)
class ConversionCounters(ConversionObserver):
    """Totals of the conversions observed, by everything that a record says but bytes and seconds.

    They are plain data: pickle them, or send ``to_json()`` from another process, and ``merge`` them.
    """

    totals: dict[tuple[Any, ...], ConversionTotal] = field(default_factory=dict)

    def record(self, record: ConversionRecord) -> None:
        """Adds one conversion."""
        self._add(tuple(getattr(record, name) for name in _KIND), 1, record.nbytes, record.seconds)

    def merge(self, other: ConversionCounters) -> ConversionCounters:
        """Adds what ``other`` has counted; returns these counters."""
        for kind, total in other.totals.items():
            self._add(kind, total.count, total.nbytes, total.seconds)
        return self

    def rows(self) -> list[dict[str, Any]]:
        """One row for each kind of conversion, the one of most bytes first, of values that ``json`` takes."""
        return [
            {name: list(value) if isinstance(value, tuple) else value for name, value in row.items()}
            for row in self._sorted()
        ]

    def to_json(self) -> list[dict[str, Any]]:
        """The same as ``rows``."""
        return self.rows()

    @classmethod
    def from_json(cls, rows: Iterable[Mapping[str, Any]]) -> ConversionCounters:
        """The counters that ``to_json`` made ``rows`` of."""
        counters = cls()
        for row in rows:
            kind = tuple(tuple(row[name]) if isinstance(row[name], list) else row[name] for name in _KIND)
            counters._add(kind, row["count"], row["nbytes"], row["seconds"])
        return counters

    def format_table(self) -> str:
        """The rows as a table of text with a line of headings."""
        lines = [("source", "target", "mechanism", "count", "MB", "seconds", "declined")]
        for row in self._sorted():
            lines.append(
                (
                    f"{row['source_library']} {row['source_device']}",
                    f"{row['target_library']} {row['target_device']}",
                    row["mechanism"],
                    str(row["count"]),
                    f"{row['nbytes'] / 1e6:.1f}",
                    f"{row['seconds']:.3f}",
                    ", ".join(row["declined_mechanisms"]),
                )
            )
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )

    def _add(self, kind: tuple[Any, ...], count: int, nbytes: int, seconds: float) -> None:
        self.totals.setdefault(kind, ConversionTotal()).add(count, nbytes, seconds)

    def _sorted(self) -> list[dict[str, Any]]:
        by_bytes = sorted(self.totals.items(), key=lambda item: (-item[1].nbytes, item[0]))
        return [{**dict(zip(_KIND, kind, strict=True)), **asdict(total)} for kind, total in by_bytes]


def recorded_conversion(data: Any, source: str, target: str, device: Any) -> Any:
    """``convert(data, target, device=device)``, told to the context's observer if it did anything."""
    observer = _current.get()
    if not observer.wants_records:  # without keywords convert needs no Python
        return arraybridge.convert(data, target) if device is None else arraybridge.convert(data, target, device=device)
    result, report = arraybridge.convert(data, target, device=device, report=True)
    if result is not data:
        from arraybridge.core import detect

        before, after = detect(data), detect(result)
        observer.record(
            ConversionRecord(
                source_library=source,
                source_device=place_of(before.device).label,
                target_library=target,
                target_device=place_of(after.device).label,
                mechanism=str(report.route),
                nbytes=int(after.nbytes),
                seconds=float(report.seconds),
                declined_mechanisms=tuple(map(str, report.reasons)),
            )
        )
    return result
