"""Why an object is stuck: the closed catalogue of reasons, and `Trouble`, which uses them.

A `Trouble` is the one source of an object's condition, Event, metric and log line. Its reason
is a member of `Reason`; each has a heading in `docs/troubleshooting.md` (a test asks for it).
Missing one? Add it at the end, in the same shape. Who says what when: `controllers/reporting.py`.
"""

from dataclasses import dataclass

from runnerscale.api.catalogue import Entry, Severity


class Reason(Entry):
    """Why something is stuck."""

    # -- the wish itself ------------------------------------------------------------------
    SPEC_INVALID = (
        "SpecInvalid",
        Severity.ERROR,
        "A field of the spec cannot be used: it is missing, unreadable or contradicts another.",
        "The last good state goes on working; nothing of the new spec is applied.",
        "Correct the field that the message names.",
    )
    MIN_ABOVE_MAX = (
        "MinAboveMax",
        Severity.ERROR,
        "minRunners is greater than maxRunners.",
        "The last good limits stay in force.",
        "Lower minRunners or raise maxRunners.",
    )
    CONFIG_URL_INVALID = (
        "ConfigUrlInvalid",
        Severity.ERROR,
        "githubConfigUrl names no enterprise, organization or repository.",
        "The last good place goes on being served; nothing is registered at the new one.",
        "Use https://HOST/ORG, https://HOST/OWNER/REPO or https://HOST/enterprises/NAME.",
    )
    VERSION_SKEW = (
        "VersionSkew",
        Severity.WARNING,
        "The object was made by a chart of another version than this controller.",
        "The object is served all the same; nothing is deleted.",
        "Upgrade the older of the two charts when it suits you.",
    )
    OBJECT_UNREADABLE = (
        "ObjectUnreadable",
        Severity.ERROR,
        "A field of an object in the cluster has a type that we cannot read.",
        "It is kept out of all decisions; every other object is served.",
        "Correct or delete the object that the message names.",
    )
    # -- the way to GitHub ----------------------------------------------------------------
    CREDENTIALS_MISSING = (
        "CredentialsMissing",
        Severity.ERROR,
        "The Secret (or vault item) with the GitHub credentials does not exist or lacks keys.",
        "It is read again within a minute; runners with a job are not touched.",
        "Create the Secret with github_token, or with the three github_app_ keys.",
    )
    CREDENTIALS_INVALID = (
        "CredentialsInvalid",
        Severity.ERROR,
        "The GitHub credentials are there but cannot be used: both kinds, or a malformed value.",
        "They are read again within a minute; runners with a job are not touched.",
        "Keep either the token or the three app keys, and check that the key is PEM text.",
    )
    CREDENTIALS_REFUSED = (
        "CredentialsRefused",
        Severity.ERROR,
        "GitHub refused the credentials (401 or 403).",
        "The call is tried again with growing delay; runners with a job are not touched.",
        "Renew the token. An app needs, with read and write, Self-hosted runners (organization) "
        "or Administration (repository).",
    )
    VAULT_FAILED = (
        "VaultFailed",
        Severity.ERROR,
        "The vault that holds the credentials is misconfigured or gives no answer.",
        "It is asked again with growing delay; the last good credentials stay in use.",
        "Check vaultConfig, the certificate's path and the vault's own permissions.",
    )
    PROXY_INVALID = (
        "ProxyInvalid",
        Severity.ERROR,
        "A proxy of the spec cannot be used: bad URL, or its credentials are missing.",
        "It is read again within a minute; the last good proxy stays in use where there is one.",
        "Correct the URL, or create the Secret with username and password.",
    )
    CERTIFICATE_INVALID = (
        "CertificateInvalid",
        Severity.ERROR,
        "The config map with the extra root certificates is missing, lacks the key or is no PEM.",
        "It is read again within a minute; the last good certificates stay in use.",
        "Create the config map key that the message names.",
    )
    GITHUB_UNAVAILABLE = (
        "GitHubUnavailable",
        Severity.WARNING,
        "GitHub gave no usable answer in time.",
        "The call is tried again with growing delay; what already works goes on.",
        "See whether the host is reachable from the cluster, and GitHub's status page.",
    )
    GITHUB_RATE_LIMITED = (
        "GitHubRateLimited",
        Severity.WARNING,
        "GitHub asked to wait: its rate limit is used up.",
        "We wait as long as it asked, for all calls with these credentials.",
        "Use a GitHub App instead of a token, or spread sets over several credentials.",
    )
    GITHUB_REFUSED = (
        "GitHubRefused",
        Severity.ERROR,
        "GitHub refused a call for a reason that trying again will not change.",
        "It is tried again rarely, in case the reason goes away.",
        "See that the organization or repository exists and the credentials may see it. GitHub's "
        "own words are in the message, and an activity id to quote to its support.",
    )
    # -- the scale set --------------------------------------------------------------------
    RUNNER_GROUP_NOT_FOUND = (
        "RunnerGroupNotFound",
        Severity.ERROR,
        "No runner group has the name of runnerGroup, or the credentials may not see it.",
        "It is looked up again with growing delay; a scale set that exists stays in its group.",
        "Create the group at GitHub, or correct runnerGroup.",
    )
    SCALE_SET_AMBIGUOUS = (
        "ScaleSetAmbiguous",
        Severity.ERROR,
        "The scale set cannot be told from another: two sets of that name, or two objects want it.",
        "Nothing is registered or changed until it is unambiguous.",
        "Give one of them another runnerScaleSetName.",
    )
    SCALE_SET_GONE = (
        "ScaleSetGone",
        Severity.WARNING,
        "GitHub no longer knows the scale set.",
        "It is registered anew under the same name; idle runners are replaced.",
        "Nothing, unless it was deleted on purpose: then delete the AutoscalingRunnerSet.",
    )
    SCALE_SET_LEAKED = (
        "ScaleSetLeaked",
        Severity.ERROR,
        "An object was let go although its scale set could not be deleted at GitHub.",
        "We gave up after the time limit in the message; its id is there, and nothing waits.",
        "Delete the scale set with that id at GitHub by hand.",
    )
    SETTINGS_IGNORED = (
        "SettingsIgnored",
        Severity.WARNING,
        "GitHub stores other labels for the scale set than were asked for.",
        "It is asked again when the spec changes; jobs are served for the labels that it has.",
        "An older GitHub Enterprise Server knows no labels: use the scale set's name in runs-on.",
    )
    PLACE_CHANGING = (
        "PlaceChanging",
        Severity.INFO,
        "githubConfigUrl changed; what is left at the old place is being put in order.",
        "The old listener ends, idle runners are let go, busy ones finish; then it moves.",
        "Wait for the jobs in progress.",
    )
    JOBS_LEFT_BEHIND = (
        "JobsLeftBehind",
        Severity.WARNING,
        "GitHub has given jobs to the scale set at the old place, and no runner there takes them.",
        "That scale set is deleted once its last busy runner ends; new jobs go to the new place.",
        "Cancel these jobs and run them again, or wait for the old place's last runner to end.",
    )
    OUTDATED = (
        "Outdated",
        Severity.ERROR,
        "GitHub refused the runner because its version is too old.",
        "No runner is made until the runner's pod spec changes; the scale set stays.",
        "Put a newer runner image into the template.",
    )
    DELETION_WAITS = (
        "DeletionWaits",
        Severity.INFO,
        "The object is being deleted and waits for what the message names.",
        "It is looked at again every few seconds; what may be given up is, after a time limit.",
        "Wait; runners with a job finish it first.",
    )
    # -- the listener ---------------------------------------------------------------------
    LISTENER_CRASHING = (
        "ListenerCrashing",
        Severity.ERROR,
        "The listener ends again and again soon after its start.",
        "It is started again with growing delay, at most every five minutes.",
        "Read the log of its pod (`kubectl logs`), which is kept until the next start.",
    )
    LISTENER_NOT_STARTED = (
        "ListenerNotStarted",
        Severity.WARNING,
        "The listener's pod exists but its container does not run.",
        "Its pod is replaced when it can never start; otherwise we wait.",
        "Look at the pod: image, scheduling, quota and node are in its conditions.",
    )
    SESSION_HELD_ELSEWHERE = (
        "SessionHeldElsewhere",
        Severity.WARNING,
        "Another listener holds the scale set's one session at GitHub.",
        "It is asked for again with growing delay; a dead owner's session ends by itself.",
        "Stop the other installation that uses the same scale set.",
    )
    SESSION_LOST = (
        "SessionLost",
        Severity.WARNING,
        "GitHub forgot the listener's session.",
        "A new session is opened in place.",
        "Nothing, unless it happens all the time.",
    )
    MESSAGE_QUARANTINED = (
        "MessageQuarantined",
        Severity.WARNING,
        "A message of GitHub's queue, or a part of it, cannot be understood.",
        "It is put aside, counted and acknowledged, so that the queue goes on.",
        "Nothing for your jobs: they are served all the same. Report it with the log line.",
    )
    JOB_STARTED_NOT_STORED = (
        "JobStartedNotStored",
        Severity.WARNING,
        "It could not be stored in time that a runner has a job.",
        "It is stored later; until then GitHub's own refusal protects the runner.",
        "Look at the API server's load and at the listener's Role.",
    )
    RIGHTS_MISSING = (
        "RightsMissing",
        Severity.ERROR,
        "The API server forbids something that we need (RBAC).",
        "What can be done without it is done; it is tried again with growing delay.",
        "Compare the Role with the chart's; upgrade the chart together with the image.",
    )
    # -- making runners -------------------------------------------------------------------
    TEMPLATE_REFUSED = (
        "TemplateRefused",
        Severity.ERROR,
        "The API server refuses the pod that the template makes, before any was made.",
        "No runner is made until the spec changes; from time to time one pod is tried.",
        "Correct what the server's own words in the message name.",
    )
    CREATION_PAUSED = (
        "CreationPaused",
        Severity.WARNING,
        "Runners fail, so new ones are made more slowly or not at all.",
        "One runner is tried from time to time; when it lives, all is as before.",
        "See what failed: `kubectl get ephemeralrunners` shows reason and message of each.",
    )
    QUOTA_EXCEEDED = (
        "QuotaExceeded",
        Severity.WARNING,
        "A namespace quota refused the runner's pod.",
        "It is tried again; a runner that waited too long is given up.",
        "Raise the quota or lower maxRunners.",
    )
    INVALID_POD = (
        "InvalidPod",
        Severity.ERROR,
        "The API server refused the runner's pod (validation, Pod Security or a webhook).",
        "The runner is kept to be looked at; until the spec changes, others are tried rarely.",
        "Correct the template or the policy that the message names.",
    )
    IMAGE_INVALID = (
        "ImageInvalid",
        Severity.ERROR,
        "An image name of the pod can never be pulled.",
        "The runner is replaced; until the spec changes, others are tried rarely.",
        "Correct the image name in the template.",
    )
    IMAGE_UNAVAILABLE = (
        "ImageUnavailable",
        Severity.WARNING,
        "An image of the pod could not be pulled in time.",
        "The runner is given up and another is tried with growing delay.",
        "See whether the image exists, and whether the node may pull it (imagePullSecrets).",
    )
    POD_NOT_PLACED = (
        "PodNotPlaced",
        Severity.WARNING,
        "No node took the runner's pod in time.",
        "The runner is given up and another is tried with growing delay.",
        "Look at the scheduler's words in the message: resources, taints, selectors.",
    )
    POD_NOT_STARTED = (
        "PodNotStarted",
        Severity.WARNING,
        "The runner's container did not start in time after its pod was placed.",
        "The runner is given up and another is tried with growing delay.",
        "Look at the pod's Events: volumes that do not mount and slow init containers are usual.",
    )
    NEVER_ONLINE = (
        "NeverOnline",
        Severity.WARNING,
        "The runner's container runs, but GitHub never saw the runner online.",
        "The runner is given up and another is tried with growing delay.",
        "See whether the pod reaches GitHub: proxy, certificates, network policy.",
    )
    JIT_CONFIG_EXPIRED = (
        "JitConfigExpired",
        Severity.INFO,
        "The runner's start-up configuration grew too old, or was deleted, before its pod started.",
        "The registration is forgotten and made anew.",
        "Nothing, unless pods always start that late, or somebody keeps deleting its Secrets.",
    )
    RUNNER_NAME_TAKEN = (
        "RunnerNameTaken",
        Severity.INFO,
        "GitHub already has a runner of that name, in another scale set.",
        "The runner is replaced by one with another name.",
        "Nothing.",
    )
    # -- how runners end ------------------------------------------------------------------
    POD_LOST = (
        "PodLost",
        Severity.WARNING,
        "The runner's pod was deleted by somebody else.",
        "Without a job it is replaced at once; with one it is kept for a while, to be looked at.",
        "Find out who deletes pods: node drain, preemption, a person.",
    )
    EVICTED = (
        "Evicted",
        Severity.WARNING,
        "The node or the cluster evicted the runner's pod.",
        "Without a job it is replaced at once; with one it is kept for a while, to be looked at.",
        "Give the pod requests that fit, or keep runner nodes from being consolidated.",
    )
    NODE_LOST = (
        "NodeLost",
        Severity.WARNING,
        "The node of the runner's pod is gone or silent.",
        "Without a job it is replaced at once; with one it is kept for a while, to be looked at.",
        "See why the node went away: a spot instance, a scale-down, a crash.",
    )
    OUT_OF_MEMORY = (
        "OOMKilled",
        Severity.WARNING,
        "The runner's container used more memory than it may.",
        "The runner is given up; another is tried with growing delay.",
        "Raise the memory limit in the template.",
    )
    INIT_CONTAINER_FAILED = (
        "InitContainerFailed",
        Severity.WARNING,
        "An init container or sidecar failed, so the runner cannot run.",
        "The runner is given up and another is tried with growing delay.",
        "Read the log of the container that the message names.",
    )
    RUNNER_FAILED = (
        "RunnerFailed",
        Severity.WARNING,
        "The runner ended with an error.",
        "Without a job another is tried with growing delay; with one it is kept to be looked at.",
        "Read the log of the container; the exit code is in the message.",
    )
    EXITED_WITHOUT_JOB = (
        "ExitedWithoutJob",
        Severity.WARNING,
        "The runner ended without an error, but also without having had a job.",
        "Another is tried with growing delay.",
        "Read its log: a wrong entry point or an update of the runner itself are usual causes.",
    )
    REGISTRATION_LOST = (
        "RegistrationLost",
        Severity.WARNING,
        "GitHub no longer knows the runner although its container still runs.",
        "Its pod is ended and the runner replaced.",
        "Nothing, unless somebody removes runners at GitHub.",
    )
    STUCK_AFTER_JOB = (
        "StuckAfterJob",
        Severity.WARNING,
        "The runner's job is complete, but its container goes on running.",
        "Its pod is ended after a time limit.",
        "Look for processes that the job left behind.",
    )
    # -- cleaning up ----------------------------------------------------------------------
    JOB_STILL_RUNNING = (
        "JobStillRunning",
        Severity.WARNING,
        "GitHub says that a job still runs on a runner that is to go.",
        "We wait and ask again; with its pod gone we give up after a time limit.",
        "Cancel the job at GitHub if it is dead.",
    )
    REGISTRATION_LEAKED = (
        "RegistrationLeaked",
        Severity.WARNING,
        "A runner was let go although GitHub could not be told to forget it.",
        "We gave up after a time limit; the runner's id is in the message.",
        "Nothing: GitHub forgets ephemeral runners by itself after a day.",
    )
    CLEANUP_BLOCKED = (
        "CleanupBlocked",
        Severity.WARNING,
        "Something that belongs to the object cannot be deleted.",
        "It is tried again with growing delay.",
        "Read the server's words in the message: finalizers and rights are usual causes.",
    )
    API_SERVER_REFUSED = (
        "ApiServerRefused",
        Severity.ERROR,
        "The Kubernetes API server (or a webhook behind it) did not take a change of ours.",
        "It is tried again with growing delay.",
        "The server's own words are in the message: a webhook, a policy or a rule said no.",
    )
    POD_REFUSED_BY_NODE = (
        "PodRefusedByNode",
        Severity.WARNING,
        "A node turned the runner's pod down (out of cpu, memory or pods) before anything ran.",
        "The pod is made again a few times, more slowly each time; then the runner is replaced.",
        "Give the pod requests that fit, or more room on the nodes.",
    )
    # -- the installation -----------------------------------------------------------------
    CRD_MISSING = (
        "CrdMissing",
        Severity.ERROR,
        "A CustomResourceDefinition that the controller works with is not installed.",
        "Nothing is done before it is there; it is looked for again, at most every 30 seconds.",
        "Install the chart's: `helm show crds CHART | kubectl apply --server-side -f -`.",
    )
    CRD_OUTDATED = (
        "CrdOutdated",
        Severity.WARNING,
        "An installed CustomResourceDefinition is older than the controller.",
        "All work goes on; what the older definition does not know is not stored.",
        "Helm never does: `helm show crds CHART | kubectl apply --server-side -f -`.",
    )
    CONTROLLERS_COMPETE = (
        "ControllersCompete",
        Severity.ERROR,
        "Another controller works on the same objects: they undo each other's work.",
        "Nothing that has a job is touched; all else is done and undone until one of them stops.",
        "Keep one installation a namespace (watchSingleNamespace), and --enable-leader-election "
        "where it has several replicas.",
    )
    # -- what nobody foresaw --------------------------------------------------------------
    RECONCILE_FAILED = (
        "ReconcileFailed",
        Severity.ERROR,
        "Every look at the object ends with an error, so nothing is done about it.",
        "It is looked at again with growing delay, at most a minute; other objects are served.",
        "See the controller's log for the lines with this object's key: an unexpected error there "
        "is a bug of ours, to be reported with its traceback.",
    )
    PROXY_REFUSED = (
        "ProxyRefused",
        Severity.ERROR,
        "The proxy answered itself (403 or 407) instead of passing us on to GitHub.",
        "It is asked again with growing delay; its credentials are read again within a minute.",
        "Correct username and password in the proxy's Secret, or let the proxy allow the host "
        "that the message names.",
    )
    CACHE_STALE = (
        "CacheStale",
        Severity.WARNING,
        "The controller does not hear of changes: a list or watch at the API server fails.",
        "It is asked again, at most every 20 seconds; work goes on with what was heard last.",
        "See whether the API server answers, and whether the Role allows `list` and `watch`.",
    )
    DEMAND_DOUBTED = (
        "DemandDoubted",
        Severity.WARNING,
        "GitHub counts jobs as assigned that no idle runner is ever given.",
        "No runners are kept for them, but one that waits in case they are real after all.",
        "Nothing for jobs that start; show GitHub's support the numbers in the message.",
    )


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an object is stuck: the one source of its condition, Event, metric and log line."""

    reason: Reason  # text is taken too, if it is a word of the catalogue; ValueError if not
    about: str  # kind namespace/name
    happened: str  # in the cluster's own words where it gave any; never a secret
    remedy: str  # what the reader can do, and what we do if nobody acts

    def __post_init__(self) -> None:
        if self.reason.__class__ is not Reason:
            object.__setattr__(self, "reason", Reason(self.reason))  # type: ignore[call-arg]

    @property
    def message(self) -> str:
        """What happened and what to do, without the object's name: for its own status."""
        return f"{self.happened}. {self.remedy}."

    def __str__(self) -> str:
        return f"{self.about}: {self.message}"


def trouble(reason: Reason, *, about: str, happened: str) -> Trouble:
    """A Trouble whose remedy is the catalogue's own."""
    return Trouble(reason, about, happened.rstrip("."), reason.what_you_can_do.rstrip("."))
