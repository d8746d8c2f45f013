"""The errors and warnings that Spectrem raises itself."""


class SpectremError(Exception):
    """Base of every error raised on purpose by Spectrem."""


class InvalidInputError(SpectremError, ValueError):
    """An argument or a file breaks a rule; the message names both and the next thing to try."""


class InfeasibleConstraintError(SpectremError, ValueError):
    """No distribution meets the constraints; the message names the rows that conflict.

    ``rows`` holds their numbers among the rows of the batch, where they are known.
    """

    rows: tuple[int, ...] = ()


class NotFittedError(SpectremError, ValueError, AttributeError):
    """An estimator was asked for predictions before ``fit``."""


class ConvergenceWarning(UserWarning):
    """An iterative routine ran out of iterations before it met its tolerance."""
