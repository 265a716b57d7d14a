"""The six memory types: what they are called and which of them have a host and a GPU side.

A memory type names a framework. It says nothing about where one array lives: that is ``detect(x).device``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from arraybridge.converters_registry import ConverterBase

T = TypeVar("T")
ConversionFunc = Callable[[Any], Any]


class ConvertsTo:
    """The methods ``to_numpy(data, gpu_id)``, ``to_torch(data, gpu_id)``... of whatever names a source.

    Each takes an array of the source's framework and is ``convert_memory`` from that framework to the
    one in its name; ``gpu_id`` means what it means there.
    """

    to_numpy: Callable[..., Any]
    to_cupy: Callable[..., Any]
    to_torch: Callable[..., Any]
    to_tensorflow: Callable[..., Any]
    to_jax: Callable[..., Any]
    to_pyclesperanto: Callable[..., Any]

    def _source_type(self) -> str:
        raise NotImplementedError


class MemoryType(ConvertsTo, Enum):
    """A framework, by name. Functions that take a memory type take the member or its value."""

    NUMPY = "numpy"
    CUPY = "cupy"
    TORCH = "torch"
    TENSORFLOW = "tensorflow"
    JAX = "jax"
    PYCLESPERANTO = "pyclesperanto"

    @property
    def converter(self) -> ConverterBase:
        """A new converter whose source is this framework."""
        from arraybridge.converters_registry import get_converter

        return get_converter(self.value)

    def _source_type(self) -> str:
        return str(self.value)


def _conversion_to(target: str) -> Callable[..., Any]:
    def method(self: ConvertsTo, data: Any, *where: Any, **named: Any) -> Any:
        from arraybridge.converters import convert_memory

        return convert_memory(data, self._source_type(), target, *where, **named)

    method.__name__ = f"to_{target}"
    method.__qualname__ = f"{ConvertsTo.__name__}.to_{target}"
    method.__doc__ = f"``data`` as an array of {target}."
    return method


for _each in MemoryType:
    setattr(ConvertsTo, f"to_{_each.value}", _conversion_to(_each.value))

CPU_MEMORY_TYPES: set[MemoryType] = {MemoryType.NUMPY}
GPU_MEMORY_TYPES: set[MemoryType] = set(MemoryType) - CPU_MEMORY_TYPES
SUPPORTED_MEMORY_TYPES: set[MemoryType] = set(MemoryType)

VALID_MEMORY_TYPES: set[str] = {each.value for each in MemoryType}
VALID_GPU_MEMORY_TYPES: set[str] = {each.value for each in GPU_MEMORY_TYPES}

MEMORY_TYPE_NUMPY = MemoryType.NUMPY.value
MEMORY_TYPE_CUPY = MemoryType.CUPY.value
MEMORY_TYPE_TORCH = MemoryType.TORCH.value
MEMORY_TYPE_TENSORFLOW = MemoryType.TENSORFLOW.value
MEMORY_TYPE_JAX = MemoryType.JAX.value
MEMORY_TYPE_PYCLESPERANTO = MemoryType.PYCLESPERANTO.value


class MemoryContractAttribute(str, Enum):
    """The attributes that the memory type decorators set on a function."""

    INPUT = "input_memory_type"
    OUTPUT = "output_memory_type"
    EXECUTION = "execution_memory_type"

    def read(self, owner: object, default: str | None = None) -> str | None:
        """The attribute of a function, or the entry of a mapping, or ``default``."""
        value = owner.get(self.value, default) if isinstance(owner, dict) else getattr(owner, self.value, default)
        if value is None or isinstance(value, str):
            return value
        raise TypeError(f"{self.value} of {owner!r} is {value!r}, not the name of a memory type")

    def write(self, owner: object, value: str) -> None:
        """Sets the attribute of a function, or the entry of a mapping."""
        if isinstance(owner, dict):
            owner[self.value] = value
        else:
            setattr(owner, self.value, value)
