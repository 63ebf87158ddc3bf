"""Compare drawn pairs and score what is named: first, among the first three, second faults, alarms, silent passes."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from generate.dump_json_pairs import leaves
from generate.evidence import as_mindspore
from generate.evidence.sides import Case, Truth, run, truth_of
from generate.recomputed_faults import in_order
from probe_flow.comparing.asked import Asked, Recompute
from probe_flow.comparing.steps import compare_pairs
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.matching.name.match_name import match_name
from probe_flow.records import Comparison, Finding, FindingKind, Pairs, SlotRole
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Settings

MODES = ("tensor", "statistics")
ORIGINS = (FindingKind.ORIGIN, FindingKind.CHECKSUM_ORIGIN, FindingKind.NONFINITE_ORIGIN)


@dataclass(frozen=True)
class Score:
    """What was said of one pair in one mode.

    Args:
        case: the pair.
        mode: a word of `MODES`.
        first, third: whether the truth is named first, among the first three (suspects that fail nothing included).
        second: whether a second fault is named too; None where there is none.
        fails: whether anything fails.
        named: what is named, for people.
        truth: where the fault begins; empty for a healthy pair.
    """

    case: Case
    mode: str
    first: bool
    third: bool
    second: bool | None
    fails: bool
    named: tuple[str, ...]
    truth: tuple[str, ...]


def scores_of(case: Case, folder: Path) -> Iterator[Score]:
    """Yield the scores of a pair; none of a mode in which its fault stands out nowhere."""
    golden = run(case, 1, folder / "golden", is_faulty=False)
    target = run(case, 0, folder / "target", is_faulty=True)
    truth = None
    if case.is_faulty:
        truth = truth_of(case, target, run(case, 0, None, is_faulty=False), golden)
        if truth is None:
            return
    second = _second(case, truth)
    for mode in MODES:
        if case.checksums and mode == "tensor":
            continue
        entries = () if truth is None else getattr(truth, mode)
        if case.is_faulty and not entries:
            continue
        found = compared(case, folder, mode)
        yield _score(case, mode, found, truth, entries, second)


def _second(case: Case, truth: Truth | None) -> str | None:
    if len(case.faults) < 2 or truth is None:
        return None
    last = case.faults[-1].entry
    return None if last in truth.tensor else last


def _score(
    case: Case, mode: str, found: Comparison, truth: Truth | None, entries: tuple[str, ...], second: str | None
) -> Score:
    origins = [each for each in found.findings if each.kind in ORIGINS and each.fails]
    suspects = [each for each in found.findings if each.kind is FindingKind.SUSPECT]
    right = {_name(case, entry) for entry in entries}

    def is_true(finding: Finding) -> bool:
        assert truth is not None
        is_now = (finding.node.execution.step or 0) == truth.step
        if case.is_of_parameters:
            return is_now and finding.slot.role in (SlotRole.INPUT, SlotRole.PARAMETER)
        return is_now and _entry(finding, found) in right

    told = tuple(
        f"{each.kind.name}{'' if each.fails else '?'} step {each.node.execution.step if each.node else None} "
        f"{_entry(each, found)} {each.slot}: {each.evidence[:230]}"
        for each in found.findings[:5]
    )
    hits = [is_true(each) for each in (*origins, *suspects)] if truth is not None else []
    named = {_entry(each, found) for each in origins}
    return Score(
        case, mode, bool(hits) and hits[0] and bool(origins), any(hits[:3]),
        None if second is None else _name(case, second) in named,
        any(each.fails for each in found.findings), told, tuple(sorted(right)),
    )  # fmt: skip


def _name(case: Case, entry: str) -> str:
    return as_mindspore.renamed(entry, case.as_mindspore) if case.as_mindspore else entry


def _entry(finding: Finding, found: Comparison) -> str:
    node = found.pairs.target.nodes.get(finding.node) if finding.node is not None else None
    return (node.entry if node is not None else None) or "?"


def compared(case: Case, folder: Path, mode: str, *, recompute: Literal["auto", "all"] = "auto") -> Comparison:
    """Compare the dumps of one mode in this process, as the command does."""
    sides = folder / "target" / mode, folder / "golden" / mode
    for side in sides:
        for dump in side.glob("step*/proc*"):
            if case.checksums:
                _add_checksums(dump, folder / side.parent.name / "tensor" / dump.parent.name / dump.name)
            if case.as_mindspore and side is sides[0]:
                as_mindspore.rewrite(dump, case.as_mindspore)
    catalogs = read_dump_json(sides[0], side="target"), read_dump_json(sides[1], side="golden")
    pairs = as_mindspore.match(*catalogs, case.as_mindspore) if case.as_mindspore else match_name(*catalogs)
    return _compared(pairs, recompute)


def compared_folders(target: Path, golden: Path) -> Comparison:
    """Compare two dumps by their names."""
    return _compared(match_name(read_dump_json(target, side="target"), read_dump_json(golden, side="golden")))


def _compared(pairs: Pairs, recompute: Literal["auto", "all"] = "auto") -> Comparison:
    context = Context(
        "result", Path(), in_order, lambda _event, **_fields: None, lambda _problems: None, Settings(), run_record(),
        isolate=lambda *_: in_order,
    )  # fmt: skip
    return compare_pairs(pairs, Asked(recompute=Recompute(recompute)), context, None)


def _add_checksums(dump: Path, tensors: Path) -> None:
    """Give every tensor its checksum, of the elements that lie beside it."""
    top = json.loads((dump / "dump.json").read_text())
    named = json.loads((tensors / "dump.json").read_text())["data"]
    for entry, value in top["data"].items():
        for role, part in value.items():
            for (_, leaf), (_, full) in zip(leaves(part, role), leaves(named[entry][role], role), strict=True):
                if "data_name" in full:
                    tensor = torch.load(tensors / "dump_tensor_data" / full["data_name"], weights_only=True)
                    raw = (
                        tensor.contiguous().view(torch.int16) if tensor.dtype is torch.bfloat16 else tensor.contiguous()
                    )
                    leaf["md5"] = f"{zlib.crc32(raw.numpy().tobytes()):08x}"
    (dump / "dump.json").write_text(json.dumps(top))


def scored(case: Case, folder: Path, *, keeps: Callable[[Score], bool] = lambda _score: False) -> list[Score]:
    """Return the scores of a pair, and remove its dumps but for those that ``keeps`` asks for."""
    found = list(scores_of(case, folder))
    if not any(keeps(each) for each in found):
        shutil.rmtree(folder, ignore_errors=True)
    return found
