"""Reading kubeconfig files: contexts, certificates as files or data, tokens, exec plugins.

Every complaint names the file, the entry and what to do. A secret is never part of one.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from runnerscale.core.secret import SecretText
from runnerscale.core.small_file import read_small, read_small_text
from runnerscale.kube.cluster import ClusterConfig, Login
from runnerscale.kube.errors import ConfigError
from runnerscale.kube.exec_plugin import API_VERSIONS, ExecPlugin
from runnerscale.kube.pem import ClientCertificate
from runnerscale.kube.yaml_text import NotYaml, load_yaml

BYTES_MAX = 4 * 1024 * 1024


class _Kebab(msgspec.Struct, rename="kebab"):
    pass


class _Cluster(_Kebab):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _Exec(msgspec.Struct, rename="camel"):
    api_version: str
    command: str
    args: list[str] | None = None
    env: list[dict[str, str]] | None = None
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False


class _User(_Kebab):
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: _Exec | None = None
    auth_provider: Any = None
    as_: str = msgspec.field(name="as", default="")


class _Context(_Kebab):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster


class _NamedUser(msgspec.Struct):
    name: str
    user: _User | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context


class _File(_Kebab):
    current_context: str | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


N = TypeVar("N", _NamedCluster, _NamedUser, _NamedContext)


def read_kubeconfig(paths: Sequence[Path], *, context: str = "") -> ClusterConfig:
    """The cluster and login of a context; of several files the first to name a thing wins.

    Raises:
        ConfigError: a file is missing, unreadable, or contradicts itself.
    """
    files = [(path, _parse(path)) for path in paths if path.exists() or len(paths) == 1]
    if not files:
        raise ConfigError(f"none of these kubeconfig files exists: {', '.join(map(str, paths))}")
    names = ", ".join(str(path) for path, _ in files)
    wanted = context or next((f.current_context for _, f in files if f.current_context), "")
    if not wanted:
        raise ConfigError(f"kubeconfig {names}: no current-context; name one, or pass a context")
    _, chosen = _find(files, lambda f: f.contexts, "context", wanted, names)
    where, cluster = _find(files, lambda f: f.clusters, "cluster", chosen.context.cluster, names)
    login = Login()
    if chosen.context.user:
        at, user = _find(files, lambda f: f.users, "user", chosen.context.user, names)
        login = _login(at, user, _exec_cluster(where, cluster))
    return _config(where, cluster, chosen.context, login)


def _parse(path: Path) -> _File:
    try:
        text = read_small(path, BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"cannot read kubeconfig {path}: {error.strerror}") from error
    try:
        document = load_yaml(text)
    except NotYaml as error:
        at = f" (line {error.line})" if error.line else ""
        raise ConfigError(f"kubeconfig {path} is not YAML{at}") from None
    try:
        return msgspec.convert(document, _File)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ConfigError(f"kubeconfig {path}: {error}") from None


def _find(
    files: Sequence[tuple[Path, _File]],
    entries: Callable[[_File], list[N] | None],
    kind: str,
    name: str,
    names: str,
) -> tuple[Path, N]:
    known: list[str] = []
    for path, file in files:
        for entry in entries(file) or ():
            if entry.name == name:
                return path, entry
            known.append(entry.name)
    there = ", ".join(known) or "none"
    raise ConfigError(f"kubeconfig {names}: there is no {kind} {name!r} (there is: {there})")


def _config(path: Path, found: _NamedCluster, context: _Context, login: Login) -> ClusterConfig:
    cluster = found.cluster
    about = f"kubeconfig {path}: cluster {found.name!r}"
    if not cluster.server.startswith(("https://", "http://")):
        raise ConfigError(f"{about} needs a server URL that begins with https:// or http://")
    _check_address(cluster.server, f"{about}: server")
    if cluster.proxy_url and not cluster.proxy_url.startswith(("http://", "https://")):
        raise ConfigError(f"{about}: only http:// and https:// are supported as proxy-url")
    if cluster.proxy_url:
        _check_address(cluster.proxy_url, f"{about}: proxy-url")
    has_ca = bool(cluster.certificate_authority or cluster.certificate_authority_data)
    if cluster.insecure_skip_tls_verify and has_ca:
        raise ConfigError(
            f"{about} has both a certificate authority and insecure-skip-tls-verify; keep one"
        )
    return ClusterConfig(
        server=cluster.server.rstrip("/"),
        namespace=context.namespace or "default",
        ca_pem=_authority(path, found),
        insecure=cluster.insecure_skip_tls_verify,
        server_name=cluster.tls_server_name,
        proxy_url=cluster.proxy_url,
        login=login,
        source=f"kubeconfig {path}",
    )


def _check_address(url: str, about: str) -> None:
    """Host and port can be read. The URL is not repeated: it may hold a password."""
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0
        (parts.hostname or "").encode("idna")  # as who looks the name up will do
    except ValueError:
        usable = False
    if not usable or not (url.isascii() and url.isprintable() and " " not in url):
        raise ConfigError(f"{about} is no address; write https://HOST:PORT")


def _authority(path: Path, found: _NamedCluster) -> str:
    about = f"kubeconfig {path}: cluster {found.name!r}: certificate-authority"
    cluster = found.cluster
    return _text(path, cluster.certificate_authority_data, cluster.certificate_authority, about)


def _text(path: Path, data: str, file: str, about: str) -> str:
    """What `…-data` holds, else what the file holds; data wins, as in client-go."""
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            raise ConfigError(f"{about}-data is not base64 of a PEM text") from None
    if not file:
        return ""
    at = path.parent / file
    try:
        at = path.parent / Path(file).expanduser()
        return read_small_text(at, bytes_max=BYTES_MAX)
    except (OSError, ValueError, RuntimeError) as error:  # no text, no such name, no such home
        why = getattr(error, "strerror", None) or "not text"
        raise ConfigError(f"{about}: cannot read {at}: {why}") from None


def _login(path: Path, found: _NamedUser, cluster: dict[str, Any]) -> Login:
    user = found.user or _User()
    about = f"kubeconfig {path}: user {found.name!r}"
    if user.auth_provider is not None:
        raise ConfigError(f"{about}: auth-provider left Kubernetes in 1.26; use an exec plugin")
    if user.as_:
        raise ConfigError(f"{about}: impersonation (`as`) is not supported")
    certificate_pem = _text(
        path, user.client_certificate_data, user.client_certificate, f"{about}: client-certificate"
    )
    key_pem = _text(path, user.client_key_data, user.client_key, f"{about}: client-key")
    if bool(certificate_pem) != bool(key_pem):
        raise ConfigError(f"{about}: client-certificate and client-key belong together")
    return Login(
        token=SecretText(user.token) if user.token and not user.token_file else None,
        token_file=path.parent / user.token_file if user.token_file else None,
        user=user.username,
        password=SecretText(user.password),
        exec_plugin=_plugin(path, user.exec, about, cluster) if user.exec else None,
        certificate=(
            ClientCertificate(certificate_pem, SecretText(key_pem)) if certificate_pem else None
        ),
    )


def _plugin(path: Path, said: _Exec, about: str, cluster: dict[str, Any]) -> ExecPlugin:
    if said.api_version not in API_VERSIONS:
        raise ConfigError(
            f"{about}: exec apiVersion {said.api_version!r} is not supported; "
            f"use {' or '.join(API_VERSIONS)}"
        )
    if said.interactive_mode == "Always":
        raise ConfigError(f"{about}: the exec plugin insists on a terminal, and there is none")
    if not said.command:
        raise ConfigError(f"{about}: exec names no command")
    command = said.command
    if "/" in command:  # a path is meant from the kubeconfig's folder, a bare name from PATH
        command = str(path.parent / command)
    return ExecPlugin(
        api_version=said.api_version,
        command=command,
        args=tuple(said.args or ()),
        env=tuple((pair.get("name", ""), pair.get("value", "")) for pair in said.env or ()),
        install_hint=said.install_hint.strip(),
        cluster=cluster if said.provide_cluster_info else None,
    )


def _exec_cluster(path: Path, found: _NamedCluster) -> dict[str, Any]:
    """What a plugin may be told about the cluster (`provideClusterInfo`)."""
    cluster = found.cluster
    told: dict[str, Any] = {"server": cluster.server}
    if cluster.tls_server_name:
        told["tls-server-name"] = cluster.tls_server_name
    if cluster.insecure_skip_tls_verify:
        told["insecure-skip-tls-verify"] = True
    if cluster.proxy_url:
        told["proxy-url"] = cluster.proxy_url
    authority = _authority(path, found)
    if authority:
        told["certificate-authority-data"] = base64.b64encode(authority.encode()).decode()
    return told
