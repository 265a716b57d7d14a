"""The functions of the package. convert() and asdlpack() get here whatever src/shortcut.c does not do."""

from __future__ import annotations

from dataclasses import replace
from operator import index
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _native, adapters, protocols
from ._native import Tensor
from .adapters import Adapter, Export, Lookup
from .errors import (
    BackendUnavailableError,
    CopyRequiredError,
    InvalidArgumentError,
    MemoryConversionError,
    UnsupportedDeviceError,
    UnsupportedDtypeError,
    UnsupportedLayoutError,
)
from .info import (
    CONSUMERS,
    DEVICE_TYPES,
    DRIVEN,
    HOST_READABLE,
    REASONS,
    ROUTES,
    Backend,
    Device,
    Report,
    TensorInfo,
    names_of,
)

__all__ = ["asdlpack", "backends", "convert", "detect", "devices", "from_dlpack", "plan", "to_host"]

_COPY = {None: 0, True: 1, False: 2}
_LAYOUT = {None: 0, "C": 1, "F": 2, "keep": 3}
_WRITABLE = 0x4


class Request(NamedTuple):
    """What a caller wants, in the library's words."""

    device: tuple[int, int] | None
    dtype: str | None
    copy: bool | None
    layout: str | None
    stream: int
    writable: bool
    like: Any = None
    """The device as the caller named it."""

    @property
    def trivial(self) -> bool:
        """Whether the array will do as it is, if it is of the right framework."""
        kept = self[:4] in ((None, None, None, None), (None, None, False, None))
        return kept and not self.stream and not self.writable


# ---- arguments -----------------------------------------------------------------------------------------


def parse_device(device: Any) -> tuple[int, int] | None:
    """DLPack's pair for anything that names a device."""
    if device is None:
        return None
    if isinstance(device, Device):
        return device.pair
    if isinstance(device, str):
        name, colon, number = device.strip().lower().partition(":")
        kind = DEVICE_TYPES.get({"gpu": "cuda", "host": "cpu", "mps": "metal"}.get(name, name))
        if kind is None or (colon and not number.isdecimal()) or len(number) > 6:
            raise InvalidArgumentError(
                f'device is {device!r}: expected "cpu", "cuda", "cuda:1", "opencl:0", a pair of DLPack\'s '
                "numbers, or a framework's device"
            )
        return kind, int(number or 0)
    if isinstance(device, tuple) and len(device) == 2:
        try:
            pair = int(device[0]), int(device[1])
        except (TypeError, ValueError, OverflowError):
            pair = (0, 0)
        if 0 < pair[0] < 2**31 and 0 <= pair[1] < 2**31:
            return pair
        raise InvalidArgumentError(f"device is {protocols.short(device)}: expected DLPack's device type and number")
    for adapter in adapters.every():
        found = adapter.parse_device(device)
        if found is not None:
            return found
    raise InvalidArgumentError(
        f"device is {protocols.short(device)}: expected a name, a pair of DLPack's numbers, or a framework's device"
    )


def parse_dtype(dtype: Any) -> str | None:
    """The library's name for anything that names a dtype."""
    if dtype is None:
        return None
    if isinstance(dtype, str):
        try:
            return _native.parse_dtype(dtype)
        except UnsupportedDtypeError:
            raise
        except (ValueError, UnicodeError) as error:
            raise UnsupportedDtypeError(f"dtype {dtype!r}: {error}") from error
    for adapter in adapters.every():
        found = adapter.parse_dtype(dtype)
        if found is not None:
            return found
    raise UnsupportedDtypeError(f"dtype is {protocols.short(dtype)}: expected a name or a framework's dtype")


def _request(device: Any, dtype: Any, copy: Any, layout: Any, stream: Any, writable: Any) -> Request:
    if copy is not None and not isinstance(copy, (bool, np.bool_)):
        raise InvalidArgumentError(f"copy is {protocols.short(copy)}: expected True, False or None")
    if not (layout is None or (isinstance(layout, str) and layout in _LAYOUT)):
        raise InvalidArgumentError(f'layout is {protocols.short(layout)}: expected "C", "F", "keep" or None')
    if not isinstance(writable, (bool, np.bool_)):
        raise InvalidArgumentError(f"writable is {protocols.short(writable)}: expected True or False")
    return Request(
        parse_device(device),
        parse_dtype(dtype),
        None if copy is None else bool(copy),
        layout,
        parse_stream(stream),
        bool(writable),
        device,
    )


