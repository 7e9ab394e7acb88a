"""The settings: their values, their checks, and what undoes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kvikio
import kvikio.defaults
import kvikio.exceptions
from kvikio import CompatMode

POSITIVE = [
    "num_threads",
    "thread_pool_nthreads",
    "task_size",
    "bounce_buffer_size",
    "http_max_attempts",
    "remote_io_num_reactors",
]
NATURAL = ["gds_threshold", "remote_io_max_concurrent_requests"]
SWITCHES = [
    "auto_direct_io_read",
    "auto_direct_io_write",
    "auto_direct_io_read_overread",
    "thread_pool_per_block_device",
]


@pytest.mark.parametrize("name", ["nope", "set_task_size", "", "TASK_SIZE"])
def test_unknown_names(name: str) -> None:
    for call in (
        lambda: kvikio.defaults.get(name),
        lambda: kvikio.defaults.is_set(name),
        lambda: kvikio.defaults.set(name, 1),
        lambda: kvikio.defaults.set({name: 1}),
        lambda: kvikio.defaults.set({"task_size": 5, name: 1}),
    ):
        with pytest.raises(KeyError):
            call()


def test_contexts_nest() -> None:
    before = kvikio.defaults.get("task_size")
    with kvikio.defaults.set("task_size", 4096) as nothing:
        assert nothing is None
        assert kvikio.defaults.get("task_size") == 4096
        with kvikio.defaults.set("task_size", 2048):
            assert kvikio.defaults.get("task_size") == 2048
        assert kvikio.defaults.get("task_size") == 4096
        with pytest.raises(ZeroDivisionError), kvikio.defaults.set("task_size", 1):
            raise ZeroDivisionError
        assert kvikio.defaults.get("task_size") == 4096
    assert kvikio.defaults.get("task_size") == before


def test_what_was_not_set_is_not_set_again() -> None:
    assert not kvikio.defaults.is_set("gds_threshold")
    with kvikio.defaults.set("gds_threshold", 3):
        assert kvikio.defaults.is_set("gds_threshold")
        assert kvikio.defaults.describe()["gds_threshold"]["is_set"]
        with kvikio.defaults.set("gds_threshold", 4):
            pass
        assert kvikio.defaults.is_set("gds_threshold")
        assert kvikio.defaults.get("gds_threshold") == 3
    assert not kvikio.defaults.is_set("gds_threshold")


def test_many_at_once() -> None:
    names = ("num_threads", "task_size", "bounce_buffer_size")
    before = [kvikio.defaults.get(name) for name in names]
    with kvikio.defaults.set({"num_threads": 3, "task_size": 1024, "bounce_buffer_size": 2048}):
        assert [kvikio.defaults.get(name) for name in names] == [3, 1024, 2048]
    assert [kvikio.defaults.get(name) for name in names] == before
    with kvikio.defaults.set({}):
        pass


def test_all_or_nothing() -> None:
    before = kvikio.defaults.describe()
    for bad in (
        {"task_size": 5, "num_threads": 0},
        {"task_size": 5, "compat_mode": "ON"},
        {"task_size": 5, 3: 1},
    ):
        with pytest.raises((ValueError, TypeError, KeyError)):
            kvikio.defaults.set(bad)
        assert kvikio.defaults.describe() == before


@pytest.mark.parametrize("arguments", [(), (1,), ("task_size",), (1, 2), ("task_size", 1, 2), (None,)])
def test_other_call_shapes(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"Valid arguments are kvikio\.defaults\.set"):
        kvikio.defaults.set(*arguments)


@pytest.mark.parametrize("name", POSITIVE + NATURAL)
def test_numbers(name: str) -> None:
    before = kvikio.defaults.get(name)
    with kvikio.defaults.set(name, 3):
        assert kvikio.defaults.get(name) == 3
        with kvikio.defaults.set(name, 4):
            assert kvikio.defaults.get(name) == 4
        assert kvikio.defaults.get(name) == 3
    assert kvikio.defaults.get(name) == before
    if name in NATURAL:
        with kvikio.defaults.set(name, 0):
            assert kvikio.defaults.get(name) == 0
    else:
        with pytest.raises(ValueError, match="positive integer"):
            kvikio.defaults.set(name, 0)
    with pytest.raises(OverflowError, match="negative value"):
        kvikio.defaults.set(name, -1)
    with pytest.raises(OverflowError, match="too large"):
        kvikio.defaults.set(name, 2**64)
    for wrong in ("3", None, []):
        with pytest.raises(TypeError):
            kvikio.defaults.set(name, wrong)


def test_num_threads_is_32_bits_and_has_an_alias() -> None:
    with pytest.raises(OverflowError):
        kvikio.defaults.set("num_threads", 2**32)
    with kvikio.defaults.set("thread_pool_nthreads", 7):
        assert kvikio.defaults.get("num_threads") == 7
        with kvikio.defaults.set({"num_threads": 8, "thread_pool_nthreads": 9}):
            assert kvikio.defaults.get("num_threads") == 9
        assert kvikio.defaults.get("thread_pool_nthreads") == 7


def test_compat_mode() -> None:
    before = kvikio.defaults.get("compat_mode")
    with kvikio.defaults.set("compat_mode", CompatMode.ON):
        assert kvikio.defaults.get("compat_mode") is CompatMode.ON
        assert kvikio.defaults.is_compat_mode_preferred()
        kvikio.defaults.set("compat_mode", CompatMode.OFF)
        assert kvikio.defaults.get("compat_mode") is CompatMode.OFF
        assert not kvikio.defaults.is_compat_mode_preferred()
        kvikio.defaults.set("compat_mode", 2)
        assert kvikio.defaults.get("compat_mode") is CompatMode.AUTO
    assert kvikio.defaults.get("compat_mode") == before
    for wrong in ("ON", None, 1.0):
        with pytest.raises(TypeError):
            kvikio.defaults.set("compat_mode", wrong)
    for wrong in (3, -1, 255):
        with pytest.raises(ValueError):
            kvikio.defaults.set("compat_mode", wrong)


def test_compat_mode_is_kvikios() -> None:
    from kvikio._lib import defaults

    assert defaults.CompatMode is CompatMode
    assert CompatMode.__module__ == "kvikio._lib.defaults"
    assert [(mode.name, int(mode)) for mode in CompatMode] == [("OFF", 0), ("ON", 1), ("AUTO", 2)]


def test_compat_mode_off_is_kept(path: str) -> None:
    """Where cuFile cannot be had, OFF says so instead of falling back."""
    with kvikio.defaults.set("compat_mode", CompatMode.OFF):
        try:
            file = kvikio.CuFile(path, "w")
        except kvikio.exceptions.KvikIOError as error:
            refusal = error
        else:
            assert file.route == "direct"
            return
    assert isinstance(refusal, RuntimeError)
    assert refusal.kind in ("Unavailable", "CuFile")
    assert "cuFile" in str(refusal) or "no CUDA driver" in str(refusal)


def test_status_codes() -> None:
    before = kvikio.defaults.get("http_status_codes")
    assert before == [429, 500, 502, 503, 504]
    for codes in ([500], [429, 500], []):
        with kvikio.defaults.set("http_status_codes", codes):
            assert kvikio.defaults.get("http_status_codes") == codes
            kvikio.defaults.get("http_status_codes").append(1)
            assert kvikio.defaults.get("http_status_codes") == codes
    assert kvikio.defaults.get("http_status_codes") == before
    for wrong in (0, (500,), {500}, None, ["a"], [5.5], [None]):
        with pytest.raises(TypeError):
            kvikio.defaults.set("http_status_codes", wrong)
    with pytest.raises(OverflowError):
        kvikio.defaults.set("http_status_codes", [2**31])


def test_http_timeout() -> None:
    with kvikio.defaults.set("http_timeout", 1):
        assert kvikio.defaults.get("http_timeout") == 1
    assert kvikio.defaults.get("http_timeout") == 60
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="timeout_seconds must be a positive integer"):
            kvikio.defaults.set("http_timeout", wrong)


@pytest.mark.parametrize("name", SWITCHES)
def test_switches(name: str) -> None:
    for value, truth in ((True, True), (0, False), ("x", True), ([], False)):
        with kvikio.defaults.set(name, value):
            assert kvikio.defaults.get(name) is truth


def test_choices() -> None:
    with kvikio.defaults.set("remote_io_backend", kvikio.RemoteIOBackend.MULTI_POLL):
        assert kvikio.defaults.get("remote_io_backend") is kvikio.RemoteIOBackend.MULTI_POLL
        kvikio.defaults.set("remote_io_backend", 0)
        assert kvikio.defaults.get("remote_io_backend") is kvikio.RemoteIOBackend.EASY_THREADPOOL
    with pytest.raises(ValueError):
        kvikio.defaults.set("remote_io_backend", 2)
    with pytest.raises(TypeError):
        kvikio.defaults.set("remote_io_backend", "fast")
    assert kvikio.defaults.get("remote_io_reactor_dispatch") is kvikio.RemoteReactorDispatch.PER_CHUNK


def test_describe_tells_what_was_chosen() -> None:
    with kvikio.defaults.set("task_size", 77):
        rows = kvikio.defaults.describe()
    assert rows["task_size"]["value"] == 77
    assert rows["task_size"]["is_set"] is True
    assert rows["task_size"]["environment"] == ("KVIKIO_TASK_SIZE",)
    assert rows["num_threads"]["is_set"] is False
    assert rows["num_threads"]["value"] >= 1
    assert len(rows) == 17
    assert all(row["doc"] for row in rows.values())


def test_an_enumeration_takes_whole_numbers_of_any_kind() -> None:
    with kvikio.defaults.set("compat_mode", np.int64(1)):
        assert kvikio.defaults.get("compat_mode") == kvikio.CompatMode.ON
    with pytest.raises(TypeError, match=r"kvikio\.CompatMode"):
        kvikio.defaults.set("compat_mode", "ON")
