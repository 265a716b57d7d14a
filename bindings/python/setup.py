"""Builds the library with cargo and puts it, its headers and package files beside the Python code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
CRATE = HERE.parent.parent
PACKAGE = HERE / "arraybridge"
LIBRARY = {"darwin": "libarraybridge.dylib", "win32": "arraybridge.dll"}.get(sys.platform, "libarraybridge.so")
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def build_library() -> Path:
    """Runs cargo; returns the shared library's path."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", CRATE / "target"))
    command = ["cargo", "build", "--release", "--lib", "--manifest-path", str(CRATE / "Cargo.toml")]
    try:
        subprocess.run([*command, "--target-dir", str(target)], check=True)
    except FileNotFoundError:
        sys.exit("arraybridge is built with Rust: install it from https://rustup.rs, then try again")
    return target / "release" / LIBRARY


def write_package_files(lib: Path) -> None:
    """Fills in the templates of cmake/, which find the library and the headers by where they are themselves."""
    version = re.search(r'^version = "(.+)"', (CRATE / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert version, "Cargo.toml has a version"
    settings = {
        "@ARRAYBRIDGE_VERSION@": version[1],
        "@ARRAYBRIDGE_LIB_TO_INCLUDE@": "../include",
        "@ARRAYBRIDGE_LIBS_PRIVATE@": "",  # the static library is not here
    }
    for template in (*(CRATE / "cmake").glob("arraybridge*.in"), CRATE / "cmake/arraybridge-targets.cmake"):
        name = template.name.removesuffix(".in")
        folder = lib / ("pkgconfig" if name.endswith(".pc") else "cmake/arraybridge")
        text = template.read_text(encoding="utf-8")
        for placeholder, value in settings.items():
            text = text.replace(placeholder, value)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


class BuildExt(build_ext):
    """Adds the library, headers, CMake and pkg-config files, then compiles the native module against them."""

    def run(self) -> None:
        package = PACKAGE if self.inplace else Path(self.build_lib) / "arraybridge"
        files = {
            build_library(): package / "lib" / LIBRARY,
        }
        for header in (CRATE / "include/arraybridge").iterdir():
            files[header] = package / "include/arraybridge" / header.name
        for source, destination in files.items():
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, destination)
        write_package_files(package / "lib")
        for extension in self.extensions:
            extension.library_dirs.append(str(package / "lib"))
        super().run()


class BdistWheel(bdist_wheel):
    """One wheel for every Python since 3.10; a free-threaded Python has an ABI of its own."""

    def finalize_options(self) -> None:
        if not FREE_THREADED:
            self.py_limited_api = "cp310"
        super().finalize_options()


native = Extension(
    "arraybridge._native",
    sources=sorted(str(path.relative_to(HERE)) for path in (HERE / "src").glob("*.c")),
    depends=["src/native.h", "src/python.h"],
    include_dirs=[str(CRATE / "include")],
    libraries=["arraybridge"],
    define_macros=[] if FREE_THREADED else [("Py_LIMITED_API", "0x030A0000")],
    py_limited_api=not FREE_THREADED,
    extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden"],
    extra_link_args=["-Wl,-rpath," + ("@loader_path/lib" if sys.platform == "darwin" else "$ORIGIN/lib"), "-pthread"],
)

setup(ext_modules=[native], cmdclass={"build_ext": BuildExt, "bdist_wheel": BdistWheel})
