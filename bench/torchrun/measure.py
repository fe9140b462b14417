"""Start and restart of `muster torchrun` against torchrun: an unmodified gloo script whose ranks are killed."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BARS = {"start_s": 0.15, "restart_s": 0.1}


def start(command: list[str], rounds: int) -> dict:
    """Two workers that do nothing: from the command to its end."""
    samples = []
    for _ in range(rounds):
        begin = time.perf_counter()
        subprocess.run(
            [*command, "--nproc-per-node", "2", "--no-python", "true"],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        samples.append(time.perf_counter() - begin)
    return {"median_s": statistics.median(samples), "best_s": min(samples)}


def restarts(command: list[str], kills: int, limit_s: float) -> dict:
    """One job whose ranks are killed `kills` times. Good: each next attempt computes, the last one ends well."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        environment = {
            **os.environ,
            "BENCH_LOG": log,
            "BENCH_KILLS": str(kills),
            "OMP_NUM_THREADS": "1",
        }
        words = [
            *command,
            "--nproc-per-node",
            "2",
            "--max-restarts",
            str(kills),
            os.path.join(HERE, "gloo_worker.py"),
        ]
        job = subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code = job.wait(limit_s)
        except subprocess.TimeoutExpired:
            subprocess.run(["pkill", "-KILL", "-s", str(job.pid)], check=False)
            job.kill()
            code = None
        with open(log) as file:
            notes = [json.loads(line) for line in file]
    killed = {n["attempt"]: n["killed"] for n in notes if "killed" in n}
    back = 0
    to_start, to_computing, own_start = [], [], []
    for attempt, at in killed.items():
        following = [n for n in notes if n["attempt"] == attempt + 1]
        computing = [n for n in following if "computing" in n]
        # A rank that was killed in its first step never noted that it computes.
        if len(computing) == 2 or any("killed" in n for n in following):
            back += 1
        if len(computing) == 2:
            began = max(n["began"] for n in computing)
            to_start.append(began - at)
            to_computing.append(max(n["computing"] for n in computing) - at)
            own_start.append(max(n["computing"] for n in computing) - began)
    finished = [n for n in notes if n.get("ok") is True and n["attempt"] == kills]
    result = {
        "kills": len(killed),
        "asked": kills,
        "back": back,
        "exit_code": code,
        "finished_right": len(finished) == 2,
    }
    if to_start:
        result |= {
            "kill_to_new_processes_median_s": statistics.median(to_start),
            "kill_to_new_processes_worst_s": max(to_start),
            "kill_to_computing_median_s": statistics.median(to_computing),
            "own_start_median_s": statistics.median(own_start),
        }
    return result


def main() -> int:
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--muster", required=True)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--peer-kills", type=int, default=3)
    options = parser.parse_args()
    os.environ["PATH"] = os.path.dirname(os.path.abspath(sys.executable)) + os.pathsep + os.environ["PATH"]
    muster = [os.path.abspath(options.muster), "torchrun"]
    peer = [sys.executable, "-m", "torch.distributed.run"]
    result = {
        "torch": torch.__version__,
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "bars": BARS,
        "start": {
            "muster": start(muster, options.rounds),
            "torchrun": start(peer, max(1, options.rounds // 3)),
        },
        "restart": {"muster": restarts(muster, options.kills, 60.0 * (options.kills + 1))},
    }
    if options.peer_kills > 0:
        result["restart"]["torchrun"] = restarts(peer, options.peer_kills, 60.0 * (options.peer_kills + 1))
    with open(options.output, "w") as file:
        json.dump(result, file, indent=1)
    for name, row in result["start"].items():
        print(f"start of 2 trivial workers, {name}: {row['median_s']:.3f} s")
    for name, row in result["restart"].items():
        print(
            f"restart, {name}: back {row['back']} of {row['asked']} kills, finished {'right' if row['finished_right'] else 'WRONG'}"
            + (
                ", new processes after {kill_to_new_processes_median_s:.3f} s (worst {kill_to_new_processes_worst_s:.3f}), own start {own_start_median_s:.2f} s".format(
                    **row
                )
                if "own_start_median_s" in row
                else ""
            )
        )
    print(f"written to {options.output}")
    mine = result["restart"]["muster"]
    met = result["start"]["muster"]["median_s"] <= BARS["start_s"]
    met &= mine["back"] == mine["kills"] == options.kills and mine["finished_right"]
    met &= mine.get("kill_to_new_processes_median_s", 0.0) <= BARS["restart_s"]
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
