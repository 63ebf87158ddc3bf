"""What the Acme model team adds to probe_flow."""
