"""One pass over a pair of tensors: sums, extremes and counts, folded into one record."""
