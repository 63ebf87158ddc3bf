"""Families of operators by type name, over the spellings of the frameworks, and names that only look like one."""

from __future__ import annotations

import pytest

from probe_flow.analysis.model.families import Family, family_of

DEVICE = {
    Family.PRODUCT: "MatMul MatMulV2 BatchMatMulV2 GroupedMatmul Conv2D Conv2DBackpropInput DepthwiseConv2D "
    "FullyConnection",
    Family.SUM: "Add AddV2 AddN Adds Sub BiasAdd Axpy AxpyV2 ScatterAdd ApplyGradientDescent",
    Family.SLOPE: "ReluGrad ReluGradV2 Relu6Grad LeakyReluGrad TanhGrad SigmoidGrad GeluGrad FastGeluGrad EluGrad",
    Family.SCALE: "Mul Muls Pow Power Sqrt Rsqrt Square SwiGlu RotaryMul",
    Family.QUOTIENT: "RealDiv DivNoNan Div",
    Family.TOTAL: "ReduceSum ReduceSumD BiasAddGrad",
    Family.REDUCE: "ReduceMean ReduceMeanD ReduceMaxD AvgPoolV2 AdaptiveAvgPool2d",
    Family.NORMALISE: "LayerNorm LayerNormV3 RmsNorm AddRmsNorm InplaceAddRmsNorm BatchNorm BNInfer BNTrainingUpdate",
    Family.EXPONENTIAL: "SoftmaxV2 Exp",
    Family.LOG_SHARE: "LogSoftmaxV2 SparseSoftmaxCrossEntropyWithLogits",
    Family.ATTENTION: "PromptFlashAttention FusedInferAttentionScore",
    Family.MOVE: "Cast TransData Transpose TransposeD Reshape GatherV2 StridedSliceD ConcatV2D ConcatD SplitVD Pack "
    "Unpack ExpandDims BroadcastTo TileD PadV3 SelectV2 MaskedFill MaxPoolV3 AdaptiveMaxPool2d TensorMove Identity",
    Family.CONTRACT: "Relu Relu6 LeakyRelu PRelu Gelu GeluV2 FastGelu Sigmoid Swish Tanh Neg Abs",
    Family.DISCRETE: "ArgMaxV2 ArgMaxD MoeGatingTopK Greater LogicalNot Equal NotEqual",
    Family.ORDER: "TopKV2 TopKD Sort ArgMaxWithValue",
    Family.UNKNOWN: "FusedMulAdd Log Log1p",
}
ATEN = {
    Family.PRODUCT: "mm.default bmm.default addmm.default convolution.default",
    Family.SUM: "add.Tensor sub.Tensor rsub.Scalar",
    Family.SCALE: "mul.Tensor pow.Tensor_Scalar rsqrt.default",
    Family.QUOTIENT: "div.Tensor div.Tensor_mode",
    Family.TOTAL: "sum.dim_IntList sum.default",
    Family.REDUCE: "mean.dim var.correction std.dim cumsum.default",
    Family.NORMALISE: "native_layer_norm.default _native_batch_norm_legit.no_training",
    Family.EXPONENTIAL: "_softmax.default exp.default exp2.default expm1.default",
    Family.LOG_SHARE: "_log_softmax.default",
    Family.LOG_SUM: "nll_loss_forward.default logsumexp.default",
    Family.ATTENTION: "scaled_dot_product_attention.default _scaled_dot_product_flash_attention.default",
    Family.MOVE: "t.default _to_copy.default view.default expand.default cat.default embedding.default where.self "
    "index.Tensor unsqueeze.default max_pool2d_with_indices.default transpose.int slice.Tensor clone.default",
    Family.CONTRACT: "upsample_bilinear2d.vec gelu.default silu.default neg.default amax.default relu_.default",
    Family.DISCRETE: "eq.Scalar argmax.default logical_not.default bitwise_and.Tensor",
    Family.ORDER: "topk.default sort.default",
    Family.PRODUCT_ADDED: "addcmul.default Addcmul",
    Family.UNKNOWN: "log.default addcdiv.default",
}
FUNCTIONS = {
    Family.PRODUCT: "linear matmul __matmul__ __rmatmul__ einsum conv2d conv_transpose2d",
    Family.SUM: "__add__ __radd__ __iadd__ __sub__ __rsub__ add",
    Family.SCALE: "__mul__ __rmul__ __rtruediv__ __pow__ multiply npu_swiglu",
    Family.QUOTIENT: "__truediv__ divide div_",
    Family.NORMALISE: "layer_norm rms_norm batch_norm npu_rms_norm normalize",
    Family.EXPONENTIAL: "softmax softplus",
    Family.LOG_SHARE: "log_softmax cross_entropy binary_cross_entropy_with_logits",
    Family.LOG_SUM: "logsumexp nll_loss",
    Family.ATTENTION: "scaled_dot_product_attention npu_fusion_attention",
    Family.MOVE: "to t T float half type __getitem__ dropout embedding masked_fill all_gather max_pool2d",
    Family.REDUCE: "adaptive_avg_pool2d all_reduce",
    Family.DISCRETE: "__eq__ __and__ argsort floor_divide",
    Family.ORDER: "topk sort",
    Family.CONTRACT: "relu relu6 silu interpolate sigmoid",
}
ORIGINAL = {
    Family.PRODUCT: "Convolution InnerProduct Deconvolution DepthwiseConv2dNative Gemm",
    Family.REDUCE: "Pooling GlobalAveragePool AveragePool AvgPool",
    Family.UNITS: "AscendQuant AscendDequant AscendAntiQuant AscendRequant DeQuant QuantizeLinear DequantizeLinear "
    "DynamicQuant",
    Family.MOVE: "MaxPool",
}
"""Operators of Caffe, ONNX and TensorFlow, and those of quantisation."""
MODULES = {
    Family.PRODUCT: "Linear Conv2d ColumnParallelLinear Dense",
    Family.NORMALISE: "LayerNorm RMSNorm LlamaRMSNorm T5LayerNorm BatchNorm2d SyncBatchNorm",
    Family.CONTRACT: "ReLU ReLU6 LeakyReLU PReLU SiLU GELU GELUActivation Hardswish Sigmoid",
    Family.MOVE: "Embedding VocabParallelEmbedding Dropout Identity Flatten MaxPool2d",
    Family.REDUCE: "AdaptiveAvgPool AdaptiveAvgPool2d",
    Family.EXPONENTIAL: "Softmax",
    Family.LOG_SHARE: "CrossEntropyLoss",
    Family.LOG_SUM: "NLLLoss ReduceLogSumExp",
    Family.ATTENTION: "MultiheadAttention LlamaAttention",
}


