from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from .info import Device, Report

class Tensor:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> Device: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def data_ptr(self) -> int: ...
    @property
    def _facts(self) -> tuple[int, int, int]: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @overload
    def to(
        self,
        to: Any = None,
        *,
        device: Any = None,
        dtype: Any = None,
        copy: bool | None = None,
        layout: Literal["C", "F", "keep"] | None = None,
        stream: Any = None,
        writable: bool = False,
        report: Literal[False] = False,
    ) -> Any: ...
    @overload
    def to(
        self,
        to: Any = None,
        *,
        device: Any = None,
        dtype: Any = None,
        copy: bool | None = None,
        layout: Literal["C", "F", "keep"] | None = None,
        stream: Any = None,
        writable: bool = False,
        report: Literal[True],
    ) -> tuple[Any, Report]: ...
    def _convert(
        self,
        *,
        device_type: int = 0,
        device_id: int = 0,
        dtype: str | None = None,
        copy: int = 0,
        layout: int = 0,
        casting: int = 0,
        alignment: int = 0,
        consumers: int = 0,
        flags: int = 0,
        src_stream: int = 0,
        dst_stream: int = 0,
    ) -> tuple[Tensor, tuple[int, int, int, int, int, int]]: ...
    def _plan(
        self,
        *,
        device_type: int = 0,
        device_id: int = 0,
        dtype: str | None = None,
        copy: int = 0,
        layout: int = 0,
        casting: int = 0,
        alignment: int = 0,
        consumers: int = 0,
        flags: int = 0,
        src_stream: int = 0,
        dst_stream: int = 0,
    ) -> tuple[int, int, int, int, int, int]: ...
    def _as_read_only(self) -> Tensor: ...
    def _copy_into(
        self,
        destination: Tensor,
        /,
        *,
        casting: int = 0,
        flags: int = 0,
        src_stream: int = 0,
        dst_stream: int = 0,
    ) -> tuple[int, int, int, int, int, int]: ...

@overload
def convert(
    x: Any,
    to: Any = None,
    *,
    device: Any = None,
    dtype: Any = None,
    copy: bool | None = None,
    layout: Literal["C", "F", "keep"] | None = None,
    stream: Any = None,
    writable: bool = False,
    report: Literal[True],
) -> tuple[Any, Report]: ...
@overload
def convert(
    x: Any,
    to: Literal["numpy"],
    *,
    device: Any = None,
    dtype: Any = None,
    copy: bool | None = None,
    layout: Literal["C", "F", "keep"] | None = None,
    stream: Any = None,
    writable: bool = False,
    report: Literal[False] = False,
) -> np.ndarray[Any, Any]: ...
@overload
def convert(
    x: Any,
    to: Any = None,
    *,
    device: Any = None,
    dtype: Any = None,
    copy: bool | None = None,
    layout: Literal["C", "F", "keep"] | None = None,
    stream: Any = None,
    writable: bool = False,
    report: Literal[False] = False,
) -> Any: ...
def asdlpack(x: Any, /) -> Tensor: ...
def from_capsule(capsule: Any, /) -> Tensor: ...
def from_buffer(x: Any, /) -> Tensor: ...
def from_exchange(x: Any, /) -> Tensor: ...
def from_ndarray(x: Any, /) -> Tensor | None: ...
def late_capsule(tensor: Tensor, /) -> Any: ...
def to_ndarray(tensor: Tensor, /) -> NDArray[Any]: ...
def to_exchange(cls: type, tensor: Tensor, /) -> Any: ...
def current_stream(cls: type, device_type: int, device_id: int, /) -> int | None: ...
def wrap(
    data: int,
    shape: tuple[int, ...],
    byte_strides: tuple[int, ...] | None,
    dtype: str,
    device_type: int,
    device_id: int,
    owner: Any,
    read_only: bool,
    byte_offset: int,
    /,
) -> Tensor: ...
def add_source(
    cls: type,
    adapter: int,
    kind: int,
    buffer_to_numpy: bool,
    immutable: bool,
    attributes: tuple[str, ...],
    methods: tuple[str, ...],
    /,
) -> None: ...
def add_target(keys: tuple[Any, ...], adapter: int, kind: int, consumer: int, call: Any, legacy: bool, /) -> None: ...
def backends() -> list[tuple[str, bool, str]]: ...
def devices() -> list[tuple[int, int, str, str, int, int]]: ...
def parse_dtype(text: str, /) -> str: ...
def status_name(status: int, /) -> str: ...
def version() -> tuple[str, int]: ...
