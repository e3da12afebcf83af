"""What files a volume has, and where a container sees it."""

from typing import Any

import msgspec
import pytest

from runnerscale.node.environment import Known, ObjectRef
from runnerscale.node.pod_spec import NodePod, Volume
from runnerscale.node.processes import MountRequest, VolumeFile
from runnerscale.node.volumes import (
    ACCOUNT_DIR,
    ACCOUNT_VOLUME,
    Needs,
    Sources,
    TokenRef,
    VolumeProblem,
    account_files,
    mount_requests,
    needs_of,
    volume_files,
)
from tests.unit.node.pods import container, pod

SECRET = ObjectRef("Secret", "cfg")
CONFIG = ObjectRef("ConfigMap", "cm")


def volume(**fields: Any) -> Volume:
    return msgspec.convert({"name": "v", **fields}, Volume)


def files(of: Volume, objects: Any = None, **fields: Any) -> dict[str, VolumeFile] | None:
    sources = Sources(Known(pod(), objects or {}), **fields)
    return volume_files(of, sources, token_lifetime_s=3600)


def contents(of: Volume, objects: Any = None, **fields: Any) -> dict[str, bytes]:
    return {path: file.content for path, file in (files(of, objects, **fields) or {}).items()}


def test_every_key_of_a_secret_is_a_file() -> None:
    found = files(volume(secret={"secretName": "cfg"}), {SECRET: {"a": b"1", "b": b"2"}})
    assert found == {"a": VolumeFile(b"1", 0o644), "b": VolumeFile(b"2", 0o644)}


def test_chosen_keys_have_their_own_path_and_mode() -> None:
    of = volume(
        secret={
            "secretName": "cfg",
            "defaultMode": 0o400,
            "items": [{"key": "a", "path": "deep/x"}, {"key": "b", "path": "y", "mode": 0o600}],
        }
    )
    assert files(of, {SECRET: {"a": b"1", "b": b"2", "c": b"3"}}) == {
        "deep/x": VolumeFile(b"1", 0o400),
        "y": VolumeFile(b"2", 0o600),
    }


def test_what_is_missing_is_named_unless_it_is_optional() -> None:
    with pytest.raises(VolumeProblem, match='secret "cfg" not found'):
        files(volume(secret={"secretName": "cfg"}), {SECRET: None})
    with pytest.raises(VolumeProblem, match="non-existent configmap key: k"):
        files(volume(configMap={"name": "cm", "items": [{"key": "k", "path": "p"}]}), {CONFIG: {}})
    assert files(volume(secret={"secretName": "cfg", "optional": True}), {SECRET: None}) == {}


def test_an_empty_dir_has_no_files_of_ours() -> None:
    assert files(volume(emptyDir={})) is None


def test_an_ephemeral_claim_is_a_folder_of_the_pods_life() -> None:
    claim = {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}
    assert files(volume(ephemeral=claim)) is None
    work = pod(volumes=[{"name": "work", "ephemeral": claim}], automountServiceAccountToken=False)
    mounts = [{"name": "work", "mountPath": "/work"}]
    assert requests(work, volumeMounts=mounts) == (MountRequest("work", "/work"),)


def test_a_projected_volume_is_the_sum_of_its_sources() -> None:
    of = volume(
        projected={
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 900}},
                {"configMap": {"name": "kube-root-ca.crt"}},
                {
                    "downwardAPI": {
                        "items": [
                            {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
                        ]
                    }
                },
                {"secret": {"name": "cfg", "items": [{"key": "a", "path": "a"}]}},
            ]
        }
    )
    found = contents(
        of,
        {SECRET: {"a": b"1"}},
        tokens={TokenRef("default", 900): "t0ken"},
        ca_pem="PEM",
    )
    assert found == {"token": b"t0ken", "ca.crt": b"PEM", "namespace": b"jobs", "a": b"1"}


