"""`spectrem label` on words of sentences."""

import json
import re
from itertools import chain

import numpy as np
import pytest

from spectrem import CRFTagger, SequenceLabelModel, load
from spectrem.data import read_tagged, read_weak_columns
from spectrem.metrics import chunk_scores
from spectrem.models.vote_sequences import likely_tags

NAMES = ["Ada", "Rome", "Oslo", "Alan", "Kim", "Bern"]
SOURCES = ["caps", "people", "places"]


class News:
    """60 sentences of names, and a source that takes half of the people for places: columns and WRENCH's JSON."""

    def __init__(self, folder):
        rng = np.random.default_rng(1)
        self.words, self.tags, self.votes = [], [], []
        for _ in range(60):
            words, tags, votes = [], [], []
            for _ in range(int(rng.integers(2, 6))):
                if rng.random() < 0.5:
                    name = str(rng.choice(NAMES))
                    kind = "PER" if name in ("Ada", "Alan", "Kim") else "LOC"
                    size = int(rng.integers(1, 3))
                    span = [f"B-{kind}", f"I-{kind}"][:size]
                    other = ["B-LOC", "I-LOC"][:size] if rng.random() < 0.5 else span
                    words += [name, "X."][:size]
                    tags += span
                    first = span if rng.random() < 0.9 else ["O"] * size
                    votes += [
                        list(row) for row in zip(first, span if kind == "PER" else ["O"] * size, other, strict=True)
                    ]
                words.append(str(rng.choice(["saw", "in", "and"])))
                tags.append("O")
                votes.append(["O", "O", "O"])
            self.words.append(words)
            self.tags.append(tags)
            self.votes.append(np.array(votes, object))
        self.columns, self.json, self.bare = folder / "news.conll", folder / "news.json", folder / "bare.json"
        self.columns.write_text("".join(self.lines()))
        records = {
            f"r{k}": {"label": tags, "weak_labels": votes.tolist(), "data": {"text": words}}
            for k, (words, tags, votes) in enumerate(zip(self.words, self.tags, self.votes, strict=True))
        }
        self.json.write_text(json.dumps(records))
        (folder / "meta.json").write_text(json.dumps({"lf": SOURCES}))

    def lines(self):
        for words, tags, votes in zip(self.words, self.tags, self.votes, strict=True):
            yield (
                "\n".join("\t".join([word, *row, tag]) for word, row, tag in zip(words, votes, tags, strict=True))
                + "\n\n"
            )


@pytest.fixture(scope="module")
def news(tmp_path_factory):
    return News(tmp_path_factory.mktemp("news"))


@pytest.fixture
def label(run, tmp_path):
    """Run a command of `spectrem label` with the model of this test."""

    def invoke(name, data, *options):
        model = ["--save" if name == "fit" else "--load", tmp_path / "model.npz"]
        return run("label", name, data, *model, "--n-threads", "1", *options)

    return invoke


def test_columns_and_json_give_the_model_of_the_estimator(label, news, tmp_path):
    plain = SequenceLabelModel(n_threads=1, source_names=SOURCES).fit(news.words, news.votes)
    result = label("fit", news.json)
    assert result.exit_code == 0, result.stderr
    assert re.match(
        r"learned 3 sources for LOC, PER from 60 sentences \(\d+ votes\) in [\d.]+ s: 5 iterations", result.stderr
    )
    assert re.search(
        r"\n  \d+ words have no vote, the others [\d.]+ on average\n  places: votes \d+, 7\d\.\d% right\n",
        result.stderr,
    )
    model = load(tmp_path / "model.npz")
    assert (model.objective_, model.sources_) == (plain.objective_, tuple(SOURCES))
    assert label("fit", news.columns, "--known", "-1").exit_code == 0
    known = SequenceLabelModel(n_threads=1).fit(news.words, news.votes, news.tags)
    assert load(tmp_path / "model.npz").objective_ == known.objective_
    assert label("fit", news.columns, "--known", "-1", "-o", tmp_path / "hard.conll", "--hard").exit_code == 0
    assert read_tagged(tmp_path / "hard.conll").tags == news.tags  # which are known
    assert label("fit", news.columns, "--votes", "1,2,3").exit_code == 0
    model = load(tmp_path / "model.npz")
    assert (model.objective_, model.sources_) == (plain.objective_, ("1", "2", "3"))


