"""Objects that lend memory: by the buffer protocol, the CUDA array interface, or DLPack."""

from __future__ import annotations

import array
import ctypes
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvikio
import memory

DATA = bytes(range(1, 25))


def _fortran() -> np.ndarray:
    return np.zeros((2, 3), np.int32, order="F")


KINDS: dict[str, Callable[[], Any]] = {
    "bytearray": lambda: bytearray(24),
    "memoryview": lambda: memoryview(bytearray(24)),
    "memoryview of items": lambda: memoryview(bytearray(24)).cast("d", (3, 1)),
    "array": lambda: array.array("h", bytes(24)),
    "ctypes array": lambda: (ctypes.c_int * 6)(),
    "ctypes struct": lambda: type("S", (ctypes.Structure,), {"_fields_": [("x", ctypes.c_char * 24)]})(),
    "mmap": lambda: mmap.mmap(-1, 24),
    "numpy C": lambda: np.zeros((2, 3), np.int32),
    "numpy F": _fortran,
    "numpy T": lambda: np.zeros((2, 3), np.int32).T,
    "numpy axis of one": lambda: np.zeros((4, 6), np.uint8)[:, None, :],
    "numpy 0-d": lambda: np.array(b"", "S24"),
    "numpy dates": lambda: np.zeros(3, "M8[s]"),
    "numpy records": lambda: np.zeros(2, [("a", "i4"), ("b", "f8")]),
    "numpy complex": lambda: np.zeros(3, np.complex64),
    "numpy part": lambda: np.zeros(100, np.uint8)[10:34],
    "dlpack": lambda: memory.Tensor(np.zeros((2, 3), np.int32)),
    "dlpack of old": lambda: memory.Tensor(np.zeros((2, 3), np.int32), versioned=False),
    "dlpack part": lambda: memory.Tensor(np.zeros((4, 12), np.uint8)[1:3]),
}


def contents(buffer: Any) -> bytes:
    if isinstance(buffer, memory.Tensor):
        buffer = buffer.values
    if isinstance(buffer, np.ndarray):
        return buffer.tobytes(order="A")
    return bytes(buffer)


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_buffers(path: str, kind: str) -> None:
    Path(path).write_bytes(DATA)
    buffer = KINDS[kind]()
    with kvikio.CuFile(path) as file:
        assert file.read(buffer) == 24
    assert contents(buffer) == DATA
    other = path + ".copy"
    with kvikio.CuFile(other, "w") as file:
        assert file.write(buffer) == 24
        assert file.pwrite(buffer, file_offset=24).get() == 24
    assert Path(other).read_bytes() == DATA * 2


@pytest.mark.parametrize("kind", KINDS)
def test_no_reference_is_left_behind(path: str, kind: str) -> None:
    import sys

    Path(path).write_bytes(DATA)
    buffer = KINDS[kind]()
    before = sys.getrefcount(buffer)
    with kvikio.CuFile(path) as file:
        for _ in range(10):
            file.read(buffer)
            file.pread(buffer).get()
            with pytest.raises(ValueError):
                file.read(buffer, size=25)
    assert sys.getrefcount(buffer) == before
    if isinstance(buffer, bytearray):
        buffer.append(1)


@pytest.mark.parametrize(
    "buffer",
    [
        np.zeros((4, 6), np.uint8)[:, 1:],
        np.zeros(10)[::2],
        np.zeros(10)[::-1],
        np.zeros((2, 3, 4)).transpose(1, 0, 2),
        np.broadcast_to(np.zeros(1), 5),
        memoryview(bytearray(10))[::3],
        memory.Tensor(np.zeros(10)[::2]),
        memory.Tensor(np.zeros((4, 6), np.uint8)[:, 1:]),
    ],
)
def test_gaps_are_refused(path: str, buffer: Any) -> None:
    with kvikio.CuFile(path, "w+") as file:
        for call in (file.read, file.write, file.pread, file.pwrite):
            with pytest.raises(ValueError, match="Array must be contiguous"):
                call(buffer)


def _read_only() -> np.ndarray:
    values = np.full(24, 9, np.uint8)
    values.flags.writeable = False
    return values


@pytest.mark.parametrize(
    "make",
    [
        lambda: bytes(b"\x09" * 24),
        lambda: memoryview(bytes(b"\x09" * 24)),
        _read_only,
        lambda: memory.Tensor(_read_only()),
        lambda: mmap.mmap(-1, 24, prot=mmap.PROT_READ),
    ],
)
def test_nothing_is_read_into_what_is_read_only(path: str, make: Callable[[], Any]) -> None:
    Path(path).write_bytes(DATA)
    buffer = make()
    before = contents(buffer)
    with kvikio.CuFile(path, "r+") as file:
        for call in (file.read, file.pread):
            with pytest.raises(BufferError, match="read-only"):
                call(buffer)
        assert contents(buffer) == before
        assert file.write(buffer) == 24
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize("wrong", ["text", 3, None, [1, 2], {}, object()])
def test_what_lends_no_memory(path: str, wrong: object) -> None:
    with (
        kvikio.CuFile(path, "w+") as file,
        pytest.raises(TypeError, match=f"a bytes-like object is required, not '{type(wrong).__name__}'"),
    ):
        file.write(wrong)


