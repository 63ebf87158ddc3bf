"""`probe-flow cache`: what is kept between runs, why something is measured again, whether it is sound, less of it."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import click

from probe_flow.cli.options import load, set_option

DIR_OPTION = click.option(
    "--dir",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Cache folder. Default: the user's.",
)
CORRUPT = 3


@click.group("cache")
def command() -> None:
    """Look after the results that are kept between runs."""


@command.command("ls")
@DIR_OPTION
@click.option(
    "--by",
    type=click.Choice(("run", "workflow", "dump", "file")),
    default="run",
    show_default=True,
    help="What a line is about.",
)
def list_shards(*, folder: Path | None, by: str) -> None:
    """List what the cache holds, the newest first.

    A line is about the run that measured it, its workflow, the folder of the target's files, or one file of the cache.
    """
    from probe_flow.engine.cache_contents import holdings
    from probe_flow.files.shards import ShardStore

    found = holdings(ShardStore(_pairs(folder)).shards(), by)
    for each in found:
        written = datetime.fromtimestamp(each.newest_s).strftime("%Y-%m-%d %H:%M:%S")
        click.echo(f"{written}  {_size(each.size_bytes):>10}  {each.text}")
    total = sum(each.size_bytes for each in found)
    tensors = [path.stat().st_size for path in _tensors(folder)]
    if tensors:
        click.echo(f"{len(tensors)} converted tensors  {_size(sum(tensors))}")
    total += sum(tensors)
    for paths, what in ((_catalogs(folder), "descriptions of dumps"), (_comparisons(folder), "whole comparisons")):
        sizes = [path.stat().st_size for path in paths]
        total += sum(sizes)
        if sizes:
            click.echo(f"{len(sizes)} {what}  {_size(sum(sizes))}")
    click.echo(f"{_size(total)} in {_root(folder)}")


@command.command("why")
@click.argument("workflow")
@set_option
@click.option("--limit", type=click.IntRange(min=0), default=10, show_default=True, help="Tensors to list.")
def why(*, workflow: str, sets: dict[str, str], limit: int) -> None:
    """Say what of WORKFLOW would be measured again, and which field caused it."""
    from probe_flow.engine.cache import cache_folder
    from probe_flow.engine.run.cache_state import cache_states, causes_text
    from probe_flow.engine.run.plan import make_plan

    plan = make_plan(load(workflow, sets))
    for state in cache_states(plan, cache_folder(plan.workflow.cache.dir, os.environ)):
        click.echo(f"{state.stage}: {causes_text(state)}")
        for miss in state.misses[:limit]:
            click.echo(f"  {miss.tensor}: {', '.join(miss.fields) or 'never measured'}")
        if len(state.misses) > limit:
            click.echo(f"  and {len(state.misses) - limit} more")


@command.command("verify")
@DIR_OPTION
def verify(*, folder: Path | None) -> int:
    """Read every result of the cache and check its checksum. Exit code 3 when something is damaged."""
    from probe_flow.cli.terminal.console import show
    from probe_flow.elements.tensor_store import problem_of
    from probe_flow.files.shards import ShardStore, inspect
    from probe_flow.record.stored.kept import problem_of_kept

    states = [inspect(path) for path in ShardStore(_pairs(folder)).shards()]
    tensors = [problem_of(path) for path in _tensors(folder)]
    catalogs = [problem_of_kept(path) for path in _catalogs(folder)]
    comparisons = [problem_of_kept(path) for path in _comparisons(folder)]
    found = (*(state.problem for state in states), *tensors, *catalogs, *comparisons)
    problems = [problem for problem in found if problem is not None]
    show(problems)
    results = sum(state.entries for state in states)
    click.echo(
        f"{len(found)} files, {results} results, {tensors.count(None)} converted tensors, "
        f"{comparisons.count(None)} whole comparisons and {catalogs.count(None)} descriptions of dumps sound, "
        f"{len(problems)} files damaged"
    )
    return CORRUPT if problems else 0


@command.command("gc")
@DIR_OPTION
@click.option(
    "--max-size", required=True, metavar="SIZE", help="Keep at most this much, the newest: `0B`, `500MB`, `2GiB`."
)
def collect(*, folder: Path | None, max_size: str) -> None:
    """Delete damaged files, and the oldest ones until the cache is at most SIZE large."""
    from probe_flow.elements.tensor_store import problem_of
    from probe_flow.engine.cache import collect_garbage
    from probe_flow.files.shards import ShardStore, inspect
    from probe_flow.record.stored.kept import problem_of_kept
    from probe_flow.stages.sizes import parse_size

    limit = parse_size(max_size)
    if limit is None:
        raise click.BadParameter(f"`{max_size}` is no size; write e.g. `500MB` or `2GiB`", param_hint="--max-size")
    store = ShardStore(_pairs(folder))
    damaged = [path for path in store.shards() if inspect(path).problem is not None]
    damaged += [path for path in _tensors(folder) if problem_of(path) is not None]
    damaged += [path for path in (*_catalogs(folder), *_comparisons(folder)) if problem_of_kept(path) is not None]
    for path in damaged:
        path.unlink(missing_ok=True)
    deleted, freed = collect_garbage(_root(folder), limit)
    click.echo(f"deleted {len(damaged)} damaged files and {deleted} old ones ({_size(freed)}) of {_root(folder)}")


def _root(folder: Path | None) -> Path:
    from probe_flow.engine.cache import cache_folder

    return cache_folder(str(folder) if folder else None, os.environ)


def _pairs(folder: Path | None) -> Path:
    from probe_flow.engine.cache import shared_store

    return shared_store(_root(folder))


def _tensors(folder: Path | None) -> list[Path]:
    """Return the converted tensors, the newest first."""
    from probe_flow.engine.cache import tensor_store

    return sorted(tensor_store(_root(folder)).rglob("*.h5"), key=lambda path: -path.stat().st_mtime_ns)


def _catalogs(folder: Path | None) -> list[Path]:
    """Return the catalogs of dumps that are kept."""
    from probe_flow.engine.cache import catalog_store

    return sorted(catalog_store(_root(folder)).glob("*.msgpack"))


def _comparisons(folder: Path | None) -> list[Path]:
    """Return the comparisons that are kept as a whole."""
    from probe_flow.engine.cache import comparison_store

    return sorted(comparison_store(_root(folder)).glob("*.msgpack"))


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
