"""Write the files that are made from the program: schemas, reference pages, the picture of a run (`make docs`)."""

from __future__ import annotations

import inspect
import io
import re
import tempfile
from html import escape
from pathlib import Path

import click

from probe_flow.apis.numpy_core.reference import operators_page
from probe_flow.cli.main import COMMANDS, group
from probe_flow.cli.options import FrameworkCommand
from probe_flow.errors import CODES
from probe_flow.errors.reference import diagnostics_page
from probe_flow.metrics.catalogue.reference import reference_page
from probe_flow.record import schemas
from probe_flow.stages.registry import STAGES
from probe_flow.workflow import schema as workflow_schema
from probe_flow.workflow.loading.reference import workflow_page

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "run.svg"


def generated_texts() -> dict[Path, str]:
    """Return the text of every generated file by its path, except for the picture."""
    types = {uses: STAGES[uses] for uses in STAGES.built_in}
    reference = ROOT / "docs" / "reference"
    return {
        ROOT / "schemas" / workflow_schema.SCHEMA_FILE: workflow_schema.schema_text(types),
        **{ROOT / "schemas" / f"{name}.schema.json": schemas.schema_text(name) for name in schemas.schema_names()},
        reference / "workflow-file.md": workflow_page(types),
        reference / "command-line.md": command_line_page(),
        reference / "metrics.md": reference_page(),
        reference / "diagnostics.md": diagnostics_page(CODES),
        reference / "operators.md": operators_page(),
    }


_COMMAND_LINE_HEAD = """# The command line

`probe-flow --help` lists the commands, `probe-flow COMMAND --help` the options of one. This page is made from the
program; do not edit it.

Results go to stdout; progress, warnings and errors to stderr. Colours are used on terminals only, and not where
`NO_COLOR` is set. Exit codes are explained in [results](results.md#exit-codes).
"""


def command_line_page() -> str:
    """Return docs/reference/command-line.md: every command with its usage and options."""
    root = click.Context(group, info_name="probe-flow")
    commands = [(name, group.get_command(root, name)) for name in COMMANDS]
    summary = [f"| [`{name}`](#{name}) | {line} |" for name, (_, line) in COMMANDS.items()]
    parts = [
        _COMMAND_LINE_HEAD,
        "\n".join(["| command | what it does |", "|---|---|", *summary]) + "\n",
        "Before the command:\n\n" + _options_table(group, root),
        *(_command_section(name, command, root) for name, command in commands if command is not None),
    ]
    return "\n".join(parts)


def _command_section(name: str, command: click.Command, root: click.Context) -> str:
    """Return the section of a command; its sub-commands follow it as sections of their own."""
    context = click.Context(command, info_name=name, parent=root)
    is_group = isinstance(command, click.Group)
    arguments = [_argument(each) for each in command.params if isinstance(each, click.Argument)]
    usage = " ".join(["probe-flow", name, *(["COMMAND"] if is_group else []), "[OPTIONS]", *arguments])
    table = _options_table(command, context)
    text = inspect.cleandoc(command.help or "")
    parts = [f"## `{name}`\n", f"```text\n{usage}\n```\n", f"{text}\n", table]
    if isinstance(command, click.Group):
        parts += [_command_section(f"{name} {each}", found, root) for each, found in command.commands.items()]
    return "\n".join(filter(None, parts))


def _argument(argument: click.Argument) -> str:
    word = argument.metavar or (argument.name or "").upper()
    return word if argument.required else f"[{word}]"


def _options_table(command: click.Command, context: click.Context) -> str:
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    rows = [_option_row(each) for each in options if "--help" not in each.opts]
    if isinstance(command, FrameworkCommand) and command.frameworks:
        rows.insert(0, f"| `-f FRAMEWORK` before `{command.name}` | {command.framework_help} |  |")
    if not rows:
        return ""
    return "\n".join(["| option | meaning | default |", "|---|---|---|", *rows]) + "\n"


def _option_row(option: click.Option) -> str:
    value = "" if option.is_flag else f" {option.metavar or _choices(option)}"
    spelled = ", ".join(f"`{name}{value}`" for name in option.opts)
    shown = option.show_default and option.default is not None and not option.is_flag
    default = "required" if option.required else f"`{option.default}`" if shown else ""
    return f"| {spelled} | {escape(option.help or '', quote=False)} | {default} |"


def _choices(option: click.Option) -> str:
    kind = option.type
    if isinstance(kind, click.Choice):
        return "/".join(map(str, kind.choices))  # a vertical bar would end the cell of the table
    return "N" if kind.name.startswith("integer") else kind.name.upper()


_COMMAND = "$ probe-flow run workflows/torchair_ge_vs_fx.yaml"
_FOLDER = "probe_flow_runs/torchair-ge-vs-fx-20260102-030405"
_COLUMNS = 100
_BACKGROUND, _FOREGROUND = (22, 25, 29), (214, 218, 224)
_COLORS = [
    (72, 79, 88),
    (255, 123, 114),
    (86, 211, 100),
    (227, 179, 65),
    (121, 192, 255),
    (210, 168, 255),
    (86, 212, 221),
    (214, 218, 224),
]
"""Light on dark with a border, so that it is legible on white and on dark pages."""

# The namespace is a name that SVG files must have, no address. Every text states its length, so columns stand in any
# monospace font.
_SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"
  aria-label="Summary of a run that names the first wrong operator">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; }}
{styles}
</style>
<rect x="1" y="1" width="99.8%" height="99.6%" rx="10" fill="#16191d" stroke="#6e7681" stroke-width="2"/>
<g class="{unique_id}-matrix" transform="translate(16, 22)">
{matrix}
</g>
</svg>
"""


def run_picture() -> str:
    """Return docs/images/run.svg: the essential part of what a run of the bundled dumps prints."""
    from rich.console import Console
    from rich.terminal_theme import TerminalTheme
    from rich.text import Text

    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(Text(_COMMAND + "\n", style="bold"))
    for line in _summary().splitlines():
        console.print(Text.from_ansi(line))
    theme = TerminalTheme(_BACKGROUND, _FOREGROUND, _COLORS)
    text = console.export_svg(theme=theme, code_format=_SVG, unique_id="run")
    # rich clips every line and draws the line ends; neither changes what is seen.
    return re.sub(r' clip-path="[^"]*"|<text [^>]*>\s*</text>', "", text).replace("</text>", "</text>\n")


def _summary() -> str:
    """Run the bundled comparison aside and return the coloured summary, with a folder name that does not change."""
    from probe_flow.engine.run.execute import execute
    from probe_flow.engine.run.plan import make_plan
    from probe_flow.engine.schedulers.choice import make_scheduler
    from probe_flow.reports.terminal.short import render_short
    from probe_flow.workflow.loading.loader import load_workflow

    plan = make_plan(load_workflow(ROOT / "workflows" / "torchair_ge_vs_fx.yaml", env={}, cwd=ROOT))
    with tempfile.TemporaryDirectory() as folder:
        outcome = execute(plan, scheduler=make_scheduler("sync", 1), cwd=ROOT, output=Path(folder) / "run")
    return render_short(outcome.record, color=True, width=_COLUMNS, folder=_FOLDER)


def main() -> None:
    """Write every generated file."""
    for path, text in {**generated_texts(), PICTURE: run_picture()}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
