"""Write the graphs of a dump or a comparison, one rank after the other, into folders that the viewer takes."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypedDict

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.errors import Diagnostic, IncompleteError, Severity, UsageError
from probe_flow.graphs.compare import ComparedRows, compare_graphs, rows_by_execution
from probe_flow.graphs.levels import overflow_levels
from probe_flow.graphs.links import RankLinks, communicates
from probe_flow.graphs.tree import build_graph, build_graphs
from probe_flow.mappings.mapping_file import ClassEntries, read_layer_mapping
from probe_flow.records import Catalog, Comparison, Execution, Pairs
from probe_flow.records.model_graph import GraphLayout, GraphPair
from probe_flow.reports.graph_files.msprobe_scores import msprobe_scored
from probe_flow.reports.graph_files.vis import write_vis
from probe_flow.reports.graph_files.vis_db import graph_database
from probe_flow.reports.html.nodes import CallFigures
from probe_flow.reports.html.page import write_html
from probe_flow.stages.report.call_figures import Figures
from probe_flow.stages.report.report import as_known
from probe_flow.work import Begun, Context

_MODE, _FOLDER_MODE = 0o640, 0o750
"""What the viewer takes of users that are not root: nobody else may write."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_LAYOUTS = {"vis": GraphLayout.MSPROBE_VIS, "vis_db": GraphLayout.MSPROBE_VIS_DB}
_SUFFIXES = {"vis": ".vis", "vis_db": ".vis.db"}


class Matching(TypedDict, total=False):
    """Arguments of `compare_graphs`."""

    is_fuzzy: bool
    mapping: Sequence[ClassEntries]


class Asked(Struct, frozen=True):
    """What is wanted of the files.

    Args:
        formats: ``vis``, ``vis_db``.
        is_msprobe: by the rules of msprobe, not ours.
        match, mapping: how these match nodes.
        has_all_frames: all frames of a stack, not the one in the user's code.
        has_levels: look for overflows.
        time: in the names of the files.
    """

    formats: tuple[str, ...]
    is_msprobe: bool
    match: str
    mapping: Path | None
    has_all_frames: bool
    has_levels: bool
    time: str

    def layout(self, word: str) -> GraphLayout:
        """Return by whose rules the graphs of a format are made."""
        return _LAYOUTS[word] if self.is_msprobe else GraphLayout.OWN

    def matching(self) -> Matching:
        """Return how nodes are matched.

        Raises:
            UsageError: the mapping file is wrong.
        """
        if self.match != "layer_mapping":
            return {"is_fuzzy": self.match == "fuzzy"}
        return {"mapping": read_layer_mapping(self.mapping) if self.mapping is not None else ()}


class Sides(Struct, frozen=True):
    """What graphs are made of.

    Args:
        target: the dump.
        comparison: its comparison with the golden; None for one dump alone.
        runs: target execution -> golden execution; None for one dump alone.
        problems: executions that are on one side only.
    """

    target: Catalog
    runs: Mapping[Execution, Execution | None]
    comparison: Comparison | None = None
    problems: tuple[Diagnostic, ...] = ()

    @property
    def kind(self) -> str:
        """How the names of the files begin."""
        return "build" if self.comparison is None else "compare"


def sides_of(source: Catalog | Comparison) -> Sides:
    """Return what a dump or a comparison has graphs of; one that examines a dump is about that dump alone."""
    if isinstance(source, Comparison) and source.pairs.is_examination:
        source = source.pairs.target
    if isinstance(source, Catalog):
        return Sides(source, dict.fromkeys(source.executions))
    target, golden = source.pairs.target, source.pairs.golden
    runs: dict[Execution, Execution | None] = {}
    for pair in source.pairs.pairs:
        if pair.target is not None and pair.golden is not None:
            runs.setdefault(pair.target.node.execution, pair.golden.node.execution)
    runs = {run: runs[run] for run in target.executions if run in runs}
    partners = set(runs.values())
    problems = [_alone(run, "target") for run in target.executions if run not in runs]
    problems += [_alone(run, "golden") for run in golden.executions if run not in partners]
    return Sides(target, runs, source, tuple(problems))


