"""The texts of the tokenizer benchmark, gathered from what Debian and Python install.

english  Debian documentation and English manual pages
code     the Python standard library
cjk      Japanese and Chinese manual pages and the Debian reference in those languages
mixed    pieces of the three, interleaved

Every file is used once, in a fixed order, and equal files once only. A text is a list of documents; the benchmark gives
each encoder the same list.
"""

import gzip
import hashlib
import pathlib
import sysconfig

LIMIT = 12 << 20  # bytes of one text at most
LEAST = 8 << 20  # wanted


def read(path: pathlib.Path) -> str | None:
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        return data.decode("utf-8")
    except (OSError, UnicodeDecodeError, EOFError):
        return None


def gather(paths: list[pathlib.Path], keep) -> list[str]:
    seen, documents, total = set(), [], 0
    for path in paths:
        if path.is_symlink() or not path.is_file():
            continue
        text = read(path)
        if not text or not keep(text):
            continue
        digest = hashlib.sha256(text.encode()).digest()
        if digest in seen:
            continue
        seen.add(digest)
        documents.append(text)
        total += len(text.encode())
        if total >= LIMIT:
            break
    return documents


def files_below(*folders: str, suffixes: tuple[str, ...] = ()) -> list[pathlib.Path]:
    found = []
    for folder in folders:
        base = pathlib.Path(folder)
        if base.is_dir():
            found += sorted(p for p in base.rglob("*") if not suffixes or p.name.endswith(suffixes))
    return found


def mostly_ascii(text: str) -> bool:
    return len(text) > 200 and sum(c < "\x80" for c in text[:20000]) >= 0.97 * min(len(text), 20000)


def has_cjk(text: str) -> bool:
    return sum("\u3040" <= c <= "\u9fff" for c in text[:20000]) >= 0.1 * min(len(text), 20000)


def english() -> list[str]:
    manuals = [f"/usr/share/man/man{i}" for i in range(1, 9)]
    documents = gather(files_below(*manuals), mostly_ascii)
    documents += gather(
        files_below("/usr/share/doc", suffixes=(".txt", ".txt.gz", "README", "README.gz", "README.md", "README.Debian",
                                                "README.Debian.gz", "changelog.gz", "NEWS.gz", "copyright", ".html")),
        mostly_ascii,
    )  # fmt: skip
    return limited(documents)


def code() -> list[str]:
    base = pathlib.Path(sysconfig.get_paths()["stdlib"])
    paths = [p for p in sorted(base.rglob("*.py")) if "site-packages" not in p.parts]
    return gather(paths, lambda text: True)


def cjk() -> list[str]:
    folders = [f"/usr/share/man/{name}" for name in ("ja", "zh_CN", "zh_TW")]
    documents = gather(files_below(*folders), has_cjk)
    documents += gather(files_below("/usr/share/debian-reference", "/usr/share/doc", suffixes=(
        ".ja.html", ".zh-cn.html", ".zh-tw.html", ".ja.txt.gz", ".zh-cn.txt.gz", ".zh-tw.txt.gz",
        ".ja.txt", ".zh-cn.txt", ".zh-tw.txt")), has_cjk)  # fmt: skip
    return limited(documents)


def limited(documents: list[str]) -> list[str]:
    total, kept = 0, []
    for text in documents:
        kept.append(text)
        total += len(text.encode())
        if total >= LIMIT:
            break
    return kept


def mixed(parts: list[list[str]]) -> list[str]:
    """Pieces of about 4,000 characters of the parts in turn, equal bytes of each part."""
    chunks = []
    budget = min(LIMIT // len(parts), *(sum(len(t.encode()) for t in part) for part in parts))
    for part in parts:
        pieces, total = [], 0
        for text in part:
            for at in range(0, len(text), 4000):
                piece = text[at : at + 4000]
                if total < budget:
                    pieces.append(piece)
                    total += len(piece.encode())
        chunks.append(pieces)
    # Spread every part over the whole text.
    keyed = [(i / len(pieces), k, piece) for k, pieces in enumerate(chunks) for i, piece in enumerate(pieces)]
    ordered = [piece for _, _, piece in sorted(keyed, key=lambda item: item[:2])]
    return ["".join(ordered[i : i + 12]) for i in range(0, len(ordered), 12)]


def all_texts() -> dict[str, list[str]]:
    texts = {"english": english(), "code": code(), "cjk": cjk()}
    present = [documents for documents in texts.values() if documents]
    texts["mixed"] = mixed(present)
    return texts
