"""`init`: make a workflow to start from, by copying ours or extending a package's, or print code that makes dumps."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from probe_flow.cli.authoring.schema import write_schema
from probe_flow.cli.authoring.snippets import MODEL_SNIPPETS
from probe_flow.cli.authoring.tf_snippets import TF_SNIPPETS
from probe_flow.cli.terminal.console import show
from probe_flow.errors import Diagnostic, Severity, UsageError

if TYPE_CHECKING:
    from probe_flow.workflow.templates.shelf import Template


TORCHAIR = '''\
# Two dumps of one model, to be compared by:
#   probe-flow run torchair_ge_vs_fx.yaml --set target=dumps/msprobe_ge_dump --set golden=dumps/msprobe_fx_dump
# Run the script once for each dump, each time in a new process and into an empty folder, with the same inputs,
# weights and seed.
import os

import torch


def ge_backend(folder="dumps/msprobe_ge_dump"):
    """The target: what the device computes. Needs torch_npu and torchair, not probe_flow."""
    import torch_npu  # noqa: F401
    import torchair

    folder = os.path.abspath(folder)
    os.makedirs(folder, exist_ok=True)
    config = torchair.CompilerConfig()
    # Without the graph texts nobody knows which tensor of the graph a device tensor is.
    config.debug.graph_dump.type = "txt"
    for name in ("path", "_path"):  # versions differ, and config objects reject names that they do not know
        if hasattr(config.debug.graph_dump, name):
            setattr(config.debug.graph_dump, name, folder)
            break
    config.dump_config.enable_dump = True
    config.dump_config.dump_path = folder
    config.dump_config.dump_mode = "all"
    # Narrower: config.dump_config.dump_step = "0|1"     (these steps only)
    #           config.dump_config.dump_layer = "Add_1"  (these operators only, where hasattr says that it is known)
    # Without fusion, as a golden side: write {"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}
    # to a file, and set config.fusion_config.fusion_switch_file to its path.
    return torchair.get_npu_backend(compiler_config=config)


def fx_backend(folder="dumps/msprobe_fx_dump"):
    """The golden side: the same graph, node by node, on the CPU or any device of torch. Needs probe_flow."""
    from probe_flow.dumpers import torchair_fx_backend

    return torchair_fx_backend(folder)


# model = torch.compile(model, backend=ge_backend())   # on the device
# model = torch.compile(model, backend=fx_backend())   # anywhere
# with torch.no_grad():
#     model(*inputs)
'''

TORCH = '''\
# A dump of what a PyTorch program computes, to be compared by:
#   probe-flow run pytorch_compare.yaml --set target=dumps/target --set golden=dumps/golden
# Run the script once for each side, into a folder of its own, with the same inputs, weights and seed.
# Needs probe_flow on the machine that runs it (no extra beside torch).
import probe_flow as pf


def train(model, loss, optimizer, batches, folder="dumps/golden"):
    """Dump two steps of training: every module and every call, forward and backward."""
    # level="L0" records modules only, "L1" calls of APIs only; data="statistics" writes no elements;
    # steps=[0], ranks=[0], include=["layers.1"] narrow it. config="config.json" takes msprobe's configuration.
    with pf.dump_torch(model, folder, level="mix", data="tensor") as dump:
        for inputs, wanted in batches[:2]:
            loss(model(inputs), wanted).backward()
            dump.stop()  # the optimizer is not recorded
            optimizer.step()
            optimizer.zero_grad()
            dump.step()
            dump.start()
'''

MINDSPORE = '''\
# A dump of what a MindSpore program computes in PyNative mode, to be compared by:
#   probe-flow run mindspore_compare.yaml --set target=dumps/target --set golden=dumps/golden
# Run the script once for each side, into a folder of its own, with the same inputs, weights and seed.
# Needs probe_flow on the machine that runs it (and numpy below 2, as MindSpore itself).
import mindspore

import probe_flow as pf


def train(net, loss, optimizer, batches, folder="dumps/golden"):
    """Dump two steps of training: every cell, call and primitive, forward and backward."""
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    weights = list(net.trainable_params())
    step = mindspore.value_and_grad(lambda inputs, wanted: loss(net(inputs), wanted), None, weights=weights)
    # level="L0" records cells only, "L1" calls only; data="statistics" writes no elements;
    # steps=[0], ranks=[0], include=["layers.1"] narrow it. config="config.json" takes msprobe's configuration.
    with pf.dump_mindspore(net, folder, level="mix", data="tensor") as dump:
        for inputs, wanted in batches[:2]:
            _, gradients = step(inputs, wanted)
            dump.stop()  # the optimizer is not recorded
            optimizer(gradients)
            dump.step()
            dump.start()
'''

SNIPPETS: Mapping[str, str] = MappingProxyType(
    {"mindspore": MINDSPORE, "torch": TORCH, "torchair": TORCHAIR, **TF_SNIPPETS, **MODEL_SNIPPETS}
)
"""Name -> code."""


@click.command("init")
@click.argument("name", required=False)
@click.option(
    "--output",
    "-o",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Folder to copy to; default: the working directory.",
)
@click.option("--with-sample", is_flag=True, help="Copy the sample dumps too, so that the workflow runs as it is.")
@click.option("--force", is_flag=True, help="Replace files that are there, and links to files.")
@click.option(
    "--snippet",
    metavar="NAME",
    help="Print code for your own script instead: `torch`, `mindspore`, `onnx`, `om` ... (a wrong name lists all).",
)
def command(name: str | None, output: Path, *, with_sample: bool, force: bool, snippet: str | None) -> None:
    """Copy the packaged workflow NAME to start from, or print the code that makes the dumps it compares.

    A template of an installed package is extended instead: what its package changes later reaches the new file.
    """
    if (name is None) == (snippet is None):
        raise click.UsageError("give either the NAME of a packaged workflow, or `--snippet NAME`")
    if snippet is not None:
        click.echo(_snippet(snippet), nl=False)
    elif output.suffix in (".yaml", ".yml") and not output.is_dir():
        raise click.UsageError(f"`--output` names a folder, and `{output}` looks like a file: the copy keeps its name")
    else:
        assert name is not None, "one of the two is given"
        _copy(name, output, with_sample=with_sample, force=force)


def _snippet(name: str) -> str:
    if name not in SNIPPETS:
        raise click.UsageError(f"there is no snippet `{name}`; snippets: {', '.join(SNIPPETS)}")
    return SNIPPETS[name]


def _copy(name: str, output: Path, *, with_sample: bool, force: bool) -> None:
    from probe_flow.engine.cache import cache_folder
    from probe_flow.workflow.loading.extending import extend_template
    from probe_flow.workflow.schema import SCHEMA_FILE
    from probe_flow.workflow.sources import TEMPLATE
    from probe_flow.workflow.templates.copying import (
        LinkInTheWayError,
        SampleMissingError,
        WouldOverwriteError,
        copy_template,
    )
    from probe_flow.workflow.templates.guide import SAMPLES

    name = name.removeprefix(TEMPLATE)  # as `run` and `extends` name it
    template = _template(name)
    try:
        if template.is_ours:
            cache = cache_folder(None, os.environ)
            copied = copy_template(template.path, output, with_sample=with_sample, force=force, cache=cache)
        elif with_sample:
            raise click.UsageError(f"the template `{name}` of the package `{template.package}` has no sample data")
        else:
            copied = extend_template(template, output, force=force)
    except WouldOverwriteError as error:
        raise click.UsageError(f"`{error.path}` exists; `--force` overwrites it") from error
    except LinkInTheWayError as error:
        raise click.UsageError(f"`{error.path}` is a link to another folder; remove it, or name another DIR") from error
    except SampleMissingError as error:
        raise click.UsageError(f"the sample data of `{name}` is not installed: there is no `{error.path}`") from error
    except OSError as error:
        message = f"`{name}` cannot be written to `{output}`: {error.strerror or error}"
        cure = "name a folder that you may write with `--output`"
        raise UsageError(Diagnostic("PF6011", message, path=str(output), help=cure)) from error
    click.echo(f"{'copied' if template.is_ours else 'wrote'} {copied.workflow}")
    if template.is_ours and write_schema(output) is not None:
        click.echo(f"wrote {output / SCHEMA_FILE}, by which editors complete and check it")
    for folder in copied.samples:
        click.echo(f"copied {folder}")
    value = "DIR" if template.is_ours else "VALUE"
    sets = "".join(f" --set {param}={value}" for param in copied.unset)
    if copied.samples and template.name in SAMPLES:
        click.echo(f"the sample: {SAMPLES[template.name]}")
    click.echo(f"next: probe-flow run {copied.workflow}{sets}")


def _template(name: str) -> Template:
    from probe_flow.workflow.templates.shelf import shelf

    known = shelf()
    template, problem = known.find(name)
    if problem is not None and problem.severity is Severity.ERROR:
        raise UsageError(problem)
    if problem is not None:
        show([problem])
    assert template is not None, "without a template there is an error"
    return template
