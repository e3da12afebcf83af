"""Numbers in the commands of the simulation: what would stand still or prove nothing is refused."""

import argparse
import math


def at_least_one(text: str) -> int:
    """So many processes, seeds, points: none at all would wait for ever."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def not_negative(text: str) -> int:
    """A place, counted from 0."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is less than 0")
    return number


def pace(text: str) -> float:
    """By what times are multiplied."""
    number = float(text)
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number
