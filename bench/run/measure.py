"""Launch, log throughput and detection of `muster run` against MPICH's hydra, alternating in one run."""

import argparse
import json
import os
import platform
import re
import resource
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

BARS = {"launch_ratio": 1.0, "log_rate_ratio": 0.85, "detection_ms": 20.0}


def timed(command: list[str], stdout=subprocess.DEVNULL) -> tuple[float, float]:
    """Wall seconds and CPU seconds of a command and everything below it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def summary(samples: list[tuple[float, float]]) -> dict:
    return {
        "wall_median_s": statistics.median(s[0] for s in samples),
        "wall_best_s": min(s[0] for s in samples),
        "cpu_median_s": statistics.median(s[1] for s in samples),
    }


def launch(muster: str, hydra: str | None, ranks: int, rounds: int) -> dict:
    commands = {"muster": [muster, "run", "-n", str(ranks), "--", "true"]}
    if hydra:
        commands["hydra"] = [hydra, "-n", str(ranks), "true"]
    samples: dict[str, list] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            samples[name].append(timed(command))
    result = {"ranks": ranks, **{name: summary(s) for name, s in samples.items()}}
    if hydra:
        result["ratio"] = result["muster"]["wall_median_s"] / result["hydra"]["wall_median_s"]
    return result


def check_lines(path: str, ranks: int, lines: int) -> int:
    """Counts lines that are not whole; also missing and repeated ones."""
    next_of = [0] * ranks
    bad = 0
    pattern = re.compile(rb"^(?:\[\d+\] )?rank (\d{4}) line (\d{8}) x+$")
    with open(path, "rb") as file:
        for line in file:
            found = pattern.match(line.rstrip(b"\n"))
            rank = int(found[1]) if found else 0
            if not found or int(found[2]) != next_of[rank]:
                bad += 1
            else:
                next_of[rank] += 1
    return bad + sum(lines - n for n in next_of)


def logs(
    muster: str,
    hydra: str | None,
    writer: str,
    ranks: int,
    lines: int,
    rounds: int,
    how: str,
) -> dict:
    """All ranks' standard output into one file. muster also labels it and keeps a file for each rank."""
    worker = [writer, str(lines), how]
    with tempfile.TemporaryDirectory() as folder:
        log_dir = os.path.join(folder, "logs")
        commands = {
            "muster": [
                muster,
                "run",
                "-n",
                str(ranks),
                "--log-dir",
                log_dir,
                "--",
                *worker,
            ]
        }
        if hydra:
            commands["hydra"] = [hydra, "-n", str(ranks), *worker]
        samples: dict[str, list] = {name: [] for name in commands}
        broken = dict.fromkeys(commands, 0)
        for _ in range(rounds):
            for name, command in commands.items():
                path = os.path.join(folder, "out")
                with open(path, "wb") as out:
                    samples[name].append(timed(command, stdout=out))
                broken[name] += check_lines(path, ranks, lines)
                shutil.rmtree(log_dir, ignore_errors=True)
    result = {"ranks": ranks, "lines": lines, "writes": how, "broken_lines": broken}
    for name, s in samples.items():
        result[name] = summary(s)
        result[name]["bytes_per_s"] = ranks * lines * 100 / result[name]["wall_median_s"]
    if hydra:
        result["rate_ratio"] = result["muster"]["bytes_per_s"] / result["hydra"]["bytes_per_s"]
    return result


def wait_for_rows(path: str, query: str, count: int) -> list:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
                rows = database.execute(query).fetchall()
            if len(rows) >= count:
                return rows
        except sqlite3.Error:
            pass
        time.sleep(0.005)
    raise TimeoutError(query)


def detection(muster: str, rounds: int) -> dict:
    """From the SIGKILL of one of two ranks to the verdict in the event log, and to the end of the job."""
    verdict_ms, end_ms = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            command = [
                muster,
                "run",
                "-n",
                "2",
                "--run-dir",
                folder,
                "--",
                "sleep",
                "1000",
            ]
            job = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            events = os.path.join(folder, "events.sqlite")
            rows = wait_for_rows(events, "select payload from event where kind = 'rank.start'", 2)
            pid = json.loads(rows[1][0])["pid"]
            killed = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            os.kill(pid, signal.SIGKILL)
            code = job.wait(30)
            end_ms.append((time.clock_gettime_ns(time.CLOCK_MONOTONIC) - killed) / 1e6)
            assert code == 128 + signal.SIGKILL, code
            query = "select monotonic_ns from event where kind = 'attempt.verdict'"
            verdict_ms.append((wait_for_rows(events, query, 1)[0][0] - killed) / 1e6)
    return {
        "verdict_median_ms": statistics.median(verdict_ms),
        "verdict_worst_ms": max(verdict_ms),
        "job_end_median_ms": statistics.median(end_ms),
    }


def version_of(command: list[str]) -> str:
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return next((line.strip() for line in text.splitlines() if "Version" in line), "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--ranks", type=int, default=256)
    options = parser.parse_args()
    muster = os.path.abspath(os.path.join(options.bin, "muster"))
    writer = os.path.abspath(os.path.join(options.bin, "muster_bench_lines"))
    hydra = shutil.which("mpiexec.hydra") or shutil.which("mpiexec.mpich")
    if hydra is None:
        print(
            "bench/run: no mpiexec.hydra (package mpich); measuring muster alone",
            file=sys.stderr,
        )
    result = {
        "machine": {
            "cpus": os.cpu_count(),
            "kernel": platform.release(),
            "load": os.getloadavg()[0],
        },
        "hydra": version_of([hydra, "--version"]) if hydra else None,
        "launch": launch(muster, hydra, options.ranks, options.rounds),
        "logs": [
            logs(muster, hydra, writer, 32, 10_000, max(3, options.rounds // 2), how) for how in ("writes", "stdio")
        ],
        "detection": detection(muster, options.rounds),
        "bars": BARS,
    }
    with open(options.output, "w") as file:
        json.dump(result, file, indent=1)
    start = result["launch"]
    print(
        f"launch of {start['ranks']} x true: "
        + ", ".join(
            f"{n} {start[n]['wall_median_s']:.3f} s ({start[n]['cpu_median_s']:.3f} s CPU)"
            for n in ("muster", "hydra")
            if n in start
        )
    )
    for log in result["logs"]:
        print(
            f"32 x 10,000 lines, {log['writes']}: "
            + ", ".join(
                f"{n} {log[n]['bytes_per_s'] / 1e6:.0f} MB/s, {log['broken_lines'][n]} broken"
                for n in ("muster", "hydra")
                if n in log
            )
        )
    print(
        "SIGKILL of a rank: verdict after {verdict_median_ms:.1f} ms (worst {verdict_worst_ms:.1f}), job over after {job_end_median_ms:.1f} ms".format(
            **result["detection"]
        )
    )
    print(f"written to {options.output}")
    met = result["detection"]["verdict_median_ms"] <= BARS["detection_ms"]
    met &= all(log["broken_lines"]["muster"] == 0 for log in result["logs"])
    if hydra:
        met &= start["ratio"] <= BARS["launch_ratio"]
        met &= all(log["rate_ratio"] >= BARS["log_rate_ratio"] for log in result["logs"])
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
