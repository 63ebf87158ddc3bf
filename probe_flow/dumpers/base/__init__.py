"""What every run of a model has once, whatever its framework: job, child process, log, inputs, record."""
