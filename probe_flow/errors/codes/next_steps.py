"""Codes of what to do about a finding (PF741x): the decision guide, one step each."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF7410",
        "the first tensor that differs is an input",
        "A value that a node reads differs before the node has done anything, and no operator before it explains "
        "that. The two sides were not given the same: other input data, another checkpoint, other random numbers "
        "(shuffling, augmentation, dropout), or a step that is shifted by one.",
        "`Conv2D_1.input.0` differs before any operator has changed it",
        "Feed both sides the same saved input, load the same checkpoint, switch random preprocessing and dropout off "
        "or set the same seeds, and see with `select` and `step_offset` that the same step is compared. Then dump "
        "again: nothing behind a wrong input can be judged.",
    ),
    Code(
        "PF7411",
        "the first wrong operator is a fused one",
        "The device ran several operators of the model as one. Either the fusion is wrong, or one of its parts is.",
        "`Mul_3Add_8` is fused of `Mul_3` and `Add_8`: compare with fusion switched off",
        "Dump the device once more with fusion switched off and give that dump as the golden side. Where the two "
        "differ, switch off the one fusion pass that `show --node NAME --attrs` names and report it; where they "
        "agree, one of the parts is wrong, and the dump without fusion shows which.",
    ),
    Code(
        "PF7412",
        "the first wrong operator is a custom one",
        "Its kernel is not part of the device's own library but was added: by your team or by a third party.",
        "`LookupFFN_2` (LookupFFN) is a custom operator: test its kernel by itself",
        "Run the kernel by itself on the inputs of the dump (`show --tensor`) and compare with the golden's formula: "
        "accumulation in float32, order of reductions, tails of blocks, borders of shapes.",
    ),
    Code(
        "PF7413",
        "the first wrong operator computes in 16 bits",
        "A built-in operator reads or writes float16 or bfloat16. What it gives is off by more than the rounding of "
        "that type explains, though not by over 50 times that, which happens where sums are long, values are large, "
        "or a difference of near values is taken.",
        "`ReduceSum_4` (ReduceSum) computes in float16: let it compute in float32",
        "Let this type, or this one operator, compute in float32 and compare again. In mixed precision: put the type "
        "on the black list (`modify_mixlist`), or put the operator into a `keep_dtype_scope` (TensorFlow) or a file "
        "for `--keep_dtype` (ATC). In PyTorch: leave it out of autocast and cast its inputs. If it is wrong in "
        "float32 too, the kernel is wrong: report it (PF7414).",
    ),
    Code(
        "PF7414",
        "the first wrong operator is a built-in one",
        "It is not custom, and it does not compute in 16 bits, or is off by over 50 times what rounding to 16 bits "
        "explains, which is more than precision does.",
        "`Gelu_1` (Gelu) is a built-in operator with full precision: reproduce it alone and report it",
        "See with `show --node NAME --attrs` whether attributes and shapes are those of the golden. Reproduce the one "
        "call with the dumped inputs, then send the maintainers of the operator library its type, attributes, shapes, "
        "dtypes, both outputs and the versions in run.json. A module is no operator: dump what it calls (level `mix` "
        "or `L1`) to see inside.",
    ),
    Code(
        "PF7415",
        "the error accumulates",
        "No operator adds more than rounding explains, and together they add up to more than the network's outputs "
        "should be off by. Many small errors, or a golden of much higher precision.",
        "the error grows step by step: raise precision where it grows most",
        "First see whether it matters: a metric of the model (accuracy, loss) over more than one sample. Then raise "
        "the precision of what adds most (normalisations, softmax, long sums), beginning at the operator that the "
        "finding names as nearest; or let a reference in float64 say how far off the golden itself is.",
    ),
    Code(
        "PF7416",
        "NaN or infinity begins here",
        "Finite inputs gave a value that is not finite, and the golden has none there: mostly an overflow of float16, "
        "whose largest value is 65504, a division by zero or a logarithm of one, or memory that was never written.",
        "NaN or infinity begins at `Exp_3`: look at the size of its inputs",
        "Look at the extremes of its inputs with `show --node NAME`. Near 65504: compute in float32 or bfloat16, or "
        "lower the loss scale. Small inputs: an epsilon that is zero in float16 (below 6e-8). Neither: the kernel.",
    ),
    Code(
        "PF7417",
        "an argument differs",
        "The two programs call the same operator with another number, such as an epsilon, an axis or a scale.",
        "`layer_norm_1` gets other arguments than in the golden: make the programs alike",
        "Correct the one that is wrong. What follows in the result is a consequence.",
    ),
    Code(
        "PF7418",
        "a value changes between two operators",
        "The operator that wrote the tensor wrote it right, and what the next one read is different: memory that is "
        "used again too early, an operation in place, a missing wait between streams, a conversion of layout or dtype, "
        "or an operator between them that only one side has, such as one that a graph fusion made.",
        "`MatMul_2` reads another value than `Add_1` wrote",
        "Run with streams one after another and without reuse of memory (blocking launches) and dump again. If the "
        "difference is gone it is a race, else look at casts and layout changes between the two.",
    ),
    Code(
        "PF7419",
        "an operator runs on one side only",
        "The target executes something that the golden does not, and what it wrote is read later. The two programs, "
        "or what their compilers made of them, are not the same.",
        "only the target executes `Tensor.__mul___3`, called at model.py:41: take it out there",
        "The line is that of your script, where the dump has stacks (`show --node NAME` has the whole). Take the call "
        "out, or add it to the golden's program, or map it if the other side says the same in another way.",
    ),
    Code(
        "PF7420",
        "what feeds the first wrong input was not compared",
        "A node reads a wrong value, and the output that feeds it has no counterpart, so that nobody can say whether "
        "that operator or something before it is wrong.",
        "what `Gelu_1` wrote was not compared and `MatMul_2` reads it: dump it on both sides",
        "Take that operator for the suspect, look with `show --unmatched` why it was not compared, and dump it on both "
        "sides.",
    ),
    Code(
        "PF7421",
        "the first wrong operator is off by one factor",
        "All elements are too large or too small by one ratio. Rounding errors go both ways and cancel in it, so this "
        "is another formula or another number, not a lack of precision, however small the factor is.",
        "`Mul_3` (Mul) is off by one factor, which rounding does not do: compare scales, divisors and attributes",
        "Compare the call's attributes on both sides (`show --node NAME --attrs`): scale, divisor (number of elements, "
        "of ranks, of heads), epsilon, momentum, scale of a dropout, of a quantisation or of the loss. A sum in 16 "
        "bits that stops growing shrinks by a factor, too: see whether it is one of thousands of terms.",
    ),
    Code(
        "PF7422",
        "the first wrong operator is off by one amount",
        "All elements are shifted alike. Rounding errors go both ways, so this is an addend that one side lacks.",
        "`BiasAdd_1` is off by one amount, which rounding does not do: look for an addend that one side lacks",
        "Look for a bias, a zero point of a quantisation, a mean that is subtracted, a mask that is added, or an "
        "operator of this kind that only one side has.",
    ),
    Code(
        "PF7423",
        "the first wrong operator is wrong in a few elements",
        "Most elements agree, and a few are off by far more than noise ever is: one element, a row, a channel.",
        "`Conv2D_4` (Conv2D) is wrong in a few elements only: see where they lie",
        "`show --node NAME` and the report have maps of where the errors are. At borders: padding. In the last rows or "
        "channels: the tail of a block. One row: an index, or memory that was written twice. One element: a race, or a "
        "bit that flipped; run the target again and compare both runs (`noise`).",
    ),
    Code(
        "PF7424",
        "the first wrong operator picks other elements",
        "Its indices do not name the largest (smallest) values of the target's own input, and not for near ties.",
        "`ArgMax_1` (ArgMaxV2) picks other elements than its own input says: compare axis, order and ties",
        "Compare axis, `largest` and `sorted` on both sides, and the dtype of the indices: those of a device may be of "
        "another width. Then reproduce the call alone on the dumped input.",
    ),
)
