"""Frameworks: what follows from a name."""

from __future__ import annotations

import msgspec
import pytest

from probe_flow.records import Framework
from probe_flow.records.frameworks import MINDSPORE, MINDTORCH, PYTORCH, named


@pytest.mark.parametrize(
    "name", ["pytorch", "mindspore", "mindtorch", "torchair_ge", "torchair_fx", "om", "npy", "arrays", ""]
)
def test_a_published_name_gives_its_framework_and_is_given_back(name: str) -> None:
    assert named(name).name == name
    assert named(name) is named(name)


def test_nothing_is_known_of_a_framework_that_is_none_of_ours() -> None:
    assert named("jax") == Framework("jax")
    assert (named("jax").kernels, named("jax").dialect) == (None, "jax")


def test_mindtorch_runs_the_kernels_of_mindspore_and_has_its_names() -> None:
    assert [each.dialect for each in (PYTORCH, MINDSPORE, MINDTORCH)] == ["pytorch", "mindspore", "mindspore"]
    assert MINDTORCH.kernels is MINDSPORE.kernels is not PYTORCH.kernels


def test_a_framework_is_plain_data() -> None:
    assert msgspec.json.decode(msgspec.json.encode(MINDTORCH), type=Framework) == MINDTORCH
