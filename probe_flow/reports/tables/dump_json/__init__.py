"""Tables in the layouts of dump.json comparison."""
