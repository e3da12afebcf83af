"""The configuration that every pod gets: two environment variables and three files.

`RUNNERSCALE_SERVICE_ACCOUNT_DIR` names the folder of the files where it is not the usual one
(the embedded control plane, on a machine without mount namespaces).
"""

from collections.abc import Mapping
from pathlib import Path

from runnerscale.core.small_file import read_small_text
from runnerscale.kube.cluster import ClusterConfig, Login
from runnerscale.kube.errors import ConfigError

SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"
DIR_VARIABLE = "RUNNERSCALE_SERVICE_ACCOUNT_DIR"


def is_in_cluster(environ: Mapping[str, str]) -> bool:
    """Whether the environment is that of a pod."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST") and environ.get("KUBERNETES_SERVICE_PORT"))


def in_cluster_config(environ: Mapping[str, str]) -> ClusterConfig:
    """From the pod's environment and files; the token is read when it is needed.

    Raises:
        ConfigError: this is no pod, or a file is missing.
    """
    if not is_in_cluster(environ):
        raise ConfigError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    folder = Path(environ.get(DIR_VARIABLE) or SERVICE_ACCOUNT_DIR)
    token_file = folder / "token"
    if not token_file.is_file():
        raise ConfigError(
            f"there is no service account token at {token_file}: "
            "does the pod set automountServiceAccountToken to false?"
        )
    host = environ["KUBERNETES_SERVICE_HOST"]
    if ":" in host:
        host = f"[{host}]"
    return ClusterConfig(
        server=f"https://{host}:{environ['KUBERNETES_SERVICE_PORT']}",
        namespace=_read(folder / "namespace").strip() or "default",
        ca_pem=_read(folder / "ca.crt"),
        login=Login(token_file=token_file),
        source="in-cluster",
    )


def _read(path: Path) -> str:
    try:
        return read_small_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
