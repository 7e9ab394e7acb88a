"""Fixtures: a folder on a real disk, settings that go back, and one array module for each kind of memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvikio.defaults
import memory
import servers


@pytest.fixture
def path(tmp_path: Path) -> str:
    return os.fspath(tmp_path / "data")


@pytest.fixture(autouse=True)
def _settings_go_back() -> Iterator[None]:
    """What a test sets is undone, also where it was not set before."""
    names = kvikio.defaults.describe()
    before = {name: row["value"] for name, row in names.items() if row["is_set"]}
    yield
    after = {name: row["value"] for name, row in kvikio.defaults.describe().items() if row["is_set"]}
    assert after == before, "the test left settings behind"


@pytest.fixture(params=["numpy", "dlpack", "device", "cupy", "torch-cpu", "torch-cuda"])
def xp(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Where arrays live: see ``memory.Module``."""
    try:
        module = memory.module(request.param)
        if os.environ.get("KVIKIO_TEST_FAKES") and isinstance(module, memory.Device):
            assert module.driver.is_fake, "the fakes are asked for, and another driver was loaded"
    except memory.Unavailable as why:
        if os.environ.get("KVIKIO_TEST_FAKES") and request.param == "device":
            pytest.fail(f"the fakes are asked for, and not there: {why}")
        pytest.skip(str(why))
    yield module
    if isinstance(module, memory.Device):
        assert module.driver.violation() == "", "a rule of the driver's was broken"


@pytest.fixture(params=[0, 16 << 10, 1 << 20])
def gds_threshold(request: pytest.FixtureRequest) -> Iterator[int]:
    with kvikio.defaults.set("gds_threshold", request.param):
        yield request.param


def _server(kind: type[servers.Faulty | servers.Moto]) -> Any:
    server = servers.started(kind)
    if isinstance(server, servers.Unavailable):
        pytest.skip(str(server))
    return server


@pytest.fixture
def faulty() -> servers.Faulty:
    return _server(servers.Faulty)


@pytest.fixture
def moto() -> servers.Moto:
    return _server(servers.Moto)


@pytest.fixture(scope="session", autouse=True)
def _servers_end() -> Iterator[None]:
    yield
    servers.stop_all()


@pytest.fixture
def no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A process that nobody has given credentials."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch
