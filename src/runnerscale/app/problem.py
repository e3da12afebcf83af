"""A person's mistake, or a failure a person can mend, as one sentence.

Raised anywhere in the wiring; `cli/` turns it into a line on standard error and an exit code.
"""

USAGE = 2
FAILURE = 1


class Problem(Exception):
    """What happened and to what; what to do next. Never a secret."""

    def __init__(self, happened: str, remedy: str, *, exit_code: int = FAILURE) -> None:
        """`happened` names the object; `remedy` is one thing the reader can do."""
        super().__init__(f"{happened}. {remedy}." if remedy else f"{happened}.")
        self.happened = happened
        self.remedy = remedy
        self.exit_code = exit_code


class UsageProblem(Problem):
    """The command line was wrong: exit code 2."""

    def __init__(self, happened: str, remedy: str) -> None:
        """As Problem."""
        super().__init__(happened, remedy, exit_code=USAGE)
