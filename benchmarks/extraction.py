"""One constrained E-step over the sentences of CoNLL04: type rules inside sentences, bounds on numbers of relations.

Seconds of processor of the E-step from multipliers of 0, at gamma = 1 and 0.5, to 1e-6; see README.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))


def main() -> None:
    """Time both gammas and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None, help="folder of the corpora")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()

    from reproductions.extraction.conll04 import RELATIONS, TYPES, read_sentences, split, type_rules
    from spectrem import RelationExtractor
    from spectrem.constraints import E, part
    from spectrem.corpus import Local
    from spectrem.learning import EStep, Step, pose
    from spectrem.models.extraction import encode_sentences
    from spectrem.models.loglinear import build_joint_shards

    sentences, _ = read_sentences(options.data)
    _, labelled, _ = split(sentences, 0.1, 0)
    extractor = RelationExtractor(types=TYPES, relations=RELATIONS, n_threads=1).fit(labelled)
    model, guide = extractor.model_, extractor.guide_
    assert guide is not None
    data, _ = encode_sentences(sentences, extractor.indexes_)
    members = {**data.members, "pair": replace(data.members["pair"], features=guide.describe(data))}
    sizes = {key: own.n_labels for key, own in model.members.items()}
    shards = build_joint_shards(members, sizes, n_instances=len(sentences), n_weights=model.n_weights)
    pairs = sum(len(sentence.pairs) for sentence in labelled)
    rules = [*type_rules()]
    for name in RELATIONS:
        share = sum(list((one.relations or {}).values()).count(name) for one in labelled) / pairs
        whole = E.count(part("kind") == "pair")
        rules.append(E[part("relation") == name].between(0.8 * share * whole, 1.2 * share * whole))
    print(f"{len(sentences)} sentences, {members['pair'].n_instances} pairs")
    for gamma in (1.0, 0.5):
        estep = EStep(rules, tol=1e-6)
        posed = pose(model, Local(shards, 1), estep)
        seconds = []
        for _ in range(options.repeats + 1):
            started = time.process_time()
            found, _ = posed.expect(Step(model, extractor.theta_, gamma, estep))
            seconds.append(time.process_time() - started)
        print(f"gamma {gamma:g}: {min(seconds[1:]):.3f} s, violation {found.violation:.1e}")


if __name__ == "__main__":
    main()
