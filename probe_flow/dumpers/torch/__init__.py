"""What all runners of torch models share."""
