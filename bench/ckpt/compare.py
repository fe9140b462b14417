"""Measures checkpoints: ours, three peers and the disk take turns in one run; medians; JSON to a file.

Bars: step-thread wait / one copy of the state <= 1.5 (64 MiB); durable throughput / dd >= 0.75 (1.5 GiB);
memory of the ring <= 160 MiB; every single-byte change found; every crash image resumes.
Exit code 1 when a bar is not met.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20


def ours(program: str, *words: str) -> dict:
    done = subprocess.run([program, *words], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)


def sync_all(folder: str) -> None:
    for root, _, names in os.walk(folder):
        for name in names:
            fd = os.open(os.path.join(root, name), os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
        sync_folder(root)
    sync_folder(os.path.dirname(folder))


def run_dd(folder: str, size: int) -> float:
    blocks = size // (4 * MIB)
    start = time.monotonic()
    subprocess.run(
        [
            "dd",
            "if=/dev/zero",
            f"of={folder}/dd",
            "bs=4M",
            f"count={blocks}",
            "oflag=direct",
        ],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return (time.monotonic() - start) * size / (blocks * 4 * MIB)


def make_state(size: int):
    import torch

    torch.set_num_threads(1)
    rows = size // 36 // 4096
    generator = torch.Generator().manual_seed(1)
    state = {}
    for layer in range(12):
        for kind in ("", "m.", "v."):
            state[f"{kind}layer{layer}.weight"] = torch.rand((rows, 1024), generator=generator)
            state[f"{kind}layer{layer}.norm"] = torch.rand((1023,), generator=generator)
    return state


def torch_save(state, folder: str) -> None:
    import torch

    torch.save(state, f"{folder}/state.pt")
    sync_all(folder)


def safetensors_save(state, folder: str) -> None:
    from safetensors.torch import save_file

    save_file(state, f"{folder}/state.safetensors")
    sync_all(folder)


def distributed_save(state, folder: str) -> None:
    import torch.distributed.checkpoint as dcp

    dcp.save(state, checkpoint_id=folder, no_dist=True)
    sync_all(folder)


PEERS = {
    "torch.save + fsync": torch_save,
    "safetensors + fsync": safetensors_save,
    "torch.distributed.checkpoint + fsync": distributed_save,
}


def time_peer(save, state, folder: str) -> float:
    os.mkdir(folder)
    start = time.monotonic()
    save(state, folder)
    elapsed = time.monotonic() - start
    shutil.rmtree(folder)
    return elapsed


def measure_durable(program: str, folder: str, size: int, rounds: int, peers: bool) -> dict:
    state = make_state(size) if peers else None
    seconds = {"muster": [], "dd oflag=direct": []}
    pairs, last = [], {}
    for round_number in range(rounds):
        # The two that a bar compares stand next to each other, in turning order.
        order = ["muster", "dd oflag=direct"] if round_number % 2 == 0 else ["dd oflag=direct", "muster"]
        for name in order:
            if name == "muster":
                last = ours(program, "save", f"{folder}/ours", str(size))
                seconds[name].append(last["seconds"] * size / last["bytes"])
            else:
                seconds[name].append(run_dd(folder, size))
                os.remove(f"{folder}/dd")
        pairs.append(seconds["dd oflag=direct"][-1] / seconds["muster"][-1])
        for name, save in PEERS.items() if peers else ():
            seconds.setdefault(name, []).append(time_peer(save, state, f"{folder}/peer"))
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    return {
        "bytes": size,
        "rounds": rounds,
        "seconds": seconds,
        "gigabytes_per_second": {name: size / median / 1e9 for name, median in medians.items()},
        "throughput_over_dd": statistics.median(pairs),
        "throughput_over_dd_each_round": pairs,
        "engine": last["engine"],
        "ring_mib": last["ring_kib"] / 1024,
        "extra_rss_mib": last["extra_rss_kib"] / 1024,
    }


def machine() -> dict:
    model = ""
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    versions = {"python": platform.python_version(), "kernel": platform.release()}
    for module in ("torch", "safetensors"):
        try:
            versions[module] = __import__(module).__version__
        except ImportError:
            versions[module] = None
    return {
        "cpu": model,
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "versions": versions,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", default="build/bench/ckpt.json")
    parser.add_argument("--dir", default="/var/tmp", help="a folder on the disk to measure (not tmpfs)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bytes", type=int, default=1536 * MIB, help="size of the durable save")
    parser.add_argument("--wait-rounds", type=int, default=25)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--crash-images", type=int, default=20000)
    parser.add_argument("--no-peers", action="store_true", help="only the bars: no PyTorch needed")
    options = parser.parse_args()

    folder = tempfile.mkdtemp(prefix="muster-bench-ckpt-", dir=options.dir)
    try:
        report = {"machine": machine()}
        report["wait"] = ours(options.program, "wait", f"{folder}/wait", str(options.wait_rounds))
        report["durable"] = measure_durable(
            options.program, folder, options.bytes, options.rounds, not options.no_peers
        )
        report["flips"] = ours(options.program, "flips", f"{folder}/flips", str(options.flips))
        report["crash"] = ours(options.program, "crash", str(options.crash_images))
    finally:
        shutil.rmtree(folder, ignore_errors=True)

    wait, durable, flips, crash = (report[key] for key in ("wait", "durable", "flips", "crash"))
    bars = [
        (
            "step-thread wait / copy of 64 MiB",
            wait["median_ratio"],
            "<= 1.5",
            wait["median_ratio"] <= 1.5,
        ),
        (
            "durable throughput / dd",
            durable["throughput_over_dd"],
            ">= 0.75",
            durable["throughput_over_dd"] >= 0.75,
        ),
        (
            "extra RSS of a save, MiB",
            durable["extra_rss_mib"],
            "<= 160",
            durable["extra_rss_mib"] <= 160,
        ),
        (
            "single-byte changes found",
            flips["found"],
            f"= {flips['flips']}",
            flips["found"] == flips["flips"] and flips["valid_when_restored"],
        ),
        (
            "crash images that resume",
            crash["images"] - len(crash["failures"]),
            f"= {crash['images']}",
            not crash["failures"],
        ),
    ]
    report["bars"] = [{"what": w, "value": v, "bar": b, "met": m} for w, v, b, m in bars]
    os.makedirs(os.path.dirname(os.path.abspath(options.output)), exist_ok=True)
    with open(options.output, "w") as out:
        json.dump(report, out, indent=1)

    for name, speed in durable["gigabytes_per_second"].items():
        print(f"{name:<40}{speed:8.2f} GB/s")
    for what, value, bar, met in bars:
        print(f"{what:<40}{value:10.3f}  {bar:<10}{'met' if met else 'NOT MET'}")
    print(f"written to {options.output}")
    return 0 if all(met for *_, met in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
