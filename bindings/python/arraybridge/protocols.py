"""Objects to tensors, protocol by protocol; what the frameworks' adapters and unknown objects share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _native
from ._native import Tensor
from .errors import InvalidTensorError, MemoryConversionError, UnsupportedDtypeError
from .info import HOST_READABLE

if TYPE_CHECKING:
    from .adapters.base import Adapter, Export, Lookup

__all__ = ["export", "from_interface", "request", "short"]

CUDA = 2
_ALL_KEYWORDS = ("stream", "max_version", "dl_device", "copy")


def export(x: Any, lookup: Lookup, adapter: Adapter | None = None) -> Export:
    """An object's memory, by the first of its protocols that says anything."""
    from .adapters.base import Export

    if isinstance(x, Tensor):
        return Export(x, "arraybridge")
    cls = type(x)
    if lookup.to_numpy and adapter is not None and adapter.buffer_to_numpy:
        try:
            return Export(_native.from_buffer(x), "buffer")
        except Exception:  # a dtype without a format, a device: DLPack has both
            pass
    if hasattr(cls, "__dlpack_c_exchange_api__") or hasattr(cls, "__c_dlpack_exchange_api__"):
        try:
            tensor = _native.from_exchange(x)
        except InvalidTensorError:
            if hasattr(x, "__dlpack__"):
                return _from_dlpack(x, lookup, adapter)
            raise
        kind, number = tensor.__dlpack_device__()
        ready = 0 if kind in HOST_READABLE else _native.current_stream(cls, kind, number) or 0
        return Export(tensor, "dlpack exchange api", ready or (1 if kind == CUDA else 0))
    if hasattr(x, "__dlpack__"):
        return _from_dlpack(x, lookup, adapter)
    interface = getattr(x, "__cuda_array_interface__", None)
    if interface is not None:
        return from_interface(x, interface, "__cuda_array_interface__")
    interface = getattr(x, "__array_interface__", None)
    if interface is not None:
        return from_interface(x, interface, "__array_interface__")
    if hasattr(x, "__array_struct__"):
        return Export(_through_numpy(np.asarray(x)), "__array_struct__")
    try:
        memoryview(x)
    except TypeError:
        pass
    else:
        return Export(_native.from_buffer(x), "buffer")
    if hasattr(x, "__array__"):
        return Export(_through_numpy(np.asarray(x)), "__array__")
    return Export(_numbers(x), "python numbers", copied=True)


def _from_dlpack(x: Any, lookup: Lookup, adapter: Adapter | None) -> Export:
    from .adapters.base import Export

    known = adapter.keywords if adapter is not None else _ALL_KEYWORDS
    refusals = adapter.keyword_errors if adapter is not None else (TypeError,)
    wanted: dict[str, Any] = {"max_version": (1, 3)}
    device = None
    if lookup.stream and hasattr(x, "__dlpack_device__"):
        device = x.__dlpack_device__()
        if int(device[0]) not in HOST_READABLE:
            wanted["stream"] = lookup.stream
    capsule = request(x, {key: value for key, value in wanted.items() if key in known}, refusals)
    tensor = _native.from_capsule(capsule)
    ready = wanted.get("stream", 1) if tensor.__dlpack_device__()[0] == CUDA else 0
    return Export(tensor, "dlpack", ready)


def request(x: Any, keywords: dict[str, Any], refusals: tuple[type[Exception], ...]) -> Any:
    """Asks a producer for a capsule: with keywords, and, if it does not know them, without."""
    if keywords:
        try:
            return x.__dlpack__(**keywords)
        except refusals as error:
            if not isinstance(error, TypeError) and set(keywords) == {"max_version"}:
                raise
    return x.__dlpack__()


def from_interface(x: Any, interface: Any, protocol: str, device: int | None = None) -> Export:
    """A tensor over what one of the two array interfaces describes."""
    from .adapters.base import Export

    cuda = protocol == "__cuda_array_interface__"
    try:
        shape, typestr = tuple(interface["shape"]), interface["typestr"]
        data, strides = interface.get("data"), interface.get("strides")
        offset, mask = interface.get("offset", 0) or 0, interface.get("mask")
        version, offset = int(interface.get("version", 0)), int(offset)
        address, read_only = (int(data[0] or 0), bool(data[1])) if isinstance(data, tuple) else (None, True)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise InvalidTensorError(f"{protocol} is {short(interface)}: {type(error).__name__}: {error}") from error
    if mask is not None:
        raise UnsupportedDtypeError(f"{protocol} has a mask, and no other framework has masks: fill it first")
    if version < (2 if cuda else 3):
        raise InvalidTensorError(f"{protocol} has version {version}: this library reads {2 if cuda else 3} and later")
    if not isinstance(typestr, str):
        raise InvalidTensorError(f"{protocol} has the typestr {typestr!r}: expected a str")
    if address is None:  # a buffer holds the data
        return Export(_through_numpy(np.asarray(x)), protocol)
    if typestr[:1] == "|" and typestr[1:2] in "V" and hasattr(x, "dtype"):
        return Export(_through_numpy(np.asarray(x)), protocol)
    kind, number, ready = 1, 0, 0
    if cuda:
        kind = CUDA
        number = int(getattr(getattr(x, "device", None), "id", 0) or 0) if device is None else device
    try:
        if cuda:
            stream = interface.get("stream")
            ready = 1 if stream is None else int(stream)
            if not 0 <= ready < 2**63:
                raise ValueError(f"stream is {ready}")
        dtype = _native.parse_dtype(typestr)
        tensor = _native.wrap(address, shape, strides, dtype, kind, number, (x, interface), read_only, offset)
    except MemoryConversionError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidTensorError(f"{protocol} is {short(interface)}: {type(error).__name__}: {error}") from error
    return Export(tensor, protocol, ready)


def _through_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    from .adapters.base import Lookup
    from .adapters.numpy import NumPy

    return NumPy().export(array, Lookup()).tensor


def _numbers(x: Any) -> Tensor:
    """Numbers and nested sequences of them, copied."""
    if isinstance(x, (str, dict, set, frozenset)) or x is None:
        raise InvalidTensorError(f"{short(x)} is a {type(x).__name__}: expected an array, a buffer, or nested numbers")
    try:
        array = np.array(x)
    except Exception as error:
        raise InvalidTensorError(f"{short(x)} is no array, buffer, or nested numbers: {error}") from error
    if array.dtype.kind not in "biufc":
        raise InvalidTensorError(f"{short(x)} is a {type(x).__name__}: expected an array, a buffer, or nested numbers")
    return _through_numpy(array)


def short(x: Any) -> str:
    """What an object looks like, in a message."""
    try:
        text = repr(x)
    except Exception:
        text = object.__repr__(x)
    return text if len(text) <= 80 else text[:77] + "..."
