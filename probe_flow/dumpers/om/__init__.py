"""Run offline models (`.om`) on the device, by the tool that CANN's users run them with."""
