"""The native half of the package. Sizes and offsets are in bytes."""

from collections.abc import Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, TypedDict, final, overload

from typing_extensions import Buffer

from kvikio.remote_file import RemoteEndpointType

class _CudaArray(Protocol):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

class _Tensor(Protocol):
    def __dlpack__(self, *, max_version: tuple[int, int] | None = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class _Index(Protocol):
    def __index__(self) -> int: ...

#: What lends memory, asked in this order: the CUDA array interface, the buffer protocol, DLPack. It may have any shape
#: and item type, but no gaps: contiguous in C or in Fortran order.
_Memory: TypeAlias = _CudaArray | Buffer | _Tensor

class _Setting(TypedDict):
    value: Any
    is_set: bool
    environment: tuple[str, ...]
    doc: str

__all__ = [
    "ConfigContextManager",
    "CuFile",
    "IOFuture",
    "RemoteFile",
    "__git_commit__",
    "__version__",
    "bounce_buffer_free",
    "describe",
    "get",
    "infer_remote_endpoint_type",
    "is_compat_mode_preferred",
    "is_remote_file_available",
    "is_set",
    "run_cli",
    "set",
]

__version__: str
__git_commit__: str

class CuFile:
    """A file, open for reads and writes at offsets, into and out of host and device memory.

    Calls of many threads on one file may run side by side. The errors are classes of :mod:`kvikio.exceptions`; each is
    also the built-in exception of its meaning. They carry the path, the range of bytes, and the bytes done.
    """

    def __new__(cls, file: str | bytes | PathLike[str] | PathLike[bytes], flags: str = "r") -> Self:
        """Open a file; never blocks, whatever the path names.

        Parameters
        ----------
        file
            The path.
        flags
            As for ``open()``: ``"r"``, ``"w"`` (made or emptied), ``"a"`` (each write goes to where the file
            ends), with ``"+"`` anywhere after that for both ways. Other letters are ignored.

        Raises
        ------
        NotFoundError, AccessDeniedError, DirectoryError, NotSeekableError
            The path is not there, is refused, is a directory, or has no offsets (a FIFO).
        UnavailableError, CuFileError
            The setting ``compat_mode`` is ``OFF`` and cuFile cannot serve the file.
        ValueError
            Unknown flags, or a ``KVIKIO_*`` environment variable is malformed.
        """

    def read(
        self,
        buf: _Memory,
        size: _Index | None = None,
        file_offset: _Index = 0,
        task_size: _Index | None = None,
    ) -> int:
        """Fill ``buf``, or its first ``size`` bytes, from ``file_offset`` on.

        Parameters
        ----------
        buf
            Memory that may be written to.
        size
            Bytes to read; all of ``buf`` where it is None.
        file_offset
            Where in the file, in bytes.
        task_size
            Bytes of one task; None or 0: the setting ``task_size``.

        Returns
        -------
        The number of bytes read, which is always the number asked for.

        Raises
        ------
        UnexpectedEofError
            The file ends before; ``buf`` holds the first ``done`` bytes.
        ReadOnlyBufferError, OutOfRangeError, InvalidInputError
            ``buf`` is read-only, smaller than ``size``, or not contiguous.
        WrongModeError, ClosedError
            The file is not open for reading.
        OverflowError
            A negative number, or a range beyond 2^63 - 1.
        """

    def write(
        self,
        buf: _Memory,
        size: _Index | None = None,
        file_offset: _Index = 0,
        task_size: _Index | None = None,
    ) -> int:
        """Write ``buf``, or its first ``size`` bytes, at ``file_offset``; the arguments are those of :meth:`read`.

        Returns the number of bytes written, which is always the number asked for. Raises ``StorageFullError`` (an
        ``OSError``) where the device is full, and what :meth:`read` raises for bad arguments. In a file opened for
        appending ``file_offset`` must be 0.
        """

    def pread(
        self,
        buf: _Memory,
        size: _Index | None = None,
        file_offset: _Index = 0,
        task_size: _Index | None = None,
    ) -> IOFuture:
        """Start a :meth:`read` and return at once.

        The future keeps ``buf`` and the file until the read has ended. Bad arguments raise here, failed I/O in
        ``get()``.
        """

    def pwrite(
        self,
        buf: _Memory,
        size: _Index | None = None,
        file_offset: _Index = 0,
        task_size: _Index | None = None,
    ) -> IOFuture:
        """Start a :meth:`write` and return at once; see :meth:`pread`. ``buf`` must not change until it has ended."""

    def raw_read(
        self, buf: _Memory, size: _Index | None = None, file_offset: _Index = 0, dev_offset: _Index = 0
    ) -> int:
        """As :meth:`read`, for device memory only, by the calling thread and in one piece.

        ``dev_offset`` bytes of ``buf`` are skipped; ``size`` defaults to the rest.
        """

    def raw_write(
        self, buf: _Memory, size: _Index | None = None, file_offset: _Index = 0, dev_offset: _Index = 0
    ) -> int:
        """As :meth:`write`, for device memory only, by the calling thread and in one piece; see :meth:`raw_read`."""

    def close(self) -> None:
        """Close the file; may be called again. What is in flight goes on and keeps the descriptors until it ends."""

    @property
    def closed(self) -> bool:
        """True once :meth:`close` was called."""

    def fileno(self) -> int:
        """The file descriptor that goes through the page cache; -1 once closed."""

    def open_flags(self) -> int:
        """The flags of that descriptor, as of ``fcntl(F_GETFL)``."""

    def is_direct_io_supported(self) -> bool:
        """True where the file system grants direct I/O on the file, and it was opened with a use for it."""

    @property
    def route(self) -> str:
        """How device memory is reached: ``"direct"`` (by cuFile) or ``"staged"`` (through host memory)."""

    @property
    def route_reason(self) -> str:
        """Why device memory is reached that way, in words."""

    @property
    def _handle(self) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc: BaseException | None = None,
        traceback: TracebackType | None = None,
        /,
    ) -> None: ...

