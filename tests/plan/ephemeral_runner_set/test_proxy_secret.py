"""The proxies of a set's runners in a Secret of the set."""

import base64
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from runnerscale.api.names import hash_secret
from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner_set.proxy_secret import (
    data_of,
    is_ready,
    name_of,
    removal,
    stage,
    wanted_write,
)
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    DeleteProxySecret,
    Look,
    Proxy,
    ReadProxySecret,
    ResolveProxy,
)
from runnerscale.core.secret import SecretText
from runnerscale.credentials.place import PlaceTrouble, Resolved
from runnerscale.kube.builtin import Secret
from runnerscale.kube.objects import ObjectMeta, OwnerReference
from tests.plan.ephemeral_runner_set.values import NOW, SEEN, item
from tests.plan.ephemeral_runner_set.world import SET, World

WISHED = replace(
    SEEN,
    item=item(
        metadata={"labels": {"actions.github.com/scale-set-name": "s"}},
        spec={"ephemeralRunnerSpec": {"proxy": {"http": {"url": "http://p:1"}}}},
    ),
)
DATA = {"http_proxy": b"http://p:1", "https_proxy": b"", "no_proxy": b""}
MINE = OwnerReference(uid="uid-set", controller=True)


def secret(**members: Any) -> Secret:
    return Secret(metadata=ObjectMeta(uid="s1", owner_references=[MINE]), **members)


def test_the_steps_to_a_secret() -> None:
    assert stage(WISHED).actions == (ResolveProxy(),)
    resolved = replace(WISHED, proxy=Proxy(data=DATA, again_s=NOW + 45))
    assert stage(resolved).actions == (ReadProxySecret(),)
    assert not is_ready(resolved)
    absent = replace(WISHED, proxy=Proxy(secret=Look.ABSENT, data=DATA, again_s=NOW + 45))
    (write,) = stage(absent).actions
    assert write == wanted_write(absent, DATA)
    assert not is_ready(absent)


def test_the_secret_that_is_created() -> None:
    absent = replace(WISHED, proxy=Proxy(secret=Look.ABSENT, data=DATA))
    write = wanted_write(absent, DATA)
    assert write is not None and write.create
    metadata = write.body["metadata"]
    assert metadata["name"] == name_of(WISHED)
    assert metadata["labels"] == {
        "actions.github.com/scale-set-name": "s",
        "actions.github.com/scale-set-namespace": "",
    }
    assert metadata["annotations"]["actions.github.com/integrity-hash"] == hash_secret(DATA)
    assert metadata["ownerReferences"][0]["uid"] == "uid-set"
    assert base64.b64decode(write.body["data"]["http_proxy"]) == b"http://p:1"


def test_only_what_differs_is_patched_and_nothing_if_nothing_does() -> None:
    absent = replace(WISHED, proxy=Proxy(secret=Look.ABSENT, data=DATA))
    made = wanted_write(absent, DATA)
    assert made is not None
    meta = made.body["metadata"]
    there = Secret(
        metadata=ObjectMeta(
            labels=meta["labels"], annotations=meta["annotations"], owner_references=[MINE]
        ),
        data=made.body["data"],
    )
    settled = replace(WISHED, proxy=Proxy(secret=there, data=DATA, again_s=NOW + 45))
    assert wanted_write(settled, DATA) is None
    assert stage(settled).actions == () and stage(settled).again_s == 45
    other = wanted_write(settled, DATA | {"no_proxy": b"x"})
    assert other is not None and not other.create and set(other.body) == {"metadata", "data"}
    foreign = replace(WISHED, proxy=Proxy(secret=Secret(), data=DATA))
    adopted = wanted_write(foreign, DATA)
    assert adopted is not None and "ownerReferences" in adopted.body["metadata"]


def test_trouble_is_told_and_waited_out() -> None:
    why = trouble(Reason.PROXY_INVALID, about="x", happened="no")
    seen = replace(WISHED, proxy=Proxy(trouble=why, again_s=NOW + 20))
    assert (stage(seen).actions, stage(seen).troubles, stage(seen).again_s) == ((), (why,), 20)
    assert stage(replace(seen, now_s=NOW + 20)).actions == (ResolveProxy(),)


def test_what_is_no_longer_wished_is_taken_away_if_it_is_ours() -> None:
    assert removal(SEEN) is None  # nothing says that there ever was one
    looked = removal(replace(SEEN, had_proxy=True))
    assert looked is not None and looked.actions == (ReadProxySecret(),)
    ours = removal(replace(SEEN, proxy=Proxy(secret=secret())))
    assert ours is not None and ours.actions == (DeleteProxySecret("s1"),)
    assert removal(replace(SEEN, proxy=Proxy(secret=Secret()))) is None
    why = trouble(Reason.RIGHTS_MISSING, about="x", happened="no")
    assert removal(replace(SEEN, proxy=Proxy(trouble=why), had_proxy=True)) is None
    assert stage(replace(SEEN, had_proxy=True)).actions == (ReadProxySecret(),)
    assert is_ready(SEEN)