def spellings():
    for table, prefix in ((DEVICE, ""), (ATEN, "aten."), (FUNCTIONS, ""), (ORIGINAL, ""), (MODULES, "")):
        for family, names in table.items():
            yield from ((prefix + name, family) for name in names.split())


@pytest.mark.parametrize(("op_type", "family"), list(spellings()))
def test_type_names_of_the_frameworks(op_type, family):
    assert family_of(op_type) is family


@pytest.mark.parametrize(
    "op_type",
    [
        "Address", "SubVocab", "SubModule", "NormalizedX", "Background", "CondensedBlock", "Lossless", "Tokenizer",
        "Toto", "IndexedDataset", "Topological", "LlamaMLP", "LlamaDecoderLayer", "CLIPEncoderLayer", "AddBlock",
        "ConvBlock", "ActBlock", "Bilinear", "MSELoss", "", "...", "2", "Ascend950",
    ],
)  # fmt: skip
def test_a_name_that_only_contains_a_keyword_has_no_family(op_type):
    assert family_of(op_type) is Family.UNKNOWN


def test_name_space_and_overload_are_not_part_of_the_name():
    # `Tensor` is an overload here, `to` and `t` are the operators.
    assert family_of("torch.ops.aten.add.Tensor") is Family.SUM
    assert family_of("aten::mul.Tensor") is Family.SCALE
    assert family_of("npu.npu_rms_norm.default") is Family.NORMALISE
    assert family_of("aten.min.other") is Family.CONTRACT
