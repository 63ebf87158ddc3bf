"""Floor 2: one reader per on-disk format; graph files; access to tensor bytes."""
