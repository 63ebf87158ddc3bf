"""`explain`: cause, example and cure of a diagnostic code."""

from __future__ import annotations

import json
import textwrap

import click
from msgspec.structs import asdict

from probe_flow.cli.options import format_option
from probe_flow.errors import CODES, Code, did_you_mean


@click.command("explain")
@click.argument("code", required=False)
@format_option
def command(code: str | None, *, output_format: str) -> None:
    """Say what a diagnostic CODE such as PF1203 means; without one, list all codes."""
    if code is None:
        all_codes = sorted(CODES.values(), key=lambda known: known.id)
        if output_format == "json":
            click.echo(json.dumps([asdict(each) for each in all_codes], indent=2, ensure_ascii=False))
            return
        for each in all_codes:
            click.echo(f"{each.id}  {each.title}")
        return
    known = CODES.get(code.upper())
    if known is None:
        near = did_you_mean(code.upper(), CODES)
        raise click.UsageError(f"there is no code `{code}`" + (f": {near}" if near else "; `explain` lists all"))
    click.echo(json.dumps(asdict(known), indent=2, ensure_ascii=False) if output_format == "json" else _page(known))


def _page(code: Code) -> str:
    parts = [
        f"{code.id}: {code.title}",
        _filled(code.cause),
        "Example:\n" + textwrap.indent(code.example, "    "),
        _filled(f"Cure: {code.cure}"),
    ]
    return "\n\n".join(parts)


def _filled(text: str) -> str:
    return textwrap.fill(text, width=100, break_long_words=False, break_on_hyphens=False)
