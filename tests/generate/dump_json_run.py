"""Run one side of a pair under the collector of the reference tool and leave its dump: real dump.json files.

Needs torch and msprobe; run by `dump_json_pairs`, which forks one process per dump.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import torch

from generate import dump_json_kernels as kernels
from generate.dump_json_changes import CHANGES, change, late_parameter
from generate.dump_json_models import make
from generate.dump_json_specs import Spec

OPTIMIZERS = {"sgd": partial(torch.optim.SGD, lr=0.05), "adamw": partial(torch.optim.AdamW, lr=0.005)}
TASK = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "md5"}


def run(spec: Spec, folder: Path, *, rank: int = 0) -> dict:
    """Dump every step of one side under ``folder``; return the calls that were made and whether the fault happened."""
    from msprobe.pytorch import PrecisionDebugger

    folder.mkdir(parents=True, exist_ok=True)
    config = {"task": "tensor", "dump_path": str(folder), "rank": [], "step": [], "level": spec.level, "tensor": TASK}
    (folder / "config.json").write_text(json.dumps(config))
    is_faulty = rank == spec.ranks - 1
    kernels.PLAN.noise = spec.noise
    if is_faulty and spec.kind and spec.label:
        kernels.PLAN.kind, kernels.PLAN.label, kernels.PLAN.call = spec.kind, spec.label, spec.call
        kernels.PLAN.strength, kernels.PLAN.step = spec.strength, spec.step
    model = make(spec.model, spec.seed)
    model.recompute = spec.recompute
    if is_faulty and spec.kind in CHANGES:
        change(model, spec.kind, spec.strength, spec.seed)
    model = model.to(getattr(torch, spec.dtype))
    optimizer = OPTIMIZERS[spec.optimizer](model.parameters())
    debugger = PrecisionDebugger(config_path=str(folder / "config.json"))
    for step in range(spec.steps):
        kernels.PLAN.now = step
        debugger.start(model=model)
        model.loss().backward()
        debugger.stop()
        debugger.step()
        optimizer.step()
        optimizer.zero_grad()
        if is_faulty and spec.kind == "late_parameter" and step + 1 == spec.step:
            with torch.no_grad():
                late_parameter(model, spec.strength, spec.seed)
    return {"census": kernels.PLAN.census, "hit": kernels.PLAN.hit}


def settle(folder: Path) -> None:
    """Give the processes' folders one name and put each dump's tensors into one file."""
    for dump in sorted(folder.glob("step*/proc*")):
        place = dump.rename(dump.with_name("proc1000")) if dump.name != "proc1000" else dump
        tensors = {}
        for file in sorted((place / "dump_tensor_data").glob("*.pt")):
            tensor = torch.load(file, weights_only=True)
            tensors[file.name[:-3]] = (tensor.float() if tensor.is_floating_point() else tensor).detach().numpy()
        np.savez(place / "tensors.npz", **tensors)
        shutil.rmtree(place / "dump_tensor_data", ignore_errors=True)
        text = (place / "dump.json").read_text().replace('"task": "tensor"', '"task": "statistics"', 1)
        (place / "dump.json").write_text(re.sub(r'"data_name": "[^"]*",?', "", text))


def in_child(spec: Spec, folder: Path) -> dict:
    """Run one side in a process of its own, so that the collector's counters start anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
            os.dup2(log, 1)
            os.dup2(log, 2)
            (folder / "result.json").write_text(json.dumps(run(spec, folder)))
            code = 0
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError(f"{spec} failed: {(folder / 'log').read_text()[-2000:]}")
    settle(folder)
    return json.loads((folder / "result.json").read_text())
