"""The command as the package installs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import kvikio

RUN = [sys.executable, "-c", "import sys; from kvikio._cli import main; sys.exit(main())"]


def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [*RUN, *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | env)


def doctor(**env: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(run("doctor", "--json", **env).stdout)
    return report


def test_a_package_without_a_rival_is_well() -> None:
    report = doctor()
    assert report["kvikio"] == kvikio.__version__
    assert report["python"]["released_kvikio"] == []


def test_the_released_package_beside_ours_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "kvikio_cu13-26.10.0.dist-info").mkdir()
    report = doctor(PYTHONPATH=os.fspath(tmp_path))
    assert report["python"]["released_kvikio"] == ["kvikio_cu13-26.10.0"]
    assert report["verdict"] == "problem"


def test_exit_codes_and_errors_come_through(tmp_path: Path) -> None:
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(b"some bytes")
    assert run("copy", os.fspath(source), os.fspath(copy)).returncode == 0
    assert copy.read_bytes() == b"some bytes"
    failed = run("copy", os.fspath(tmp_path / "missing"), os.fspath(copy))
    assert failed.returncode == 1
    assert failed.stderr.startswith("kvikio: open ")
    assert run("no-such-command").returncode == 2
    assert run("demo", "--size", "100KiB").returncode == 0
