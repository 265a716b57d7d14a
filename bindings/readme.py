#!/usr/bin/env python3
"""Fills READMEs with lines of tested files, so that what they show is what runs.

A file marks lines by two comments, [readme] and [/readme] for the README's section "Use it from", or [page]
and [/page] for a page that has `<!-- from FILE [page] -->` before a code block; there may be several such
pairs in a file.

usage: readme.py [--check]    --check writes nothing, and exits 1 where a README is not what the files say
"""

import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Language, name of its code blocks, where its marked file is, and how to get at it.
LANGUAGES = [
    ("C", "c", ["tests/c/readme.c"],
     "`cargo build --release`, then `cc program.c -I include -L target/release -larraybridge`."),
    ("C++", "cpp", ["bindings/cpp", "tests/cpp"],
     "C++17 and later, one header over the same library: [bindings/cpp](bindings/cpp/README.md)."),
    ("Rust", "rust", ["tests/api.rs"],
     "`cargo add --path ../arraybridge`, and `cargo doc --open` has the rest. With the feature "
     "`ndarray`, arrays of that crate go in and out."),
    ("Python", "python", ["bindings/python/tests"],
     "`pip install ./bindings/python`: [bindings/python](bindings/python/README.md)."),
    ("Go", "go", ["bindings/go"], "By cgo: [bindings/go](bindings/go/README.md)."),
    ("Node", "js", ["bindings/node"], "With TypeScript's types: [bindings/node](bindings/node/README.md)."),
    ("Java", "java", ["bindings/java"], "17 and later: [bindings/java](bindings/java/README.md)."),
    ("LuaJIT", "lua", ["bindings/luajit"],
     "The shared library alone: [bindings/luajit](bindings/luajit/README.md) has `tensor`, `struct` and `call`."),
    ("ctypes and cffi", "python", ["bindings/ctypes"],
     "Python without a package: [bindings/ctypes](bindings/ctypes/README.md) has `tensor`, `struct` and `call`; "
     "[bindings/cffi](bindings/cffi/README.md) is alike."),
]  # fmt: skip
BEGIN, END = "<!-- written by bindings/readme.py from tested files -->\n", "<!-- end -->\n"
PAGES = [f"bindings/{name}/README.md" for name in ("ctypes", "cffi", "luajit")]
SOURCES = {".c", ".cc", ".cpp", ".rs", ".py", ".go", ".js", ".mjs", ".ts", ".java", ".lua"}


def marked(path, mark):
    """The lines between the marks, each pair's without its indent; marks of other kinds are left out."""
    parts, inside = [], False
    for line in path.read_text().splitlines():
        if f"[{mark}]" in line or f"[/{mark}]" in line:
            inside = f"[{mark}]" in line
            if inside:
                parts.append([])
        elif inside and not re.search(r"\[/?(readme|page)\]", line):
            parts[-1].append(line)
    return "\n\n".join(textwrap.dedent("\n".join(lines)).strip("\n") for lines in parts)


def source(places):
    """The first file with marked lines."""
    for place in map(ROOT.joinpath, places):
        # Installed files and build folders are no sources.
        files = sorted(place.rglob("*")) if place.is_dir() else [place]
        for path in files:
            made = {"node_modules", "target", "build"} & set(path.relative_to(ROOT).parts)
            if path.suffix in SOURCES and path.is_file() and not made and marked(path, "readme"):
                return path
    return None


def section():
    text = ""
    for language, fence, places, how in LANGUAGES:
        path = source(places)
        if path:
            lines = marked(path, "readme")
            if len(lines.splitlines()) > 12:
                sys.exit(f"{path.relative_to(ROOT)} marks {len(lines.splitlines())} lines: 12 at most")
            text += f"**{language}.** {how}\n\n```{fence}\n{lines}\n```\n\n"
    return text


def fill_section(text):
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n" + section() + END + rest.partition(END)[2]


def fill_page(path, text):
    def block(match):
        lines = marked(path.parent / match[2], "page")
        return f"{match[1]}{match[3]}{lines}\n```\n"

    return re.sub(r"(<!-- from (\S+) \[page\] -->\n)(```\w+\n).*?```\n", block, text, flags=re.S)


def main():
    stale = []
    for name in ["README.md", *PAGES]:
        path = ROOT / name
        text = path.read_text()
        wanted = fill_section(text) if name == "README.md" else fill_page(path, text)
        if wanted != text and sys.argv[1:] == ["--check"]:
            stale.append(name)
        elif wanted != text:
            path.write_text(wanted)
    if stale:
        sys.exit(f"not what the tested files say: {', '.join(stale)}; run bindings/readme.py")


if __name__ == "__main__":
    main()
