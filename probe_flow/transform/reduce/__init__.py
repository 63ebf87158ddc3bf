"""Statistics in place of tensors, once or while a dump is written."""
