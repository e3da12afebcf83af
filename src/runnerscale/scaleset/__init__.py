"""Async client of GitHub's scale-set service; usable on its own, knows no Kubernetes."""
