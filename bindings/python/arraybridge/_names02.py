"""Names of arraybridge 0.2 and 0.5, and the modules that they come from."""

NAMES: dict[str, str] = {
    name: f"arraybridge.{module}"
    for module, names in {
        "types": (
            "CPU_MEMORY_TYPES",
            "GPU_MEMORY_TYPES",
            "SUPPORTED_MEMORY_TYPES",
            "MemoryContractAttribute",
            "MemoryType",
        ),
        "converters": ("convert_memory", "detect_memory_type"),
        "decorators": (
            "DtypeConversion",
            "SliceBySliceRuntimeParameter",
            "cupy",
            "jax",
            "memory_types",
            "numpy",
            "pyclesperanto",
            "tensorflow",
            "torch",
            "wrap_dtype_preserving_callable",
        ),
        "dtype_scaling": ("SCALING_FUNCTIONS",),
        "framework_config": ("_FRAMEWORK_CONFIG",),
        "framework_ops": ("_FRAMEWORK_OPS",),
        "gpu_cleanup": ("cleanup_all_gpu_frameworks",),
        "oom_recovery": ("_execute_with_oom_recovery",),
        "slice_processing": ("process_slices",),
        "stack_utils": ("stack_slices", "unstack_slices"),
        "utils": ("_ensure_module", "_get_device_id", "_supports_dlpack"),
        "conversion": ("ConversionCounters", "ConversionObserver", "ConversionRecord"),
        "places": ("HOST", "AcceleratorDevice", "HostDevice", "NamedDevice"),
    }.items()
    for name in names
}
