"""Keeps as many runners as the listener wants: makes them, lets idle ones go, and says why not."""
