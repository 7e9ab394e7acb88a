"""Importing: cheap, silent, repeatable; and the environment, read at the first use of a setting."""

from __future__ import annotations

import importlib.metadata
import inspect
import os
import subprocess
import sys

import pytest

import kvikio


def python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


def test_import_brings_nothing_heavy_and_starts_nothing() -> None:
    code = """
import os, sys
threads = len(os.listdir("/proc/self/task"))
import kvikio, kvikio.defaults, kvikio.cufile, kvikio.exceptions, kvikio.buffer
assert len(os.listdir("/proc/self/task")) == threads
loaded = {name.split(".")[0] for name in sys.modules}
print(sorted({"numpy", "cupy", "torch", "zarr", "ctypes", "asyncio"} & loaded))
with open("/proc/self/maps") as file:
    maps = file.read()
print("libcuda" in maps, "libcufile" in maps)
"""
    assert python(code) == "[]\nFalse False"


def test_import_twice_in_one_process(path: str) -> None:
    code = f"""
import sys
def purge():
    for name in [name for name in sys.modules if name.split(".")[0] == "kvikio"]:
        del sys.modules[name]
for _ in range(3):
    import kvikio, kvikio.defaults, kvikio.exceptions
    with kvikio.CuFile({path!r}, "w") as file:
        assert file.write(b"abc") == 3
        try:
            file.read(bytearray(1))
        except kvikio.exceptions.WrongModeError as error:
            print(type(error).__module__)
    assert kvikio.defaults.get("compat_mode") is kvikio.CompatMode.AUTO
    purge()
"""
    assert python(code) == "\n".join(["kvikio.exceptions"] * 3)


def test_version() -> None:
    assert isinstance(kvikio.__git_commit__, str)
    assert kvikio.__version__ == importlib.metadata.version("kvikio-rs")
    assert set(kvikio.__all__) <= set(dir(kvikio))


def test_no_dependencies() -> None:
    requires = importlib.metadata.requires("kvikio-rs") or []
    assert [line for line in requires if "extra ==" not in line] == []


@pytest.mark.parametrize(
    ("variable", "value", "key", "expected"),
    [
        ("KVIKIO_NTHREADS", "3", "num_threads", "3"),
        ("KVIKIO_NUM_THREADS", "4x", "thread_pool_nthreads", "4"),
        ("KVIKIO_TASK_SIZE", "5000000000", "task_size", "5000000000"),
        ("KVIKIO_COMPAT_MODE", "Off", "compat_mode", "0"),
        ("KVIKIO_COMPAT_MODE", "TRUE", "compat_mode", "1"),
        ("KVIKIO_AUTO_DIRECT_IO_READ", "yes", "auto_direct_io_read", "True"),
        ("KVIKIO_AUTO_DIRECT_IO_WRITE", "0", "auto_direct_io_write", "False"),
        ("KVIKIO_HTTP_STATUS_CODES", "404, 500", "http_status_codes", "[404, 500]"),
        ("KVIKIO_REMOTE_IO_BACKEND", "multi_poll", "remote_io_backend", "1"),
        ("KVIKIO_GDS_THRESHOLD", "0", "gds_threshold", "0"),
    ],
)
def test_environment(variable: str, value: str, key: str, expected: str) -> None:
    code = f"""
import kvikio.defaults
value = kvikio.defaults.get({key!r})
print(int(value) if hasattr(value, "name") else value, kvikio.defaults.is_set({key!r}))
"""
    assert python(code, **{variable: value}) == f"{expected} True"


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("KVIKIO_NTHREADS", "0", "KVIKIO_NTHREADS has to be a positive integer"),
        ("KVIKIO_TASK_SIZE", "", "unknown config value KVIKIO_TASK_SIZE="),
        ("KVIKIO_COMPAT_MODE", "fast", "Unknown compatibility mode: fast"),
        ("KVIKIO_AUTO_DIRECT_IO_READ", "maybe", "unknown config value KVIKIO_AUTO_DIRECT_IO_READ=maybe"),
        ("KVIKIO_HTTP_STATUS_CODES", "5", "KVIKIO_HTTP_STATUS_CODES: invalid format"),
    ],
)
def test_a_malformed_environment_is_an_error_at_each_use(variable: str, value: str, words: str) -> None:
    code = f"""
import os
import kvikio, kvikio.defaults
uses = [
    lambda: kvikio.defaults.get("task_size"),
    lambda: kvikio.defaults.set("task_size", 5),
    lambda: kvikio.CuFile("/dev/null"),
    lambda: kvikio.defaults.is_compat_mode_preferred(),
    lambda: kvikio.defaults.describe(),
]
for use in uses:
    try:
        use()
        raise SystemExit("no error")
    except ValueError as error:
        assert {words!r} in str(error), error
del os.environ[{variable!r}]
print(kvikio.defaults.set("task_size", 5) is not None)
"""
    assert python(code, **{variable: value}) == "True"


def test_aliases_must_agree() -> None:
    code = """
import kvikio.defaults
try:
    kvikio.defaults.get("num_threads")
except ValueError as error:
    print("already been set by its alias" in str(error))
"""
    assert python(code, KVIKIO_NTHREADS="2", KVIKIO_NUM_THREADS="3") == "True"


def test_the_environment_is_read_once_and_not_at_import() -> None:
    code = """
import os
import kvikio.defaults
os.environ["KVIKIO_TASK_SIZE"] = "11"
print(kvikio.defaults.get("task_size"))
os.environ["KVIKIO_TASK_SIZE"] = "12"
print(kvikio.defaults.get("task_size"))
"""
    assert python(code, KVIKIO_TASK_SIZE="10") == "11\n11"


def test_the_native_classes_have_signatures_and_docs() -> None:
    for name in ("read", "write", "pread", "pwrite"):
        method = getattr(kvikio.CuFile, name)
        assert str(inspect.signature(method)) == "(self, /, buf, size=None, file_offset=0, task_size=None)"
        assert method.__doc__
    for name in ("raw_read", "raw_write"):
        method = getattr(kvikio.CuFile, name)
        assert str(inspect.signature(method)) == "(self, /, buf, size=None, file_offset=0, dev_offset=0)"
    assert str(inspect.signature(kvikio.CuFile)) == "(file, flags='r')"


def test_the_command_exists() -> None:
    from kvikio import _cli

    assert callable(_cli.main)
