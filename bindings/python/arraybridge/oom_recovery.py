"""Trying again when a framework runs out of memory, after it has handed back what it kept for later."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import TypeVar

from arraybridge._frameworks import FRAMEWORKS

logger = logging.getLogger(__name__)

R = TypeVar("R")


def _is_oom_error(e: BaseException, memory_type: str) -> bool:
    """Whether ``e`` says that the framework of ``memory_type`` ran out of memory; False for unknown types.

    A failed kernel, or an argument that a framework refuses, is not taken for it: running those again
    would only fail again.
    """
    kind = FRAMEWORKS.get(memory_type)
    return kind is not None and kind.says_out_of_memory(e)


def _clear_cache_for_memory_type(memory_type: str, device_id: int | None = None) -> None:
    """Hands back the memory that a framework keeps for later, on one GPU or on all. Never raises."""
    kind = FRAMEWORKS.get(memory_type)
    if kind is None or kind.loaded is None:
        logger.warning("No cache of %r to clear: it is no framework that is loaded", memory_type)
        gc.collect()
        return
    try:
        kind.release(device_id)
    except Exception as error:
        logger.warning("%s could not hand back its GPU memory: %s", kind.title, error)


def _execute_with_oom_recovery(func_callable: Callable[[], R], memory_type: str, max_retries: int = 2) -> R:
    """What ``func_callable()`` returns, called up to ``max_retries`` times more while memory runs out.

    Every other exception, and the last one, goes to the caller.
    """
    for _ in range(max_retries):
        try:
            return func_callable()
        except Exception as error:
            if not _is_oom_error(error, memory_type):
                raise
        # Outside the except block: the exception and the arrays of its frames are gone by now.
        _clear_cache_for_memory_type(memory_type)
    return func_callable()
