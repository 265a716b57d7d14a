"""The exceptions, under the module name of arraybridge 0.2."""

from arraybridge.errors import (
    CopyRequiredError,
    InvalidMemoryTypeError,
    MemoryConversionError,
    UnsupportedDtypeError,
)

__all__ = ["CopyRequiredError", "InvalidMemoryTypeError", "MemoryConversionError", "UnsupportedDtypeError"]
