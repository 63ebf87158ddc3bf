"""Calls of PyTorch with rules of their own, in torch itself: fused operators, automatic casts, types of eight bits."""

from __future__ import annotations

import csv
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe_flow.apis.calls import UnusableError
from probe_flow.cli.main import main

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

RANDOM = np.random.default_rng(7)


def tensor(*shape: int, dtype: str = "float32", low: Any = -2.0, high: Any = 2.0) -> dict[str, Any]:
    facts = {"type": "torch.Tensor", "dtype": f"torch.{dtype}", "shape": list(shape), "Max": high, "Min": low}
    return {**facts, "requires_grad": False}


def wants_gradient(element: dict[str, Any]) -> dict[str, Any]:
    return {**element, "requires_grad": True}


def value(of: Any) -> dict[str, Any]:
    return {"type": type(of).__name__, "value": of}


def forward(*args: Any, output: Any = None, **kwargs: Any) -> dict[str, Any]:
    return {"input_args": list(args), "input_kwargs": kwargs, "output": output or [tensor(1)]}


def check(
    tmp_path: Path, data: dict[str, Any], *options: str
) -> tuple[int, dict[str, list[str]], dict[str, list[str]]]:
    top = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": data}
    (tmp_path / "dump.json").write_text(json.dumps(top), encoding="utf-8")
    code = main(["acc_check", "-api_info", str(tmp_path / "dump.json"), "-o", str(tmp_path / "out"), *options])
    found = []
    for kind in ("result", "details"):
        (path,) = (tmp_path / "out").glob(f"accuracy_checking_{kind}_*.csv")
        with path.open(encoding="utf-8-sig", newline="") as file:
            found.append({row[0]: row[1:] for row in list(csv.reader(file))[1:]})
    return code, found[0], found[1]


