"""`probe-flow`: the group of commands, each loaded when it is used, and the way from an error to an exit code.

A command that runs others (the prompt does) finds `main` as the object of click's context.
"""

from __future__ import annotations

import atexit
import gc
import io
import itertools
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from probe_flow.cli.options import FrameworkCommand
from probe_flow.cli.terminal.console import show
from probe_flow.errors import (
    Diagnostic,
    IncompleteError,
    InternalError,
    ProbeFlowError,
    UsageError,
    WorkflowError,
    did_you_mean,
    ran_out,
)
from probe_flow.errors.diagnostics import NO_SOURCES
from probe_flow.exit_codes import EXIT_INCOMPLETE, EXIT_PASSED, EXIT_STOPPED, EXIT_WRONG_INPUT
from probe_flow.files.machine import QUIET_LIBRARIES
from probe_flow.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_OBJECTS_BETWEEN_COLLECTIONS = 1_000_000
"""A command makes objects that live to its end (modules, then up to millions of records), and hardly any garbage that
counting references leaves. With Python's 700, looking for it takes a twentieth of the CPU time: of a start without
records, of 10,000 rows of statistics, of as many GE/FX pairs."""

COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "start": ("probe_flow.cli.authoring.start", "Say what two dumps are, propose a workflow, run it."),
        "run": ("probe_flow.cli.run", "Run a workflow."),
        "plan": ("probe_flow.cli.plan", "Show what a run would do, and check its paths."),
        "validate": ("probe_flow.cli.authoring.validate", "Show every mistake of workflow files."),
        "lint": ("probe_flow.cli.authoring.lint", "Show what is valid in workflow files and looks wrong."),
        "templates": ("probe_flow.cli.authoring.templates", "List the workflows to start from."),
        "init": ("probe_flow.cli.authoring.init", "Copy a packaged workflow to start from."),
        "show": ("probe_flow.cli.show", "Show what a run concluded, and its rows."),
        "report": ("probe_flow.cli.report", "Make reports of a finished run without its dumps."),
        "runs": ("probe_flow.cli.runs", "List and remove runs."),
        "diff": ("probe_flow.cli.diff", "Show what changed from one run to another."),
        "baseline": ("probe_flow.cli.baseline", "Accept a run; later runs fail only on what is worse."),
        "shell": ("probe_flow.cli.shell.command", "Ask a run one thing after the other, at a prompt."),
        "compare": ("probe_flow.cli.peer.compare", "Compare two dumps by the short command line."),
        "suggest-mapping": ("probe_flow.cli.suggest_mapping", "Suggest a layer mapping for dumps whose names differ."),
        "reduce": ("probe_flow.cli.reduce", "Reduce dumps to statistics, once or while they are written."),
        "offline_dump": ("probe_flow.cli.peer.offline_dump", "Run the original of an offline model and dump it."),
        "parse": ("probe_flow.cli.peer.parse", "Convert dumped device files to arrays, torch files or plain bytes."),
        "tf_dump": ("probe_flow.cli.tf_dump", "Extract the tensors of a TensorFlow debugger run as arrays."),
        "merge_result": ("probe_flow.cli.peer.merge_result", "Merge the result tables of several ranks."),
        "acc_check": ("probe_flow.cli.peer.acc_check", "Check the APIs of a dump one by one."),
        "multi_acc_check": ("probe_flow.cli.peer.multi_acc_check", "Check the APIs of a dump on several devices."),
        "run_overflow_check": (
            "probe_flow.cli.peer.run_overflow_check",
            "Run the APIs of a dump again whose results overflowed.",
        ),
        "api_precision_compare": (
            "probe_flow.cli.peer.api_precision_compare",
            "Judge the checks of APIs on one device by those on another.",
        ),
        "repro": ("probe_flow.cli.repro", "Say whether a suspect itself is wrong."),
        "op_generate": ("probe_flow.cli.peer.op_generate", "Write a script that runs one API of a dump again."),
        "code_mapping": ("probe_flow.cli.peer.code_mapping", "Bind operators of a kernel dump to lines of model code."),
        "graph": ("probe_flow.cli.peer.graph", "Show dumps as graphs: `.vis` files."),
        "graph_visualize": ("probe_flow.cli.peer.graph_visualize", "Show dumps as graphs: a `.vis.db` file."),
        "overflow_check": ("probe_flow.cli.peer.overflow_check", "Find where NaN and infinity begin in one dump."),
        "cache": ("probe_flow.cli.cache", "Look after the results kept between runs."),
        "schema": ("probe_flow.cli.authoring.schema", "Print the JSON Schema of workflow files."),
        "explain": ("probe_flow.cli.explain", "Say what a diagnostic code means."),
        "docs": ("probe_flow.cli.installation.docs", "Open the documentation, show a page, search."),
        "plugins": ("probe_flow.cli.installation.plugins", "List what installed packages add, and what is broken."),
        "doctor": ("probe_flow.cli.installation.doctor", "Look at the installation and the machine."),
        "completion": ("probe_flow.cli.completion", "Print the completion script of a shell."),
        "version": ("probe_flow.cli.installation.version", "Show the version."),
    }
)
"""Name -> module that has it as ``command``, and the line that ``--help`` shows without loading it."""

