"""One measured pass of a peer: encodes every document of a file once on one thread and reports the CPU time of that.

usage: peer.py tokenizers|tiktoken TOKENIZER.json DOCUMENTS OUT.u32

Prints {"cpu_s": …, "ids": …, "version": …}. tokenizers encodes batches of 64 documents through encode_batch_fast, its fastest
way (no offsets), without threads; tiktoken takes the ranks from the vocabulary's ids.
"""

import json
import os
import pathlib
import struct
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import numpy as np

BATCH = 64


def documents(path: str) -> list[str]:
    data, at, found = pathlib.Path(path).read_bytes(), 0, []
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        found.append(data[at + 8 : at + 8 + size].decode())
        at += 8 + size
    return found


def with_tokenizers(path: str, texts: list[str]):
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(path)
    tokenizer.encode_special_tokens = True  # special text stays text
    encodings = []
    start = time.process_time()
    for at in range(0, len(texts), BATCH):
        encodings += tokenizer.encode_batch_fast(texts[at : at + BATCH], add_special_tokens=False)
    cpu_s = time.process_time() - start
    return cpu_s, [e.ids for e in encodings], tokenizers.__version__


def with_tiktoken(path: str, texts: list[str]):
    import tiktoken
    import vocabularies

    root = json.loads(pathlib.Path(path).read_text())
    byte_of = {c: b for b, c in vocabularies.byte_alphabet().items()}
    ranks = {bytes(byte_of[c] for c in token): i for token, i in root["model"]["vocab"].items()}
    gpt2 = root["pre_tokenizer"]["type"] == "ByteLevel"
    encoding = tiktoken.Encoding(
        "bench",
        pat_str=vocabularies.GPT2_PATTERN if gpt2 else vocabularies.CL100K_PATTERN,
        mergeable_ranks=ranks,
        special_tokens={},
    )
    start = time.process_time()
    ids = [encoding.encode_ordinary(text) for text in texts]
    return time.process_time() - start, ids, tiktoken.__version__


def main() -> None:
    peer, tokenizer, docs, out = sys.argv[1:]
    cpu_s, ids, version = {"tokenizers": with_tokenizers, "tiktoken": with_tiktoken}[peer](tokenizer, documents(docs))
    flat = np.concatenate([np.array(i, dtype="<u4") for i in ids])
    flat.tofile(out)
    print(json.dumps({"cpu_s": cpu_s, "ids": len(flat), "version": version}))


if __name__ == "__main__":
    main()
