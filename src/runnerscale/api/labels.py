"""Every label, annotation and finalizer key that we write or read.

Keys only; values are made in `names.py` and in the builders. Keys of our own begin with
`runnerscale.dev/`; everything that ARC has keeps its key. Contract: resources-and-controllers
2.1-2.3.
"""

# Labels
PART_OF = "app.kubernetes.io/part-of"
PART_OF_VALUE = "gha-runner-scale-set"
COMPONENT = "app.kubernetes.io/component"
COMPONENT_LISTENER = "runner-scale-set-listener"
COMPONENT_RUNNER_SET = "runner-set"
COMPONENT_RUNNER = "runner"
VERSION = "app.kubernetes.io/version"
SCALE_SET_NAME = "actions.github.com/scale-set-name"
SCALE_SET_NAMESPACE = "actions.github.com/scale-set-namespace"
ENTERPRISE = "actions.github.com/enterprise"
ORGANIZATION = "actions.github.com/organization"
REPOSITORY = "actions.github.com/repository"
LISTENER_NAMESPACE = "auto-scaling-listener-namespace"
LISTENER_NAME = "auto-scaling-listener-name"
EPHEMERAL_RUNNER = "actions-ephemeral-runner"
EPHEMERAL_RUNNER_VALUE = "True"
POD_TEMPLATE_HASH = "pod-template-hash"
HOOK_RUNNER_POD = "runner-pod"  # on what the container hooks made: name of the runner pod
NODE_OS = "kubernetes.io/os"

# Annotations
SCALE_SET_ID = "runner-scale-set-id"  # without a prefix, as ARC has it
RUNNER_SCALE_SET_NAME = "actions.github.com/runner-scale-set-name"
RUNNER_GROUP_NAME = "actions.github.com/runner-group-name"
INTEGRITY_HASH = "actions.github.com/integrity-hash"
PATCH_ID = "actions.github.com/patch-id"
VALUES_HASH = "actions.github.com/values-hash"
CLEANUP_KUBE_MODE_ROLE_BINDING = "actions.github.com/cleanup-kubernetes-mode-role-binding-name"
CLEANUP_KUBE_MODE_ROLE = "actions.github.com/cleanup-kubernetes-mode-role-name"
CLEANUP_KUBE_MODE_SERVICE_ACCOUNT = (
    "actions.github.com/cleanup-kubernetes-mode-service-account-name"
)
CLEANUP_NO_PERMISSION_SERVICE_ACCOUNT = (
    "actions.github.com/cleanup-no-permission-service-account-name"
)
CLEANUP_GITHUB_SECRET = "actions.github.com/cleanup-github-secret-name"  # noqa: S105 - a key
CLEANUP_MANAGER_ROLE_BINDING = "actions.github.com/cleanup-manager-role-binding"
CLEANUP_MANAGER_ROLE = "actions.github.com/cleanup-manager-role-name"

# Annotations of our own
OWN_PREFIX = "runnerscale.dev/"
# On the EphemeralRunnerSet, by the AutoscalingRunnerSet controller: at most this many runners
# are wanted, whatever `replicas` says ("0": none). Absent: no hold.
HOLD = "runnerscale.dev/hold"
# On the EphemeralRunnerSet, by the listener and nobody else, while something keeps it from its
# work: what, as JSON (`listener_word.py`). On no runner, no pod, and in no comparison.
LISTENER_TROUBLE = "runnerscale.dev/listener-trouble"
# On a listener, its account, Role, binding and config Secret: the keys of labels and annotations
# that we put there, so that those which are no longer wished can be removed without touching
# anybody else's.
OWNED_KEYS = "runnerscale.dev/owned-keys"
# On the AutoscalingRunnerSet: the same of its EphemeralRunnerSet. Not on that itself, because ARC
# compares its annotations exactly: with one that it does not know it never gets past them (W6).
SET_KEYS = "runnerscale.dev/set-keys"
# On the AutoscalingRunnerSet: which controller process works on it, so that two notice each other.
CONTROLLER = "runnerscale.dev/controller"
# On the AutoscalingRunnerSet: the place at GitHub that `runner-scale-set-id` was issued for.
ISSUED_FOR = "runnerscale.dev/issued-for"
# On the AutoscalingRunnerSet: what was last told GitHub (labels, disableUpdate), fingerprinted.
SETTINGS_HASH = "runnerscale.dev/settings-hash"
# On the AutoscalingRunnerSet: fingerprint of the runner pod that GitHub found outdated.
OUTDATED_FOR = "runnerscale.dev/outdated-for"
# On the AutoscalingRunnerSet, while it moves to another place at GitHub: since when.
MOVING_SINCE = "runnerscale.dev/moving-since"
# On the AutoscalingRunnerSet: scale sets at places that it has moved away from, as JSON.
LEFT_BEHIND = "runnerscale.dev/left-behind"
# On the AutoscalingRunnerSet, while it is deleted: since when GitHub or the API server refuses.
DELETION_FAILING_SINCE = "runnerscale.dev/deletion-failing-since"
# On runner pods and runners: fingerprint of the runner spec they were made from.
RUNNER_SPEC_HASH = "runnerscale.dev/runner-spec-hash"
# On the listener's pod: how often in a row it ended soon after its start, and how it ended.
LISTENER_RESTARTS = "runnerscale.dev/restarts"
# On the listener's pod: the uid of the ServiceAccount whose token it has.
LISTENER_ACCOUNT_UID = "runnerscale.dev/service-account-uid"
LISTENER_LAST_TERMINATION = "runnerscale.dev/last-termination"

# Finalizers
RUNNER_SET_FINALIZER = "autoscalingrunnerset.actions.github.com/finalizer"
LISTENER_FINALIZER = "autoscalinglistener.actions.github.com/finalizer"
EPHEMERAL_RUNNER_SET_FINALIZER = "ephemeralrunnerset.actions.github.com/finalizer"
EPHEMERAL_RUNNER_FINALIZER = "ephemeralrunner.actions.github.com/finalizer"
RUNNER_REGISTRATION_FINALIZER = "ephemeralrunner.actions.github.com/runner-registration-finalizer"
CLEANUP_PROTECTION_FINALIZER = "actions.github.com/cleanup-protection"

# In this order on every new EphemeralRunner.
EPHEMERAL_RUNNER_FINALIZERS = (EPHEMERAL_RUNNER_FINALIZER, RUNNER_REGISTRATION_FINALIZER)
