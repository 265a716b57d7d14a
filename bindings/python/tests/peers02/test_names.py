"""Every name that arraybridge 0.2 had, with the arguments it took, and what 0.5 added."""

from __future__ import annotations

import inspect
import subprocess
import sys
from enum import Enum

import pytest

import arraybridge

ROOT = [
    "MemoryType",
    "CPU_MEMORY_TYPES",
    "GPU_MEMORY_TYPES",
    "SUPPORTED_MEMORY_TYPES",
    "convert_memory",
    "detect_memory_type",
    "memory_types",
    "numpy",
    "cupy",
    "torch",
    "tensorflow",
    "jax",
    "pyclesperanto",
    "DtypeConversion",
    "stack_slices",
    "unstack_slices",
    "process_slices",
    "cleanup_all_gpu_frameworks",
    "MemoryConversionError",
    "SCALING_FUNCTIONS",
    "_FRAMEWORK_CONFIG",
    "_FRAMEWORK_OPS",
    "_execute_with_oom_recovery",
    "_ensure_module",
    "_supports_dlpack",
    "_get_device_id",
]

NEWER = [
    "Device",
    "HOST",
    "HostDevice",
    "AcceleratorDevice",
    "NamedDevice",
    "ConversionRecord",
    "ConversionObserver",
    "ConversionCounters",
    "MemoryContractAttribute",
    "SliceBySliceRuntimeParameter",
    "wrap_dtype_preserving_callable",
]

MODULES = {
    "types": "MemoryType ConversionFunc T CPU_MEMORY_TYPES GPU_MEMORY_TYPES SUPPORTED_MEMORY_TYPES VALID_MEMORY_TYPES "
    "VALID_GPU_MEMORY_TYPES MEMORY_TYPE_NUMPY MEMORY_TYPE_CUPY MEMORY_TYPE_TORCH MEMORY_TYPE_TENSORFLOW "
    "MEMORY_TYPE_JAX MEMORY_TYPE_PYCLESPERANTO",
    "exceptions": "MemoryConversionError",
    "converters": "convert_memory detect_memory_type",
    "converters_registry": "ConverterBase get_converter _validate_registry",
    "decorators": "memory_types DtypeConversion numpy cupy torch tensorflow jax pyclesperanto",
    "dtype_scaling": "SCALING_FUNCTIONS",
    "stack_utils": "stack_slices unstack_slices",
    "slice_processing": "process_slices",
    "gpu_cleanup": "cleanup_all_gpu_frameworks MEMORY_TYPE_CLEANUP_REGISTRY cleanup_numpy_gpu cleanup_cupy_gpu "
    "cleanup_torch_gpu cleanup_tensorflow_gpu cleanup_jax_gpu cleanup_pyclesperanto_gpu",
    "oom_recovery": "_is_oom_error _clear_cache_for_memory_type _execute_with_oom_recovery",
    "utils": "optional_import _ModulePlaceholder _ensure_module _supports_dlpack _supports_cuda_array_interface "
    "_get_device_id _set_device _move_to_device",
    "framework_config": "_FRAMEWORK_CONFIG",
    "framework_ops": "_FRAMEWORK_OPS",
}

SIGNATURES = {
    "converters.convert_memory": "data source_type target_type gpu_id",
    "converters.detect_memory_type": "data",
    "converters_registry.get_converter": "memory_type",
    "decorators.memory_types": "input_type output_type contract",
    "stack_utils.stack_slices": "slices memory_type gpu_id",
    "stack_utils.unstack_slices": "array memory_type gpu_id validate_slices",
    "slice_processing.process_slices": "image func args kwargs gpu_id",
    "gpu_cleanup.cleanup_all_gpu_frameworks": "device_id",
    "gpu_cleanup.cleanup_torch_gpu": "device_id",
    "oom_recovery._is_oom_error": "e memory_type",
    "oom_recovery._clear_cache_for_memory_type": "memory_type device_id",
    "oom_recovery._execute_with_oom_recovery": "func_callable memory_type max_retries",
    "utils.optional_import": "module_name",
    "utils._ensure_module": "module_name",
    "utils._supports_dlpack": "obj",
    "utils._supports_cuda_array_interface": "obj",
    "utils._get_device_id": "data memory_type",
    "utils._set_device": "memory_type device_id",
    "utils._move_to_device": "data memory_type device_id",
    "exceptions.MemoryConversionError": "source_type target_type method reason",
}


