"""Each text is what Go's encoding/json says about the input: its scanner has these states."""

import pytest

from runnerscale.apiserver.go_json import syntax_error


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b"", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (b"[1,", "unexpected end of JSON input"),
        (b'"open', "unexpected end of JSON input"),
        (b"tru", "unexpected end of JSON input"),
        (b"not json", "invalid character 'o' in literal null (expecting 'u')"),
        (b"oops", "invalid character 'o' looking for beginning of value"),
        (b"\x9e", "invalid character '\\u009e' looking for beginning of value"),
        (b"{a:1}", "invalid character 'a' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b'"a\nb"', "invalid character '\\n' in string literal"),
        (b'"\\q"', "invalid character 'q' in string escape code"),
        (b'"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"),
        (b"-x", "invalid character 'x' in numeric literal"),
        (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
        (b"1ex", "invalid character 'x' in exponent of numeric literal"),
        (b"01", "invalid character '1' after top-level value"),
        (b"'a'", "invalid character '\\'' looking for beginning of value"),
    ],
)
def test_a_syntax_error_is_told_in_gos_words(text: bytes, wanted: str) -> None:
    assert syntax_error(text) == wanted


@pytest.mark.parametrize("text", [b"{}", b' [1, -2.5e+3, "x\\u00e9", null] ', b"0"])
def test_nothing_is_said_about_json(text: bytes) -> None:
    assert syntax_error(text) == ""
