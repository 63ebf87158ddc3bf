"""Match dumps of offline models: what a device ran, with arrays of the original model or with another device dump.

With fusion rules a device tensor is what the rules say that it is: an output the original output that it is described
as, an input the output of its producer (see `probe_flow.matching.offline.groups` for the rules of the pairs). Every
fusion group is a `Group` whose id is its index, behind ``{number of the execution}/`` where several ran. Operators
without file are nodes too (`Node.attrs` has ``dumped: False``), so that each group can be shown. Without rules two
device dumps, or two folders of arrays, are matched by name (`offline_by_name`); what a device dump has of a folder of
arrays is guessed (`offline_guess`).

Tensors without partner, and pairs that cannot be compared:

=======================  ==========  ========================================================================
code                     gap         evidence
=======================  ==========  ========================================================================
``no_target_dump``       depends     the device operator has no file; expected of inputs, constants and casts
``no_golden_dump``       depends     no golden tensor; expected where the rules name none because the compiler
                                     made the value, and for inputs and constants of the model
``no_target_tensor``     missing     the device file lacks this output
``unknown_producer``     missing     the rules do not have the producer of an input
``input_index``          missing     the dump has more inputs than the rules
``input_malformed``      missing     the rules give an input in another form than ``producer:index``
``not_in_rules``         missing     no rule names the device operator; outside where only the quantisation tool's do
``further_call``         missing     an operator that the dump has several times; the first is compared
``no_rule_op``           outside     no rule names the golden operator
``shape_mismatch``       missing     other sizes, padding and order of axes aside
``blocks_mismatch``      missing     a matrix larger than the blocks that were dumped
``blocks_contradict``    missing     blocks that hold another shape, or other groups, than their own header says
``layout_unsupported``   missing     a storage layout without conversion
``dtype_unsupported``    missing     an element type that cannot be read
``slices_missing``       missing     a tensor of which not all slices were dumped
``unreadable``           missing     a damaged file
``no_rule_shape``        missing     without rules: operators of one name, other shapes
``no_rule_count``        missing     without rules: operators of one name, other numbers of tensors
``no_rules``             missing     without rules: nothing says what the tensor is
``ambiguous``            missing     without rules: several tensors could be it; the text names some
``no_rule_model``        missing     no rule file belongs to the model
``empty_l1``             missing     no operator of an L1 group has a file
``inner_node``           expected    inside of several operators for the same originals
``internal``             expected    inside of a fused operator
``l1_inner``             expected    inside of an L1 group
``quantised``            expected    quantised values, which the golden does not have
``covered_by_producer``  expected    a golden input: compared where it is made
``device_only``          expected    a cast or change of layout that the golden's compiler inserted
``not_selected``         outside     left out by a selection
``not_tensor``           expected    an empty slot
``no_golden_execution``  missing     the golden has no such rank, model or step
``no_target_execution``  missing     the target has none
=======================  ==========  ========================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from probe_flow.matching.offline.by_ids import Selection
from probe_flow.matching.offline.by_name import match_by_name
from probe_flow.matching.offline.executions import group_prefixes, pair_offline
from probe_flow.matching.offline.foreign_rules import strangers
from probe_flow.matching.offline.fused_names import with_fused_names
from probe_flow.matching.offline.groups import GroupMatch
from probe_flow.matching.offline.guess import match_by_guess
from probe_flow.matching.offline.index import DumpIndex, GoldenIndex
from probe_flow.matching.offline.leftovers import GoldenLeftovers, leave_unknown_targets
from probe_flow.matching.offline.match_state import Ledger
from probe_flow.matching.offline.models import RuleBook, model_outputs
from probe_flow.matching.offline.nodes import silent_outputs, told_edges, told_nodes
from probe_flow.matching.offline.reasons import missing
from probe_flow.matching.offline.scenario import Given, check_scenario
from probe_flow.matching.rules.merge import FusionRules
from probe_flow.matching.shared.executions import with_selections
from probe_flow.records import Catalog, Execution, Group, Pairs, Relation, TensorRef

Select = Callable[[FusionRules], Selection]


@dataclass(slots=True)
class _Match:
    """The match of two dumps."""

    target: Catalog
    golden: Catalog
    book: RuleBook
    select: Select | None
    ledger: Ledger
    selected: set[int] = field(default_factory=set)

    def with_rules(self, mine: DumpIndex, other: DumpIndex, rules: FusionRules, prefix: str) -> GroupMatch:
        """Match one execution by rules; what only the golden has is left for the end."""
        guessed: frozenset[str] = frozenset()
        if not self.book.files:
            rules, guessed = with_fused_names(rules, mine)
        selected = None
        if self.select is not None:
            selection = self.select(rules)
            selected = selection.ids
            self.selected |= selection.ids
            self.ledger.problems.extend(each for each in selection.problems if each not in self.ledger.problems)
        match = GroupMatch(mine, other, rules, self.ledger, group_prefix=prefix, selected=selected, guessed=guessed)
        match.run()
        is_device_told = bool(self.book.files)
        leave_unknown_targets(match, self.ledger, count(len(rules.groups)), is_device_told=is_device_told)
        edges = list(told_edges(mine, rules, match.taken, match.origins))
        silent = silent_outputs(mine, rules, match.taken, edges, selected=match.selected) if self.book.files else {}
        self.ledger.nodes.update((node.key, node) for node in told_nodes(mine, rules, match.taken, silent))
        self.ledger.edges.extend(edges)
        self.ledger.problems.extend(strangers(match))
        return match

    def facts(self) -> dict[str, object]:
        """Return what the target's catalog has of the rules: ``selected_ops`` (ids), ``model_outputs`` (originals)."""
        outputs = model_outputs(self.book.files)
        facts: dict[str, object] = {} if self.select is None else {"selected_ops": tuple(sorted(self.selected))}
        return {**facts, "model_outputs": outputs} if outputs else facts