def test_the_data_has_all_three_keys() -> None:
    url = SecretText("http://user:secret@p:1")
    found = Resolved(None, "", 0, None, url, url, ("a", "b"), "")
    assert data_of(found) == {
        "http_proxy": b"http://user:secret@p:1",
        "https_proxy": b"http://user:secret@p:1",
        "no_proxy": b"a,b",
    }


def test_the_secret_does_not_show() -> None:
    assert "http://p:1" not in repr(Proxy(data=DATA))
    absent = replace(WISHED, proxy=Proxy(secret=Look.ABSENT, data=DATA))
    assert "http" not in repr(wanted_write(absent, DATA))


class TestProxy:
    def resolved(self, password: str) -> Any:
        url = SecretText(f"http://user:{password}@proxy:3128")
        return Resolved(None, "", 0, None, url, None, ("intern",), "")

    def data(self, this: World) -> dict[str, str] | None:
        found = next((b for (p, _, _), b in this.api.objects.items() if p == "secrets"), None)
        if found is None:
            return None
        return {k: base64.b64decode(v).decode() for k, v in found["data"].items()}

    PROXY: ClassVar[dict[str, Any]] = {
        "http": {"url": "http://proxy:3128", "credentialSecretRef": "p"},
        "noProxy": ["intern"],
    }

    @pytest.mark.behaviour("C1 T135")
    async def test_the_secret_comes_first_follows_rotation_and_goes_with_the_set(self) -> None:
        this = World()
        this.make(replicas=1, runner={"proxy": self.PROXY})
        this.github.proxy = self.resolved("one")
        await this.settle()
        order = [plural for verb, plural, _ in this.api.writes if verb == "create"]
        assert order == ["secrets", "ephemeralrunners"]
        assert self.data(this) == {
            "http_proxy": "http://user:one@proxy:3128",
            "https_proxy": "",
            "no_proxy": "intern",
        }
        runner = this.body(this.names[0])
        secret = next(n for (p, _, n) in this.api.objects if p == "secrets")
        assert runner["spec"]["proxySecretRef"] == secret
        assert secret.startswith(f"{SET}-") and secret.endswith("-runner-proxy")
        this.github.proxy = self.resolved("two")
        await this.later(60)
        found = self.data(this)
        assert found is not None and found["http_proxy"] == "http://user:two@proxy:3128"
        this.finish(this.names[0])
        this.delete_set()
        await this.settle()
        assert self.data(this) is None and this.set_is_gone

    async def test_it_goes_when_no_proxy_is_wished_any_more(self) -> None:
        this = World()
        this.make(replicas=1, runner={"proxy": self.PROXY})
        await this.settle()
        this.register()
        assert self.data(this) is not None
        this.restart()
        this.change_set({"spec": {"ephemeralRunnerSpec": {"proxy": None}}})
        await this.settle()
        assert self.data(this) is None

    async def test_credentials_that_are_missing_are_told_and_nothing_is_made(self) -> None:
        this = World()
        this.make(replicas=1, runner={"proxy": self.PROXY})
        this.github.trouble = PlaceTrouble("ProxyInvalid", "secret runners/p is gone", "Create it")
        await this.settle()
        assert this.names == [] and this.status["reason"] == "ProxyInvalid"
        this.github.trouble = None
        await this.later(31)
        assert len(this.names) == 1 and this.status["reason"] == ""

    async def test_a_set_that_never_had_a_proxy_reads_no_secret(self) -> None:
        this = World()
        this.make(replicas=1)
        await this.settle()
        assert [read for read in this.api.reads if read[1] == "secrets"] == []


def test_a_key_that_somebody_added_is_no_difference() -> None:
    # The data never was equal then, and was patched in every round of every pass.
    absent = replace(WISHED, proxy=Proxy(secret=Look.ABSENT, data=DATA))
    made = wanted_write(absent, DATA)
    assert made is not None
    meta = ObjectMeta(
        uid="s1",
        owner_references=[MINE],
        labels=made.body["metadata"]["labels"],
        annotations=made.body["metadata"]["annotations"],
    )
    there = Secret(metadata=meta, data={**made.body["data"], "note": "eA=="})
    assert wanted_write(replace(WISHED, proxy=Proxy(secret=there, data=DATA)), DATA) is None
