"""The floor: only the unavoidable requests of a runner's life, as fast as they can be sent.

`script.py` is what the benchmarks hold in their hand; what sends the requests is a process of its
own (`process.py`), so that its CPU can be compared with that of our controller and listener.
"""
