"""The error of estimators that derive from scikit-learn's and are not fitted."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from spectrem.exceptions import NotFittedError


def not_fitted(estimator: Any) -> Exception:
    """An error that is caught both as Spectrem's and as scikit-learn's NotFittedError."""
    return _NotFittedError(f"this {type(estimator).__name__} is not fitted yet; call fit")


class _NotFittedError(NotFittedError, SklearnNotFittedError):
    pass
