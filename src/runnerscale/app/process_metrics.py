"""What a process publishes of itself, whoever serves it (`probes.py`)."""

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector


def add_process_metrics(registry: CollectorRegistry) -> None:
    """Publish memory, CPU, files and the interpreter's own numbers with the rest."""
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
