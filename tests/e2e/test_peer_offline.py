"""Offline models by the command line: the table in the peer tool's layout, cell by cell against the peer's files."""

from __future__ import annotations

import csv
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from offline_odd import write_odd
from run_records import first_divergence

from e2e.projects import Command, Done

DATA = Path(__file__).parents[1] / "data" / "offline"

FLOAT32 = 1e-5
"""Relative: the peer adds in float32 (unit roundoff 6e-8) over up to 5,120 elements, we in float64."""

LAST_DECIMAL = 1.0000001e-6
"""One unit of the last decimal that is printed."""


@dataclass(frozen=True)
class Case:
    """One comparison.

    Args:
        target, golden: folders.
        kinds: readers of both sides.
        rules: options of the match.
        code: exit code; None = what the analysis says of quantised operators is not tested here.
        origin: operator where the divergence begins.
    """

    target: str
    golden: str
    kinds: tuple[str, str]
    rules: dict[str, str]
    code: int | None
    origin: str | None


CASES = {
    "fr": Case("fr/target", "fr/golden", ("om", "npy"), {"fusion_rule": "fr/fusion_rule.json"}, 1, "fc"),
    "fr_overflow": Case("fr/target", "fr/golden", ("om", "npy"), {"fusion_rule": "fr/fusion_rule.json"}, 1, "fc"),
    "cfr": Case(
        "cfr/target",
        "cfr/golden",
        ("om", "om"),
        {"fusion_rule": "cfr/fusion_rule.json", "close_fusion_rule": "cfr/close_fusion_rule.json"},
        1,
        "fc",
    ),
    "om_vs_om": Case("om_vs_om/target", "om_vs_om/golden", ("om", "om"), {}, 1, "fc"),
    "qfr": Case(
        "qfr/target_om",
        "qfr/golden_origin",
        ("om", "npy"),
        {"fusion_rule": "qfr/fusion_rule.json", "quant_fusion_rule": "qfr/quant_fusion_rule.json"},
        None,
        None,
    ),
    "sliced": Case(
        "sliced/target", "sliced/golden", ("om", "npy"), {"fusion_rule": "sliced/fusion_rule.json"}, 0, None
    ),
    "qfr_npy": Case(
        "qfr/target_quant_npy",
        "qfr/golden_origin",
        ("npy", "npy"),
        {"quant_fusion_rule": "qfr/quant_fusion_rule.json"},
        None,
        None,
    ),
    "caffe": Case("caffe/target", "caffe/golden", ("om", "npy"), {"fusion_rule": "caffe/fusion_rule.json"}, 1, "pool1"),
    "tensorflow": Case(
        "tensorflow/target",
        "tensorflow/golden",
        ("om", "npy"),
        {"fusion_rule": "tensorflow/fusion_rule.json"},
        1,
        "block/conv2relu2",
    ),
    "odd": Case("odd/target", "odd/golden", ("om", "npy"), {"fusion_rule": "odd/fusion_rule.json"}, 3, "plain"),
}

WITH_OVERFLOW = frozenset({"fr_overflow", "odd"})
"""Cases with the column OverFlow, as the peer writes it together with its advice."""

ADVICE = {"fr_overflow": ("Global Consistency", "12"), "odd": ("FP16 Overflow", "16")}
"""What the peer advises: kind and index."""

COMPARED = (
    "DataType",
    "DataType",
    "CosineSimilarity",
    "MaxAbsoluteError",
    "AccumulatedRelativeError",
    "RelativeEuclideanDistance",
    "KullbackLeiblerDivergence",
    "StandardDeviation",
    "MeanAbsoluteError",
    "RootMeanSquareError",
    "MaxRelativeError",
    "MeanRelativeError",
    "CompareFailReason",
)
"""Columns that differ when only one of the two compared a tensor."""

PADDING = ("StandardDeviation",)
PADDING_OF_ERRORS = (
    "KullbackLeiblerDivergence",
    "StandardDeviation",
    "MeanAbsoluteError",
    "RootMeanSquareError",
    "MeanRelativeError",
)

