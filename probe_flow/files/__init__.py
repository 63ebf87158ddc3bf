"""Files: the only place that opens, lists or looks at paths of dumps, rules, graphs and mappings."""
