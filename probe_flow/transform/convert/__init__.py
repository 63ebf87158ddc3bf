"""Writing the tensors of a catalog as files of another kind or layout."""
