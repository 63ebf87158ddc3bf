"""Neural networks."""

from mindspore.mint.nn import functional as functional
