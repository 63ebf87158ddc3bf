"""Floor 5: from a YAML file to a validated Workflow. Import from the modules: some commands need only a few."""
