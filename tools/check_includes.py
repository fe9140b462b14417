"""Checks that every quoted include points to the same room or to a room it declares, which stands lower.

Reads the rooms and their DEPS from src/CMakeLists.txt. Exit code 1 and one line per offence when a rule is broken.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"


def rooms() -> dict[str, set[str]]:
    """Room -> every room it may include (declared rooms and theirs, and itself)."""
    allowed: dict[str, set[str]] = {}
    text = re.sub(r"#.*", "", (SRC / "CMakeLists.txt").read_text())
    for call in re.findall(r"muster_room\(([^)]*)\)", text):
        words = call.split()
        room, deps, section = words[0], [], None
        for word in words[1:]:
            if word in ("DEPS", "LIBS", "TEST_DEPS", "TEST_LIBS"):
                section = word
            elif section == "DEPS":
                deps.append(word)
        allowed[room] = {room}.union(*(allowed[d] for d in deps)) if deps else {room}
    return allowed


def room_of(path: str, names: list[str]) -> str | None:
    matches = [n for n in names if path.startswith(n + "/")]
    return max(matches, key=len) if matches else None


def main() -> int:
    allowed = rooms()
    names = list(allowed)
    bad = 0
    for file in sorted(SRC.rglob("*")):
        if file.suffix not in (".h", ".cpp", ".cu"):
            continue
        rel = file.relative_to(SRC).as_posix()
        room = room_of(rel, names)
        if room is None:
            if not rel.startswith("app/"):
                print(f"{rel}: not in a room that src/CMakeLists.txt lists")
                bad += 1
            continue
        is_test = rel.endswith("_test.cpp")
        for number, line in enumerate(file.read_text().splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not m:
                outside = re.match(r"\s*#\s*include\s+<(torch|ATen|c10)/", line)
                if outside and room != "train/vendor" and not rel.endswith("_oracle_test.cpp"):
                    print(f"{rel}:{number}: libtorch is for train/vendor and oracle tests only")
                    bad += 1
                continue
            target = room_of(m.group(1), names)
            if target is None:
                print(f'{rel}:{number}: include "{m.group(1)}" must name its room from src/')
                bad += 1
            elif m.group(1).endswith("_rig.h") and not is_test and not rel.endswith(("_rig.cpp", "_rig.h")):
                print(f'{rel}:{number}: "{m.group(1)}" is for tests')
                bad += 1
            elif target not in allowed[room] and not is_test:
                print(f"{rel}:{number}: {room} may not use {target}")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
