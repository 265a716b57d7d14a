"""Decorators that declare which framework's arrays a function works on, and see to it that it gets them.

``@torch`` and its like: the arguments that are arrays become arrays of the framework, the results become
arrays of ``output_type``, and the first result has the dtype of the first array argument, or the one asked
for in the call. The body runs on this thread's own stream of its GPU, ordered before and after what the
caller's stream does, and again, after the framework has freed its cache, when memory runs out.
``memory_types`` only converts.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeAlias, TypeVar, cast, overload

import numpy as np

from arraybridge import convert
from arraybridge._frameworks import FRAMEWORKS, Framework, memory_type_name
from arraybridge.converters import GPU_IF_ANY, GpuId, convert_memory, detect_memory_type, is_array, placement
from arraybridge.dtype_scaling import SCALING_FUNCTIONS, restored
from arraybridge.oom_recovery import _execute_with_oom_recovery
from arraybridge.slice_processing import process_slices
from arraybridge.types import MemoryContractAttribute, MemoryType

F = TypeVar("F", bound=Callable[..., Any])
_Arguments: TypeAlias = "tuple[tuple[Any, ...], dict[str, Any]]"


class DtypeConversion(Enum):
    """The dtype that a decorated function's first result has."""

    PRESERVE_INPUT = "preserve"
    """That of the first array argument, with the values kept."""
    NATIVE_OUTPUT = "native"
    """Whatever the function gave."""
    UINT8 = "uint8"
    """uint8, floating values stretched over 0 to 255; the others likewise."""
    UINT16 = "uint16"
    INT16 = "int16"
    INT32 = "int32"
    FLOAT32 = "float32"
    FLOAT64 = "float64"

    @property
    def numpy_dtype(self) -> type[np.generic] | None:
        """The NumPy scalar type of a fixed dtype; None for the two that are none."""
        if self in (DtypeConversion.PRESERVE_INPUT, DtypeConversion.NATIVE_OUTPUT):
            return None
        scalar: type[np.generic] = np.dtype(self.value).type
        return scalar

    def apply(self, result: Any, memory_type: str, original: Any) -> Any:
        """``result``, an array of ``memory_type`` computed from the array ``original``, in this dtype."""
        if self is DtypeConversion.NATIVE_OUTPUT or not hasattr(result, "dtype"):
            return result
        if self is DtypeConversion.PRESERVE_INPUT:
            return result if original is None else restored(result, original.dtype, memory_type, original)
        return SCALING_FUNCTIONS[memory_type](result, self.numpy_dtype)


class DtypeConversionConfig:
    """Carries a call's ``DtypeConversion`` as the ``dtype_config`` argument."""

    default_dtype_conversion: DtypeConversion = DtypeConversion.PRESERVE_INPUT


@dataclass(frozen=True)
class PreserveInputDtypeConfig(DtypeConversionConfig):
    """The dtype of the first array argument: what calls that say nothing get."""

    default_dtype_conversion: DtypeConversion = DtypeConversion.PRESERVE_INPUT


PRESERVE_INPUT_DTYPE_CONFIG = PreserveInputDtypeConfig()


class SliceBySliceRuntimeParameter:
    """The keyword argument ``slice_by_slice`` that decorated functions take."""

    @classmethod
    def require_parameter_name(cls) -> str:
        """Its name."""
        return "slice_by_slice"

    @classmethod
    def default_value(cls) -> bool:
        """What it is when a call does not give it: False."""
        return False

    @classmethod
    def annotation_type(cls) -> type[bool]:
        """Its type."""
        return bool

    @classmethod
    def parameter(cls, *, default_value: bool | None = None) -> inspect.Parameter:
        """It as a parameter of a signature."""
        return inspect.Parameter(
            cls.require_parameter_name(),
            inspect.Parameter.KEYWORD_ONLY,
            default=cls.default_value() if default_value is None else default_value,
            annotation=cls.annotation_type(),
        )


