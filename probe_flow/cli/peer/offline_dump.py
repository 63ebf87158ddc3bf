"""`probe-flow offline_dump`: run an offline model or its original on this machine, and dump all its tensors."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import click
from msgspec.structs import replace

from probe_flow.cli.peer.offline_model import (
    OM,
    ModelInputs,
    Running,
    on_device,
    show_variant,
    template_for,
    variants_of,
    worst_of,
)
from probe_flow.cli.peer.peer_syntax import PeerCommand


@click.command("offline_dump", cls=PeerCommand)
@click.option(
    "--model_path",
    required=True,
    metavar="MODEL",
    help="The original model: `.onnx`, `.prototxt`, `.pb`, `.meta`, a SavedModel; or, where CANN is, the `.om`.",
)
@click.option("--input_data", metavar="FILES", help="Inputs, commas between the files; default drawn from a seed.")
@click.option("--input_shape", metavar="SHAPES", help="Sizes that the model leaves open, e.g. x:1,3,224,224;y:1,5.")
@click.option("--dym_shape_range", metavar="SHAPES", help="Each of several sizes, e.g. x:1,3,200~224~8,224-230.")
@click.option("--output_size", metavar="SIZES", help="Bytes of the outputs of an `.om` with open sizes.")
@click.option("--rank", type=click.IntRange(0), metavar="ID", help="Device that runs an `.om`; default 0.")
@click.option(
    "-ofs",
    "--onnx_fusion_switch",
    type=click.Choice(["True", "False"], case_sensitive=False),
    help="Whether the graph of the model is optimised first; default False.",
)
@click.option(
    "-o",
    "--output_path",
    "--output",
    default=".",
    metavar="DIR",
    help="Folder of the dump, which lies in `{time}[/{shapes}]/dump_data` below it. Default: the working directory.",
)
def command(
    *,
    model_path: str,
    input_data: str | None,
    input_shape: str | None,
    dym_shape_range: str | None,
    output_size: str | None,
    rank: int | None,
    onnx_fusion_switch: str | None,
    output_path: str,
) -> int:
    """Run a model on this machine and write every tensor between its inputs and its outputs.

    An offline model (`.om`) runs where CANN is: `probe-flow init --snippet om` prints how to dump it elsewhere.
    """
    from probe_flow.cli.peer.compare import check_paths
    from probe_flow.cli.peer.compare_workflow import replaced
    from probe_flow.cli.peer.offline_model import as_stage_has_it, files_of
    from probe_flow.workflow.loading.loader import load_workflow
    from probe_flow.workflow.templates.packaged import templates

    cwd = Path.cwd()
    model = cwd / model_path
    check_paths({"--model_path": model})
    is_om = model.suffix == OM
    # That of another model is as good for one stage that is replaced.
    template = template_for(model.with_suffix(".onnx") if is_om else model, "--model_path")
    inputs = ModelInputs(input_data, input_shape, dym_shape_range, output_size, onnx_fusion_switch)
    out = cwd / output_path / datetime.now().astimezone().strftime("%Y%m%d%H%M%S")
    codes = []
    for variant in variants_of(inputs):
        shapes = {"input_shape": variant.shape} if variant.shape is not None else {}
        # The dump and its rules are of the other side, which is not run.
        sets = {"target": str(model), "golden": str(model), "fusion_rule": str(model), **shapes, **files_of(model)}
        workflow = load_workflow(templates()[template], sets=sets, env=os.environ, cwd=cwd)
        (golden,) = (stage for stage in workflow.stages if stage.name == "golden")
        folder = out / variant.folder
        data = folder / "dump_data"
        if is_om:
            options = on_device(model, inputs, variant, cwd, device=rank, output=data)
            stage = replaced(replace(golden, inputs={}), "dump.om", options)
        else:
            stage = as_stage_has_it(golden, inputs, cwd, output=data)
        running = Running(cwd, folder / "probe_flow", None, None, ())
        only = replace(workflow, stages=(stage,), name="offline-dump", description=None, params={"model": str(model)})
        codes.append(show_variant(only, replace(variant, folder=""), running))
    return worst_of(codes)
