"""Where batches run: here, in threads, in processes, on a cluster."""