@dataclass(frozen=True)
class _Bridge:
    """What happens around one decorated function's calls."""

    body: Framework | None
    """The framework whose arrays the function is given; None: as they come."""
    output: Framework | None
    """The framework whose arrays its callers are given; None: as they come."""
    gpu_id: GpuId = GPU_IF_ANY
    contract: Any = None
    recovers: bool = False

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], slices: bool) -> Any:
        """The results of one call, as arrays of ``output``."""
        attempt = functools.partial(self._attempt, function, args, kwargs, slices)
        if self.recovers and self.body is not None:
            return _execute_with_oom_recovery(attempt, self.body.name)
        return attempt()

    def _attempt(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], slices: bool
    ) -> Any:
        given, arrays = self._given((args, kwargs))
        with (self.body or FRAMEWORKS["numpy"]).own_stream(arrays) as handed_over:  # NumPy has none
            result = _by_slices(function, given) if slices else function(*given[0], **given[1])
            if callable(self.contract) and not self.contract(result):
                raise ValueError(f"Function {function.__name__} violated its output contract")
            handed_over.extend(each for each in _arrays(result) if self._is_bodys(each))
        return self._to_output(result) if isinstance(result, np.generic) else _mapped(result, self._to_output)

    def _given(self, call: _Arguments) -> tuple[_Arguments, list[Any]]:
        """The arguments, with the arrays as those of the body, and these arrays."""
        body, place = self.body, self.gpu_id
        arrays = list(_arguments(call))
        if body is None:
            return call, []
        if place is GPU_IF_ANY:  # nothing was asked: the body's own arrays stay, and the others go where these are
            own = [each for each in arrays if self._is_bodys(each)]
            if len(own) == len(arrays):
                return call, arrays
            place = body.gpu_of(own[0]) if own else place

        def converted(array: Any) -> Any:
            if self.gpu_id is GPU_IF_ANY and self._is_bodys(array):
                return array
            source = detect_memory_type(array)
            if source is None:
                return convert(array, body.name, device=placement(body, place))
            return convert_memory(array, source, body.name, place)

        given = _mapped(call[0], converted), _mapped(call[1], converted)
        return given, list(_arguments(given))

    def _is_bodys(self, array: Any) -> bool:
        return self.body is not None and _is_of(array, self.body)

    def _to_output(self, array: Any) -> Any:
        return array if self.output is None or _is_of(array, self.output) else convert(array, self.output.name)


def _by_slices(function: Callable[..., Any], given: _Arguments) -> Any:
    """The call with each slice of the first array argument in its place, if that one is 3-D."""
    args, kwargs = given
    image = next(_arguments(given), None)
    if image is None or len(image.shape) != 3:
        return function(*args, **kwargs)

    def with_slice(each: Any) -> Any:
        def exchanged(array: Any) -> Any:
            return each if array is image else array

        return function(*_mapped(args, exchanged), **_mapped(kwargs, exchanged))

    return process_slices(image, with_slice, (), {})


def _is_of(array: Any, kind: Framework) -> bool:
    """Whether an array is one of the framework's, NumPy's masked ones included."""
    return detect_memory_type(array) == kind.name or (kind.name == "numpy" and isinstance(array, np.ndarray))


def _arrays(value: Any) -> Iterator[Any]:
    """``value`` if it is an array, else those in it if it is a tuple, a list or a dictionary."""
    if isinstance(value, (tuple, list)):
        yield from filter(is_array, value)
    elif isinstance(value, dict):
        yield from filter(is_array, value.values())
    elif is_array(value):
        yield value


