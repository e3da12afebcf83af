"""How the server says no: the Status body, its reasons, and errors of single fields.

The texts are those of the Kubernetes API, because clients and people match on them. Whether
something is refused is decided elsewhere; this file only knows how to say it.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

OMITTED: Any = object()  # the bad value is not repeated in the text


class ApiFailure(Exception):
    """An answer that is not 2xx, as a Status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        retry_after_s: int | None = None,
        list_meta: dict[str, Any] | None = None,
    ) -> None:
        """`details` and `list_meta` are put into the body as they are."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after_s = retry_after_s
        self.list_meta = list_meta or {}

    def body(self) -> dict[str, Any]:
        """The Status object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_meta,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        details = dict(self.details) if self.details is not None else None
        if self.retry_after_s is not None:
            details = {**(details or {}), "retryAfterSeconds": self.retry_after_s}
        if details is not None:
            status["details"] = {k: v for k, v in details.items() if v not in ("", None, [])}
        status["code"] = self.code
        return status


def qualified(resource: str, group: str) -> str:
    """`pods`, or `leases.coordination.k8s.io`."""
    return f"{resource}.{group}" if group else resource


def _about(group: str, resource: str, name: str) -> dict[str, Any]:
    return {"name": name, "group": group, "kind": resource}


def quoted(text: str) -> str:
    """Text in double quotes, escaped."""
    return json.dumps(text, ensure_ascii=False)


def not_found(group: str, resource: str, name: str) -> ApiFailure:
    """404 for an object."""
    message = f"{qualified(resource, group)} {quoted(name)} not found"
    return ApiFailure(404, "NotFound", message, details=_about(group, resource, name))


PAGE_NOT_FOUND = "404 page not found"  # said as plain text, without a Status


def no_such_path() -> ApiFailure:
    """404 for a resource type nobody serves."""
    return ApiFailure(404, "", PAGE_NOT_FOUND)


def already_exists(group: str, resource: str, name: str) -> ApiFailure:
    """409: the name is taken."""
    message = f"{qualified(resource, group)} {quoted(name)} already exists"
    return ApiFailure(409, "AlreadyExists", message, details=_about(group, resource, name))


def no_unique_name(group: str, resource: str, name: str) -> ApiFailure:
    """409: several generated names were all taken."""
    message = (
        f"{qualified(resource, group)} {quoted(name)} already exists, the server was not able"
        " to generate a unique name for the object"
    )
    return ApiFailure(
        409, "AlreadyExists", message, details=_about(group, resource, name), retry_after_s=1
    )


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(group: str, resource: str, name: str, why: str = MODIFIED) -> ApiFailure:
    """409: a version or uid did not hold."""
    what = f"{qualified(resource, group)} {quoted(name)}"
    message = f"Operation cannot be fulfilled on {what}: {why}"
    return ApiFailure(409, "Conflict", message, details=_about(group, resource, name))


def forbidden(group: str, resource: str, name: str, why: str) -> ApiFailure:
    """403 about an object (or, without a name, a collection)."""
    what = qualified(resource, group)
    about = f"{what} {quoted(name)}" if name else what
    message = f"{about} is forbidden: {why}"
    return ApiFailure(403, "Forbidden", message, details=_about(group, resource, name))


def forbidden_path(why: str) -> ApiFailure:
    """403 about a path that is no resource."""
    return ApiFailure(403, "Forbidden", f"forbidden: {why}", details={})


def bad_request(message: str) -> ApiFailure:
    """400."""
    return ApiFailure(400, "BadRequest", message)


def unauthorized() -> ApiFailure:
    """401."""
    return ApiFailure(401, "Unauthorized", "Unauthorized")


def no_such_resource() -> ApiFailure:
    """404 for a resource type that its group and version do not have."""
    message = "the server could not find the requested resource"
    return ApiFailure(404, "NotFound", message, details={})


def method_not_allowed() -> ApiFailure:
    """405."""
    message = "the server does not allow this method on the requested resource"
    return ApiFailure(405, "MethodNotAllowed", message, details={})


def unsupported_media_type(message: str, details: dict[str, Any] | None = None) -> ApiFailure:
    """415."""
    return ApiFailure(415, "UnsupportedMediaType", message, details=details)


def not_acceptable(message: str) -> ApiFailure:
    """406."""
    return ApiFailure(406, "NotAcceptable", message)


