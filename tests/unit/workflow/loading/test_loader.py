"""What a loaded workflow holds: parameters, paths, interpolation, extends, order, matrix."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from probe_flow.errors import WorkflowError
from probe_flow.stages.sizes import size_bytes
from probe_flow.workflow.loading.extends import MAX_CHAIN
from probe_flow.workflow.loading.loader import load_workflow
from probe_flow.workflow.model import ResolvedStage, Workflow, options_for_run
from probe_flow.workflow.templates.packaged import templates

Load = Callable[..., Workflow]

PAIRED = """
  golden: {uses: dump.torchair_fx, path: fx}
  pairs: {uses: match.torchair, target: target, golden: golden}
  result: {uses: compare, pairs: pairs}
"""


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write a workflow below ``tmp_path/flows`` and load it from ``tmp_path/here``."""

    def write_and_load(text: str, *, sets: dict[str, str] | None = None, env: dict[str, str] | None = None) -> Workflow:
        path = tmp_path / "flows" / "w.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text("version: 1\nname: w\n" + text if "version:" not in text else text, encoding="utf-8")
        (tmp_path / "here").mkdir(exist_ok=True)
        return load_workflow(path, sets=sets or {}, env=env or {}, cwd=tmp_path / "here")

    return write_and_load


def codes(error: pytest.ExceptionInfo[WorkflowError]) -> list[str]:
    return [diagnostic.code for diagnostic in error.value.diagnostics]


def stage(workflow: Workflow, name: str) -> ResolvedStage:
    return next(each for each in workflow.stages if each.name == name)


def option(workflow: Workflow, name: str, key: str) -> object:
    return getattr(stage(workflow, name).options, key)


def test_stages_are_ordered_by_need_and_otherwise_as_written(load: Load) -> None:
    workflow = load(
        "stages:\n"
        "  report: {uses: report, comparison: result}\n"
        "  result: {uses: compare, pairs: pairs}\n"
        "  pairs: {uses: match.torchair, target: b, golden: a}\n"
        "  b: {uses: dump.torchair_ge, path: b}\n"
        "  a: {uses: dump.torchair_fx, path: a}\n"
    )

    assert [each.name for each in workflow.stages] == ["b", "a", "pairs", "result", "report"]
    assert dict(stage(workflow, "pairs").inputs) == {"target": ("b",), "golden": ("a",)}
    assert stage(workflow, "pairs").span.line == 6


def test_a_comparison_named_by_only_is_an_input(load: Load) -> None:
    workflow = load(
        "stages:\n  target: {uses: dump.torchair_ge, path: ge}" + PAIRED + "  again: "
        "{uses: compare, pairs: pairs, only: {comparison: result, where: {verdict: fail}}}\n"
    )

    assert dict(stage(workflow, "again").inputs) == {"pairs": ("pairs",), "only.comparison": ("result",)}


def test_defaults_of_the_top_level(load: Load) -> None:
    workflow = load("stages:\n  a: {uses: dump.torchair_ge, path: ge}\n")

    assert (workflow.io, workflow.metrics_backend, workflow.description) == ("auto", "auto", None)
    assert (workflow.executor.scheduler, workflow.executor.workers) == ("auto", None)
    assert (workflow.cache.key, workflow.cache.tensors, workflow.cache.dir) == ("stat", "auto", None)


def test_paths_in_a_file_start_from_the_file(load: Load, tmp_path: Path) -> None:
    workflow = load("stages:\n  a: {uses: dump.torchair_ge, path: ../data/./ge}\ncache: {dir: .cache}\n")

    assert option(workflow, "a", "path") == str(tmp_path / "data" / "ge")
    assert workflow.cache.dir == str(tmp_path / "flows" / ".cache")


def test_absolute_paths_stay(load: Load) -> None:
    assert option(load("stages:\n  a: {uses: dump.torchair_ge, path: /data/ge}\n"), "a", "path") == "/data/ge"


@pytest.mark.parametrize("kind", ["path", "str"])
def test_set_paths_start_from_the_working_directory(load: Load, tmp_path: Path, kind: str) -> None:
    text = (
        f"params:\n  p: {{type: {kind}, default: d}}\nstages:\n  a: {{uses: dump.torchair_ge, path: '${{params.p}}'}}\n"
    )

    assert option(load(text), "a", "path") == str(tmp_path / "flows" / "d")
    assert option(load(text, sets={"p": "ge"}), "a", "path") == str(tmp_path / "here" / "ge")


