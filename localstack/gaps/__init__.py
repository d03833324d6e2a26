"""What MiniStack 1.5.33 answers otherwise than AWS, closed one gap at a time.

A gap has a name, says what AWS does and where AWS says so, and a function that closes it by replacing
functions of MiniStack. localstack/gaps_test.go asks every question twice: with the gap open, where the
answer must be wrong (if it is right, MiniStack has caught up, and the gap goes), and closed.
"""

from dataclasses import dataclass
from typing import Callable


@dataclass(frozen=True)
class Gap:
    name: str
    aws: str
    source: str
    close: Callable[[], None]


KNOWN: list[Gap] = []


def gap(name, aws, source):
    """Registers the function that closes a gap."""

    def register(function):
        KNOWN.append(Gap(name, aws, source, function))
        return function

    return register


def close(leave=()):
    """Closes every gap but those named; "all" leaves all open. Later ones build on earlier ones."""
    load()
    unknown = set(leave) - {g.name for g in KNOWN} - {"all"}
    if unknown:
        raise SystemExit(f"no such gap: {', '.join(sorted(unknown))}")
    for g in KNOWN:
        if g.name not in leave and "all" not in leave:
            g.close()


def load():
    """Fills KNOWN. It is not done by importing this package, which needs no MiniStack."""
    from . import apis, lambdas, stepfunctions, streams  # noqa: F401
