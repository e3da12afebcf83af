"""Planted defects: each a small change of the product that a simulation must notice.

What a defect is: `mutant.py`. The defects: a file for each part of the product, all of them in
`catalogue.py`. How one is planted and hunted: `workshop.py`, and `hunt.py` in a process of its
own. `make mutants` is `run.py`.
"""
