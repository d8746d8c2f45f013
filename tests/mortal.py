"""Functions and values that end their process once, at a chosen moment; a file says that they have."""

import os
import signal
from multiprocessing import parent_process


def die_once(path):
    """End this process as a lost machine would, unless one has ended by this path; the process of the tests never."""
    if parent_process() is None:
        return
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


class Dying:
    """A function that ends a worker to which it comes, that sends it on, where it works, or that pickles its result.

    Parameters
    ----------
    f : callable
    path : path
        The file that says that a process has ended.
    moment : str
        When: "arrives", "leaves", "works", "returns", or "stays", for the new shard that a step gives beside its value.
    at : array, optional
        What ``f`` works on when the process ends.
    """

    def __init__(self, f, path, moment, at=None):
        self.f, self.path, self.moment, self.at = f, path, moment, at

    def __getstate__(self):
        if self.moment == "leaves":
            die_once(self.path)
        return self.__dict__

    def __setstate__(self, state):
        self.__dict__.update(state)
        if self.moment == "arrives":
            die_once(self.path)

    def __call__(self, shard, *arguments):
        if self.moment == "works" and shard[0].tolist() == self.at:
            die_once(self.path)
        result = self.f(shard, *arguments)
        if self.moment == "stays":
            return result[0], Kept(result[1], self.path)
        if self.moment == "returns":
            return (Parting(result[0], self.path), result[1]) if type(result) is tuple else Parting(result, self.path)
        return result


class Parting:
    """A result that ends the worker that sends it."""

    def __init__(self, value, path):
        self.value, self.path = value, path

    def __getstate__(self):
        die_once(self.path)
        return self.__dict__

    def __add__(self, other):
        return Parting(self.value + other.value, self.path)


class Kept(tuple):
    """A shard that ends the worker that pickles it; afterwards it is a tuple."""

    def __new__(cls, parts, path):
        kept = super().__new__(cls, parts)
        kept.path = path
        return kept

    def __reduce__(self):
        die_once(self.path)
        return tuple, (list(self),)
