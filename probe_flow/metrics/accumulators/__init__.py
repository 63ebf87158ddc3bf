"""What some metrics need beyond the figures of every record: accumulators, a module each, ours and of packages."""
