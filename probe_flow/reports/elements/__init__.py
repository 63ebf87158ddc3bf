"""Element-wise views of chosen tensors."""
