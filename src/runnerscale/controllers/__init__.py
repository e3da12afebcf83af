"""A folder per reconciler: its stages, their order, the objects it makes."""