def write_graphs(
    source: Catalog | Comparison, asked: Asked, folders: Mapping[str, Path], page: Path | None, context: Context
) -> list[Path]:
    """Write the files of each format into its folder and return their paths; what is left out is reported.

    Args:
        source: what is shown.
        asked: what is wanted.
        folders: format -> folder.
        page: where the page shall be, if one is wanted.
        context: of the stage.

    Raises:
        UsageError: a mapping file is wrong, or the dumps cannot be compared.
        IncompleteError: there is no graph at all.
    """
    sides = sides_of(source)
    for word, folder in folders.items():
        for path in Writing(sides, asked, word, folder).paths():
            context.announce(path)
    rows = source.rows if isinstance(source, Comparison) else source.tensors
    begun = context.beside(partial(_written, sides, asked, folders), rows=len(rows), folders=folders.values())
    try:
        if page is not None:  # it shows what was compared even where no graph could be made of it
            _write_page(source, page, begun, context)
        found = begun.result()
    finally:
        begun.stop()
    if found.failure is not None:
        raise found.failure
    problems = _once(found.problems)
    if not found.files:
        errors = [problem for problem in problems if problem.severity is Severity.ERROR]
        raise IncompleteError(errors or [_nothing(sides)])
    context.report(problems)
    return found.files if page is None else [*found.files, page]


class _Written(Struct, frozen=True):
    """What came of all formats.

    Args:
        files: that are there.
        problems: what is left out of them.
        figures: what the graphs say of calls.
        failure: the mistake of the user that ended it.
    """

    files: list[Path]
    problems: list[Diagnostic]
    figures: CallFigures
    failure: UsageError | None


def _written(sides: Sides, asked: Asked, folders: Mapping[str, Path]) -> _Written:
    """Write the files of each format."""
    problems, figures = list(sides.problems), Figures()
    files: list[Path] = []
    failure: UsageError | None = None
    for word, folder in folders.items():
        try:
            files += Writing(sides, asked, word, folder, problems, figures).files()
        except UsageError as error:
            failure = error
            break
        except IncompleteError as error:
            problems += error.diagnostics
        if files:
            problems += _hindrances(folder, word, files)
    return _Written(files, problems, figures.of_calls(), failure)


def _write_page(source: Catalog | Comparison, page: Path, begun: Begun[_Written], context: Context) -> None:
    """Write the page, which says what the graphs say of calls, and what makes the run incomplete."""
    context.announce(page)
    shown = source if isinstance(source, Comparison) else _unexamined(source)
    while True:
        problems = begun.result().problems if begun.is_done else ()
        known = as_known(shown, context, problems)
        write_html(known, page, run=context.facts, figures=lambda: begun.result().figures)
        if as_known(shown, context, begun.result().problems).incomplete == known.incomplete:
            return  # as nearly always: no error was met after the page began


def _unexamined(dump: Catalog) -> Comparison:
    """Return a dump that is shown and not judged: no rows, no gate."""
    return Comparison(Pairs.alone(dump), (), (), {}, gate="", gate_passed=True, problems=dump.problems)


