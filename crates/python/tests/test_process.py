"""Processes: forks, exits and Ctrl-C with I/O in flight. Each case runs in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import memory
import servers

PRELUDE = """
import os, signal, sys, threading, time
import kvikio, kvikio.defaults, kvikio.exceptions
path = sys.argv[1]
def large(size=1 << 28):
    with open(path, "wb") as file:
        file.truncate(size)
    return bytearray(size)
"""


def run(
    code: str, tmp_path: Path, *, seconds: float = 30, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the code with warnings as errors; it must end by itself, in time."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-X", "faulthandler", "-c", PRELUDE + code, str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, **(environment or {})},
        check=False,
    )


def succeed(code: str, tmp_path: Path, **options: float) -> str:
    done = run(code, tmp_path, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_a_forked_child_reads_after_the_pool_was_used(tmp_path: Path) -> None:
    code = """
buffer = bytearray(100_000)
with open(path, "wb") as file:
    file.write(b"x" * 100_000)
file = kvikio.CuFile(path)
assert file.pread(buffer, task_size=1000).get() == 100_000
child = os.fork()
if child == 0:
    buffer[:] = bytes(100_000)
    assert file.pread(buffer, task_size=1000).get() == 100_000
    assert file.read(buffer, task_size=1000) == 100_000
    assert buffer == b"x" * 100_000
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert file.pread(buffer, task_size=1000).get() == 100_000
"""
    succeed(code, tmp_path)


def test_a_child_may_use_the_gpu_that_its_parent_did_not(tmp_path: Path) -> None:
    """Host memory alone does not wake the driver, so a forked worker is free to."""
    try:
        memory.Driver()
    except memory.Unavailable as why:
        pytest.skip(str(why))
    code = f"""
sys.path.insert(0, {os.path.dirname(__file__)!r})
with open(path, "wb") as file:
    file.write(b"x" * 100_000)
file = kvikio.CuFile(path)
assert file.pread(bytearray(100_000)).get() == 100_000
with open("/proc/self/maps") as maps:
    assert "libcuda" not in maps.read()
child = os.fork()
if child == 0:
    import memory, numpy
    module = memory.module("device")
    array = module.array(numpy.zeros(100_000, "u1"))
    assert file.read(array) == 100_000
    assert bytes(module.host(array)) == b"x" * 100_000
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    succeed(code, tmp_path)


