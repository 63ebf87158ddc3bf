"""The Python API, which the command line uses too: runs, comparisons, dumps, stored runs, registrations."""
