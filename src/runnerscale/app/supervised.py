"""A part that a supervisor started ends with it, also when that is killed without a word.

Else the parts of a demo that was killed, or that ran out of memory, would go on for ever: nobody
knows of them any more. The kernel tells a child of its parent's death; what is told is SIGTERM,
so that each part ends in order. A part that nobody of ours supervises is not concerned.
"""

import ctypes
import os
import signal

from runnerscale.core.whole_number import whole_number

SUPERVISOR = "RUNNERSCALE_SUPERVISOR"  # in the environment of a part: its supervisor's process id
_PR_SET_PDEATHSIG = 1


def end_with_supervisor() -> None:
    """To be called first of all. The variable goes: it is not for what a part starts itself."""
    supervisor = whole_number(os.environ.pop(SUPERVISOR, ""))
    if supervisor is None:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != supervisor:  # it died before we asked
        os.kill(os.getpid(), signal.SIGTERM)
