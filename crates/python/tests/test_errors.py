"""Every error has its own class, which is also the built-in of its meaning and what KvikIO raises."""

from __future__ import annotations

import errno
import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvikio
from kvikio import exceptions

BUFFER = np.zeros(10, np.int64)


def _closed(path: str) -> kvikio.CuFile:
    file = kvikio.CuFile(path)
    file.close()
    return file


# what fails, the class, the other types that must catch it, a pattern of the text, and bytes of the range.
TABLE: dict[str, tuple[Callable[[str], Any], type, tuple[type, ...], str, tuple[int, int] | None]] = {
    "missing": (
        lambda path: kvikio.CuFile(path + ".no"),
        exceptions.NotFoundError,
        (FileNotFoundError, RuntimeError),
        "Unable to open file.*No such file or directory",
        None,
    ),
    "directory": (
        lambda path: kvikio.CuFile(os.path.dirname(path)),
        exceptions.DirectoryError,
        (IsADirectoryError, RuntimeError),
        "Unable to open file.*Is a directory",
        None,
    ),
    "write on r": (
        lambda path: kvikio.CuFile(path, "r").write(BUFFER),
        exceptions.WrongModeError,
        (io.UnsupportedOperation, RuntimeError),
        "Operation not permitted",
        (0, 80),
    ),
    "read on w": (
        lambda path: kvikio.CuFile(path, "w").read(BUFFER, file_offset=8),
        exceptions.WrongModeError,
        (io.UnsupportedOperation, RuntimeError),
        "Operation not permitted",
        (8, 88),
    ),
    "read on closed": (
        lambda path: _closed(path).read(BUFFER),
        exceptions.ClosedError,
        (ValueError, RuntimeError),
        "Operation not permitted.*closed",
        None,
    ),
    "pwrite on closed": (
        lambda path: _closed(path).pwrite(BUFFER),
        exceptions.ClosedError,
        (ValueError, RuntimeError),
        "closed",
        None,
    ),
    "flags of closed": (
        lambda path: _closed(path).open_flags(),
        exceptions.ClosedError,
        (ValueError, RuntimeError),
        "retrieve open flags",
        None,
    ),
    "across the end": (
        lambda path: kvikio.CuFile(path).read(BUFFER, file_offset=30),
        exceptions.UnexpectedEofError,
        (EOFError, RuntimeError),
        "POSIX error on pread: EOF",
        (30, 110),
    ),
    "at the end": (
        lambda path: kvikio.CuFile(path).pread(BUFFER, file_offset=100).get(),
        exceptions.UnexpectedEofError,
        (EOFError, RuntimeError),
        "POSIX error on pread: EOF",
        (100, 180),
    ),
    "device full": (
        lambda path: kvikio.CuFile("/dev/full", "w").write(BUFFER),
        exceptions.StorageFullError,
        (OSError, RuntimeError),
        "POSIX error on pwrite.*No space left on device",
        (0, 80),
    ),
    "size over buffer": (
        lambda path: kvikio.CuFile(path).read(BUFFER, size=81),
        exceptions.OutOfRangeError,
        (ValueError,),
        "Size is greater than the size of the buffer",
        (0, 81),
    ),
    "not contiguous": (
        lambda path: kvikio.CuFile(path).read(BUFFER[::2]),
        exceptions.InvalidInputError,
        (ValueError,),
        "Array must be contiguous",
        (0, 40),
    ),
    "into bytes": (
        lambda path: kvikio.CuFile(path).pread(b"12345"),
        exceptions.ReadOnlyBufferError,
        (BufferError, ValueError),
        "read-only",
        (0, 5),
    ),
    "offset 2^63 - 1": (
        lambda path: kvikio.CuFile(path).pread(BUFFER, file_offset=2**63 - 1),
        exceptions.OffsetOverflowError,
        (OverflowError, RuntimeError),
        "size_t argument too large to fit off_t",
        (2**63 - 1, 2**63 + 79),
    ),
    "offset + size": (
        lambda path: kvikio.CuFile(path).read(BUFFER, file_offset=2**64 - 8),
        exceptions.OffsetOverflowError,
        (OverflowError, RuntimeError),
        "size_t argument too large to fit off_t",
        (2**64 - 8, 2**64 - 1),
    ),
    "append with an offset": (
        lambda path: kvikio.CuFile(path, "a").write(BUFFER, file_offset=1),
        exceptions.InvalidInputError,
        (ValueError,),
        "file_offset must be 0",
        (1, 81),
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_table(path: str, case: str) -> None:
    Path(path).write_bytes(bytes(100))
    fails, cls, others, pattern, span = TABLE[case]
    with pytest.raises(exceptions.KvikIOError, match=pattern) as caught:
        fails(path)
    error = caught.value
    assert type(error) is cls
    assert isinstance(error, others)
    assert error.subject in str(error)
    assert error.range == span
    assert error.operation
    assert error.kind
    assert error.retryable is False
    if span and span[1] < 2**64 - 1:
        assert f"bytes {span[0]}..{span[1]}" in str(error)


@pytest.mark.parametrize("case", TABLE)
def test_exceptions_survive_pickling(path: str, case: str) -> None:
    Path(path).write_bytes(bytes(100))
    with pytest.raises(exceptions.KvikIOError) as caught:
        TABLE[case][0](path)
    error = caught.value
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
    if isinstance(error, OSError):
        assert (copy.errno, copy.filename, copy.strerror) == (error.errno, error.filename, error.strerror)


def test_a_missing_file_looks_like_pythons_own(path: str) -> None:
    with pytest.raises(FileNotFoundError) as theirs:
        Path(path).open()
    with pytest.raises(FileNotFoundError) as ours:
        kvikio.CuFile(path)
    for name in ("errno", "strerror", "filename"):
        assert getattr(ours.value, name) == getattr(theirs.value, name)


def test_the_end_of_file_leaves_what_was_read(path: str, xp: Any) -> None:
    Path(path).write_bytes(bytes(range(100)))
    array = xp.array(np.full(200, 255, np.uint8))
    with kvikio.CuFile(path) as file, pytest.raises(EOFError) as caught:
        file.read(array, file_offset=40)
    assert caught.value.done == 60
    assert bytes(xp.host(array)) == bytes(range(40, 100)) + b"\xff" * 140


def test_a_full_device_says_how_far_it_came(tmp_path: Path) -> None:
    assert os.path.exists("/dev/full")
    with kvikio.CuFile("/dev/full", "w") as file, pytest.raises(OSError) as caught:
        file.pwrite(bytes(100_000), task_size=10_000).get()
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.done == 0


def test_a_fifo_does_not_block(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for mode in ("r", "w", "r+"):
        with pytest.raises(io.UnsupportedOperation, match="Unable to open file") as caught:
            kvikio.CuFile(fifo, mode)
        assert isinstance(caught.value, RuntimeError | OSError)


def test_no_permission(path: str) -> None:
    Path(path).write_bytes(b"x")
    os.chmod(path, 0)
    if os.geteuid() == 0:
        if not os.path.exists("/proc/sys/kernel/ostype"):
            pytest.skip("root may read everything, and there is no /proc to be refused by")
        # Root is refused by the kernel's own read-only files only.
        path = "/proc/sys/kernel/ostype"
        mode = "w"
    else:
        mode = "r"
    with pytest.raises(PermissionError, match="Unable to open file") as caught:
        kvikio.CuFile(path, mode)
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.filename == path


@pytest.mark.parametrize("call", ["read", "write", "pread", "pwrite"])
@pytest.mark.parametrize("argument", ["size", "file_offset", "task_size"])
def test_numbers_are_checked(path: str, call: str, argument: str) -> None:
    with kvikio.CuFile(path, "w+") as file:
        call = getattr(file, call)
        with pytest.raises(OverflowError, match="negative value"):
            call(bytearray(8), **{argument: -1})
        with pytest.raises(OverflowError, match="too large"):
            call(bytearray(8), **{argument: 2**64})
        for wrong in ("1", 1.5, []):
            with pytest.raises(TypeError):
                call(bytearray(8), **{argument: wrong})


def test_numpy_integers_are_integers(path: str) -> None:
    with kvikio.CuFile(path, "w+") as file:
        assert file.write(b"0123456789", np.int64(4), np.uint32(2), np.int16(3)) == 4
    assert Path(path).read_bytes() == b"\0\x000123"


def test_path_must_be_a_path(path: str) -> None:
    for wrong in (None, 3, 1.5):
        with pytest.raises(TypeError):
            kvikio.CuFile(wrong)
    with pytest.raises(ValueError, match="null byte"):
        kvikio.CuFile("a\0b")


def test_a_file_used_as_a_directory(path: str) -> None:
    Path(path).write_bytes(b"x")
    with pytest.raises(NotADirectoryError):
        kvikio.CuFile(path + "/below")


def test_a_message_is_one_line(path: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        kvikio.CuFile(path + "\nsecond line")
    assert "\n" not in str(caught.value)
    assert caught.value.filename == path + "\nsecond line"


class Index:
    """A number that raises, or is, what it is told."""

    def __init__(self, outcome: int | BaseException) -> None:
        self.outcome = outcome

    def __index__(self) -> int:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


def test_numbers_speak_for_themselves(path: str) -> None:
    Path(path).write_bytes(b"x" * 10)
    with kvikio.CuFile(path) as file:
        buffer = bytearray(4)
        assert file.read(buffer, file_offset=Index(3)) == 4  # type: ignore[arg-type]
        with pytest.raises(OverflowError, match="negative value"):
            file.read(buffer, file_offset=Index(-1))  # type: ignore[arg-type]
        with pytest.raises(ZeroDivisionError):
            file.read(buffer, file_offset=Index(ZeroDivisionError()))  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="an integer is required, not 'float'"):
            file.read(buffer, file_offset=1.0)  # type: ignore[arg-type]