class RemoteFile:
    """An object of an HTTP server, of S3 or of WebHDFS, open for reads at offsets into host and device memory.

    Open one with :meth:`open`, or with the class method for its service. Calls of many threads on one object may run
    side by side. Where a class method is given ``nbytes``, the object's size, the server is not asked for it.

    The errors are classes of :mod:`kvikio.exceptions`; each is also the built-in exception of its meaning. They carry
    the address without secrets, the range of bytes, the HTTP ``status`` and the number of ``attempts``. Opening raises

    InvalidUrlError
        The URL cannot be used.
    CredentialsError, AccessDeniedError, NotFoundError, RefusedError
        The service wants other credentials, or does not have the object, or answers with another status.
    UnreachableError, TimedOutError
        The server cannot be reached, or does not answer, after all attempts (setting ``http_max_attempts``).
    UnverifiedError
        The server does not tell the size: give ``nbytes``.
    OverflowError
        ``nbytes`` is negative.
    """

    def __new__(cls, handle: RemoteFile) -> Self:
        """For subclasses; raises ``AssertionError`` for anything but a remote file."""

    @classmethod
    def open_http(cls, url: str, nbytes: _Index | None = None) -> Self:
        """Open the object at an http or https URL."""

    @classmethod
    def open_s3(
        cls,
        bucket_name: str,
        object_name: str,
        nbytes: _Index | None = None,
        aws_region_name: str | None = None,
        aws_access_key_id: str | None = None,
        aws_secret_access_key: str | None = None,
        aws_endpoint_url: str | None = None,
        aws_session_token: str | None = None,
    ) -> Self:
        """Open the object ``object_name`` of a bucket; the name is taken to the letter, nothing in it is escaped.

        What is not given comes from the environment (``AWS_*``), the shared files of the AWS tools, or a service of the
        machine or container.
        """

    @classmethod
    def open_s3_url(
        cls,
        url: str,
        nbytes: _Index | None = None,
        aws_region_name: str | None = None,
        aws_access_key_id: str | None = None,
        aws_secret_access_key: str | None = None,
        aws_endpoint_url: str | None = None,
        aws_session_token: str | None = None,
    ) -> Self:
        """Open an object of S3 by its URL: ``s3://bucket/key``, or the http(s) URL at which a server has it."""

    @classmethod
    def open_s3_public(cls, url: str, nbytes: _Index | None = None) -> Self:
        """Open an object of S3 that anybody may read, by its URL, without credentials."""

    @classmethod
    def open_s3_presigned_url(cls, presigned_url: str, nbytes: _Index | None = None) -> Self:
        """Open an object of S3 by a URL that carries its signature."""

    @classmethod
    def open_webhdfs(cls, url: str, nbytes: _Index | None = None) -> Self:
        """Open a file of Hadoop's file system over HTTP.

        The user is the URL's ``user.name``, else that of the environment variable ``KVIKIO_WEBHDFS_USERNAME``.
        """

    @classmethod
    def open(
        cls,
        url: str,
        remote_endpoint_type: RemoteEndpointType | None = ...,
        allow_list: Sequence[RemoteEndpointType] | None = None,
        nbytes: _Index | None = None,
    ) -> Self:
        """Open the object at ``url`` as what it looks like, or as what ``remote_endpoint_type`` says.

        ``allow_list`` names the types that it may be, in the order in which they are tried. What looks like S3 is
        asked for even where ``nbytes`` is given; where there are no credentials, or they are refused, it is opened as a
        public object.
        """

    def close(self) -> None:
        """Do nothing: connections belong to the process, and what is in flight keeps what it needs."""

    def nbytes(self) -> int:
        """The size in bytes, as it was told when the object was opened."""

    def remote_endpoint_type(self) -> RemoteEndpointType:
        """What the address was taken for."""

    def read(self, buf: _Memory, size: _Index | None = None, file_offset: _Index = 0) -> int:
        """Fill ``buf``, or its first ``size`` bytes, from ``file_offset`` on.

        Returns
        -------
        The number of bytes read, which is always the number asked for.

        Raises
        ------
        OutOfRangeError
            The object ends before; no server was asked. Also where ``buf`` is smaller than ``size``.
        ReadOnlyBufferError, InvalidInputError
            ``buf`` is read-only, or not contiguous.
        ChangedError
            The object was replaced since its first bytes were read.
        UnverifiedError
            The server sends something else than was asked for.
        UnreachableError, TimedOutError, AccessDeniedError, NotFoundError, RefusedError, CredentialsError
            As for opening.
        """

    def pread(self, buf: _Memory, size: _Index | None = None, file_offset: _Index = 0) -> IOFuture:
        """Start a :meth:`read` and return at once.

        The future keeps ``buf`` and the object until the read has ended. Bad arguments raise here, failed reads in
        ``get()``.
        """

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc: BaseException | None = None,
        traceback: TracebackType | None = None,
        /,
    ) -> None: ...

