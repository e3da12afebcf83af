"""What the files of each volume are, and where a container mounts them.

Pure: the Secrets, ConfigMaps and tokens were read by `preparation.py`; writing the files out is
`volume_files.py`, how a mount path comes to exist is `mounts.py`.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field

from runnerscale.node.environment import (
    Contents,
    EnvironmentProblem,
    Known,
    ObjectRef,
    expand,
    field_value,
    resource_value,
)
from runnerscale.node.pod_spec import (
    Container,
    DownwardVolume,
    KeyToPath,
    NodePod,
    PodSpec,
    ProjectedSource,
    TokenProjection,
    Volume,
)
from runnerscale.node.processes import MountRequest, VolumeFile

ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"
ACCOUNT_VOLUME = "runnerscale-api-access"  # no volume of a template may be called so
ROOT_CA_CONFIG_MAP = "kube-root-ca.crt"  # every namespace of a cluster has it; ours are told
KINDS = "secret, configMap, emptyDir, ephemeral, projected, downwardAPI, hostPath"
MODE_DEFAULT = 0o644


class VolumeProblem(Exception):
    """A volume cannot be set up: kubelet's FailedMount, with its message."""


@dataclass(frozen=True, slots=True)
class TokenRef:
    """A service-account token that a volume needs."""

    account: str
    lifetime_s: int


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be read before the files of a volume are known."""

    objects: frozenset[ObjectRef] = frozenset()
    tokens: frozenset[TokenRef] = frozenset()


@dataclass(frozen=True, slots=True)
class Sources:
    """What was read."""

    known: Known
    tokens: Mapping[TokenRef, str] = field(default_factory=dict, repr=False)
    ca_pem: str = ""
    max_bytes: int = 32 * 1024 * 1024


def pod_volumes(pod: NodePod) -> tuple[Volume, ...]:
    """The volumes with files or a folder of their own; host paths need nothing."""
    volumes = pod.spec.volumes or ()
    return tuple(volume for volume in volumes if volume.host_path is None)


def wants_account(spec: PodSpec, container: Container) -> bool:
    """The service account's files belong into this container without being asked for."""
    if spec.automount_service_account_token is False:
        return False
    mounts = container.volume_mounts or ()
    return all(mount.mount_path.rstrip("/") != ACCOUNT_DIR for mount in mounts)


def pod_wants_account(spec: PodSpec) -> bool:
    """Some container gets the service account's files without asking."""
    everyone = [*(spec.init_containers or ()), *spec.containers]
    return any(wants_account(spec, container) for container in everyone)


def account_token(spec: PodSpec, lifetime_s: int) -> TokenRef:
    """The token that is mounted without being asked for."""
    return TokenRef(spec.service_account_name or "default", lifetime_s)


def needs_of(volume: Volume, pod: NodePod, *, token_lifetime_s: int) -> Needs:
    """What `volume_files` will look for."""
    objects: set[ObjectRef] = set()
    tokens: set[TokenRef] = set()
    if volume.secret:
        objects.add(ObjectRef("Secret", volume.secret.secret_name))
    if volume.config_map:
        objects.add(ObjectRef("ConfigMap", volume.config_map.name))
    for source in (volume.projected.sources or ()) if volume.projected else ():
        if source.secret:
            objects.add(ObjectRef("Secret", source.secret.name))
        if source.config_map:
            objects.add(ObjectRef("ConfigMap", source.config_map.name))
        if source.service_account_token:
            tokens.add(_token_ref(source.service_account_token, pod, token_lifetime_s))
    return Needs(frozenset(objects), frozenset(tokens))


def account_files(pod: NodePod, token: str, ca_pem: str) -> dict[str, VolumeFile]:
    """The three files of a service account."""
    files = {
        "token": VolumeFile(token.encode(), 0o600),
        "namespace": VolumeFile((pod.metadata.namespace or "").encode()),
    }
    if ca_pem:
        files["ca.crt"] = VolumeFile(ca_pem.encode())
    return files


def volume_files(
    volume: Volume, sources: Sources, *, token_lifetime_s: int
) -> dict[str, VolumeFile] | None:
    """The files by path; None: an empty folder that the containers fill.

    Raises:
        VolumeProblem: something it is made of is missing, or this node has no such volume.
    """
    if volume.empty_dir or volume.ephemeral:
        return None
    files: dict[str, VolumeFile]
    if volume.secret:
        given = volume.secret
        ref = ObjectRef("Secret", given.secret_name)
        files = _keys(ref, given.items, given.default_mode, given.optional, sources)
    elif volume.config_map:
        asked = volume.config_map
        ref = ObjectRef("ConfigMap", asked.name)
        files = _keys(ref, asked.items, asked.default_mode, asked.optional, sources)
    elif volume.downward_api:
        files = _downward(volume.downward_api, volume.downward_api.default_mode, sources)
    elif volume.projected:
        files = {}
        for source in volume.projected.sources or ():
            default_mode = volume.projected.default_mode
            files |= _projected(source, default_mode, sources, token_lifetime_s)
    else:
        raise VolumeProblem(
            f'volume "{volume.name}" is of a kind that this node does not have (it has {KINDS})'
        )
    return _checked(volume.name, files, sources.max_bytes)


