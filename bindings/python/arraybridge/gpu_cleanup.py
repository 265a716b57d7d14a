"""Handing memory that frameworks keep for later back to their GPUs. None of these functions raises."""

from __future__ import annotations

import logging
from collections.abc import Callable

from arraybridge._frameworks import FRAMEWORKS, Framework

logger = logging.getLogger(__name__)


def _cleanup_of(kind: Framework) -> Callable[[int | None], None]:
    def cleanup(device_id: int | None = None) -> None:
        if kind.loaded is None or kind.gpu_kind is None:
            return
        try:
            kind.release(device_id)
        except Exception as error:
            logger.warning("%s could not hand back its GPU memory: %s", kind.title, error)

    cleanup.__name__ = cleanup.__qualname__ = f"cleanup_{kind.name}_gpu"
    cleanup.__doc__ = (
        f"Hands the GPU memory that {kind.title} keeps for later, on one GPU or by default on all, back to "
        "the device. Nothing happens where it is not loaded or has no GPU."
    )
    return cleanup


cleanup_numpy_gpu = _cleanup_of(FRAMEWORKS["numpy"])
cleanup_cupy_gpu = _cleanup_of(FRAMEWORKS["cupy"])
cleanup_torch_gpu = _cleanup_of(FRAMEWORKS["torch"])
cleanup_tensorflow_gpu = _cleanup_of(FRAMEWORKS["tensorflow"])
cleanup_jax_gpu = _cleanup_of(FRAMEWORKS["jax"])
cleanup_pyclesperanto_gpu = _cleanup_of(FRAMEWORKS["pyclesperanto"])

MEMORY_TYPE_CLEANUP_REGISTRY: dict[str, Callable[[int | None], None]] = {
    "numpy": cleanup_numpy_gpu,
    "cupy": cleanup_cupy_gpu,
    "torch": cleanup_torch_gpu,
    "tensorflow": cleanup_tensorflow_gpu,
    "jax": cleanup_jax_gpu,
    "pyclesperanto": cleanup_pyclesperanto_gpu,
}


def cleanup_all_gpu_frameworks(device_id: int | None = None) -> None:
    """Clean up GPU memory for all available frameworks, on one GPU or by default on all.

    Memory that is in use stays: what goes back to the device is what the frameworks keep for later.
    """
    for cleanup in MEMORY_TYPE_CLEANUP_REGISTRY.values():
        cleanup(device_id)


__all__ = [
    "MEMORY_TYPE_CLEANUP_REGISTRY",
    "cleanup_all_gpu_frameworks",
    "cleanup_cupy_gpu",
    "cleanup_jax_gpu",
    "cleanup_numpy_gpu",
    "cleanup_pyclesperanto_gpu",
    "cleanup_tensorflow_gpu",
    "cleanup_torch_gpu",
]
