"""The charts, rendered offline: what each value does, and what a wrong one says."""
