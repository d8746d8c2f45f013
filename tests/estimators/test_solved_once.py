"""Constraints over the corpus are solved once at the parameters learnt, for reports and distributions alike."""

import numpy as np

from spectrem import E, MaxEntClassifier, part
from spectrem.learning import PosedCorpus


def test_reports_and_distributions_share_one_solution(monkeypatch):
    solved, at_prices = [], PosedCorpus.at_prices

    def counted(posed, step):
        solved.append(at_prices(posed, step))
        return solved[-1]

    monkeypatch.setattr(PosedCorpus, "at_prices", counted)
    X, y = np.arange(6.0)[:, None], [0, None, None, None, None, 1]
    half = (E[part("label") == 1] == 3).named("half")
    classifier = MaxEntClassifier([half], max_iter=4, tol=0).fit(X, y)
    (report,) = classifier.report_.constraints
    assert len(solved) == 1
    np.testing.assert_allclose(report.after, classifier.label_distributions_[:, 1].sum(), atol=1e-6)
