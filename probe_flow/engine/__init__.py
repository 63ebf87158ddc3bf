"""Floor 6: plan, execution over Dask, run record, events."""
