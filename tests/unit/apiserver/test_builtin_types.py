"""A number that its field's type cannot hold is refused, as Go refuses to read it."""

from typing import Any

import pytest

from runnerscale.apiserver.builtin_types import WrongType, read_object


def pod(port: Any, deadline_s: Any) -> dict[str, Any]:
    probe = {"tcpSocket": {"port": port}}
    spec = {
        "activeDeadlineSeconds": deadline_s,
        "containers": [{"name": "c", "startupProbe": probe}],
    }
    return {"spec": spec}


@pytest.mark.parametrize("port", [2**31 - 1, -(2**31), "http", "9" * 400])
@pytest.mark.parametrize("deadline_s", [2**63 - 1, -(2**63), 5.0])
def test_what_fits_is_read(port: Any, deadline_s: Any) -> None:
    read, _ = read_object(pod(port, deadline_s), "Pod")
    assert read["spec"]["activeDeadlineSeconds"] == deadline_s
    assert read["spec"]["containers"][0]["startupProbe"]["tcpSocket"]["port"] == port


@pytest.mark.parametrize(
    ("port", "deadline_s", "kind"),
    [
        (2**31, 5, "int32"),
        (10**400, 5, "int32"),
        (80, 2**63, "int64"),
        (80, -(2**63) - 1, "int64"),
        (80, 1e300, "int64"),
    ],
)
def test_what_fits_no_such_number_is_refused(port: Any, deadline_s: Any, kind: str) -> None:
    with pytest.raises(WrongType, match=f"cannot unmarshal number .* of type {kind}"):
        read_object(pod(port, deadline_s), "Pod")
