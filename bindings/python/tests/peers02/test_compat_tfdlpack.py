"""tfdlpack's functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from arraybridge.compat import tfdlpack

from .conftest import module_of

DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")


@pytest.fixture
def tf() -> Any:
    return module_of("tensorflow")


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_to_tensorflow_and_back(tf: Any, dtype: str) -> None:
    torch = module_of("torch")
    expected = np.array([1, 0, 3]).astype(dtype)
    tensor = tfdlpack.from_dlpack(torch.utils.dlpack.to_dlpack(torch.from_numpy(expected)))
    assert (tensor.dtype.name, tensor.numpy().tolist()) == (dtype, expected.tolist())
    back = torch.utils.dlpack.from_dlpack(tfdlpack.to_dlpack(tensor))
    assert back.numpy().tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_device_and_dtype(tf: Any, dtype: str) -> None:
    torch = module_of("torch")
    source = torch.from_numpy(np.array([1, 0, 3]).astype(dtype))
    for given in (torch.utils.dlpack.to_dlpack(source), source, source.numpy()):
        found = tfdlpack.get_device_and_dtype(given)
        assert found[:2].tolist() == [1, 0]
        assert tf.DType(found[2].item()).name == dtype


def test_a_capsule_is_looked_at_and_used_once(tf: Any) -> None:
    capsule = tfdlpack.to_dlpack(tf.constant([1.0, 2.0]))
    tfdlpack.get_device_and_dtype(capsule)
    assert tfdlpack.from_dlpack(capsule).numpy().tolist() == [1, 2]
    with pytest.raises((ValueError, BufferError)):
        tfdlpack.from_dlpack(capsule)
    with pytest.raises(ValueError, match="used_dltensor"):
        tfdlpack.get_device_and_dtype(capsule)


def test_memory_is_shared_where_it_can_be(tf: Any) -> None:
    memory = np.zeros(80, np.float32)
    start = (-memory.ctypes.data % 64) // 4
    aligned, misaligned = memory[start : start + 16], memory[start + 1 : start + 17]
    shared, copied = tfdlpack.from_dlpack(aligned), tfdlpack.from_dlpack(misaligned)
    memory[start + 1] = 5
    assert shared.numpy()[1] == 5
    assert copied.numpy()[0] == 0


def test_other_arrays_are_taken(tf: Any) -> None:
    torch = module_of("torch")
    assert torch.utils.dlpack.from_dlpack(tfdlpack.to_dlpack(np.array([1.0]))).tolist() == [1]
    bfloat16 = tfdlpack.from_dlpack(torch.tensor([1.5], dtype=torch.bfloat16))
    assert (bfloat16.dtype, float(bfloat16[0])) == (tf.bfloat16, 1.5)
