#!/usr/bin/env python3
"""Writes the C declarations as those read them who load the plain shared library:

    arraybridge.cdef         for cffi (ABI mode) and LuaJIT: the headers without comments and macros
    ctypes/declarations.py   for ctypes

usage: cdef.py [--check]    --check writes nothing, and exits 1 where a file is not what the headers say
"""

import re
import sys
from pathlib import Path

BINDINGS = Path(__file__).resolve().parent
HEADERS = [BINDINGS.parent / "include/arraybridge" / name for name in ("dlpack.h", "arraybridge.h")]
# What only Python's C API can use ends the DLPack header.
EXCHANGE = "/* ---- exchange between Python array libraries"

# Constants that are bits, and so unsigned.
FLAGS = re.compile("AB_(TENSOR|CONSUMER|CONVERT|REASON)_|DLPACK_FLAG_")

Constants = list[tuple[str, int]]


def parse(path: Path) -> tuple[Constants, list[str]]:
    """The constants of a header and its declarations, each on one line."""
    text = path.read_text().split(EXCHANGE)[0]
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    macros = re.findall(r"^#define ([A-Z]\w+) +(\S.*)$", text, flags=re.M)
    constants = [(name, number(value)) for name, value in macros if re.match(r"[-\d(]", value)]
    # Of what depends on the language, the C half: that is behind #else, or left out.
    text = re.sub(r"^#ifdef __cplusplus.*?^(?:#else(.*?)^)?#endif", r"\1", text, flags=re.M | re.S)
    text = " ".join(line for line in text.splitlines() if not line.startswith("#"))
    declarations, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == ";" and depth == 0:
            declarations.append(" ".join(text[start:at].split()))
            start = at + 1
    return constants, declarations


def number(value: str) -> int:
    """A plain number, or one that is shifted."""
    digits = [int(part, 0) for part in re.findall(r"-?\b(?:0x[0-9a-fA-F]+|\d+)", value)]
    return digits[0] << digits[1] if "<<" in value else digits[0]


# ---- cffi and LuaJIT -------------------------------------------------------------------------------


def cdef(constants: Constants, declarations: list[str]) -> str:
    lines = ["/* Written by bindings/cdef.py from dlpack.h and arraybridge.h, where every name is documented. */"]
    for name, value in constants:
        # LuaJIT has no constants of 64 bits, nor needs one.
        kind = "uint32_t" if FLAGS.match(name) else "int32_t"
        lines.append(f"static const {kind} {name} = {value};")
    for declaration in declarations:
        if match := re.match(r"(.*\{) (.*?);? (\}.*)", declaration):
            fields = re.split(r"(?<=[;,]) " if "enum" in match[1] else r"(?<=;) ", match[2])
            ending = "" if "enum" in match[1] else ";"
            declaration = "\n".join([match[1], *(f"  {each}" for each in fields)]) + f"{ending}\n{match[3]}"
        lines.append(f"{declaration};")
    return "\n".join(lines) + "\n"


# ---- ctypes ----------------------------------------------------------------------------------------

SCALARS = {
    **{f"{sign}int{bits}_t": f"C.c_{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "size_t": "C.c_size_t",
    "char": "C.c_char",
    "ab_status": "C.c_int32",
    "DLDeviceType": "C.c_int32",
}

PROLOGUE = '''"""The declarations of arraybridge.h and dlpack.h, where every name is documented, for ctypes.

Written by bindings/cdef.py: change it there.
"""

import ctypes as C
import os
'''

EPILOGUE = '''

def load(path):
    """The library in a file, its functions declared. OSError: it is missing, or of another ABI."""
    library = C.CDLL(os.fspath(path))
    if not hasattr(library, "ab_abi_version"):
        raise OSError(f"{path} is not arraybridge: it has no ab_abi_version")
    library.ab_abi_version.restype = C.c_uint32
    major, minor = divmod(library.ab_abi_version(), 1 << 16)
    if major != AB_ABI_MAJOR or minor < AB_ABI_MINOR:
        needed = f"{AB_ABI_MAJOR}.{AB_ABI_MINOR} or a later minor version is needed"
        raise OSError(f"{path} has ABI {major}.{minor}: {needed}")
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
'''


def ctype(text: str) -> tuple[str, str]:
    """Type and name of a C field, parameter or function result."""
    if match := re.match(r"(.*?)\(\*(\w+)\)\((.*)\)$", text):
        result, name, parameters = match.groups()
        types = [ctype(f"{result.strip()} result")[0], *(ctype(each)[0] for each in parameters.split(","))]
        return f"C.CFUNCTYPE({', '.join(types)})", name
    words, count = re.match(r"(.*?)(?:\[(\d+)\])?$", text.replace("const ", "").replace("struct ", "").strip()).groups()
    base, stars, name = re.match(r"(\w+) ?(\**) ?(\w*)$", words).groups()
    if stars and base in ("void", "char", "ab_context"):
        kind, stars = {"char": "C.c_char_p"}.get(base, "C.c_void_p"), stars[1:]
    else:
        kind = "None" if base == "void" else SCALARS.get(base, base)
    for _ in stars:
        kind = f"C.POINTER({kind})"
    return (f"{kind} * {count}" if count else kind), name


def ctypes(constants: Constants, declarations: list[str]) -> str:
    lines = [PROLOGUE]
    lines += [f"{name} = {hex(value) if FLAGS.match(name) else value}" for name, value in constants]
    structs, functions = [], []
    for declaration in declarations:
        if match := re.match(r"typedef enum \{(.*)\}", declaration):
            lines.append("")
            lines += [entry.strip() for entry in re.sub(r"(\d)U\b", r"\1", match[1]).split(",")]
        elif match := re.match(r"typedef struct(?: \w+)? \{(.*)\} (\w+)", declaration):
            structs += ["", "", f"class {match[2]}(C.Structure):", "    _fields_ = ["]
            for field in filter(None, (field.strip() for field in match[1].split(";"))):
                kind, name = ctype(re.sub(rf"struct {match[2]} ?\*", "void *", field))
                structs.append(f'        ("{name}", {kind}),')
            structs.append("    ]")
        elif match := re.match(r"(.*?)(ab_\w+)\((.*)\)$", declaration):
            result, name, parameters = match.groups()
            parameters = [] if parameters == "void" else re.split(r",(?![^()]*\)(?!\())", parameters)
            types = ", ".join(ctype(each)[0] for each in parameters)
            functions.append(f'    "{name}": ({ctype(result.strip() + " result")[0]}, [{types}]),')
    lines += [*structs, "", "", "# Result and parameters of each function.", "FUNCTIONS = {", *functions, "}"]
    return "\n".join(lines) + "\n" + EPILOGUE


def main() -> None:
    constants, declarations = (sum(parts, []) for parts in zip(*map(parse, HEADERS), strict=True))
    files = {
        BINDINGS / "arraybridge.cdef": cdef(constants, declarations),
        BINDINGS / "ctypes/declarations.py": ctypes(constants, declarations),
    }
    if sys.argv[1:] == ["--check"]:
        stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
        if stale:
            names = ", ".join(str(path.relative_to(BINDINGS)) for path in stale)
            sys.exit(f"not what the headers say: {names}; run bindings/cdef.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        for path, text in files.items():
            path.write_text(text)


if __name__ == "__main__":
    main()
