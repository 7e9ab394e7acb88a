"""Requests in flight: what they keep, what they answer, and what may be dropped meanwhile."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

import kvikio
import kvikio.defaults

LARGE = 64 << 20


@pytest.fixture
def large(path: str) -> str:
    """A file large enough that a read of it is still running when the call returns."""
    with open(path, "wb") as file:
        file.truncate(LARGE)
        os.pwrite(file.fileno(), b"end", LARGE - 3)
    return path


def until(claim: Any, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def test_two_halves_at_once(path: str, xp: Any, gds_threshold: int) -> None:
    values = np.arange(100_000, dtype=np.int64)
    array, back = xp.array(values), xp.array(np.zeros_like(values))
    with kvikio.CuFile(path, "w") as file:
        futures = [
            file.pwrite(array[:50_000]),
            file.pwrite(array[50_000:], file_offset=50_000 * 8, task_size=4097),
        ]
        assert [future.get() for future in futures] == [400_000, 400_000]
    with kvikio.CuFile(path) as file:
        futures = [file.pread(back[:50_000]), file.pread(back[50_000:], file_offset=50_000 * 8)]
        assert [future.get() for future in futures] == [400_000, 400_000]
    assert np.array_equal(xp.host(back), values)


def test_get_twice_answers_the_same(path: str) -> None:
    with kvikio.CuFile(path, "w+") as file:
        future = file.pwrite(b"0123456789")
        assert [future.get(), future.get()] == [10, 10]
        assert future.done()
        failing = file.pread(bytearray(20))
        texts = []
        for _ in range(2):
            with pytest.raises(EOFError) as caught:
                failing.get()
            texts.append(str(caught.value))
        assert texts[0] == texts[1]
        assert failing.done()


def test_done_becomes_true_without_get(path: str) -> None:
    with kvikio.CuFile(path, "w") as file:
        future = file.pwrite(b"x" * 100_000)
        assert until(future.done)
        assert future.get() == 100_000


def test_many_threads_get_one_future(large: str) -> None:
    buffer = bytearray(LARGE)
    answers: list[int] = []
    with kvikio.CuFile(large) as file:
        future = file.pread(buffer)
        threads = [threading.Thread(target=lambda: answers.append(future.get())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [LARGE] * 8
    buffer.append(1)


def test_a_file_may_be_closed_and_dropped_while_pending(large: str) -> None:
    array = np.zeros(LARGE, np.uint8)
    file = kvikio.CuFile(large)
    futures = [file.pread(array[: LARGE // 2]), file.pread(array[LARGE // 2 :], file_offset=LARGE // 2)]
    file.close()
    assert file.closed
    del file
    gc.collect()
    assert [future.get() for future in futures] == [LARGE // 2] * 2
    assert bytes(array[-3:]) == b"end"


def test_a_buffer_cannot_move_while_pending(large: str) -> None:
    buffer = bytearray(LARGE)
    with kvikio.CuFile(large) as file:
        future = file.pread(buffer)
        with pytest.raises(BufferError):
            buffer.append(1)
        future.get()
        buffer.append(1)


def test_a_future_keeps_its_buffer(large: str) -> None:
    array = np.zeros(LARGE, np.uint8)
    gone = weakref.ref(array)
    with kvikio.CuFile(large) as file:
        future = file.pread(array)
        del array
        gc.collect()
        assert gone() is not None
        assert future.get() == LARGE
    assert gone() is None


def test_a_dropped_future_lets_go_when_the_read_ends(large: str) -> None:
    array = np.zeros(LARGE, np.uint8)
    gone = weakref.ref(array)
    with kvikio.CuFile(large) as file:
        file.pread(array)
        del array
    assert until(lambda: gone() is None), "the buffer is still held"


def test_a_dropped_future_that_had_ended_lets_go_at_once(path: str) -> None:
    buffer = bytearray(b"0123")
    with kvikio.CuFile(path, "w") as file:
        future = file.pwrite(buffer)
        time.sleep(0.2)
        del future
    buffer.append(1)
    assert os.path.getsize(path) == 4


def test_a_dropped_write_is_done_all_the_same(path: str) -> None:
    data = bytes(range(256)) * 100_000
    with kvikio.CuFile(path, "w") as file:
        file.pwrite(data)
    assert until(lambda: os.path.getsize(path) == len(data))
    time.sleep(0.3)
    with open(path, "rb") as file:
        assert file.read() == data


def test_an_array_changed_after_the_end_is_not_written_again(large: str) -> None:
    array = np.zeros(LARGE, np.uint8)
    with kvikio.CuFile(large) as file:
        assert file.pread(array).get() == LARGE
        array[:] = 7
    assert (array == 7).all()


def test_many_threads_on_one_file(path: str) -> None:
    values = np.random.default_rng(1).integers(0, 256, 1 << 20, np.uint8)
    values.tofile(path)
    wrong: list[int] = []
    with kvikio.defaults.set({"num_threads": 4, "task_size": 10_000}), kvikio.CuFile(path) as file:

        def work(seed: int) -> None:
            random = np.random.default_rng(seed)
            for _ in range(100):
                start, end = sorted(random.integers(0, len(values), 2))
                back = np.zeros(end - start, np.uint8)
                future = file.pread(back, file_offset=int(start))
                if seed % 2:
                    future.get()
                else:
                    file.read(back, file_offset=int(start))
                    future.get()
                if not np.array_equal(back, values[start:end]):
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_threads_may_change_while_reads_run(large: str) -> None:
    arrays = [np.zeros(LARGE, np.uint8) for _ in range(3)]
    with kvikio.CuFile(large) as file:
        futures = [file.pread(array, task_size=100_000) for array in arrays]
        with kvikio.defaults.set("num_threads", 1), kvikio.defaults.set("num_threads", 5):
            assert [future.get() for future in futures] == [LARGE] * 3
    assert all(bytes(array[-3:]) == b"end" for array in arrays)


def test_futures_cannot_be_made_by_hand() -> None:
    with pytest.raises(TypeError):
        kvikio.IOFuture()
