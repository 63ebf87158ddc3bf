"""The suites: single faults and healthy pairs, and as many again held out. Places are device operators of each model.

Strengths are chosen to stand clear of rounding where the fault sits (a test checks it) and not to be easy: several are
1 to 5 %, one element or one channel, deep in the graph, behind noise or before operators that amplify them.
"""

from __future__ import annotations

from generate.torchair_faults import Fault
from generate.torchair_pairs import Spec

SINGLE_FAULTS: list[Spec] = [
    Spec("wrong_gelu", "transformer", "float16", fault=Fault("wrong_gelu", "Gelu_1", 0.0147), fused=True),
    Spec("scale_5_percent", "transformer", "bfloat16", fault=Fault("scale", "SoftmaxV2", 0.05), fused=True,
         private=True),
    Spec("zero_channel", "convolution", "float16", fault=Fault("zero_channel", "Conv2D_2")),
    Spec("scale_1_percent", "deep", "float16", "old", Fault("scale", "Gelu_9", 0.01)),
    Spec("one_element", "convolution", "float16", "7.1.0", Fault("one_element", "Conv2D_3", 0.15)),
    Spec("norm_eps", "transformer", "float16", fault=Fault("norm_eps", "LayerNormV4", 1e-3), tokens=2),
    Spec("dropped_filter_bias", "convolution", "bfloat16", "old", Fault("dropped_filter_bias", "Conv2D_4")),
    Spec("unmasked_entry", "masked", "bfloat16", fault=Fault("unmasked_entry", "Add_8"), tokens=2),
    Spec("stale_buffer", "rotary", "float16", fault=Fault("stale_buffer", "BatchMatMul_1", token=2), fused=True,
         tokens=3),
    Spec("narrow_accumulation", "reduction", "float16", "7.1.0", Fault("narrow_accumulation", "MatMulV2")),
    Spec("nan", "recurrent", "float16", fault=Fault("nan", "Sigmoid_5"), fused=True),
    Spec("overflow", "rotary", "float16", fault=Fault("overflow", "Pow_2", 1e4), private=True),
    Spec("transposed_weight", "transformer", "bfloat16", "7.1.0", Fault("untransposed", "Transpose_4")),
    Spec("wrong_index", "rotary", "bfloat16", fault=Fault("next_index", "GatherV2", rank=1), ranks=2),
    Spec("wrong_parameter", "convolution", "float16", "old", Fault("wrong_parameter", "params_13", 0.05)),
    Spec("shift", "mixer", "float16", "7.1.0", Fault("shift", "Transpose_8"), tokens=2),
    Spec("after_noise", "reduction", "bfloat16", fault=Fault("scale", "MatMulV2_1", 0.04), fused=True),
    Spec("inside_fused", "convolution", "bfloat16", fault=Fault("scale", "Mul_3", 0.035), fused=True),
    Spec("undumped_producer", "recurrent", "bfloat16", fault=Fault("scale", "Tanh_2", 0.04, is_undumped=True)),
    Spec("softmax_axis", "transformer", "float16", "old", Fault("softmax_axis", "SoftmaxV2_1")),
]  # fmt: skip
"""One fault each, all of different kinds or at different kinds of places."""

HEALTHY: list[Spec] = [
    Spec("healthy_transformer", "transformer", "float16", fused=True, private=True),
    Spec("healthy_deep", "deep", "bfloat16", "old"),
    Spec("healthy_masked", "masked", "float16", "7.1.0", fused=True),
    Spec("healthy_reduction", "reduction", "float16"),
    Spec("healthy_reduction_bfloat16", "reduction", "bfloat16", "7.1.0"),
    Spec("healthy_convolution", "convolution", "bfloat16", fused=True),
    Spec("healthy_recurrent", "recurrent", "bfloat16", fused=True, tokens=2),
    Spec("healthy_mixer", "mixer", "float16", fused=True),
]
"""Nothing is wrong: drift, equal infinities, long sums, cancellation, underflow, tensors of zeros and of pure noise."""

EXTRA_FAULTS: list[Spec] = [
    Spec("hard_sigmoid", "mixer", "float16", fault=Fault("hard_sigmoid", "Sigmoid_1"), fused=True, seed=11),
    Spec("coarse_mantissa", "transformer", "float16", "7.1.0", Fault("coarse", "Gelu", 6), seed=12),
    Spec("zero_tail", "recurrent", "float16", "old", Fault("zero_tail", "Tanh_3", 3), seed=13),
    Spec("lost_residual", "deep", "float16", fault=Fault("lost_first_operand", "Add_36"), private=True, seed=14),
    Spec("wrong_scalar", "transformer", "float16", fault=Fault("wrong_scalar", "Const_14", 0.05), seed=15),
    Spec("wrong_weight_element", "rotary", "float16", "7.1.0", Fault("wrong_weight_element", "params_10", 4.0),
         seed=16),
    Spec("wrong_input", "masked", "bfloat16", fault=Fault("wrong_input", "states_1", token=1), tokens=2, seed=17),
    Spec("scale_3_percent_bfloat16", "rotary", "bfloat16", fault=Fault("scale", "Rsqrt_2", 0.03), seed=18),
    Spec("masked_entry", "masked", "float16", fault=Fault("masked_entry", "Add_1"), private=True, seed=19),
    Spec("repeat_row", "mixer", "bfloat16", fault=Fault("repeat_row", "LayerNormV4_3"), seed=20),
    Spec("scale_channel", "convolution", "float16", fault=Fault("scale_channel", "Conv2D_4", 0.03), fused=True,
         seed=21),
    Spec("one_element_late", "deep", "float16", "7.1.0", Fault("one_element", "Add_63", 0.09), seed=22),
    Spec("flip_row", "masked", "float16", "old", Fault("flip_row", "BatchMatMul_3"), fused=True, seed=23),
    Spec("dropped_bias", "deep", "bfloat16", fault=Fault("dropped_bias", "Add_46"), seed=24),
]  # fmt: skip
"""Held out: not to be looked at while rules are made."""

EXTRA_HEALTHY: list[Spec] = [
    Spec("extra_healthy_rotary", "rotary", "bfloat16", fused=True, tokens=2, ranks=2, seed=31),
    Spec("extra_healthy_mixer", "mixer", "bfloat16", "7.1.0", fused=True, private=True, seed=32),
    Spec("extra_healthy_deep", "deep", "float16", "7.1.0", seed=33),
    Spec("extra_healthy_masked", "masked", "bfloat16", "old", tokens=2, seed=34),
    Spec("extra_healthy_convolution", "convolution", "float16", "old", fused=True, seed=35),
]
"""Held out, nothing is wrong."""
