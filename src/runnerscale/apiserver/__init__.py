"""The embedded Kubernetes API: store, semantics, HTTP; knows our kinds only as CRD data."""