def parse_stream(stream: Any) -> int:
    """A stream in the array API's numbers: an int, or a framework's stream object; 0 for None."""
    if stream is None:
        return 0
    handle: Any = stream
    for attribute in ("cuda_stream", "ptr", "int_ptr"):  # PyTorch, CuPy, PyOpenCL
        handle = getattr(stream, attribute, None)
        if handle is not None:
            break
    if handle is None:
        handle = getattr(stream, "handle", stream)
        handle = getattr(handle, "value", handle)  # Numba's is a ctypes pointer
    try:
        number = index(handle)
    except Exception:  # whatever the object does when it is asked
        number = -2
    if isinstance(stream, int) and number == 0:
        number = -2  # ambiguous: the array API forbids it
    if number < -1 or number >= 2**63:
        raise InvalidArgumentError(
            f"stream is {protocols.short(stream)}: expected None, -1, 1 (legacy default), 2 (per-thread default), a "
            "handle, or a framework's stream"
        )
    return number or 1


# ---- conversions ---------------------------------------------------------------------------------------


def convert(
    x: Any,
    to: Any = None,
    *,
    device: Any = None,
    dtype: Any = None,
    copy: bool | None = None,
    layout: str | None = None,
    stream: Any = None,
    writable: bool = False,
    report: bool = False,
) -> Any:
    """What arraybridge.convert does when the native shortcut does not."""
    started = perf_counter_ns()
    source = adapters.of(x)
    request = _request(device, dtype, copy, layout, stream, writable)
    target = _target(x, source, to)
    try:
        result, done = _Conversion(x, source, target, request).run()
    except MemoryConversionError as error:
        _say_which(error, x, source, target)
        raise
    if target is not None:
        adapters.offer_shortcuts(target)
    return (result, replace(done, seconds=(perf_counter_ns() - started) / 1e9)) if report else result


def plan(
    x: Any,
    to: Any = None,
    *,
    device: Any = None,
    dtype: Any = None,
    copy: bool | None = None,
    layout: str | None = None,
    writable: bool = False,
) -> Report:
    """What convert() would do, without doing it: the same report, or the same exception.

    Between two frameworks' OpenCL arrays it says "device"; whether they share a context, or the data is
    staged, shows only when the result is there.
    """
    source = adapters.of(x)
    request = _request(device, dtype, copy, layout, None, writable)
    target = _target(x, source, to)
    try:
        return _Conversion(x, source, target, request, dry=True).run()[1]
    except MemoryConversionError as error:
        _say_which(error, x, source, target)
        raise


def _target(x: Any, source: Adapter | None, to: Any) -> Adapter | None:
    """The framework of the result; None: a Tensor stays one."""
    if to is not None:
        return adapters.resolve(to)
    if source is not None or isinstance(x, Tensor):
        return source
    return adapters.named("numpy")


def _say_which(error: MemoryConversionError, x: Any, source: Adapter | None, target: Adapter | None) -> None:
    error.source_type = error.source_type or (source.name if source else type(x).__name__)
    error.target_type = error.target_type or (target.name if target else "Tensor")