def test_sources_are_chosen_by_name_and_kept_in_the_order_of_the_model(label, news, tmp_path):
    assert label("fit", news.json, "--votes", "pl*, caps", "-q").output == ""
    plain = SequenceLabelModel(n_threads=1).fit(news.words, [one[:, [2, 0]] for one in news.votes])
    model = load(tmp_path / "model.npz")
    assert (model.objective_, model.sources_) == (plain.objective_, ("places", "caps"))
    np.testing.assert_array_equal(model.precision_, plain.precision_)
    done = label("predict", news.json, "--hard", "-o", tmp_path / "out.conll")
    assert done.exit_code == 0, done.stderr
    expected = plain.predict(news.words, [one[:, [2, 0]] for one in news.votes])
    assert read_tagged(tmp_path / "out.conll").tags == expected
    assert "--votes names; its sources are 'caps', 'people', 'places'" in label("fit", news.json, "--votes", "x").stderr


def test_labels_are_columns_or_probabilities(label, news, tmp_path):
    soft, hard = tmp_path / "soft.txt", tmp_path / "hard.conll"
    assert label("fit", news.columns, "--votes", "1,2,3", "-o", soft).exit_code == 0
    model = SequenceLabelModel(n_threads=1).fit(news.words, news.votes)
    lines = soft.read_text().split("\n")
    word, best = lines[0].split("\t")[:2]
    row = model.label_distributions_[0][0]
    assert word == news.words[0][0]
    assert best == f"{model.tags_[row.argmax()]}:{row.max():.4g}"
    assert lines[len(news.words[0])] == ""
    done = label("predict", news.columns)
    assert done.stdout == soft.read_text()
    expected = np.concatenate(model.predict_proba(news.words, news.votes)).sum(axis=0)
    silent = sum(len(row) == row.tolist().count("O") for votes in news.votes for row in votes)
    told = f"labels of 60 sentences; {silent} of {sum(map(len, news.words))} words without a vote"
    assert done.stderr == f"{told}, spans expected: LOC: {expected[1]:.1f}, PER: {expected[3]:.1f}\n"
    assert label("fit", news.columns, "--votes", "1,2,3", "-o", hard, "--hard").exit_code == 0
    assert read_tagged(hard).tags == likely_tags(model.tags_, model.label_distributions_)
    assert read_tagged(hard).words == news.words
    done = label("predict", news.columns, "--hard", "-o", hard)
    assert read_tagged(hard).tags == model.predict(news.words, news.votes)
    begins = [tag for tags in model.predict(news.words, news.votes) for tag in tags if tag.startswith("B")]
    assert done.stderr == f"{told}: LOC: {begins.count('B-LOC')}, PER: {begins.count('B-PER')}\n"


@pytest.mark.parametrize(
    ("name", "options", "unused"),
    [("predict", [], "predict"), ("predict", ["--hard"], "predict_proba"), ("evaluate", [], "predict_proba")],
)
def test_sentences_are_gone_through_once(label, news, monkeypatch, name, options, unused):
    assert label("fit", news.json).exit_code == 0
    monkeypatch.setattr(SequenceLabelModel, unused, None)
    assert label(name, news.json, *options).exit_code == 0


def test_evaluation_without_known_tags_names_their_place(label, news, tmp_path):
    assert label("fit", news.columns).exit_code == 0
    done = label("evaluate", news.columns)
    assert done.exit_code == 2
    assert "news.conll: no sentence has known tags; name their column by --known" in done.stderr
    records = json.loads(news.json.read_text())
    for record in records.values():
        del record["label"]
    (tmp_path / "open.json").write_text(json.dumps(records))
    (tmp_path / "meta.json").write_text(json.dumps({"lf": SOURCES}))
    assert label("fit", tmp_path / "open.json").exit_code == 0
    done = label("evaluate", tmp_path / "open.json")
    assert "open.json: no sentence has known tags; give them as label of its records" in done.stderr


def test_what_is_written_trains_a_tagger(label, news, run, tmp_path):
    hard = tmp_path / "hard.conll"
    assert label("fit", news.columns, "--votes", "1,2,3", "-o", hard, "--hard").exit_code == 0
    options = ["--crf", "--scheme", "bio", "--labelled", hard, "--save", tmp_path / "crf.npz", "-q", "--n-threads", "1"]
    assert run("tag", "train", *options).output == ""


