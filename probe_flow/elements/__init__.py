"""The elements of a tensor, block by block, whatever way they are stored."""
