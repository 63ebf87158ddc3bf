"""A reader, metric, layout, file format and stage that are broken on purpose each fail, by the name of the test."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from msgspec import structs
from msgspec.structs import replace
from packages_on_path import Site
from pydantic import ConfigDict, Field

from probe_flow.dumps.registry import ReaderSpec
from probe_flow.errors import Diagnostic, UsageError
from probe_flow.metrics.catalogue.metric import Metric
from probe_flow.metrics.catalogue.registry import METRICS
from probe_flow.records import Catalog, Execution, Extent, NodeKey
from probe_flow.reports.formats import FileFormat, ReportFile
from probe_flow.reports.layout import Layout
from probe_flow.reports.row_colors import Color
from probe_flow.reports.table import Table
from probe_flow.stages.base import Kind, StageOptions, StageType
from probe_flow.testing import builders
from probe_flow.testing.expect import failures
from probe_flow.testing.metrics import MetricTests
from probe_flow.testing.readers import ReaderTests
from probe_flow.testing.reports import FileFormatTests, LayoutTests
from probe_flow.testing.stages import StageTests

VALUES = np.array([1.0, 2.0, 3.0], "<f4")


def read(path: str, *, side: str, select: Any) -> Catalog:
    """A healthy reader of a format of its own: `NAME.raw` holds float32 values, `index.json` their counts."""
    index = Path(path) / "index.json"
    try:
        counts = json.loads(index.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(Diagnostic("PF3430", f"no index: {error}")) from error
    takes = select.node_filter()
    refs = []
    for name, count in counts.items():
        file = Path(path) / f"{name}.raw"
        if not takes(name):
            continue
        if file.stat().st_size < 4 * count:
            raise UsageError(Diagnostic("PF3101", f"`{name}` is cut"))
        node = NodeKey(Execution(), name)
        refs.append(builders.tensor(node, shape=(count,), extents=(Extent(str(file), 0, 4 * count),)))
    return builders.catalog(refs, side=side, root=path)


def shows(folders: tuple[str, ...], name: str) -> bool:
    return name == "index.json"


HEALTHY = ReaderSpec("raw", shows, "`index.json`", read)


def reader_failures(folder: Path, **changes: Any) -> dict[str, str]:
    class Tests(ReaderTests):
        reader = replace(HEALTHY, **changes)

        def write_dump(self, folder: Path) -> Mapping[str, object]:
            (folder / "index.json").write_text('{"a": 3, "b": 3}')
            for name in "ab":
                (folder / f"{name}.raw").write_bytes(VALUES.tobytes())
            return {"a.output.0": VALUES, "b.output.0": VALUES}

    return failures(Tests, folder)


def changed(change: Callable[[Catalog], Catalog]) -> Callable[..., Catalog]:
    return lambda path, **more: change(read(path, **more))


def crashing(path: str, **more: Any) -> Catalog:
    json.loads((Path(path) / "index.json").read_text())
    return read(path, **more)


def careless(path: str, *, side: str, select: Any) -> Catalog:
    """A reader that says nothing where there is nothing."""
    if not any(Path(path).iterdir()):
        return builders.catalog([], side=side)
    return read(path, side=side, select=select)


def eager(path: str, **more: Any) -> Catalog:
    (Path(path) / "cache").write_text("I was here")
    return read(path, **more)


def deaf(path: str, *, side: str, select: Any) -> Catalog:
    from probe_flow.dumps.selection import Selection

    return read(path, side=side, select=Selection())


def elsewhere(catalog: Catalog) -> Catalog:
    refs = [ref.changed(extents=(Extent("/etc/hostname", 0, 1),)) for ref in catalog.tensors]
    return structs.replace(catalog, tensors=tuple(refs))


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({}, set()),
        ({"shows": lambda folders, name: True}, {"test_other_files_do_not_show_the_format"}),
        ({"shows": lambda folders, name: False}, {"test_its_files_show_the_format"}),
        ({"read": changed(lambda found: structs.replace(found, nodes={}))}, {"test_the_catalog_fits_together"}),
        ({"read": changed(lambda found: structs.replace(found, side="x"))}, {"test_the_catalog_fits_together"}),
        (
            {"read": changed(lambda found: structs.replace(found, tensors=found.tensors[:1]))},
            {"test_every_tensor_is_there_with_its_values"},
        ),
        ({"read": careless}, {"test_an_empty_folder_is_never_an_empty_catalog"}),
        ({"read": eager}, {"test_reading_changes_nothing_and_is_repeatable"}),
        ({"read": deaf}, {"test_a_selection_narrows_the_dump"}),
        (
            {"read": crashing},
            {"test_an_empty_folder_is_never_an_empty_catalog", "test_damaged_files_are_problems_and_no_crash"},
        ),
    ],
)
def test_a_broken_reader_fails_by_name(tmp_path: Path, changes: dict[str, Any], failing: set[str]) -> None:
    assert set(reader_failures(tmp_path, **changes)) == failing


def test_a_reader_that_looks_outside_the_dump_fails_by_name(tmp_path: Path) -> None:
    found = reader_failures(tmp_path, read=changed(elsewhere))
    assert found["test_bytes_of_tensors_are_in_the_dump"] == "`a.output.0` is in `/etc/hostname`, outside the dump"


def test_why_a_reader_fails_names_what_is_wrong(tmp_path: Path) -> None:
    lost = reader_failures(
        tmp_path / "lost", read=changed(lambda found: structs.replace(found, tensors=found.tensors[:1]))
    )
    blind = reader_failures(tmp_path / "blind", shows=lambda folders, name: False)
    crashes = reader_failures(tmp_path / "crashes", read=crashing)
    assert lost["test_every_tensor_is_there_with_its_values"] == (
        "the catalog has the tensors ['a.output.0'], the dump ['a.output.0', 'b.output.0']"
    )
    assert blind["test_its_files_show_the_format"] == "`shows` of `raw` knows no file of a dump of its own"
    assert crashes["test_damaged_files_are_problems_and_no_crash"].startswith(
        "`index.json` cut short ends in JSONDecodeError"
    )


RMSE = METRICS["rmse"]


def metric_failures(folder: Path, metric: Metric) -> dict[str, str]:
    class Tests(MetricTests):
        def oracle(self, target: Any, golden: Any) -> float:
            return float(np.sqrt(np.mean((target - golden) ** 2)))

    Tests.metric = metric
    return failures(Tests, folder)


def remembering() -> Callable[[Any], float]:
    calls: list[int] = []

    def compute(record: Any) -> float:
        calls.append(1)
        return float(RMSE.compute(record) or 0.0) * (1 + 1e-12 * len(calls))  # type: ignore[misc]

    return compute


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({}, set()),
        ({"definition": ""}, {"test_it_is_described"}),
        ({"compute": lambda record: 0.5}, {"test_it_agrees_with_its_oracle"}),
        ({"compute": lambda record: str(record.numel)}, None),
        ({"compute": remembering()}, {"test_the_same_record_gives_the_same_value"}),
        ({"compute": None}, None),
    ],
)
def test_a_broken_metric_fails_by_name(tmp_path: Path, changes: dict[str, Any], failing: set[str] | None) -> None:
    found = metric_failures(tmp_path, replace(RMSE, **changes))
    assert set(found) == failing if failing is not None else "test_odd_values_give_a_value_or_none" in found


@pytest.mark.parametrize(
    ("changes", "test", "why"),
    [
        ({"source": ""}, "test_it_is_described", "the metric `rmse` has no `source`"),
        (
            {"compute": lambda record: 0.5},
            "test_it_agrees_with_its_oracle",
            "7 float32: `rmse` gives 0.5, its oracle 0.0",
        ),
        (
            {"compute": lambda record: str(record.numel)},
            "test_odd_values_give_a_value_or_none",
            "NaN on one side: `rmse` gives a `str`, no number",
        ),
        ({"compute": None}, "test_it_agrees_with_its_oracle", "`rmse` has no `compute`, and names no accumulator"),
        (
            {"compute": None, "accumulator": "moments"},
            "test_it_agrees_with_its_oracle",
            "7 float32: `rmse` gives None, its oracle 0.0",
        ),
    ],
)
def test_why_a_metric_fails_names_what_is_wrong(tmp_path: Path, changes: dict[str, Any], test: str, why: str) -> None:
    assert metric_failures(tmp_path, replace(RMSE, **changes))[test] == why


SUM = """
import numpy as np

