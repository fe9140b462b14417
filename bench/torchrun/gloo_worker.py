"""Two gloo ranks that add numbers; while attempts are left to kill, one of them dies by SIGKILL on the way.

Writes one JSON line per start to $BENCH_LOG: who, which attempt, when its process began, when it was
computing, and when it killed itself; at the end "ok" if every sum was right.
"""

import json
import os
import random
import signal
import time


def process_start() -> float:
    """Wall time at which this process was made (the clock of /proc has a resolution of 10 ms)."""
    with open("/proc/self/stat") as file:
        ticks = int(file.read().rsplit(")", 1)[1].split()[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age


def note(**fields) -> None:
    line = json.dumps({"rank": rank, "attempt": attempt, "began": began, **fields}) + "\n"
    with open(os.environ["BENCH_LOG"], "a") as log:
        log.write(line)


began = process_start()
rank = int(os.environ["RANK"])
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])

import torch  # noqa: E402  (the moment before the import is measured)
import torch.distributed as dist  # noqa: E402

kills = int(os.environ["BENCH_KILLS"])
draw = random.Random(attempt)
victim, moment = draw.randrange(2), draw.randrange(30)
dist.init_process_group("gloo")
ok = True
for step in range(30):
    if attempt < kills and rank == victim and step == moment:
        note(killed=time.time())
        os.kill(os.getpid(), signal.SIGKILL)
    numbers = torch.arange(64, dtype=torch.float32) * (rank + 1) + step
    dist.all_reduce(numbers)
    ok = ok and torch.equal(numbers, torch.arange(64, dtype=torch.float32) * 3 + 2 * step)
    if step == 0:
        note(computing=time.time())
note(finished=time.time(), ok=ok)
dist.destroy_process_group()
