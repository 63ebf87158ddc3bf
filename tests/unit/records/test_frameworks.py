"""Frameworks: what follows from a name."""

from __future__ import annotations

import msgspec
import pytest

from probe_flow.records import Framework
from probe_flow.records.frameworks import MINDSPORE, MINDTORCH, NPY, OM, PYTORCH, TORCHAIR_FX, TORCHAIR_GE, named


@pytest.mark.parametrize("name", ["pytorch", "mindspore", "mindtorch", "torchair_ge", "torchair_fx", "om", "npy", ""])
def test_a_published_name_gives_its_framework_and_is_given_back(name: str) -> None:
    assert named(name).name == name
    assert named(name) is named(name)


def test_nothing_is_known_of_a_framework_that_is_none_of_ours() -> None:
    assert named("jax") == Framework("jax")
    assert (named("jax").kernels, named("jax").is_offline, named("jax").dialect) == (None, False, "jax")


def test_mindtorch_runs_the_kernels_of_mindspore_and_has_its_names() -> None:
    assert [each.dialect for each in (PYTORCH, MINDSPORE, MINDTORCH)] == ["pytorch", "mindspore", "mindspore"]
    assert MINDTORCH.kernels is MINDSPORE.kernels is not PYTORCH.kernels


def test_only_dumps_of_compiled_models_are_no_path_of_values() -> None:
    ours = (PYTORCH, MINDSPORE, MINDTORCH, TORCHAIR_GE, TORCHAIR_FX, OM, NPY)
    assert [each for each in ours if each.is_offline] == [OM, NPY]


def test_a_framework_is_plain_data() -> None:
    assert msgspec.json.decode(msgspec.json.encode(MINDTORCH), type=Framework) == MINDTORCH