def test_labels_are_listed_in_the_downward_api_form() -> None:
    of = volume(
        downwardAPI={"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}
    )
    assert contents(of) == {"labels": b'app="runner"'}


def test_what_must_be_read_is_known_before() -> None:
    of = volume(
        projected={
            "sources": [
                {"secret": {"name": "cfg"}},
                {"serviceAccountToken": {"path": "token"}},
            ]
        }
    )
    expected = Needs(frozenset({SECRET}), frozenset({TokenRef("sa", 3600)}))
    assert needs_of(of, pod(serviceAccountName="sa"), token_lifetime_s=3600) == expected


def test_a_kind_that_this_node_lacks_is_refused_with_those_it_has() -> None:
    with pytest.raises(VolumeProblem, match="it has secret, configMap, emptyDir"):
        files(volume(persistentVolumeClaim={"claimName": "x"}))


@pytest.mark.parametrize("path", ["../out", "/etc/x", "a/../../x"])
def test_no_file_leads_out_of_its_volume(path: str) -> None:
    of = volume(secret={"secretName": "cfg", "items": [{"key": "a", "path": path}]})
    with pytest.raises(VolumeProblem, match="leads out"):
        files(of, {SECRET: {"a": b"1"}})


def test_a_volume_has_a_bound() -> None:
    with pytest.raises(VolumeProblem, match="has 3 bytes, the node takes 2"):
        files(volume(secret={"secretName": "cfg"}), {SECRET: {"a": b"123"}}, max_bytes=2)


def requests(subject: NodePod, **fields: Any) -> tuple[MountRequest, ...]:
    return mount_requests(subject, container(**fields), {"POD": "one"})


WITH_VOLUMES = {
    "volumes": [
        {"name": "cfg", "secret": {"secretName": "cfg"}},
        {"name": "work", "emptyDir": {}},
        {"name": "host", "hostPath": {"path": "/srv"}},
    ],
    "automountServiceAccountToken": False,
}


def test_mounts_are_requests_with_their_parts() -> None:
    mounts = [
        {"name": "cfg", "mountPath": "/etc/cfg/"},
        {"name": "work", "mountPath": "/w", "subPathExpr": "$(POD)/x"},
        {"name": "host", "mountPath": "/h", "readOnly": True},
    ]
    assert requests(pod(**WITH_VOLUMES), volumeMounts=mounts) == (
        MountRequest("cfg", "/etc/cfg", read_only=True),  # as with kubelet, never writable
        MountRequest("work", "/w", sub_path="one/x"),
        MountRequest("host", "/h", read_only=True, host_path="/srv"),
    )


def test_the_service_account_is_mounted_unless_somebody_minds() -> None:
    account = MountRequest(ACCOUNT_VOLUME, ACCOUNT_DIR, read_only=True)
    assert requests(pod()) == (account,)
    assert requests(pod(automountServiceAccountToken=False)) == ()
    own = {"volumes": [{"name": "tok", "emptyDir": {}}]}
    mounts = [{"name": "tok", "mountPath": ACCOUNT_DIR}]
    assert requests(pod(**own), volumeMounts=mounts) == (MountRequest("tok", ACCOUNT_DIR),)


@pytest.mark.parametrize(
    "mount",
    [
        {"name": "absent", "mountPath": "/a"},
        {"name": "work", "mountPath": "relative"},
        {"name": "work", "mountPath": "/"},
        {"name": "work", "mountPath": "/a", "subPath": "../x"},
    ],
)
def test_a_mount_that_makes_no_sense_is_refused(mount: dict[str, str]) -> None:
    with pytest.raises(VolumeProblem):
        requests(pod(**WITH_VOLUMES), volumeMounts=[mount])


def test_a_service_account_is_three_files_and_the_token_is_private() -> None:
    found = account_files(pod(), "t0ken", "PEM")
    assert set(found) == {"token", "ca.crt", "namespace"}
    assert found["token"].mode == 0o600
    assert "t0ken" not in repr(found)
