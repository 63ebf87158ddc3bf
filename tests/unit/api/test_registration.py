"""Things that a program registers: found by name, replaced when registered again, refused as those of packages are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import probe_flow as pf
from probe_flow.analysis.policies.torchair import TorchairPolicy
from probe_flow.dumps.registry import READERS, ReaderSpec
from probe_flow.metrics.catalogue.metric import Metric
from probe_flow.records import Catalog
from probe_flow.records.frameworks import Framework
from probe_flow.reports.layout import LAYOUTS
from probe_flow.stages.registry import STAGES
from probe_flow.testing.measured_pairs import STAGE


def metric(value: float, name: str = "constant") -> Metric:
    return Metric(name, "a constant", "R", "1", "this test", compute=lambda _record: value)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    for side in ("target", "golden"):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "x.npy", np.arange(4.0))
    return tmp_path / "target", tmp_path / "golden"


def constants(folders: tuple[Path, Path]) -> list[float]:
    return list(map(float, pf.compare(*folders, metrics=["constant"]).rows().columns()["constant"]))


def test_a_metric_that_is_registered_again_takes_the_place_of_the_first(folders: tuple[Path, Path]) -> None:
    pf.register_metric(metric(1.0))
    assert constants(folders) == [1.0]
    pf.register_metric(metric(2.0))
    assert constants(folders) == [2.0]


@pytest.mark.parametrize("value", ["abc", [1.0], np.arange(2.0), object()])
def test_what_a_metric_gives_that_is_no_number_costs_the_row_and_not_the_record(
    folders: tuple[Path, Path], value: object
) -> None:
    pf.register_metric(metric(value))  # type: ignore[arg-type]
    run = pf.compare(*folders, metrics=["constant"])
    assert run.exit_code == 3
    reasons = [row.reason for row in run.rows()]
    assert all(reason is not None and "which is no number" in reason for reason in reasons), reasons


def test_what_a_metric_raises_is_said_with_its_name(folders: tuple[Path, Path]) -> None:
    def compute(record: object) -> float:
        raise ZeroDivisionError("no elements")

    pf.register_metric(replace(metric(1.0), compute=compute))
    run = pf.compare(*folders, metrics=["constant"])
    assert run.exit_code == 3
    causes = run.record.incomplete
    assert "the metric `constant` raised ZeroDivisionError: no elements, at test_registration.py:" in causes[0], causes
    assert "could not be read" not in causes[0]


def test_a_metric_may_give_a_number_of_numpy(folders: tuple[Path, Path]) -> None:
    pf.register_metric(metric(np.float32(0.5)))  # type: ignore[arg-type]
    assert constants(folders) == [0.5]


def test_a_reader_is_recognised_by_the_files_that_it_knows(tmp_path: Path) -> None:
    def read(path: str, *, side: str, select: object) -> Catalog:
        return Catalog(side, Framework("jot"), "statistics", path, {}, ())

    pf.register_reader(ReaderSpec("jot", lambda _folders, name: name.endswith(".jot"), "`.jot`", read))
    (tmp_path / "a.jot").touch()
    assert pf.read_dump(tmp_path).framework.name == "jot"
    assert "jot" in READERS
    assert READERS.plugins_of("jot") == []


def test_a_layout_and_a_stage_are_listed_and_found() -> None:
    pf.register_layout("plain", lambda _comparison, _path: None)
    pf.register_stage(STAGE)
    assert [*LAYOUTS].count("plain") == 1
    assert len(LAYOUTS) == len([*LAYOUTS])
    assert STAGES.find("testing.rounded").options is STAGE.options


@pytest.mark.parametrize(
    ("register", "code", "text"),
    [
        (lambda: pf.register_metric(metric(1.0, "cosine")), "PF5115", "the name is that of a metric of probe_flow"),
        (
            lambda: pf.register_policy("torchair", TorchairPolicy),
            "PF5002",
            "the name is that of a policy of probe_flow",
        ),
        (lambda: pf.register_metric("cosine2"), "PF5115", "it is no `Metric`"),  # type: ignore[arg-type]
        (lambda: pf.register_policy("p", object), "PF5002", "it gives no policy"),  # type: ignore[arg-type]
        (lambda: pf.register_layout("l", 3), "PF7003", "it is neither a `Layout` nor a function"),  # type: ignore[arg-type]
        (lambda: pf.register_reader(3), "PF3432", "it is no `ReaderSpec` but a `int`"),  # type: ignore[arg-type]
        (lambda: pf.register_stage(3), "PF1020", "it is no `StageType` but a `int`"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(register: Callable[[], Any], code: str, text: str) -> None:
    with pytest.raises(pf.UsageError, match=code) as caught:
        register()
    assert text in str(caught.value)
