"""Functions of neural networks."""

import tape

from torch import Tensor

relu = tape.functions(Tensor)["relu"]
