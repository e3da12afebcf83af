"""Every time bound in a runner's life, with the reason for its number.

A stage compares one of these with the snapshot's own time and says how long until it is worth
looking again; nobody else in this folder knows a number of seconds.
"""

import zlib

from runnerscale.core.backoff import Backoff

# --- registration -------------------------------------------------------------------------

# A start-up configuration that no pod has used by then is not used any more: GitHub lets it
# grow old, and the slot is better given to a fresh name (design section 5).
JIT_CONFIG_RENEWED_AFTER_S = 600.0
# GitHub said the name is taken, but its look-up finds nobody: the look-up lags by seconds.
# The first try is at once, because most often the lag is over by then.
NAME_LOOKUP = Backoff(first_s=2.0, cap_s=30.0)
NAME_TRIES_MAX = 6  # about a minute; then another name is cheaper than waiting
CLOCK_SKEW_S = 5.0  # between the API server's creation times and this process
# A runner that was made so lately is registered on the cache's word: no view is so far behind,
# and a runner's way to its registration takes milliseconds. Any other is read once more.
FRESH_S = 30.0
NAME_LAG_S = 30.0  # nobody found this long after a lost call: it had no effect
# A call to GitHub without a usable answer. An outage of an hour costs each runner some sixty
# calls, and its end is noticed within a minute.
GITHUB_AGAIN = Backoff(first_s=2.0, cap_s=60.0)
# GitHub or the configuration says no: seldom changes by itself, but a person may be at work,
# and what he corrects is to work within a minute.
REFUSED_AGAIN = Backoff(first_s=5.0, cap_s=60.0)
# One failed call in a row is not worth a write to the runner's status.
TOLD_AFTER_TRIES = 2

# --- pod ----------------------------------------------------------------------------------

# A refusal that may pass (quota, webhook, missing service account): what upstream waits, too.
POD_REFUSED_AGAIN_S = 30.0
# A pod or Secret of our name that is not ours: what upstream waits.
NAME_TAKEN_AGAIN_S = 5.0
# A node that refused the pod (out of cpu, out of pods) is asked again more slowly each time:
# 5, 10, 20, 40, 80 s, upstream's own row.
POD_RETURNED_AGAIN = Backoff(first_s=5.0, cap_s=80.0)
POD_RETURNED_MAX = 5  # then the slot goes to a fresh runner
# A pod that waits a moment for a node or an image is normal and not told.
TOLD_AFTER_S = 30.0

# --- placement and start --------------------------------------------------------------------

# From the pod's creation to a node. An autoscaler needs 2 to 8 minutes for a new node; a new
# pod finds the node that was made for the old one, so giving up costs little.
PLACED_WITHIN_S = 600.0
# From the node to the running container while the node is visibly at work. Longer than the
# life of a start-up configuration: a pull of some 20 GB must not be cut off and begun anew.
STARTED_WITHIN_S = 900.0
# From the node to an image that at last could be pulled: some six tries of the kubelet.
IMAGE_WITHIN_S = 600.0
# A Secret that the node does not find is asked about at the API server as soon as its absence is
# worth telling (`TOLD_AFTER_S`): a node may be behind. While it is there, again after this long.
JIT_SECRET_ASKED_EVERY_S = 30.0

# --- online and idle ------------------------------------------------------------------------

# From the container's start to "online" at GitHub. A runner needs 5 to 20 s; a job that nobody
# takes is offered again after 5 minutes, so a dead runner must be gone before that.
ONLINE_WITHIN_S = 180.0
# Offline, asked again after this long, is dead and not just reconnecting.
OFFLINE_CONFIRMED_AFTER_S = 60.0
# No registration under a running container: a job that just ended looks the same until the
# runner's process has packed up.
LOST_CONFIRMED_AFTER_S = 60.0
# After the first question at its deadline a runner is asked about again only now and then: nobody
# tells us that a registration has vanished, and until then a place is taken that serves nobody.
# More rarely the more there are, so that all together never cost more than one call in 10 s,
# whether there are ten of them or ten thousand.
ASKED_EVERY_S = 120.0
ASKED_SPACING_S = 10.0
# A busy runner is asked about even less: GitHub itself ends what it lost contact with.
BUSY_ASKED_EVERY_S = 3600.0
# GitHub said "a job runs on it" though none is stored: the listener's write is on its way.
BUSY_WORD_HOLDS_S = 300.0

# --- the end ----------------------------------------------------------------------------------

# The job was said complete, but the container runs on: uploads of logs take seconds.
OVER_WITHIN_S = 120.0
# An exit 0 without a job is judged by GitHub. No answer for this long: taken for finished,
# because nobody scales while GitHub is away.
EXIT_JUDGED_WITHIN_S = 300.0
# A pod past its own grace period whose node says nothing: the node is gone.
POD_STUCK_AFTER_S = 60.0

# --- cleaning up --------------------------------------------------------------------------------

# "A job still runs on it": what upstream waits before asking again.
JOB_STILL_RUNNING_AGAIN_S = 30.0
# GitHub was seen to say so of idle runners too. A registration that our own lost call made would
# stay behind for a day if the first such word about it were believed.
STRAY_BUSY_MAX = 3
# GitHub gives up a job whose runner is silent after 10 to 15 minutes.
JOB_RELEASED_WITHIN_S = 1200.0
# Credentials that are missing or refused while their runner is being deleted: rotation is
# noticed within a minute, and an uninstall must end within five.
CREDENTIALS_GIVEN_UP_AFTER_S = 240.0
# The same when we do not even know of a registration.
UNREGISTERED_GIVEN_UP_AFTER_S = 60.0
# GitHub away: longer than its long outages; it forgets ephemeral runners itself after a day.
GITHUB_GIVEN_UP_AFTER_S = 7200.0

# What a sum of seconds loses in rounding is no reason to wake up a microsecond early.
AGAIN_MIN_S = 0.01


def spread(uid: str) -> float:
    """A fixed share, 0 to 1, for each object: what began together must not go on in step."""
    return zlib.crc32(uid.encode()) / 2**32


def asked_every_s(*, alive: int) -> float:
    """How often GitHub is asked about one idle runner, `alive` of them living."""
    return max(ASKED_EVERY_S, alive * ASKED_SPACING_S)


def busy_asked_every_s(*, alive: int) -> float:
    """How often GitHub is asked about one busy runner, `alive` of them living."""
    return max(BUSY_ASKED_EVERY_S, alive * ASKED_SPACING_S)