@pytest.mark.parametrize("name", [*ROOT, *NEWER])
def test_root_has_the_name(name: str) -> None:
    assert getattr(arraybridge, name) is not None
    assert name in arraybridge.__all__
    assert name in dir(arraybridge)


@pytest.mark.parametrize(("module", "name"), [(m, n) for m, names in MODULES.items() for n in names.split()])
def test_module_has_the_name(module: str, name: str) -> None:
    imported = __import__(f"arraybridge.{module}", fromlist=[name])
    assert getattr(imported, name) is not None


@pytest.mark.parametrize("path", SIGNATURES)
def test_positional_arguments_are_those_of_0_2(path: str) -> None:
    module, name = path.split(".")
    function = getattr(__import__(f"arraybridge.{module}", fromlist=[name]), name)
    parameters = inspect.signature(function).parameters.values()
    positional = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert positional == SIGNATURES[path].split()


def test_documented_defaults() -> None:
    convert_memory = inspect.signature(arraybridge.convert_memory).parameters
    assert convert_memory["gpu_id"].default == 0
    assert convert_memory["source_type"].default is inspect.Parameter.empty
    assert inspect.signature(arraybridge.unstack_slices).parameters["validate_slices"].default is True
    assert inspect.signature(arraybridge.process_slices).parameters["gpu_id"].default is None
    assert inspect.signature(arraybridge.cleanup_all_gpu_frameworks).parameters["device_id"].default is None
    assert inspect.signature(arraybridge._execute_with_oom_recovery).parameters["max_retries"].default == 2
    assert inspect.signature(arraybridge.memory_types).parameters["contract"].default is None


@pytest.mark.parametrize("name", ["numpy", "cupy", "torch", "tensorflow", "jax", "pyclesperanto"])
def test_decorators_take_coded_and_documented_arguments(name: str) -> None:
    decorator = getattr(arraybridge, name)
    parameters = inspect.signature(decorator).parameters
    assert decorator.__name__ == name
    assert parameters["func"].default is None
    assert parameters["input_type"].default == parameters["output_type"].default == name
    assert parameters["oom_recovery"].default is True
    assert parameters["contract"].default is None
    assert {"gpu_id", "clear_cuda_cache"} <= set(parameters)
    assert name in decorator.__doc__.lower()


def test_memory_type_is_an_enum_of_six() -> None:
    assert issubclass(arraybridge.MemoryType, Enum)
    assert [each.name for each in arraybridge.MemoryType] == [
        "NUMPY", "CUPY", "TORCH", "TENSORFLOW", "JAX", "PYCLESPERANTO",
    ]  # fmt: skip
    assert all(each.value == each.name.lower() for each in arraybridge.MemoryType)
    assert {each.value for each in arraybridge.CPU_MEMORY_TYPES} == {"numpy"}
    assert len(arraybridge.GPU_MEMORY_TYPES) == 5
    assert arraybridge.SUPPORTED_MEMORY_TYPES == arraybridge.CPU_MEMORY_TYPES | arraybridge.GPU_MEMORY_TYPES


def test_names_load_without_a_framework() -> None:
    code = (
        "import sys, arraybridge\n"
        "for name in arraybridge.__all__: getattr(arraybridge, name)\n"
        "loaded = {'cupy', 'torch', 'tensorflow', 'jax', 'pyclesperanto', 'numba'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_every_public_function_says_what_it_does() -> None:
    for module, names in MODULES.items():
        for name in names.split():
            found = getattr(__import__(f"arraybridge.{module}", fromlist=[name]), name)
            if inspect.isfunction(found) or inspect.isclass(found):
                assert (found.__doc__ or "").strip(), f"{module}.{name}"
