"""What an adapter is: a framework's quirks as data, and the few doors that are its own."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

from .. import _native
from .._native import Tensor
from ..errors import FrameworkNotInstalledError, InvalidArgumentError, UnsupportedDtypeError
from ..info import HOST_READABLE

__all__ = ["Adapter", "Export", "Lookup"]

CPU, CUDA, CUDA_HOST, OPENCL, METAL, ROCM, ONEAPI = 1, 2, 3, 4, 8, 10, 14
CUDA_MANAGED = 13

# The numbers that src/shortcut.c has for ways in and out.
NDARRAY, EXCHANGE, DLPACK = 1, 2, 3
TO_NUMPY, TO_EXCHANGE, TO_CALL = 1, 2, 3


class Export(NamedTuple):
    """An array's memory, how it was had, and the stream after which it is ready (0: it is)."""

    tensor: Tensor
    protocol: str
    stream: int = 0
    copied: bool = False
    """Whether the memory is new: the object has none that could be shared."""


class Lookup(NamedTuple):
    """What the consumer wants, for producers that can do some of it themselves."""

    stream: int = 0
    """The consumer's stream in the array API's numbers; 0: unknown."""
    to_numpy: bool = False
    """Whether the array becomes a NumPy array."""


class Adapter:
    """One framework. Subclass it, fill in the table, override a door where the framework has its own, and
    register() an instance: every function of this package then takes its arrays and makes them.
    """

    # ---- the table ------------------------------------------------------------------------------------

    name: ClassVar[str]
    """What `to=` calls it."""
    import_name: ClassVar[str]
    """The module to import for it."""
    classes: ClassVar[frozenset[tuple[str, str]]]
    """Its arrays: (top-level module, name) of a class somewhere in their MRO."""
    consumer: ClassVar[int] = 0
    """Its bit in the library's table of what importers take (AB_CONSUMER_*); 0: it takes anything."""
    devices: ClassVar[tuple[int, ...]] = (CPU,)
    """DLPack's types of the devices that its arrays live on, the usual one first."""
    keywords: ClassVar[tuple[str, ...]] = ("stream", "max_version", "dl_device", "copy")
    """Those of the array API's keywords that its __dlpack__ takes."""
    keyword_errors: ClassVar[tuple[type[Exception], ...]] = (TypeError,)
    """What its __dlpack__ raises for keywords that it knows and does not do."""
    exchange: ClassVar[bool] = False
    """Whether its classes have __dlpack_c_exchange_api__, in some version."""
    buffer_to_numpy: ClassVar[bool] = False
    """Whether NumPy is best served through its buffer protocol."""
    legacy: ClassVar[bool] = False
    """Whether it takes capsules of the form from before DLPack 1.0 only."""
    immutable: ClassVar[bool] = False
    """Whether its arrays must not be changed, though its capsules do not say so."""
    no_attributes: ClassVar[tuple[str, ...]] = ()
    """Attributes that are true of arrays whose memory is not their value."""
    no_methods: ClassVar[tuple[str, ...]] = ()
    """The same, for methods."""

    alignment: ClassVar[int] = 0
    """Bytes that the address it is given must be a multiple of; 0: what its row in the library's table says."""
    copies: ClassVar[bool] = False
    """Whether it copies whatever it takes."""
    allocates: ClassVar[bool] = False
    """Whether results on its devices must be made in memory of its own, by allocate()."""
    way_in: ClassVar[str] = "dlpack"
    """How a report calls the way that its arrays are made."""
    uploads: ClassVar[str] = ""
    """What brings host data to its devices where the library has no driver for them, if upload() does."""
    downloads: ClassVar[str] = ""
    """The same for download()."""

    # ---- the module -----------------------------------------------------------------------------------

    def installed(self) -> bool:
        """Whether the framework can be imported, found out without doing so."""
        return can_import(self.import_name.partition(".")[0])

    def loaded(self) -> ModuleType | None:
        """The framework's module if somebody has imported it."""
        return sys.modules.get(self.import_name)

    def module(self) -> ModuleType:
        """The framework's module, imported if it must be. FrameworkNotInstalledError if it cannot be."""
        return self.loaded() or import_framework(self.name, self.import_name)

    def version(self) -> str:
        """The framework's version, without importing it where its package is known."""
        from importlib import metadata

        for package in packages_of(self.import_name.partition(".")[0]):
            return metadata.version(package)
        loaded = self.loaded()
        return str(getattr(loaded, "__version__", "")) if loaded else ""

    # ---- its words for things -------------------------------------------------------------------------

    def owns(self, cls: type) -> bool:
        """Whether instances of a class are its arrays."""
        return any((base.__module__.partition(".")[0], base.__name__) in self.classes for base in cls.__mro__)

    def parse_device(self, device: Any) -> tuple[int, int] | None:
        """DLPack's pair for one of the framework's own device objects; None if it is none of them."""
        return None

    def parse_dtype(self, dtype: Any) -> str | None:
        """The name of one of the framework's own dtypes; None if it is none of them."""
        return None

    def device_of(self, x: Any) -> tuple[int, int]:
        """Where an array is, as DLPack's pair."""
        kind, number = x.__dlpack_device__()
        return int(kind), int(number)

    def default_device(self) -> tuple[int, int]:
        """Where the framework would make an array of host data that lives on no device of its own."""
        return self.devices[0], 0

    def place(self, device: tuple[int, int]) -> tuple[int, int]:
        """The nearest device to this one that its arrays can live on."""
        if device[0] in self.devices:
            return device
        if device[0] in HOST_READABLE and CPU in self.devices:
            return CPU, 0
        return self.default_device()

    def stream(self, device: tuple[int, int]) -> int:
        """The framework's current stream on a device, in the array API's numbers; 0: none or unknown."""
        return 0

    # ---- doors ----------------------------------------------------------------------------------------

    def check(self, x: Any) -> None:
        """Raises where an array's memory is not its value, with what to call instead."""

    def check_kept(self, x: Any) -> None:
        """Raises where an object is not even an array of its own framework."""

    def export(self, x: Any, lookup: Lookup) -> Export:
        """An array's memory."""
        from .. import protocols

        self.check(x)
        return protocols.export(x, lookup, self)

    def stays(self, x: Any) -> bool:
        """Whether an array is part of something that only its framework knows, so that within() converts it."""
        return False

    def within(self, x: Any, *, dtype: str | None, device: tuple[int, int] | None, copy: bool | None) -> Any:
        """Converts an array that stays() in the framework."""
        raise NotImplementedError

    def accepts(self, dtype: str) -> int:
        """The bits of the library's table that a tensor of this dtype must satisfy before take() gets it."""
        return self.consumer

    def take(self, tensor: Tensor) -> tuple[Any, str]:
        """An array over a tensor that the framework's row in the library's table accepts, and how."""
        module = self.module()
        if self.legacy:
            return self.from_capsule(tensor.__dlpack__()), "dlpack capsule"
        cls = self.exchange_class()
        if cls is not None:
            return _native.to_exchange(cls, tensor), "dlpack exchange api"
        return module.from_dlpack(tensor), "dlpack"

    def from_capsule(self, capsule: Any) -> Any:
        """An array over a capsule's tensor."""
        return self.module().from_dlpack(capsule)

    def exchange_class(self) -> type | None:
        """The class whose exchange API makes its arrays, if it has one."""
        return None

    def allocate(self, shape: tuple[int, ...], dtype: str, device: tuple[int, int], like: Any) -> Any:
        """A new row-major array. `like` is the device as the caller named it: a context or queue, perhaps."""
        raise NotImplementedError

    def upload(self, tensor: Tensor, device: tuple[int, int], like: Any) -> tuple[Any, str]:
        """An array on one of its devices from a host tensor, by the framework's own means; `like` as above."""
        raise NotImplementedError

    def download(self, x: Any) -> tuple[Tensor, str]:
        """A host tensor of an array on one of its devices, by the framework's own means."""
        raise NotImplementedError

    def prepare(self, dtype: str, shape: tuple[int, ...]) -> None:
        """Raises for what the framework would silently narrow or cannot have."""

    # ---- shortcuts ------------------------------------------------------------------------------------

    def shortcut(self, number: int, module: ModuleType) -> None:
        """Tells the native code how to do without Python what needs no decision."""
        if CPU not in self.devices:
            return
        cls = self.exchange_class() if self.exchange else None
        if cls is not None:
            _native.add_target((self.name, module), number, TO_EXCHANGE, self.consumer, cls, False)


@cache
def packages_of(top: str) -> list[str]:
    """The installed packages that a top-level module comes from."""
    from importlib import metadata

    return list(dict.fromkeys(metadata.packages_distributions().get(top, [])))


def can_import(top: str) -> bool:
    """Whether there is a top-level module of that name, found out without importing it."""
    if top in sys.modules:
        return sys.modules[top] is not None
    try:
        return find_spec(top) is not None
    except (ImportError, ValueError):
        return False


def import_framework(name: str, module: str) -> ModuleType:
    """Imports a framework's module; FrameworkNotInstalledError if it cannot be."""
    try:
        return import_module(module)
    except ImportError as error:
        raise FrameworkNotInstalledError(f"{name} is not available: {error}") from error


def refuse_dtype(framework: str, dtype: str, instead: str) -> UnsupportedDtypeError:
    """The exception for a dtype that a framework lacks."""
    return UnsupportedDtypeError(f"{framework} has no {dtype}: ask for {instead}")


def bad_device(device: Any, expected: str) -> InvalidArgumentError:
    """The exception for a device that means nothing."""
    return InvalidArgumentError(f"device is {device!r}: expected {expected}")
