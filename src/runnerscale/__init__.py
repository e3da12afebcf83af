"""runnerscale: queued GitHub Actions jobs become ephemeral runners, one fresh runner per job."""

__version__ = "0.1.0"
