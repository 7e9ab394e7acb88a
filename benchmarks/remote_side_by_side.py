"""Remote reads, ours and KvikIO on the same server, each in a process of its own, in turn; prints rates and ratios.

    python benchmarks/remote_side_by_side.py URL --ours DIR [--kvikio DIR] [--delay URL] [--https URL] [--rounds 3]

URL is an object of 1 GiB or so on loopback, for instance served by nginx (`sendfile on; keepalive_requests 1000000;`),
or by `kvikio-faulty-server --root FOLDER`. `--delay` is an object that is answered late (`…/delay20/1048576000` of
`kvikio-faulty-server`), `--https` one behind TLS (name its authority by CURL_CA_BUNDLE). DIR is a folder that holds an
installed package (`pip install --target DIR WHEEL`). A peer that needs CUDA's libraries to be imported is skipped where
it cannot be. Rates are GB/s (10^9 bytes a second), CPU is the client's seconds a GB: medians over rounds of each
process's median of RUNS reads after a warm-up.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

RUNS = 5
MIB = 1 << 20


def measured(work: Callable[[], object], nbytes: int, runs: int) -> tuple[float, float]:
    """GB/s and CPU seconds a GB of `work`: the medians of `runs` after a warm-up."""
    work()
    rates, costs = [], []
    for _ in range(runs):
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        work()
        seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
        cpu = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
        rates.append(nbytes / 1e9 / seconds)
        costs.append(cpu / (nbytes / 1e9))
    return statistics.median(rates), statistics.median(costs)


def array(nbytes: int, device: bool) -> Any:
    if device:
        import cupy

        return cupy.zeros(nbytes, dtype="u1")
    import numpy

    return numpy.zeros(nbytes, dtype="u1")


def whole(url: str, device: bool = False, runs: int = RUNS, **settings: Any) -> tuple[float, float]:
    """The whole object by one `read`."""
    import kvikio
    import kvikio.defaults

    for name, value in settings.items():
        kvikio.defaults.set(name, value)
    with kvikio.RemoteFile.open_http(url) as file:
        buffer = array(file.nbytes(), device)
        return measured(lambda: file.read(buffer), buffer.nbytes, runs)


def ranges(url: str, count: int, runs: int, **settings: Any) -> tuple[float, float]:
    """Ranges of 1 MiB, all in flight at once."""
    import kvikio
    import kvikio.defaults

    for name, value in settings.items():
        kvikio.defaults.set(name, value)
    with kvikio.RemoteFile.open_http(url) as file:
        buffer = array(count * MIB, device=False)

        def work() -> None:
            parts = [file.pread(buffer[i * MIB : (i + 1) * MIB], MIB, i * MIB) for i in range(count)]
            for part in parts:
                part.get()

        return measured(work, count * MIB, runs)


def floor(url: str, connections: int) -> tuple[float, float]:
    """Blocking sockets and a bare `recv` straight into the destination, in ranges of 4 MiB."""
    import http.client
    import socket

    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 80
    connection = http.client.HTTPConnection(host, port)
    connection.request("HEAD", parts.path)
    nbytes = int(connection.getresponse().headers["content-length"])
    buffer = memoryview(array(nbytes, device=False))
    step = 4 * MIB

    def share(first: int) -> None:
        with socket.create_connection((host, port)) as sock:
            for offset in range(first * step, nbytes, connections * step):
                end = min(offset + step, nbytes)
                asked = (
                    f"GET {parts.path} HTTP/1.1\r\nhost: {host}\r\nrange: bytes={offset}-{end - 1}\r\n\r\n"
                )
                sock.sendall(asked.encode())
                head = b""
                while b"\r\n\r\n" not in head:
                    head += sock.recv(4096)
                early = head.split(b"\r\n\r\n", 1)[1]
                buffer[offset : offset + len(early)] = early
                at = offset + len(early)
                while at < end:
                    at += sock.recv_into(buffer[at:end], end - at)

    def work() -> None:
        threads = [threading.Thread(target=share, args=(first,)) for first in range(connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return measured(work, nbytes, RUNS)


#: Settings among which KvikIO's best is sought.
GRID = [
    {"num_threads": threads, "task_size": size * MIB} for threads in (2, 4, 8, 16, 32) for size in (4, 16)
]


def cases(args: argparse.Namespace) -> dict[str, dict[str, tuple[str, Callable[[], tuple[float, float]]]]]:
    """For each row: who, from which folder, does what."""
    cpus = len(os.sched_getaffinity(0))
    grid = [row for row in GRID if row["num_threads"] <= max(8, 2 * cpus)]

    def kvikio_best(url: str, device: bool) -> dict[str, Any]:
        return {
            f"kvikio, {row['num_threads']} threads, {row['task_size'] // MIB} MiB": (
                "kvikio",
                lambda row=row: whole(url, device, **row),
            )
            for row in grid
        }

    rows: dict[str, dict[str, Any]] = {}
    for device in [False, True] if args.gpu else [False]:
        where = "GPU" if device else "host memory"
        rows[f"HTTP to {where}"] = {
            "ours, nothing set": ("ours", lambda device=device: whole(args.url, device)),
            "kvikio, nothing set": ("kvikio", lambda device=device: whole(args.url, device)),
            **kvikio_best(args.url, device),
            "ours, 8 threads": ("ours", lambda device=device: whole(args.url, device, num_threads=8)),
        }
        if not device:
            rows[f"HTTP to {where}"] |= {
                f"recv floor, {n} connections": ("", lambda n=n: floor(args.url, n))
                for n in sorted({2, 8, cpus})
            }
    if args.https:
        rows["HTTPS to host memory"] = {
            "ours, nothing set": ("ours", lambda: whole(args.https)),
            "kvikio, nothing set": ("kvikio", lambda: whole(args.https)),
            **kvikio_best(args.https, False),
        }
    if args.delay:
        rows["1000 ranges of 1 MiB, each answered late"] = {
            "ours, nothing set": ("ours", lambda: ranges(args.delay, 1000, 3)),
            "ours, 8 threads": ("ours", lambda: ranges(args.delay, 1000, 3, num_threads=8)),
            "kvikio, 8 threads": ("kvikio", lambda: ranges(args.delay, 1000, 1, num_threads=8)),
            "kvikio, nothing set": ("kvikio", lambda: ranges(args.delay, 1000, 1)),
        }
    return rows


def run_worker(row: str, who: str, site: str | None, arguments: list[str]) -> tuple[float, float]:
    env = dict(os.environ)
    if site:
        env["PYTHONPATH"] = os.pathsep.join([site, *filter(None, [env.get("PYTHONPATH")])])
    command = [sys.executable, __file__, *arguments, "--worker", row, who]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr.splitlines()[-1:], file=sys.stderr)
        return float("nan"), float("nan")
    rate, cost = json.loads(done.stdout.splitlines()[-1])
    return rate, cost


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("--ours")
    parser.add_argument("--kvikio")
    parser.add_argument("--delay")
    parser.add_argument("--https")
    parser.add_argument("--gpu", action="store_true", help="also into GPU memory (CuPy)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="rows whose name holds this")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    rows = cases(args)
    if args.worker:
        row, who = args.worker
        print(json.dumps(rows[row][who][1]()))
        return
    sites = {"ours": args.ours, "kvikio": args.kvikio}
    arguments = [args.url]
    for name in ("delay", "https"):
        if value := getattr(args, name):
            arguments += [f"--{name}", value]
    if args.gpu:
        arguments.append("--gpu")
    results: dict[str, dict[str, tuple[float, float]]] = {}
    for row, peers in rows.items():
        if args.only not in row:
            continue
        peers = {who: peer for who, peer in peers.items() if peer[0] != "kvikio" or args.kvikio}
        seen: dict[str, list[tuple[float, float]]] = {who: [] for who in peers}
        for _ in range(args.rounds):
            for who, (site, _work) in peers.items():
                seen[who].append(run_worker(row, who, sites.get(site), arguments))
        results[row] = {
            who: (
                statistics.median(rate for rate, _ in values),
                statistics.median(cost for _, cost in values),
            )
            for who, values in seen.items()
        }
        ours = results[row]["ours, nothing set"][0]
        print(f"\n{row}", flush=True)
        for who, (rate, cost) in results[row].items():
            spread = f"{min(rate for rate, _ in seen[who]):.2f} to {max(rate for rate, _ in seen[who]):.2f}"
            print(
                f"  {who:32} {rate:7.2f} GB/s ({spread})  CPU {cost:5.2f} s/GB   ours / this = {ours / rate:5.2f}",
                flush=True,
            )
    if args.json:
        args.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
