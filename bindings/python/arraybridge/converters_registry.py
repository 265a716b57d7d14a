"""The converters: one class for each memory type, found by its name.

A converter is a spelling of ``convert_memory`` whose source is fixed; nothing is converted here.
"""

from __future__ import annotations

from typing import Any, ClassVar

from arraybridge.converters import GPU_IF_ANY, GpuId, convert_memory
from arraybridge.types import ConvertsTo, MemoryType


class ConverterBase(ConvertsTo):
    """Converts from one framework to the others and back. A subclass that names a memory type is registered."""

    __registry__: ClassVar[dict[str, type[ConverterBase]]] = {}
    memory_type: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.memory_type:
            ConverterBase.__registry__[cls.memory_type] = cls

    def _source_type(self) -> str:
        return self.memory_type

    def from_numpy(self, data: Any, gpu_id: GpuId = GPU_IF_ANY) -> Any:
        """``data``, a NumPy array, as an array of this framework, on GPU ``gpu_id`` or on the host for None."""
        return convert_memory(data, MemoryType.NUMPY, self.memory_type, gpu_id)

    def from_dlpack(self, data: Any, gpu_id: GpuId = GPU_IF_ANY) -> Any:
        """``data``, anything with ``__dlpack__``, as an array of this framework.

        It stays on its device where the framework can use that one, whatever ``gpu_id`` says:
        ``move_to_device`` is the next step.
        """
        from arraybridge import convert

        return convert(data, self.memory_type)

    def move_to_device(self, data: Any, gpu_id: GpuId = GPU_IF_ANY) -> Any:
        """``data``, an array of this framework, on GPU ``gpu_id`` or on the host for None."""
        return convert_memory(data, self.memory_type, self.memory_type, gpu_id)


_CONVERTER_CLASSES: dict[MemoryType, type[ConverterBase]] = {
    each: type(f"{each.value.capitalize()}Converter", (ConverterBase,), {"memory_type": each.value})
    for each in MemoryType
}


def get_converter(memory_type: str) -> ConverterBase:
    """A new converter whose source is ``memory_type``; ValueError if none is registered for it."""
    found = ConverterBase.__registry__.get(memory_type)
    if found is None:
        raise ValueError(
            f"No converter registered for memory type {memory_type!r}: "
            f"there are {', '.join(sorted(ConverterBase.__registry__))}"
        )
    return found()


def _validate_registry() -> None:
    """RuntimeError unless exactly the memory types have converters."""
    wanted = {each.value for each in MemoryType}
    present = set(ConverterBase.__registry__)
    if wanted != present:
        raise RuntimeError(f"Missing: {sorted(wanted - present)}. Extra: {sorted(present - wanted)}.")
