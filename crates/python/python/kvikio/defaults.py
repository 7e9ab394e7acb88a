"""The settings that hold for new calls of this process.

They come from ``KVIKIO_*`` environment variables, read once at the first use of a setting, and from :func:`set`.
"""

from kvikio._kvikio import ConfigContextManager, describe, get, is_compat_mode_preferred, is_set, set
from kvikio._lib.defaults import CompatMode

__all__ = [
    "CompatMode",
    "ConfigContextManager",
    "describe",
    "get",
    "is_compat_mode_preferred",
    "is_set",
    "set",
]