def test_a_path_parameter_inside_a_longer_path_is_absolute_first(load: Load, tmp_path: Path) -> None:
    text = (
        "params:\n  p: {type: path, default: d}\nstages:\n  a: {uses: dump.torchair_ge, path: '${params.p}/x/../ge'}\n"
    )

    assert option(load(text), "a", "path") == str(tmp_path / "flows" / "d" / "ge")
    assert option(load(text, sets={"p": "e"}), "a", "path") == str(tmp_path / "here" / "e" / "ge")


def test_a_path_from_the_environment_starts_from_the_working_directory(load: Load, tmp_path: Path) -> None:
    text = "stages:\n  a: {uses: dump.torchair_ge, path: '${env.DUMP}'}\n"

    assert option(load(text, env={"DUMP": "ge"}), "a", "path") == str(tmp_path / "here" / "ge")


def test_paths_of_a_base_start_from_the_base(load: Load, tmp_path: Path) -> None:
    base = tmp_path / "base" / "b.yaml"
    base.parent.mkdir()
    base.write_text(
        "version: 1\nname: b\nparams: {p: {type: path, default: p}}\n"
        "stages:\n  a: {uses: dump.torchair_ge, path: ge}\n  b: {uses: dump.torchair_ge, path: '${params.p}'}\n"
        "  c: {uses: dump.torchair_ge, path: c}\n",
        encoding="utf-8",
    )

    workflow = load("version: 1\nextends: ../base/b.yaml\nname: w\nstages:\n  c: {path: c}\n")

    assert option(workflow, "a", "path") == str(tmp_path / "base" / "ge")
    assert option(workflow, "b", "path") == str(tmp_path / "base" / "p")
    assert option(workflow, "c", "path") == str(tmp_path / "flows" / "c")


def test_extends_merges_mappings_replaces_the_rest_and_null_deletes(load: Load, tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "b.yaml").write_text(
        "version: 1\nname: b\ndescription: base\nstages:\n"
        "  a: {uses: dump.torchair_ge, path: ge, select: {ranks: [0, 1], steps: [2]}, duplicates: first}\n"
        "  gone: {uses: dump.torchair_ge, path: ge}\n",
        encoding="utf-8",
    )

    workflow = load(
        "version: 1\nextends: b.yaml\nname: w\nstages:\n  a: {select: {ranks: [3]}, duplicates: null}\n  gone: null\n"
    )

    assert (workflow.name, workflow.description) == ("w", "base")
    assert [each.name for each in workflow.stages] == ["a"]
    select = stage(workflow, "a").options.select  # type: ignore[attr-defined]
    assert (select.ranks, select.steps) == ([3], [2])
    assert option(workflow, "a", "duplicates") == "newest"


def test_a_base_may_extend_another_base(load: Load, tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "one.yaml").write_text(
        "version: 1\nname: one\nstages: {a: {uses: dump.torchair_ge, path: ge}}\nio: mmap\n", encoding="utf-8"
    )
    (tmp_path / "flows" / "two.yaml").write_text("extends: one.yaml\nname: two\nio: read\n", encoding="utf-8")

    workflow = load("version: 1\nextends: two.yaml\nname: three\n")

    assert (workflow.name, workflow.io, [each.name for each in workflow.stages]) == ("three", "read", ["a"])


def test_a_parameter_that_the_extending_file_has_no_use_for_is_its_own_affair(load: Load, tmp_path: Path) -> None:
    base = "version: 1\nname: base\nparams:\n  golden: {type: path, default: /g}\nstages:\n"
    base += (
        "  target: {uses: dump.torchair_ge, path: /t}\n  golden: {uses: dump.torchair_ge, path: '${params.golden}'}\n"
    )
    (tmp_path / "base.yaml").write_text(base)
    text = "version: 1\nname: mine\nextends: ../base.yaml\nstages:\n  golden: {path: /mine}\n"
    assert load(text).warnings == ()
    (warning,) = load(text, sets={"golden": "/other"}).warnings
    assert (warning.code, warning.span.file) == ("PF1310", "command line")
    own = text + "params: {mine: {type: int, default: 1}}\n"
    assert [warning.message for warning in load(own).warnings] == ["nothing uses the parameter `mine`"]


def test_the_packaged_template_can_be_extended(load: Load) -> None:
    sets = {"target": "ge", "golden": "fx"}
    workflow = load("version: 1\nextends: template:torchair-ge-vs-fx\nname: mine\n", sets=sets)

    assert "result" in [each.name for each in workflow.stages]
    assert not workflow.is_sample


