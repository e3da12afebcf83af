"""The node agent: pods as local processes."""
