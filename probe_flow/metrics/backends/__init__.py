"""Ways to go through a block: numpy, and machine code that numba made."""