PACKAGED = sorted(templates().values())


def unset(error: WorkflowError) -> set[str]:
    """The parameters that lack a value; nothing else is wrong."""
    assert {each.code for each in error.diagnostics} == {"PF1302"}
    return {each.message.split("`")[1] for each in error.diagnostics}


@pytest.mark.parametrize("template", PACKAGED, ids=lambda path: path.stem)
def test_the_sample_of_a_packaged_workflow_is_used_only_where_it_is_run_as_it_is(
    template: Path, tmp_path: Path
) -> None:
    params = yaml.safe_load(template.read_text(encoding="utf-8"))["params"]
    declared = {name for name, param in params.items() if not param.get("optional") and "default" not in param}
    workflow = load_workflow(template, env={}, cwd=tmp_path)
    assert workflow.is_sample
    assert all(Path(str(workflow.params[name])).exists() for name in declared)

    (tmp_path / "mine.yaml").write_text(
        f"version: 1\nextends: template:{template.stem}\nname: mine\n", encoding="utf-8"
    )
    with pytest.raises(WorkflowError) as caught:
        load_workflow(tmp_path / "mine.yaml", env={}, cwd=tmp_path)
    assert unset(caught.value) == declared

    for name in declared if len(declared) > 1 else ():  # a part of them
        with pytest.raises(WorkflowError) as caught:
            load_workflow(template, env={}, cwd=tmp_path, sets={name: "mine"})
        assert unset(caught.value) == declared - {name}

    whole = load_workflow(template, env={}, cwd=tmp_path, sets=dict.fromkeys(declared, "mine"))
    assert not whole.is_sample
    assert {whole.params[name] for name in declared} == {str(tmp_path / "mine")}


def test_an_extending_file_brings_samples_of_its_own_or_none(load: Load, tmp_path: Path) -> None:
    base = "version: 1\nextends: template:torchair-ge-vs-fx\nname: mine\nparams:\n"
    one = base + "  target: {sample: ge}\n"
    with pytest.raises(WorkflowError) as caught:
        load(one)
    assert unset(caught.value) == {"target", "golden"}
    with pytest.raises(WorkflowError) as caught:
        load(base + "  target: {default: ge}\n")
    assert unset(caught.value) == {"golden"}

    workflow = load(one + "  golden: {sample: fx}\n")
    assert workflow.is_sample
    assert workflow.params == {"target": str(tmp_path / "flows" / "ge"), "golden": str(tmp_path / "flows" / "fx")}


def test_only_paths_have_samples(load: Load) -> None:
    with pytest.raises(WorkflowError) as caught:
        load("params:\n  n: {type: int, sample: '3'}\nstages:\n  a: {uses: dump.torchair_ge, path: ge}\n")
    assert "a `sample` is data in a file or folder" in caught.value.diagnostic.message


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "012", 12),
        ("int", "-3", -3),
        ("float", "1e-3", 0.001),
        ("float", "2", 2.0),
        ("bool", "true", True),
        ("str", "no", "no"),
        ("str", "", ""),
        ("str", "a=b", "a=b"),
        ("list", "0,1", [0, 1]),
        ("list", "[a, 1e-3]", ["a", 0.001]),
        ("list", "", []),
    ],
)
def test_set_values_are_read_by_the_type_of_the_parameter(load: Load, kind: str, text: str, value: object) -> None:
    workflow = load(
        f"params: {{p: {{type: {kind}}}}}\nstages: {{a: {{uses: dump.torchair_ge, path: '${{env.X}}'}}}}\n",
        sets={"p": text},
        env={"X": "/x"},
    )

    assert workflow.params == {"p": value}
    assert type(workflow.params["p"]) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "1.0"),
        ("int", "x"),
        ("int", ""),
        ("float", "x"),
        ("bool", "yes"),
        ("bool", "1"),
        ("list", "[[a]]"),
        ("list", "a]\nb: ["),
        ("path", ""),
    ],
)
def test_set_values_of_another_type_are_errors_at_the_command_line(load: Load, kind: str, text: str) -> None:
    with pytest.raises(WorkflowError) as error:
        load(
            f"params: {{p: {{type: {kind}}}}}\nstages: {{a: {{uses: dump.torchair_ge, path: ge}}}}\n", sets={"p": text}
        )

    assert codes(error) == ["PF1304"]
    span = error.value.diagnostic.span
    assert span is not None
    assert (span.file, span.line, span.column) == ("command line", 1, len("--set p=") + 1)