def mount_requests(
    pod: NodePod, container: Container, env: Mapping[str, str]
) -> tuple[MountRequest, ...]:
    """The mounts of one container, the implied one of its service account included.

    Raises:
        VolumeProblem: a volume that does not exist, a path that is not absolute or leads out.
    """
    volumes = {volume.name: volume for volume in pod.spec.volumes or ()}
    requests: list[MountRequest] = []
    for mount in container.volume_mounts or ():
        volume = volumes.get(mount.name)
        if volume is None:
            raise VolumeProblem(f'container {container.name} mounts unknown volume "{mount.name}"')
        path = posixpath.normpath(mount.mount_path)
        if not path.startswith("/") or path == "/":
            raise VolumeProblem(f"mountPath {mount.mount_path!r} is not a folder below /")
        sub_path = mount.sub_path or expand(mount.sub_path_expr or "", env)
        if sub_path and not _is_inside(sub_path):
            raise VolumeProblem(f"subPath {sub_path!r} leads out of its volume")
        host_path = volume.host_path.path if volume.host_path else ""
        # Files that this node rewrites are never writable for the container, as with kubelet.
        own = volume.empty_dir or volume.ephemeral or volume.host_path
        filled = own is None
        requests.append(
            MountRequest(
                volume=volume.name,
                path=path,
                sub_path=sub_path,
                read_only=bool(mount.read_only) or filled,
                host_path=host_path,
            )
        )
    if wants_account(pod.spec, container):
        requests.append(MountRequest(volume=ACCOUNT_VOLUME, path=ACCOUNT_DIR, read_only=True))
    return tuple(requests)


def _token_ref(source: TokenProjection, pod: NodePod, lifetime_s: int) -> TokenRef:
    account = pod.spec.service_account_name or "default"
    return TokenRef(account, source.expiration_seconds or lifetime_s)


def _keys(
    ref: ObjectRef,
    items: list[KeyToPath] | None,
    default_mode: int | None,
    optional: bool | None,
    sources: Sources,
) -> dict[str, VolumeFile]:
    contents: Contents | None = sources.known.objects.get(ref)
    if contents is None and ref == ObjectRef("ConfigMap", ROOT_CA_CONFIG_MAP) and sources.ca_pem:
        contents = {"ca.crt": sources.ca_pem.encode()}
    if contents is None:
        if optional:
            return {}
        raise VolumeProblem(f'{ref.kind.lower()} "{ref.name}" not found')
    mode = MODE_DEFAULT if default_mode is None else default_mode
    if items is None:
        return {key: VolumeFile(content, mode) for key, content in contents.items()}
    files: dict[str, VolumeFile] = {}
    for item in items:
        if item.key in contents:
            file_mode = mode if item.mode is None else item.mode
            files[item.path] = VolumeFile(contents[item.key], file_mode)
        elif not optional:
            raise VolumeProblem(f"references non-existent {ref.kind.lower()} key: {item.key}")
    return files


def _downward(
    volume: DownwardVolume, default_mode: int | None, sources: Sources
) -> dict[str, VolumeFile]:
    known = sources.known
    spec = known.pod.spec
    everyone = [*(spec.init_containers or ()), *spec.containers]
    files: dict[str, VolumeFile] = {}
    for item in volume.items or ():
        try:
            if item.field_ref:
                text = field_value(known.pod, item.field_ref.field_path)
            elif item.resource_field_ref:
                text = resource_value(item.resource_field_ref, everyone, known, "")
            else:
                text = ""
        except EnvironmentProblem as problem:
            raise VolumeProblem(str(problem)) from problem
        mode = item.mode if item.mode is not None else default_mode
        files[item.path] = VolumeFile(text.encode(), MODE_DEFAULT if mode is None else mode)
    return files


def _projected(
    source: ProjectedSource, default_mode: int | None, sources: Sources, token_lifetime_s: int
) -> dict[str, VolumeFile]:
    if source.secret:
        part = source.secret
        ref = ObjectRef("Secret", part.name)
        return _keys(ref, part.items, default_mode, part.optional, sources)
    if source.config_map:
        part = source.config_map
        ref = ObjectRef("ConfigMap", part.name)
        return _keys(ref, part.items, default_mode, part.optional, sources)
    if source.downward_api:
        return _downward(source.downward_api, default_mode, sources)
    if source.service_account_token:
        asked = source.service_account_token
        ref_ = _token_ref(asked, sources.known.pod, token_lifetime_s)
        return {asked.path: VolumeFile(sources.tokens[ref_].encode(), 0o600)}
    raise VolumeProblem("a projected source is of a kind that this node does not have")


def _checked(name: str, files: dict[str, VolumeFile], max_bytes: int) -> dict[str, VolumeFile]:
    for path in files:
        if not _is_inside(path):
            raise VolumeProblem(f'volume "{name}": path {path!r} leads out of it')
    size = sum(len(file.content) for file in files.values())
    if size > max_bytes:
        raise VolumeProblem(f'volume "{name}" has {size} bytes, the node takes {max_bytes}')
    return files


def _is_inside(path: str) -> bool:
    normal = posixpath.normpath(path)
    return not (posixpath.isabs(path) or normal in (".", "..") or normal.startswith("../"))