from probe_flow.metrics.accumulators.base import OfValues


class Above(OfValues, frozen=True, gc=False):
    name = "acme_above"
    count: float = 0.0

    @classmethod
    def update(cls, block):
        return cls(float(np.count_nonzero(block.target > block.golden)))

    def merge(self, right):
        return Above(self.count + right.count)

    def finish(self, record):
        compared = 0 if record.errors is None else record.errors.compared
        return {"rmse": self.count / compared} if compared else {}
"""


@pytest.mark.parametrize(
    ("code", "failing"),
    [
        ("", {}),
        (
            "Above.merge = lambda self, right: right",
            {"test_it_agrees_with_its_oracle": "70000 float64: `rmse` gives 0.0"},
        ),
        (
            "Above.update = classmethod(lambda cls, block, calls=[]: calls.append(1) or cls(float(len(calls))))",
            {
                "test_it_agrees_with_its_oracle": "7 float32: `rmse` gives ",
                "test_its_sum_is_the_same_however_the_work_is_split": "split at the blocks (0, 1, 2, 3, 4, 5), `acme",
                "test_the_same_record_gives_the_same_value": "`rmse` changes with what came before",
            },
        ),
        (
            "Above.to_text = lambda self: f'[{self.count // 2}]'",
            {"test_its_sum_can_be_stored": "1000 float32: Above(count="},
        ),
        (
            "Above.finish = lambda self, record: {'rsme': 0.5}",
            {"test_it_agrees_with_its_oracle": "7 float32: `rmse` gives None, its oracle 0.0"},
        ),
    ],
)
def test_a_broken_sum_fails_by_name(tmp_path: Path, site: Site, code: str, failing: dict[str, str]) -> None:
    name = f"acme_above_{len(code)}"  # a name is looked up once in a process
    text = f"{SUM}\n{code}".replace("acme_above", name)
    site.install("acme_sums", "probe_flow.accumulators", f"{name} = acme_sums:Above", text)

    class Tests(MetricTests):
        metric = replace(RMSE, compute=None, accumulator=name)

        def oracle(self, target: Any, golden: Any) -> float:
            return float(np.mean(target > golden))

    found = failures(Tests, tmp_path / "tests")
    assert found.keys() == failing.keys(), found
    assert all(found[name].startswith(why) for name, why in failing.items()), found


def layout_failures(folder: Path, *cells: Any, header: tuple[str, ...] = ("Name",), **more: Any) -> dict[str, str]:
    def table(comparison: Any, **_: Any) -> Table:
        rows = ((Color.NONE, [cell() if callable(cell) else cell for cell in cells]) for _ in comparison.rows)
        return Table(header, frozenset(), iter(list(rows)))

    class Tests(LayoutTests):
        layout = Layout("acme", table, **more)

    return failures(Tests, folder)


@pytest.mark.parametrize(
    ("cells", "more", "test", "why"),
    [
        (["text", 1], {}, "test_every_row_fits_the_header", "one row that agrees: 2 cells below 1 columns"),
        ([float("nan")], {}, "test_cells_are_text_or_finite_numbers", "one row that agrees: the cell nan of `Name`"),
        ([True], {}, "test_cells_are_text_or_finite_numbers", "one row that agrees: the cell True of `Name`"),
        (
            ["=1+1"],
            {},
            "test_no_text_is_a_formula",
            "one row that agrees: a spreadsheet program would evaluate the cell '=1+1'",
        ),
        (
            [iter(range(1000)).__next__],
            {},
            "test_a_table_is_the_same_every_time",
            "two tables of one comparison differ",
        ),
        (
            ["text"],
            {"columns": ("more",)},
            "test_further_columns_are_there_when_asked_for",
            "the column `more` is not there when it is asked for",
        ),
        (["text"], {"write": lambda *_: None}, "test_it_is_written_as_csv", "nothing: no file is written"),
    ],
)
def test_a_broken_layout_fails_by_name(
    tmp_path: Path, cells: list[Any], more: dict[str, Any], test: str, why: str
) -> None:
    assert layout_failures(tmp_path, *cells, **more) == {test: why}


def test_a_healthy_layout_fails_nowhere(tmp_path: Path) -> None:
    assert layout_failures(tmp_path, "text") == {}


def format_failures(
    folder: Path, name: str = "acme.txt", text: Callable[[], str] = lambda: "", **more: Any
) -> dict[str, str]:
    def files(request: Any, option: Any) -> list[ReportFile]:
        return [ReportFile(name, lambda path: None if text is None else path.write_text(text()) and None)]

    class Tests(FileFormatTests):
        file_format = FileFormat("acme", **{"files": files, **more})

    return failures(Tests, folder)


def silent_without_rows(request: Any, option: Any) -> Any:
    return request.one("acme", ".txt", Path.touch) if request.comparison.rows else ()


def complaining_in_text(request: Any, option: Any) -> Any:
    request.problems.append("it is late")
    return request.one("acme", ".txt", Path.touch)


def counting() -> Callable[[], str]:
    numbers = iter(range(1000))
    return lambda: str(next(numbers))


SAYS_WHY = "test_a_comparison_without_files_says_why"


@pytest.mark.parametrize(
    ("changes", "test", "why"),
    [
        ({"option": int}, "test_its_option_is_described", "the option of `acme` has no description"),
        (
            {"name": "../acme.txt"},
            "test_files_stay_in_the_folder_of_the_report",
            "nothing, option None: the file `../acme.txt` is not in the folder of the report",
        ),
        (
            {"text": counting()},
            "test_the_same_comparison_gives_the_same_bytes",
            "two reports of one comparison differ",
        ),
        (
            {"text": None},
            "test_every_comparison_is_written",
            "nothing, option None: `acme.txt` is announced and not written",
        ),
        (
            {"files": silent_without_rows},
            SAYS_WHY,
            "nothing, option None: `acme` gives no file, and does not say why",
        ),
        (
            {"files": complaining_in_text},
            SAYS_WHY,
            "nothing, option None: these problems are no `Diagnostic`: ['it is late']",
        ),
    ],
)
def test_a_broken_file_format_fails_by_name(tmp_path: Path, changes: dict[str, Any], test: str, why: str) -> None:
    assert format_failures(tmp_path, **changes) == {test: why}


def test_a_file_format_without_files_fails_by_name(tmp_path: Path) -> None:
    def files(request: Any, option: Any) -> tuple[()]:
        request.problems.append(Diagnostic("PF7101", "a package is missing"))
        return ()

    assert format_failures(tmp_path, files=files) == {SAYS_WHY: "`acme` gives no file of any comparison"}


def test_a_healthy_file_format_fails_nowhere(tmp_path: Path) -> None:
    assert format_failures(tmp_path) == {}


class Options(StageOptions):
    """Make a catalog."""

    uses: Literal["dump.acme"]
    path: str = Field(description="The dump.")


class Silent(Options):
    depth: int = 0


class Careless(StageOptions):
    uses: Literal["dump.acme"]
    path: str = Field(description="The dump.")
    model_config = ConfigDict(extra="ignore")


def run(options: Any, inputs: Any, context: Any) -> object:
    return builders.catalog([], side=context.stage)


def spoiling(options: Any, inputs: Any, context: Any) -> object:
    Path(options.path).write_text("mine")
    return run(options, inputs, context)


def looking(options: Any) -> None:
    Path(options.path).with_name("plan").write_text("")


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({}, {}),
        ({"summary": ""}, {"test_it_has_the_form_of_a_stage": "`dump.acme` has no summary"}),
        (
            {"options": Silent},
            {"test_every_option_is_described": "these options of `dump.acme` have no description: depth"},
        ),
        ({"options": Careless}, {"test_unknown_options_and_other_names_are_refused": "`dump.acme` takes {'path': "}),
        (
            {"run": lambda *_: "a catalog"},
            {"test_it_gives_what_it_says": "`dump.acme` produces catalogs, and gave a `str`"},
        ),
        ({"run": spoiling}, {"test_it_gives_what_it_says": "the run changed what it read"}),
        ({"forecast": looking}, {"test_its_forecast_looks_only": "its forecast changes files"}),
        ({"forecast": lambda _: "much"}, {"test_its_forecast_looks_only": "its forecast is a `str`"}),
    ],
)
def test_a_broken_stage_fails_by_name(tmp_path: Path, changes: dict[str, Any], failing: dict[str, str]) -> None:
    healthy = StageType("dump.acme", Kind.CATALOG, Options, run, "Makes a catalog.")

    class Tests(StageTests):
        stage = replace(healthy, **changes)

        def options(self, folder: Path) -> Mapping[str, Any]:
            (folder / "dump").write_text("theirs")
            return {"path": str(folder / "dump")}

    found = failures(Tests, tmp_path)
    # The options of this file are defined next to numpy, which `validate` must not load.
    found.pop("test_validating_imports_nothing_heavy")
    assert found.keys() == failing.keys()
    assert all(found[name].startswith(why) for name, why in failing.items())


def test_options_next_to_heavy_imports_fail_by_name(tmp_path: Path) -> None:
    (tmp_path / "acme_heavy_stage.py").write_text(
        "import numpy\n"
        "from typing import Literal\n"
        "from probe_flow.stages.base import Kind, StageOptions, StageType\n"
        "class Options(StageOptions):\n"
        "    uses: Literal['dump.acme']\n"
        "STAGE = StageType('dump.acme', Kind.CATALOG, Options, lambda *_: None, 'A stage.')\n"
    )
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from acme_heavy_stage import STAGE\n"
        "from probe_flow.testing.stages import StageTests\n"
        "tests = StageTests(); tests.stage = STAGE\n"
        "assert 'pytest' not in sys.modules\n"
        "tests.test_validating_imports_nothing_heavy()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 1
    assert "`acme_heavy_stage` imports ['numpy']; do that inside `run`" in done.stderr


@pytest.mark.parametrize("module", ["builders", "run_records", "readers", "metrics", "reports", "stages", "expect"])
def test_nothing_of_it_needs_pytest(module: str) -> None:
    code = f"import sys, probe_flow.testing.{module}; print('pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "False"