def test_a_whole_value_keeps_its_type_and_inside_a_text_it_becomes_text(load: Load) -> None:
    workflow = load(
        "params:\n  n: {type: int, default: 3}\n  r: {type: list, default: [0, 1]}\n  f: {type: bool, default: true}\n"
        "stages:\n  a: {uses: dump.torchair_ge, path: ge, select: {ranks: '${params.r}', steps: ['${params.n}']},"
        " description: 'n=${params.n} f=${params.f} x=${env.X} $${params.n} $5 $'}\n",
        env={"X": "é"},
    )

    select = stage(workflow, "a").options.select  # type: ignore[attr-defined]
    assert (select.ranks, select.steps) == ([0, 1], [3])
    assert option(workflow, "a", "description") == "n=3 f=true x=é ${params.n} $5 $"


def test_values_are_interpolated_once(load: Load) -> None:
    workflow = load(
        "params: {p: {type: str}}\n"
        "stages: {a: {uses: dump.torchair_ge, path: x, description: '${params.p} ${env.E}'}}\n",
        sets={"p": "${env.SECRET}"},
        env={"E": "${params.p}", "SECRET": "s"},
    )

    assert option(workflow, "a", "description") == "${env.SECRET} ${params.p}"


def test_an_optional_parameter_without_value_drops_what_uses_it(load: Load) -> None:
    text = (
        "params: {t: {type: str, optional: true}}\nstages:\n"
        "  a: {uses: dump.torchair_ge, path: ge, time: '${params.t}',"
        " select: {nodes: [x, 'a${params.t}']}, description: 'd ${params.t}'}\n"
    )

    unset = load(text)
    assert unset.params == {"t": None}
    assert (option(unset, "a", "time"), option(unset, "a", "description")) == (None, None)
    assert stage(unset, "a").options.select.nodes == ["x"]  # type: ignore[attr-defined]
    assert option(load(text, sets={"t": "20240131120000"}), "a", "time") == "20240131120000"


def test_the_run_folder_is_filled_in_when_it_is_known(load: Load) -> None:
    workflow = load(
        "stages:\n  target: {uses: dump.torchair_ge, path: ge}" + PAIRED + "  report: "
        "{uses: report, comparison: result, output: '${run.output}/tables'}\n"
    )

    options = stage(workflow, "report").options
    assert options.output == "${run.output}/tables"  # type: ignore[attr-defined]
    assert options_for_run(options, Path("/runs/1")).output == "/runs/1/tables"  # type: ignore[attr-defined]
    assert options.output == "${run.output}/tables"  # type: ignore[attr-defined]


def test_consumers_follow_a_matrix_in_lockstep_and_a_report_collects(load: Load, tmp_path: Path) -> None:
    workflow = load(
        "stages:\n"
        "  target: {uses: dump.torchair_ge, path: 'ge/${matrix.m}', matrix: {m: [a, b]}}\n"
        "  golden: {uses: dump.torchair_fx, path: 'fx/${matrix.m}', matrix: {m: [a, b]}}\n"
        "  pairs: {uses: match.torchair, target: target, golden: golden}\n"
        "  result: {uses: compare, pairs: pairs, description: 'of ${matrix.m}'}\n"
        "  report: {uses: report, comparison: result}\n"
    )

    assert [each.name for each in workflow.stages] == [
        "target[m=a]",
        "target[m=b]",
        "golden[m=a]",
        "golden[m=b]",
        "pairs[m=a]",
        "pairs[m=b]",
        "result[m=a]",
        "result[m=b]",
        "report",
    ]
    assert dict(stage(workflow, "pairs[m=b]").inputs) == {"target": ("target[m=b]",), "golden": ("golden[m=b]",)}
    assert dict(stage(workflow, "report").inputs) == {"comparison": ("result[m=a]", "result[m=b]")}
    assert option(workflow, "golden[m=b]", "path") == str(tmp_path / "flows" / "fx" / "b")
    assert option(workflow, "result[m=b]", "description") == "of b"
    assert option(workflow, "target[m=a]", "matrix") is None


def test_entries_of_different_names_give_every_combination(load: Load) -> None:
    workflow = load(
        "stages:\n"
        "  target: {uses: dump.torchair_ge, path: '${matrix.m}', matrix: {m: [a, b]}}\n"
        "  golden: {uses: dump.torchair_fx, path: '${matrix.n}', matrix: {n: [1, 2]}}\n"
        "  pairs: {uses: match.torchair, target: target, golden: golden}\n".replace("'${matrix.n}'", "'g${matrix.n}'")
    )

    pairs = {each.name: dict(each.inputs) for each in workflow.stages if each.name.startswith("pairs")}
    expected = {
        f"pairs[m={m},n={n}]": {"target": (f"target[m={m}]",), "golden": (f"golden[n={n}]",)}
        for m in "ab"
        for n in "12"
    }
    assert pairs == expected
    assert list(pairs) == list(expected)


