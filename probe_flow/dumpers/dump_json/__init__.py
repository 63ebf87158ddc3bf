"""What dumps of running programs (dump.json) have in common, whatever the framework: options, entries, files."""