GROUPS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "Begin": ("start", "init", "templates", "validate", "lint", "plan"),
        "Run": ("run", "compare"),
        "Look": ("show", "report", "diff", "runs", "shell", "repro", "baseline"),
    }
)
"""Title -> commands that ``--help`` shows with a line each."""

MORE_GROUPS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "Check, convert, merge, as in msprobe": (
            "acc_check",
            "multi_acc_check",
            "run_overflow_check",
            "api_precision_compare",
            "overflow_check",
            "op_generate",
            "code_mapping",
            "graph",
            "graph_visualize",
            "merge_result",
            "offline_dump",
            "tf_dump",
            "parse",
            "reduce",
            "suggest-mapping",
        ),
        "Maintain": ("docs", "explain", "cache", "schema", "plugins", "doctor", "completion", "version"),
    }
)
"""Title -> commands that it names only; each tells about itself with ``--help``."""


_COMPUTING = frozenset(
    {
        "run",
        "compare",
        "start",
        "suggest-mapping",
        "reduce",
        "parse",
        "tf_dump",
        "cache",
        "code_mapping",
        "repro",
        "acc_check",
        "multi_acc_check",
        "run_overflow_check",
        "graph",
        "graph_visualize",
        "overflow_check",
    }
)
"""Commands that load numpy."""

EXAMPLE = """\
  probe-flow start DEVICE_DUMP GOLDEN_DUMP --run   do they agree?
  probe-flow show --open                           the report of the newest run
"""
"""What to type first."""

_STREAMS = (("stdin", "r", 0), ("stdout", "w", 1), ("stderr", "w", 2))


class LazyGroup(click.Group):
    """Commands of `COMMANDS`, imported when they are called, so that ``--help`` loads none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command = import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=summary) for name, (_, summary) in COMMANDS.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what stands before the command; name the value that ``-f`` lacks, not what comes after it.

        An empty word is refused, for a path of no letters would be the working directory.
        """
        if "" in args and not ctx.resilient_parsing:  # else a shell completes words
            before = " ".join(args[: args.index("")][-2:])
            where = f"the word after `{before}`" if before else "the first word"
            raise click.UsageError(f"{where} is empty; where a variable gives it, is that set?", ctx)
        for option, value in itertools.pairwise(args):
            if not option.startswith("-"):
                break
            if option == "-f" and value in COMMANDS:
                raise click.BadOptionUsage(option, f"`-f` needs a framework before the command `{value}`", ctx)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help so that it fits a screen of 40 lines: an example, then the commands by what they are for."""
        self.format_usage(ctx, formatter)
        formatter.write(f"\n  {self.help}\n\n{EXAMPLE}\n")
        names = [name for group in GROUPS.values() for name in group]
        width = max(map(len, names))
        for title, group in GROUPS.items():
            formatter.write(f"{title}:\n")
            for name in group:
                formatter.write(f"  {name:<{width}}  {COMMANDS[name][1]}\n")
        for title, group in MORE_GROUPS.items():
            formatter.write(f"{title} (`COMMAND --help` says more):\n")
            formatter.indent()
            formatter.write_text(", ".join(group))
            formatter.dedent()
        formatter.write("Options:\n")
        for option in self.get_params(ctx):
            words = option.get_help_record(ctx)
            if words is not None:
                formatter.write(f"  {words[0]:<13}  {words[1]}\n")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is meant.

        Raises:
            UsageError: PF2120 for a verb of msprobe's that is called otherwise here, or that is not here.
            click.UsageError: no such command, with those that are spelled like it.
        """
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from probe_flow.cli.elsewhere import verb_elsewhere

            lack = verb_elsewhere(name)
            if lack is not None:
                raise UsageError(lack)
            near = did_you_mean(name.replace("-", "_"), COMMANDS) or did_you_mean(name, COMMANDS)
            raise click.UsageError(f"there is no command `{name}`; {near or '`probe-flow --help` lists them'}", ctx)
        return _with_help(*super().resolve_command(ctx, args))


