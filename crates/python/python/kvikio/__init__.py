"""File I/O straight into GPU or host memory."""

from kvikio import defaults, exceptions
from kvikio._kvikio import __git_commit__, __version__, bounce_buffer_free
from kvikio._lib.defaults import CompatMode, RemoteIOBackend, RemoteReactorDispatch
from kvikio.cufile import CuFile, IOFuture

__all__ = [
    "CompatMode",
    "CuFile",
    "IOFuture",
    "RemoteIOBackend",
    "RemoteReactorDispatch",
    "__git_commit__",
    "__version__",
    "bounce_buffer_free",
    "defaults",
    "exceptions",
]
