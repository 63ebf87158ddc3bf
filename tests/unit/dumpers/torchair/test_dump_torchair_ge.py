"""Setting up torchair's CompilerConfig for a GE dump, for configs of several versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dumper_fakes import new_config, old_config

from probe_flow.dumpers.torchair.ge import GeDumpOptions, configure_ge_dump
from probe_flow.errors import UsageError


def failure(config: Any, path: Path, options: GeDumpOptions | None = None) -> UsageError:
    with pytest.raises(UsageError) as raised:
        configure_ge_dump(config, path, options)
    return raised.value


def test_defaults_dump_everything_with_graph_texts(tmp_path: Path) -> None:
    config, folder = new_config(), tmp_path / "ge"

    done = configure_ge_dump(config, folder)

    assert folder.is_dir()
    assert vars(config.debug.graph_dump) == {"type": "txt", "path": str(folder), "_path": "./"}
    assert config.dump_config.enable_dump is True
    assert config.dump_config.dump_path == str(folder)
    assert config.dump_config.dump_mode == "all"
    assert config.dump_config.dump_step == ""
    assert set(done) == {
        "debug.graph_dump.type", "debug.graph_dump.path", "dump_config.enable_dump", "dump_config.dump_path",
        "dump_config.dump_mode",
    }  # fmt: skip


def test_every_option_is_set(tmp_path: Path) -> None:
    config = new_config()
    options = GeDumpOptions("output", (0, 2, 5), ("Add_1", "layer/mm.x"), "statistics", quantised=True, fusion="off")

    configure_ge_dump(config, tmp_path / "ge", options)

    assert config.dump_config.dump_mode == "output"
    assert config.dump_config.dump_step == "0|2|5"
    assert config.dump_config.dump_layer == "Add_1 layer/mm.x"
    assert config.dump_config.dump_data == "stats"
    assert config.dump_config.quant_dumpable is True
    switch = Path(config.fusion_config.fusion_switch_file)
    assert json.loads(switch.read_text(encoding="utf-8")) == {
        "Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}
    }
    assert switch.parent == tmp_path


def test_own_switch_file_is_passed_on(tmp_path: Path) -> None:
    config = new_config()

    configure_ge_dump(config, tmp_path / "ge", GeDumpOptions(fusion_switch_file="/x/switch.json"))

    assert config.fusion_config.fusion_switch_file == "/x/switch.json"


def test_older_config_gets_what_it_has(tmp_path: Path) -> None:
    config = old_config()

    configure_ge_dump(config, tmp_path / "ge")

    assert config.debug.graph_dump._path == str(tmp_path / "ge")
    assert config.dump_config.enable_dump is True


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        (GeDumpOptions(steps=(1,)), "dump_config.dump_step"),
        (GeDumpOptions(layers=("Add",)), "dump_config.dump_layer"),
        (GeDumpOptions(data="statistics"), "dump_config.dump_data"),
        (GeDumpOptions(quantised=True), "dump_config.quant_dumpable"),
        (GeDumpOptions(fusion="off"), "fusion_config.fusion_switch_file"),
    ],
)
def test_option_that_a_version_lacks_is_an_error(tmp_path: Path, options: GeDumpOptions, missing: str) -> None:
    error = failure(old_config(), tmp_path / "ge", options)

    assert error.diagnostic.code == "PF6329"
    assert f"`{missing}`" in error.diagnostic.message


def test_rejected_value_is_an_error_with_torchairs_words(tmp_path: Path) -> None:
    error = failure(new_config(), tmp_path / "ge", GeDumpOptions(mode="both"))

    assert error.diagnostic.code == "PF6329"
    assert "one of input, output, all" in error.diagnostic.message


@pytest.mark.parametrize("layer", ["a b", "Add-1", "", "ä"])
def test_layer_names_of_other_characters_are_an_error(tmp_path: Path, layer: str) -> None:
    assert failure(new_config(), tmp_path / "ge", GeDumpOptions(layers=(layer,))).diagnostic.code == "PF6329"


def test_folder_with_an_earlier_dump_is_refused(tmp_path: Path) -> None:
    (tmp_path / "20260101000000").mkdir()

    assert failure(new_config(), tmp_path).diagnostic.code == "PF6321"
