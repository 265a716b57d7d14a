"""Where C and C++ builds find the library in this package."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["get_cmake_dir", "get_include", "get_library"]

_HERE = Path(__file__).resolve().parent
_LIBRARY = {"darwin": "libarraybridge.dylib", "win32": "arraybridge.dll"}.get(sys.platform, "libarraybridge.so")


def get_include() -> str:
    """The folder for -I: headers are included as <arraybridge/arraybridge.h>."""
    return str(_HERE / "include")


def get_library() -> str:
    """The shared library's file."""
    return str(_HERE / "lib" / _LIBRARY)


def get_cmake_dir() -> str:
    """The folder for arraybridge_DIR, after which find_package(arraybridge) gives arraybridge::arraybridge."""
    return str(_HERE / "lib" / "cmake" / "arraybridge")
