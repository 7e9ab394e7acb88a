"""The enumerations among the settings."""

from enum import IntEnum

__all__ = ["CompatMode", "RemoteIOBackend", "RemoteReactorDispatch"]


class CompatMode(IntEnum):
    """The route of local files."""

    #: cuFile always; opening fails where it cannot be had.
    OFF = 0
    #: cuFile never.
    ON = 1
    #: cuFile where it is the fast way.
    AUTO = 2


class RemoteIOBackend(IntEnum):
    """Who drives remote requests."""

    EASY_THREADPOOL = 0
    MULTI_POLL = 1


class RemoteReactorDispatch(IntEnum):
    """What a reactor of the ``MULTI_POLL`` backend is chosen for."""

    PER_CHUNK = 0
    PER_PREAD = 1