def _arguments(call: _Arguments) -> Iterator[Any]:
    """The arguments that are arrays, in their order."""
    yield from _arrays(call[0])
    yield from _arrays(call[1])


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """``value`` with ``change`` made to each of its ``_arrays``; the same object where that changes none."""
    if isinstance(value, dict):
        changed = {key: change(each) if is_array(each) else each for key, each in value.items()}
        return changed if any(changed[key] is not value[key] for key in value) else value
    if isinstance(value, (tuple, list)):
        items = [change(each) if is_array(each) else each for each in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return change(value) if is_array(value) else value


def memory_types(
    input_type: str | MemoryType | None = None,
    output_type: str | MemoryType | None = None,
    contract: Any = None,
    *,
    gpu_id: GpuId = GPU_IF_ANY,
    oom_recovery: bool = False,
    clear_cuda_cache: bool = False,
) -> Callable[[F], F]:
    """Declares a function's memory types: its array arguments become ``input_type``, its results ``output_type``.

    None leaves them as they come. Results in a tuple, a list or a dictionary are converted too; dtypes are
    not touched. ``gpu_id`` is as for ``convert_memory``; without it, arrays that are of ``input_type``
    stay where they are. ``contract`` is called with what the function returned, and ValueError raised if
    its answer is false. ``oom_recovery`` (or ``clear_cuda_cache``) calls the function again after
    the framework of ``input_type`` has freed its cache, twice at most, when memory runs out.

    The function's ``input_memory_type`` and ``output_memory_type`` tell what was declared.
    """
    body, output = _framework_or_none(input_type), _framework_or_none(output_type)
    bridge = _Bridge(body, output, gpu_id, contract, oom_recovery or clear_cuda_cache)

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return bridge.call(function, args, kwargs, slices=False)

        _declare(wrapper, body, output, contract)
        return cast(F, wrapper)

    return decorate


def wrap_dtype_preserving_callable(
    func: F,
    mem_type: str | MemoryType,
    *,
    slice_by_slice_default: bool = False,
    dtype_config_default: Any = None,
) -> F:
    """``func`` with the keyword arguments ``slice_by_slice``, ``dtype_conversion`` and ``dtype_config``.

    Its first result has the dtype that a call asks for, by default that of the first array argument.
    Nothing is converted to ``mem_type``, which only has to be a memory type: the framework decorators do that.
    """
    memory_type_name(mem_type)
    return _with_dtypes(func, _Bridge(None, None), slice_by_slice_default, dtype_config_default)


def _with_dtypes(function: F, bridge: _Bridge, slices_default: bool, config_default: Any) -> F:
    if config_default is not None and not hasattr(config_default, "default_dtype_conversion"):
        raise TypeError("dtype_config_default must be a DtypeConversionConfig")
    own = inspect.signature(function).parameters
    preserve = DtypeConversion.PRESERVE_INPUT
    defaults: dict[str, Any] = {
        "slice_by_slice": slices_default,
        "dtype_conversion": None,
        "dtype_config": PRESERVE_INPUT_DTYPE_CONFIG if config_default is None else config_default,
    }
    for name in defaults:  # a function that declares one of them says itself what it is by default, and is given it
        if name in own and own[name].default is not inspect.Parameter.empty:
            defaults[name] = own[name].default

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        asked = {
            name: kwargs.get(name, default) if name in own else kwargs.pop(name, default)
            for name, default in defaults.items()
        }
        config = asked["dtype_config"]
        conversion = asked["dtype_conversion"] or getattr(config, "default_dtype_conversion", preserve)
        original = next(_arguments((args, kwargs)), None)
        result = bridge.call(function, args, kwargs, bool(asked["slice_by_slice"]))

        def with_dtype(main: Any) -> Any:
            memory_type = detect_memory_type(main)
            scalar = memory_type is not None and len(main.shape) == 0
            if memory_type is None or (scalar and conversion is preserve):  # a sum is not an image
                return main
            return DtypeConversion(conversion).apply(main, memory_type, original)

        if isinstance(result, tuple) and result:
            main = with_dtype(result[0])
            return result if main is result[0] else _with_first(result, main)
        return with_dtype(result)

    _extend_signature(wrapper, function, defaults)
    return cast(F, wrapper)


def _with_first(values: tuple[Any, ...], first: Any) -> tuple[Any, ...]:
    return type(values)(*(first, *values[1:])) if hasattr(values, "_fields") else (first, *values[1:])


def _extend_signature(wrapper: Callable[..., Any], function: Callable[..., Any], defaults: dict[str, Any]) -> None:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    end = next((i for i, each in enumerate(parameters) if each.kind is each.VAR_KEYWORD), len(parameters))
    parameters[end:end] = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in defaults.items()
        if name not in signature.parameters
    ]
    wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapper.__doc__ = inspect.cleandoc(function.__doc__ or "") + (
        "\n\nCalls also take slice_by_slice (run on each slice of a 3-D array), and dtype_conversion or "
        "dtype_config (the dtype of the first result)."
    )


def _framework_or_none(memory_type: str | MemoryType | None) -> Framework | None:
    return None if memory_type is None else FRAMEWORKS[memory_type_name(memory_type)]


