from __future__ import annotations

import errno
from pathlib import Path

import pytest

from probe_flow.workflow.loading.loader import load_workflow
from probe_flow.workflow.templates.copying import SampleMissingError, WouldOverwriteError, copy_template
from probe_flow.workflow.templates.packaged import templates

TEXT = """# yaml-language-server: $schema=../schemas/workflow.schema.json
version: 1
name: demo
params:
  target: {type: path, sample: ../examples/demo/ge, help: a}   # kept
  golden: {type: path, sample: "../examples/demo/fx"}
  other: {type: path, default: elsewhere}
stages:
  target: {uses: dump.torchair_ge, path: "${params.target}"}
  golden: {uses: dump.torchair_fx, path: "${params.golden}"}
  other: {uses: dump.torchair_fx, path: "${params.other}"}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A packaged folder with one workflow and its sample data."""
    root = tmp_path / "packaged"
    (root / "workflows").mkdir(parents=True)
    (root / "workflows" / "demo.yaml").write_text(TEXT, encoding="utf-8")
    for name in ("ge", "fx"):
        (root / "examples" / "demo" / name).mkdir(parents=True)
        (root / "examples" / "demo" / name / "data.bin").write_bytes(name.encode())
    return root


def test_with_sample_the_copy_names_the_copied_data(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "new" / "place"

    copied = copy_template(
        root / "workflows" / "demo.yaml", output, with_sample=True, force=False, root=root, cache=tmp_path / "cache"
    )

    workflow = load_workflow(copied.workflow, env={}, cwd=tmp_path)
    assert workflow.params["target"] == str(output / "sample" / "demo" / "ge")
    assert workflow.params["golden"] == str(output / "sample" / "demo" / "fx")
    assert workflow.params["other"] == str(output / "elsewhere")
    assert Path(str(workflow.params["golden"]), "data.bin").read_bytes() == b"fx"
    assert copied.unset == ()
    text = copied.workflow.read_text(encoding="utf-8")
    assert "help: a}   # kept" in text
    assert text.startswith("# yaml-language-server: $schema=workflow.schema.json\nversion: 1\n")
    assert "# The sample of the packaged workflow. Put your own dumps in its place" in text


def test_without_sample_the_parameters_to_set_are_named(root: Path, tmp_path: Path) -> None:
    copied = copy_template(
        root / "workflows" / "demo.yaml", tmp_path, with_sample=False, force=False, root=root, cache=tmp_path / "cache"
    )

    assert copied.unset == ("target", "golden")
    assert copied.samples == ()
    assert "  target: {type: path, help: a}   # kept\n" in copied.workflow.read_text(encoding="utf-8")
    text = copied.workflow.read_text(encoding="utf-8")
    assert "sample" not in text
    above = text.partition("params:")[0].splitlines()
    assert "#   probe-flow run demo.yaml --set target=... --set golden=..." in above
    assert "#   target  a" in above
    assert "#   golden" in above
    assert not (tmp_path / "sample").exists()


def test_nothing_is_overwritten_without_force(root: Path, tmp_path: Path) -> None:
    template = root / "workflows" / "demo.yaml"
    (tmp_path / "demo.yaml").write_text("mine", encoding="utf-8")

    with pytest.raises(WouldOverwriteError):
        copy_template(template, tmp_path, with_sample=True, force=False, root=root, cache=tmp_path / "cache")

    assert (tmp_path / "demo.yaml").read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "sample").exists()
    copy_template(template, tmp_path, with_sample=True, force=True, root=root, cache=tmp_path / "cache")
    assert "version: 1" in (tmp_path / "demo.yaml").read_text(encoding="utf-8")


def test_a_full_disk_ends_the_copy_at_its_first_file(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "examples" / "demo" / "ge" / "more.bin").write_bytes(b"ge")
    tried: list[Path] = []

    def refuse(source: Path, copy: Path) -> None:
        tried.append(copy)
        raise OSError(errno.ENOSPC, "No space left on device", str(copy))

    monkeypatch.setattr("shutil.copyfile", refuse)
    with pytest.raises(OSError, match="No space left on device") as caught:
        copy_template(
            root / "workflows" / "demo.yaml", tmp_path, with_sample=True, force=False, root=root, cache=tmp_path / "c"
        )

    assert caught.value.errno == errno.ENOSPC
    assert len(tried) == 1
    assert not (tmp_path / "demo.yaml").exists()


def test_missing_sample_data_is_an_error_before_anything_is_copied(root: Path, tmp_path: Path) -> None:
    (root / "examples" / "demo" / "fx" / "data.bin").unlink()
    (root / "examples" / "demo" / "fx").rmdir()

    with pytest.raises(SampleMissingError):
        copy_template(
            root / "workflows" / "demo.yaml",
            tmp_path / "o",
            with_sample=True,
            force=False,
            root=root,
            cache=tmp_path / "cache",
        )

    assert not (tmp_path / "o").exists()


def test_a_sample_may_be_one_file(root: Path, tmp_path: Path) -> None:
    file = root / "examples" / "demo" / "rules.json"
    file.write_text("{}", encoding="utf-8")
    template = root / "workflows" / "demo.yaml"
    template.write_text(TEXT.replace("default: elsewhere", "sample: ../examples/demo/rules.json"), encoding="utf-8")

    copied = copy_template(
        template, tmp_path / "new", with_sample=True, force=False, root=root, cache=tmp_path / "cache"
    )

    assert (tmp_path / "new" / "sample" / "demo" / "rules.json").read_text(encoding="utf-8") == "{}"
    workflow = load_workflow(copied.workflow, env={}, cwd=tmp_path)
    assert workflow.params["other"] == str(tmp_path / "new" / "sample" / "demo" / "rules.json")


@pytest.mark.parametrize("template", sorted(templates().values()), ids=lambda path: path.stem)
def test_every_packaged_workflow_is_copied_with_its_sample(template: Path, tmp_path: Path) -> None:
    copied = copy_template(template, tmp_path, with_sample=True, force=False, cache=tmp_path / "cache")
    workflow = load_workflow(copied.workflow, env={}, cwd=tmp_path)
    paths = [Path(str(value)) for value in workflow.params.values() if str(value).startswith(str(tmp_path))]
    assert paths
    assert all(path.exists() for path in paths)
