"""What a call of a dump may name: operators of a framework, and nothing else that lies below its modules."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from types import ModuleType

import pytest

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.operators import operator


def library() -> ModuleType:
    """A framework with operators, and all that may lie beside them."""

    def plus(x: int) -> int:
        return x + 1

    def save(path: str) -> None:
        raise AssertionError(path)

    def run(command: str) -> None:
        raise AssertionError(command)

    plus.__module__, save.__module__, run.__module__ = "lib.functional", "lib.functional", "lib.tools"
    home, linalg = ModuleType("lib"), ModuleType("lib.linalg")
    for name, value in {"plus": plus, "save": save, "run": run, "os": os, "linalg": linalg, "number": 3}.items():
        setattr(home, name, value)
    linalg.plus = plus  # type: ignore[attr-defined]
    linalg.os = os  # type: ignore[attr-defined]
    home.Writer = type("Writer", (), {})  # type: ignore[attr-defined]
    home.system = os.system  # type: ignore[attr-defined]
    home.popen = subprocess.Popen  # type: ignore[attr-defined]
    return home


@pytest.mark.parametrize("api", ["plus", "linalg.plus"])
def test_operators_are_found(api):
    found = operator(library(), api, ("lib.functional",))
    assert found is not None
    assert found(1) == 2


@pytest.mark.parametrize("api", ["minus", "number", "linalg.minus"])
def test_what_is_not_there_is_none(api):
    assert operator(library(), api, ("lib.functional",)) is None


STRANGERS = (
    "os.system", "linalg.os.system", "system", "popen", "save", "run", "Writer", "plus.__globals__.get", "linalg.save",
)  # fmt: skip


@pytest.mark.parametrize("api", STRANGERS)
def test_all_else_is_refused(api):
    home = library()
    home.linalg.save = home.save
    with pytest.raises(UnusableError, match="is no operator that is computed"):
        operator(home, api, ("lib.functional",))


HOSTILE = (
    "os.system", "save", "load", "hub.load", "compile", "from_file", "ops.load_library", "_C._import_ir_module",
    "import_ir_module", "PyTorchFileWriter", "set_num_threads", "utils.cpp_extension.load_inline", "jit.load",
    "serialization.save", "Tensor", "manual_seed",
)  # fmt: skip


def refusal(side: object, kind: str, name: str) -> str:
    try:
        side.find(kind, name)  # type: ignore[attr-defined]
    except UnusableError as error:
        return error.reason
    return ""


@pytest.mark.frameworks
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torch_gives_the_apis_that_dumps_record_and_no_others():
    from probe_flow.apis.torch_side import TorchSide
    from probe_flow.dumpers.torch.api_names import CALLS

    side = TorchSide()
    others = [("Tensor", "tofile"), ("Tensor", "__class__"), ("Aten", "from_file"), ("Functional", "os.system")]
    hostile = [*(("Torch", name) for name in HOSTILE), *others]
    assert [each for each in hostile if not refusal(side, *each)] == []
    known = [("Aten", "gelu.default"), ("Aten", "gelu"), ("Torch", "fft.fft"), ("Torch", "special.erf")]
    known += [("Torch", "sparse.mm"), ("Tensor", "__rsub__"), ("Functional", "max_pool2d"), ("Torch", "pca_lowrank")]
    known += [(kind, name) for kind in ("Functional", "Tensor", "Torch") for name in CALLS[kind]]
    refused = [each for each in known if "is no operator" in refusal(side, *each)]  # other versions have other names
    assert refused == [("Tensor", "map_")]  # it runs a function of Python, which no dump holds
    assert len(known) > 1000


@pytest.mark.frameworks
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torch_computes_what_mindspore_calls_as_it_does():
    """`mindspore.ops` has what torch has in two places, and its method `transpose` takes two axes or all of them."""
    import torch

    from probe_flow.apis.torch_side import TorchSide

    side = TorchSide()
    x = torch.arange(24.0).reshape(2, 3, 4)
    transpose, name = side.find("Tensor", "transpose")
    assert name == "torch.Tensor.transpose"
    assert torch.equal(transpose(x, 0, 2), x.permute(2, 1, 0))
    assert torch.equal(transpose(x, dim0=1, dim1=2), x.permute(0, 2, 1))
    for axes in ((2, 0, 1), ((2, 0, 1),)):
        assert torch.equal(transpose(x, *axes), x.permute(2, 0, 1))
    assert torch.equal(transpose(x), x.permute(2, 1, 0))
    assert side.find("Functional", "matmul") == (torch.matmul, "torch.matmul")
    assert side.find("Functional", "softmax") == (torch.nn.functional.softmax, "torch.nn.functional.softmax")
    assert refusal(side, "Functional", "no_such_api") == "torch has no `torch.nn.functional.no_such_api`"
    assert "is no operator" in refusal(side, "Functional", "save")


@pytest.mark.frameworks
@pytest.mark.skipif(importlib.util.find_spec("mindspore") is None, reason="mindspore is not installed")
def test_mindspore_gives_the_apis_that_dumps_record_and_no_others():
    import mindspore

    from probe_flow.apis.mindspore_side import MindSporeSide

    side = MindSporeSide()
    hostile = {
        "Functional": "tensordump CustomOpBuilder operations.TensorDump", "Mint": "distributed.barrier np.save",
        "Tensor": "__class__",
    }  # fmt: skip
    assert all(refusal(side, kind, name) for kind, names in hostile.items() for name in names.split())
    known = {
        "Mint": [name for name in mindspore.mint.__all__ if callable(getattr(mindspore.mint, name, None))],
        "MintFunctional": ["relu", "softmax", "layer_norm", "gelu", "conv2d"],
        "Functional": ["flash_attention_score", "add", "relu", "tensor_add"],
        "Tensor": ["add", "sum", "view", "reshape", "masked_fill"],
    }
    refused = [(kind, name) for kind, names in known.items() for name in names if refusal(side, kind, name)]
    assert refused == []
    assert len(known["Mint"]) > 200
