"""Runs the muster binary of this build for end-to-end tests: MUSTER_BIN, or build/release/bin/muster."""

import json
import os
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("MUSTER_BIN", str(ROOT / "build/release/bin/muster"))


def run(*arguments, timeout=120, env=None, check=True):
    """The finished process; standard output and error as text."""
    done = subprocess.run(
        [BINARY, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **(env or {})},
    )
    if check and done.returncode != 0:
        raise AssertionError(
            f"muster {' '.join(map(str, arguments))} exited with {done.returncode}\n{done.stderr[-4000:]}"
        )
    return done


def run_json(*arguments, **options):
    """The one JSON object that --json puts on standard output."""
    return json.loads(run(*arguments, "--json", **options).stdout)


def wait_until(condition, seconds=60):
    """Whether the condition came true; the time is only there to end a test that fails."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.005)
    return False


TINY_MODEL = """
[model]
family = "llama"
layers = 2
hidden = 32
heads = 4
kv_heads = 2
mlp = 64
context = 64

[data]
source = "files"
paths = ["{corpus}"]
sequence_length = 64
tokenizer = "train"
vocabulary = 320
fim_rate = 0.5
holdout = 0.1

[batch]
micro_batches_per_step = 4
sequences_per_micro_batch = 2
virtual_shards = 4

[optimizer]
lr = 0.01
min_lr = 0.001
warmup_steps = 2

[train]
steps = {steps}

[checkpoint]
every = 4

[eval]
sequences = 4
sample_tokens = 4
"""


def write_corpus(folder: pathlib.Path, files: int = 40) -> None:
    """Small program texts that differ from file to file, the same on every machine."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(files):
        lines = [f"def function_{i}_{k}(x, y):\n    return x * {i + k} + y\n" for k in range(6)]
        (folder / f"module_{i}.py").write_text("\n".join(lines))


def write_config(folder: pathlib.Path, steps: int = 12) -> pathlib.Path:
    write_corpus(folder / "corpus")
    path = folder / "tiny.toml"
    path.write_text(TINY_MODEL.format(corpus=folder / "corpus", steps=steps))
    return path
