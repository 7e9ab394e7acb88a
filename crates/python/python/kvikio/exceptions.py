"""What this package raises.

Every class derives from :class:`KvikIOError`, from the built-in exception of the same meaning, and, where KvikIO raises
one, from ``RuntimeError`` or ``ValueError``.
"""

from __future__ import annotations

import io
from typing import Any

__all__ = [
    "AccessDeniedError",
    "CancelledError",
    "ChangedError",
    "ClosedError",
    "CredentialsError",
    "CuFileError",
    "CudaError",
    "DirectoryError",
    "ForkedError",
    "InvalidInputError",
    "InvalidUrlError",
    "KvikIOError",
    "NotFoundError",
    "NotSeekableError",
    "OffsetOverflowError",
    "OutOfRangeError",
    "OversizedError",
    "PathError",
    "ReadOnlyBufferError",
    "RefusedError",
    "StorageFullError",
    "SystemFailure",
    "TimedOutError",
    "UnavailableError",
    "UnexpectedEofError",
    "UnreachableError",
    "UnverifiedError",
    "WrongModeError",
]


class KvikIOError(Exception):
    """The base of all exceptions of this package."""

    #: What went wrong, in a stable word: ``"NotFound"``, ``"UnexpectedEof"``, …
    kind: str
    #: During what: ``"open"``, ``"read"``, ``"write"``, …
    operation: str
    #: On what: the path, or the address without secrets.
    subject: str | None
    #: Which bytes of it, as ``(start, end)``.
    range: tuple[int, int] | None
    #: How many bytes from the start of the range are done, where that is known.
    done: int | None
    #: True where the same call may succeed later.
    retryable: bool
    #: The code that the system, the CUDA driver or cuFile gave, by ``kind``.
    code: int | None
    #: The HTTP status of the last answer, where a server gave one.
    status: int | None
    #: How often a request was sent before it was given up, where it was one for a server.
    attempts: int | None
    #: What happened, without operation, subject and range.
    reason: str

    def __init__(
        self,
        message: str = "",
        *,
        kind: str = "Io",
        operation: str = "",
        subject: str | None = None,
        range: tuple[int, int] | None = None,
        done: int | None = None,
        retryable: bool = False,
        code: int | None = None,
        status: int | None = None,
        attempts: int | None = None,
        reason: str = "",
    ) -> None:
        super().__init__(message)
        self._message = message
        self.kind = kind
        self.operation = operation
        self.subject = subject
        self.range = range
        self.done = done
        self.retryable = retryable
        self.code = code
        self.status = status
        self.attempts = attempts
        self.reason = reason
        if isinstance(self, OSError):
            system = {"errno": code, "strerror": reason, "filename": subject}
            for name, value in system.items():
                setattr(self, name, value)

    def __str__(self) -> str:
        return self._message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._message, {name: getattr(self, name) for name in _FIELDS})


_FIELDS = (
    "kind",
    "operation",
    "subject",
    "range",
    "done",
    "retryable",
    "code",
    "status",
    "attempts",
    "reason",
)


def _rebuild(cls: type[KvikIOError], message: str, fields: dict[str, Any]) -> KvikIOError:
    return cls(message, **fields)


class NotFoundError(KvikIOError, FileNotFoundError, RuntimeError):
    """The path or the remote object does not exist."""


class PathError(KvikIOError, NotADirectoryError, RuntimeError):
    """A part of the path that has to be a directory is none."""


class AccessDeniedError(KvikIOError, PermissionError, RuntimeError):
    """The system or the server refused access, or the file system is mounted read-only."""


class DirectoryError(KvikIOError, IsADirectoryError, RuntimeError):
    """The path names a directory."""


class NotSeekableError(KvikIOError, io.UnsupportedOperation, RuntimeError):
    """The path names something without offsets: a FIFO, a socket."""


class SystemFailure(KvikIOError, OSError, RuntimeError):
    """Another failure of the system; see ``errno``."""


class StorageFullError(SystemFailure):
    """No space is left on the device, or a quota was reached; ``done`` bytes went well."""


class InvalidInputError(KvikIOError, ValueError):
    """An argument or an environment variable is wrong in itself."""


class OutOfRangeError(KvikIOError, ValueError, IndexError):
    """A range lies outside the buffer."""


class OffsetOverflowError(KvikIOError, OverflowError, RuntimeError):
    """A range lies beyond the largest offset that the system knows."""


class ReadOnlyBufferError(KvikIOError, BufferError, ValueError):
    """The buffer must not be written to, so nothing can be read into it."""


class WrongModeError(KvikIOError, io.UnsupportedOperation, RuntimeError):
    """The file was not opened for this: a read on a write-only file, or the reverse."""


class ClosedError(KvikIOError, ValueError, RuntimeError):
    """The file was closed."""


class UnexpectedEofError(KvikIOError, EOFError, RuntimeError):
    """The file ended before the bytes that were asked for; the buffer holds the ``done`` first of them."""


class ChangedError(KvikIOError, RuntimeError):
    """The file or the remote object changed while it was read, so that no answer is the right one."""


class CudaError(KvikIOError, RuntimeError):
    """A call of the CUDA driver failed."""


class CuFileError(KvikIOError, RuntimeError):
    """A call of cuFile failed."""


class UnavailableError(KvikIOError, RuntimeError):
    """What the request needs is not there: no driver, no device, no cuFile."""


class CancelledError(KvikIOError, RuntimeError):
    """The request was given up while it ran."""


class ForkedError(KvikIOError, RuntimeError):
    """The request belongs to the process before a ``fork``."""


class InvalidUrlError(KvikIOError, ValueError, RuntimeError):
    """A URL that cannot be used; the message says what is wrong with it."""


class CredentialsError(KvikIOError, PermissionError, ValueError, RuntimeError):
    """No credentials, or none that the service accepts; the message says where they were looked for."""


class UnreachableError(KvikIOError, ConnectionError, RuntimeError):
    """A server could not be reached, or a connection broke: its name, TCP, or TLS."""


class TimedOutError(KvikIOError, TimeoutError, RuntimeError):
    """Nothing came, or not enough, within the time that a limit allows."""


class RefusedError(KvikIOError, OSError, RuntimeError):
    """A server answered with a status that no other class describes; see ``status``."""


class UnverifiedError(KvikIOError, OSError, RuntimeError):
    """A server's answer is not what was asked for: a wrong range or length, an encoding, no HTTP."""


class OversizedError(UnverifiedError, OverflowError):
    """A server sends more than it was asked for."""
