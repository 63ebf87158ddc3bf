"""`probe-flow show`: what a run concluded, its rows, and answers to questions about it, from its folder alone."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from probe_flow.cli.options import DrawingFile, format_option, run_argument, run_or_newest, verbose_option
from probe_flow.cli.terminal.console import show, wants_color
from probe_flow.cli.terminal.links import linked
from probe_flow.errors import Diagnostic, IncompleteError, UsageError

if TYPE_CHECKING:
    from probe_flow.runs.queries.asker import Asker, Reply
    from probe_flow.runs.queries.base import Scope

DEFAULT_LIMIT = 20
ROWS_A_GROUP = 5
WIDTH_WITHOUT_TERMINAL = 80

_VERDICTS = (
    "pass",
    "warning",
    "fail",
    "unmatched_target",
    "unmatched_golden",
    "not_comparable",
    "error",
    "skipped",
)
_ROLES = ("origin", "inherited", "clean", "unknown")
_THRESHOLD = "METRIC=VALUE"


@click.command("show")
@run_argument
@click.option("--open", "opens", is_flag=True, help="Open the HTML report of the run in a browser.")
@click.option("--verdict", type=click.Choice(_VERDICTS), metavar="VERDICT", help="Rows with this verdict.")
@click.option("--role", type=click.Choice(_ROLES), metavar="ROLE", help="Rows with this role in the spread of errors.")
@click.option("--below", metavar=_THRESHOLD, help="Nodes with a tensor below, such as `cosine=0.98`.")
@click.option("--at-most", metavar=_THRESHOLD, help="The same, and those that are equal.")
@click.option("--above", metavar=_THRESHOLD, help="Nodes with a tensor above, for metrics of error.")
@click.option("--origin", is_flag=True, help="Where the divergence begins, and what else was found.")
@click.option("--unmatched", is_flag=True, help="What has no counterpart, by reason.")
@click.option(
    "--node",
    metavar="NAME",
    help="All that is known of the node of this name, or with this in its name. A pattern such as `MatMul*`, or "
    "--verdict or --role beside it, gives rows.",
)
@click.option("--depth", type=click.IntRange(0, 100), metavar="N", help="With --node: neighbours up to N steps away.")
@click.option("--attrs", is_flag=True, help="With --node: every attribute.")
@click.option(
    "--svg",
    type=DrawingFile(),
    metavar="FILE",
    help="With --node: draw the neighbourhood; a name that ends in `.dot` gives the text for graphviz.",
)
@click.option("--tensor", metavar="NAME", help="Values, histogram and largest errors of a tensor.")
@click.option(
    "--dump", "dumps", multiple=True, metavar="SIDE=PATH", help="With --tensor: where a dump lies now. May be repeated."
)
@click.option("--rank", type=int, metavar="N", help="Only of this rank.")
@click.option("--step", type=int, metavar="N", help="Only of this step.")
@click.option("--graph", metavar="ID", help="Only of this graph.")
@click.option("--call", type=click.IntRange(0), metavar="N", help="Only this call, with --node or --tensor; from 0.")
@click.option("--comparison", metavar="STAGE", help="Only of this stage, where a run compares more than once.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="At most so many rows or nodes of each list, in execution order; 0 = all. "
    f"Default: {DEFAULT_LIMIT}; {ROWS_A_GROUP} for --unmatched, a few for --node and --tensor.",
)
@format_option
@verbose_option
@click.option("--quiet", is_flag=True, help="Only the last line: verdict, counts, where the record lies.")
@click.pass_context
def command(context: click.Context, /, *, run: Path | None, **options: Any) -> int:
    """Show what a RUN concluded, from its folder alone: verdict, origins, worst pairs; or ask it something.

    RUN may be left out: the newest in the working directory is taken.

    With --verdict, --role, --rank, --step, --graph or --comparison: the rows that meet all of these. Exit code 0
    whatever the verdict; 3 when a part of the folder cannot be read.
    """
    from probe_flow.api.dumps import asker_of
    from probe_flow.runs.queries.asker import Asker

    options["in_session"] = isinstance(context.obj, Asker)
    asker = context.obj if isinstance(context.obj, Asker) else asker_of(run_or_newest(run), options["dumps"])
    if options["opens"]:
        return _open(asker)
    question = _question(asker, options)
    if question is not None:
        return _reply(asker, question, options)
    _rows_or_summary(asker, options)
    return 0


def _open(asker: Asker) -> int:
    """Open the report in a browser, and say where it lies, for where there is none.

    Raises:
        UsageError: PF7117 when the run has none.
    """
    import webbrowser

    record = asker.run.record
    made = [name for name in record.artifacts if name.endswith(".html")]
    name = next((name for name in made if (asker.run.folder / name).is_file()), None)
    if name is None:
        gone = f": `{made[0]}` is gone" if made else ""
        message = f"the run in `{asker.shown}` has no HTML report{gone}"
        cure = f"make it: `probe-flow report {asker.shown} --format html`, or add `html` to `formats` in the workflow"
        raise UsageError(Diagnostic("PF7117", message, path=asker.shown, help=cure))
    path = asker.run.folder / name
    click.echo(path)
    if not webbrowser.open(path.resolve().as_uri()):
        click.echo("no browser could be started: open the file above in one", err=True)
    return 0


def _question(asker: Asker, options: Mapping[str, Any]) -> Callable[[], Reply] | None:
    """Return what is asked, None when rows or the summary are wanted.

    Raises:
        UsageError: PF7205 when more than one thing is asked.
    """
    filters = options["verdict"] is not None or options["role"] is not None
    asked = [name for name in ("below", "at_most", "above", "tensor") if options[name] is not None]
    asked += [name for name in ("origin", "unmatched") if options[name]]
    if options["node"] is not None and (asked or not filters) and not _is_pattern(asker, options["node"]):
        asked.append("node")
    if len(asked) + (filters and bool(asked)) > 1:
        names = ", ".join(f"`--{name.replace('_', '-')}`" for name in asked)
        raise UsageError(
            Diagnostic("PF7205", f"one question at a time: {names}", help="ask one after the other, or at the prompt")
        )
    _refuse_strays(asked, options)
    if not asked:
        return None
    return lambda: _asked(asker, asked[0], options)


def _refuse_strays(asked: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse options that would say nothing beside this question."""
    for name in ("depth", "attrs", "svg"):
        if options[name] not in (None, False) and asked != ["node"]:
            raise click.UsageError(f"`--{name}` belongs to `--node NAME`, the whole name or a part of it")
    if options["call"] is not None and asked not in (["node"], ["tensor"]):
        raise click.UsageError("`--call` belongs to `--node NAME` or `--tensor NAME`")
    if options["dumps"] and asked != ["tensor"]:
        raise click.UsageError("`--dump` belongs to `--tensor NAME`")


