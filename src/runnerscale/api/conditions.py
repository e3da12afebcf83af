"""The condition types that appear in `status.conditions`, by kind.

True is always the good side, except where the name says otherwise (`VersionSkew`). Reasons of
a False one come from `reasons.py`; how a list of conditions is kept: `controllers/conditions.py`.
"""

# All four kinds
RECONCILED = "Reconciled"  # False: looks at it fail, or what lasts that no other type tells
READABLE = "Readable"  # only once it was False: a field has a type that we cannot read

# AutoscalingRunnerSet
READY = "Ready"  # everything below is well: jobs that are queued will be served
SPEC_ACCEPTED = "SpecAccepted"  # the wish makes sense; if not, the last good state goes on
REGISTERED = "Registered"  # the scale set exists at GitHub as wished
LISTENER_READY = "ListenerReady"  # the listener's pod runs, and it says that nothing stops it
RUNNER_VERSION_ACCEPTED = "RunnerVersionAccepted"  # GitHub takes runners of this version
VERSION_SKEW = "VersionSkew"  # True: chart and controller are of different versions
DELETION_BLOCKED = "DeletionBlocked"  # True: being deleted, and something holds it

# EphemeralRunnerSet; TemplateAccepted is mirrored to the AutoscalingRunnerSet
TEMPLATE_ACCEPTED = "TemplateAccepted"  # the API server takes the pod that the template makes
CREATION_ALLOWED = "CreationAllowed"  # no failure stops or slows the making of runners
SATISFIED = "Satisfied"  # as many runners as wanted
# Only once it was False: the API server takes what is to be said of each runner, on the runner
RUNNERS_WRITABLE = "RunnersWritable"

# AutoscalingListener
CONFIG_READY = "ConfigReady"  # credentials, proxy and CA were read; the config is current
POD_RUNNING = "PodRunning"  # the listener's container runs

# EphemeralRunner (REGISTERED as well)
POD_PLACED = "PodPlaced"  # the pod exists and has a node
STARTED = "Started"  # the runner's container started
ONLINE = "Online"  # GitHub sees the runner
HEALTHY = "Healthy"  # False with the reason of whatever ended or holds it
