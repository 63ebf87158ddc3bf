"""`probe-flow completion`: the script that completes commands and options in a shell."""

from __future__ import annotations

import click

PROGRAM = "probe-flow"
VARIABLE = "_PROBE_FLOW_COMPLETE"
"""Set by the script when it asks the program for completions; click reads it."""

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, *, shell: str) -> None:
    """Print the script that completes commands and options in a SHELL.

    For bash put `eval "$(probe-flow completion bash)"` into ~/.bashrc, for zsh `eval "$(probe-flow completion zsh)"`
    into ~/.zshrc; for fish write the script to ~/.config/fish/completions/probe-flow.fish.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None, "click knows each of `SHELLS`"
    script = found(context.find_root().command, {}, PROGRAM, VARIABLE)
    # `source` would start bash to look at its version, which says nothing about the shell that asks.
    click.echo(script.source_template % script.source_vars())
