"""Match dumps of offline models: what a device ran, with arrays of the original model or with another device dump.

With fusion rules a device tensor is what the rules say that it is: an output the original output that it is described
as, an input the output of its producer (see `probe_flow.matching.offline.groups` for the rules of the pairs). Every
fusion group is a `Group` whose id is its index, behind ``{number of the execution}/`` where several ran. Operators
without file are nodes too (`RuleFacts.is_dumped`), so that each group can be shown. Without rules two
device dumps, or two folders of arrays, are matched by name (`offline_by_name`); what a device dump has of a folder of
arrays is guessed (`offline_guess`).

Tensors without partner, and pairs that cannot be compared:

=======================  ==========  ========================================================================
code                     gap         evidence
=======================  ==========  ========================================================================
``no_target_dump``       depends     the device operator has no file; expected of inputs, constants and casts, and of an
                                     output that it left empty and nobody reads
``no_golden_dump``       depends     no golden tensor; expected where the rules name none because the compiler made the
                                     value, for inputs and constants, and of one output of several that nobody reads
``no_target_tensor``     missing     the device file lacks this output
``unknown_producer``     missing     the rules do not have the producer of an input
``input_index``          missing     the dump has more inputs than the rules
``input_malformed``      missing     the rules give an input in another form than ``producer:index``
``not_in_rules``         missing     no rule names the device operator; outside where only the quantisation tool's do
``further_call``         depends     an operator that the dump has several times: missing of the target, whose first is
                                     compared; expected of the golden, whose last turn of a loop is
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
``ambiguous``            missing     without rules: several tensors could be it; the text names some. With rules: two
                                     originals share the name that the golden's file has
``no_rule_model``        missing     no rule file belongs to the model
``empty_l1``             missing     no operator of an L1 group has a file
``inner_node``           expected    inside of several operators for the same originals
``overwritten``          missing     a golden array of a layer behind, which computed in place; found when it is read
``internal``             expected    inside of a fused operator
``l1_inner``             expected    inside of an L1 group
``quantised``            expected    quantised values, which the golden does not have
``covered_by_producer``  expected    a golden input: compared where it is made
``device_only``          expected    a cast or change of layout that the golden's compiler inserted
``subgraph``             expected    inside of a subgraph, of whose caller the golden has the result alone
``not_selected``         outside     left out by a selection
``not_tensor``           expected    an empty slot
``bfloat16``             (a note)    an array of float16 that holds bfloat16, as the graph says
``no_golden_execution``  missing     the golden has no such rank, model or step
``no_target_execution``  missing     the target has none
=======================  ==========  ========================================================================
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice

from msgspec import Struct, field, structs
from msgspec.structs import replace

from probe_flow.dumps.manifest import MODEL_GRAPH
from probe_flow.dumps.rules.rule_file import RULE_FILES
from probe_flow.errors import Diagnostic, Severity
from probe_flow.matching.offline.by_ids import Selection
from probe_flow.matching.offline.by_name import match_by_name
from probe_flow.matching.offline.fused_names import with_fused_names
from probe_flow.matching.offline.groups import GroupMatch
from probe_flow.matching.offline.guess import match_by_guess
from probe_flow.matching.offline.index import DumpIndex, GoldenIndex
from probe_flow.matching.offline.leftovers import GoldenLeftovers, leave_unknown_targets
from probe_flow.matching.offline.match_state import Ledger
from probe_flow.matching.offline.models import RuleBook, model_outputs
from probe_flow.matching.offline.nodes import RunOfGraph, edges_between, silent_outputs, told_edges, told_nodes
from probe_flow.matching.offline.origins import HELD_TYPES, NETWORK_INPUTS, PASSED_TYPES
from probe_flow.matching.offline.reasons import OfflineReason
from probe_flow.matching.offline.scenario import Given, check_scenario
from probe_flow.matching.rules.merge import FusionRules
from probe_flow.matching.shared.executions import ExecutionPairs, other_leaves_out, pair_executions, with_selections
from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.records import Catalog, Execution, Group, Pairs, ReasonKind, Relation, TensorRef
from probe_flow.records.frameworks import OM, TFDBG


def pair_offline(
    target: Catalog, golden: Catalog, *, pair_ranks: Mapping[int, int] | None, step_offset: int
) -> ExecutionPairs:
    """Return target execution -> golden execution.

    A golden folder that tells neither rank, model nor step is compared with all that ran on the device. Models are told
    apart by name, since a device numbers them anew each time that they are loaded; by number where one model was loaded
    twice.
    """
    if golden.executions == (Execution(),) and not pair_ranks and not step_offset:
        return ExecutionPairs(dict.fromkeys(target.executions, Execution()), _several_steps(target, golden))
    if golden.framework == TFDBG and target.framework == OM and not pair_ranks:
        return _pair_steps(target, golden, step_offset=step_offset)
    sides = [{_named(run): run for run in catalog.executions} for catalog in (target, golden)]
    if any(len(side) < len(catalog.executions) for side, catalog in zip(sides, (target, golden), strict=True)):
        sides = [{run: run for run in catalog.executions} for catalog in (target, golden)]
    found = pair_executions(
        list(sides[0]),
        list(sides[1]),
        pair_ranks=pair_ranks,
        step_offset=step_offset,
        is_left=other_leaves_out(target, golden),
    )
    golden_of = {sides[0][one]: sides[1][other] for one, other in found.golden_of.items()}
    return replace(found, golden_of=golden_of)


def _pair_steps(target: Catalog, golden: Catalog, *, step_offset: int) -> ExecutionPairs:
    """Return the pairs where the golden tells its steps only: all ranks and models of a step go with that step."""
    step_of = {run: Execution(step=run.step) for run in target.executions}
    found = pair_executions(
        list(dict.fromkeys(step_of.values())),
        golden.executions,
        pair_ranks=None,
        step_offset=step_offset,
        is_left=other_leaves_out(target, golden),
    )
    golden_of = {run: found.golden_of[step] for run, step in step_of.items() if step in found.golden_of}
    return replace(found, golden_of=golden_of)


def _several_steps(target: Catalog, golden: Catalog) -> tuple[Diagnostic, ...]:
    """Return a warning where one golden run that was chosen of several is compared with several steps."""
    steps = sorted({run.step for run in target.executions if run.step is not None})
    if len(steps) < 2 or golden.framework != TFDBG:
        return ()
    shown = ", ".join(map(str, steps[:_SHOWN])) + (" ..." if len(steps) > _SHOWN else "")
    return (
        Diagnostic(
            "PF4205",
            f"steps {shown} of the target are all compared with one run of the golden, so that at most one can agree",
            severity=Severity.WARNING,
            help="select the step that the run stands for (`select: {steps: [0]}`), or read all runs with `run: all`",
        ),
    )


def _named(run: Execution) -> Execution:
    return structs.replace(run, graph=run.model) if run.model is not None else run


def group_prefixes(target: Catalog) -> dict[Execution, str]:
    """Return what stands before the group ids of each execution: nothing where there is one execution only."""
    runs = target.executions
    if len(runs) == 1:
        return {runs[0]: ""}
    return {run: f"{number}/" for number, run in enumerate(runs)}


FEW = 0.1
"""Share of dumped operators that rules name below which the rules are taken for those of another model."""

_IN_EACH_MODEL = PASSED_TYPES | {"NetOutput"}
"""Types of operators that the compiler inserts, and names alike in all models: `trans_TransData_0`, `Node_Output`."""

_SHOWN = 3


def strangers(match: GroupMatch, *, runs: Sequence[str] = ()) -> Iterator[Diagnostic]:
    """Yield PF4403 when the rules know hardly any dumped operator, PF4410 when the golden has none that they name.

    ``runs``: the runs of a debugger that the golden is, none where it is a folder of arrays.
    """
    dumped = [key for key, node in match.target.nodes.items() if node.op_type not in _IN_EACH_MODEL]
    named = sum(key in match.taken for key in dumped)
    if named < FEW * len(dumped):
        yield _other_rules(match, named, len(dumped))
        return
    promised = [
        output.origin_name
        for op in match.taken.values()
        if op.op_type not in NETWORK_INPUTS | HELD_TYPES
        for output in op.outputs
        if output.origin_name
    ]
    if promised and not any(match.golden.node(name) for name in promised):
        yield _other_golden(match, promised, runs)


def _other_rules(match: GroupMatch, named: int, dumped: int) -> Diagnostic:
    mine = (key.name for key in match.target.nodes if key not in match.taken)
    theirs = (op.name for op in match.rules.ops if op.op_type not in _IN_EACH_MODEL | NETWORK_INPUTS | HELD_TYPES)
    return Diagnostic(
        "PF4403",
        f"the rules name {named} of the {dumped} operators that the device dumped: they are of another model",
        severity=Severity.WARNING,
        help="give the texts of the graphs of this very run (`ge_proto_*_Build.txt`)"
        if (_file(match.rules) or "").endswith(".txt")
        else "convert the offline model that was run with `atc --mode=1 --om=MODEL.om --json=RULES.json`, or give the "
        "`.om` itself",
        notes=(f"the device dumped {_some(mine)}", f"the rules name {_some(theirs)}"),
        path=_file(match.rules),
    )


def _other_golden(match: GroupMatch, promised: list[str], runs: Sequence[str]) -> Diagnostic:
    names = ", ".join(f"`{run}`" for run in runs)
    return Diagnostic(
        "PF4410",
        f"the golden has none of the {len(promised)} tensors that the rules name: "
        + (f"{names} ended before them, or ran something else" if runs else "it is of another model, or was cut short"),
        severity=Severity.WARNING,
        help="let the step end under the debugger, and give its run (`run: NUMBER` of `dump.tfdbg`)"
        if runs
        else "give the whole dump of the model that was converted; names of operators must be those of that model",
        notes=(f"the rules name {_some(promised)}", f"the golden has {_some(match.golden.names())}"),
        path=_file(match.rules),
    )


def _half_or_bfloat16(names: list[str]) -> Diagnostic:
    return Diagnostic(
        "PF4411",
        f"of {len(names)} golden array{'s' if len(names) > 1 else ''} of float16 nobody can tell whether they hold "
        "bfloat16: the device computes in bfloat16, and the graph names no type",
        severity=Severity.WARNING,
        help="if TensorFlow 2's plug-in of the device wrote them, they hold bfloat16: name them in `bf16_names` of "
        '`dump.npy` (`["*"]` for all); else they are compared as they are, which is right',
        notes=tuple(f"`{name}`" for name in names[:_SHOWN]),
    )


def _some(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in islice(dict.fromkeys(names), _SHOWN)) or "nothing"


def _file(rules: FusionRules) -> str | None:
    return rules.files[0] if rules.files else None


Select = Callable[[FusionRules], Selection]


class _Match(Struct):
    """The match of two dumps."""

    target: Catalog
    golden: Catalog
    book: RuleBook
    select: Select | None
    ledger: Ledger
    selected: set[int] = field(default_factory=set)
    models: dict[tuple[int | None, int | None], set[str]] = field(default_factory=lambda: defaultdict(set))

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
        elsewhere = self._elsewhere(mine.execution)
        edges = list(told_edges(mine, rules, match.taken, match.origins, elsewhere))
        silent = silent_outputs(mine, rules, match.taken, edges, selected=match.selected) if self.book.files else {}
        self.ledger.nodes.update((node.key, node) for node in told_nodes(mine, rules, match.taken, silent, elsewhere))
        self.ledger.edges.extend(edges)
        runs = self.golden.attrs.get("runs")
        self.ledger.problems.extend(strangers(match, runs=runs if isinstance(runs, tuple) else ()))
        return match

    def _elsewhere(self, run: Execution) -> frozenset[str]:
        """Return the graphs that have executions of their own, of the same rank and step."""
        if not self.models:
            for each in self.target.executions:
                if each.model is not None:
                    self.models[each.rank, each.step].add(each.model)
        return frozenset(self.models[run.rank, run.step] - {run.model})

    def facts(self) -> dict[str, object]:
        """Return what the target's catalog has of the rules.

        These are ``selected_ops`` (ids), ``model_outputs`` (originals), and the paths of their files (`RULE_FILES`).
        """
        outputs, files = model_outputs(self.book.files), tuple(file.path for file in self.book.files)
        facts: dict[str, object] = {} if self.select is None else {"selected_ops": tuple(sorted(self.selected))}
        told = {"model_outputs": outputs, RULE_FILES: files}
        return facts | {name: value for name, value in told.items() if value}


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
    given = Given(bool(book.files), bool(book.close), book.quant is not None)
    check_scenario(target, golden, given, quantised=quantised)
    match = _Match(target, golden, book, select, Ledger())
    ledger = match.ledger
    executions = pair_offline(target, golden, pair_ranks=pair_ranks, step_offset=step_offset)
    ledger.problems.extend(executions.problems)
    ledger.unused.extend(executions.unused)
    prefixes = group_prefixes(target)
    goldens = {index.execution: index for index in GoldenIndex.each_of(golden)}
    if golden.framework.is_arrays:
        for index in goldens.values():
            index.take_last_calls()
    finished: list[GroupMatch] = []
    for mine in DumpIndex.each_of(target):
        run = mine.execution
        partner = executions.golden_of.get(run)
        if partner is None:
            _leave_all(mine, ledger, prefixes[run], CommonReason.NO_EXECUTION["golden"], is_target=True)
            continue
        other = goldens[partner]
        if given.any:
            rules = book.rules_of(run, partner)
            if rules is None:
                _leave_all(mine, ledger, prefixes[run], OfflineReason.NO_RULE_MODEL, is_target=True)
            else:
                finished.append(match.with_rules(mine, other, rules, prefixes[run]))
        elif target.framework == golden.framework or target.framework.is_arrays:
            are_files = all("file" in catalog.attrs for catalog in (target, golden))
            match_by_name(mine, other, ledger, prefixes[run], are_files=are_files)
        else:
            match_by_guess(mine, other, ledger, prefixes[run])
    untold = dict.fromkeys(each for done in finished for each in done.untold)
    if untold and MODEL_GRAPH not in golden.attrs:  # a manifest tells the true types
        ledger.problems.append(_half_or_bfloat16(list(untold)))
    left_by = [
        (GoldenLeftovers(done, ledger), count(len(done.rules.groups) + len(done.target.nodes))) for done in finished
    ]
    # What the rules of one model do not name, those of another may: only then is it outside of the question.
    for is_claimed in (True, False):
        for leftovers, numbers in left_by:
            leftovers.leave(numbers, is_claimed=is_claimed)
    for number, left in enumerate(goldens.values()):
        _leave_all(left, ledger, f"golden/{number}/", CommonReason.NO_EXECUTION["target"], is_target=False)
    ran = [RunOfGraph(done.target, done.rules, done.taken, done.origins) for done in finished]
    ledger.edges.extend(edges_between(ran))
    ledger.problems.extend(book.problems)
    pairs = with_selections(ledger.finished(target, golden))
    facts = match.facts()
    return (
        structs.replace(pairs, target=structs.replace(pairs.target, attrs={**pairs.target.attrs, **facts}))
        if facts
        else pairs
    )


def _leave_all(side: DumpIndex, ledger: Ledger, prefix: str, kind: ReasonKind, *, is_target: bool) -> None:
    """Leave what is not decided yet of an execution."""
    text = _LEFT[kind].format(run=side.execution)
    for number, (key, refs) in enumerate(side.tensors.items()):
        left = [ref for ref in refs if not _is_decided(ledger, ref, is_target=is_target)]
        for ref in left:
            ledger.leave(ref, kind.missing(text), group=f"{prefix}{number}", is_target=is_target)
        if left:
            sides = ((key,), ()) if is_target else ((), (key,))
            ledger.groups.append(Group(f"{prefix}{number}", Relation.ONE_TO_ONE, *sides))


_LEFT = {
    CommonReason.NO_EXECUTION["golden"]: "the golden has no counterpart of {run}",
    CommonReason.NO_EXECUTION["target"]: "the target has no counterpart of {run}",
    OfflineReason.NO_RULE_MODEL: "no rule file belongs to the model of {run}",
}


def _is_decided(ledger: Ledger, ref: TensorRef, *, is_target: bool) -> bool:
    return ledger.is_decided(ref) if is_target else ledger.is_paired(ref)
