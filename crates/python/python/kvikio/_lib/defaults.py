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
    """How many event loops drive remote requests."""

    #: As many as we choose.
    EASY_THREADPOOL = 0
    #: As many as the setting ``remote_io_num_reactors`` says.
    MULTI_POLL = 1


class RemoteReactorDispatch(IntEnum):
    """What an event loop is chosen for in KvikIO; accepted, without effect."""

    PER_CHUNK = 0
    PER_PREAD = 1