def test_soft_labels_that_are_written_train_a_tagger(label, news, run, tmp_path):
    soft, saved = tmp_path / "soft.txt", tmp_path / "crf.npz"
    assert label("fit", news.columns, "--votes", "2,3", "-o", soft).exit_code == 0
    options = ["--crf", "--scheme", "bio", "--labelled", soft, "--save", saved, "--n-threads", "1"]
    done = run("tag", "train", *options)
    assert done.exit_code == 0, done.stderr
    model = SequenceLabelModel(n_threads=1).fit(news.words, [votes[:, 1:] for votes in news.votes])
    corpus = read_tagged(soft, soft=True)
    assert corpus.words == news.words
    for row, word in zip(np.concatenate(model.label_distributions_), chain.from_iterable(corpus.tags), strict=True):
        kept = row >= 0.01
        assert [word.get(tag, 0.0) for tag in model.tags_] == pytest.approx(kept * row / row[kept].sum(), abs=2e-4)
    assert max(len(word) for word in chain.from_iterable(corpus.tags)) > 1
    tagger = load(saved)
    plain = CRFTagger("words", scheme="bio", n_threads=1).fit(news.words, corpus.tags)
    assert (tagger.tags_, tagger.objective_) == (plain.tags_, plain.objective_)
    whole = CRFTagger("words", scheme="bio", tags=model.tags_, n_threads=1).fit(news.words, model.label_distributions_)
    assert tagger.predict(news.words) == whole.predict(news.words)
    assert chunk_scores(tagger.predict(news.words), news.tags).f1 > 0.9
    done = run("tag", "train", *options[3:])
    assert done.exit_code == 2
    assert (
        "soft.txt: holds probabilities of tags, of which hidden Markov models learn nothing; add --crf" in done.stderr
    )


@pytest.mark.parametrize("by", ["columns", "json"])
def test_scores_are_of_spans_beside_the_majority(label, news, by):
    data, options = (news.columns, ["--known", "-1"]) if by == "columns" else (news.json, [])
    assert label("fit", data, *(["--votes", "1,2,3"] if options else [])).exit_code == 0
    done = label("evaluate", data, *options, "--json")
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    plain = SequenceLabelModel(n_threads=1).fit(news.words, news.votes)
    model = plain.predict(news.words, news.votes)
    majority = [[_majority(row) for row in votes.tolist()] for votes in news.votes]
    for name, tags in ("model", model), ("majority vote", majority):
        scores = chunk_scores(tags, news.tags)
        assert [result[name][key] for key in ("precision", "recall", "f1")] == [
            scores.precision, scores.recall, scores.f1
        ]  # fmt: skip
        assert result[name]["f1_by_type"] == {kind: one.f1 for kind, one in scores.by_type.items()}
    assert result["model"]["f1"] > result["majority vote"]["f1"]
    pairs = [
        (guess == truth, other == truth)
        for one, two, gold in zip(model, majority, news.tags, strict=True)
        for guess, other, truth in zip(one, two, gold, strict=True)
    ]
    assert result["sign_test"]["words"]["n_first"] == sum(first > second for first, second in pairs)
    assert result["sign_test"]["words"]["n_second"] == sum(first < second for first, second in pairs)
    assert (result["n_sentences"], result["n"]) == (60, len(pairs))
    shown = label("evaluate", data, *options).stdout
    assert "60 sentences of" in shown
    assert "F1 of PER" in shown


def _majority(row):
    """By the slow way: the tag with the most votes, I before B, and then the first type."""
    tags = ["O", "I-LOC", "I-PER", "B-LOC", "B-PER"]
    counts = [0.5 if tag == "O" else row.count(tag) for tag in tags]
    return tags[int(np.argmax(counts))]


def test_sentences_with_open_tags_are_left_out(label, news, tmp_path):
    assert label("fit", news.columns, "--votes", "1,2,3").exit_code == 0
    lines = news.columns.read_text().split("\n")
    lines[0] = lines[0].rpartition("\t")[0] + "\t_"
    (tmp_path / "open.conll").write_text("\n".join(lines))
    result = json.loads(label("evaluate", tmp_path / "open.conll", "--known", "4", "--json").stdout)
    assert result["n_sentences"] == 59


def test_constraints_name_tags_words_and_sources(label, news, tmp_path):
    rule = "E[(part('tag') == 'B-PER') & (part('word') == 'Bern')] <= 0"
    assert label("fit", news.json, "--constraint", rule).exit_code == 0
    constraints = load(tmp_path / "model.npz").constraints
    assert len(constraints) == 1
    done = label("fit", news.json, "--constraint", "E[part('tag') == 'B-X'] <= 2")
    assert "there is no tag 'B-X'; the tags are 'B-LOC', 'B-PER'" in done.stderr
    assert "there is no column 'box'" in label("fit", news.json, "--constraint", "E[part('box') == 1] <= 2").stderr


