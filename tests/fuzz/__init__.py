"""Fuzzing of everything that reads what others wrote: a few inputs a target in `make test`, more in `make fuzz`.

An input is a folder with a few files: a healthy one (`fuzz.seeds`), damaged by mutators that know what kind of file it
is (`fuzz.mutate`). A target (`fuzz.target`) reads it; nothing but a `ProbeFlowError` may come out, within 20 s and
1 GiB (`fuzz.limits`). Input N of a target is always the same, so a crash is named by two words and kept as a file.
"""
