"""The survey of __main__ for people: tables, and a picture."""

from __future__ import annotations

import sys
from html import escape
from typing import Any

__all__ = ["as_svg", "show"]

# Route: colour of its cells (rich's name, SVG's fill). Light fills, so that black text reads on them.
COLOURS = {
    "zero copy": ("green", "#b7e4c0"),
    "host": ("yellow", "#f6e7a8"),
    "upload": ("cyan", "#bfe3f2"),
    "download": ("cyan", "#bfe3f2"),
    "device": ("cyan", "#bfe3f2"),
    "peer": ("cyan", "#bfe3f2"),
    "staged": ("magenta", "#e5cdf0"),
}
REFUSED = ("red", "#f2c6c0")


def seconds(value: float) -> str:
    """A duration for people."""
    for scale, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * scale >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e9:.0f} ns"


def _cell(cell: dict[str, Any]) -> tuple[str, str, str, str]:
    """Two lines of text and two colours."""
    if "error" in cell:
        return "refused", cell["error"].partition(":")[0], *REFUSED
    if not cell["right"]:
        return "WRONG VALUES", cell["route"], *REFUSED
    return cell["route"], seconds(cell["seconds"]), *COLOURS[cell["route"]]


def _tables(found: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    backends = [[entry["name"], "yes" if entry["available"] else "no", entry["detail"]] for entry in found["backends"]]
    devices = [
        [entry["device"], entry["backend"], entry["name"], f"{entry['total_memory'] / 2**30:.1f} GiB"]
        for entry in found["devices"]
    ]
    frameworks = [
        [entry["name"], entry["version"] if entry["installed"] else "not installed"] for entry in found["frameworks"]
    ]
    return [
        ("Backends", ["name", "usable", "detail"], backends),
        ("Devices", ["device", "backend", "name", "memory"], devices),
        ("Frameworks", ["name", "version"], frameworks),
    ]


def show(found: dict[str, Any]) -> None:
    """Prints the tables; with rich, if it is installed, in colour."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        _show_plainly(found)
        return
    console: Any = Console() if sys.stdout.isatty() else Console(width=180)
    console.print(f"[bold]arraybridge {found['version']}[/bold]")
    for title, columns, rows in _tables(found):
        table = Table(*columns, title=title, title_justify="left")
        for row in rows:
            table.add_row(*row)
        console.print(table)
    matrix = found["matrix"]
    if not matrix:
        return
    table = Table("from \\ to", *matrix, title=_title(found), title_justify="left", show_lines=True)
    for source, cells in matrix.items():
        texts = [_cell(cells[target]) for target in matrix]
        table.add_row(source, *(f"[{colour}]{first}[/{colour}]\n{second}" for first, second, colour, _ in texts))
    console.print(table)
    for line in _refusals(matrix):
        console.print(line, markup=False, highlight=False)


def _title(found: dict[str, Any]) -> str:
    return f"Conversions of {found['dtype']} {tuple(found['shape'])}: route, and median time of a call"


def _refusals(matrix: dict[str, Any]) -> list[str]:
    return [
        f"{source} to {target}: {cell['error']}"
        for source, cells in matrix.items()
        for target, cell in cells.items()
        if "error" in cell
    ]


def _show_plainly(found: dict[str, Any]) -> None:
    print(f"arraybridge {found['version']}")
    tables = _tables(found)
    matrix = found["matrix"]
    if matrix:
        rows = [
            [source, *(" ".join(_cell(cells[target])[:2]) for target in matrix)] for source, cells in matrix.items()
        ]
        tables.append((_title(found), ["from \\ to", *matrix], rows))
    for title, columns, rows in tables:
        widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
        print(f"\n{title}")
        for row in [columns, *rows]:
            print("  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    print("\n".join(["", *_refusals(matrix)]).rstrip())


def as_svg(found: dict[str, Any]) -> str:
    """The matrix as a picture that shows nothing but text and boxes, so that any viewer draws it."""
    matrix = found["matrix"]
    width, height, left, top = 112, 44, 120, 84
    names = list(matrix)
    total = left + width * len(names) + 16, top + height * len(names) + 40
    text = 'font-family="system-ui, sans-serif" fill="#1b1b1b"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total[0]}" height="{total[1]}" '
        f'viewBox="0 0 {total[0]} {total[1]}">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="16" y="28" font-size="15" font-weight="600" {text}>{escape(_title(found))}</text>',
        f'<text x="{left - 10}" y="{top - 12}" font-size="11" text-anchor="end" {text}>from \\ to</text>',
    ]
    for column, name in enumerate(names):
        x = left + width * column + width / 2
        parts.append(f'<text x="{x}" y="{top - 12}" font-size="12" text-anchor="middle" {text}>{escape(name)}</text>')
    for line, source in enumerate(names):
        y = top + height * line
        parts.append(
            f'<text x="{left - 10}" y="{y + height / 2 + 4}" font-size="12" text-anchor="end" {text}>'
            f"{escape(source)}</text>"
        )
        for column, target in enumerate(names):
            first, second, _, fill = _cell(matrix[source][target])
            x = left + width * column
            detail = matrix[source][target].get("error") or matrix[source][target]["protocol"]
            parts.append(
                f"<g><title>{escape(f'{source} to {target}: {detail}')}</title>"
                f'<rect x="{x}" y="{y}" width="{width - 3}" height="{height - 3}" rx="4" fill="{fill}"/>'
                f'<text x="{x + (width - 3) / 2}" y="{y + 18}" font-size="11" text-anchor="middle" {text}>'
                f"{escape(first)}</text>"
                f'<text x="{x + (width - 3) / 2}" y="{y + 33}" font-size="11" text-anchor="middle" {text}>'
                f"{escape(second[:18])}</text></g>"
            )
    parts.append("</svg>\n")
    return "\n".join(parts)
