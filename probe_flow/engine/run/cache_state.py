"""What the cache holds of a workflow's comparisons, and for what it lacks: which field differs from what it has.

Reads the dumps' headers where they changed and pairs their tensors, as a run would, but measures and writes nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from probe_flow.engine.cache import catalog_store, comparison_store, shared_store
from probe_flow.engine.run.kept_catalogs import KeptCatalogs
from probe_flow.engine.run.kept_comparisons import KeptComparisons
from probe_flow.engine.run.plan import Plan, needs
from probe_flow.engine.run.record import base_record
from probe_flow.stages.base import Kind
from probe_flow.work import Context, Settings
from probe_flow.workflow.model import options_for_run

NEVER = "never measured"


EXAMINATIONS = frozenset(("analysis.nonfinite", "analysis.overflow"))
"""The stages that examine a dump by itself."""


class Miss(Struct, frozen=True):
    """One result that the cache lacks.

    Args:
        tensor: id of the target tensor.
        fields: what differs from the nearest kept result of such a pair; empty when there is none.
    """

    tensor: str
    fields: tuple[str, ...]


class CacheState(Struct, frozen=True):
    """What the cache holds for one comparing stage.

    Args:
        stage: its name.
        kept: how many results are kept.
        misses: those that are not.
        is_whole: whether the comparison is kept that they make; then those count that closer looks took, too.
    """

    stage: str
    kept: int
    misses: tuple[Miss, ...]
    is_whole: bool = False

    def causes(self) -> Mapping[str, int]:
        """Return how many misses each field caused, the most frequent first."""
        counts = Counter(field for miss in self.misses for field in miss.fields or (NEVER,))
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def cache_states(plan: Plan, folder: Path) -> list[CacheState]:
    """Return the state of every comparing stage whose inputs need no other comparison and no run of a model."""
    catalogs = KeptCatalogs(catalog_store(folder), plan)
    comparisons = KeptComparisons(comparison_store(folder), plan, catalogs)
    results: dict[str, Any] = {}
    states: list[CacheState] = []
    whole = {
        planned.stage.name: held for planned in plan.selected if (held := comparisons.results_of(planned)) is not None
    }
    for planned in plan.selected:
        stage = planned.stage
        if stage.name in whole:
            if stage.type.produces is Kind.COMPARISON:
                states.append(CacheState(stage.name, whole[stage.name], (), is_whole=True))
            continue
        consumers = [each.stage.name for each in plan.selected if stage.name in needs(each.stage)]
        if consumers and all(name in whole for name in consumers):
            continue  # nobody asks what it would find
        if any(name not in results for name in needs(stage)) or stage.type.foresee(stage.options) is not None:
            continue
        inputs = {option: [results[name] for name in names] for option, names in stage.inputs.items()}
        if stage.type.produces is Kind.COMPARISON and "pairs" in inputs:
            options: Any = stage.options
            states.extend(_state(stage.name, pairs, options.asked(), plan, folder) for pairs in inputs["pairs"])
        elif stage.type.uses in EXAMINATIONS:
            from probe_flow.comparing.examine import examined

            options = stage.options
            dumps = map(examined, inputs["catalog"])
            states.extend(_state(stage.name, pairs, options.asked(), plan, folder) for pairs in dumps)
        elif stage.type.produces in (Kind.CATALOG, Kind.PAIRS):
            options = options_for_run(stage.options, folder)
            kept = catalogs.find(planned, lambda _problem: None)  # a run reports damage, and mends it
            results[stage.name] = kept or stage.type.run(options, inputs, _read_only(stage.name, plan))
    return states


def _state(stage: str, pairs: Any, asked: Any, plan: Plan, folder: Path) -> CacheState:
    from probe_flow.comparing.reference import with_reference_texts
    from probe_flow.comparing.steps import chosen_metrics, measured_scope
    from probe_flow.files.shards import ShardStore
    from probe_flow.measure.result_keys import key_of

    store = ShardStore(shared_store(folder))
    ids, scope = chosen_metrics(asked, pairs), measured_scope(asked)
    planned = with_reference_texts(pairs, ids, by=plan.workflow.cache.key, scope=scope)
    keys = {key_of(text): (tensor, identity, text) for tensor, identity, text in planned}
    found = store.find(list(keys))
    lacking = [entry for key, entry in keys.items() if key not in found]
    nearest = _nearest(store.labels(), {identity: text for _, identity, text in lacking}) if lacking else {}
    misses = tuple(Miss(tensor, nearest.get(identity, ())) for tensor, identity, _ in lacking)
    return CacheState(stage, len(found), misses)


def _nearest(labels: Iterable[tuple[str, str]], wanted: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return per identity in which fields the nearest kept result differs, the newest of those that are as near.

    Operators of any two models may be named alike, so results of the same files are nearer than all others.
    """
    from probe_flow.measure.result_keys import differences

    nearest: dict[str, tuple[int, int, tuple[str, ...]]] = {}
    for _, label in labels:
        kept = json.loads(label)
        text = wanted.get(kept["identity"])
        if text is not None:
            files, names = differences(text, kept["fields"])
            found = files, len(names), names
            if kept["identity"] not in nearest or found[:2] < nearest[kept["identity"]][:2]:
                nearest[kept["identity"]] = found
    return {identity: names for identity, (_, _, names) in nearest.items()}


def _read_only(stage: str, plan: Plan) -> Context:
    def no_tasks(*_: object, **__: object) -> Any:
        raise AssertionError("reading and matching run no batches")

    def ignore(*_: object, **__: object) -> None:
        return None

    settings = Settings(io=plan.workflow.io, metrics_backend=plan.workflow.metrics_backend)
    return Context(stage, Path(), no_tasks, ignore, ignore, settings, base_record(plan, run_id="", started=""))


def causes_text(state: CacheState) -> str:
    """Return one line about a state, for people."""
    if not state.kept and not state.misses:
        return "the comparison is kept" if state.is_whole else "there is no result that is worth keeping"
    if state.is_whole:
        return f"all {state.kept} results are kept, and the comparison that they make"
    if not state.misses:
        return f"all {state.kept} results are kept"
    causes = ", ".join(f"{field} ({count})" for field, count in list(state.causes().items())[:4])
    return f"{state.kept} results are kept, {len(state.misses)} are not: {causes}"
