"""The suites of generated offline pairs: single faults and healthy pairs, and as many again held out.

Places are device operators, or layers where the fault is one of arithmetic or weights. Strengths are chosen to stand
clear of rounding where the fault sits (a test checks it) and not to be easy: several are 2 to 5 %, one channel, one
element, inside of fused and split operators or behind quantisation.
"""

from __future__ import annotations

from dataclasses import replace

from generate.offline_compiler import Build
from generate.offline_faults import Fault
from generate.offline_pairs import Spec

BRAIN = Build("bfloat16")
UNFUSED = Build(is_fused=False)


def _int8(*names: str, storage: str = "float16") -> Build:
    return Build(storage, int8=frozenset(names))


CNN8 = _int8("stem/conv", "block/conv2", "fc/matmul")
RESIDUAL8 = _int8("stem/conv", "stage0/a/conv", "stage1/b/conv", "stage2/c/conv")
MLP8 = _int8("fc1/matmul", "fc3/matmul")
TRANSFORMER8 = _int8("layer0/up/matmul", "layer0/down/matmul", "layer1/q/matmul", "layer1/k/matmul")
DETECTOR8 = _int8("stem/conv", "csp/cv2/conv", "neck/cv/conv", "head0/conv")

FAULTS: list[Spec] = [
    Spec("weight_column", "cnn", Fault("weight_column", "fc/matmul", 0.3)),
    Spec("border_row", "cnn", Fault("border_row", "pool1")),
    Spec("second_block_nhwc", "cnn", Fault("second_block", "block/conv2block/relu2", 0.2), images="NHWC"),
    Spec("dropped_bias", "cnn", Fault("dropped_bias", "block/shortcut"), seed=1),
    Spec("scale_2_percent", "residual", Fault("scale", "stage1/a/convstage1/a/relu", 0.02)),
    Spec("channel_5_percent", "residual", Fault("channel", "stage2/b/convstage2/b/relu", 0.05), seed=1),
    Spec("rotated_groups", "residual", Fault("rotated_groups", "stage1/b/conv")),
    Spec("lost_shortcut", "deep", Fault("lost_operand", "stage6/add", 1)),
    Spec("stale_output", "residual", Fault("stale", "stage0/c/convstage0/relu"), images="NHWC"),
    Spec("nan", "detector", Fault("nan", "neck/cv/mul")),
    Spec("overflow", "cnn", Fault("overflow", "block/conv2block/relu2", 2e4), seed=2),
    Spec("int8_scale", "cnn", Fault("int8_scale", "block/conv2_quant_layer", 0.2), CNN8),
    Spec("int8_behind", "residual", Fault("scale", "stage3/b/convstage3/b/relu", 0.4), RESIDUAL8),
    Spec("narrow_accumulation", "mlp", Fault("narrow_accumulation", "fc2/matmul", 7)),
    Spec("dropped_relu", "mlp", Fault("dropped", "relu1"), seed=1),
    Spec("hard_sigmoid", "detector", Fault("hard_sigmoid", "head0/sigmoid")),
    Spec("swapped_concat", "detector", Fault("swapped_operands", "csp/concat")),
    Spec("transposed_weight", "transformer", Fault("transposed_weight", "layer0/q/matmul")),
    Spec("later_rows", "transformer", Fault("later_rows", "layer1/up/matmullayer1/gelu"), seed=1),
    Spec("softmax_axis", "transformer", Fault("other_axis", "layer0/softmax"), BRAIN),
    Spec("coarse_gelu_om", "transformer", Fault("coarse", "layer0/up/matmullayer0/gelu", 6), golden="om"),
    Spec("one_element_om", "cnn", Fault("one_element", "pool1", 0.3), golden="om"),
    Spec("one_to_many_inner", "cnn", Fault("scale", "gap_sum", 0.03), seed=3),
    Spec("many_to_many_inner", "detector", Fault("channel", "csp/cv1/mul_exp", 0.2)),
    Spec("wrong_transdata", "cnn", Fault("swapped_blocks", "trans_TransData_1"), seed=4),
    Spec("scale_bfloat16", "transformer", Fault("scale", "layer1/down/matmullayer1/down/bias", 0.05), BRAIN),
    Spec("few_dumped", "residual", Fault("channel", "stage2/a/convstage2/a/relu", 0.3), dumped=0.6),
    Spec("unfused", "residual", Fault("bn_mean", "stage1/a/bn"), UNFUSED),
]  # fmt: skip
"""One fault each."""

HEALTHY: list[Spec] = [
    Spec("healthy_cnn", "cnn"),
    Spec("healthy_cnn_int8", "cnn", build=CNN8),
    Spec("healthy_residual_om", "residual", golden="om", seed=1),
    Spec("healthy_residual_int8", "residual", build=RESIDUAL8),
    Spec("healthy_deep_bfloat16", "deep", build=BRAIN),
    Spec("healthy_detector_nhwc", "detector", images="NHWC"),
    Spec("healthy_detector_int8", "detector", build=DETECTOR8),
    Spec("healthy_transformer", "transformer"),
    Spec("healthy_transformer_int8", "transformer", build=TRANSFORMER8),
    Spec("healthy_masked_om", "masked", golden="om"),
    Spec("healthy_mlp_int8", "mlp", build=MLP8),
    Spec("healthy_cnn_int8_om", "cnn", build=CNN8, golden="om"),
    Spec("healthy_transformer_rough", "transformer", build=Build(is_rough=True), seed=5),
    Spec("healthy_residual_int8_one_scale", "residual", build=replace(RESIDUAL8, is_per_channel=False), seed=6),
]
"""Nothing is wrong."""