DEVIATIONS: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {
    "fr_overflow": {
        "we read only tensors that have a partner": dict.fromkeys(
            (
                "trans_TransData_0:output:0",
                "conv1relu1:input:0",
                "conv1relu1:input:1",
                "block/conv_sc:input:1",
                "block/conv2block/relu2:input:1",
                "gap:input:0",
            ),
            ("OverFlow",),
        )
    },
    "cfr": {
        "the peer counts the padding of device layouts as values": {
            "conv1relu1:output:0": PADDING,
            "pool1:input:0": PADDING,
            "pool1:output:0": PADDING,
            "block/conv_sc:input:0": PADDING,
            "block/conv_sc:output:0": PADDING,
            "block/conv2block/relu2:input:0": PADDING,
            "block/conv2block/relu2:input:2": PADDING,
            "block/conv2block/relu2:output:0": PADDING,
            "fc:output:0": PADDING_OF_ERRORS,
        },
        "the peer forgets operators of the compiler while it merges two rule files, and calls their names unknown": {
            "conv1relu1:input:0": ("CompareFailReason",),
            "conv1relu1:input:1": ("CompareFailReason",),
            "block/conv_sc:input:1": ("CompareFailReason",),
        },
        "the same; we compare what they carry": {
            "fc:input:0": COMPARED,
            "trans_Cast_6:input:0": ("Shape", *COMPARED),
            "trans_Cast_6:output:0": ("Shape", *COMPARED),
            "softmax:input:0": ("Shape", *COMPARED),
            "argmax:input:0": ("Shape", *COMPARED),
        },
    },
    "odd": {
        "the peer flattens, and fills shapes up with ones": {"shape:output:0": ("CompareFailReason",)},
        "the peer compares the ninth channel of the golden with padding": {
            "shape4:output:0": ("Shape", "OverFlow", *COMPARED)
        },
        "we count infinities without their sign": {"minus_inf:output:0": ("StandardDeviation",)},
        "the peer shows a message of numpy": {"truth:output:0": ("CompareFailReason",)},
        "the peer's squares overflow float32": {"far:output:0": ("CosineSimilarity",)},
        "the peer shows the failures of its formulas for no elements": {
            "empty:output:0": (
                "DataType",
                "DataType",
                "CosineSimilarity",
                "AccumulatedRelativeError",
                "RelativeEuclideanDistance",
                "StandardDeviation",
                "MeanAbsoluteError",
                "RootMeanSquareError",
                "MeanRelativeError",
                "CompareFailReason",
            )
        },
        "the peer leaves the reason empty": {"in_range:input:1": ("CompareFailReason",)},
    },
}
"""Case -> why -> row -> columns that differ. In all other cells of all rows both are the same."""

OURS_ALONE = {
    "cfr": {
        # Operators of the compiler, of which the peer keeps one (see above).
        "conv1_w",
        "conv_sc_w",
        "trans_TransData_0:input:0",
        "trans_TransData_0:output:0",
        "trans_TransData_5:input:0",
        "trans_TransData_5:output:0",
        # Of two operators for one original, the peer keeps the one that does not carry the result.
        "gap:input:0",
        "gap:output:0",
    }
}
PEERS_ALONE = {"cfr": {"gap_sum:input:0", "gap_sum:output:0"}}


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("offline")
    for name in ("cases", "samples"):
        with tarfile.open(DATA / f"{name}.tar.xz") as archive:
            archive.extractall(root, filter="data")
    write_odd(root / "odd")
    return root


