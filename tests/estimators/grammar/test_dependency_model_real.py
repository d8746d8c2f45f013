"""DependencyModel on sentences of the Penn sample and on Spanish ones."""

import pytest

from reproductions.grammar.universal_rules import LEFT_OUT, RULES, without
from reproductions.treebanks import read_ud, read_wsj
from spectrem import DependencyModel
from spectrem.constraints import tag_rules
from spectrem.learning import Constant, Quench
from spectrem.metrics import attachment_scores, head_is_next
from spectrem.models.priors import MeanFieldPrior


@pytest.fixture(scope="module")
def penn(shared):
    trees = [sentence.parsed for sentence in read_wsj(shared / "data", 10)]
    return [tree.xpos for tree in trees], [tree.heads for tree in trees]


def test_em_from_the_harmonic_start(penn):
    tags, heads = penn
    assert (len(tags), sum(map(len, tags))) == (555, 3_856)
    assert 100 * attachment_scores(heads, head_is_next([len(own) for own in tags])).uas == pytest.approx(
        36.85, abs=0.01
    )
    model = DependencyModel(max_iter=40, tol=0.0, n_threads=1).fit(tags)
    assert 100 * attachment_scores(heads, model.predict(tags)).uas > 42
    settings = {"prior": MeanFieldPrior(0.25), "tol": 0.0, "n_threads": 1, "max_iter": 40}
    plain = DependencyModel(**settings).fit(tags)
    smooth = DependencyModel(**settings, schedule=Quench(Constant(1.5), 1.0)).fit(tags)
    # The bound tells, without trees, which of the two is the better one.
    assert smooth.objective_ > plain.objective_
    assert 100 * attachment_scores(heads, smooth.predict(tags)).uas > 55


def test_rules_in_training_stay_above_rules_as_a_start(shared):
    text = without(read_ud(shared / "data", "es_gsd", "dev"), LEFT_OUT, 10)
    settings = {"prior": MeanFieldPrior(0.25), "tol": 0.0, "n_threads": 1, "max_iter": 20}
    rules = tag_rules(RULES, 1, roots="VERB").slack(penalty=4, norm="l1")
    start = {None: "VERB", **RULES}
    free, led = (DependencyModel(init=start, constraints=own, **settings).fit(text.tags) for own in ([], [rules]))
    found = [100 * attachment_scores(text.heads, model.predict(text.tags)).uas for model in (free, led)]
    assert found[1] > max(68, found[0] + 3)
