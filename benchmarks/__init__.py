"""Speed and memory of probe_flow on the machine at hand, beside another tool if one is named; no tests."""
