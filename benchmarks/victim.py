"""Run probe_flow until a batch begins, then die: ``python -m benchmarks.victim LOG TASKS BATCHES WORDS...``.

The process kills itself with SIGKILL when a batch of at most TASKS pairs is about to begin after BATCHES others; other
threads are in the middle of theirs. Each batch that began leaves a line with its number of pairs in LOG.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from probe_flow.cli.main import main as probe_flow_main
from probe_flow.measure import batches as measuring
from probe_flow.measure import run as measure_pairs


def main() -> int:
    log, tasks, batches = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    lock = threading.Lock()
    measure_batch = measuring.measure_batch
    begun: list[int] = []

    def counted(batch: measuring.Batch) -> list[measuring.TaskResult]:
        with lock:
            if len(begun) == batches:
                log.write_text("".join(f"{number}\n" for number in begun), encoding="ascii")
                os.kill(os.getpid(), signal.SIGKILL)
            begun.append(len(batch.tasks))
        return measure_batch(batch)

    measuring.MAX_TASKS_PER_BATCH = tasks
    vars(measure_pairs)["measure_batch"] = counted  # what the stage looks up when it hands out batches
    return probe_flow_main(sys.argv[4:])


if __name__ == "__main__":
    sys.exit(main())