def test_a_future_of_the_parent_raises_in_the_child(tmp_path: Path) -> None:
    code = """
buffer = large()
file = kvikio.CuFile(path)
settled = file.pread(bytearray(10))
assert settled.get() == 10
futures = [file.pread(buffer) for _ in range(8)]
future = futures[-1]
child = os.fork()
if child == 0:
    for call in (future.get, future.done):
        try:
            call()
            os._exit(1)
        except kvikio.exceptions.ForkedError as error:
            assert "fork" in str(error) and path in str(error)
    assert settled.get() == 10
    del future, futures
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert [future.get() for future in futures] == [1 << 28] * 8
"""
    succeed(code, tmp_path)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_multiprocessing(tmp_path: Path, method: str) -> None:
    script = tmp_path / "workers.py"
    script.write_text(
        """
import multiprocessing, sys, kvikio
def work(path):
    buffer = bytearray(50_000)
    with kvikio.CuFile(path) as file:
        return file.pread(buffer, task_size=1000).get() + file.read(buffer)
if __name__ == "__main__":
    path = sys.argv[1]
    with kvikio.CuFile(path, "w") as file:
        file.pwrite(bytes(50_000), task_size=1000).get()
    with multiprocessing.get_context(sys.argv[2]).Pool(2) as pool:
        assert pool.map(work, [path] * 6, chunksize=1) == [100_000] * 6
"""
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", script, tmp_path / "data", method],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("how", ["pass", "sys.exit(5)", "os._exit(5)", "raise KeyError"])
def test_the_process_ends_with_io_pending(tmp_path: Path, how: str) -> None:
    code = f"""
buffer = large()
file = kvikio.CuFile(path, "r+")
futures = [file.pread(buffer, task_size=1 << 16) for _ in range(30)]
print(time.time(), futures[-1].done(), flush=True)
{how}
"""
    done = run(code, tmp_path)
    printed, was_done = done.stdout.split()
    assert was_done == "False"
    took = time.time() - float(printed)
    assert done.returncode == {"pass": 0, "raise KeyError": 1}.get(how, 5), done.stderr
    assert took < 3
    if how != "raise KeyError":
        assert done.stderr == ""


@pytest.mark.parametrize("wait", ["future.get()", "file.read(buffer)", "file.read(buffer, 4096)"])
def test_the_process_ends_while_a_daemon_thread_waits(tmp_path: Path, wait: str) -> None:
    code = f"""
buffer = large()
file = kvikio.CuFile(path)
futures = [file.pread(buffer, task_size=1 << 16) for _ in range(30)]
def work(future):
    while True:
        {wait}
for future in futures[-4:]:
    threading.Thread(target=work, args=(future,), daemon=True).start()
time.sleep(0.05)
print(time.time(), flush=True)
"""
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert time.time() - float(done.stdout) < 3


def test_dropped_futures_do_not_hinder_the_end(tmp_path: Path) -> None:
    code = """
buffer = large()
file = kvikio.CuFile(path)
for _ in range(50):
    file.pread(memoryview(buffer)[:1 << 22])
"""
    succeed(code, tmp_path)


def test_ctrl_c_is_heard_while_waiting(tmp_path: Path) -> None:
    code = """
buffer = large()
file = kvikio.CuFile(path)
def interrupt():
    time.sleep(0.15)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
with kvikio.defaults.set({"num_threads": 1}):
    futures = [file.pread(buffer) for _ in range(60)]
    started = time.monotonic()
    try:
        futures[-1].get()
        print("not interrupted")
    except KeyboardInterrupt:
        took = time.monotonic() - started
        print("interrupted", took < 1, [future.done() for future in futures][-1])
os._exit(0)
"""
    assert succeed(code, tmp_path).strip() == "interrupted True False"


def test_ctrl_c_is_heard_in_a_long_read(tmp_path: Path) -> None:
    code = """
buffer = large(2 << 30)
file = kvikio.CuFile(path)
def interrupt():
    global sent
    sent = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(0.1, interrupt).start()
kvikio.defaults.set({"num_threads": 1, "task_size": 4096})
try:
    file.read(buffer)
    while True:
        pass
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - sent < 0.4)
os._exit(0)
"""
    assert succeed(code, tmp_path).strip() == "interrupted True"


def test_a_signal_handler_of_the_user_runs_while_waiting(tmp_path: Path) -> None:
    code = """
heard = []
signal.signal(signal.SIGUSR1, lambda *_: heard.append(futures[-1].done()))
buffer = large()
file = kvikio.CuFile(path)
futures = [file.pread(buffer) for _ in range(8)]
threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
assert futures[-1].get() == 1 << 28
assert heard == [False]
"""
    succeed(code, tmp_path)


def test_other_threads_run_while_one_reads(tmp_path: Path) -> None:
    code = """
buffer = large(60 << 20)
ticks = []
def work():
    while running:
        ticks.append(time.monotonic())
        time.sleep(0.001)
running = True
file = kvikio.CuFile(path)
thread = threading.Thread(target=work)
thread.start()
started = time.monotonic()
file.read(buffer, task_size=512)
took = time.monotonic() - started
running = False
thread.join()
assert any(0.2 * took < tick - started < 0.8 * took for tick in ticks), (took, ticks)
"""
    succeed(code, tmp_path)


def test_signals_are_left_as_they_were() -> None:
    before = signal.getsignal(signal.SIGINT)
    import kvikio

    assert kvikio.__version__
    assert signal.getsignal(signal.SIGINT) is before


def served(code: str, faulty: servers.Faulty, tmp_path: Path) -> str:
    return succeed(f"url = {faulty.url!r}\n" + code, tmp_path)


def test_a_forked_child_reads_remote_files(faulty: servers.Faulty, tmp_path: Path) -> None:
    code = """
file = kvikio.RemoteFile.open_http(url + "/ok/100000")
whole = bytearray(100_000)
assert file.read(whole) == 100_000
pending = file.pread(bytearray(100_000))
for turn in range(3):
    child = os.fork()
    if child == 0:
        mine = bytearray(100_000)
        assert file.read(mine) == 100_000 and mine == whole
        other = kvikio.RemoteFile.open_http(url + "/ok/100000")
        assert other.pread(mine).get() == 100_000 and mine == whole
        try:
            pending.get()
        except kvikio.exceptions.ForkedError:
            os._exit(7)
        os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert pending.get() == 100_000
assert file.read(whole) == 100_000
"""
    served(code, faulty, tmp_path)


def test_ctrl_c_is_heard_while_a_server_is_waited_for(faulty: servers.Faulty, tmp_path: Path) -> None:
    code = """
def interrupt():
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)
file = kvikio.RemoteFile.open_http(url + "/delay5000/10", 10)
for wait in (
    lambda: file.read(bytearray(10)),
    lambda: file.pread(bytearray(10)).get(),
    lambda: kvikio.RemoteFile.open_http(url + "/delay5000/10"),
):
    threading.Thread(target=interrupt).start()
    began = time.monotonic()
    try:
        wait()
    except KeyboardInterrupt:
        assert time.monotonic() - began < 2
    else:
        sys.exit("not interrupted")
"""
    served(code, faulty, tmp_path)


def test_the_process_ends_at_once_with_a_remote_read_in_flight(
    faulty: servers.Faulty, tmp_path: Path
) -> None:
    code = """
future = kvikio.RemoteFile.open_http(url + "/delay5000/10", 10).pread(bytearray(10))
"""
    began = time.monotonic()
    served(code, faulty, tmp_path)
    assert time.monotonic() - began < 4


def test_other_threads_run_while_a_server_is_waited_for(faulty: servers.Faulty, tmp_path: Path) -> None:
    code = """
ticks = 0
def tick():
    global ticks
    while True:
        time.sleep(0.01)
        ticks += 1
threading.Thread(target=tick, daemon=True).start()
file = kvikio.RemoteFile.open_http(url + "/delay500/10")
between = ticks
assert between > 10
assert file.read(bytearray(10)) == 10
assert ticks > between + 10
"""
    served(code, faulty, tmp_path)


@pytest.mark.parametrize("operation", ["read", "write"])
def test_ctrl_c_in_a_blocking_call_leaves_nothing_running(tmp_path: Path, operation: str) -> None:
    code = f"""
kvikio.defaults.set({{"num_threads": 1, "task_size": 1 << 20}})
buffer = large(1 << 30)
file = kvikio.CuFile(path, "r+")
threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    file.{operation}(buffer)
    time.sleep(0.2)                     # so fast that it was over: Ctrl-C comes now
except KeyboardInterrupt:
    pass
buffer.append(1)                        # nobody holds the buffer any more: it may change its size
"""
    succeed(code, tmp_path)
