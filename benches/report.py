"""What bench.py measured as text, as targets met or missed, and as a chart. Reads its JSON file as well."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

NAMES = {"memcpy": "memcpy", "torch": "PyTorch", "numpy": "NumPy"}
MB = 1 << 20


def dumps(result: dict) -> str:
    """JSON with one case a line."""
    parts = [f'"machine": {json.dumps(result["machine"], indent=1)}']
    for key in ("nanoseconds", "cases"):
        lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in result[key])
        parts.append(f'"{key}": [\n{lines}\n]')
    return "{" + ",\n".join(parts) + "}\n"


# ---- lines while it runs ---------------------------------------------------------------------------


def heading(group: str) -> str:
    columns = "".join(f"{'x ' + n:>22}" for n in NAMES.values())
    return f"\n{group:<46}{'threads':>8}{'memory':>8}{'us':>11}{'GB/s':>7}{columns}"


def number(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def line(record: dict) -> str:
    ns = record["ns"]["arraybridge"]
    text = f"{record['name']:<46}{record['threads']:>8}{record['memory']:>8}"
    text += f"{ns / 1000:>11.2f}{record['bytes'] / ns:>7.1f}"
    for name in NAMES:
        values = record["ratio"].get(name)
        text += f"{'{} [{}-{}]'.format(*map(number, values)) if values else '-':>22}"
    return text


# ---- targets ---------------------------------------------------------------------------------------


def geomean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


Pick = Callable[[dict], float | None]


def beside(*names: str) -> Pick:
    """How many times as fast as the fastest of these."""

    def pick(record: dict) -> float | None:
        values = [record["ratio"][n][0] for n in names if n in record["ratio"]]
        return min(values) if values else None

    return pick


def target(what: str, records: Sequence[dict], pick: Pick, mean: float | None, each: float | None) -> dict:
    values = [(v, f"{r['group']}/{r['name']}") for r in records if (v := pick(r)) is not None]
    needed = [f"{name} {value:g}" for name, value in [("mean", mean), ("each", each)] if value is not None]
    row = {"target": what, "needed": " ".join(needed), "cases": len(values)}
    if not values:
        return row  # without a verdict: not measured
    row["mean"], (row["least"], row["worst"]) = geomean([v for v, _ in values]), min(values)
    row["under"] = sum(v < each for v, _ in values) if each is not None else 0
    if mean is None and each is None:
        return row | {"verdict": ""}
    passed = (mean is None or row["mean"] >= mean) and not row["under"]
    return row | {"verdict": "pass" if passed else "FAIL"}


def at_most(what: str, value: float, limit: float | None) -> dict:
    row = {"target": what, "needed": "", "cases": 1, "least": value, "verdict": ""}
    if limit is None:
        return row
    return row | {"needed": f"at most {limit:g}", "verdict": "pass" if value <= limit else "FAIL"}


PERMUTATIONS = ["permute", "permute small", "channels", "batched transpose"]


def targets(result: dict) -> Iterator[dict]:
    cases = result["cases"]
    counts = sorted({r["threads"] for r in cases})

    def some(threads: int, groups: Sequence[str], memory: str = "reused", name: str = "") -> list[dict]:
        return [r for r in cases if r["threads"] == threads and r["memory"] == memory
                and r["group"] in groups and name in r["name"]]  # fmt: skip

    for t in counts:
        on = f"{t} thread" + "s" * (t > 1)
        yield target(f"contiguous copies / memcpy, {on}", some(t, ["copy"]), beside("memcpy"), None, 0.95)
        yield target(f"contiguous copies, cold / memcpy, {on}", some(t, ["copy cold"]), beside("memcpy"), None, 0.95)
        for group in ["all permutations", *PERMUTATIONS]:
            records = some(t, [group] if group in PERMUTATIONS else PERMUTATIONS)
            yield target(f"{group} / memcpy, {on}", records, beside("memcpy"), 0.5 if t == 1 else 0.75, 0.35)
            yield target(f"{group} / PyTorch, {on}", records, beside("torch"), 4, 1)
            yield target(f"{group} / NumPy, {on}", records, beside("numpy"), 10, 1)
        for group in ("every second", "reversed"):
            records = some(t, [group])
            yield target(f"{group} / PyTorch and NumPy, {on}", records, beside("torch", "numpy"), None, 1)
        for layout in ("", "contiguous ", "rows ", "transposed ", "every second "):
            records, what = some(t, ["cast"], name=layout), f"casts, {layout.strip()}" if layout else "all casts"
            yield target(f"{what} / memcpy, {on}", records, beside("memcpy"), 0.85, None)
            yield target(f"{what} / PyTorch, {on}", records, beside("torch"), None, 1)
        yield target(f"casts, small / PyTorch, {on}", some(t, ["cast small"]), beside("torch"), None, 1)
        records = some(t, ["cast", "cast small"], name="float8")
        yield target(f"float8 / ml_dtypes, {on}", records, beside("numpy"), None, 20)
        for memory in ("reused", "new"):
            records = some(t, ["picture"], memory)
            yield target(f"HWC to CHW / PyTorch, {memory} memory, {on}", records, beside("torch"), None, 2)
        for group in dict.fromkeys(r["group"] for r in cases if r["memory"] == "new"):
            records = some(t, [group], "new")
            what = f"new memory, {group} / better of NumPy and PyTorch, {on}"
            yield target(what, records, beside("numpy", "torch"), 1.5, None)
        for group in dict.fromkeys(r["group"] for r in cases if "writes" in r["ratio"]):
            what = f"{group} / writing alone, {on}"
            yield target(what, some(t, [group]), beside("writes"), None, None)
        if t == 1:
            small = [r for r in some(t, ["permute small", "every second", "reversed"]) if r["name"].endswith(" 4 KB")]
            yield target("strided copies of 4 KB / NumPy", small, beside("numpy"), None, 3)
        elif 1 in counts:
            gaining = [r for r in cases if r["threads"] == t and r["memory"] == "reused"
                       and r["memcpy_gain"][0] >= 1.3]  # fmt: skip
            yield target(f"{on} / 1 thread, where memcpy gains 1.3", gaining, lambda r: r["gain"][0], None, 1.3)

    for entry in result["nanoseconds"]:
        name, ns, headers = entry["name"], entry["ns"][0], entry["of_header"][0]
        limit = 60 if name.startswith("convert") else 25 if name.startswith("detect") else None
        yield at_most(f"{name}, ns", ns, limit)
        if limit == 60:
            yield at_most(f"{name} / malloc, fill, free", headers, 3)


def summary(result: dict) -> str:
    """`mean` is geometric; above 1, arraybridge is faster."""
    columns = f"{'needed':>20}{'cases':>6}{'mean':>8}{'least':>8}{'under':>6}  {'':<5} least of"
    lines, missing = [f"\n{'arraybridge / ...':<70}{columns}"], []
    for row in targets(result):
        if "verdict" not in row:
            missing.append(row["target"])
            continue
        mean, least = (row.get(name) for name in ("mean", "least"))
        text = f"{row['target']:<70}{row['needed']:>20}{row['cases']:>6}{number(mean) if mean else '':>8}"
        text += f"{number(least):>8}{row.get('under') or '':>6}"
        lines.append(f"{text}  {row['verdict']:<5} {row.get('worst', '')}".rstrip())
    verdicts = [row["verdict"] for row in targets(result) if row.get("verdict")]
    lines.append(f"\n{verdicts.count('pass')} of {len(verdicts)} targets met")
    if missing:
        lines.append(f"not measured: {'; '.join(missing)}")
    return "\n".join(lines)


# ---- chart -----------------------------------------------------------------------------------------

COLOURS = {"memcpy": "#9aa0a6", "torch": "#d9622b", "numpy": "#3b6fb6"}
GROUPS = {
    "copy": "contiguous copy",
    "copy cold": "contiguous copy, out of cache",
    "permute": "permutations from 64 MB",
    "permute small": "permutations to 1 MB",
    "channels": "NHWC to NCHW and back",
    "batched transpose": "batched transposes",
    "every second": "every second element",
    "reversed": "reversed axes",
    "cast": "casts, 64 MB",
    "cast small": "casts to 1 MB",
    "picture": "uint8 HWC to float32 CHW",
}
LEFT, WIDTH, BAR, GAP, TOP = 210, 300, 11, 14, 84
TICKS = (0.01, 0.1, 1, 10, 100, 1000)


def svg(result: dict) -> str:
    """Bars of geometric means with the range of the cases, on a logarithmic axis, for each number of threads."""
    cases = [r for r in result["cases"] if r["memory"] == "reused"]
    groups = [g for g in GROUPS if any(r["group"] == g for r in cases)]
    counts = sorted({r["threads"] for r in cases})
    if not groups:
        return '<svg xmlns="http://www.w3.org/2000/svg"/>\n'
    medians = [r["ratio"][n][0] for r in cases for n in r["ratio"] if n in NAMES]
    low, high = max(0.01, min(0.3, *medians)), min(1000, max(10, *medians))
    block = len(NAMES) * BAR + GAP
    height, width = TOP + len(groups) * block + 34, LEFT + len(counts) * (WIDTH + 40)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"',
        'font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        '<text x="12" y="22" font-size="15" font-weight="600">Speed of arraybridge, in multiples of</text>',
    ]
    for i, name in enumerate(NAMES):
        x = LEFT + i * 90
        parts.append(f'<rect x="{x}" y="35" width="11" height="11" fill="{COLOURS[name]}"/>')
        parts.append(f'<text x="{x + 16}" y="45">{NAMES[name]}</text>')

    for panel, t in enumerate(counts):
        left = LEFT + panel * (WIDTH + 40)

        def at(value: float, left: int = left) -> float:
            return round(left + WIDTH * math.log(min(max(value, low), high) / low) / math.log(high / low), 1)

        parts.append(f'<text x="{left}" y="{TOP - 12}" font-weight="600">{t} thread{"s" * (t > 1)}</text>')
        for tick in TICKS:
            if low <= tick <= high:
                stroke, x = "#444444" if tick == 1 else "#dddddd", at(tick)
                parts.append(f'<path d="M{x} {TOP - 4}V{height - 30}" stroke="{stroke}"/>')
                parts.append(f'<text x="{x}" y="{height - 16}" text-anchor="middle" fill="#555555">{tick:g}</text>')
        for row, group in enumerate(groups):
            y = TOP + row * block
            if panel == 0:
                middle = y + len(NAMES) * BAR / 2 + 4
                parts.append(f'<text x="{LEFT - 10}" y="{middle}" text-anchor="end">{escape(GROUPS[group])}</text>')
            for i, name in enumerate(NAMES):
                chosen = [r for r in cases if r["group"] == group and r["threads"] == t]
                values = [r["ratio"][name][0] for r in chosen if name in r["ratio"]]
                if not values:
                    continue
                top, mean = y + i * BAR, geomean(values)
                begin, end = sorted((at(1), at(mean)))
                shape = f'x="{begin}" y="{top}" width="{max(1, end - begin):.1f}" height="{BAR - 2}"'
                parts.append(f'<rect {shape} fill="{COLOURS[name]}"/>')
                span = f"M{at(min(values))} {top + BAR / 2 - 1}H{at(max(values))}"
                parts.append(f'<path d="{span}" stroke="#222222" stroke-opacity=".55"/>')
                label = f'x="{max(at(max(values)), at(1)) + 4}" y="{top + 8.5}" font-size="9"'
                parts.append(f'<text {label} fill="#333333">{number(mean)}</text>')
    machine = result["machine"]
    versions = {"NumPy": machine["versions"]["numpy"], "PyTorch": machine["versions"]["torch"]}
    note = f"{machine['cpu']}, {machine['date']}" + "".join(f", {n} {v}" for n, v in versions.items() if v)
    parts.append(f'<text x="12" y="{height - 3}" font-size="10" fill="#555555">{escape(note)}; into reused memory; '
                 "geometric mean and range of the cases</text>")  # fmt: skip
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("json", type=Path, help="what bench.py --json wrote")
    parser.add_argument("--svg", type=Path, help="save the chart there")
    arguments = parser.parse_args()
    result = json.loads(arguments.json.read_text())
    group = None
    for record in result["cases"]:
        if record["group"] != group:
            group = record["group"]
            print(heading(group))
        print(line(record))
    print(summary(result))
    if arguments.svg:
        arguments.svg.write_text(svg(result))


if __name__ == "__main__":
    main()