class _Conversion:
    """One conversion, done or planned: the same steps, the same refusals."""

    def __init__(
        self, x: Any, source: Adapter | None, target: Adapter | None, request: Request, dry: bool = False
    ) -> None:
        self.x, self.source, self.target, self.request, self.dry = x, source, target, request, dry
        self.to_numpy = target is not None and target.name == "numpy"

    def run(self) -> tuple[Any, Report]:
        request, source, target = self.request, self.source, self.target
        if target is source and (source is not None or isinstance(self.x, Tensor)):
            if request.trivial:
                if source is not None:
                    source.check_kept(self.x)
                return self.x, Report("zero copy", (), 0, 0, 0, 0.0, "the same object")
            if source is not None and source.stays(self.x):
                return self._within(source)
        export = self._export()
        if export.copied and request.copy is False:
            raise CopyRequiredError(f"copy is False, but {export.protocol} share no memory")
        self.device = export.tensor.__dlpack_device__()
        place = request.device or (target.place(self.device) if target else self.device)
        if request.stream and {self.device[0], place[0]} <= HOST_READABLE:
            raise InvalidArgumentError(f"stream is {request.stream}: host memory has none, leave it None")
        if target is not None:
            if place[0] not in target.devices:
                raise UnsupportedDeviceError(
                    f"{target.name} has no arrays on {Device(*place)}: its devices are "
                    + ", ".join(Device(kind).__str__().partition(":")[0] for kind in target.devices)
                )
            target.prepare(request.dtype or export.tensor.dtype, export.tensor.shape)
        try:
            if target is not None and target.allocates and not self._stays(export, place):
                return self._into_its_own(export, place, target)
            return self._by_library(export, place)
        except (BackendUnavailableError, UnsupportedDeviceError) as refused:
            if isinstance(refused, UnsupportedDeviceError) and {self.device[0], place[0]} <= DRIVEN:
                raise
            try:
                return self._by_frameworks(export, place)
            except NotImplementedError:
                raise refused from None

    def _export(self) -> Export:
        """The array's memory, marked read-only where its framework's arrays are and NumPy would write."""
        source, stream = self.source, self.request.stream
        if source is None:
            return protocols.export(self.x, Lookup(stream, self.to_numpy))
        if not stream and self.target is not None and source.devices != (1,):
            device = source.device_of(self.x)
            if device[0] not in HOST_READABLE:
                stream = self.target.stream(device)
        export = source.export(self.x, Lookup(stream, self.to_numpy))
        if source.immutable and self.to_numpy and not export.tensor.read_only:
            export = export._replace(tensor=export.tensor._as_read_only())
        return export

    def _options(self, place: tuple[int, int], consumers: int) -> dict[str, Any]:
        request = self.request
        return {
            "device_type": place[0],
            "device_id": place[1],
            "dtype": request.dtype,
            "copy": _COPY[request.copy],
            "layout": _LAYOUT[request.layout],
            "flags": _WRITABLE if request.writable else 0,
            "consumers": consumers,
            "alignment": self.target.alignment if self.target and place[0] in HOST_READABLE else 0,
        }

    def _by_library(self, export: Export, place: tuple[int, int]) -> tuple[Any, Report]:
        target, tensor = self.target, export.tensor
        options = self._options(place, 0 if target is None else target.accepts(self.request.dtype or tensor.dtype))
        options["src_stream"] = export.stream
        options["dst_stream"] = self.request.stream or (
            target.stream(place) if target is not None and place[0] not in HOST_READABLE else 0
        )
        if self.dry:
            done = tensor._plan(**options)
        else:
            tensor, done = tensor._convert(**options)
        _, _, passes, read, written, _ = done
        made = int(export.copied and not passes)
        if target is not None and target.copies and target is not self.source:
            if self.request.copy is False:
                raise CopyRequiredError(f"copy is False, but {target.name} copies whatever it takes")
            made += 1
        how = "tensor" if target is None else target.way_in
        same = target is not None and target is self.source and not passes and not self.request.writable
        if same:
            result, how = self.x, "the same object"
        elif self.dry:
            result = None
        else:
            result, how = (tensor, "tensor") if target is None else target.take(tensor)
        size = made * tensor.nbytes
        return result, Report(
            "host" if made else ROUTES[done[0]],
            names_of(done[1], REASONS) or (("consumer" if target and target.copies else "requested",) if made else ()),
            passes + made,
            read + size,
            written + size,
            0.0,
            f"{export.protocol} > {how}",
        )

    def _stays(self, export: Export, place: tuple[int, int]) -> bool:
        """Whether the array is already what a framework with memory of its own would be given."""
        if self.source is not self.target or self.device != place:
            return False
        return bool(
            export.tensor._plan(**{**self._options(place, 0), "copy": 0})[2] == 0 and self.request.copy is not True
        )

    def _into_its_own(self, export: Export, place: tuple[int, int], target: Adapter) -> tuple[Any, Report]:
        """By the library, into memory that the target has allocated."""
        request, tensor = self.request, export.tensor
        dtype = request.dtype or tensor.dtype
        # What the target takes is the library's to say, of a tensor as it would be.
        _stand_in(tensor, place, dtype)._plan(consumers=target.consumer)
        if request.layout == "F" and len(tensor.shape) > 1:
            raise UnsupportedLayoutError(f'{target.name} has row-major arrays only: ask for layout="C" or None')
        if request.copy is False:
            raise CopyRequiredError(
                f"copy is False, but {target.name} takes memory of its own context only, and the array is on "
                f"{Device(*self.device)}"
            )
        # The library's own refusal comes before anything is allocated.
        done = tensor._plan(device_type=place[0], device_id=place[1], dtype=dtype, copy=1, layout=1)
        result = None
        if not self.dry:
            result = target.allocate(tensor.shape, dtype, place, request.like)
            done = tensor._copy_into(
                target.export(result, Lookup()).tensor, src_stream=export.stream, dst_stream=request.stream
            )
        reasons = names_of(done[1], REASONS)
        return result, Report(
            ROUTES[done[0]], reasons, done[2], done[3], done[4], 0.0, f"{export.protocol} > {target.way_in}"
        )

    def _by_frameworks(self, export: Export, place: tuple[int, int]) -> tuple[Any, Report]:
        """The same where the library has no driver: by what the frameworks do themselves, through the host."""
        request, target, tensor = self.request, self.target, export.tensor
        if request.copy is False:
            raise CopyRequiredError(
                f"copy is False, but the array is on {Device(*self.device)} and the result on {Device(*place)}"
            )
        hops, passes, size = [export.protocol], 0, tensor.nbytes
        moved = 0
        if self.device[0] not in HOST_READABLE:
            if self.source is None or not self.source.downloads:
                raise NotImplementedError
            passes, moved = 1, size
            if self.dry:
                tensor = _stand_in(tensor)
                hops = [self.source.downloads]
            else:
                tensor, how = self.source.download(self.x)
                hops = [how]
        upload = place[0] not in HOST_READABLE
        if upload and (target is None or not target.uploads):
            raise NotImplementedError
        options = self._options(
            (1, 0), 0 if upload or target is None else target.accepts(request.dtype or tensor.dtype)
        )
        if upload:
            options.update(layout=1, copy=0)
        elif passes and options["copy"] == 1:
            options["copy"] = 0  # the download made new memory
        if self.dry:
            done = tensor._plan(**options)
        else:
            tensor, done = tensor._convert(**options)
        reasons = dict.fromkeys((*(["device"] if passes or upload else []), *names_of(done[1], REASONS)))
        passes += done[2]
        read, written = done[3] + moved, done[4] + moved
        result = None
        if upload and target is not None:
            passes += 1
            size = tensor.nbytes
            read, written = read + size, written + size
            hops.append(target.uploads)
            if not self.dry:
                result, hops[-1] = target.upload(tensor, place, request.like)
        elif self.dry:
            hops.append(target.way_in if target else "tensor")
        else:
            result, how = (tensor, "tensor") if target is None else target.take(tensor)
            hops.append(how)
        route = "staged" if upload and moved else "upload" if upload else "download"
        order = tuple(name for name in REASONS if name in reasons)
        return result, Report(route, order, passes, read, written, 0.0, " > ".join(hops))

    def _within(self, adapter: Adapter) -> tuple[Any, Report]:
        """By the framework itself: the array is part of something that only it knows."""
        request = self.request
        if request.layout is not None or request.writable:
            adapter.check(self.x)  # says what it is part of
        changes = request.dtype is not None or request.device is not None or request.copy is True
        if changes and request.copy is False:
            raise CopyRequiredError(f"copy is False, but the array stays in {adapter.name}, which copies it")
        result = None
        if not self.dry:
            result = adapter.within(self.x, dtype=request.dtype, device=request.device, copy=request.copy)
        passes = int(changes if result is None else result is not self.x)
        return result, Report("device" if passes else "zero copy", (), passes, 0, 0, 0.0, adapter.name)


