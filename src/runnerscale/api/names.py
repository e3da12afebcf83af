"""Names of generated objects and the hashes in them.

`hash_text` and `hash_secret` reproduce ARC's hashes, because listener and proxy Secret names
are made of them and must be found again. What we compare by ourselves is in `fingerprint.py`.
Contract: resources-and-controllers 2.5-2.7.
"""

from collections.abc import Mapping
from functools import lru_cache

from runnerscale.core.randomness import NAME_ALPHABET, Random, name_suffix

LABEL_VALUE_MAX = 63
TRIMMED_HEAD = 58
TRIMMED_TAIL = "-trim"
GENERATED_BASE_MAX = 58  # the API server appends five characters to at most this many
HASH_IN_NAME = 8
NAMES_KEPT = 1024
RUNNER_SET_NAME_MAX = 45  # <ars>-<8>-listener must fit a label value

FNV_OFFSET = 2166136261
FNV_PRIME = 16777619
_DECIMAL = [str(byte) for byte in range(256)]


def fnv1a32(data: bytes) -> int:
    """FNV-1a, 32 bits."""
    value = FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * FNV_PRIME) & 0xFFFFFFFF
    return value


def safe_encode(text: str) -> str:
    """Each character as one that is fit for names and never spells a word."""
    return "".join(NAME_ALPHABET[ord(char) % len(NAME_ALPHABET)] for char in text)


def hash_text(text: str) -> str:
    """ARC's hash of a text: 1 to 10 characters fit for names."""
    return safe_encode(str(fnv1a32(text.encode())))


def hash_secret(data: Mapping[str, bytes]) -> str:
    """ARC's integrity hash of a Secret: of its data as Go prints ARC's private structure."""
    items = " ".join(
        f"{key}:[{' '.join([_DECIMAL[byte] for byte in data[key]])}]" for key in sorted(data)
    )
    return hash_text("(*actionsgithubcom.data){Data:(map[string][]uint8)map[" + items + "]}")


@lru_cache(maxsize=NAMES_KEPT)  # asked in every pass, and made of the same few words
def listener_name(*, namespace: str, runner_set: str, runner_group: str, config_url: str) -> str:
    """Of the AutoscalingListener, its ServiceAccount, Role, RoleBinding and pod."""
    short = hash_text(f"{namespace}@{runner_group}@{config_url}")[:HASH_IN_NAME]
    return f"{runner_set}-{short}-listener"


def listener_config_name(listener: str) -> str:
    """Of the Secret with the listener's configuration."""
    return f"{listener}-config"


def listener_proxy_name(listener: str) -> str:
    """Of the Secret with the listener's proxies."""
    return f"{listener}-proxy"


@lru_cache(maxsize=NAMES_KEPT)
def runner_proxy_name(*, namespace: str, runner_set: str) -> str:
    """Of the Secret with the runners' proxies; `runner_set`: the EphemeralRunnerSet."""
    return f"{runner_set}-{hash_text(namespace)[:HASH_IN_NAME]}-runner-proxy"


def runner_name_base(runner_set: str) -> str:
    """What every runner's name of an EphemeralRunnerSet begins with."""
    return f"{runner_set}-runner-"[:GENERATED_BASE_MAX]


def runner_name(runner_set: str, random: Random) -> str:
    """A fresh runner name in the form that the API server's `generateName` gives.

    Drawn by us before the call that creates, so that a lost answer can be repeated.
    """
    return runner_name_base(runner_set) + name_suffix(random)


def label_value(text: str) -> str:
    """`text` made to fit a label value."""
    if len(text) > LABEL_VALUE_MAX:
        return text[:TRIMMED_HEAD] + TRIMMED_TAIL
    return text.strip("-_.")
