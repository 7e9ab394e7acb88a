"""Ours and its peers on the same file, each in a process of its own, in turn; prints rates and ratios.

    python benchmarks/side_by_side.py FILE --ours DIR [--kvikio DIR] [--rounds 3] [--gib 4] [--json OUT]

DIR is a folder that holds an installed package (`pip install --target DIR WHEEL`): ours and the released KvikIO share
the import name, so each is given to its own process by PYTHONPATH. FILE is made (random bytes) where it is absent.
Rates are GB/s (10^9 bytes a second), the median over rounds of each process's median of 5 runs after a warm-up;
latencies are microseconds, the median of 5 batches.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RUNS = 5
SMALL = 4096


def timed(work: Callable[[], object], nbytes: int) -> float:
    """GB/s of `work`: the median of RUNS after a warm-up."""
    work()
    rates = []
    for _ in range(RUNS):
        began = time.perf_counter()
        work()
        rates.append(nbytes / 1e9 / (time.perf_counter() - began))
    return statistics.median(rates)


def latency(work: Callable[[], object], count: int = 20_000) -> float:
    """Microseconds of one call of `work`: the median of RUNS batches."""
    for _ in range(count // 10):
        work()
    batches = []
    for _ in range(RUNS):
        began = time.perf_counter()
        for _ in range(count):
            work()
        batches.append((time.perf_counter() - began) / count * 1e6)
    return statistics.median(batches)


def device_array(nbytes: int) -> Any:
    import cupy

    return cupy.zeros(nbytes, dtype="u1")


def host_array(nbytes: int) -> Any:
    import numpy

    return numpy.ones(nbytes, dtype="u1")


def check(array: Any, path: str) -> None:
    import numpy

    got = array.get() if hasattr(array, "get") else array
    assert numpy.array_equal(got, numpy.fromfile(path, dtype="u1")), "wrong bytes"


def tune(threads: int | None) -> None:
    if threads is not None:
        import kvikio.defaults

        kvikio.defaults.set({"num_threads": threads, "task_size": 4 << 20})


def library_read(path: str, make: Callable[[int], Any], threads: int | None) -> float:
    import kvikio

    tune(threads)
    array = make(os.path.getsize(path))
    with kvikio.CuFile(path, "r") as file:
        rate = timed(lambda: file.read(array), array.nbytes)
    check(array, path)
    return rate


def library_write(path: str, threads: int | None) -> float:
    import kvikio

    tune(threads)
    array = device_array(os.path.getsize(path))
    array[::7] = 5
    out = path + ".out"

    def work() -> None:
        with kvikio.CuFile(out, "w") as file:
            file.write(array)

    rate = timed(work, array.nbytes)
    check(array, out)
    os.unlink(out)
    return rate


def library_small(path: str, make: Callable[[int], Any]) -> float:
    import kvikio

    array = make(SMALL)
    with kvikio.CuFile(path, "r") as file:
        return latency(lambda: file.read(array))


def preadv_small(path: str) -> float:
    array = host_array(SMALL)
    fd = os.open(path, os.O_RDONLY)
    return latency(lambda: os.preadv(fd, [array], 0))


def preadv_threads(path: str, threads: int) -> float:
    """Plain `preadv` of 4 MiB pieces into one buffer by so many threads, as a peer and as the limit."""
    array = host_array(os.path.getsize(path))
    view = memoryview(array)
    fd = os.open(path, os.O_RDONLY)
    piece = 4 << 20

    def part(number: int) -> None:
        for at in range(number * piece, len(view), threads * piece):
            want = view[at : at + piece]
            assert os.preadv(fd, [want], at) == len(want)

    def work() -> None:
        workers = [threading.Thread(target=part, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    return timed(work, len(view))


def plain_to_device(path: str) -> float:
    """What people do without a library: read into host memory, then copy."""
    import cupy
    import numpy

    return timed(lambda: cupy.asarray(numpy.fromfile(path, dtype="u1")), os.path.getsize(path))


def pinned_copy(path: str) -> float:
    import cupy

    device = device_array(1 << 30)
    host = cupy.cuda.alloc_pinned_memory(1 << 30)

    def work() -> None:
        device.data.copy_from_host(host.ptr, 1 << 30)
        cupy.cuda.runtime.deviceSynchronize()

    return timed(work, 1 << 30)


def dd_direct(path: str) -> float:
    nbytes = os.path.getsize(path)
    out = path + ".dd"
    command = ["dd", "if=/dev/zero", f"of={out}", "bs=4M", f"count={nbytes >> 22}", "oflag=direct"]

    def work() -> None:
        subprocess.run(command, check=True, capture_output=True)

    rate = timed(work, nbytes)
    os.unlink(out)
    return rate


def cpus() -> int:
    return len(os.sched_getaffinity(0))


CASES: dict[str, dict[str, Callable[[str], float]]] = {
    "cached file to GPU, 8 threads, 4 MiB tasks": {
        "ours": lambda path: library_read(path, device_array, 8),
        "kvikio": lambda path: library_read(path, device_array, 8),
        "limit: pinned copy": pinned_copy,
    },
    "cached file to GPU, nothing set": {
        "ours": lambda path: library_read(path, device_array, None),
        "kvikio": lambda path: library_read(path, device_array, None),
        "plain read + copy": plain_to_device,
        "limit: pinned copy": pinned_copy,
    },
    "GPU to file, nothing set": {
        "ours": lambda path: library_write(path, None),
        "kvikio": lambda path: library_write(path, None),
        "limit: dd oflag=direct": dd_direct,
    },
    "cached file to host, nothing set": {
        "ours": lambda path: library_read(path, host_array, None),
        "kvikio": lambda path: library_read(path, host_array, None),
        "limit: preadv, threads = CPUs (at most 10)": lambda path: preadv_threads(
            path, max(2, min(10, cpus()))
        ),
    },
    "4 KiB cached to host, from Python (us)": {
        "ours": lambda path: library_small(path, host_array),
        "kvikio": lambda path: library_small(path, host_array),
        "limit: os.preadv": preadv_small,
    },
    "4 KiB cached to GPU, from Python (us)": {
        "ours": lambda path: library_small(path, device_array),
        "kvikio": lambda path: library_small(path, device_array),
    },
}


def run_worker(case: str, who: str, path: str, site: str | None) -> float:
    env = dict(os.environ)
    if site:
        env["PYTHONPATH"] = os.pathsep.join([site, *filter(None, [env.get("PYTHONPATH")])])
    command = [sys.executable, __file__, path, "--worker", case, who]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return float("nan")
    return float(done.stdout.split()[-1])


def make_file(path: str, gib: float) -> None:
    if not os.path.exists(path):
        with open(path, "wb") as file:
            left = int(gib * (1 << 30))
            while left > 0:
                left -= file.write(os.urandom(min(left, 64 << 20)))
    # Written back before anything is timed, and in the page cache.
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    while os.read(fd, 64 << 20):
        pass
    os.close(fd)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file")
    parser.add_argument("--ours")
    parser.add_argument("--kvikio")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gib", type=float, default=4)
    parser.add_argument("--no-gpu", action="store_true", help="only the rows that need none")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", nargs=2, metavar=("CASE", "WHO"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        case, who = args.worker
        print(CASES[case][who](args.file))
        return
    make_file(args.file, args.gib)
    sites = {"ours": args.ours, "kvikio": args.kvikio}
    results: dict[str, dict[str, float]] = {}
    for case, peers in CASES.items():
        if args.no_gpu and "GPU" in case:
            continue
        names = [who for who in peers if who != "kvikio" or args.kvikio]
        seen: dict[str, list[float]] = {who: [] for who in names}
        for _ in range(args.rounds):
            for who in names:
                seen[who].append(run_worker(case, who, args.file, sites.get(who)))
        results[case] = {who: statistics.median(values) for who, values in seen.items()}
        ours = results[case]["ours"]
        print(f"\n{case}", flush=True)
        for who, value in results[case].items():
            note = "" if who == "ours" else f"   ours / this = {ours / value:5.2f}"
            spread = f"{min(seen[who]):.2f} to {max(seen[who]):.2f}"
            print(f"  {who:45} {value:8.2f}   ({spread}){note}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