def _stand_in(tensor: Tensor, device: tuple[int, int] = (1, 0), dtype: str | None = None) -> Tensor:
    """A row-major tensor of the same shape, for planning: its data is never touched."""
    return _native.wrap(256, tensor.shape, None, dtype or tensor.dtype, *device, None, False, 0)


# ---- the rest ------------------------------------------------------------------------------------------


def asdlpack(x: Any) -> Tensor:
    """What arraybridge.asdlpack does for all but NumPy arrays and bytes."""
    source = adapters.of(x)
    try:
        if type(x).__name__ == "PyCapsule":
            return _native.from_capsule(x)
        export = source.export(x, Lookup()) if source else protocols.export(x, Lookup())
        if export.copied:
            raise CopyRequiredError(f"{protocols.short(x)} has no memory to share: make an array of it first")
    except MemoryConversionError as error:
        _say_which(error, x, source, None)
        raise
    if source is not None and source.immutable and not export.tensor.read_only:
        return export.tensor._as_read_only()
    return export.tensor


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """The tensor of a DLPack producer, as the array API standard defines it.

    x: an object with __dlpack__. device: where the result must be; None: where x is. copy: True always,
    False never (CopyRequiredError), None as needed. The producer is asked first; what it does not do is done
    here. Its exceptions propagate.
    """
    request = _request(device, None, copy, None, None, False)
    if not hasattr(type(x), "__dlpack__") and not hasattr(x, "__dlpack__"):
        raise AttributeError(f"{protocols.short(x)} has no __dlpack__: arraybridge.asdlpack takes other protocols too")
    source = adapters.of(x)
    if source is not None:
        source.check(x)
    wanted: dict[str, Any] = {"max_version": (1, 3)}
    if request.device is not None:
        wanted["dl_device"] = request.device
    if request.copy is not None:
        wanted["copy"] = request.copy
    known = source.keywords if source else ("stream", "max_version", "dl_device", "copy")
    refusals: tuple[type[Exception], ...] = source.keyword_errors if source else (TypeError,)
    asked = {key: value for key, value in wanted.items() if key in known}
    answered, earlier = set(asked), None
    try:
        try:
            capsule = x.__dlpack__(**asked) if asked.keys() - {"max_version"} else None
        except refusals:
            capsule = None
        except BufferError as error:
            if request.device is None or request.copy is False:
                raise
            capsule, earlier = None, error
        if capsule is None:
            answered = {"max_version"}
            capsule = protocols.request(x, {key: asked[key] for key in asked.keys() & answered}, refusals)
        tensor = _native.from_capsule(capsule)
    except BufferError as error:
        if request.copy is False and not isinstance(error, CopyRequiredError):
            raise CopyRequiredError(f"copy is False, and the producer says: {error}") from error
        raise
    there = request.device is None or tensor.__dlpack_device__() == request.device
    if there and ("copy" in answered or request.copy is not True):
        return tensor
    place = request.device or tensor.__dlpack_device__()
    try:
        done, _ = tensor._convert(device_type=place[0], device_id=place[1], copy=_COPY[request.copy])
    except (BackendUnavailableError, UnsupportedDeviceError) as error:
        if place[0] in HOST_READABLE and source is not None and source.downloads and request.copy is not False:
            return source.download(x)[0]
        raise error from earlier
    except MemoryConversionError as error:
        raise error from earlier
    return done


