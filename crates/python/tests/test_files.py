"""What files can be like: sparse, odd places, and direct I/O that must leave neighbours alone."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

import kvikio
import kvikio.defaults

PAGE = 4096
DIRECT = {"auto_direct_io_read": True, "auto_direct_io_write": True}


@pytest.mark.parametrize("hole", [2**31, 2**32, 2**33])
def test_holes(path: str, hole: int) -> None:
    with kvikio.CuFile(path, "w") as file:
        assert file.write(b"tail", file_offset=hole) == 4
    assert os.path.getsize(path) == hole + 4
    back = bytearray(b"\xff" * 12)
    with kvikio.CuFile(path) as file:
        assert file.read(back, file_offset=hole - 8) == 12
    assert back == bytes(8) + b"tail"
    assert os.stat(path).st_blocks < 1000


@pytest.mark.parametrize("start", [0, 1, PAGE - 1, PAGE, 3 * PAGE + 77])
@pytest.mark.parametrize("size", [1, PAGE - 1, PAGE, PAGE + 1, 5 * PAGE + 13])
@pytest.mark.parametrize("shift", [0, 1, 511])
def test_direct_reads_and_writes_leave_neighbours_alone(path: str, start: int, size: int, shift: int) -> None:
    before = np.random.default_rng(3).integers(0, 256, 12 * PAGE, np.uint8)
    before.tofile(path)
    room = np.full(size + shift + 600, 238, np.uint8)
    with kvikio.defaults.set(DIRECT | {"task_size": 2 * PAGE + 5}), kvikio.CuFile(path, "r+") as file:
        part = room[shift : shift + size]
        assert file.read(part, file_offset=start) == size
        assert np.array_equal(part, before[start : start + size])
        assert (room[:shift] == 238).all()
        assert (room[shift + size :] == 238).all()
        part[:] = ~part
        assert file.write(part, file_offset=start) == size
    after = np.fromfile(path, np.uint8)
    expected = before.copy()
    expected[start : start + size] = ~expected[start : start + size]
    assert np.array_equal(after, expected)


@pytest.mark.parametrize("bounce_buffer_size", [1, 100, PAGE - 1, PAGE, 5000, 3 * PAGE])
def test_direct_io_with_odd_bounce_buffers(path: str, bounce_buffer_size: int) -> None:
    data = np.random.default_rng(4).integers(0, 256, 10 * PAGE + 3, np.uint8)
    odd = np.empty(len(data) + 1, np.uint8)[1:]
    with (
        kvikio.defaults.set(DIRECT | {"bounce_buffer_size": bounce_buffer_size}),
        kvikio.CuFile(path, "w+") as file,
    ):
        odd[:] = data
        assert file.write(odd) == len(data)
        odd[:] = 0
        assert file.read(odd) == len(data)
    assert np.array_equal(odd, data)


def test_writes_beyond_the_end_fill_with_zeros(path: str) -> None:
    with kvikio.CuFile(path, "w+") as file:
        file.write(b"ab", file_offset=10)
        back = bytearray(b"x" * 12)
        file.read(back)
    assert back == bytes(10) + b"ab"


def test_a_file_without_direct_io(path: str) -> None:
    shm = Path("/dev/shm")
    if not shm.is_dir() or not os.access(shm, os.W_OK):
        pytest.skip("there is no writable /dev/shm")
    place = shm / f"kvikio-test-{os.getpid()}"
    try:
        data = np.arange(10_000, dtype=np.int64)
        with kvikio.defaults.set(DIRECT), kvikio.CuFile(place, "w+") as file:
            assert file.write(data) == data.nbytes
            back = np.zeros_like(data)
            assert file.read(back) == data.nbytes
        assert np.array_equal(back, data)
    finally:
        place.unlink(missing_ok=True)


def test_is_direct_io_supported(path: str) -> None:
    with kvikio.CuFile(path, "w") as file:
        granted = file.is_direct_io_supported()
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
        assert granted
    except OSError:
        assert not granted
    neither = {
        "auto_direct_io_read": False,
        "auto_direct_io_write": False,
        "compat_mode": kvikio.CompatMode.ON,
    }
    with kvikio.defaults.set(neither), kvikio.CuFile(path) as file:
        assert not file.is_direct_io_supported()


def test_files_of_proc_and_devices() -> None:
    back = bytearray(5)
    with kvikio.CuFile("/proc/self/status") as file:
        assert file.read(back) == 5
        assert back == b"Name:"
    with kvikio.CuFile("/dev/zero") as file:
        back = bytearray(b"x" * 100_000)
        assert file.read(back, task_size=1000) == 100_000
    assert not any(back)
    with kvikio.CuFile("/dev/null", "w") as file:
        assert file.write(b"gone") == 4
    with kvikio.CuFile("/dev/null") as file, pytest.raises(EOFError):
        file.read(back)


def test_checkpoints_of_many_arrays(path: str) -> None:
    arrays = [np.random.default_rng(number).random((number + 1, 37), np.float32) for number in range(10)]
    with kvikio.CuFile(path, "w") as file:
        offset = 0
        for array in arrays:
            file.write(array, file_offset=offset)
            offset += array.nbytes
    assert os.path.getsize(path) == offset
    with kvikio.CuFile(path) as file:
        ends = itertools.accumulate(array.nbytes for array in arrays)
        for array, end in zip(arrays, ends, strict=True):
            back = np.empty_like(array)
            file.read(back, file_offset=end - array.nbytes)
            assert np.array_equal(back, array)
