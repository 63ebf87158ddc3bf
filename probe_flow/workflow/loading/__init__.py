"""From YAML to raw stages and parameters, with places."""
