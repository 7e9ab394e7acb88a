"""Servers on loopback for the tests of remote files."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

#: A function that answers a request: status, headers, body.
Answer = Callable[[BaseHTTPRequestHandler], tuple[int, dict[str, str], bytes]]


class Unavailable(Exception):
    """Why this machine does not have a server."""


class Faulty:
    """The project's scripted server, whose paths name a fault, a length, and anything: ``/reset1/1000/mine``."""

    def __init__(self, *arguments: str) -> None:
        program = os.environ.get("KVIKIO_TEST_FAULTY_SERVER")
        if program is None:
            raise Unavailable(
                "KVIKIO_TEST_FAULTY_SERVER does not name the faulty server (cargo xtask test does)"
            )
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([program, *arguments], stdin=pipe, stdout=pipe, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()

    def log(self, path: str) -> list[str]:
        """Method and range of each request for ``path`` so far."""
        with urllib.request.urlopen(self.url + "/log") as answer:
            lines = [line.split() for line in answer.read().decode().splitlines()]
        return [" ".join([line[0], *line[2:]]) for line in lines if line[1].split("?")[0] == path]


class Moto:
    """An S3 server (moto), which takes any keys."""

    def __init__(self) -> None:
        port = unused_port()
        self.url = f"http://127.0.0.1:{port}"
        # Its imports warn, and it must not ask who it is.
        command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        if not any("Running on" in line for line in self._process.stderr):
            raise Unavailable("moto.server cannot be started: pip install 'moto[s3]' flask flask-cors")
        # So that it never waits for somebody to read what it says.
        self._reader = threading.Thread(target=self._process.stderr.read)
        self._reader.start()

    def stop(self) -> None:
        self._process.kill()
        self._reader.join()
        self._process.communicate()

    def put(self, bucket: str, key: str | None = None, body: bytes = b"") -> None:
        """Stores an object, or makes a bucket."""
        path = f"/{bucket}" + ("" if key is None else "/" + urllib.parse.quote(key))
        # The credential's scope tells moto that S3 is meant.
        scope = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request"
        headers = {"Content-Type": "application/octet-stream", "Authorization": scope}
        headers["x-amz-acl"] = "public-read"
        request = urllib.request.Request(self.url + path, body, headers, method="PUT")
        urllib.request.urlopen(request).close()


class Mock:
    """A server whose answers a function makes; it keeps a log of methods, targets and headers."""

    def __init__(self, answer: Answer) -> None:
        log: list[tuple[str, str, dict[str, str]]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                log.append((self.command, self.path, headers))
                status, headers, body = answer(self)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET

            def log_message(self, *_words: Any) -> None: ...

        self.log = log
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def __enter__(self) -> Mock:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def ranged(handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
    """The answer of a server that knows ranges."""
    text = handler.headers.get("Range")
    if text is None:
        return 200, {}, body
    first, last = (int(number) for number in text.removeprefix("bytes=").split("-"))
    part = body[first : last + 1]
    return 206, {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{len(body)}"}, part


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def content(length: int, start: int = 0) -> np.ndarray:
    """Bytes of the faulty server's objects."""
    index = np.arange(start, start + length, dtype=np.int64)
    return ((index * 31 + index // 251) % 256).astype(np.uint8)


_STARTED: dict[type, Faulty | Moto | Unavailable] = {}


def started(kind: type[Faulty | Moto]) -> Faulty | Moto | Unavailable:
    """The one server of that kind that the test run has."""
    if kind not in _STARTED:
        try:
            _STARTED[kind] = kind()
        except Unavailable as why:
            _STARTED[kind] = why
    return _STARTED[kind]


def stop_all() -> None:
    """Ends the servers that were started."""
    for server in _STARTED.values():
        if not isinstance(server, Unavailable):
            server.stop()
    _STARTED.clear()
