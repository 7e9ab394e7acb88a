"""Objects of HTTP servers, of S3 and of WebHDFS."""

from enum import Enum

from kvikio._kvikio import RemoteFile, infer_remote_endpoint_type, is_remote_file_available

__all__ = [
    "RemoteEndpointType",
    "RemoteFile",
    "infer_remote_endpoint_type",
    "is_remote_file_available",
]


class RemoteEndpointType(Enum):
    """What an address is taken for."""

    #: Whatever the address looks like.
    AUTO = 0
    #: S3, with credentials.
    S3 = 1
    #: S3, without credentials.
    S3_PUBLIC = 2
    #: S3, by a URL that carries its signature.
    S3_PRESIGNED_URL = 3
    #: Hadoop's file system over HTTP.
    WEBHDFS = 4
    #: Any HTTP server.
    HTTP = 5
