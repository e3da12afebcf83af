"""How fast it is, beside a floor of the same run: `make bench`, `make bench-full`.

Whole processes on this machine, over loopback; nothing here decides whether a change lands
(`docs/performance.md`). `world.py` puts one together, `cases/` holds one file a benchmark.
"""
