"""Held-out loss of examples/shakespeare-char.toml and of its PyTorch twin, several seeds, alternating; see run."""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CONFIG = ROOT / "examples/shakespeare-char.toml"
BARS = {"loss": 1.92, "difference": 0.02}


def run_muster(text, seed, steps, folder):
    program = os.environ.get("MUSTER_BENCH_BIN", str(ROOT / "build/release/bin")) + "/muster"
    run_dir = pathlib.Path(folder) / f"seed-{seed}"
    command = [program, "train", str(CONFIG), "--run-dir", str(run_dir), "--json", "--seed", str(seed)]
    command += ["--steps", str(steps), "--set", f"data.paths=[{json.dumps(str(text))}]"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
    result = json.loads(done.stdout)
    steps_s = sum(json.loads(line)["seconds"] for line in (run_dir / "steps.jsonl").read_text().splitlines())
    # A token is a byte, so nats per byte are nats per token.
    return {"loss": result["validation_bits_per_byte"] * math.log(2), "train_s": steps_s, "digest": result["digest"]}


def run_twin(text, seed, steps):
    command = [sys.executable, str(HERE / "twin.py"), str(text), str(seed), str(steps)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def main():
    shared = pathlib.Path(os.environ.get("MUSTER_SHARED", ROOT.parent / "shared"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1337, 1338, 1339])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--text", type=pathlib.Path, default=shared / "data/text/tinyshakespeare.txt")
    parser.add_argument("-o", "--output", default=str(ROOT / "build/bench/shakespeare.json"))
    options = parser.parse_args()
    if not options.text.exists():
        parser.error(f"{options.text} is missing; name a copy of the text with --text")
    text = options.text.resolve()
    rounds = []
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        for seed in options.seeds:
            ours, twin = run_muster(text, seed, options.steps, folder), run_twin(text, seed, options.steps)
            rounds.append({"seed": seed, "muster": ours, "twin": twin})
            print(
                f"seed {seed}: muster {ours['loss']:.4f} nats in {ours['train_s']:.1f} s, "
                f"PyTorch {twin['loss']:.4f} in {twin['train_s']:.1f} s",
                flush=True,
            )
    medians = {who: statistics.median(r[who]["loss"] for r in rounds) for who in ("muster", "twin")}
    difference = medians["muster"] - medians["twin"]
    print(f"medians: muster {medians['muster']:.4f}, PyTorch {medians['twin']:.4f}, difference {difference:+.4f}")
    path = pathlib.Path(options.output)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"steps": options.steps, "bars": BARS, "medians": medians, "rounds": rounds}, indent=1))
    print(f"wrote {path}", file=sys.stderr)
    return 0 if medians["muster"] <= BARS["loss"] and abs(difference) <= BARS["difference"] else 1


if __name__ == "__main__":
    sys.exit(main())
