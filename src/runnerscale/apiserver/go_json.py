"""What Go's JSON decoder says about text that is no JSON: clients and people see these words.

Reading JSON is msgspec's work; this is asked only after it has refused. The states and their
names are those of JSON's grammar.
"""

_SPACE = b" \t\r\n"
_LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_DIGITS = b"0123456789"
_HEX = b"0123456789abcdefABCDEF"
END = "unexpected end of JSON input"


class _Broken(Exception):
    """Reading stops here, with the words for it."""


def syntax_error(text: bytes) -> str:
    """Why it cannot be read; empty when this reader finds nothing wrong."""
    try:
        position = _skip(text, _value(text, _skip(text, 0)))
        if position < len(text):
            _stop(text, position, "after top-level value")
    except _Broken as broken:
        return str(broken)
    except RecursionError:
        return "exceeded max depth"
    return ""


def _stop(text: bytes, position: int, where: str) -> None:
    if position >= len(text):
        raise _Broken(END)
    raise _Broken(f"invalid character {_quoted(text[position])} {where}")


def _quoted(byte: int) -> str:
    """As Go quotes one byte."""
    if byte == ord("'"):
        return "'\\''"
    if byte == ord('"'):
        return "'\"'"
    char = chr(byte)
    if char.isprintable() and byte != 0xAD:
        return "'\\\\'" if char == "\\" else f"'{char}'"
    short = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r"}
    if byte in short:
        return f"'{short[byte]}'"
    return f"'\\x{byte:02x}'" if byte < 0x80 else f"'\\u{byte:04x}'"


def _skip(text: bytes, position: int) -> int:
    while position < len(text) and text[position] in _SPACE:
        position += 1
    return position


def _value(text: bytes, position: int) -> int:
    """The position after the value that begins here."""
    if position >= len(text):
        raise _Broken(END)
    first = text[position]
    if first == ord("{"):
        return _object(text, position + 1)
    if first == ord("["):
        return _array(text, position + 1)
    if first == ord('"'):
        return _string(text, position + 1)
    if first in _LITERALS:
        return _literal(text, position, _LITERALS[first])
    if first == ord("-") or first in _DIGITS:
        return _number(text, position)
    _stop(text, position, "looking for beginning of value")
    return position


def _object(text: bytes, position: int) -> int:
    position = _skip(text, position)
    if text[position : position + 1] == b"}":
        return position + 1
    while True:
        position = _skip(text, position)
        if text[position : position + 1] != b'"':
            _stop(text, position, "looking for beginning of object key string")
        position = _skip(text, _string(text, position + 1))
        if text[position : position + 1] != b":":
            _stop(text, position, "after object key")
        position = _skip(text, _value(text, _skip(text, position + 1)))
        if text[position : position + 1] == b"}":
            return position + 1
        if text[position : position + 1] != b",":
            _stop(text, position, "after object key:value pair")
        position += 1


def _array(text: bytes, position: int) -> int:
    position = _skip(text, position)
    if text[position : position + 1] == b"]":
        return position + 1
    while True:
        position = _skip(text, _value(text, _skip(text, position)))
        if text[position : position + 1] == b"]":
            return position + 1
        if text[position : position + 1] != b",":
            _stop(text, position, "after array element")
        position += 1


def _string(text: bytes, position: int) -> int:
    while position < len(text):
        byte = text[position]
        if byte == ord('"'):
            return position + 1
        if byte < 0x20:
            _stop(text, position, "in string literal")
        position += 1
        if byte == ord("\\"):
            position = _escape(text, position)
    raise _Broken(END)


def _escape(text: bytes, position: int) -> int:
    if text[position : position + 1] == b"u":
        for place in range(position + 1, position + 5):
            if text[place : place + 1] not in _HEX or place >= len(text):
                _stop(text, place, "in \\u hexadecimal character escape")
        return position + 5
    if position >= len(text) or text[position] not in b'"\\/bfnrt':
        _stop(text, position, "in string escape code")
    return position + 1


def _literal(text: bytes, position: int, word: bytes) -> int:
    for place, wanted in enumerate(word):
        at = position + place
        if at >= len(text) or text[at] != wanted:
            _stop(text, at, f"in literal {word.decode()} (expecting '{chr(wanted)}')")
    return position + len(word)


def _number(text: bytes, position: int) -> int:
    if text[position] == ord("-"):
        position += 1
        if text[position : position + 1] not in (*(bytes((d,)) for d in _DIGITS),):
            _stop(text, position, "in numeric literal")
    if text[position] == ord("0"):
        position += 1
    else:
        position = _digits(text, position)
    if text[position : position + 1] == b".":
        position = _some_digits(text, position + 1, "after decimal point in numeric literal")
    if text[position : position + 1] in (b"e", b"E"):
        position += 1
        if text[position : position + 1] in (b"+", b"-"):
            position += 1
        position = _some_digits(text, position, "in exponent of numeric literal")
    return position


def _some_digits(text: bytes, position: int, where: str) -> int:
    end = _digits(text, position)
    if end == position:
        _stop(text, position, where)
    return end


def _digits(text: bytes, position: int) -> int:
    while position < len(text) and text[position] in _DIGITS:
        position += 1
    return position


def type_name(value: object) -> str:
    """What Go calls the type of a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "number"


def go_text(value: object) -> str:
    """A JSON value as Go prints it when nobody asks for JSON."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{k}:{go_text(v)}" for k, v in sorted(value.items())) + "]"
    if isinstance(value, list):
        return "[" + " ".join(go_text(item) for item in value) + "]"
    return str(value)
