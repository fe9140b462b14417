"""Training steps of one worker against PyTorch, alternating processes, CPU time per step; see bench/step/run."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Huge thresholds: the allocator neither maps nor trims per step.
PINNED = {
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(16 << 30),
    "MALLOC_TOP_PAD_": str(512 << 20),
}


def measure(command, environment):
    clean = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    done = subprocess.run(command, env={**clean, **environment}, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", default=["mini", "gpt2"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8, help="steps a process, the first three are not counted")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="also torch.compile")
    parser.add_argument("-o", "--output", default=str(ROOT / "build/bench/step.json"))
    options = parser.parse_args()
    bench = os.environ.get("MUSTER_BENCH_BIN", str(ROOT / "build/release/bin")) + "/muster_bench_step"
    python = os.environ.get("MUSTER_PYTHON", sys.executable)
    tail = [str(options.steps), str(options.threads)]
    result = {}
    for model in options.models:
        contenders = {
            "muster fast": ([bench, model, "fast", *tail], {}),
            "eager": ([python, str(HERE / "peer.py"), model, "eager", *tail], {}),
            "muster strict": ([bench, model, "strict", *tail], {}),
            "eager, pinned malloc": ([python, str(HERE / "peer.py"), model, "eager", *tail], PINNED),
        }
        if options.compile:
            contenders["torch.compile"] = ([python, str(HERE / "peer.py"), model, "compile", *tail], PINNED)
        runs = {name: [] for name in contenders}
        for _ in range(options.rounds):
            for name, (command, environment) in contenders.items():
                runs[name].append(measure(command, environment))
        table = {}
        for name, list_of_runs in runs.items():
            cpu = [c for r in list_of_runs for c in r["cpu"][3:]]
            table[name] = {
                "cpu_median_s": statistics.median(cpu),
                "cpu_min_s": min(cpu),
                "wall_median_s": statistics.median(w for r in list_of_runs for w in r["wall"][3:]),
                "peak_rss": statistics.median(r["peak_rss"] for r in list_of_runs),
            }
        ours, strict = table["muster fast"], table["muster strict"]
        ratios = {
            f"{name} / muster fast, CPU": row["cpu_median_s"] / ours["cpu_median_s"]
            for name, row in table.items()
            if not name.startswith("muster")
        }
        ratios["muster strict / fast, CPU"] = strict["cpu_median_s"] / ours["cpu_median_s"]
        ratios["peak RSS, muster fast / eager"] = ours["peak_rss"] / table["eager"]["peak_rss"]
        result[model] = {"table": table, "ratios": ratios}
        for name, row in table.items():
            print(
                f"{model:5} {name:22} cpu {row['cpu_median_s'] * 1e3:8.1f} ms   rss {row['peak_rss'] / 2**20:7.0f} MiB"
            )
        for name, value in ratios.items():
            print(f"{model:5} {name:40} {value:.2f}")
    path = pathlib.Path(options.output)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1))
    print(f"wrote {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
