"""What names, labels, quantities and the like must look like, in Kubernetes' own words.

Each check returns the list of complaints, empty when the text is right. Where they are asked
is `metadata.py` and the rules of each kind.
"""

import re
from decimal import Decimal, InvalidOperation

LABEL_FORMAT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN_FORMAT = LABEL_FORMAT + r"(\." + LABEL_FORMAT + ")*"
DNS1035_FORMAT = "[a-z]([-a-z0-9]*[a-z0-9])?"
KEY_FORMAT = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
VALUE_FORMAT = "(" + KEY_FORMAT + ")?"
CONFIG_KEY_FORMAT = "[-._a-zA-Z0-9]+"
ENV_NAME_FORMAT = "[ -<>-~]+"

_LABEL = re.compile(LABEL_FORMAT)
_SUBDOMAIN = re.compile(SUBDOMAIN_FORMAT)
_DNS1035 = re.compile(DNS1035_FORMAT)
_KEY = re.compile(KEY_FORMAT)
_VALUE = re.compile(VALUE_FORMAT)
_CONFIG_KEY = re.compile(CONFIG_KEY_FORMAT)


def _regex_error(message: str, pattern: str, *examples: str) -> str:
    if not examples:
        return f"{message} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{e}', " for e in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def _max_characters(count: int) -> str:
    return f"must be no more than {count} characters"


def _max_bytes(count: int) -> str:
    return f"must be no more than {count} bytes"


def dns_label(value: str) -> list[str]:
    """RFC 1123 label: names of namespaces, containers, volumes."""
    errors = [_max_characters(63)] if len(value) > 63 else []
    if not _LABEL.fullmatch(value):
        if _SUBDOMAIN.fullmatch(value):
            return [*errors, "must not contain dots"]
        message = (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or"
            " '-', and must start and end with an alphanumeric character"
        )
        errors.append(_regex_error(message, LABEL_FORMAT, "my-name", "123-abc"))
    return errors


def dns_subdomain(value: str, *, prefix: bool = False) -> list[str]:
    """RFC 1123 subdomain: names of most objects. `prefix`: the start of a generated name."""
    value = mask_trailing_dash(value) if prefix else value
    errors = [_max_characters(253)] if len(value) > 253 else []
    if not _SUBDOMAIN.fullmatch(value):
        message = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters,"
            " '-' or '.', and must start and end with an alphanumeric character"
        )
        errors.append(_regex_error(message, SUBDOMAIN_FORMAT, "example.com"))
    return errors


def dns1035_label(value: str) -> list[str]:
    """A label that starts with a letter: plural and short names of resources."""
    errors = [_max_characters(63)] if len(value) > 63 else []
    if not _DNS1035.fullmatch(value):
        message = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start"
            " with an alphabetic character, and end with an alphanumeric character"
        )
        errors.append(_regex_error(message, DNS1035_FORMAT, "my-name", "abc-123"))
    return errors


def mask_trailing_dash(value: str) -> str:
    """A generated name goes on after the dash."""
    return value[:-1] + "a" if len(value) > 1 and value.endswith("-") else value


def path_segment(value: str) -> list[str]:
    """Anything that can stand in a URL: names of roles and bindings."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{bad}'" for bad in "/%" if bad in value]


def label_key(value: str) -> list[str]:
    """Keys of labels and annotations, names of finalizers."""
    errors: list[str] = []
    message = (
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with"
        " an alphanumeric character"
    )
    parts = value.split("/")
    if len(parts) > 2:
        text = _regex_error(message, KEY_FORMAT, "MyName", "my.name", "123-abc")
        return [
            f"a valid label key {text} with an optional DNS subdomain prefix and '/'"
            " (e.g. 'example.com/MyName')"
        ]
    if len(parts) == 2:
        if not parts[0]:
            errors.append("prefix part must be non-empty")
        else:
            errors += [f"prefix part {text}" for text in dns_subdomain(parts[0])]
    name = parts[-1]
    if not name:
        errors.append("name part must be non-empty")
    elif len(name) > 63:
        errors.append("name part " + _max_bytes(63))
    if not _KEY.fullmatch(name):
        errors.append(
            "name part " + _regex_error(message, KEY_FORMAT, "MyName", "my.name", "123-abc")
        )
    return errors


def label_value(value: str) -> list[str]:
    """Values of labels."""
    errors = [_max_bytes(63)] if len(value.encode(errors="surrogateescape")) > 63 else []
    if not _VALUE.fullmatch(value):
        message = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-',"
            " '_' or '.', and must start and end with an alphanumeric character"
        )
        errors.append(_regex_error(message, VALUE_FORMAT, "MyValue", "my_value", "12345"))
    return errors


def config_key(value: str) -> list[str]:
    """Keys in the data of config maps and secrets."""
    errors = [_max_characters(253)] if len(value) > 253 else []
    if not _CONFIG_KEY.fullmatch(value):
        message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        errors.append(_regex_error(message, CONFIG_KEY_FORMAT, "key.name", "KEY_NAME", "key-name"))
    if value == ".":
        errors.append("must not be '.'")
    elif value == "..":
        errors.append("must not be '..'")
    elif value.startswith(".."):
        errors.append("must not start with '..'")
    return errors


def env_name(value: str) -> list[str]:
    """Names of environment variables: any printable ASCII but '='."""
    if not value:
        return ["environment variable names must be non-empty"]
    if not re.fullmatch(ENV_NAME_FORMAT, value):
        return [
            "a valid environment variable name must consist only of printable ASCII characters"
            " other than '='"
        ]
    return []


def port_number(value: int) -> list[str]:
    """TCP and UDP ports."""
    return [] if 1 <= value <= 65535 else ["must be between 1 and 65535, inclusive"]


_SUFFIX = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("0.001"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
QUANTITY_CHARS_MAX = 64
EXPONENT_CHARS_MAX = 4  # e-99 to e+99: more than there is of anything
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))((?:[numkMGTPE]|[KMGTPE]i)?|[eE][+-]?\d+)")


def parse_quantity(text: object) -> Decimal | None:
    """The number a quantity means (`500m`, `1Gi`, `2`); None: it is no quantity."""
    match = _QUANTITY.fullmatch(str(text)[: QUANTITY_CHARS_MAX + 1])
    if match is None or match.end() > QUANTITY_CHARS_MAX:
        return None
    number, suffix = match.groups()
    if len(suffix) > EXPONENT_CHARS_MAX:
        return None
    try:
        if suffix[:1] in ("e", "E") and len(suffix) > 1:
            return Decimal(number + suffix)
        return Decimal(number) * _SUFFIX[suffix]
    except (InvalidOperation, KeyError):
        return None


_DECIMAL = ("E", "P", "T", "G", "M", "k")
_BINARY = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")


def format_quantity(value: Decimal, *, binary: bool = False) -> str:
    """The canonical text: the largest suffix that leaves a whole number, `m` for fractions."""
    if value != value.to_integral_value():
        return f"{int((value * 1000).to_integral_value(rounding='ROUND_UP'))}m"
    if value:
        for suffix in _BINARY if binary else _DECIMAL:
            if value % _SUFFIX[suffix] == 0:
                return f"{int(value / _SUFFIX[suffix])}{suffix}"
    return str(int(value))
