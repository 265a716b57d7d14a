"""Races with producers and consumers that are late: PyTorch keeps a stream busy before it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from library import ASYNC, CPU, CUDA, PINNED, copy_into, options, tensor

COUNT = 1 << 20
ROUNDS = 20
CYCLES = 20_000_000  # some ten milliseconds


def late_producer(torch: Any, target: str) -> None:
    """What a stream writes after a while is what is copied, from that stream on."""
    stream = torch.cuda.Stream()
    x = torch.zeros(COUNT, device="cuda")
    y = torch.empty_like(x) if target == "device" else torch.empty(COUNT, pin_memory=target == "pinned")
    place = {"device": (CUDA, 0), "pinned": (PINNED, 0), "pageable": (CPU, 0)}[target]
    for flags in (0, ASYNC):
        for value in range(1, ROUNDS):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(CYCLES)
                x.fill_(value)
            copy_into(
                tensor(x.data_ptr(), (CUDA, 0), "float32", [1024, 1024], [1, 1024]),
                tensor(y.data_ptr(), place, "float32", [1024, 1024]),
                options(flags=flags, src_stream=stream.cuda_stream, dst_stream=stream.cuda_stream),
            )
            with torch.cuda.stream(stream):
                x.fill_(-1)  # its memory is used again: after it has been read
            if flags:
                stream.synchronize()
            if not bool((y == value).all()):
                raise AssertionError(f"round {value}, flags {flags}: {y.reshape(-1)[0]}")


def late_consumer(torch: Any, source: str) -> None:
    """What still reads or writes the destination comes before, what is put behind comes after."""
    stream = torch.cuda.Stream()
    x = torch.empty(COUNT, pin_memory=source == "pinned") if source != "device" else torch.empty(COUNT, device="cuda")
    place = {"device": (CUDA, 0), "pinned": (PINNED, 0), "pageable": (CPU, 0)}[source]
    y, seen = torch.zeros(COUNT, device="cuda"), torch.zeros(COUNT, device="cuda")
    for flags in (0, ASYNC):
        for value in range(1, ROUNDS):
            torch.cuda.synchronize()
            x.fill_(value)
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                torch.cuda._sleep(CYCLES)
                y.fill_(-1)
            copy_into(
                tensor(x.data_ptr(), place, "float32", [COUNT]),
                tensor(y.data_ptr(), (CUDA, 0), "float32", [COUNT]),
                options(flags=flags, src_stream=-1, dst_stream=stream.cuda_stream),
            )
            with torch.cuda.stream(stream):
                seen.copy_(y)
            stream.synchronize()
            if not bool((seen == value).all()):
                raise AssertionError(f"round {value}, flags {flags}: {seen[0]}")


def captured(torch: Any) -> None:
    """A transposing copy in a graph, which is then replayed with other values."""
    x = torch.zeros(1024, 1024, device="cuda")
    y = torch.zeros_like(x)
    stream = torch.cuda.Stream()

    def work() -> None:
        copy_into(
            tensor(x.data_ptr(), (CUDA, 0), "float32", [1024, 1024], [1, 1024]),
            tensor(y.data_ptr(), (CUDA, 0), "float32", [1024, 1024]),
            options(flags=ASYNC, src_stream=stream.cuda_stream, dst_stream=stream.cuda_stream),
        )

    with torch.cuda.stream(stream):
        work()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        work()
    for seed in range(3):
        x.copy_(torch.rand(1024, 1024, generator=torch.Generator().manual_seed(seed)))
        torch.cuda.synchronize()
        graph.replay()
        torch.cuda.synchronize()
        if not torch.equal(y, x.T):
            raise AssertionError(f"replay {seed}")


def rows(torch: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    for place in ("device", "pinned", "pageable"):
        yield f"a late producer, to {place} memory", lambda place=place: late_producer(torch, place)
        yield f"a late consumer, from {place} memory", lambda place=place: late_consumer(torch, place)
    yield "a graph", lambda: captured(torch)
