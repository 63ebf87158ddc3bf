"""Dumps: from a folder that a framework wrote to a catalog of nodes and tensors."""
