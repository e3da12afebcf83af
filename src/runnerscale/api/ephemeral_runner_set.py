"""EphemeralRunnerSet (ERS): how many runners of which kind are wanted.

Fields only; the listener writes `replicas`, `patchID` and `settledRunners`, the controller in
`controllers/ephemeral_runner_set/` makes it so. Contract: resources-and-controllers 1.5.
"""

from typing import Annotated

import msgspec

from runnerscale.api.ephemeral_runner import EphemeralRunnerSpec
from runnerscale.api.values import CONDITIONS, GROUP, VERSION, ResourceMeta, doc
from runnerscale.kube.objects import Condition, KubeObject
from runnerscale.kube.resource import Resource


class EphemeralRunnerSetSpec(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """How many, and of which kind."""

    replicas: Annotated[int, doc("Runners wanted; absent means 0. Written by the listener.")] = 0
    patch_id: Annotated[
        int,
        doc(
            "Which decision of the listener this is; 0: exactly replicas, not only at least.",
            mandatory=True,
        ),
    ] = msgspec.field(name="patchID", default=0)
    # Whether a runner that just ended may be replaced at once depends on whether the number
    # already lacks its job; only the listener knows (controllers/ephemeral_runner_set/finished).
    settled_runners: Annotated[
        list[str] | None,
        doc(
            "Runners whose job is complete and no longer counted in replicas, the last to end "
            "last. Written by the listener."
        ),
    ] = None
    ephemeral_runner_spec: Annotated[EphemeralRunnerSpec, doc("What a runner looks like.")] = (
        msgspec.field(default_factory=EphemeralRunnerSpec)
    )
    ephemeral_runner_metadata: Annotated[
        ResourceMeta | None, doc("Labels and annotations for EphemeralRunners made from now on.")
    ] = None


class EphemeralRunnerSetStatus(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """What the EphemeralRunnerSet controller says of it."""

    current_replicas: Annotated[
        int, doc("Runners that are pending, running or failed.", mandatory=True)
    ] = 0
    pending_ephemeral_runners: Annotated[
        int, doc("Runners without a job: still starting, or online and idle.")
    ] = 0
    running_ephemeral_runners: Annotated[int, doc("Runners that have a job.")] = 0
    failed_ephemeral_runners: Annotated[int, doc("Runners that failed, kept as evidence.")] = 0
    finished_ephemeral_runners: Annotated[
        int, doc("Runners whose job is done and whose object is still there.")
    ] = 0
    deleting_ephemeral_runners: Annotated[int, doc("Runners that are being deleted.")] = 0
    phase: Annotated[str, doc("Running or Outdated.")] = ""
    reason: Annotated[str, doc("What is wrong, as a word of the documentation; else empty.")] = ""
    message: Annotated[str, doc("What is wrong and what can be done about it.")] = ""
    conditions: Annotated[list[Condition] | None, CONDITIONS] = None


class EphemeralRunnerSet(KubeObject, gc=False):
    """The runners of one AutoscalingRunnerSet."""

    spec: EphemeralRunnerSetSpec = msgspec.field(default_factory=EphemeralRunnerSetSpec)
    status: EphemeralRunnerSetStatus = msgspec.field(default_factory=EphemeralRunnerSetStatus)


EPHEMERAL_RUNNER_SETS = Resource(
    GROUP, VERSION, "ephemeralrunnersets", "EphemeralRunnerSet", EphemeralRunnerSet
)
