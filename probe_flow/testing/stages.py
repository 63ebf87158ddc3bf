"""Tests that every stage has to pass."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from probe_flow.errors import Diagnostic
from probe_flow.records import Catalog, Comparison, Pairs
from probe_flow.stages.base import Forecast, Kind, StageOptions, StageType
from probe_flow.testing.expect import expect
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Scripts, Settings

_RESULTS: Mapping[Kind, type] = MappingProxyType(
    {
        Kind.CATALOG: Catalog,
        Kind.PAIRS: Pairs,
        Kind.COMPARISON: Comparison,
        Kind.REPORT: list,
        Kind.SCRIPTS: Scripts,
    }
)
_HEAVY = ("numpy", "dask", "h5py", "torch", "mindspore")


class StageTests:
    """Tests of a `StageType`: name it as ``stage``, and give the options and inputs of a run."""

    stage: StageType

    def options(self, folder: Path) -> Mapping[str, Any]:
        """Return options of a run, without ``uses``; files that they name are written into the folder."""
        raise NotImplementedError

    def inputs(self, folder: Path) -> Mapping[str, Sequence[Any]]:  # noqa: ARG002
        """Return the results of earlier stages by the option that names them; none for a stage that reads dumps."""
        return {}

    def test_it_has_the_form_of_a_stage(self) -> None:
        """Name, result, summary and options are of the right types."""
        stage = self.stage
        expect(isinstance(stage, StageType), f"it is no `StageType` but a `{type(stage).__name__}`")
        expect(isinstance(stage.produces, Kind), f"`produces` of `{stage.uses}` is no `Kind`")
        expect(stage.summary, f"`{stage.uses}` has no summary")
        expect(issubclass(stage.options, StageOptions), f"the options of `{stage.uses}` are no `StageOptions`")

    def test_every_option_is_described(self) -> None:
        """The page of the workflow file and the schema have something to show."""
        silent = [
            name for name, field in self.stage.options.model_fields.items() if not field.description and name != "uses"
        ]
        expect(not silent, f"these options of `{self.stage.uses}` have no description: {', '.join(silent)}")

    def test_its_options_have_a_schema(self) -> None:
        """`probe-flow schema` can show them."""
        expect(self.stage.options.model_json_schema(), "no schema")

    def test_unknown_options_and_other_names_are_refused(self, tmp_path: Path) -> None:
        """A typing mistake is never ignored."""
        given = {**self.options(tmp_path), "uses": self.stage.uses}
        self.stage.options.model_validate(given)
        for wrong in ({**given, "no_such_option": 1}, {**given, "uses": "no.such_stage"}):
            expect(not self._takes(wrong), f"`{self.stage.uses}` takes {wrong}")

    def test_validating_imports_nothing_heavy(self) -> None:
        """The module of the options is imported by `validate`, which has to be quick."""
        module = self.stage.options.__module__
        code = f"import sys, {module}; print([name for name in {_HEAVY!r} if name in sys.modules])"
        environment_path = f"import sys; sys.path[:] = {sys.path!r}; "
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", environment_path + code], capture_output=True, text=True, check=False, timeout=120
        )
        expect(done.returncode == 0, f"`{module}` cannot be imported alone: {done.stderr[-500:]}")
        expect(done.stdout.strip() == "[]", f"`{module}` imports {done.stdout.strip()}; do that inside `run`")

    def test_its_forecast_looks_only(self, tmp_path: Path) -> None:
        """`plan` gets a `Forecast` or None, and finds everything as it was."""
        options = self._options(tmp_path)
        before = sorted(tmp_path.rglob("*"))
        found = self.stage.foresee(options)
        expect(found is None or isinstance(found, Forecast), f"its forecast is a `{type(found).__name__}`")
        expect(sorted(tmp_path.rglob("*")) == before, "its forecast changes files")

    def test_it_gives_what_it_says(self, tmp_path: Path) -> None:
        """The result of a run is of the kind that `produces` names, and what it read is as it was."""
        options, inputs = self._options(tmp_path), self.inputs(tmp_path)
        before = _contents(tmp_path)
        output = tmp_path / "output of the run"
        output.mkdir()
        result = self.stage.run(options, inputs, context(output))
        wanted = _RESULTS[self.stage.produces]
        expect(
            isinstance(result, wanted),
            f"`{self.stage.uses}` produces {self.stage.produces.value}s, and gave a `{type(result).__name__}`",
        )
        expect({path: _contents(tmp_path).get(path) for path in before} == before, "the run changed what it read")

    def _options(self, folder: Path) -> StageOptions:
        return self.stage.options.model_validate({**self.options(folder), "uses": self.stage.uses})

    def _takes(self, given: Mapping[str, Any]) -> bool:
        try:
            self.stage.options.model_validate(given)
        except ValidationError:
            return False
        return True


def context(output: Path, *, problems: list[Diagnostic] | None = None, **settings: Any) -> Context:
    """Return what a stage gets from the engine: batches are run in order, what it reports goes into a list."""

    def in_order(function: Callable[[Any], Any], batches: Sequence[Any], **_more: object) -> Iterator[tuple[int, Any]]:
        return ((number, function(batch)) for number, batch in enumerate(batches))

    reported = [] if problems is None else problems

    def emit(event: str, **fields: Any) -> None:
        """Forget an event."""

    return Context("test", output, in_order, emit, reported.extend, Settings(**settings), run_record())


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
