"""Tables in the layouts of offline comparison."""