def _with_help(
    name: str | None, command: click.Command | None, args: list[str]
) -> tuple[str | None, click.Command | None, list[str]]:
    """Let ``--help`` fit a screen and ``--help-all`` say everything; which one is asked for stands in the arguments."""
    if command is not None and not isinstance(command, click.Group) and {"-h", "--help", "--help-all"} & set(args):
        from probe_flow.cli.terminal.short_help import ALL, ScreenContext

        command.context_class = click.Context if ALL in args else ScreenContext
        args = ["--help" if each == ALL else each for each in args]
    return name, command, args


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", "-V", message="probe-flow %(version)s")
@click.option("--debug", is_flag=True, expose_value=False, help="Show a traceback with every error.")
@click.option("-f", "framework", metavar="FRAMEWORK", help="Framework of the dumps, before commands that take it.")
@click.pass_context
def group(context: click.Context, *, framework: str | None) -> None:
    """Find the first operator of a model that is wrong on the NPU."""
    if context.invoked_subcommand in _COMPUTING:
        from probe_flow.files.machine import check_address_space

        check_address_space(os.environ)
    if framework is not None:
        assert context.invoked_subcommand is not None, "a group without a command does not get here"
        _check_framework(framework, context.invoked_subcommand, context)


def _check_framework(given: str, name: str, context: click.Context) -> None:
    """Refuse ``-f`` before a command that does not take it, or not with this value.

    Raises:
        click.UsageError: the command takes none.
        UsageError: PF2120 it takes others.
    """
    known = _frameworks_of(name, context)
    if not known:
        # Only now all commands are loaded: which of them take it is theirs to say.
        takers = [f"`{each}`" for each in COMMANDS if _frameworks_of(each, context)]
        raise click.UsageError(f"`{name}` takes no `-f`; it belongs to {', '.join(takers[:-1])} and {takers[-1]}")
    if given not in known:
        near = did_you_mean(given, known)
        listed = f"frameworks: {', '.join(f'`{each}`' for each in known)}; `-f` may be left out"
        message = f"`-f {given}` is not part of this version of probe_flow"
        raise UsageError(Diagnostic("PF2120", message, help=near or listed))


def _frameworks_of(name: str, context: click.Context) -> Sequence[str]:
    command = group.get_command(context, name)
    return command.frameworks if isinstance(command, FrameworkCommand) else ()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1, 2, 3, or 128 and the number of a signal.

    Args:
        arguments: without the program's name; default: those of the process.
    """
    _prepare_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = _asks_for_traceback(given)
    if arguments is None:  # the process is ours
        for name, value in QUIET_LIBRARIES.items():
            os.environ.setdefault(name, value)
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
        atexit.register(gc.freeze)  # the process ends: looking for garbage in 10,000 rows takes 7 % of a run
    try:
        result = group.main(given, prog_name="probe-flow", standalone_mode=False, obj=main)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return EXIT_WRONG_INPUT
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return EXIT_STOPPED + signal.SIGINT
    except BrokenPipeError:
        # Whoever read the output has gone; a second error at interpreter exit would say it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_INCOMPLETE
    except ProbeFlowError as error:
        return _report(error, debug=debug)
    except Exception as error:  # the border: whatever comes here is a defect, but for a lack of memory or space
        lack = ran_out(error)
        return _report(IncompleteError(lack), debug=debug) if lack else _report(_as_defect(error), debug=True)
    return result if isinstance(result, int) else EXIT_PASSED


def _prepare_streams() -> None:
    r"""Open the streams that are missing, and let the others take every character.

    Names of files need not be text, and a terminal need not know ours: what cannot be written becomes ``\udcNN``, which
    is also how JSON spells it.
    """
    _open_missing()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _open_missing() -> None:
    """Open the null device for each standard stream that is closed: nothing is read from it, and what is said is lost.

    It takes the place of the descriptor too, so that no other file of the process, or of a child, ends up there.
    """
    for name, mode, descriptor in _STREAMS:
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115, PTH123 - open until the process ends
            if stream.fileno() == descriptor:
                os.set_inheritable(descriptor, True)  # noqa: FBT003 - takes no name
            setattr(sys, name, stream)


def _report(error: ProbeFlowError, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    show(error.diagnostics, sources=error.sources if isinstance(error, WorkflowError) else NO_SOURCES)
    return error.exit_code


def _as_defect(error: Exception) -> InternalError:
    defect = InternalError(
        Diagnostic(
            "PF9001",
            f"probe_flow failed in a way that it should not: {type(error).__name__}: {error}",
            help="report it with the command line, the workflow file and the traceback above",
            notes=(f"probe_flow {__version__}, Python {sys.version.split()[0]}",),
        )
    )
    defect.__cause__ = error
    return defect


def _asks_for_traceback(arguments: Sequence[str]) -> bool:
    """Return whether ``--debug`` stands before the command, where it belongs to the group."""
    leading = []
    for argument in arguments:
        if not argument.startswith("-"):
            break
        leading.append(argument)
    return "--debug" in leading
