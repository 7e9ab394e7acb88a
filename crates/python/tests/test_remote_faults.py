"""What servers and networks do wrong: the right bytes all the same, or an error that says what happened."""

from __future__ import annotations

import pickle
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvikio
import kvikio.defaults
import servers
from kvikio import RemoteFile, exceptions

LENGTH = 100_000

# Faults that are no trouble: the object arrives as it is.
HARMLESS = [
    "redirect",
    "cross",
    "ignore",
    "half",
    "chunked",
    "untilclose",
    "http10",
    "interim",
    "closesilently",
    "reset",
    "close",
    "slowhead",
    "reset1",
    "close1",
    "noanswer1",
    "408x1",
    "425x1",
    "503x1",
    "429x1",
    "head403",
    "head405",
    "headnolength",
]

# Faults that cannot be mended: the class, another type that must catch it, what the text says, the status.
FATAL: dict[str, tuple[type, type, str, int | None]] = {
    "404": (exceptions.NotFoundError, FileNotFoundError, "The requested URL returned error: 404", 404),
    "401": (exceptions.AccessDeniedError, PermissionError, "The requested URL returned error: 401", 401),
    "403": (exceptions.AccessDeniedError, PermissionError, "The requested URL returned error: 403", 403),
    "416": (exceptions.UnexpectedEofError, EOFError, "The requested URL returned error: 416", 416),
    "418": (exceptions.RefusedError, OSError, "The requested URL returned error: 418", 418),
    "500": (
        exceptions.RefusedError,
        OSError,
        "KvikIO: HTTP request reached maximum number of attempts .2.. Reason: Got HTTP code 500.",
        500,
    ),
    "short": (exceptions.UnverifiedError, OSError, "Content-Range announces 1000 bytes", 206),
    "shifted": (exceptions.UnverifiedError, OSError, "asked for were", 206),
    "norange": (exceptions.UnverifiedError, OSError, "Content-Range", 206),
    "gzip": (exceptions.UnverifiedError, OSError, "encoded .gzip.", 206),
    "long": (exceptions.OversizedError, OverflowError, "maybe the server doesn't support file ranges", 206),
    "loop": (exceptions.RefusedError, OSError, "redirect", 302),
    "garbage": (exceptions.UnverifiedError, OSError, "not HTTP", None),
    "hugehead": (exceptions.UnverifiedError, OSError, "head", None),
    "errordocument": (exceptions.UnverifiedError, OSError, "document", 200),
}


@pytest.mark.parametrize("fault", HARMLESS)
def test_what_can_be_mended_is_mended(faulty: servers.Faulty, xp: Any, fault: str) -> None:
    url = f"{faulty.url}/{fault}/{LENGTH}/{xp.name}".replace(" ", "-")
    array = xp.array(np.zeros(LENGTH, np.uint8))
    with RemoteFile.open_http(url, None if fault.startswith("head") else LENGTH) as file:
        assert file.nbytes() == LENGTH
        assert file.read(array) == LENGTH
        assert np.array_equal(xp.host(array), servers.content(LENGTH))
        assert file.read(array[:1000], file_offset=50_000) == 1000
    assert np.array_equal(xp.host(array)[:1000], servers.content(1000, 50_000))


@pytest.mark.parametrize("fault", FATAL)
def test_what_cannot_is_said(faulty: servers.Faulty, fault: str) -> None:
    kind, builtin, pattern, status = FATAL[fault]
    url = f"{faulty.url}/{fault}/{LENGTH}/fatal"
    with (
        kvikio.defaults.set("http_max_attempts", 2),
        RemoteFile.open_http(url, LENGTH) as file,
        pytest.raises(kind, match=pattern) as caught,
    ):
        file.pread(bytearray(1000), file_offset=500).get()
    error = caught.value
    assert isinstance(error, builtin)
    assert isinstance(error, RuntimeError)
    assert error.status == status
    assert error.attempts == (2 if fault == "500" else 1)
    assert error.retryable == (fault == "500")
    assert (error.subject, error.range, error.operation) == (url, (500, 1500), "read")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.status, copy.attempts) == (str(error), status, error.attempts)


def test_an_object_that_is_replaced_is_never_mixed(faulty: servers.Faulty) -> None:
    with RemoteFile.open_http(f"{faulty.url}/etag/{LENGTH}/mixed") as file:
        first = bytearray(1000)
        assert file.read(first) == 1000
        assert bytes(first) == servers.content(1000).tobytes()
        with pytest.raises(exceptions.ChangedError):
            file.read(bytearray(1000), file_offset=5000)


def test_one_line_on_standard_output_for_one_retry(
    faulty: servers.Faulty, capfd: pytest.CaptureFixture[str]
) -> None:
    line = "KvikIO: Got HTTP code 503. Retrying after 500ms (attempt 1 of 2).\n"
    with kvikio.defaults.set({"http_max_attempts": 2}):
        with pytest.raises(RuntimeError, match="KvikIO: HTTP request reached maximum number of attempts"):
            RemoteFile.open_http(f"{faulty.url}/503/10/line")
        assert capfd.readouterr() == (line, "")
        file = RemoteFile.open_http(f"{faulty.url}/503/10/line", 10)
        with pytest.raises(RuntimeError, match="Got HTTP code 503"):
            file.read(bytearray(10))
        assert capfd.readouterr() == (line, "")
        with kvikio.defaults.set("http_retry_notice", False), pytest.raises(RuntimeError):
            file.read(bytearray(10))
        assert capfd.readouterr() == ("", "")
    with kvikio.defaults.set("http_max_attempts", 1), pytest.raises(RuntimeError):
        file.read(bytearray(10))
    assert capfd.readouterr() == ("", "")