def to_host(x: Any, *, copy: bool | None = None) -> NDArray[Any]:
    """Any array as a NumPy array: a view of host memory, read-only where x is, else a copy."""
    array: NDArray[Any] = convert(x, "numpy", device="cpu", copy=copy)
    return array


def tensor_as_array(tensor: Tensor, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
    """Tensor.__array__."""
    array: NDArray[Any] = convert(tensor, "numpy", device="cpu", dtype=dtype, copy=copy)
    return array


def detect(x: Any) -> TensorInfo:
    """What an array is: framework, shape, dtype, device, layout, and who takes it as it stands."""
    source = adapters.of(x)
    export = source.export(x, Lookup(to_numpy=False)) if source else protocols.export(x, Lookup())
    tensor = export.tensor
    flags, alignment, consumers = tensor._facts
    return TensorInfo(
        framework=source.name if source else None,
        shape=tensor.shape,
        strides=tensor.strides,
        dtype=tensor.dtype,
        device=tensor.device,
        nbytes=tensor.nbytes,
        read_only=tensor.read_only or bool(source and source.immutable),
        c_contiguous=bool(flags & 0x1),
        f_contiguous=bool(flags & 0x2),
        alignment=alignment,
        accepted_by=names_of(consumers, CONSUMERS),
        protocol=export.protocol,
    )


def devices() -> list[Device]:
    """The devices that can be used here. Starts their drivers."""
    return [Device(*fields) for fields in _native.devices()]


def backends() -> list[Backend]:
    """The ways to move data that are built in, usable here or not."""
    return [Backend(*fields) for fields in _native.backends()]
