"""Processes left one second after a launcher is killed: workers, children, grandchildren, setsid daemons.

Each of 8 ranks starts a child, a grandchild, a setsid child and a double-forked setsid grandchild; half of
the ranks ignore SIGTERM. Every process carries a mark in its environment, by which the survivors are
counted.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid

RANKS = 8
WORKER = """
[ $((${RANK:-${PMI_RANK:-0}} % 2)) = 0 ] || trap '' TERM
sleep 1000 &
sh -c 'sleep 1000 & wait' &
setsid sleep 1000 &
setsid sh -c '(sleep 1000 &) ; sleep 1000' &
wait
sleep 1000
"""
# In each rank: the shell, a sleep, a shell with a sleep, a setsid sleep, a setsid shell with two sleeps.
PROCESSES = RANKS * 8


def marked(mark: str, programs: tuple[str, ...] = ("sh", "sleep")) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if f"ORPHAN_MARK={mark}".encode() not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{entry}/comm") as file:
                if file.read().strip() in programs:
                    found.append(int(entry))
        except OSError:
            continue
    return found


def keeper_of(pid: int) -> int:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        for child in map(int, file.read().split()):
            with open(f"/proc/{child}/comm") as name:
                if name.read().strip() == "muster-keeper":
                    return child
    raise RuntimeError("no keeper below the supervisor")


def trial(command: list[str], number: signal.Signals, to_keeper: bool, environment: dict) -> tuple[int, float]:
    """Processes left after one second, and the seconds until the last one was gone (or 1)."""
    mark = uuid.uuid4().hex
    job = subprocess.Popen(
        command,
        env={**os.environ, **environment, "ORPHAN_MARK": mark},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while len(marked(mark)) < PROCESSES:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(marked(mark))} of {PROCESSES} processes came up")
        time.sleep(0.02)
    os.kill(keeper_of(job.pid) if to_keeper else job.pid, number)
    start = time.monotonic()
    gone = 1.0
    while time.monotonic() - start < 1.0:
        if not marked(mark):
            gone = time.monotonic() - start
            break
        time.sleep(0.01)
    time.sleep(max(0.0, start + 1.0 - time.monotonic()))
    left = marked(mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    try:
        job.wait(10)
    except subprocess.TimeoutExpired:
        job.kill()
    return len(left), gone


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--muster", required=True)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    muster = [
        os.path.abspath(options.muster),
        "run",
        "-n",
        str(RANKS),
        "--",
        "sh",
        "-c",
        WORKER,
    ]
    cases = []
    for disabled in ("", "cgroup", "cgroup,children"):
        environment = {"MUSTER_DISABLE": disabled}
        for number in (signal.SIGKILL, signal.SIGTERM):
            for to_keeper in (False, True):
                name = f"muster{' without ' + disabled if disabled else ''}"
                cases.append((name, muster, number, to_keeper, environment))
    hydra = shutil.which("mpiexec.hydra") or shutil.which("mpiexec.mpich")
    if hydra:
        peer = [hydra, "-n", str(RANKS), "sh", "-c", WORKER]
        cases += [("hydra", peer, number, False, {}) for number in (signal.SIGKILL, signal.SIGTERM)]
    rows = []
    for name, command, number, to_keeper, environment in cases:
        trials = [trial(command, number, to_keeper, environment) for _ in range(options.rounds)]
        rows.append(
            {
                "launcher": name,
                "signal": number.name,
                "to": "keeper" if to_keeper else "launcher",
                "processes": PROCESSES,
                "left_worst": max(t[0] for t in trials),
                "gone_worst_s": max(t[1] for t in trials),
            }
        )
        print(
            "{launcher:32} {signal} to {to:8}: {left_worst} of {processes} left, all gone after {gone_worst_s:.2f} s".format(
                **rows[-1]
            )
        )
    with open(options.output, "w") as file:
        json.dump(
            {"rounds": options.rounds, "load": os.getloadavg()[0], "rows": rows},
            file,
            indent=1,
        )
    print(f"written to {options.output}")
    return 0 if all(r["left_worst"] == 0 for r in rows if r["launcher"] != "hydra") else 1


if __name__ == "__main__":
    sys.exit(main())
