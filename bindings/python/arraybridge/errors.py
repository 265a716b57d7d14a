"""Everything that this package raises, and the one table from the library's statuses to it.

Each class is also the built-in exception that callers of the array API expect: BufferError for what is
wrong with a tensor, ValueError for arguments, RuntimeError for drivers, MemoryError.
"""

from __future__ import annotations

__all__ = [
    "BackendUnavailableError",
    "CopyRequiredError",
    "DLPackVersionError",
    "DriverError",
    "FrameworkNotInstalledError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidMemoryTypeError",
    "InvalidTensorError",
    "LossyCastError",
    "MemoryConversionError",
    "OutOfMemoryError",
    "OverlapError",
    "ReadOnlyError",
    "UnsupportedDeviceError",
    "UnsupportedDtypeError",
    "UnsupportedLayoutError",
    "from_status",
]


class MemoryConversionError(Exception):
    """A conversion that cannot be done. The attributes say which, how it was tried, and why it failed."""

    source_type: str
    target_type: str
    method: str
    reason: str

    def __init__(self, source_type: str = "", target_type: str = "", method: str = "", reason: str = "") -> None:
        self.source_type, self.target_type, self.method, self.reason = source_type, target_type, method, reason
        super().__init__(source_type, target_type, method, reason)

    def __str__(self) -> str:
        if self.source_type or self.target_type:
            using = f" using {self.method}" if self.method else ""
            return f"Cannot convert from {self.source_type} to {self.target_type}{using}. Reason: {self.reason}"
        return self.reason


class _Refusal(MemoryConversionError):
    """A refusal of the library: its message is the reason; what was being converted is added on its way up."""

    def __init__(self, reason: str = "") -> None:
        self.source_type, self.target_type, self.method, self.reason = "", "", "", reason
        Exception.__init__(self, reason)

    def __str__(self) -> str:
        return self.reason


class InvalidArgumentError(_Refusal, ValueError):
    """An argument that means nothing: a malformed device, copy, layout, stream or target."""


class InvalidMemoryTypeError(_Refusal, ValueError):
    """A framework that there is not."""


class InvalidTensorError(_Refusal, BufferError):
    """A producer's tensor that cannot be: the message names the field and its value."""


class DLPackVersionError(_Refusal, BufferError):
    """A tensor of another DLPack major version."""


class UnsupportedDeviceError(_Refusal, BufferError, ValueError):
    """A device that there is not, or that the target cannot use."""


class UnsupportedDtypeError(_Refusal, BufferError, ValueError):
    """A dtype that cannot be read, cast to, or that the target has not."""


class UnsupportedLayoutError(_Refusal, BufferError, ValueError):
    """Strides, a rank or an emptiness that the target does not take."""


class BackendUnavailableError(_Refusal, RuntimeError):
    """A driver that is not here: the message says why."""


class FrameworkNotInstalledError(_Refusal, ImportError):
    """A framework that is not installed."""


class CopyRequiredError(_Refusal, BufferError, ValueError):
    """copy=False, and sharing is impossible: the message has every reason."""


class ReadOnlyError(_Refusal, BufferError, ValueError):
    """Read-only memory where it would be written to, or where its mark would be lost."""


class OverlapError(_Refusal, ValueError):
    """A destination that overlaps itself or its source."""


class OutOfMemoryError(_Refusal, MemoryError):
    """An allocation that failed."""


class DriverError(_Refusal, RuntimeError):
    """A driver's call that failed."""


class LossyCastError(_Refusal, ValueError):
    """A cast that the casting rule does not allow."""


class InternalError(_Refusal, RuntimeError):
    """A bug in arraybridge."""


_BY_STATUS: dict[int, type[_Refusal]] = {
    -1: InvalidArgumentError,
    -2: InvalidTensorError,
    -3: DLPackVersionError,
    -4: UnsupportedDeviceError,
    -5: UnsupportedDtypeError,
    -6: UnsupportedLayoutError,
    -7: BackendUnavailableError,
    -8: CopyRequiredError,
    -9: ReadOnlyError,
    -10: OverlapError,
    -11: OutOfMemoryError,
    -12: DriverError,
    -13: LossyCastError,
    -14: InternalError,
}


# The library speaks C to C programmers; these are the same things in Python.
_IN_PYTHON = {
    "AB_COPY_NEVER": "False",
    "AB_COPY_ALWAYS": "True",
    "AB_LAYOUT_ANY": "None",
    "AB_LAYOUT_KEEP": '"keep"',
    "AB_LAYOUT_C": '"C"',
    "AB_LAYOUT_F": '"F"',
    "AB_CONVERT_WRITABLE": "writable=True",
    "source.": "the tensor's ",
}


def from_status(status: int, message: str) -> MemoryConversionError:
    """The exception that stands for one of the library's statuses."""
    for name, value in _IN_PYTHON.items():
        message = message.replace(name, value)
    return _BY_STATUS.get(status, InternalError)(message)
