"""One way to make and look at arrays, whatever memory they are in."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Protocol

import numpy as np


class Unavailable(Exception):
    """Why this machine does not have a kind of memory."""


class Module(Protocol):
    """What the tests need of an array module."""

    name: str
    is_device: bool

    def array(self, values: np.ndarray) -> Any:
        """An array with these values."""

    def host(self, array: Any) -> np.ndarray:
        """A copy of its values."""


class Numpy:
    name = "numpy"
    is_device = False

    def array(self, values: np.ndarray) -> Any:
        return values.copy()

    def host(self, array: Any) -> np.ndarray:
        return array.copy()


class Cupy:
    name = "cupy"
    is_device = True

    def __init__(self) -> None:
        try:
            import cupy
        except ImportError as why:
            raise Unavailable(f"CuPy cannot be imported: {why}") from why
        self._cupy = cupy

    def array(self, values: np.ndarray) -> Any:
        return self._cupy.asarray(values)

    def host(self, array: Any) -> np.ndarray:
        return self._cupy.asnumpy(array)


class Torch:
    def __init__(self, device: str) -> None:
        try:
            import torch
        except ImportError as why:
            raise Unavailable(f"PyTorch cannot be imported: {why}") from why
        if device == "cuda" and not torch.cuda.is_available():
            raise Unavailable("PyTorch finds no CUDA device")
        self._torch, self._device = torch, device
        self.name, self.is_device = f"torch on {device}", device == "cuda"

    def array(self, values: np.ndarray) -> Any:
        return self._torch.from_numpy(values.copy()).to(self._device)

    def host(self, array: Any) -> np.ndarray:
        return array.cpu().numpy().copy()


class Driver:
    """The CUDA driver: NVIDIA's, or the project's fake, whose device addresses fault when the CPU touches them."""

    def __init__(self) -> None:
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as why:
            raise Unavailable(f"there is no CUDA driver, real or fake: {why}") from why
        self.is_fake = hasattr(self._cuda, "kvikio_fake_set")
        try:
            self.call("cuInit", 0)
            device = ctypes.c_int()
            self.call("cuDeviceGet", ctypes.byref(device), 0)
            self._context = ctypes.c_void_p()
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        except RuntimeError as why:
            raise Unavailable(f"the CUDA driver has no device: {why}") from why

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} answered {status}")

    def violation(self) -> str:
        """The first breach of the driver's rules that the fake has seen; a real driver tells of none."""
        if not self.is_fake:
            return ""
        text = ctypes.create_string_buffer(1000)
        self._cuda.kvikio_fake_violation(text, ctypes.c_size_t(len(text)))
        return text.value.decode()

    def __enter__(self) -> Driver:
        self.call("cuCtxPushCurrent_v2", self._context)
        return self

    def __exit__(self, *_exc: object) -> None:
        self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


class DeviceArray:
    """Device memory with ``__cuda_array_interface__`` and nothing else; slices share it."""

    def __init__(self, values: np.ndarray, driver: Driver) -> None:
        self.driver, self.dtype, self.shape = driver, values.dtype, values.shape
        self.nbytes, self.owner = values.nbytes, None
        self.stream: int | None = None
        self.readonly = False
        address = ctypes.c_uint64()
        values = np.ascontiguousarray(values)
        with driver:
            driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(1, self.nbytes)))
            self.address = address.value
            if self.nbytes:
                pointer = ctypes.c_void_p(values.ctypes.data)
                driver.call("cuMemcpyHtoD_v2", address, pointer, ctypes.c_size_t(self.nbytes))

    def __getitem__(self, index: slice) -> DeviceArray:
        start, stop, step = index.indices(self.shape[0])
        assert step == 1, "only plain slices"
        part = object.__new__(DeviceArray)
        part.driver, part.dtype, part.owner = self.driver, self.dtype, self
        part.shape = (max(0, stop - start), *self.shape[1:])
        part.nbytes = int(np.prod(part.shape)) * self.dtype.itemsize
        part.address = self.address + start * (self.nbytes // max(1, self.shape[0]))
        part.stream, part.readonly = self.stream, self.readonly
        return part

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, self.readonly),
            "version": 3,
            "strides": None,
            "stream": self.stream,
        }

    def host(self) -> np.ndarray:
        values = np.empty(self.shape, self.dtype)
        with self.driver as driver:
            if self.nbytes:
                pointer = ctypes.c_void_p(values.ctypes.data)
                driver.call(
                    "cuMemcpyDtoH_v2", pointer, ctypes.c_uint64(self.address), ctypes.c_size_t(self.nbytes)
                )
        return values

    def __del__(self) -> None:
        if getattr(self, "owner", self) is None and hasattr(self, "address"):
            with self.driver as driver:
                driver.call("cuMemFree_v2", ctypes.c_uint64(self.address))


class Device:
    """Device memory by the driver alone, real or fake."""

    is_device = True

    def __init__(self) -> None:
        self.driver = Driver()
        self.name = "fake device" if self.driver.is_fake else "device"

    def array(self, values: np.ndarray) -> Any:
        return DeviceArray(values, self.driver)

    def host(self, array: Any) -> np.ndarray:
        return array.host()


class Tensor:
    """A host tensor that speaks DLPack and nothing else, as PyTorch's CPU tensors do."""

    def __init__(self, values: np.ndarray, *, versioned: bool = True) -> None:
        self.values, self.versioned, self.exports = values, versioned, 0

    def __getitem__(self, index: slice) -> Tensor:
        return Tensor(self.values[index], versioned=self.versioned)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **kwargs: Any) -> Any:
        self.exports += 1
        if not self.versioned and "max_version" in kwargs:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        return self.values.__dlpack__(**kwargs)


class Tensors:
    name = "DLPack on the host"
    is_device = False

    def array(self, values: np.ndarray) -> Any:
        return Tensor(values.copy())

    def host(self, array: Any) -> np.ndarray:
        return array.values.copy()


@functools.cache
def _made(name: str) -> Module | Unavailable:
    try:
        match name:
            case "numpy":
                return Numpy()
            case "device":
                return Device()
            case "cupy":
                return Cupy()
            case "dlpack":
                return Tensors()
            case "torch-cpu":
                return Torch("cpu")
            case _:
                return Torch("cuda")
    except Unavailable as why:
        return why


def module(name: str) -> Module:
    """The module of that name; raises :class:`Unavailable` with the reason where this machine lacks it."""
    made = _made(name)
    if isinstance(made, Unavailable):
        raise made
    return made