def test_types_of_spans_are_text(label, tmp_path):
    (tmp_path / "numbers.conll").write_text("Rome B-1 O\nin O O\nAda O B-2\n")
    done = label("fit", tmp_path / "numbers.conll", "--span-types", "2, 1,3")
    assert done.exit_code == 0, done.stderr
    assert load(tmp_path / "model.npz").span_types_ == ("2", "1", "3")


FILES = {
    "unequal": "in O _ O\nRome B-LOC _\n",
    "unknown": "in O O\nRome LOC O\n",
    "stray": "in O O\nRome I-LOC O\n",
    "bare": "in\nRome\n",
    "silent": "in O\nRome _\n",
    "wordless": "in\tO\n\tO\n",
    "other": "Rome B-ZZZ O O\n",
}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("unequal", [], r"unequal.conll, line 2: has 3 columns, but line 1 has 4; .* repair the line"),
        ("unknown", [], r"unknown.conll, line 2: column 1 must hold tags, B-TYPE, I-TYPE or O, or _ for none, found"),
        ("stray", ["--known", "1"], r"stray.conll, line 1: labels must follow the scheme bio, got I-LOC after O"),
        ("bare", [], r"bare.conll, line 1: has no column of votes; write a tag of every source behind the word"),
        ("silent", [], r"silent.conll: no source votes for a span; give votes, or all types by --span-types"),
        ("wordless", [], r"wordless.conll, line 2: has no word in its first column; add it"),
        ("other", ["--span-types", "LOC"], r"types \['LOC'\], got 'ZZZ'; add it to --span-types"),
        ("stray", ["--votes", "a"], r"--votes must number columns of .*stray.conll from 0, .* got 'a'; for"),
        ("stray", ["--votes", "9"], r"stray.conll, line 1: has 3 columns, but column 9 was asked for"),
        ("stray", ["--known", "1,2"], r"--known must number one column, got '1,2'; choose one"),
        ("stray", ["--id", "x"], r"--id concerns items of tables, but .*stray.conll holds sentences; drop it"),
        (
            "stray",
            ["--weights", "x"],
            r"--weights concerns items of tables, but .*stray.conll holds sentences; drop it; weights of sentences are "
            r"sample_weight of SequenceLabelModel.fit",
        ),
        ("stray", ["--classes", "a,b"], r"--classes \['a', 'b'\] concerns items of tables, which are"),
        ("stray", ["--hard"], r"--hard changes nothing without --output; add that or drop this"),
    ],
)  # fmt: skip
def test_bad_input_is_named(label, tmp_path, name, options, message):
    path = tmp_path / f"{name}.conll"
    path.write_text(FILES[name])
    result = label("fit", path, *options)
    assert result.exit_code == 2
    assert re.search(message, result.stderr), result.stderr


def test_votes_of_i_behind_o_are_kept(label, tmp_path):
    (tmp_path / "stray.conll").write_text(FILES["stray"])
    assert label("fit", tmp_path / "stray.conll").exit_code == 0
    assert read_weak_columns(tmp_path / "stray.conll").votes[0].tolist() == [["O", "O"], ["I-LOC", "O"]]


def test_models_and_input_must_be_of_one_kind(label, news, run, tmp_path):
    table, items = tmp_path / "t.csv", tmp_path / "items.npz"
    table.write_text("a,b\nx,y\nx,x\ny,y\n")
    assert run("label", "fit", table, "--votes", "a,b", "--save", items, "--n-threads", "1").exit_code == 0
    done = run("label", "fit", table, "--votes", "a,b", "--save", items, "--precision", "0.5")
    assert "--precision 0.5 concerns words of sentences, which are not labelled here; drop it" in done.stderr
    done = run("label", "predict", news.json, "--load", items)
    assert "the model labels items, but " in done.stderr
    assert label("fit", news.json).exit_code == 0
    assert "the model labels words of sentences, but " in label("predict", table).stderr
    done = label("predict", news.columns)
    assert "the model has the sources 'caps', 'people', 'places', but those of " in done.stderr
    assert "give JSON as it was trained on" in done.stderr
    assert "--group concerns items of tables" in label("evaluate", news.json, "--group", "g").stderr
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"0": {"weak_labels": [["O", "B-PER"]], "data": {"text": ["Ada"]}}}))
    (tmp_path / "meta.json").write_text('{"lf": ["caps", "people"]}')
    assert "other.json: has no source 'places', which the model was trained with" in label("predict", other).stderr
