"""Keeps one scale set at GitHub, one EphemeralRunnerSet and one listener for a runner set."""
