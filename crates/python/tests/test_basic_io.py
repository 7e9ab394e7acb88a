"""Blocking reads and writes: exact bytes for any size, task size, number of threads and kind of memory."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

import kvikio
import kvikio.defaults

SIZES = [1, 10, 100, 1000, 1024, 4096, 4096 * 10]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("nthreads", [1, 3, 4, 16])
@pytest.mark.parametrize("task_size", [199, 1024])
def test_write(path: str, xp: Any, gds_threshold: int, size: int, nthreads: int, task_size: int) -> None:
    values = np.arange(size, dtype=np.int64)
    array = xp.array(values)
    with kvikio.defaults.set({"num_threads": nthreads, "task_size": task_size}):
        file = kvikio.CuFile(path, "w")
        assert not file.closed
        assert file.open_flags() & os.O_WRONLY
        assert file.write(array) == values.nbytes
        file.close()
        assert file.closed
    assert np.array_equal(np.fromfile(path, np.int64), values)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("nthreads", [1, 3, 4, 16])
@pytest.mark.parametrize("task_size", [199, 1024])
def test_read(path: str, xp: Any, gds_threshold: int, size: int, nthreads: int, task_size: int) -> None:
    values = np.arange(size, dtype=np.int64)
    values.tofile(path)
    array = xp.array(np.zeros_like(values))
    with kvikio.defaults.set({"num_threads": nthreads, "task_size": task_size}):
        with kvikio.CuFile(path, "r") as file:
            assert file.open_flags() & os.O_ACCMODE == os.O_RDONLY
            assert file.read(array) == values.nbytes
        assert file.closed
    assert np.array_equal(xp.host(array), values)


@pytest.mark.parametrize("start", [1, 7, 4095])
@pytest.mark.parametrize("end", [-1, -13])
@pytest.mark.parametrize("task_size", [1000, 4096, 9420])
@pytest.mark.parametrize("nthreads", [1, 3, 16])
def test_slices(path: str, xp: Any, start: int, end: int, task_size: int, nthreads: int) -> None:
    values = np.arange(10 * 4096, dtype=np.int64)
    part = xp.array(values)[start:end]
    expected = values[start:end]
    with kvikio.defaults.set({"num_threads": nthreads, "task_size": task_size}):
        with kvikio.CuFile(path, "w") as file:
            assert file.write(part) == expected.nbytes
        back = xp.array(np.full_like(values, -1))
        with kvikio.CuFile(path, "r") as file:
            assert file.read(back[start:end]) == expected.nbytes
    host = xp.host(back)
    assert np.array_equal(host[start:end], expected)
    assert (host[:start] == -1).all()
    assert (host[end:] == -1).all()


def test_one_handle_writes_and_reads(path: str, xp: Any) -> None:
    values = np.arange(200, dtype=np.int64)
    array, back = xp.array(values), xp.array(np.zeros_like(values))
    with kvikio.CuFile(path, "w+") as file:
        assert file.open_flags() & os.O_RDWR
        assert file.write(array) == values.nbytes
        assert file.read(back) == values.nbytes
    assert np.array_equal(xp.host(back), values)


def test_chunks_in_any_order(path: str, xp: Any, gds_threshold: int) -> None:
    values = np.arange(200, dtype=np.int64)
    array = xp.array(values)
    starts = list(range(0, 200, 10))
    random.Random(7).shuffle(starts)
    with kvikio.CuFile(path, "w") as file:
        for start in starts:
            assert file.write(array[start : start + 10], file_offset=start * 8) == 80
    assert np.array_equal(np.fromfile(path, np.int64), values)


def test_part_of_a_buffer(path: str, xp: Any) -> None:
    np.arange(5000, dtype=np.float32).tofile(path)
    array = xp.array(np.full(1000, -1, np.float32))
    with kvikio.CuFile(path) as file:
        assert file.read(array, size=2000, file_offset=4000) == 2000
    host = xp.host(array)
    assert np.array_equal(host[:500], np.arange(1000, 1500, dtype=np.float32))
    assert (host[500:] == -1).all()


@pytest.mark.parametrize("task_size", [None, 0, 100, 1 << 40])
def test_task_size_of_one_call(path: str, task_size: int | None) -> None:
    values = np.arange(1000, dtype=np.int64)
    with kvikio.CuFile(path, "w+") as file:
        assert file.write(values, task_size=task_size) == 8000
        back = np.zeros_like(values)
        assert file.read(back, None, 0, task_size) == 8000
    assert np.array_equal(back, values)


def test_nothing_is_read_or_written_without_bytes(path: str, xp: Any) -> None:
    with kvikio.CuFile(path, "w+") as file:
        assert file.write(xp.array(np.zeros(0, np.uint8))) == 0
        assert file.read(xp.array(np.zeros(0, np.uint8)), file_offset=10**15) == 0
        assert file.read(xp.array(np.zeros(9, np.uint8)), size=0, file_offset=123) == 0
        assert file.pread(b"", size=0).get() == 0
    assert os.path.getsize(path) == 0


@pytest.mark.parametrize("size", SIZES)
def test_raw(path: str, xp: Any, size: int) -> None:
    values = np.arange(size, dtype=np.int64)
    array, back = xp.array(values), xp.array(np.zeros_like(values))
    with kvikio.CuFile(path, "w+") as file:
        if not xp.is_device:
            for call in (file.raw_read, file.raw_write):
                with pytest.raises(ValueError, match="Non-CUDA buffers not supported"):
                    call(array)
            return
        assert file.raw_write(array) == values.nbytes
        assert file.raw_read(back) == values.nbytes
        assert np.array_equal(xp.host(back), values)
        assert file.raw_read(back, size=8, file_offset=0, dev_offset=values.nbytes - 8) == 8
        assert xp.host(back)[-1] == 0
        with pytest.raises(ValueError, match="Size is greater than the size of the buffer"):
            file.raw_read(back, size=8, dev_offset=values.nbytes - 7)
        assert file.raw_write(array, dev_offset=values.nbytes) == 0


@pytest.mark.parametrize("bounce_buffer_size", [1, 10, 100, 1000])
@pytest.mark.parametrize("size", [1, 10, 100, 1000])
def test_bounce_buffers_of_any_size(path: str, xp: Any, size: int, bounce_buffer_size: int) -> None:
    values = np.arange(size, dtype=np.int64)
    array, back = xp.array(values), xp.array(np.zeros_like(values))
    modes = {"compat_mode": kvikio.CompatMode.ON, "num_threads": 10, "bounce_buffer_size": bounce_buffer_size}
    with kvikio.defaults.set(modes), kvikio.CuFile(path, "w+") as file:
        assert file.write(array) == values.nbytes
        assert file.read(back) == values.nbytes
    assert np.array_equal(xp.host(back), values)


def test_bounce_buffer_free(path: str, xp: Any) -> None:
    if not xp.is_device:
        pytest.skip("host memory needs no bounce buffers here")
    kvikio.bounce_buffer_free()
    array = xp.array(np.arange(10, dtype=np.int64))
    for size in (1024, 2048):
        modes = {"compat_mode": kvikio.CompatMode.ON, "num_threads": 1, "bounce_buffer_size": size}
        with kvikio.defaults.set(modes):
            with kvikio.CuFile(path, "w") as file:
                file.write(array)
            assert kvikio.bounce_buffer_free() == size
            assert kvikio.bounce_buffer_free() == 0


def test_the_mode_of_a_file_is_fixed_when_it_opens(path: str, xp: Any) -> None:
    values = np.arange(100, dtype=np.int64)
    file = kvikio.CuFile(path, "w")
    route = file.route
    with kvikio.defaults.set("compat_mode", kvikio.CompatMode.ON):
        assert file.route == route
        assert file.write(xp.array(values)) == values.nbytes
    assert np.array_equal(np.fromfile(path, np.int64), values)