def _is_pattern(asker: Asker, name: str) -> bool:
    try:
        return asker.is_pattern(name)
    except IncompleteError:  # without nodes.jsonl every name is one of rows
        return True


def _asked(asker: Asker, name: str, options: Mapping[str, Any]) -> Reply:
    from probe_flow.runs.queries.asker import DRAWN_DEPTH
    from probe_flow.runs.queries.threshold import Relation, parse_threshold

    scope, limit = _scope(asker, options), options["limit"]
    if name == "tensor":
        return asker.tensor(options["tensor"], limit=limit, scope=scope)
    if name == "origin":
        return asker.origin(scope=scope)
    if name == "unmatched":
        return asker.unmatched(limit=_limit(limit, ROWS_A_GROUP), scope=scope)
    if name == "node":
        depth = options["depth"] if options["depth"] is not None else DRAWN_DEPTH if options["svg"] else 0
        if options["svg"]:
            depth = max(depth, 1)
        return asker.node(options["node"], depth=depth, has_attributes=options["attrs"], limit=limit, scope=scope)
    relation = {"below": Relation.BELOW, "at_most": Relation.AT_MOST, "above": Relation.ABOVE}[name]
    wanted = parse_threshold(options[name], relation)
    return asker.threshold(wanted, limit=_limit(limit, DEFAULT_LIMIT), scope=scope)


def _reply(asker: Asker, question: Callable[[], Reply], options: Mapping[str, Any]) -> int:
    """Print an answer; where the nodes cannot be read, say so and show rows instead."""
    from probe_flow.record.conclusion import last_line
    from probe_flow.record.json_values import json_value
    from probe_flow.runs.draw.drawing import write_drawing
    from probe_flow.runs.view import conclusions

    try:
        reply = question()
    except IncompleteError as error:
        if error.diagnostic.code != "PF7204":
            raise
        show(error.diagnostics)
        _rows_or_summary(asker, options)
        return error.exit_code
    if options["svg"] is not None and reply.graph is not None:
        click.echo(write_drawing(reply.graph, options["svg"]), err=True)
    if options["output_format"] == "json":
        answer = json_value({**conclusions(asker.run), **reply.data})
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False, allow_nan=False))
        return 0
    for line in reply.lines if not options["quiet"] else ():
        click.echo(line)
    if not options["in_session"]:
        if not options["quiet"]:
            click.echo("")
        click.echo(last_line(asker.run.record, folder=asker.shown))
    return 0


def _rows_or_summary(asker: Asker, options: Mapping[str, Any]) -> None:
    from probe_flow.record.conclusion import report_path
    from probe_flow.runs.view import Filter, Selection, render_rows, render_run, run_json

    stored, folder, scope = asker.run, asker.shown, _scope(asker, options)
    wanted = Filter(options["verdict"], options["role"], options["node"])
    selection = None
    if not wanted.is_empty or scope.comparison is not None or scope.narrows:
        selection = Selection(stored, wanted, limit=_limit(options["limit"], DEFAULT_LIMIT), scope=scope)
    if options["output_format"] == "json":
        for part in run_json(stored, selection):
            click.echo(part, nl=False)
    elif selection is not None:
        for line in render_rows(selection, stored, folder=folder):
            click.echo(line)
    elif options["quiet"]:
        from probe_flow.record.conclusion import last_line

        click.echo(last_line(stored.record, folder=folder))
    else:
        width = shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns
        is_terminal = sys.stdout.isatty()
        color = wants_color(os.environ, is_terminal=is_terminal)
        text = render_run(
            stored,
            color=color,
            width=width,
            folder=folder,
            is_verbose=options["verbose"],
            to_terminal=is_terminal,
        )
        if color:
            shown = report_path(stored.record, folder)
            text = linked(text, shown, Path(shown), is_terminal=True)
        click.echo(text, nl=False, color=color)


def _scope(asker: Asker, options: Mapping[str, Any]) -> Scope:
    from probe_flow.runs.queries.base import Scope

    scope = Scope(options["comparison"], options["rank"], options["step"], options["graph"], options["call"])
    scope.check(asker.run)
    return scope


def _limit(given: int | None, default: int) -> int | None:
    return default if given is None else given or None
