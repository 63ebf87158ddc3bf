"""What scripts that run one call again are made of, beside the modules of this room that they share: their `main`."""