@pytest.fixture(params=CASES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def done(name: str, dumps: Path, tmp_path: Path, probe_flow: Command) -> Done:
    case = CASES[name]
    rules = "".join(f", {option}: {dumps / path}" for option, path in case.rules.items())
    columns = ", columns: [overflow]" if name in WITH_OVERFLOW else ""
    workflow = tmp_path / f"{name}.yaml"
    workflow.write_text(
        f"""version: 1
name: {name}
stages:
  target: {{uses: dump.{case.kinds[0]}, path: {dumps / case.target}}}
  golden: {{uses: dump.{case.kinds[1]}, path: {dumps / case.golden}}}
  pairs: {{uses: match.fusion_rule, target: target, golden: golden{rules}}}
  result: {{uses: compare, pairs: pairs, policy: offline, metrics: offline}}
  report: {{uses: report, comparison: result, formats: [{{csv: msaccucmp}}, advisor, mapping]{columns}}}
"""
    )
    return probe_flow("run", workflow)


def cells(path: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Return the header, and the rows by tensor, or by operators where a row has no tensor."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    tensor, target, golden = (header.index(column) for column in ("TensorIndex", "NPUDump", "GroundTruth"))
    keys = [row[tensor] if row[tensor] != "NaN" else row[target].replace("*", row[golden]) for row in rows]
    assert len(set(keys)) == len(rows)
    return header, dict(zip(keys, rows, strict=True))


def agrees(ours: str, theirs: str) -> bool:
    if ours == theirs:
        return True
    try:
        numbers = float(ours), float(theirs)
    except ValueError:
        return False
    return abs(numbers[0] - numbers[1]) <= LAST_DECIMAL + FLOAT32 * abs(numbers[1])


def in_order(keys: Iterable[str], others: Iterable[str]) -> list[str]:
    known = set(others)
    return [key for key in keys if key in known]


def deviations(table: Path, expected: Path, *, root: str = "") -> tuple[set[str], set[str], dict[str, set[str]]]:
    """Return rows of our table alone, of the peer's alone, and the columns that differ by row."""
    header, ours = cells(table)
    known, theirs = cells(expected)
    assert header == known
    assert in_order(ours, theirs) == in_order(theirs, ours)
    found = {}
    for key in in_order(ours, theirs):
        pairs = zip(header, ours[key], theirs[key], strict=True)
        columns = {column for column, mine, other in pairs if not agrees(mine, other.replace("ROOT/", root))}
        if columns:
            found[key] = columns
    return ours.keys() - theirs.keys(), theirs.keys() - ours.keys(), found


def test_every_cell_is_the_peers_but_for_known_deviations(name: str, done: Done, dumps: Path) -> None:
    (table,) = done.folder.glob("result_*.csv")
    known = {key: set(columns) for rows in DEVIATIONS.get(name, {}).values() for key, columns in rows.items()}
    assert deviations(table, DATA / f"{name}.csv", root=f"{dumps / name}/") == (
        OURS_ALONE.get(name, set()),
        PEERS_ALONE.get(name, set()),
        known,
    )


def test_a_batch_has_the_peers_files(dumps: Path, tmp_path: Path, probe_flow: Command) -> None:
    folder = dumps / "training"
    workflow = tmp_path / "training.yaml"
    workflow.write_text(
        f"""version: 1
name: training
stages:
  target: {{uses: dump.om, path: {folder / "target" / "20260101000000"}}}
  golden: {{uses: dump.npy, path: {folder / "golden"}}}
  pairs: {{uses: match.fusion_rule, target: target, golden: golden, fusion_rule: {folder / "rules"}}}
  result: {{uses: compare, pairs: pairs, policy: offline, metrics: offline}}
  report: {{uses: report, comparison: result, formats: [{{csv: msaccucmp}}]}}
"""
    )
    done = probe_flow("run", workflow)
    tables = {path.name.partition("_result_")[0]: path for path in done.folder.glob("*_result_*.csv")}
    assert sorted(tables) == ["0_ge_default_20260101000000_11_0", "1_ge_default_20260101000000_11_0"]
    for stem, table in tables.items():
        assert deviations(table, DATA / f"{stem}.csv") == (set(), set(), {})


def test_the_fault_is_named(name: str, done: Done) -> None:
    case = CASES[name]
    first = first_divergence(done.record)
    if case.code is None:
        return
    assert (done.code, first and first["node"]) == (case.code, case.origin)


def test_advice_and_mapping_are_written(name: str, done: Done) -> None:
    (advice,) = done.folder.glob("advisor_summary.txt")
    (mapping,) = done.folder.glob("mapping_*.csv")
    lines = advice.read_text().splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["Detection Type", "Operator Index", "Expert Advice"]
    if name in ADVICE:
        assert tuple(line.partition(": ")[2] for line in lines[:2]) == ADVICE[name]
    assert any("Root Cause: " in line for line in lines) == (first_divergence(done.record) is not None)
    assert len(mapping.read_text().splitlines()) > 1


@pytest.fixture
def table_of(dumps: Path, tmp_path: Path, probe_flow: Command) -> Callable[[str], Path]:
    def run(select: str) -> Path:
        workflow = tmp_path / "select.yaml"
        rules = dumps / "fr" / "fusion_rule.json"
        workflow.write_text(
            f"""version: 1
name: select
stages:
  target: {{uses: dump.om, path: {dumps / "fr" / "target"}}}
  golden: {{uses: dump.npy, path: {dumps / "fr" / "golden"}}}
  pairs: {{uses: match.fusion_rule, target: target, golden: golden, fusion_rule: {rules}, select: {select}}}
  result: {{uses: compare, pairs: pairs, policy: offline, metrics: offline}}
  report: {{uses: report, comparison: result, formats: [{{csv: msaccucmp}}]}}
"""
        )
        (table,) = probe_flow("run", workflow).folder.glob("result_*.csv")
        return table

    return run


def test_chosen_operators_alone_and_their_sequence(table_of: Callable[[str], Path]) -> None:
    # What the peer shows for `-s 4,7,9,10,2,1`.
    with table_of("{ids: [4, 7, 9, 10, 2, 1]}").open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = [(row["Index"], row["OpSequence"], row["NPUDump"], row["TensorIndex"]) for row in rows]
    assert found == [
        ("0", "1", "x", "NaN"),
        ("1", "2", "conv1_w", "NaN"),
        ("3", "4", "conv1relu1", "conv1relu1:input:0"),
        ("3", "4", "conv1relu1", "conv1relu1:input:1"),
        ("3", "4", "conv1relu1", "conv1relu1:output:0"),
        ("6", "7", "block/conv_sc", "block/conv_sc:input:0"),
        ("6", "7", "block/conv_sc", "block/conv_sc:input:1"),
        ("6", "7", "block/conv_sc", "block/conv_sc:output:0"),
        ("8", "10", "gap_sum,gap", "gap:input:0"),
        ("8", "10", "gap_sum,gap", "gap:output:0"),
    ]


def test_a_mapping_alone_measures_nothing(dumps: Path, tmp_path: Path, probe_flow: Command) -> None:
    workflow = tmp_path / "mapping.yaml"
    workflow.write_text(
        f"""version: 1
name: mapping
stages:
  target: {{uses: dump.om, path: {dumps / "odd" / "target"}}}
  golden: {{uses: dump.npy, path: {dumps / "odd" / "golden"}}}
  pairs: {{uses: match.fusion_rule, target: target, golden: golden, fusion_rule: {dumps / "odd" / "fusion_rule.json"}}}
  mapping: {{uses: report.pairs, pairs: pairs}}
"""
    )
    done = probe_flow("run", workflow)
    (table,) = done.folder.glob("mapping_*.csv")
    text = table.read_text().replace(f"{dumps / 'odd'}/", "ROOT/")
    assert (done.code, text) == (0, (DATA / "odd_mapping.csv").read_text())
    assert not (done.folder / "comparison.jsonl").exists()


@pytest.mark.parametrize("wanted", ["4,9,2", "1,-1,3", "9,9,1"])
def test_a_range_has_the_peers_rows(wanted: str, table_of: Callable[[str], Path]) -> None:
    # 9 and 10 are fused: id 9 selects the rows of the group, whose result comes from 10.
    table = table_of(f'{{range: "{wanted}"}}')
    expected = DATA / "ranges" / f"{wanted.replace(',', '_')}.csv"
    assert deviations(table, expected) == (set(), set(), {})
