"""Collectives of two ranks on one machine: muster against gloo (torch.distributed), alternating in one run.

Every round runs each collective once per system, one after the other; the systems that wait are
asleep. Reported: median and best wall time of the slower rank, median CPU time of both ranks together.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

COLLECTIVES = ["all_reduce", "reduce_scatter", "all_gather"]
BARS = {"all_reduce": 2.0, "reduce_scatter": 4.0}


def gloo_rank(rank: int, store: str) -> None:
    import torch
    import torch.distributed as dist

    warnings.simplefilter("ignore", FutureWarning)  # old names work on every release
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    buffers: dict[int, tuple] = {}
    while True:
        line = [sys.stdin.readline() if rank == 0 else ""]
        dist.broadcast_object_list(line, src=0)
        if not line[0].strip():
            break
        collective, elements = line[0].split()
        count = int(elements)
        if count not in buffers:
            buffers[count] = (torch.ones(count), torch.ones(count // 2))
        whole, half = buffers[count]
        whole.fill_(1.0)
        half.fill_(1.0)
        dist.barrier()
        cpu = time.process_time_ns()
        start = time.perf_counter_ns()
        if collective == "all_reduce":
            dist.all_reduce(whole)
        elif collective == "reduce_scatter":
            dist.reduce_scatter_tensor(half, whole)
        else:
            dist.all_gather_into_tensor(whole, half)
        wall = torch.tensor([time.perf_counter_ns() - start])
        used = torch.tensor([time.process_time_ns() - cpu])
        result = half if collective == "reduce_scatter" else whole
        assert bool((result == (1.0 if collective == "all_gather" else 2.0)).all())
        dist.all_reduce(wall, op=dist.ReduceOp.MAX)
        dist.all_reduce(used)
        if rank == 0:
            print(wall.item(), used.item(), flush=True)
    dist.destroy_process_group()


class Peer:
    """A process that answers a line with a line of two numbers."""

    def __init__(self, command: list[str], prefix: str, suffix: str):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.prefix, self.suffix = prefix, suffix

    def run(self, collective: str, elements: int) -> tuple[int, int]:
        self.process.stdin.write(f"{collective}{self.suffix} {elements}\n")
        self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        if len(words) != 2:
            raise SystemExit(f"{self.prefix} ended: exit {self.process.wait()}")
        return int(words[0]), int(words[1])


def cpu_name() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--gloo-rank", type=int)
    parser.add_argument("--store")
    args = parser.parse_args()
    if args.gloo_rank is not None:
        gloo_rank(args.gloo_rank, args.store)
        return 0
    import torch

    folder = tempfile.mkdtemp()
    store = os.path.join(folder, "store")
    gloo = [sys.executable, "-u", __file__, "--program", "-", "-o", "-", "--store", store, "--gloo-rank"]
    follower = subprocess.Popen(gloo + ["1"], stdin=subprocess.DEVNULL)
    systems = {"gloo": Peer(gloo + ["0"], "gloo", "")}
    for backend in ["shm", "shm_private", "tcp"]:
        systems[f"muster {backend}"] = Peer([args.program], f"muster {backend}", f" {backend}")
    elements = args.mib * (1 << 20) // 4
    samples: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for turn in range(args.rounds + 2):  # two to warm up
        for collective in COLLECTIVES:
            for name, peer in systems.items():
                measured = peer.run(collective, elements)
                if turn >= 2:
                    samples.setdefault((collective, name), []).append(measured)
    for peer in systems.values():
        peer.process.stdin.close()
        peer.process.wait()
    follower.wait()

    rows = []
    print(f"{args.mib} MiB float32, 2 ranks, {args.rounds} rounds\n")
    print(f"{'collective':<16}{'system':<20}{'median ms':>10}{'best ms':>10}{'CPU ms':>10}{'x gloo':>9}")
    for collective in COLLECTIVES:
        base = statistics.median(w for w, _ in samples[collective, "gloo"])
        for name in systems:
            walls = [w for w, _ in samples[collective, name]]
            cpu = statistics.median(c for _, c in samples[collective, name])
            row = {
                "collective": collective,
                "system": name,
                "median_ms": statistics.median(walls) / 1e6,
                "best_ms": min(walls) / 1e6,
                "cpu_ms": cpu / 1e6,
                "speed_over_gloo": base / statistics.median(walls),
            }
            rows.append(row)
            print(
                f"{collective:<16}{name:<20}{row['median_ms']:>10.2f}{row['best_ms']:>10.2f}"
                f"{row['cpu_ms']:>10.2f}{row['speed_over_gloo']:>9.2f}"
            )
    result = {
        "benchmark": "comm",
        "mib": args.mib,
        "rounds": args.rounds,
        "cpu": cpu_name(),
        "cpus": os.cpu_count(),
        "torch": torch.__version__,
        "bars_over_gloo": BARS,
        "rows": rows,
    }
    with open(args.output, "w", encoding="utf-8") as out:
        json.dump(result, out, indent=1)
    print(f"\n{args.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
