"""What would change if a controller of ours took the place of ARC's: rules on a snapshot.

`check.py` is the way in. Each file looks at one part of an installation: its controllers, its
runner sets, what runs of them, the rights and schemas around them. Looking at the cluster (only
ever looking) is `app/migration.py`, printing `cli/migrate_command.py`. Pure.
"""
