"""Suites by where a fault sits: inside a fused operator, in a private layout, at a later token, on one rank.

Some pairs have the same device without fusion as golden.
"""

from __future__ import annotations

from generate.torchair_faults import Fault
from generate.torchair_pairs import Spec

PLACED_FAULTS: list[Spec] = [
    # inside fused operators: the inner result is not dumped
    Spec("fused_mul_scale", "transformer", "float16", fault=Fault("scale", "Mul_3", 0.03), fused=True, seed=41),
    Spec("fused_sigmoid_hard", "mixer", "bfloat16", fault=Fault("hard_sigmoid", "Sigmoid_2"), fused=True, seed=42),
    Spec("fused_swish_row", "rotary", "float16", "7.1.0", Fault("flip_row", "Swish_1"), fused=True, seed=43),
    Spec("fused_rotation_channel", "rotary", "bfloat16", fault=Fault("zero_channel", "Mul_12"), fused=True,
         private=True, seed=44),
    Spec("fused_gate_tail", "recurrent", "float16", "old", Fault("zero_tail", "Sub_3", 4), fused=True, seed=45),
    # in private layouts
    Spec("nz_product_row", "deep", "float16", fault=Fault("repeat_row", "MatMulV2_22"), private=True, seed=46),
    Spec("nz_product_channel", "masked", "bfloat16", "7.1.0", Fault("scale_channel", "MatMulV2_4", 0.2),
         private=True, seed=47),
    Spec("blocked_image_channel", "convolution", "float16", fault=Fault("scale_channel", "Conv2D_1", 0.05),
         fused=True, private=True, seed=48),
    Spec("blocked_filter_parameter", "convolution", "bfloat16", "7.1.0",
         Fault("wrong_weight_element", "params_9", 3.0), seed=49),
    # at a later token
    Spec("later_gelu", "transformer", "float16", fault=Fault("wrong_gelu", "Gelu", 0.0147, token=2), fused=True,
         tokens=3, seed=50),
    Spec("later_input", "recurrent", "bfloat16", "7.1.0", Fault("wrong_input", "sequence_1", token=1), tokens=2,
         seed=51),
    Spec("later_stale_norm", "mixer", "float16", "old", Fault("stale_buffer", "LayerNormV4_2", token=1), tokens=3,
         seed=52),
    Spec("later_nan", "masked", "float16", fault=Fault("nan", "Add_10", token=2), private=True, tokens=3, seed=53),
    # on one rank
    Spec("one_rank_scale", "deep", "float16", fault=Fault("scale", "Gelu_5", 0.02, rank=2), ranks=3, seed=54),
    Spec("one_rank_later_index", "rotary", "float16", fault=Fault("next_index", "GatherV2", token=1, rank=1),
         ranks=2, tokens=2, seed=55),
    Spec("one_rank_parameter", "transformer", "bfloat16", fault=Fault("wrong_parameter", "params_6", 0.3, rank=1),
         ranks=2, fused=True, seed=56),
    # against the same device without fusion
    Spec("unfused_golden_scale", "transformer", "float16", fault=Fault("scale", "Mul_1", 0.02), fused=True,
         golden="ge", seed=57),
    Spec("unfused_golden_element", "convolution", "float16", "7.1.0", Fault("one_element", "Add_4", 0.3), fused=True,
         golden="ge", seed=58),
    Spec("unfused_golden_later", "recurrent", "bfloat16", fault=Fault("coarse", "Tanh_4", 4, token=1), fused=True,
         tokens=2, golden="ge", seed=59),
    Spec("unfused_golden_rank", "mixer", "bfloat16", fault=Fault("shift", "Transpose_8", rank=1), fused=True,
         private=True, ranks=2, golden="ge", seed=60),
]  # fmt: skip
"""One fault each."""

PLACED_HEALTHY: list[Spec] = [
    Spec("placed_healthy_fused", "rotary", "float16", "7.1.0", fused=True, seed=71),
    Spec("placed_healthy_private", "convolution", "float16", fused=True, private=True, seed=72),
    Spec("placed_healthy_tokens", "transformer", "bfloat16", fused=True, private=True, tokens=3, seed=73),
    Spec("placed_healthy_ranks", "masked", "float16", fused=True, ranks=2, tokens=2, seed=74),
    Spec("placed_healthy_unfused_golden", "recurrent", "float16", fused=True, golden="ge", seed=75),
    Spec("placed_healthy_unfused_image", "convolution", "bfloat16", fused=True, private=True, golden="ge", seed=76),
]
"""Nothing is wrong."""
