"""From addresses to types, and the services by name: WebHDFS, presigned links, S3."""

from __future__ import annotations

import json
import urllib.parse
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvikio
import kvikio.defaults
import servers
from kvikio import RemoteEndpointType, RemoteFile, exceptions

S3, PUBLIC = RemoteEndpointType.S3, RemoteEndpointType.S3_PUBLIC
PRESIGNED, HDFS, HTTP = (
    RemoteEndpointType.S3_PRESIGNED_URL,
    RemoteEndpointType.WEBHDFS,
    RemoteEndpointType.HTTP,
)
SIGNED = "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=abc"

TYPES: dict[str, RemoteEndpointType | str] = {
    "s3://bucket/key": S3,
    "S3://bucket_name/object_name": S3,
    "s3://b//k": S3,
    "s3://b/k?x#y": S3,
    "https://bucket.s3.us-east-1.amazonaws.com/key": S3,
    "https://s3.us-east-1.amazonaws.com/bucket/key": S3,
    "https://bucket.s3.amazonaws.com/key": S3,
    "https://s3.amazonaws.com/bucket/key": S3,
    "https://bucket.s3-eu-west-1.amazonaws.com/key": S3,
    "https://s3-eu-west-1.amazonaws.com/bucket/key": S3,
    "https://bucket.s3.us-east-1.amazonaws.com/key" + SIGNED: PRESIGNED,
    "https://other.host/key" + SIGNED: HTTP,
    "https://s3.us-east-1.amazonaws.com/b": HTTP,
    "https://bucket.s3.us-east-1.amazonaws.com.cn/key": HTTP,
    "http://host:9870/webhdfs/v1/data": HDFS,
    "HTTPS://host:9870/WebHDFS/V1/data?op=OPEN": HDFS,
    "http://host/webhdfs/v1/f": HTTP,
    "http://host:1/webhdfs/v1/": HTTP,
    "http://host/x": HTTP,
    "s3://bucket": "Unsupported endpoint URL",
    "s3://b/": "Unsupported endpoint URL",
    "http://h": "Unsupported endpoint URL",
    "http://h/": "Unsupported endpoint URL",
    "ftp://h/x": "Unsupported endpoint URL",
    "file:///x": "Unsupported endpoint URL",
    "example.com/path": "Bad scheme",
    "": "Malformed input to a URL function",
    "http://": "No host part in the URL",
    "h:80/x": "Unsupported number of slashes following scheme",
}