def match_offline(
    target: Catalog,
    golden: Catalog,
    book: RuleBook,
    *,
    select: Select | None = None,
    quantised: bool | None = None,
    pair_ranks: Mapping[int, int] | None = None,
    step_offset: int = 0,
) -> Pairs:
    """Pair every tensor of two offline dumps, or say why it has no partner.

    Args:
        target: device dump, or the arrays of a quantised model.
        golden: arrays of the original model, or another device dump.
        book: the rule files.
        select: chooses the ids of the operators to compare; None = all.
        quantised: whether the target is quantised; None = what its reader found.
        pair_ranks: target rank -> golden rank where they differ.
        step_offset: golden step = target step + this.

    Returns:
        Pairs whose catalogs have what the rules tell: types, originals, edges, logical shapes.

    Raises:
        UsageError: PF4401 and PF4402 if sides and rule files do not belong together, PF4404 for a wrong selection.
    """
    given = Given(bool(book.files), book.close is not None, book.quant is not None)
    check_scenario(target, golden, given, quantised=quantised)
    match = _Match(target, golden, book, select, Ledger())
    ledger = match.ledger
    executions = pair_offline(target, golden, pair_ranks=pair_ranks, step_offset=step_offset)
    ledger.problems.extend(executions.problems)
    ledger.unused.extend(executions.unused)
    prefixes = group_prefixes(target)
    goldens: dict[Execution, GoldenIndex] = {}
    finished: list[GroupMatch] = []
    for run in target.executions:
        mine = DumpIndex(target, run)
        partner = executions.golden_of.get(run)
        if partner is None:
            _leave_all(mine, ledger, prefixes[run], "no_golden_execution", is_target=True)
            continue
        if partner not in goldens:
            goldens[partner] = GoldenIndex(golden, partner)
        other = goldens[partner]
        if given.any:
            rules = book.rules_of(run)
            if rules is None:
                _leave_all(mine, ledger, prefixes[run], "no_rule_model", is_target=True)
            else:
                finished.append(match.with_rules(mine, other, rules, prefixes[run]))
        elif target.framework == golden.framework:
            are_files = all("file" in catalog.attrs for catalog in (target, golden))
            match_by_name(mine, other, ledger, prefixes[run], are_files=are_files)
        else:
            match_by_guess(mine, other, ledger, prefixes[run])
    for done in finished:
        used = len(done.rules.groups) + len(done.target.nodes)
        GoldenLeftovers(done, ledger).leave(count(used))
    for number, run in enumerate(golden.executions):
        left = DumpIndex(golden, run) if run not in goldens else goldens[run]
        _leave_all(left, ledger, f"golden/{number}/", "no_target_execution", is_target=False)
    ledger.problems.extend(book.problems)
    pairs = with_selections(ledger.finished(target, golden))
    facts = match.facts()
    return replace(pairs, target=replace(pairs.target, attrs={**pairs.target.attrs, **facts})) if facts else pairs


def _leave_all(side: DumpIndex, ledger: Ledger, prefix: str, code: str, *, is_target: bool) -> None:
    """Leave what is not decided yet of an execution."""
    text = _LEFT[code].format(run=side.execution)
    for number, (key, refs) in enumerate(side.tensors.items()):
        left = [ref for ref in refs if not _is_decided(ledger, ref, is_target=is_target)]
        for ref in left:
            ledger.leave(ref, missing(code, text), group=f"{prefix}{number}", is_target=is_target)
        if left:
            sides = ((key,), ()) if is_target else ((), (key,))
            ledger.groups.append(Group(f"{prefix}{number}", Relation.ONE_TO_ONE, *sides))


_LEFT = {
    "no_golden_execution": "the golden has no counterpart of {run}",
    "no_target_execution": "the target has no counterpart of {run}",
    "no_rule_model": "no rule file belongs to the model of {run}",
}


def _is_decided(ledger: Ledger, ref: TensorRef, *, is_target: bool) -> bool:
    return ledger.is_decided(ref) if is_target else ledger.is_paired(ref)
