"""What tests ask of a catalog: the names in it, what was wrong, the elements of a tensor."""

from __future__ import annotations

from collections import Counter

import numpy as np

from probe_flow.elements.blocks import open_tensor
from probe_flow.records import Catalog, TensorRef


def names(catalog: Catalog) -> list[str]:
    return [key.name for key in catalog.nodes]


def codes(catalog: Catalog) -> Counter[str]:
    return Counter(problem.code for problem in catalog.problems)


def values(ref: TensorRef) -> np.ndarray:
    with open_tensor(ref) as blocks:
        return blocks.read(0, blocks.numel).reshape(ref.logical_shape)
