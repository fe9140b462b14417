"""Measures whole runs of examples/code-tiny.toml; see bench/train/run."""

import argparse
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MUSTER = os.environ.get("MUSTER_BENCH_BIN", str(ROOT / "build/release/bin")) + "/muster"
CONFIG = ROOT / "examples/code-tiny.toml"
QUICK = ["--set", "eval.sequences=1", "--set", "eval.sample_tokens=0"]


def start(run_dir, *arguments, env=None):
    command = [MUSTER, "train", str(CONFIG), "--run-dir", str(run_dir), "--json", *QUICK, *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **(env or {})}
    )


def finish(process):
    out, _ = process.communicate(timeout=1800)
    if process.returncode != 0:
        raise RuntimeError(f"{process.args} exited with {process.returncode}")
    return json.loads(out)


def tokens_per_second(run_dir, skip=3):
    records = [json.loads(line) for line in (run_dir / "steps.jsonl").read_text().splitlines()][skip:]
    return sum(r["tokens"] for r in records) / sum(r["seconds"] for r in records)


def efficiency(folder, options):
    """One run of two workers against two runs of one worker each, equal tokens a worker."""
    ratios = []
    single = ["--workers", 1, "--set", "batch.micro_batches_per_step=4", "--set", "batch.virtual_shards=4"]
    for i in range(options.rounds):
        pair = [start(folder / f"single-{i}-{k}", "--steps", options.steps, *single) for k in range(2)]
        for process in pair:
            finish(process)
        finish(start(folder / f"both-{i}", "--steps", options.steps, "--workers", 2))
        alone = sum(tokens_per_second(folder / f"single-{i}-{k}") for k in range(2))
        both = tokens_per_second(folder / f"both-{i}")
        ratios.append(both / alone)
        print(f"round {i}: 2 workers {both:.0f} tok/s, two single ones {alone:.0f} tok/s, ratio {both / alone:.3f}")
    return {"ratios": ratios, "median": statistics.median(ratios)}


def recovery(folder, options):
    """From the kill of a worker to both computing again, out of the report's restart table (rank-seconds / ranks)."""
    rounds = []
    for i in range(options.rounds):
        run = folder / f"killed-{i}"
        finish(
            start(run, "--steps", 8, "--workers", 2, "--set", "checkpoint.every=4", "--inject", "kill:rank=1,step=7")
        )
        rows = [line for line in (run / "report.md").read_text().splitlines() if "fatal" in line and "|" in line]
        cells = [c.strip() for c in rows[0].strip("|").split("|")]
        seconds = [seconds_of(c) for c in cells[4:7]]
        rounds.append({"detection": seconds[0], "restart": seconds[1] / 2, "reload": seconds[2] / 2})
        print(f"round {i}: {rounds[-1]}")
    total = [sum(r.values()) for r in rounds]
    return {"rounds": rounds, "total_median": statistics.median(total)}


def seconds_of(text):
    number, unit = re.match(r"([\d.]+) (\w+)", text).groups()
    return float(number) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}[unit]


def stop_after(process, run_dir, steps):
    """SIGINT, as Ctrl-C sends it, once `steps` steps are logged."""
    log = run_dir / "steps.jsonl"
    while not log.exists() or len(log.read_text().splitlines()) < steps:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args} ended early with {process.returncode}")
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=600)


def digests(folder, options):
    """The digest of all state after 40 steps, over layouts, instruction sets, a kill and a resume."""
    draw = random.Random(options.seed)
    rank, step = draw.randrange(2), draw.randrange(5, 38)
    cases = {
        "1 worker": (["--workers", 1], {}),
        "2 workers": (["--workers", 2], {}),
        "4 workers": (["--workers", 4], {}),
        "2 workers, 2 threads": (["--workers", 2, "--set", "train.threads=2"], {}),
        "2 workers, AVX2": (["--workers", 2], {"MUSTER_ISA": "avx2"}),
        "1 worker, 2 threads": (["--workers", 1, "--set", "train.threads=2"], {}),
        f"2 workers, rank {rank} killed in step {step}": (
            ["--workers", 2, "--set", "checkpoint.every=10", "--inject", f"kill:rank={rank},step={step}"],
            {},
        ),
    }
    found = {}
    for name, (arguments, env) in cases.items():
        run = folder / name.replace(" ", "-").replace(",", "")
        found[name] = finish(start(run, "--steps", 40, *arguments, env=env))["digest"]
        print(f"{name:36} {found[name]}", flush=True)
    name = "4 workers, stopped and resumed by 2"
    run = folder / "resumed"
    stop_after(start(run, "--steps", 40, "--workers", 4), run, draw.randrange(5, 35))
    found[name] = finish(start(run, "--steps", 40, "--workers", 2, "--resume"))["digest"]
    print(f"{name:36} {found[name]}", flush=True)
    return {"digests": found, "equal": len(set(found.values())) == 1}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="?", default="all", choices=["efficiency", "recovery", "digests", "all"])
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1, help="draws the steps of the kill and of the stop")
    parser.add_argument("-o", "--output", default=str(ROOT / "build/bench/train.json"))
    options = parser.parse_args()
    parts = {"efficiency": efficiency, "recovery": recovery, "digests": digests}
    names = list(parts) if options.what == "all" else [options.what]
    result = {}
    for name in names:
        with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
            result[name] = parts[name](pathlib.Path(folder), options)
    path = pathlib.Path(options.output)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1))
    print(f"wrote {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
