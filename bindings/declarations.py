#!/usr/bin/env python3
"""Writes the declarations of the bindings for Node and Java from the C header, or checks that they are
what it says.

usage: declarations.py [--check]    needs a C compiler (CC, else cc), which gives every value and offset
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BINDINGS = Path(__file__).resolve().parent
INCLUDE = BINDINGS.parent / "include"
NOTE = "Written by bindings/declarations.py from arraybridge.h: change it there."

# What DLPack adds: its structs, flattened into those of the header that hold them, and its flags.
DLPACK = {
    "DLPackVersion": ["major", "minor"],
    "DLDevice": ["device_type", "device_id"],
    "DLDataType": ["code", "bits", "lanes"],
    "DLTensor": ["data", "device", "ndim", "dtype", "shape", "strides", "byte_offset"],
    "DLManagedTensorVersioned": ["version", "manager_ctx", "deleter", "flags", "dl_tensor"],
}
NESTED = {"version": "DLPackVersion", "device": "DLDevice", "dtype": "DLDataType", "dl_tensor": "DLTensor"}
FLAGS = [
    "DLPACK_FLAG_BITMASK_READ_ONLY",
    "DLPACK_FLAG_BITMASK_IS_COPIED",
    "DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED",
]
FLAT = ["DLDevice", "DLDataType", "DLTensor", "DLManagedTensorVersioned"]


class Header:
    """Constants, structs with flattened fields, and functions, in the header's order."""

    def __init__(self):
        text = (INCLUDE / "arraybridge" / "arraybridge.h").read_text()
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        self.constants = re.findall(r"^#define (AB_\w+) +\S", text, flags=re.M) + FLAGS
        dlpack = (INCLUDE / "arraybridge" / "dlpack.h").read_text()
        self.constants += re.findall(r"^ +(kDL\w+) *=", dlpack, flags=re.M)
        body = re.sub(r"^#.*$", "", text, flags=re.M)
        self.structs = {name: DLPACK[name] for name in FLAT}
        for name, fields in re.findall(r"typedef struct (\w+) \{(.*?)\} \w+;", body, flags=re.S):
            fields = [" ".join(field.split()) for field in fields.split(";") if field.strip()]
            self.structs[name] = [re.search(r"\(\*(\w+)\)|(\w+)(?:\[\d+\])?$", field) for field in fields]
            self.structs[name] = [match[1] or match[2] for match in self.structs[name]]
        self.structs = {name: list(flattened(fields)) for name, fields in self.structs.items()}
        body = re.sub(r"typedef struct \w+ \{.*?\} \w+;", "", body, flags=re.S)
        pattern = r"^((?:const )?\w+ \*?)\s*(ab_\w+)\(((?:[^()]|\([^()]*\))*)\);"
        self.functions = {}
        for returns, name, arguments in re.findall(pattern, body, flags=re.M | re.S):
            arguments = re.sub(r"\(\*\w+\)\([^()]*\)", "*", arguments)
            arguments = [" ".join(argument.split()) for argument in arguments.split(",")]
            kinds = [kind(argument) for argument in arguments if argument != "void"]
            self.functions[name] = ("string" if "*" in returns else kind(returns.strip() + " x"), kinds)
        self.measure()

    def measure(self):
        """Asks the compiler for what the header leaves to it."""
        lines = ["#include <arraybridge/arraybridge.h>", "#include <stdio.h>", "int main(void) {"]
        for name in self.constants:
            lines.append(f'printf("%lld\\n", (long long)({name}));')
        for name, fields in self.structs.items():
            tag = f"struct {name}" if name == "DLManagedTensorVersioned" else name
            lines.append(f'printf("%zu\\n", sizeof({tag}));')
            for field in fields:
                what = f"(({tag} *)0)->{field}"
                lines.append(
                    f'printf("%zu %zu %s\\n", offsetof({tag}, {field}), sizeof({what}), _Generic({what}, int32_t: '
                    '"int32", uint32_t: "uint32", int64_t: "int64", uint64_t: "uint64", uint8_t: "uint8", '
                    'uint16_t: "uint16", char *: "text", default: "pointer"));'
                )
        lines.append("return 0; }")
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder) / "probe.c", Path(folder) / "probe"
            source.write_text("\n".join(lines))
            compiler = os.environ.get("CC", "cc")
            subprocess.run([compiler, "-std=c11", "-I", INCLUDE, source, "-o", program], check=True)
            answers = iter(subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines())
        self.constants = {name: int(next(answers)) for name in self.constants}
        for name, fields in self.structs.items():
            size = int(next(answers))
            measured = {}
            for field in fields:
                offset, width, what = next(answers).split()
                # Whether an enum has a sign is the compiler's choice.
                what = "int32" if field.endswith("device_type") else what
                measured[field] = (int(offset), int(width), what)
            self.structs[name] = (size, measured)


