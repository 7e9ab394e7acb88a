"""File I/O straight into GPU or host memory."""

from kvikio import defaults, exceptions
from kvikio._kvikio import __git_commit__, __version__, bounce_buffer_free
from kvikio._lib.defaults import CompatMode, RemoteIOBackend, RemoteReactorDispatch
from kvikio.cufile import CuFile, IOFuture
from kvikio.remote_file import (
    RemoteEndpointType,
    RemoteFile,
    infer_remote_endpoint_type,
    is_remote_file_available,
)

__all__ = [
    "CompatMode",
    "CuFile",
    "IOFuture",
    "RemoteEndpointType",
    "RemoteFile",
    "RemoteIOBackend",
    "RemoteReactorDispatch",
    "__git_commit__",
    "__version__",
    "bounce_buffer_free",
    "defaults",
    "exceptions",
    "infer_remote_endpoint_type",
    "is_remote_file_available",
]
