"""What packages that extend probe_flow test themselves with; imports without pytest.

`builders` makes small catalogs, pairs and comparisons; `run_records` makes records of runs. `readers`, `metrics`,
`reports` and `stages` hold classes of tests: a subclass that names the thing under test is a test class, for pytest and
for anything that calls its ``test_`` methods (`expect.failures`).
"""
