"""The modes of ``open()``, names of files, and the small methods of an open file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import kvikio
import kvikio.defaults
from kvikio import cufile

ACCESS = os.O_ACCMODE


@pytest.mark.parametrize(
    ("mode", "access"),
    [
        ("r", os.O_RDONLY),
        ("rb", os.O_RDONLY),
        ("rt", os.O_RDONLY),
        ("r+", os.O_RDWR),
        ("rb+", os.O_RDWR),
        ("r+b", os.O_RDWR),
        ("w", os.O_WRONLY),
        ("wb", os.O_WRONLY),
        ("w+", os.O_RDWR),
        ("wb+", os.O_RDWR),
        ("w+b", os.O_RDWR),
        ("a", os.O_WRONLY),
        ("ab", os.O_WRONLY),
        ("a+", os.O_RDWR),
        ("ab+", os.O_RDWR),
    ],
)
def test_modes(path: str, mode: str, access: int) -> None:
    Path(path).write_bytes(b"old")
    with kvikio.CuFile(path, mode) as file:
        assert file.open_flags() & ACCESS == access
    assert Path(path).read_bytes() == (b"" if mode[0] == "w" else b"old")


@pytest.mark.parametrize("mode", ["", "x", "+", "b", "z", "+r", None, 3])
def test_unknown_modes(path: str, mode: object) -> None:
    Path(path).write_bytes(b"old")
    with pytest.raises(ValueError, match="Unknown file open flag"):
        kvikio.CuFile(path, mode)
    assert Path(path).read_bytes() == b"old"


def test_a_new_file_has_the_usual_permissions(path: str) -> None:
    mask = os.umask(0o027)
    try:
        kvikio.CuFile(path, "w").close()
    finally:
        os.umask(mask)
    assert os.stat(path).st_mode & 0o777 == 0o640


def test_append(path: str) -> None:
    Path(path).write_bytes(b"old")
    with kvikio.CuFile(path, "a") as file:
        assert file.write(b" one") == 4
        futures = [file.pwrite(b" two"), file.pwrite(b" three"), file.pwrite(b"")]
        assert [future.get() for future in futures] == [4, 6, 0]
    assert Path(path).read_bytes() == b"old one two three"
    with kvikio.CuFile(path, "a+") as file:
        file.write(b"!")
        back = bytearray(4)
        file.read(back, file_offset=14)
    assert back == b"ree!"


def test_append_makes_the_file(path: str) -> None:
    with kvikio.CuFile(path, "a") as file:
        for number in range(5):
            file.write(np.full(3000, number, np.uint8))
    assert np.array_equal(np.fromfile(path, np.uint8), np.repeat(np.arange(5, dtype=np.uint8), 3000))


def test_writing_without_truncating(path: str) -> None:
    Path(path).write_bytes(b"0123456789")
    with kvikio.CuFile(path, "r+") as file:
        file.write(b"ab", file_offset=4)
    assert Path(path).read_bytes() == b"0123ab6789"


@pytest.mark.parametrize(
    "name", ["plain", "blank and 'quote'", "größe-ファイル", os.fsdecode(b"not\xffutf8\xfe"), "new\nline"]
)
def test_names(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with kvikio.CuFile(path, "w") as file:
        file.write(b"data")
        assert repr(file)
    for spelling in (path, os.fspath(path), os.fsencode(path)):
        back = bytearray(4)
        with kvikio.CuFile(spelling) as file:
            assert file.read(back) == 4
        assert back == b"data"
    path.unlink()
    with pytest.raises(FileNotFoundError) as caught:
        kvikio.CuFile(path)
    assert caught.value.filename == os.fspath(path)


def test_close(path: str) -> None:
    file = kvikio.CuFile(path, "w")
    descriptor = file.fileno()
    assert os.fstat(descriptor).st_ino == os.stat(path).st_ino
    assert file.closed is False
    for _ in range(2):
        assert file.close() is None
        assert file.closed is True
    assert file.fileno() == -1
    assert file.is_direct_io_supported() is False
    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_a_context_closes_after_an_exception(path: str) -> None:
    with pytest.raises(ZeroDivisionError), kvikio.CuFile(path, "w") as file:
        raise ZeroDivisionError
    assert file.closed


def test_descriptors_are_not_leaked(path: str) -> None:
    kvikio.CuFile(path, "w").close()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        with kvikio.CuFile(path, "w+") as file:
            file.write(bytes(5000))
        kvikio.CuFile(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_route(path: str) -> None:
    with kvikio.CuFile(path, "w") as file:
        assert file.route in ("direct", "staged")
        assert len(file.route_reason) > 10
    with kvikio.defaults.set("compat_mode", kvikio.CompatMode.ON), kvikio.CuFile(path) as file:
        assert file.route == "staged"


def test_the_class_is_where_kvikio_has_it(path: str) -> None:
    assert kvikio.CuFile is cufile.CuFile
    assert (kvikio.CuFile.__module__, kvikio.CuFile.__qualname__) == ("kvikio.cufile", "CuFile")
    assert kvikio.IOFuture is cufile.IOFuture
    assert kvikio.CuFile.read.__doc__
    with kvikio.CuFile(path, "w") as file:
        assert type(file._handle).__name__ == "CuFile"

    class Named(kvikio.CuFile):
        """Users subclass it."""

        name = "mine"

    with Named(path, "w") as file:
        assert file.write(b"abc") == 3