def test_a_limit_of_time_is_kept(faulty: servers.Faulty, capfd: pytest.CaptureFixture[str]) -> None:
    line = "KvikIO: Timeout error. Retrying after 500ms (attempt 1 of 2).\n"
    with kvikio.defaults.set({"http_max_attempts": 2, "http_timeout": 1}):
        with RemoteFile.open_http(f"{faulty.url}/stall1/900/limit", 900) as file:
            block = bytearray(900)
            assert file.read(block) == 900
            assert bytes(block) == servers.content(900).tobytes()
        capfd.readouterr()
        file = RemoteFile.open_http(f"{faulty.url}/delay3000/900/limit", 900)
        began = time.monotonic()
        with pytest.raises(
            TimeoutError, match=r"maximum number of attempts .*Operation timed out\."
        ) as caught:
            file.read(bytearray(900))
        assert 2 <= time.monotonic() - began < 6
        assert isinstance(caught.value, exceptions.TimedOutError)
        assert capfd.readouterr() == (line, "")


def test_a_server_that_says_when_to_come_again_is_obeyed(
    faulty: servers.Faulty, capfd: pytest.CaptureFixture[str]
) -> None:
    file = RemoteFile.open_http(f"{faulty.url}/429x1/10/later", 10)
    began = time.monotonic()
    assert file.read(bytearray(10)) == 10
    assert 0.9 < time.monotonic() - began < 4
    line = r"KvikIO: Got HTTP code 429. Retrying after 1\d\d\dms \(attempt 1 of 3\).\n"
    assert re.fullmatch(line, capfd.readouterr().out)


def test_statuses_that_are_not_listed_are_final(faulty: servers.Faulty) -> None:
    with kvikio.defaults.set("http_status_codes", [429]):
        file = RemoteFile.open_http(f"{faulty.url}/503x1/10/listed", 10)
        with pytest.raises(RuntimeError, match="503"):
            file.read(bytearray(10))
        assert file.read(bytearray(10)) == 10


def test_a_slow_body_that_keeps_coming_arrives(faulty: servers.Faulty) -> None:
    with RemoteFile.open_http(f"{faulty.url}/trickle/20000/slow") as file:
        block = bytearray(20_000)
        assert file.read(block) == 20_000
        assert bytes(block) == servers.content(20_000).tobytes()


@pytest.mark.parametrize(
    ("url", "pattern"),
    [
        ("http://127.0.0.1:{port}/x", "Failed to connect to 127.0.0.1 port {port}"),
        ("http://no-such-host.invalid/x", "Could not resolve host: no-such-host.invalid"),
    ],
)
def test_a_server_that_is_not_there(url: str, pattern: str) -> None:
    port = servers.unused_port()
    with kvikio.defaults.set("http_max_attempts", 1):
        with pytest.raises(ConnectionError, match=pattern.format(port=port)) as caught:
            RemoteFile.open_http(url.format(port=port))
        assert isinstance(caught.value, exceptions.UnreachableError)
        assert isinstance(caught.value, RuntimeError)
        assert caught.value.retryable
        file = RemoteFile.open_http(url.format(port=port), 10)
        with pytest.raises(ConnectionError, match=pattern.format(port=port)):
            file.read(bytearray(10))


def test_a_size_that_nobody_tells() -> None:
    with servers.Mock(lambda handler: (404 if handler.command == "HEAD" else 204, {}, b"")) as mock:
        with pytest.raises(exceptions.KvikIOError):
            RemoteFile.open_http(mock.url + "/x")
        assert [method for method, _, _ in mock.log] == ["GET", "HEAD"]


def test_credentials_in_the_url_reach_the_server(faulty: servers.Faulty) -> None:
    url = f"{faulty.url}/private/10"
    with pytest.raises(PermissionError):
        RemoteFile.open_http(url)
    with RemoteFile.open_http(url.replace("://", "://user:password@")) as file:
        assert file.read(bytearray(10)) == 10
        assert "password" not in str(file)


def test_tls_trusts_whom_the_environment_says_when_a_file_is_opened(
    faulty: servers.Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = tmp_path / "authority.pem"
    server = servers.Faulty("--tls", str(authority))
    url = f"{server.url}/ok/{LENGTH}"
    try:
        assert url.startswith("https://")
        with (
            kvikio.defaults.set("http_max_attempts", 1),
            pytest.raises(ConnectionError, match="SSL_CERT_FILE") as caught,
        ):
            RemoteFile.open_http(url)
        assert isinstance(caught.value, exceptions.UnreachableError)
        monkeypatch.setenv("CURL_CA_BUNDLE", str(authority))
        with RemoteFile.open_http(url) as file:
            block = bytearray(LENGTH)
            assert file.read(block) == LENGTH
        assert bytes(block) == servers.content(LENGTH).tobytes()
    finally:
        server.stop()


def test_proxies_are_those_of_the_environment_when_a_file_is_opened(
    faulty: servers.Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = servers.Faulty("--proxy")
    try:
        monkeypatch.setenv("http_proxy", proxy.url)
        with RemoteFile.open_http(f"{faulty.url}/ok/10/proxy") as file:
            assert file.read(bytearray(10)) == 10
        assert len(faulty.log("/ok/10/proxy")) == 2
        proxy.stop()
        with kvikio.defaults.set("http_max_attempts", 1), pytest.raises(ConnectionError):
            RemoteFile.open_http(f"{faulty.url}/ok/10/proxy")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert RemoteFile.open_http(f"{faulty.url}/ok/10/proxy").nbytes() == 10
    finally:
        proxy.stop()
