"""The known path that somebody probably meant by an unknown one.

Two words are compared by the letters and the pairs of letters they share, since Helm's templates
can count that in a millisecond and an edit distance not: `_unknown_values.tpl` of the charts
does the same, and a test holds the two together. Case, `_` and `-` do not count, so a key in
snake case finds its camel-case name. A key under the same parent is preferred, and a name that
stands in several places (`labels`, `name`) is proposed under the same parent only.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from runnerscale.chart_values.known import Path

LIKENESS_MIN = 45  # of 100, under the same parent; below it a proposal is a guess
ELSEWHERE_MIN = 80  # under another parent: misplaced happens, misplaced and misspelt seldom
SAME_PARENT_BONUS = 15
WORD_LETTERS_MAX = 64


def nearest(unknown: Path, known: Sequence[Path]) -> Path | None:
    """The best of `known` by its last key; the first of equals; None if nothing is near."""
    wanted = features(unknown[-1])
    if not wanted:
        return None
    twice = names_twice(known)
    best, best_score = None, 0
    for path in known:
        is_near = path[:-1] == unknown[:-1]
        if path[-1] in twice and not is_near:
            continue
        score = likeness(wanted, features(path[-1]))
        if score < (LIKENESS_MIN if is_near else ELSEWHERE_MIN):
            continue
        if is_near:
            score += SAME_PARENT_BONUS
        if score > best_score:
            best, best_score = path, score
    return best


def names_twice(known: Sequence[Path]) -> set[str]:
    """Last keys that several paths share."""
    counts = Counter(path[-1] for path in known)
    return {name for name, count in counts.items() if count > 1}


def in_order(known: Sequence[Path]) -> list[Path]:
    """The order in which equals win: near the top first, then by name."""
    return sorted(known, key=lambda path: (len(path), ".".join(path)))


@lru_cache(maxsize=2048)
def features(key: str) -> frozenset[str]:
    """The letters of a key (`a.`) and its pairs of neighbours, its ends marked (`<a`, `a>`)."""
    word = re.sub("[^A-Za-z0-9]", "", key).lower()[:WORD_LETTERS_MAX]
    if not word:
        return frozenset()
    marked = f"<{word}>"
    pairs = {marked[i : i + 2] for i in range(len(marked) - 1)}
    return frozenset(pairs | {f"{letter}." for letter in word})


def likeness(one: frozenset[str], other: frozenset[str]) -> int:
    """From 0, nothing in common, to 100, the same."""
    return 200 * len(one & other) // (len(one) + len(other))