def test_fused_operators_are_what_they_compute(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, wide = wants_gradient(tensor(2, 3, 8)), tensor(2, 3, 8)
    code, calls, outputs = check(
        tmp_path,
        {
            "NPU.npu_swiglu.0.forward": forward(x),
            "NPU.npu_swiglu.0.backward": {"input": [tensor(2, 3, 4)], "output": [wide]},
            "NPU.npu_rms_norm.0.forward": forward(x, wants_gradient(tensor(8)), output=[wide, tensor(2, 3, 1)]),
            "NPU.npu_rms_norm.0.backward": {"input": [wide, None], "output": [wide, tensor(8)]},
            "NPU.npu_fast_gelu.0.forward": forward(tensor(100, dtype="float16")),
            "NPU.npu_sort_v2.0.forward": forward(tensor(5, 5), descending=value(True)),
            "NPU.npu_unheard_of.0.forward": forward(x),
        },
    )
    assert {name: row[:2] for name, row in calls.items()} == {
        "NPU.npu_swiglu.0": ["pass", "pass"],
        "NPU.npu_rms_norm.0": ["pass", "pass"],
        "NPU.npu_fast_gelu.0": ["pass", " "],
        "NPU.npu_sort_v2.0": ["pass", " "],
        "NPU.npu_unheard_of.0": ["SKIP", " "],
    }
    assert code == 0
    assert calls["NPU.npu_unheard_of.0"][2] == "there is no benchmark of `npu_unheard_of`"
    assert "PF6610" in capsys.readouterr().err
    assert outputs["NPU.npu_fast_gelu.0.forward.output.0"][:2] == ["torch.float32", "torch.float16"]
    assert "NPU.npu_rms_norm.0.forward.output.1" in outputs


def numbers(*shape: int) -> Any:
    import torch

    return torch.from_numpy(RANDOM.standard_normal(shape))


def attention_by_hand(q: Any, k: Any, v: Any, scale: float, excluded: Any, shift: Any) -> Any:
    """Return an attention of arrays (batch, heads, sequence, size), each query by itself."""
    found = np.empty_like(q)
    group = q.shape[1] // k.shape[1]
    for batch, head, row in np.ndindex(q.shape[:3]):
        keys, values = k[batch, head // group], v[batch, head // group]
        scores = (keys @ q[batch, head, row] + shift[batch, head, row]) * scale
        shares = np.where(excluded[row], 0.0, np.exp(scores - scores.max()))
        found[batch, head, row] = shares @ values / shares.sum()
    return found


LAYOUTS = {
    "BNSD": lambda x: x,
    "BSND": lambda x: x.transpose(0, 2, 1, 3),
    "BSH": lambda x: x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1),
    "SBH": lambda x: x.transpose(2, 0, 1, 3).reshape(x.shape[2], x.shape[0], -1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("mode", [0, 2, 3, 4])
def test_attention_is_the_softmax_of_scores_by_hand(layout: str, kv_heads: int, mode: int) -> None:
    import torch

    from probe_flow.apis.fused import flash_attention_score, npu_fusion_attention

    rows, columns = 5, 7
    q, k, v = (RANDOM.standard_normal(shape) for shape in ((2, 4, rows, 8), *[(2, kv_heads, columns, 8)] * 2))
    shift = RANDOM.standard_normal((2, 4, rows, columns))
    full = RANDOM.random((rows, columns)) > 0.7
    full[:, 0] = False
    row, column = np.indices((rows, columns))
    last = columns - rows  # diagonals of modes 3 and 4 end at the lower right
    excluded = {
        0: full,
        2: column > row,
        3: column > row + last,
        4: (column > row + last + 1) | (column < row + last - 2),
    }[mode]
    mask = torch.from_numpy(full) if mode == 0 else torch.ones(2048, 2048, dtype=torch.bool).triu(1)
    expected = LAYOUTS[layout](attention_by_hand(q, k, v, 0.3, excluded, shift))
    given = [torch.from_numpy(np.ascontiguousarray(LAYOUTS[layout](each))) for each in (q, k, v)]
    npu = npu_fusion_attention(
        *given, 4, layout, pse=torch.from_numpy(shift), atten_mask=mask, scale=0.3, sparse_mode=mode,
        pre_tockens=2, next_tockens=1,
    )  # fmt: skip
    flash = flash_attention_score(
        *given, 4, torch.from_numpy(shift), attn_mask=mask, scalar_value=0.3, input_layout=layout, sparse_mode=mode,
        pre_tokens=2, next_tokens=1,
    )  # fmt: skip
    for found in (npu, flash):
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_attentions_that_have_no_benchmark_say_so() -> None:
    from probe_flow.apis.fused import flash_attention_score

    x = numbers(2, 4, 8)
    for more, words in (
        ({"input_layout": "TND"}, "layout `TND`"),
        ({"keep_prob": 0.9}, "dropout"),
        ({"drop_mask": x}, "dropout"),
    ):
        with pytest.raises(UnusableError) as caught:
            flash_attention_score(x, x, x, 2, **more)
        assert words in caught.value.reason
        assert caught.value.is_expected


def test_formulas_of_fused_operators_by_hand() -> None:
    from probe_flow.apis import fused

    x, weight, bias = numbers(3, 6), numbers(6), numbers(6)
    a, w, b = x.numpy(), weight.numpy(), bias.numpy()

    def same(found: Any, expected: Any) -> None:
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)

    rms = np.sqrt((a**2).mean(-1, keepdims=True) + 1e-6)
    same(fused.npu_rms_norm(x, weight)[0], a / rms * w)
    same(fused.npu_rms_norm(x, weight)[1], 1 / rms)
    same(fused.npu_fast_gelu(x), a / (1 + np.exp(-1.702 * a)))
    same(fused.npu_mish(x), a * np.tanh(np.log1p(np.exp(a))))
    same(fused.npu_swiglu(x), a[:, :3] / (1 + np.exp(-a[:, :3])) * a[:, 3:])
    deviation = np.sqrt(a.var(-1, keepdims=True) + 1e-5)
    same(fused.npu_layer_norm_eval(x, [6], weight, bias), (a - a.mean(-1, keepdims=True)) / deviation * w + b)
    same(fused.npu_rotary_mul(x, weight, bias), w * a + b * np.concatenate([-a[:, 3:], a[:, :3]], -1))
    turned = np.stack([-a[:, 1::2], a[:, ::2]], -1).reshape(3, 6)
    same(fused.npu_rotary_mul(x, weight, bias, "interleave"), w * a + b * turned)
    same(fused.npu_linear(x, x, None), a @ a.T)
    same(fused.npu_confusion_transpose(x, [1, 0], [2, 9], transpose_first=True), a.T.reshape(2, 9))
    same(fused.npu_confusion_transpose(x, [1, 0], [2, 9], transpose_first=False), a.reshape(2, 9).T)
    scores = np.where(np.triu(np.ones((3, 6)), 1) > 0, -10000.0, a * 0.5)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    same(fused.npu_scaled_masked_softmax(x, x, 0.5, fixed_triu_mask=True), shares / shares.sum(-1, keepdims=True))


def test_the_best_experts_of_each_row() -> None:
    import torch

    from probe_flow.apis.fused import npu_moe_gating_top_k_softmax

    logits = torch.log(torch.tensor([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1]], dtype=torch.float64))
    shares, experts, rows = npu_moe_gating_top_k_softmax(logits, torch.tensor([False, True]), 2)
    np.testing.assert_allclose(shares.numpy(), [[0.5, 0.3], [0.8, 0.1]])
    assert experts.tolist() == [[0, 2], [3, 3]], "a row that is finished has no expert"
    assert rows.tolist() == [[0, 2], [1, 3]]


def test_one_step_of_adam_by_hand() -> None:
    from probe_flow.apis.fused import npu_apply_adam, npu_apply_adam_w

    state = tuple(numbers(3).abs() for _ in range(3))
    gradient = numbers(3)
    v, m, s, g = (each.numpy() for each in (*state, gradient))
    m1, s1 = 0.9 * m + 0.1 * g, 0.99 * s + 0.01 * g * g
    found = npu_apply_adam(0.81, 0.98, 0.1, 0.9, 0.99, 1e-8, gradient, False, False, out=state)
    rate = 0.1 * np.sqrt(1 - 0.98) / (1 - 0.81)
    for one, expected in zip(found, (v - rate * m1 / (1e-8 + np.sqrt(s1)), m1, s1), strict=True):
        np.testing.assert_allclose(one.numpy(), expected)
    found = npu_apply_adam_w(0.81, 0.98, 0.1, 0.01, 0.9, 0.99, 1e-8, gradient, None, False, False, out=state)
    corrected = (m1 / (1 - 0.81 * 0.9)) / (np.sqrt(s1 / (1 - 0.98 * 0.99)) + 1e-8)
    np.testing.assert_allclose(found[0].numpy(), v * (1 - 0.1 * 0.01) - 0.1 * corrected)


def test_calls_of_several_float_types_run_as_under_automatic_casts(tmp_path: Path) -> None:
    # No element near zero, where the inputs' rounding would be a large share of it.
    x, weight = tensor(4, 8, dtype="float16", low=0.5), tensor(5, 8, low=0.5)
    code, calls, outputs = check(
        tmp_path,
        {
            "Functional.linear.0.forward": forward(x, weight, output=[tensor(4, 5, dtype="float16")]),
            "Functional.linear.1.forward": forward(weight, weight, output=[tensor(5, 5, dtype="bfloat16")]),
            "Functional.linear.2.forward": forward(weight, weight, output=[tensor(5, 5)]),
        },
    )
    assert [row[0] for row in calls.values()] == ["pass", "warning", "pass"], "bfloat16 is not right to a thousandth"
    assert code == 0
    types = {name.split(".")[2]: row[:2] for name, row in outputs.items()}
    assert types == {
        "0": ["torch.float32", "torch.float16"],
        "1": ["torch.float64", "torch.bfloat16"],
        "2": ["torch.float64", "torch.float32"],
    }


def test_convolutions_have_a_benchmark_in_float32(tmp_path: Path) -> None:
    call = forward(tensor(1, 2, 6, 6), tensor(3, 2, 3, 3), output=[tensor(1, 3, 4, 4)])
    code, _, outputs = check(tmp_path, {"Functional.conv2d.0.forward": call})
    assert code == 0
    assert outputs["Functional.conv2d.0.forward.output.0"][:2] == ["torch.float32", "torch.float32"]


def test_types_that_torch_does_not_take_on_the_processor(tmp_path: Path) -> None:
    code, calls, _ = check(
        tmp_path,
        {
            "Functional.cross_entropy.0.forward": forward(tensor(4, 5), tensor(4, dtype="int32", low=-1, high=4)),
            "Torch.histc.0.forward": forward(tensor(50, dtype="int64", low=0, high=9), bins=value(10)),
        },
    )
    assert code == 0, calls


def test_floats_of_eight_bits(tmp_path: Path) -> None:
    eight = tensor(200, dtype="float8_e4m3fn")
    code, calls, outputs = check(
        tmp_path,
        {
            "Tensor.float.0.forward": forward(eight),
            "Tensor.type.0.forward": forward(tensor(200), {"type": "torch.dtype", "value": "torch.float8_e5m2"}),
        },
    )
    assert code == 0, calls
    assert outputs["Tensor.float.0.forward.output.0"][1] == "torch.float32"
    assert float(outputs["Tensor.float.0.forward.output.0"][15]) == 0, "share of relative errors: absolute standard"
    assert outputs["Tensor.type.0.forward.output.0"][1] == "torch.float8_e5m2"


def test_a_result_without_elements_is_skip_with_its_type_and_shape(tmp_path: Path) -> None:
    none = tensor(0, 3, low=None, high=None)
    code, calls, outputs = check(tmp_path, {"Torch.add.0.forward": forward(none, none, output=[none])})
    assert code == 0
    assert calls["Torch.add.0"] == ["pass", " "]
    row = outputs["Torch.add.0.forward.output.0"]
    assert row[:3] == ["torch.float64", "torch.float32", "(0, 3)"]
    assert row[-2:] == ["SKIP", "it has no elements"]
    assert set(row[3:-2]) == {" "}
