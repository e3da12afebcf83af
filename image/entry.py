#!/usr/bin/python3 -IBu
"""`/manager` and `/ghalistener` of the image: one file under two names, which tell it what to be.

-I: nothing of the environment or of the working folder is imported; -B: the root is read-only;
-u: a log line is out when it is written. What the names mean: `runnerscale/cli/main.py`.
"""

import sys

sys.path.insert(0, "/opt/runnerscale")

from runnerscale.cli.main import main

main()