def _once(problems: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return problems without those that a second format found again."""
    return list({(each.code, each.message, each.path): each for each in problems}.values())


class Writing(Struct, frozen=True):
    """The files of one format; the last two take what is left out, and what is shown."""

    sides: Sides
    asked: Asked
    word: str
    folder: Path
    problems: list[Diagnostic] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)

    def paths(self) -> Iterator[Path]:
        """Yield where files may come to lie."""
        yield from [self._path("")] if self.word == "vis_db" else map(self._path, map(self._place, self.sides.runs))

    def files(self) -> list[Path]:
        """Write them and return their paths."""
        self.folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        written = list(self._database() if self.word == "vis_db" else self._one_each())
        for path in written:
            path.chmod(_MODE)
        return written

    def _one_each(self) -> Iterator[Path]:
        for pair, place in self._placed():
            path = self._path(place)
            write_vis(pair, path, is_lean=not self.asked.has_all_frames, has_levels=self.asked.has_levels)
            yield path

    def _database(self) -> Iterator[Path]:
        with ExitStack() as opened:
            database, path = None, self.folder
            for pair, _ in self._placed():
                if database is None:  # only now: one without a graph is none
                    path = self._path("")
                    database = opened.enter_context(graph_database(path, has_levels=self.asked.has_levels))
                database.add(pair)
        if database is not None:
            yield path

    def _path(self, place: str) -> Path:
        return self.folder / f"{self.sides.kind}_{place}{self.asked.time}{_SUFFIXES[self.word]}"

    def _place(self, run: Execution) -> str:
        """Return what names of files say of an execution, depending on how deep below the given path the dump lies."""
        parts, place = _depth(self.sides.target), f"rank{run.rank or 0}_"
        return f"step{run.step or 0}_{place}" if parts > 2 else place if parts > 1 else ""

    def _placed(self) -> Iterator[tuple[GraphPair, str]]:
        """Yield each pair of graphs with its place in names; of several at one place the first."""
        taken: dict[tuple[int, int], Execution] = {}
        for pair in self._linked():
            run = pair.target.execution
            step, rank = run.step or 0, run.rank or 0
            if (step, rank) in taken:
                self.problems.append(_same_place(run, taken[step, rank]))
                continue
            taken[step, rank] = run
            self.figures.add(pair)
            yield pair, self._place(run)

    def _linked(self) -> Iterator[GraphPair]:
        """Yield the graphs with their links across ranks, for which all are made once before."""
        links = RankLinks(has_levels=self.asked.has_levels)
        if len({run.rank for run in self.sides.runs}) > 1 and communicates(self.sides.target):
            for pair in replace(self, problems=[])._pairs():
                links.add(pair)
        yield from map(links.linked, self._pairs())

    def _pairs(self) -> Iterator[GraphPair]:
        """Yield the graphs of one rank and step after the other, so that no more than one is in memory."""
        layout, comparison = self.asked.layout(self.word), self.sides.comparison
        runs = [run for run in self.sides.runs if self._has_calls(self.sides.target, run)]
        if comparison is None:
            for alone in build_graphs(self.sides.target, runs, layout=layout):
                self.problems.extend(alone.problems)
                yield self._with_levels(GraphPair(alone))
            return
        golden, how = comparison.pairs.golden, self.asked.matching()
        both = {run: other for run in runs if (other := self.sides.runs[run]) and self._has_calls(golden, other)}
        ours = build_graphs(self.sides.target, both, layout=layout)
        theirs = build_graphs(golden, list(both.values()), layout=layout)
        rows = rows_by_execution(comparison)
        for target, partner in zip(ours, theirs, strict=True):
            pair = compare_graphs(ComparedRows(rows.pop(target.execution, ())), target, partner, **how)
            self.problems.extend((*target.problems, *partner.problems, *pair.problems))
            yield self._with_levels(pair if layout is GraphLayout.OWN else msprobe_scored(pair))

    def _has_calls(self, catalog: Catalog, run: Execution) -> bool:
        """Tell whether an execution has a graph; one without costs itself."""
        if catalog.call_order.get(run):
            return True
        try:
            build_graph(catalog, run)
        except IncompleteError as error:
            self.problems.extend(error.diagnostics)
        return False

    def _with_levels(self, pair: GraphPair) -> GraphPair:
        if not self.asked.has_levels:
            return pair
        levels = [overflow_levels(graph) if graph is not None else {} for graph in (pair.target, pair.golden)]
        return replace(pair, levels=(levels[0], levels[1]))


def _depth(catalog: Catalog) -> int:
    """Return how deep below the given path the dump lies: 1 itself, 2 a folder of ranks, 3 of steps."""
    files = catalog.attrs.get("files")
    return max((len(PurePosixPath(str(file)).parts) for file in files), default=1) if isinstance(files, tuple) else 1


# --- what there is to say ---------------------------------------------------------------------------------------------


def _hindrances(folder: Path, word: str, written: Sequence[Path]) -> Iterator[Diagnostic]:
    """Yield why the viewer will not show the files as they lie there."""
    others = [path.name for path in sorted(folder.glob("*.vis*")) if path not in written]
    databases = [name for name in others if name.endswith(".vis.db")]
    hidden = databases if word == "vis" else [*databases, *(name for name in others if name.endswith(".vis"))]
    if hidden:
        more = f" and {len(hidden) - 1} more" if len(hidden) > 1 else ""
        yield Diagnostic(
            "PF7163",
            f"`{folder}` also holds `{hidden[0]}`{more}: of a folder the viewer shows one `.vis.db` and nothing else",
            severity=Severity.WARNING,
            path=str(folder),
            help="name an empty folder, or move the other files away",
        )
    for place in dict.fromkeys((folder, folder.parent if folder.name.startswith("vis") else folder)):
        if place.stat().st_mode & _OTHERS_WRITE:
            yield Diagnostic(
                "PF7164",
                f"others may write into `{place}`, so the viewer shows nothing in it to a user that is not root",
                severity=Severity.WARNING,
                path=str(place),
                help=f"chmod go-w {place}",
            )


def _alone(run: Execution, side: str) -> Diagnostic:
    other = "golden" if side == "target" else "target"
    return Diagnostic(
        "PF7160",
        f"there is no graph of {run}: only the {side} has something of it to compare",
        severity=Severity.WARNING,
        help=f"dump it on the {other} side too, or leave it out with `select`",
    )


def _same_place(run: Execution, other: Execution) -> Diagnostic:
    return Diagnostic(
        "PF7162",
        f"there is no graph of {run}: files tell graphs by step and rank, and {other} has the same",
        severity=Severity.WARNING,
        help="select one of them with `select: {graphs: [...]}`, in a stage of its own",
    )


def _nothing(sides: Sides) -> Diagnostic:
    return Diagnostic(
        "PF7165",
        "there is no graph to write: nothing of the two dumps corresponds",
        path=sides.target.root,
        help="give the dumps of the same model, ranks and steps",
    )
