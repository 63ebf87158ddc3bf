"""Checks of single APIs: every API call of a dump is run again alone, in worker processes, beside a benchmark."""
