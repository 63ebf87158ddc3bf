"""What commands do with a terminal: questions, progress, the summary, streams, signals."""