def flattened(fields, prefix=""):
    for field in fields:
        if field in NESTED:
            yield from flattened(DLPACK[NESTED[field]], f"{prefix}{field}.")
        else:
            yield prefix + field


def kind(argument):
    """The kind of an argument: pointers are one, whatever they point to."""
    if "*" in argument:
        return "pointer"
    kinds = {"ab_status": "int32", "void": "void", "uint32_t": "uint32", "uint64_t": "uint64", "size_t": "uint64"}
    return kinds[argument.rsplit(" ", 1)[0]]


def node(header):
    lines = [f"// {NOTE}", "", "/** @type {Record<string, number>} */", "export const constants = {"]
    lines += [f"  {name}: {value}," for name, value in header.constants.items()]
    lines += ["};", "", "/** Size of each struct, and offset, size and type of each field. */", "export const structs = {"]
    for name, (size, fields) in header.structs.items():
        lines.append(f"  {name}: {{")
        lines.append(f"    size: {size},")
        lines.append("    fields: {")
        for field, (offset, width, what) in fields.items():
            lines.append(f"      '{field}': [{offset}, {width}, '{what}'],")
        lines += ["    },", "  },"]
    lines += ["};", "", "/** Result and arguments of each function. */", "export const functions = {"]
    for name, (returns, arguments) in header.functions.items():
        lines.append(f"  {name}: ['{returns}', [{', '.join(repr(argument) for argument in arguments)}]],")
    lines.append("};")
    return "\n".join(lines) + "\n"


def constant(field):
    return field.replace(".", "_").upper()


def java(header):
    lines = [
        f"// {NOTE}",
        "package org.arraybridge;",
        "",
        "/** Values, sizes and offsets of the C ABI on 64-bit systems. */",
        "final class Abi {",
        "    private Abi() {}",
        "",
    ]
    for name, value in header.constants.items():
        lines.append(f"    static final int {name} = {value};")
    for name, (size, fields) in header.structs.items():
        lines += ["", f"    /** {name}. */", f"    static final class {camel(name)} {{"]
        lines.append(f"        private {camel(name)}() {{}}")
        lines.append("")
        lines.append(f"        static final int BYTES = {size};")
        for field, (offset, width, what) in fields.items():
            lines.append(f"        static final int {constant(field)} = {offset};")
            if what == "text":
                lines.append(f"        static final int {constant(field)}_SIZE = {width};")
        lines.append("    }")
    lines += [
        "",
        "    /** Every function: its name, its result, its arguments. */",
        "    static final String[][] FUNCTIONS = {",
    ]
    for name, (returns, arguments) in header.functions.items():
        lines.append(f"        {{{', '.join(chr(34) + word + chr(34) for word in [name, returns, *arguments])}}},")
    lines += ["    };", "}"]
    return "\n".join(lines) + "\n"


def camel(name):
    return "".join(part[0].upper() + part[1:] for part in name.split("_"))


def main():
    header = Header()
    stale = []
    for path, text in {
        BINDINGS / "node" / "src" / "abi.js": node(header),
        BINDINGS / "java" / "src" / "main" / "java" / "org" / "arraybridge" / "Abi.java": java(header),
    }.items():
        if sys.argv[1:] == ["--check"]:
            if not path.exists() or path.read_text() != text:
                stale.append(str(path.relative_to(BINDINGS)))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if stale:
        sys.exit(f"not what arraybridge.h says: {', '.join(stale)}; run bindings/declarations.py")
    if sys.argv[1:] == ["--check"]:
        counts = len(header.constants), len(header.structs), len(header.functions)
        print("declarations agree with arraybridge.h: %d constants, %d structs, %d functions" % counts)


if __name__ == "__main__":
    main()