def infer_remote_endpoint_type(url: str) -> RemoteEndpointType:
    """The type that :meth:`RemoteFile.open` takes ``url`` for; no server is asked.

    Raises ``InvalidUrlError`` where it is no URL, or none of any service.
    """

def is_remote_file_available() -> bool:
    """True: remote files are always built in."""

@final
class IOFuture:
    """A read or write in flight. It keeps its buffer and its file. Dropping it neither waits nor cancels."""

    def get(self) -> int:
        """Wait for the end and return the number of bytes moved; a second call answers the same.

        Raises what stopped the request; ``ForkedError`` in a process forked meanwhile. Ctrl-C is heard while waiting:
        the request goes on after it.
        """

    def done(self) -> bool:
        """True once the request has ended, well or not. Does not wait."""

@final
class ConfigContextManager:
    """What ``kvikio.defaults.set`` returns: at the end of a ``with`` statement the old values return."""

    def __enter__(self) -> None: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc: BaseException | None = None,
        traceback: TracebackType | None = None,
        /,
    ) -> None: ...

def get(config_name: str) -> Any:
    """The value of a setting: the one that was set, else the one we choose.

    Raises ``KeyError`` for an unknown name, ``ValueError`` where a ``KVIKIO_*`` environment variable is malformed.
    """

@overload
def set(config: dict[str, Any], /) -> ConfigContextManager: ...
@overload
def set(key: str, value: Any, /) -> ConfigContextManager:
    """Change settings for all later calls in this process: all of them or, where one value is bad, none.

    Raises ``KeyError`` for an unknown name; ``TypeError``, ``ValueError`` or ``OverflowError`` for a bad value.
    """

def is_set(config_name: str) -> bool:
    """True where the setting was set, by the environment or by :func:`set`; False where its value is our choice."""

def describe() -> dict[str, _Setting]:
    """All settings by name: value, whether it was set, environment variables, meaning."""

def is_compat_mode_preferred() -> bool:
    """True where files opened now would not use cuFile: the mode is ON, or AUTO and cuFile is not to be had."""

def bounce_buffer_free() -> int:
    """Free the bounce buffers that are idle; returns the number of bytes freed."""

def run_cli(argv: Sequence[str], python_paths: Sequence[str] = ()) -> int:
    """Run the command line ``argv`` (with the program's name first); returns the exit status."""