HELD_OUT_FAULTS: list[Spec] = [
    Spec("weight_element", "residual", Fault("weight_element", "stage0/c/conv", 4.0), seed=11),
    Spec("bn_statistics", "cnn", Fault("bn_mean", "stem/bn"), seed=12),
    Spec("edge_padding", "cnn", Fault("edge_padding", "block/conv2"), seed=13),
    Spec("swapped_blocks_nhwc", "residual", Fault("swapped_blocks", "stage3/a/convstage3/a/relu"), images="NHWC",
         seed=14),
    Spec("scale_2_percent_swish", "detector", Fault("scale", "down/cv/convdown/cv/bn", 0.02), seed=15),
    Spec("doubled_shortcut", "residual", Fault("doubled_operand", "stage1/add", 1), seed=16),
    Spec("first_of_pool", "detector", Fault("first_of_pool", "down/pool"), seed=17),
    Spec("shifted_upsample", "detector", Fault("shift", "neck/upsample"), images="NHWC", seed=18),
    Spec("int8_saturated", "cnn", Fault("saturated", "block/conv2_quant_layer", 0.4), CNN8, seed=19),
    Spec("int8_offset", "mlp", Fault("int8_offset", "fc1/matmul_quant_layer", 12), MLP8, seed=20),
    Spec("int8_scale_too_small", "residual", Fault("int8_scale", "stage1/b/conv_quant_layer", -0.15), RESIDUAL8,
         seed=21),
    Spec("nan_softmax", "transformer", Fault("nan", "layer1/softmax"), seed=22),
    Spec("overflow_scores", "masked", Fault("overflow", "layer0/qk", 2e4), seed=23),
    Spec("second_image", "cnn", Fault("second_image", "gap"), seed=24),
    Spec("swapped_split", "detector", Fault("swapped_outputs", "csp/split"), seed=25),
    Spec("wrong_scale_factor", "transformer", Fault("number", "layer1/scale", 0.25), seed=26),
    Spec("lost_residual", "transformer", Fault("lost_operand", "layer0/add2", 0), seed=27),
    Spec("dropped_value_bias", "transformer", Fault("dropped_bias", "layer1/v/bias"), BRAIN, seed=28),
    Spec("stale_product", "mlp", Fault("stale", "fc3/matmulrelu3"), seed=29),
    Spec("narrow_bfloat16", "transformer", Fault("narrow_accumulation", "layer0/o/matmul", 5), BRAIN, seed=30),
    Spec("scale_3_percent_om", "deep", Fault("scale", "stage7/b/convstage7/b/relu", 0.03), golden="om", seed=31),
    Spec("channel_om", "detector", Fault("channel", "neck/cv/mul", 0.1), golden="om", seed=32),
    Spec("norm_inner", "transformer", Fault("channel", "layer1/ln2_centred", 0.3), seed=33),
    Spec("few_dumped_transformer", "transformer", Fault("scale", "layer1/up/matmullayer1/gelu", 0.1), dumped=0.5,
         seed=34),
    Spec("border_bfloat16", "cnn", Fault("border_row", "block/shortcut"), BRAIN, seed=35),
    Spec("one_element", "mlp", Fault("one_element", "fc2/matmulrelu2", 1.0), seed=36),
    Spec("later_rows_om", "masked", Fault("later_rows", "layer1/qk"), golden="om", seed=37),
    Spec("coarse_head", "detector", Fault("coarse", "head1/convhead1/sigmoid", 7), seed=38),
]  # fmt: skip
"""Held out: not to be looked at while rules are made."""

HELD_OUT_HEALTHY: list[Spec] = [
    Spec("held_out_cnn_nhwc", "cnn", images="NHWC", seed=51),
    Spec("held_out_cnn_int8", "cnn", build=CNN8, seed=52),
    Spec("held_out_cnn_bfloat16", "cnn", build=BRAIN, seed=53),
    Spec("held_out_residual_int8", "residual", build=RESIDUAL8, seed=54),
    Spec("held_out_residual_few_dumped", "residual", dumped=0.6, seed=55),
    Spec("held_out_deep_om", "deep", golden="om", seed=56),
    Spec("held_out_detector", "detector", build=UNFUSED, seed=57),
    Spec("held_out_detector_int8", "detector", build=DETECTOR8, seed=58),
    Spec("held_out_transformer_bfloat16", "transformer", build=BRAIN, seed=59),
    Spec("held_out_transformer_int8", "transformer", build=TRANSFORMER8, seed=60),
    Spec("held_out_masked", "masked", seed=61),
    Spec("held_out_mlp_int8_bfloat16", "mlp", build=_int8("fc0/matmul", "fc2/matmul", storage="bfloat16"), seed=62),
    Spec("held_out_detector_rough", "detector", build=Build(is_rough=True), seed=63),
    Spec("held_out_transformer_int8_wide_scale", "transformer", build=replace(TRANSFORMER8, clip=2.0), seed=64),
]
"""Held out, nothing is wrong."""