def test_a_matrix_may_choose_the_consumed_stage(load: Load) -> None:
    workflow = load(
        "stages:\n  one: {uses: dump.torchair_ge, path: a}\n  two: {uses: dump.torchair_ge, path: b}\n"
        "  golden: {uses: dump.torchair_fx, path: fx}\n"
        "  pairs: {uses: match.torchair, target: '${matrix.t}', golden: golden, matrix: {t: [one, two]}}\n"
    )

    assert stage(workflow, "pairs[t=two]").inputs["target"] == ("two",)


def test_matrix_values_that_do_not_fit_a_name_are_numbered(load: Load) -> None:
    workflow = load("stages:\n  a: {uses: dump.torchair_ge, path: '${matrix.p}', matrix: {p: [../x, y, 'b c']}}\n")

    assert [each.name for each in workflow.stages] == ["a[p=#0]", "a[p=y]", "a[p=#2]"]


def test_all_mistakes_of_several_kinds_come_at_once_in_order_of_place(load: Load) -> None:
    with pytest.raises(WorkflowError) as error:
        load(
            "params: {p: {type: int, default: x}}\nstages:\n  a: {uses: dump.torchair_gee, path: '${params.q}'}\n"
            "  b: {uses: match.torchair, target: a, golden: c, step_offset: z}\n",
            sets={"nope": "1"},
        )

    assert codes(error) == ["PF1303", "PF1304", "PF2002", "PF1301", "PF2003", "PF1202"]


def test_one_mistake_in_a_matrix_stage_is_reported_once(load: Load) -> None:
    with pytest.raises(WorkflowError) as error:
        load("stages:\n  a: {uses: dump.torchair_ge, pth: '${matrix.m}', path: x, matrix: {m: [a, b, c]}}\n")

    assert codes(error) == ["PF1203"]


def test_nothing_below_a_path_is_touched(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object, *_args: object, **_options: object) -> os.stat_result:
        raise AssertionError(f"touched {path}")

    text = "stages:\n  a: {uses: dump.torchair_ge, path: /no/such/dump}\n"
    load(text)
    monkeypatch.setattr(Path, "exists", refuse)
    monkeypatch.setattr(os, "scandir", refuse)
    assert option(load(text), "a", "path") == "/no/such/dump"


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big.yaml").write_bytes(b"# " + b"x" * (1 << 20))

    with pytest.raises(WorkflowError) as error:
        load_workflow(Path("big.yaml"), env={}, cwd=tmp_path)

    assert codes(error) == ["PF1006"]


@pytest.mark.parametrize("name", ["none.yaml", ".", "none/none.yaml"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(WorkflowError) as error:
        load_workflow(Path(name), env={}, cwd=tmp_path)

    assert codes(error) == ["PF1008"]


@pytest.mark.parametrize(
    ("text", "value"),
    [("4GiB", 4 * 2**30), ("1.5 KiB", 1536), ("500MB", 500_000_000), ("12B", 12), ("2TB", 2 * 10**12)],
)
def test_sizes(text: str, value: int) -> None:
    assert size_bytes(text) == value


@pytest.mark.parametrize(("files", "code"), [(MAX_CHAIN, None), (MAX_CHAIN + 1, "PF1021"), (400, "PF1021")])
def test_a_chain_of_workflows_that_extend_each_other_has_an_end(load: Load, files: int, code: str | None) -> None:
    folder = load("stages: {a: {uses: dump.npy, path: x}}\n").path.parent
    for i in range(1, files):
        (folder / f"{i}.yaml").write_text(f"extends: {i + 1}.yaml\n", encoding="utf-8")
    (folder / f"{files - 1}.yaml").write_text("stages: {a: {uses: dump.npy, path: x}}\n", encoding="utf-8")
    if code is None:
        assert load("extends: 1.yaml\n").stages
        return
    with pytest.raises(WorkflowError) as caught:
        load("extends: 1.yaml\n")
    assert codes(caught) == [code]
    assert caught.value.diagnostic.span is not None
    assert caught.value.diagnostic.span.file.endswith(f"{MAX_CHAIN - 1}.yaml")
