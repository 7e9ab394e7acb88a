"""Files of this machine."""

from kvikio._kvikio import CuFile, IOFuture

__all__ = ["CuFile", "IOFuture"]
