"""Are these values of the charts what somebody meant? Read-only and without a cluster.

A room of its own and a leaf: it knows the two charts' schemas and defaults (`charts.json`, made
by `make generate` from charts/*/values.schema.json and values.yaml) and nothing of the rest.
`check.py` is the way in; `cli/values_command.py` prints what it finds.

Pure: opening the files is left to the command line.
"""