@pytest.fixture
def aws(no_aws: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A process with credentials for S3."""
    no_aws.setenv("AWS_ACCESS_KEY_ID", "key")
    no_aws.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    no_aws.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return no_aws


@pytest.mark.parametrize("url", TYPES)
def test_types_are_inferred(aws: pytest.MonkeyPatch, url: str) -> None:
    expected = TYPES[url]
    if isinstance(expected, RemoteEndpointType):
        assert kvikio.infer_remote_endpoint_type(url) is expected
        aws.delenv("AWS_SECRET_ACCESS_KEY")
        assert kvikio.infer_remote_endpoint_type(url) is (PUBLIC if expected is S3 else expected)
        return
    with pytest.raises(RuntimeError, match=expected) as caught:
        kvikio.infer_remote_endpoint_type(url)
    assert isinstance(caught.value, exceptions.InvalidUrlError)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(RuntimeError, match=expected):
        RemoteFile.open(url)


def test_the_list_of_types_and_the_users_word_are_obeyed(faulty: servers.Faulty) -> None:
    url = f"{faulty.url}/ok/10"
    assert RemoteFile.open(url, HTTP).remote_endpoint_type() is HTTP
    assert RemoteFile.open(url, allow_list=[HDFS, HTTP]).remote_endpoint_type() is HTTP
    assert RemoteFile.open(url, HTTP, [HTTP], 7).nbytes() == 7
    for arguments, pattern in [
        ((url, HTTP, [S3]), "HTTP is not in the allowlist."),
        ((url, S3), "Invalid URL for S3 endpoint"),
        ((url, PUBLIC), "Invalid URL for S3 public endpoint"),
        ((url, PRESIGNED), "Invalid URL for S3 with presigned URL endpoint"),
        ((url, HDFS), "Invalid URL for WebHDFS endpoint"),
        ((url, RemoteEndpointType.AUTO, [HDFS]), "Unsupported endpoint URL"),
        ((url, RemoteEndpointType.AUTO, []), "Unsupported endpoint URL"),
    ]:
        with pytest.raises(RuntimeError, match=pattern):
            RemoteFile.open(*arguments)
    for wrong in (5, "HTTP"):
        with pytest.raises(TypeError, match="RemoteEndpointType"):
            RemoteFile.open(url, wrong)
    with pytest.raises(TypeError):
        RemoteFile.open(url, HTTP, HTTP)


class Hadoop:
    """A name node that sends readers to a data node, as WebHDFS has it."""

    def __init__(self, body: bytes, status: str | None = None) -> None:
        self.body = body
        self.status = status or json.dumps({"FileStatus": {"length": len(body), "type": "FILE"}})

    def __call__(self, handler: Any) -> tuple[int, dict[str, str], bytes]:
        parts = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        if parts.path != "/webhdfs/v1/path/to/file":
            words = {"exception": "FileNotFoundException", "message": "File does not exist"}
            return 404, {}, json.dumps({"RemoteException": words}).encode()
        if query["op"] == "GETFILESTATUS":
            return 200, {}, self.status.encode()
        if "moved" not in query:
            return 307, {"Location": handler.path + "&moved=1"}, b""
        offset = int(query["offset"])
        return 200, {}, self.body[offset : offset + int(query["length"])]


def test_webhdfs(xp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    body = servers.content(80_000).tobytes()
    monkeypatch.setenv("KVIKIO_WEBHDFS_USERNAME", "somebody")
    with servers.Mock(Hadoop(body)) as mock:
        # As the guide has it, as the service has it, and with a query that does not matter.
        for path in ("/path/to/file", "/webhdfs/v1/path/to/file", "/webhdfs/v1/path/to/file?op=OPEN"):
            with RemoteFile.open_webhdfs(mock.url + path) as file:
                assert (file.nbytes(), file.remote_endpoint_type()) == (80_000, HDFS)
                array = xp.array(np.zeros(80_000, np.uint8))
                with kvikio.defaults.set("task_size", 30_001):
                    assert file.read(array) == 80_000
                assert xp.host(array).tobytes() == body
                assert file.read(array[:79_992], file_offset=8) == 79_992
                assert xp.host(array)[:79_992].tobytes() == body[8:]
        with RemoteFile.open(mock.url + "/webhdfs/v1/path/to/file?user.name=me") as file:
            assert file.remote_endpoint_type() is HDFS
        with pytest.raises(FileNotFoundError, match="File does not exist"):
            RemoteFile.open_webhdfs(mock.url + "/no/such/file")
        targets = [target for _, target, _ in mock.log]
    assert all("user.name=somebody" in target for target in targets[:-3])
    assert "user.name=me" in targets[-2]


def test_a_name_node_that_does_not_tell_the_size() -> None:
    text = r"Regular expression search failed. Cannot extract file length from the JSON response."
    with (
        servers.Mock(Hadoop(b"", '{"FileStatus": {"len": 10}}')) as mock,
        pytest.raises(RuntimeError, match=text),
    ):
        RemoteFile.open_webhdfs(mock.url + "/path/to/file")


def test_presigned_links() -> None:
    body = servers.content(5000).tobytes()

    def answer(handler: Any) -> tuple[int, dict[str, str], bytes]:
        if handler.command != "GET" or not handler.path.endswith("X-Amz-Signature=planted%2Fa"):
            return 403, {}, b"<Error><Code>SignatureDoesNotMatch</Code></Error>"
        return servers.ranged(handler, body)

    with servers.Mock(answer) as mock:
        url = mock.url + "/bucket/key%20a?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=planted%2Fa"
        with RemoteFile.open_s3_presigned_url(url) as file:
            assert (file.nbytes(), file.remote_endpoint_type()) == (5000, PRESIGNED)
            assert "/bucket/key%20a" in str(file)
            assert "planted" not in str(file)
            block = bytearray(5000)
            assert file.read(block) == 5000
            assert bytes(block) == body
        assert RemoteFile.open_s3_presigned_url(presigned_url=url, nbytes=5000).nbytes() == 5000
        with pytest.raises(PermissionError, match="URL returned error: 403"):
            RemoteFile.open_s3_presigned_url(url + "x")


def test_a_presigned_link_whose_size_is_a_secret() -> None:
    with (
        servers.Mock(lambda handler: (206, {"Content-Range": "bytes 0-0/*"}, b"x")) as mock,
        pytest.raises(ValueError, match=r"File size information missing on the server side."),
    ):
        RemoteFile.open_s3_presigned_url(mock.url + "/b/k" + SIGNED)


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        ("AWS_DEFAULT_REGION", "S3: must provide `aws_region` if AWS_DEFAULT_REGION isn't set."),
        ("AWS_ACCESS_KEY_ID", "S3: must provide `aws_access_key` if AWS_ACCESS_KEY_ID isn't set."),
        (
            "AWS_SECRET_ACCESS_KEY",
            "S3: must provide `aws_secret_access_key` if AWS_SECRET_ACCESS_KEY isn't set.",
        ),
    ],
)
def test_missing_credentials_are_said_when_a_file_is_opened(
    aws: pytest.MonkeyPatch, missing: str, text: str
) -> None:
    aws.delenv(missing)
    for make in (
        lambda: RemoteFile.open_s3("bucket", "key", 10),
        lambda: RemoteFile.open_s3_url("s3://bucket/key", 10),
        lambda: RemoteFile.open("s3://bucket/key", S3, None, 10),
        lambda: RemoteFile.open("s3://bucket/key", allow_list=[S3], nbytes=10),
    ):
        with pytest.raises(ValueError, match=text) as caught:
            make()
        assert isinstance(caught.value, exceptions.CredentialsError)


def test_the_environment_is_read_when_a_file_is_opened(aws: pytest.MonkeyPatch) -> None:
    aws.setenv("AWS_ACCESS_KEY_ID", "ASIAKEY")
    with pytest.raises(ValueError, match=r"When using temporary credentials, AWS_SESSION_TOKEN must be set."):
        RemoteFile.open_s3("bucket", "key", 10)
    with servers.Mock(lambda handler: servers.ranged(handler, b"0123456789")) as mock:
        aws.setenv("AWS_SESSION_TOKEN", "token")
        aws.setenv("AWS_ENDPOINT_URL", mock.url)
        assert RemoteFile.open_s3("bucket", "key").read(bytearray(10)) == 10
        _, target, headers = mock.log[-1]
        assert target == "/bucket/key"
        assert headers["x-amz-security-token"] == "token"
        assert "Credential=ASIAKEY/" in headers["authorization"]


def test_what_cannot_be_s3_is_refused(aws: pytest.MonkeyPatch) -> None:
    for url, text in [
        ("unsupported://bucket/key", "Unsupported protocol: unsupported://bucket/key"),
        ("s3://bucket", "Input string does not match the expected S3 URL format."),
    ]:
        with pytest.raises(ValueError, match=text):
            RemoteFile.open_s3_url(url, 10)


def test_without_or_with_refused_credentials_objects_are_public(aws: pytest.MonkeyPatch) -> None:
    body = servers.content(100).tobytes()

    def answer(handler: Any) -> tuple[int, dict[str, str], bytes]:
        if handler.path.endswith("/private"):
            return 403, {}, b"<Error><Code>AccessDenied</Code></Error>"
        if handler.path.endswith("/missing"):
            return 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        if "authorization" in {name.lower() for name in handler.headers}:
            return 403, {}, b"<Error><Code>InvalidAccessKeyId</Code></Error>"
        return servers.ranged(handler, body)

    with servers.Mock(answer) as mock:
        aws.setenv("AWS_ENDPOINT_URL", mock.url)
        file = RemoteFile.open("s3://bucket/key")
        assert (file.remote_endpoint_type(), file.nbytes(), file.read(bytearray(100))) == (PUBLIC, 100, 100)
        assert RemoteFile.open("s3://bucket/key", nbytes=7).nbytes() == 7
        with pytest.raises(PermissionError, match=r"with credentials: .*AccessDenied"):
            RemoteFile.open("s3://bucket/private")
        with pytest.raises(PermissionError, match="InvalidAccessKeyId"):
            RemoteFile.open("s3://bucket/key", allow_list=[S3])
        count = len(mock.log)
        with pytest.raises(FileNotFoundError):
            RemoteFile.open("s3://bucket/missing")
        assert all("authorization" in headers for _, _, headers in mock.log[count:])
        aws.delenv("AWS_ACCESS_KEY_ID")
        count = len(mock.log)
        file = RemoteFile.open("s3://bucket/key", nbytes=100)
        assert (file.remote_endpoint_type(), len(mock.log)) == (PUBLIC, count)
        with pytest.raises(PermissionError, match="without credentials: S3: must provide `aws_access_key`"):
            RemoteFile.open("s3://bucket/private")
        assert RemoteFile.open_s3_public("s3://bucket/key").nbytes() == 100


@pytest.fixture
def bucket(moto: servers.Moto, aws: pytest.MonkeyPatch) -> servers.Moto:
    aws.setenv("AWS_ENDPOINT_URL", moto.url)
    moto.put("bucket_name")
    return moto


def test_s3_in_all_its_forms(bucket: servers.Moto, xp: Any) -> None:
    body = servers.content(3_000_001).tobytes()
    bucket.put("bucket_name", "object_name", body)
    bucket.put("bucket-name")
    bucket.put("bucket-name", "object_name", body)
    url = bucket.url + "/bucket-name/object_name"
    for file in [
        RemoteFile.open_s3("bucket_name", "object_name"),
        RemoteFile.open_s3_url("s3://bucket_name/object_name"),
        RemoteFile.open_s3_url(url),
        RemoteFile.open("S3://bucket_name/object_name"),
        RemoteFile.open("S3://bucket_name/object_name", S3, [S3]),
        RemoteFile.open_s3_public("s3://bucket-name/object_name"),
        RemoteFile.open_http(url),
    ]:
        assert file.nbytes() == len(body)
        array = xp.array(np.zeros(len(body), np.uint8))
        with kvikio.defaults.set("task_size", 999_999):
            assert file.read(buf=array) == len(body)
        assert xp.host(array).tobytes() == body
    assert RemoteFile.open("S3://bucket_name/object_name", nbytes=1).nbytes() == 1
    assert RemoteFile.open("S3://bucket_name/object_name").remote_endpoint_type() is S3
    for make in (
        lambda: RemoteFile.open_s3("bucket_name", "no"),
        lambda: RemoteFile.open_s3("no-bucket", "no"),
    ):
        with pytest.raises(RuntimeError, match="URL returned error: 404") as caught:
            make()
        assert isinstance(caught.value, FileNotFoundError)


KEYS = ["a#b", "a?b", "a%b", "a b", "a+b", "a%20b", "ä€", "a&b=c", "a//b", "a~[b]*'()", "a:b;c@d,e$f!", "%2F"]


@pytest.mark.parametrize("key", KEYS)
def test_any_key_is_taken_to_the_letter(bucket: servers.Moto, key: str) -> None:
    body = key.encode() * 3
    bucket.put("bucket_name", "a", b"the wrong object")
    bucket.put("bucket_name", key, body)
    for file in (
        RemoteFile.open_s3("bucket_name", key),
        RemoteFile.open_s3_url("s3://bucket_name/" + key),
        RemoteFile.open("s3://bucket_name/" + key),
        RemoteFile.open_s3_url(bucket.url + "/bucket_name/" + urllib.parse.quote(key)),
    ):
        block = bytearray(file.nbytes())
        assert file.read(block) == len(body)
        assert bytes(block) == body


def test_credentials_come_from_files_too(no_aws: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    text = "[default]\naws_access_key_id = of-a-file\naws_secret_access_key = secret\nregion = us-east-1\n"
    (tmp_path / ".aws/credentials").write_text(text)
    with servers.Mock(lambda handler: servers.ranged(handler, b"0123456789")) as mock:
        no_aws.setenv("AWS_ENDPOINT_URL", mock.url)
        no_aws.setenv("AWS_DEFAULT_REGION", "us-east-1")
        assert RemoteFile.open("s3://bucket/key").remote_endpoint_type() is S3
        assert "Credential=of-a-file/" in mock.log[0][2]["authorization"]
