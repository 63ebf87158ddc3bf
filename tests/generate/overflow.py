"""Dumps with a planted NaN or infinity, and healthy ones, by the collector of msprobe.

``python -m generate.overflow ARCHIVE [CASE...]``, in the folder of the tests, packs them into one file. Needs torch and
msprobe. Each case is one step of a small network on one or two ranks (gloo); what is planted, and the call that has to
be named, stand in `CASES`. ``msprobe overflow_check`` is run on each, and its answer is kept beside the dump.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional

CASES: dict[str, tuple[int, dict[str, list[str]]]] = {
    "healthy": (2, {}),
    "masks": (1, {}),
    "before_communication": (2, {"rank_1": ["Torch.log.0.forward"]}),
    "both_before_communication": (2, {"rank_0": ["Torch.log.0.forward"], "rank_1": ["Torch.log.0.forward"]}),
    "in_communication": (2, {"rank_0": ["Distributed.all_reduce.0.forward"]}),
    "between_communications": (2, {"rank_0": ["Torch.log.0.forward"]}),
    "after_communication": (2, {"rank_1": ["Torch.log.0.forward"]}),
    "sent": (2, {"rank_0": ["Torch.log.0.forward"]}),
    "fp16": (1, {"rank_0": ["Torch.matmul.0.forward"]}),
    "weight": (1, {"rank_0": ["Module.fc.Linear.forward.0"]}),
    "gradient": (1, {"rank_0": ["Torch.sqrt.0.backward"]}),
    "all_masked": (1, {"rank_0": ["Torch.softmax.0.forward"]}),
    "memory": (2, {}),
}
"""Name -> number of ranks, and rank -> calls in which a NaN or infinity begins."""


class Block(nn.Module):
    """Attention with a causal mask, and a layer behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.fc = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, *, low: float, is_dead: bool) -> torch.Tensor:
        scores = torch.matmul(self.inner(x), x.transpose(0, 1)) / math.sqrt(8.0)
        hidden = torch.triu(torch.ones(x.shape[0], x.shape[0], dtype=torch.bool), diagonal=0 if is_dead else 1)
        scores = scores.masked_fill(hidden, low)
        return self.fc(torch.matmul(torch.softmax(scores, dim=-1), x))


class Network(nn.Module):
    def __init__(self, case: str, rank: int) -> None:
        super().__init__()
        self.case, self.rank = case, rank
        lies = math.nan if case == "memory" else 0.0
        self.memory = [torch.full(shape, lies) for shape in ((16, 8), (8, 8), (3,))]
        self.block, self.fc = Block(), nn.Linear(8, 8)
        if case == "weight":
            self.fc.weight.data[0, 0] = math.nan

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.case == "fp16":
            big = torch.mul(x, 3000.0).half()
            return self.fc(torch.matmul(big, big.transpose(0, 1)).float()[:, :8])
        x = self.spoilt(x, "before_communication", 1)
        x = self.spoilt(x, "both_before_communication", self.rank)
        low = -math.inf if self.case in ("healthy", "masks", "all_masked") else -1e4  # msprobe accuses each infinity
        x = self.block(x, low=low, is_dead=self.case == "all_masked")
        if self.case == "masks":
            x = self.masked(x)
        if self.case == "gradient":
            x = x + torch.sqrt(torch.mul(x, 0.0))
        if dist.is_initialized():
            x = self.exchanged(x)
        return self.fc(self.spoilt(x, "after_communication", 1))

    def spoilt(self, x: torch.Tensor, case: str, rank: int) -> torch.Tensor:
        return torch.add(x, torch.log(torch.mul(x, 0.0) - 1.0)) if (self.case, self.rank) == (case, rank) else x

    def masked(self, x: torch.Tensor) -> torch.Tensor:
        """Use infinity in all the ways that masks do."""
        length = x.shape[0]
        causal = torch.triu(torch.full((length, length), -math.inf), diagonal=1)
        scores = torch.matmul(x, x.transpose(0, 1))
        one = torch.softmax(torch.add(scores, causal), dim=-1)
        hidden = causal < 0
        two = torch.softmax(torch.where(hidden, torch.tensor(-math.inf), scores), dim=-1)
        three = scores.clone()
        three[hidden] = -math.inf
        four = functional.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=causal)
        five = torch.clamp(scores, max=math.inf)
        low = torch.log(torch.softmax(scores, dim=-1)).masked_fill_(hidden, -math.inf).amax(dim=-1, keepdim=True)
        return torch.matmul(one + two + torch.softmax(three, dim=-1), x) + four[0] + low + 0.0 * five[:, :8]

    def exchanged(self, x: torch.Tensor) -> torch.Tensor:
        shared = torch.mul(torch.ones(4, 8), 4e4 if self.case == "in_communication" else 1.0).half()
        dist.all_reduce(shared)
        x = x + shared[0].float()
        x = self.spoilt(x, "between_communications", 0)
        gathered, passed, told = self.memory
        dist.all_gather_into_tensor(gathered, x.detach().contiguous())
        x = x + gathered[:8]
        x = self.spoilt(x, "sent", 0)
        if self.rank == 0:
            dist.send(x.detach().contiguous(), dst=1)
        else:
            dist.recv(passed, src=0)
            x = x + passed
        if self.rank == 0:
            told = torch.ones(3)
        dist.broadcast(told, src=0)
        return x + told[0]


