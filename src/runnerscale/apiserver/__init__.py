"""The embedded Kubernetes API server: store, semantics, HTTP.

Impartial: it imports only `core` and knows the project's kinds only as CustomResourceDefinition
objects. Start reading at `server.py` (what it is made of) and `operations.py` (what a write
means); `docs/architecture.md` says why there is one at all.
"""
