"""One process per scale set: hears GitHub's queue, says how many runners, marks the busy ones."""
