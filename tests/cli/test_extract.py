"""`spectrem extract train`, `predict` and `evaluate`."""

import json

import pytest

from spectrem import RelationExtractor
from spectrem.constraints import argument_types
from spectrem.data import RelationSentence, read_relations, write_relations

RULES = "argument_types({'Kill': ('Peop', 'Peop'), 'Live_In': ('Peop', 'Loc')})"
PEOPLE, PLACES = ["Oswald", "James Ray", "Booth", "King"], ["Dallas", "Memphis", "New York"]


def sentences(n, start=0):
    made = []
    for number in range(start, start + n):
        one, other = PEOPLE[number % 4], PEOPLE[(number + 1 + number // 4) % 4]
        last, verb, relation = (other, "shot", "Kill") if number % 2 else (PLACES[number % 3], "left", None)
        if number % 4 == 2:
            verb, relation = "lives in", "Live_In"
        words = [*one.split(), *verb.split(), *last.split()]
        mentions = [(0, len(one.split())), (len(words) - len(last.split()), len(words))]
        types = ["Peop", "Loc" if last in PLACES else "Peop"]
        made.append(RelationSentence(words, mentions, types, {(0, 1): relation} if relation else {}, name=str(number)))
    return made


@pytest.fixture
def files(tmp_path):
    write_relations(tmp_path / "labelled", sentences(12))
    write_relations(tmp_path / "more", sentences(12, 12))
    return tmp_path


def train(files, *more):
    return ("extract", "train", files / "labelled", "--save", files / "model.npz", "--n-threads", "1", *more)


def test_from_labels_to_scores(run, files):
    result = run(*train(files, "--constraint", RULES))
    assert result.exit_code == 0, result.output
    assert "for 2 types and 2 relations from 12 sentences" in result.stderr
    expected = RelationExtractor([argument_types({"Kill": ("Peop", "Peop"), "Live_In": ("Peop", "Loc")})], n_threads=1)
    expected.fit(read_relations(files / "labelled"))
    assert RelationExtractor.load(files / "model.npz").objective_ == expected.objective_
    result = run("extract", "predict", "--load", files / "model.npz", files / "more", "-o", files / "found")
    assert result.exit_code == 0, result.output
    assert "12 sentences: 24 mentions, 9 relations" in result.stderr
    assert read_relations(files / "found") == expected.predict(read_relations(files / "more"))
    scores = json.loads(run("extract", "evaluate", files / "more", files / "found", "--json").stdout)
    assert scores["types"]["macro_f1"] == scores["relations"]["f1"] == 1.0
    assert scores["relations"]["by_label"]["Kill"]["n"] == 6
    table = run("extract", "evaluate", files / "more", files / "found").stdout
    assert "relations, mean of labels" in table
    assert "Live_In" in table


def test_sentences_without_labels(run, files):
    more = ("--unlabelled", files / "more", "--count-margin", "0.2", "--max-iter", "3", "--gamma", "0.5", "--tol", "0")
    result = run(*train(files, "--constraint", RULES, *more))
    assert result.exit_code == 0, result.output
    assert "from 24 sentences" in result.stderr
    assert "3 iterations" in result.stderr
    extractor = RelationExtractor.load(files / "model.npz")
    assert (extractor.gamma_, extractor.count_margin) == (0.5, 0.2)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--gamma", "0.5"), "--gamma 0.5 changes nothing without --unlabelled"),
        (("--count-margin", "0.2"), "--count-margin 0.2 changes nothing without --unlabelled"),
        (("--anneal", "0.5"), "--anneal 0.5 changes nothing without --unlabelled"),
        (("--constraint", "E[typ == 'Peop'] <= 3"), "there is no column 'typ'; did you mean 'type'"),
        (("--constraint", "argument_types({'Kil': ('Peop', 'Peop')})"), "there is no relation 'Kil'"),
        (("--C", "0"), "--C must be finite and above 0"),
    ],
)
def test_options_that_do_not_fit_are_named(run, files, more, message):
    result = run(*train(files, *more))
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (files / "model.npz").exists()


def test_damaged_files_are_named(run, files):
    (files / "labelled").write_text("0\tPeop\t0\n")
    result = run(*train(files))
    assert result.exit_code == 2
    assert "labelled, line 1: has a relation that stands behind no sentence" in result.stderr
    write_relations(files / "labelled", [one.unlabelled() for one in sentences(3)])
    result = run(*train(files))
    assert f"{files}/labelled: holds no mentions with types, or no relations, to learn from" in result.stderr
    result = run("extract", "evaluate", files / "more", files / "labelled")
    assert f"{files}/more has 12 sentences, but {files}/labelled has 3; give labellings of one text" in result.stderr


def test_labels_with_brackets_are_no_markup(run, tmp_path):
    one = RelationSentence(["a", "b"], [(0, 1), (1, 2)], ["[/x]", ":smile:"], {(0, 1): "[red]"})
    write_relations(tmp_path / "one", [one])
    result = run("extract", "evaluate", tmp_path / "one", tmp_path / "one")
    assert result.exit_code == 0, result.output
    assert all(f"  {label} " in result.stdout for label in ("[/x]", ":smile:", "[red]"))
