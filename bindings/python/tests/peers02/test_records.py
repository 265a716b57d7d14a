"""Records of conversions, and 0.5's device values."""

from __future__ import annotations

import contextvars
import json
import pickle
import threading
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

import arraybridge
from arraybridge import (
    HOST,
    AcceleratorDevice,
    ConversionCounters,
    ConversionObserver,
    ConversionRecord,
    Device,
    HostDevice,
    NamedDevice,
    convert_memory,
)
from arraybridge.places import place_of
from arraybridge.types import MemoryContractAttribute

from .conftest import made, module_of, values

ARRAY = np.arange(64, dtype=np.float32).reshape(8, 8)
RECORD = ConversionRecord("numpy", "host", "torch", "accelerator:0", "upload", 256, 0.5, ("device",))


class Kept(ConversionObserver):
    """Keeps the records."""

    def __init__(self) -> None:
        self.records: list[ConversionRecord] = []

    def record(self, record: ConversionRecord) -> None:
        self.records.append(record)


def test_a_record_says_whether_memory_is_shared(host_framework: str) -> None:
    source = made(host_framework, ARRAY)
    kept = Kept()
    with kept.installed() as installed:
        assert installed is ConversionObserver.current is kept
        result = convert_memory(source, host_framework, "numpy")
    if host_framework == "numpy":
        assert kept.records == []  # nothing was done
        return
    (record,) = kept.records
    assert (record.source_library, record.target_library) == (host_framework, "numpy")
    assert record.source_device == ("accelerator:0" if host_framework == "pyclesperanto" else "host")
    assert record.target_device == "host"
    assert record.nbytes == ARRAY.nbytes
    assert record.seconds > 0
    assert ("zero copy" in record.mechanism) == (host_framework != "pyclesperanto")
    np.testing.assert_array_equal(values(result), ARRAY)


def test_copies_are_told_from_sharing() -> None:
    torch = module_of("torch")
    kept = Kept()
    with kept.installed():
        shared = convert_memory(ARRAY, "numpy", "torch", gpu_id=None)
        copied = convert_memory(ARRAY[:, ::-1], "numpy", "torch", gpu_id=None)
    assert isinstance(shared, torch.Tensor)
    assert shared.data_ptr() == ARRAY.ctypes.data
    assert copied.data_ptr() != ARRAY.ctypes.data
    assert "zero copy" in kept.records[0].mechanism
    assert "zero copy" not in kept.records[1].mechanism
    assert kept.records[0].declined_mechanisms == ()
    assert kept.records[1].declined_mechanisms


def test_nothing_is_measured_without_an_observer(monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(x: Any, to: Any, **named: Any) -> Any:
        assert "report" not in named
        return x

    monkeypatch.setattr(arraybridge, "convert", convert)
    assert not ConversionObserver.current.wants_records
    assert convert_memory(ARRAY, "numpy", "numpy") is ARRAY


def test_observers_belong_to_their_context() -> None:
    module_of("torch")
    kept = Kept()

    def work() -> None:
        convert_memory(ARRAY, "numpy", "torch", None)

    def in_a_thread(target: Any, *rest: Any) -> None:
        thread = threading.Thread(target=target, args=rest)
        thread.start()
        thread.join()

    before = ConversionObserver.current
    with kept.installed():
        in_a_thread(work)
        assert kept.records == []
        in_a_thread(contextvars.copy_context().run, work)
        assert len(kept.records) == 1
    assert ConversionObserver.current is before
    ConversionObserver.current = kept
    try:
        assert ConversionObserver.current is kept
        assert before.install() is kept
    finally:
        before.install()


def test_records_are_plain_data() -> None:
    assert ConversionRecord.from_json(json.loads(json.dumps(RECORD.to_json()))) == RECORD
    assert pickle.loads(pickle.dumps(RECORD)) == RECORD
    with pytest.raises(FrozenInstanceError):
        RECORD.nbytes = 1  # type: ignore[misc]


def test_counters() -> None:
    counters = ConversionCounters()
    for record in (RECORD, RECORD, ConversionRecord("torch", "host", "numpy", "host", "zero copy", 4096, 0.25)):
        counters.record(record)
    first, second = counters.rows()
    assert (first["mechanism"], first["count"], first["nbytes"]) == ("zero copy", 1, 4096)
    assert (second["count"], second["nbytes"], second["seconds"]) == (2, 512, 1.0)
    assert second["declined_mechanisms"] == ["device"]
    again = ConversionCounters.from_json(json.loads(json.dumps(counters.to_json())))
    assert again.rows() == counters.rows()
    assert pickle.loads(pickle.dumps(counters)).rows() == counters.rows()
    assert again.merge(counters) is again
    assert [row["count"] for row in again.rows()] == [2, 4]
    lines = counters.format_table().splitlines()
    assert len(lines) == 3
    assert lines[0].split()[0] == "source"
    assert "torch accelerator:0" in lines[2]


def test_counters_observe() -> None:
    module_of("torch")
    counters = ConversionCounters()
    with counters.installed():
        for _ in range(3):
            convert_memory(ARRAY, "numpy", "torch", None)
    (row,) = counters.rows()
    assert (row["count"], row["nbytes"]) == (3, 3 * ARRAY.nbytes)


@pytest.mark.parametrize(
    ("device", "equal", "label"),
    [
        (HOST, HostDevice(), "host"),
        (AcceleratorDevice(1), AcceleratorDevice(index=1), "accelerator:1"),
        (NamedDevice("opencl:0"), NamedDevice(name="opencl:0"), "device:opencl:0"),
    ],
)
def test_devices_are_values(device: Any, equal: Any, label: str) -> None:
    assert device == equal
    assert hash(device) == hash(equal)
    assert pickle.loads(pickle.dumps(device)) == device
    assert device.label == label
    assert isinstance(device, Device)
    assert eval(repr(device)) == device
    with pytest.raises(FrozenInstanceError):
        device.id = 5


def test_devices_differ_and_name_what_convert_knows() -> None:
    assert len({HOST, AcceleratorDevice(0), AcceleratorDevice(1), NamedDevice("cuda:0"), NamedDevice("other")}) == 5
    assert NamedDevice("opencl:1").pair == (4, 1)
    assert place_of(Device(2, 3)) == AcceleratorDevice(3)
    assert place_of(Device(3, 0)) == HOST
    assert place_of(Device(8, 0)) == NamedDevice("metal:0")
    torch = module_of("torch")
    assert isinstance(arraybridge.convert(ARRAY, "torch", device=HOST), torch.Tensor)


def test_contract_attributes() -> None:
    @arraybridge.numpy(output_type="torch")
    def body(image: Any) -> Any:
        return image

    read = {each.name: each.read(body) for each in MemoryContractAttribute}
    assert read == {"INPUT": "numpy", "OUTPUT": "torch", "EXECUTION": "numpy"}
    row: dict[str, str] = {}
    MemoryContractAttribute.INPUT.write(row, "jax")
    assert MemoryContractAttribute.INPUT.read(row) == "jax"
    assert MemoryContractAttribute.OUTPUT.read(row, "numpy") == "numpy"
    with pytest.raises(TypeError, match="not the name"):
        MemoryContractAttribute.INPUT.read({"input_memory_type": 5})
