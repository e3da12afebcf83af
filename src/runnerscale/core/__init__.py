"""The smallest things everybody needs: clock, randomness, deadlines, bounds, secrets, text."""
