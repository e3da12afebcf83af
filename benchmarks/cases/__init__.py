"""One file a benchmark; each has `async def measure(...)` and says what it reports."""
