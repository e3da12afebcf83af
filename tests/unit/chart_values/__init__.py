"""The rules of `runnerscale values check`, alone."""
