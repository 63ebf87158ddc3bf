"""`op_generate`: take one API out of a dump, and write a script that runs it on a device and in higher precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from probe_flow.stages.base import DumpOf, Forecast, IsPath, Kind, StageOptions, StageType
from probe_flow.work import Context

if TYPE_CHECKING:
    from probe_flow.records import Catalog


class Options(StageOptions):
    """Take one API out of a dump, and write a script that runs it on a device and, in higher precision, here.

    The options are those of the configuration of msprobe's `op_generate`; `source` gives the dump.
    """

    uses: Literal["op_generate"]
    source: DumpOf = Field(description="Stage that gives the dump: one `dump.json`.")
    api_name: str = Field(
        description="The API with the number of its call, without direction.", examples=["Functional.softmax.3"]
    )
    propagation: Literal["forward", "backward"] = Field("forward", description="The direction that the script runs.")
    data_mode: Literal["random_data", "real_data"] = Field(
        "random_data", description="Whether inputs are random in the recorded ranges, or the tensors of the dump."
    )
    random_seed: int = Field(1234, description="Seed of random inputs.")
    iter_times: int = Field(1, ge=1, le=1000, description="How often the script runs the API, with other inputs.")
    output: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None, description="Folder of the script and of the extracted API; default: `op_generate` in the run's folder."
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the extracted API and its script."""
    from probe_flow.errors import Diagnostic, UsageError
    from probe_flow.scripts.op_generate import Config, op_generate
    from probe_flow.work import Scripts

    source: Catalog = inputs["source"][0]
    files = source.attrs.get("files")
    if not isinstance(files, tuple) or len(files) != 1:
        found = f"{len(files)} files" if isinstance(files, tuple) else "no dump.json"
        raise UsageError(
            Diagnostic(
                "PF2133",
                f"`{source.root}` has {found}, and `op_generate` takes an API out of one `dump.json`",
                path=source.root,
                help="narrow the dump to one rank and step with `select`",
            )
        )
    root = Path(source.root)
    dump = root if root.is_file() else root / str(files[0])
    folder = Path(options.output) if options.output else context.output / "op_generate"
    folder.mkdir(parents=True, exist_ok=True)
    extracted = folder / f"{options.api_name}.json"
    for path in (extracted, folder / f"{options.api_name}.{options.propagation}.py"):
        context.announce(path)
    config = Config(
        str(extracted),
        str(dump),
        options.api_name,
        options.propagation,
        options.data_mode,
        options.random_seed,
        options.iter_times,
    )
    return Scripts(op_generate(config, folder))


def forecast(options: Options) -> Forecast:
    """Say what will be written."""
    return Forecast(f"writes a script into {options.output or 'the folder of the run'}")


STAGE = StageType(
    uses="op_generate",
    produces=Kind.SCRIPTS,
    options=Options,
    run=run,
    summary="Take one API out of a dump, and write a script that runs it on a device and in higher precision.",
    forecast=forecast,
)
