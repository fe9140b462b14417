"""Answers of the reference implementation for the tests of this room (tokenizers, deps/requirements-test.txt).

usage: reference.py encode TOKENIZER.json DOCUMENTS OUT [recognise]   ids of every document
       reference.py decode TOKENIZER.json IDS OUT                     text of every list of ids
       reference.py train DOCUMENTS VOCABULARY_SIZE OUT SPECIAL…      a tokenizer.json trained on the documents
       reference.py classes OUT                                       a byte for every code point: 0 other, 1 letter,
                                                                      2 number, 3 space
Lists are records: a little-endian 64-bit count of bytes, then the bytes; ids are little-endian 32-bit.
"""

import os
import pathlib
import struct
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers


def records(path: str) -> list[bytes]:
    data, at, found = pathlib.Path(path).read_bytes(), 0, []
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        found.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return found


def write(path: str, parts: list[bytes]) -> None:
    with open(path, "wb") as out:
        out.writelines(struct.pack("<Q", len(part)) + part for part in parts)


def encode(tokenizer: str, documents: str, out: str, *words: str) -> None:
    reference = Tokenizer.from_file(tokenizer)
    reference.encode_special_tokens = "recognise" not in words
    texts = [d.decode("utf-8", "replace") for d in records(documents)]
    encodings = [reference.encode(text, add_special_tokens="around" in words) for text in texts]
    write(out, [struct.pack(f"<{len(e.ids)}I", *e.ids) for e in encodings])


def decode(tokenizer: str, ids: str, out: str) -> None:
    reference = Tokenizer.from_file(tokenizer)
    lists = [struct.unpack(f"<{len(r) // 4}I", r) for r in records(ids)]
    write(
        out,
        [reference.decode(list(i), skip_special_tokens=False).encode() for i in lists],
    )


def train(documents: str, size: str, out: str, *specials: str) -> None:
    reference = Tokenizer(models.BPE())
    reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    reference.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=int(size),
        special_tokens=list(specials),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    reference.train_from_iterator([d.decode() for d in records(documents)], trainer)
    reference.save(out)


def classes(out: str) -> None:
    code_points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    text = "".join(map(chr, code_points))
    table = bytearray(0x110000)
    for value, pattern in ((1, r"\p{L}"), (2, r"\p{N}"), (3, r"\s")):
        left = pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(text)
        kept = {ord(c) for piece, _ in left for c in piece}
        for c in code_points:
            if c not in kept:
                table[c] = value
    pathlib.Path(out).write_bytes(table)


if __name__ == "__main__":
    {"encode": encode, "decode": decode, "train": train, "classes": classes}[sys.argv[1]](*sys.argv[2:])