def run(rank: int, case: str, ranks: int, folder: str) -> None:
    """Dump one step of a rank."""
    from msprobe.pytorch import PrecisionDebugger

    torch.manual_seed(7)
    if ranks > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29613")
        dist.init_process_group("gloo", rank=rank, world_size=ranks)
    task = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}
    config = {"task": "statistics", "dump_path": folder, "rank": [], "step": [], "level": "mix", "statistics": task}
    path = Path(folder) / f"config{rank}.json"
    path.write_text(json.dumps(config))
    model = Network(case, rank)
    x = torch.randn(8, 8)
    debugger = PrecisionDebugger(config_path=str(path))
    debugger.start(model=model)
    torch.mul(model(x).sum(), 1024.0).backward()
    debugger.stop()
    debugger.step()
    path.unlink()
    if ranks > 1:
        dist.destroy_process_group()


def answer(folder: Path, out: Path) -> dict[str, list[dict[str, object]]]:
    """Return what msprobe says of a dump; empty where it writes no file."""
    shutil.rmtree(out, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-m", "msprobe.msprobe", "overflow_check", "-i", str(folder), "-o", str(out)],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    return next((json.loads(file.read_text()) for file in out.glob("anomaly_analyze_*.json")), {})


def without_places(folder: Path) -> None:
    """Leave nothing of the machine in the stacks."""
    for file in folder.glob("step0/*/stack.json"):
        file.write_text(re.sub(r"File /[^ ,]*/([^/ ,]+\.py)", r"File \1", file.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path)
    parser.add_argument("cases", nargs="*", default=list(CASES))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work, tarfile.open(args.archive, "w:xz") as archive:
        for case in args.cases:
            folder = Path(work) / case
            folder.mkdir()
            ranks, truth = CASES[case]
            mp.spawn(run, (case, ranks, str(folder)), ranks)
            for process in folder.glob("step0/proc*"):
                process.rename(process.with_name("proc1000"))
            without_places(folder)
            said = answer(folder / "step0", Path(work) / "said")
            (folder / "truth.json").write_text(json.dumps({"truth": truth, "msprobe": said}, indent=1))
            names = {rank: [each["op_name"] for each in found] for rank, found in said.items()}
            sys.stdout.write(f"{case}: {names}\n")
            for file in sorted(path for path in folder.rglob("*") if path.is_file()):
                archive.add(file, str(file.relative_to(work)), filter=_plain)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.mtime, info.uid, info.gid, info.uname, info.gname, info.mode = 0, 0, 0, "", "", 0o644
    return info


if __name__ == "__main__":
    main()