class Interface:
    """An object with a ``__cuda_array_interface__`` of a test's making."""

    def __init__(self, **changes: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": (2, 3),
            "typestr": "<i4",
            "data": (4096, False),
            "version": 3,
        } | changes
        for key in [key for key, value in changes.items() if value is KeyError]:
            del self.__cuda_array_interface__[key]


@pytest.mark.parametrize(
    ("changes", "error", "pattern"),
    [
        ({"mask": object()}, NotImplementedError, "mask attribute not supported"),
        ({"data": (-1, False)}, OverflowError, "negative value"),
        ({"data": KeyError}, KeyError, "data"),
        ({"shape": KeyError}, KeyError, "shape"),
        ({"typestr": KeyError}, KeyError, "typestr"),
        ({"typestr": None}, ValueError, "Expected `str`, but got `None`"),
        ({"typestr": ""}, ValueError, "Got unexpected empty `str`"),
        ({"typestr": "garbage"}, TypeError, "garbage"),
        ({"shape": [2, 3]}, TypeError, "shape must be a tuple"),
        ({"strides": (4,)}, ValueError, "The length of shape and strides must be equal"),
        ({"strides": (24, 4)}, ValueError, "Array must be contiguous"),
        ({"strides": (8, 4)}, ValueError, "Array must be contiguous"),
        ({"shape": (2**40, 2**40)}, OverflowError, "larger than memory"),
    ],
)
def test_bad_cuda_array_interfaces(
    path: str, changes: dict[str, Any], error: type[Exception], pattern: str
) -> None:
    with kvikio.CuFile(path, "w+") as file, pytest.raises(error, match=pattern):
        file.write(Interface(**changes))
    broken = Interface()
    broken.__cuda_array_interface__ = [1]
    with kvikio.CuFile(path, "w+") as file, pytest.raises(TypeError, match="must be a dict"):
        file.write(broken)


@pytest.mark.parametrize(
    ("typestr", "size"),
    [("|b1", 1), ("|u1", 1), ("<f2", 2), (">i4", 4), ("<c8", 8), ("<f16", 16), ("|V8", 8)],
)
@pytest.mark.parametrize("strides", [None, "C", "F"])
def test_the_size_of_an_item(path: str, typestr: str, size: int, strides: str | None) -> None:
    order = {None: None, "C": (3 * size, size), "F": (size, 2 * size)}[strides]
    source = Interface(typestr=typestr, strides=order)
    with (
        kvikio.CuFile(path, "w+") as file,
        pytest.raises(ValueError, match="Size is greater") as caught,
    ):
        file.write(source, size=6 * size + 1)
    assert caught.value.range == (0, 6 * size + 1)
    with kvikio.CuFile(path, "w+") as file, pytest.raises((RuntimeError, EOFError)):
        file.read(source)


def test_an_interface_that_is_none_is_none(path: str) -> None:
    class Host(np.ndarray):
        __cuda_array_interface__ = None

    with kvikio.CuFile(path, "w") as file:
        assert file.write(np.zeros(3).view(Host)) == 24


def test_errors_of_the_object_itself_pass_through(path: str) -> None:
    class Broken:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            raise ZeroDivisionError("on purpose")

    class Far:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (7, 0)

        def __dlpack__(self, **_: Any) -> None:
            raise AssertionError("not to be called")

    with kvikio.CuFile(path, "w") as file:
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            file.write(Broken())
        with pytest.raises(BufferError, match="device of type 7"):
            file.write(Far())


def test_the_buffer_protocol_comes_before_dlpack(path: str) -> None:
    class Both(np.ndarray):
        def __dlpack__(self, **_: Any) -> None:  # type: ignore[override]
            raise AssertionError("not to be called")

    with kvikio.CuFile(path, "w") as file:
        assert file.write(np.zeros(3).view(Both)) == 24


def test_device_memory_that_is_read_only(path: str) -> None:
    try:
        xp = memory.module("device")
    except memory.Unavailable as why:
        pytest.skip(str(why))
    array_ = xp.array(np.arange(10))
    for stream in (None, 1, 2):
        array_.stream = stream
        with kvikio.CuFile(path, "w+") as file:
            assert file.write(array_) == 80
            assert file.read(array_) == 80
    array_.readonly = True
    with kvikio.CuFile(path) as file, pytest.raises(BufferError):
        file.read(array_)
