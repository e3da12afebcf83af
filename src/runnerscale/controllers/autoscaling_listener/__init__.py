"""Makes an AutoscalingListener real: its rights, its configuration, its pod, and its restarts."""
