"""Compares the encoder with tokenizers and tiktoken: CPU time of one thread on fresh text, and every id.

Each pass is a process of its own that reads every document once, so no cache has seen the text; passes of the programs
alternate, and medians are reported. Bars: at least 20 times tokenizers on English and code, 10 times on CJK and mixed
text, and no differing id. Exit code 0 when all hold, 1 when not.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import struct
import subprocess
import sys
import tempfile

import numpy as np
import texts as corpora
import vocabularies

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BARS = {"english": 20.0, "code": 20.0, "cjk": 10.0, "mixed": 10.0}


def processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def measure(command: list, out: pathlib.Path) -> tuple[dict, np.ndarray]:
    result = subprocess.run([str(c) for c in command] + [str(out)], check=True, stdout=subprocess.PIPE)
    return json.loads(result.stdout), np.fromfile(out, "<u4")


def compare(
    name: str,
    tokenizer: pathlib.Path,
    text: str,
    docs: pathlib.Path,
    size: int,
    options,
    folder,
) -> dict:
    here = pathlib.Path(__file__).resolve().parent
    commands = {"muster": [options.program, tokenizer, docs]}
    for peer in ("tokenizers", "tiktoken"):
        if peer == "tokenizers" or not options.no_tiktoken:
            commands[peer] = [sys.executable, here / "peer.py", peer, tokenizer, docs]
    seconds = {who: [] for who in commands}
    ids, versions = {}, {}
    for _ in range(options.rounds):
        for who, command in commands.items():
            result, ids[who] = measure(command, folder / "out.u32")
            seconds[who].append(result["cpu_s"])
            versions[who] = result.get("version")
    ours, theirs = ids["muster"], ids["tokenizers"]
    common = min(len(ours), len(theirs))
    different = int((ours[:common] != theirs[:common]).sum()) + abs(len(ours) - len(theirs))
    median = {who: statistics.median(values) for who, values in seconds.items()}
    row = {
        "vocabulary": name,
        "text": text,
        "bytes": size,
        "ids": len(theirs),
        "different_ids": different,
        "cpu_s": seconds,
        "mb_per_s": {who: size / 1e6 / value for who, value in median.items()},
        "times_tokenizers": median["tokenizers"] / median["muster"],
        "bar": BARS[text],
        "versions": versions,
    }
    row["holds"] = different == 0 and row["times_tokenizers"] >= row["bar"]
    speeds = ", ".join(f"{who} {speed:.1f}" for who, speed in row["mb_per_s"].items())
    print(
        f"{name:7} {text:8} {size / 1e6:5.1f} MB  MB/s: {speeds}; {row['times_tokenizers']:.1f}x tokenizers "
        f"(bar {row['bar']:.0f}), {different} of {len(theirs)} ids differ",
        file=sys.stderr,
        flush=True,
    )
    return row


def main() -> int:
    bins = pathlib.Path(os.environ.get("MUSTER_BENCH_BIN", ROOT / "build/release/bin"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--vocabulary",
        action="append",
        help="gpt2, llama3 or cl100k (repeatable) [gpt2 and llama3]",
    )
    parser.add_argument("--text", action="append", choices=list(BARS), help="(repeatable) [all]")
    parser.add_argument("--no-tiktoken", action="store_true")
    parser.add_argument(
        "--program",
        default=bins / "muster_bench_tokenizer",
        type=pathlib.Path,
    )
    parser.add_argument(
        "--cache",
        default=ROOT / ".cache/tokenizer",
        type=pathlib.Path,
        help="where vocabularies go",
    )
    parser.add_argument("-o", "--output", default=ROOT / "build/bench/tokenizer.json", type=pathlib.Path)
    options = parser.parse_args()
    names = options.vocabulary or ["gpt2", "llama3"]
    paths = vocabularies.prepare(options.cache)
    all_texts = {k: v for k, v in corpora.all_texts().items() if not options.text or k in options.text}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for text, documents in all_texts.items():
            if not documents:
                print(
                    f"no {text} text on this machine; see deps/debian-bench.txt",
                    file=sys.stderr,
                )
                continue
            docs = pathlib.Path(folder) / "docs"
            encoded = [d.encode() for d in documents]
            docs.write_bytes(b"".join(struct.pack("<Q", len(d)) + d for d in encoded))
            size = sum(map(len, encoded))
            if size < corpora.LEAST:
                print(f"only {size / 1e6:.1f} MB of {text} text found", file=sys.stderr)
            for name in names:
                rows.append(
                    compare(
                        name,
                        paths[name],
                        text,
                        docs,
                        size,
                        options,
                        pathlib.Path(folder),
                    )
                )
    report = {
        "benchmark": "tokenizer",
        "processor": processor(),
        "load_average": os.getloadavg(),
        "python": platform.python_version(),
        "rows": rows,
        "holds": bool(rows) and all(row["holds"] for row in rows),
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=1))
    print(options.output)
    return 0 if report["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
