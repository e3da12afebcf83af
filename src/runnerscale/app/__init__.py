"""Wiring, one page per process."""
