"""The smallest things everybody needs: clock, randomness, deadlines, backoff, bounds, secrets, text."""