def _declare(wrapper: Any, input_type: Framework | None, output: Framework | None, contract: Any) -> None:
    wrapper.input_memory_type = None if input_type is None else input_type.name
    wrapper.output_memory_type = None if output is None else output.name
    if contract is not None and not callable(contract):
        wrapper.__processing_contract__ = contract


class MemoryDecorator(Protocol):
    """What ``@numpy``, ``@torch`` and the others are: decorators, with arguments or without."""

    __name__: str

    @overload
    def __call__(self, func: F, /) -> F: ...

    @overload
    def __call__(
        self,
        func: None = None,
        *,
        input_type: str | MemoryType | None = ...,
        output_type: str | MemoryType | None = ...,
        oom_recovery: bool = True,
        contract: Any = None,
        gpu_id: GpuId = ...,
        clear_cuda_cache: bool = False,
        slice_by_slice_default: bool = False,
        dtype_config_default: Any = None,
    ) -> Callable[[F], F]: ...


def _decorator(kind: Framework) -> MemoryDecorator:
    def decorator(
        func: Any = None,
        *,
        input_type: str | MemoryType | None = kind.name,
        output_type: str | MemoryType | None = kind.name,
        oom_recovery: bool = True,
        contract: Any = None,
        gpu_id: GpuId = GPU_IF_ANY,
        clear_cuda_cache: bool = False,
        slice_by_slice_default: bool = False,
        dtype_config_default: Any = None,
    ) -> Any:
        declared, output = _framework_or_none(input_type), _framework_or_none(output_type)
        recovers = (oom_recovery or clear_cuda_cache) and kind.gpu_kind is not None
        bridge = _Bridge(kind, output, gpu_id, contract, recovers)

        def decorate(function: Any) -> Any:
            wrapper = _with_dtypes(function, bridge, slice_by_slice_default, dtype_config_default)
            _declare(wrapper, declared, output, contract)
            MemoryContractAttribute.EXECUTION.write(wrapper, kind.name)
            return wrapper

        return decorate if func is None else decorate(func)

    decorator.__name__ = decorator.__qualname__ = kind.name
    decorator.__doc__ = f"""Makes a function one of {kind.title} arrays, whatever arrays its callers have.

        Array arguments become {kind.title} arrays, results ``output_type``, also in a tuple, a list or a
        dictionary; everything else stays as it is. ``input_type`` declares what callers are expected to
        pass, and any array is taken. The first result has the dtype of the first array argument unless the
        call says otherwise (``dtype_conversion=DtypeConversion.UINT8``, NATIVE_OUTPUT to leave it);
        a 0-d result keeps its own. ``slice_by_slice=True`` in a call runs the function on each slice of a
        3-D array.

        Args:
            func: the function, in ``@{kind.name}`` without arguments.
            input_type: the memory type that callers pass.
            output_type: the memory type of the results; None: as the function gives them.
            oom_recovery: whether to free the framework's cache and call again, twice at most, when memory
                runs out.
            contract: called with the function's result; a false answer raises ValueError.
            gpu_id: the GPU to work on, None for the host. Not given: where the {kind.title} arrays
                among the arguments are, else GPU 0 where there is one, else the host.
            clear_cuda_cache: the same as ``oom_recovery``.
            slice_by_slice_default: ``slice_by_slice`` of calls that do not give it.
            dtype_config_default: ``dtype_config`` of calls that do not give it.
        """
    return cast(MemoryDecorator, decorator)


numpy = _decorator(FRAMEWORKS["numpy"])
cupy = _decorator(FRAMEWORKS["cupy"])
torch = _decorator(FRAMEWORKS["torch"])
tensorflow = _decorator(FRAMEWORKS["tensorflow"])
jax = _decorator(FRAMEWORKS["jax"])
pyclesperanto = _decorator(FRAMEWORKS["pyclesperanto"])

__all__ = [
    "PRESERVE_INPUT_DTYPE_CONFIG",
    "DtypeConversion",
    "DtypeConversionConfig",
    "MemoryDecorator",
    "PreserveInputDtypeConfig",
    "SliceBySliceRuntimeParameter",
    "cupy",
    "jax",
    "memory_types",
    "numpy",
    "pyclesperanto",
    "tensorflow",
    "torch",
    "wrap_dtype_preserving_callable",
]