def expired(message: str, list_meta: dict[str, Any] | None = None) -> ApiFailure:
    """410: the version or continue token is too old."""
    return ApiFailure(410, "Expired", message, list_meta=list_meta)


def too_large() -> ApiFailure:
    """413."""
    message = f"Request entity too large: limit is {BODY_BYTES_MAX}"
    return ApiFailure(413, "RequestEntityTooLarge", message)


BODY_BYTES_MAX = 3 * 1024 * 1024


def too_large_version(asked: int, current: int) -> ApiFailure:
    """504: a version from the future was asked for."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiFailure(504, "Timeout", message, details={"causes": [cause]}, retry_after_s=1)


def internal(message: str) -> ApiFailure:
    """500."""
    details = {"causes": [{"message": message}]}
    return ApiFailure(500, "InternalError", f"Internal error occurred: {message}", details=details)


def unavailable(message: str) -> ApiFailure:
    """503."""
    return ApiFailure(503, "ServiceUnavailable", message)


def unprocessable_patch(message: str) -> ApiFailure:
    """422 for a patch whose operations do not fit the object."""
    del message  # Kubernetes keeps the reason to itself
    text = "the server rejected our request due to an error in our request"
    return ApiFailure(422, "Invalid", text, details={})


_WORDS = {
    "FieldValueNotFound": "Not found",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueTooFew": "Too few",
    "FieldValueTypeInvalid": "Invalid value",
    "InternalError": "Internal error",
}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field is wrong: which, how, and the value where the text repeats it."""

    type: str
    field: str
    detail: str = ""
    value: Any = OMITTED

    def text(self) -> str:
        """The error without the field's name."""
        words = _WORDS[self.type]
        if self.value is not OMITTED:
            words = f"{words}: {_shown(self.value)}"
        return f"{words}: {self.detail}" if self.detail else words

    def __str__(self) -> str:
        return f"{self.field}: {self.text()}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return quoted(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def required(field: str, detail: str = "") -> FieldError:
    """A value is missing."""
    return FieldError("FieldValueRequired", field, detail)


def wrong(field: str, value: Any, detail: str) -> FieldError:
    """A value is malformed."""
    return FieldError("FieldValueInvalid", field, detail, value)


def wrong_type(field: str, value: Any, detail: str) -> FieldError:
    """A value is of the wrong type."""
    return FieldError("FieldValueTypeInvalid", field, detail, value)


def unsupported(field: str, value: Any, supported: Sequence[str]) -> FieldError:
    """A value is none of a closed set."""
    detail = "supported values: " + ", ".join(quoted(s) for s in supported)
    return FieldError("FieldValueNotSupported", field, detail if supported else "", value)


def duplicate(field: str, value: Any) -> FieldError:
    """A value must be unique and is not."""
    return FieldError("FieldValueDuplicate", field, "", value)


def not_allowed(field: str, detail: str) -> FieldError:
    """A value may not be given here."""
    return FieldError("FieldValueForbidden", field, detail)


def too_long(field: str, max_bytes: int) -> FieldError:
    """Too many bytes."""
    unit = "byte" if max_bytes == 1 else "bytes"
    return FieldError("FieldValueTooLong", field, f"may not be more than {max_bytes} {unit}")


def too_many(field: str, actual: int, at_most: int) -> FieldError:
    """Too many items."""
    unit = "item" if at_most == 1 else "items"
    return FieldError("FieldValueTooMany", field, f"must have at most {at_most} {unit}", actual)


def not_there(field: str, value: Any) -> FieldError:
    """A reference points nowhere."""
    return FieldError("FieldValueNotFound", field, "", value)


def invalid(group: str, kind: str, name: str, errors: Iterable[FieldError]) -> ApiFailure:
    """422 with one cause a field error."""
    errors = list(errors)
    causes = [{"reason": e.type, "message": e.text(), "field": e.field} for e in errors]
    texts = list(dict.fromkeys(str(e) for e in errors))  # each once, in order
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    what = f"{qualified(kind, group)} {quoted(name)}"
    message = f"{what} is invalid: {joined}" if texts else f"{what} is invalid"
    details = {**_about(group, kind, name), "causes": causes}
    return ApiFailure(422, "Invalid", message, details=details)
