"""Own functions: found at the start, or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from probe_flow.errors import FormatError, UsageError
from probe_flow.transform.reduce.reduce_functions import MAX_FUNCTION_BYTES, check_room, load_functions


def test_functions_are_tried_and_named_by_their_figures():
    single, double = load_functions(["numpy:mean", "numpy:shape"])
    assert (single.length, single.names) == (1, ("numpy:mean",))
    assert double.names == ("numpy:shape[0]", "numpy:shape[1]")
    assert double.figures(np.zeros((4, 5))) == (4.0, 5.0)


@pytest.mark.parametrize(
    "path",
    ["numpy", "numpy:", "numpy:nix", "nix_nix:f", ":f", "", "numpy:pi", "numpy:zeros_like", "numpy:iscomplexobj2",
     "builtins:str", "numpy:linalg.inv", "../x:f", "os.path"],
)  # fmt: skip
def test_what_is_no_function_of_a_tensor_is_refused_at_once(path):
    with pytest.raises(UsageError) as caught:
        load_functions([path, "numpy:mean"])
    assert [problem.code for problem in caught.value.diagnostics] == ["PF6303"]
    assert f"`{path}` cannot be used" in caught.value.diagnostic.message


def test_all_unusable_functions_are_told_at_once():
    with pytest.raises(UsageError) as caught:
        load_functions(["numpy:nix", "numpy:pi"])
    assert len(caught.value.diagnostics) == 2


def test_large_tensors_are_not_given_to_functions():
    check_room(MAX_FUNCTION_BYTES)
    with pytest.raises(FormatError, match="too large for functions"):
        check_room(MAX_FUNCTION_BYTES + 1)
