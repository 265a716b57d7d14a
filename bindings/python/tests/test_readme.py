"""The lines of Python that the repository's README shows."""

import pytest
from conftest import module


def test_five_lines() -> None:
    module("torch")
    # [readme]
    import numpy as np

    import arraybridge as ab

    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)  # height x width x channels
    shared = ab.convert(image, "torch")  # the same memory
    planes = ab.convert(image.transpose(2, 0, 1), "torch", dtype="float32")  # cast and transposed in one pass
    # [/readme]
    assert shared.data_ptr() == image.ctypes.data
    assert planes.shape == (3, 2, 4) and planes[2, 1, 3] == pytest.approx(23)
