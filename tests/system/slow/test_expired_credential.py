"""An exec plugin that gives a credential which has expired: told, and run again until it is good.

With the files and processes of `test_bad_kubeconfig.py`; here because between two tries that end
with a 401 are ten seconds.
"""

from pathlib import Path

from tests.system.api_process import ApiProcess
from tests.system.test_bad_kubeconfig import (
    api,
    controller,
    kubeconfig,
    plugin,
    printed,
    until,
    until_ready,
)

__all__ = ["api"]  # the fixture


def test_an_expired_credential_is_asked_for_again(api: ApiProcess, tmp_path: Path) -> None:
    old = printed(token="expired", expirationTimestamp="2020-01-01T00:00:00Z")
    good = printed(token=api.token)
    script = f"if [ -e {tmp_path}/renewed ]; then\n{good}\nelse\n{old}\nfi"
    path = kubeconfig(tmp_path, api, user=plugin(tmp_path, script))
    with controller(path, tmp_path) as readiness:
        said = until(readiness, "401 Unauthorized")
        assert said.endswith("Renew the credentials: the API server does not know them")
        (tmp_path / "renewed").touch()
        until_ready(readiness)
