"""`spectrem tag train` and `predict` on good input."""

import gzip
import warnings

import numpy as np
import pytest

from spectrem import HMMTagger
from spectrem.constraints import parse_constraint
from spectrem.data import read_tagged, write_lines, write_tag_dictionary, write_tagged
from spectrem.datasets import make_tagged_corpus
from spectrem.exceptions import ConvergenceWarning
from spectrem.learning import Anneal, Constant, Quench


class TaggedFiles:
    """Generated sentences on disk: plain, tagged by hand, and a dictionary of them."""

    def __init__(self, folder):
        self.folder = folder
        self.corpus = make_tagged_corpus(80, seed=0)
        self.text, self.gold, self.dictionary = folder / "text.txt", folder / "gold.pos", folder / "tags.tsv"
        self.few, self.model = folder / "few.conllu", folder / "model.npz"
        write_lines(self.text, map(" ".join, self.corpus.words))
        write_tagged(self.gold, self.corpus.words, self.corpus.tags)
        self.tagged = make_tagged_corpus(20, seed=1)
        write_tagged(self.few, self.tagged.words, self.tagged.tags, "conllu")
        write_tag_dictionary(self.dictionary, self.corpus.dictionary)
        self.default = self.fitted()
        self.default.save(self.model)

    def fitted(self, labelled=False, **parameters):
        """What the estimator learns without the command line."""
        own = {"random_state": 0, "n_threads": 1} | parameters
        if "n_states" not in own and not labelled:
            own["dictionary"] = self.corpus.dictionary
        sentences, y = self.corpus.words, None
        if labelled:
            sentences, y = [*self.tagged.words, *sentences], [*self.tagged.tags, *([None] * len(sentences))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return HMMTagger(**own).fit(sentences, y)


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    return TaggedFiles(tmp_path_factory.mktemp("tagged"))


def same_tables(first, second):
    return all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-12, atol=0)
        for a, b in (
            (getattr(first.params_, name), getattr(second.params_, name))
            for name in ("initial", "transition", "emission")
        )
    )


CASES = [
    ([], {}),
    (["--order", "2"], {"order": 2}),
    (["--gamma", "0.5"], {"gamma": 0.5}),
    (["--anneal", "0.5"], {"schedule": Anneal(0.5)}),
    (["--anneal", "0.5", "--anneal-rate", "1.5"], {"schedule": Anneal(0.5, 1.0, 1.5)}),
    (["--quench", "--max-iter", "4"], {"schedule": Quench(Constant(1.0)), "max_iter": 4}),
    (
        ["--constraint", "at_least(1, 'VERB')", "--max-iter", "3"],
        {"constraints": [parse_constraint("at_least(1, 'VERB')")], "max_iter": 3},
    ),
    (
        ["--constraint", "E[tag == 'NOUN'] <= '10%'", "--max-iter", "2", "--dual-steps", "1"],
        {"constraints": [parse_constraint("E[tag == 'NOUN'] <= '10%'")], "max_iter": 2, "dual_steps": 1},
    ),
    (
        ["--constraint", "sparsity(1, 5)", "--max-iter", "2"],
        {"constraints": [parse_constraint("sparsity(1, 5)")], "max_iter": 2},
    ),
    (["--init", "posterior-uniform"], {"init": "posterior-uniform"}),
    (["--init", "random", "--random-state", "3"], {"init": "random", "random_state": 3}),
    (["--smoothing", "0.1"], {"smoothing": 0.1}),
    (["--min-count", "2"], {"min_count": 2}),
    (["--max-iter", "3"], {"max_iter": 3}),
    (["--tol", "0.01"], {"tol": 0.01}),
    (["--n-init", "2", "--init", "random", "--max-iter", "3"], {"n_init": 2, "init": "random", "max_iter": 3}),
]


@pytest.mark.parametrize(
    ("options", "parameters"), CASES, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_options_reach_the_estimator(run, tagged, tmp_path, options, parameters):
    model = tmp_path / "model.npz"
    result = run("tag", "train", tagged.text, "--save", model, "--dictionary", tagged.dictionary, *options)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    expected = tagged.fitted(**parameters)
    assert same_tables(HMMTagger.load(model), expected)
    assert parameters == {} or not same_tables(tagged.default, expected)  # otherwise the test could not fail


def test_labelled_sentences_count_too(run, tagged, tmp_path):
    model = tmp_path / "model.npz"
    options = ["--labelled", tagged.few, "--init", "supervised", "--max-iter", "2"]
    result = run("tag", "train", tagged.text, "--save", model, *options)
    assert result.exit_code == 0, result.stderr
    assert same_tables(HMMTagger.load(model), tagged.fitted(labelled=True, init="supervised", max_iter=2))


def test_labelled_sentences_alone_give_relative_frequencies(run, tagged, tmp_path):
    model = tmp_path / "model.npz"
    assert run("tag", "train", "--labelled", tagged.gold, "--save", model).exit_code == 0
    tagger = HMMTagger.load(model)
    first = [tags[0] for tags in tagged.corpus.tags]
    assert tagger.initial_ == pytest.approx([first.count(tag) / len(first) for tag in tagger.tags_])


@pytest.mark.parametrize("anneal", [[], ["--anneal", "0.5"]], ids=["", "skewed annealing"])
def test_start_from_a_model(run, tagged, tmp_path, anneal):
    model = tmp_path / "model.npz"
    assert run("tag", "train", tagged.few, "--labelled", tagged.few, "--save", model, "--max-iter", "1").exit_code == 0
    start = HMMTagger.load(model)
    options = ["--dictionary", tagged.dictionary, "--max-iter", "1", "--start", model, *anneal]
    model = tmp_path / "next.npz"
    result = run("tag", "train", tagged.text, "--save", model, *options)
    assert result.exit_code == 0, result.stderr
    schedule = Anneal(0.5) if anneal else None
    expected = tagged.fitted(max_iter=1, init=start, reference=start, schedule=schedule)
    assert same_tables(HMMTagger.load(model), expected)
    others = tagged.fitted(max_iter=1, schedule=schedule), tagged.fitted(max_iter=1, init=start, schedule=schedule)
    assert not same_tables(expected, others[0])
    assert same_tables(expected, others[1]) == (not anneal)


def test_tags_without_names(run, tagged, tmp_path):
    model = tmp_path / "model.npz"
    options = ["--n-states", "5", "--max-iter", "3"]
    result = run("tag", "train", tagged.text, "--save", model, *options)
    assert result.exit_code == 0, result.stderr
    assert same_tables(HMMTagger.load(model), tagged.fitted(n_states=5, max_iter=3, init="random"))
    result = run("tag", "predict", "--load", model, tagged.text, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    assert {tag for tags in read_tagged(tmp_path / "out").tags for tag in tags} <= set("01234")


def test_summary_and_silence(run, tagged, tmp_path):
    command = ["tag", "train", tagged.text, "--save", tmp_path / "m", "--dictionary", tagged.dictionary]
    result = run(*command)
    n_words = sum(map(len, tagged.corpus.words))
    assert result.stderr.startswith(f"learned 12 tags from 80 sentences ({n_words} words) in ")
    assert f"{tagged.default.n_iter_} iterations, objective -" in result.stderr
    assert run(*command, "--quiet").stderr == ""


def test_what_constraints_did_is_said_and_on_a_page(run, tagged, tmp_path):
    page = tmp_path / "run.html"
    command = [
        "tag",
        "train",
        tagged.text,
        "--save",
        tmp_path / "m",
        "--dictionary",
        tagged.dictionary,
        "--max-iter",
        "3",
    ]
    rules = ["--constraint", "E[tag == 'NOUN'] <= '10%'", "--constraint", "at_least(1, 'VERB')"]
    result = run(*command, *rules, "--report", page)
    assert result.exit_code == 0, result.stderr
    first, share, inside, *_ = result.stderr.splitlines()
    assert first.startswith("learned 12 tags")
    assert share.startswith('  E[part("tag") == "NOUN"] <= 0.1 * E.count(...): ')
    assert "% -> 10% <= 10%, price " in share
    assert inside.startswith("  at least 1 VERB per sentence: 80 rows, of which ")
    text = page.read_text()
    assert "&quot;E[tag == &#x27;NOUN&#x27;] &lt;= &#x27;10%&#x27;&quot; --constraint" in text
    assert "at least 1 VERB per sentence" in text
    assert "the name must end in .html" in run(*command, "--report", tmp_path / "run.txt").stderr


def test_corpus_in_any_format_or_on_standard_input(run, tagged, tmp_path):
    write_tagged(tmp_path / "columns", tagged.corpus.words, tagged.corpus.tags, "columns")
    (tmp_path / "spaces").write_text((tmp_path / "columns").read_text().replace("\t", " "))
    (tmp_path / "zipped").write_bytes(gzip.compress(tagged.text.read_bytes()))
    for source, options in (
        (tagged.gold, []),
        (tmp_path / "columns", ["--columns", "0,1"]),
        (tmp_path / "spaces", ["--input-format", "columns"]),
        (tmp_path / "zipped", ["--input-format", "text"]),
        ("-", []),
    ):
        model = tmp_path / "model.npz"
        command = ["tag", "train", source, "--save", model, "--dictionary", tagged.dictionary, *options]
        result = run(*command, stdin=tagged.text.read_bytes())
        assert result.exit_code == 0, result.stderr
        assert same_tables(HMMTagger.load(model), tagged.default)


@pytest.mark.parametrize("decode", ["posterior", "viterbi"])
def test_predict(run, tagged, tmp_path, decode):
    expected = tagged.default.set_params(decode=decode).predict(tagged.corpus.words)
    for name in ("slash", "columns", "conllu"):
        out = tmp_path / "out.gz"
        options = ["--decode", decode, "--output-format", name, "--field", "xpos"]
        result = run("tag", "predict", "--load", tagged.model, tagged.text, "-o", out, *options)
        assert result.exit_code == 0, result.stderr
        found = read_tagged(out, field="xpos")
        assert (found.words, found.tags) == (tagged.corpus.words, expected)


def test_the_way_of_decoding_is_kept_in_the_model(run, tagged, tmp_path):
    command = ["tag", "train", tagged.text, "--save", tmp_path / "m", "--dictionary", tagged.dictionary]
    assert run(*command, "--decode", "viterbi").exit_code == 0
    assert HMMTagger.load(tmp_path / "m").decode == "viterbi"


def test_predictions_meet_the_constraints_of_the_model(run, tagged, tmp_path):
    rule = "(E[tag == 'DET'] <= 1).per('sentence').slack(penalty=3)"
    model, command = tmp_path / "m", ["tag", "train", tagged.text, "--dictionary", tagged.dictionary]
    result = run(*command, "--save", model, "--constraint", rule, "--max-iter", "3")
    assert result.exit_code == 0, result.stderr
    loaded = HMMTagger.load(model)
    assert loaded.constraints == (parse_constraint(rule),)
    assert not loaded.project_at_predict
    free = run("tag", "predict", "--load", model, tagged.text, "--probabilities", tmp_path / "free")
    held = run(
        "tag", "predict", "--load", model, tagged.text, "--probabilities", tmp_path / "held", "--project-at-predict"
    )
    assert free.exit_code == held.exit_code == 0
    loaded.set_params(project_at_predict=True)
    expected = loaded.predict(tagged.corpus.words)
    (tmp_path / "out").write_text(held.stdout)
    assert read_tagged(tmp_path / "out").tags == expected
    assert (tmp_path / "held").read_text() != (tmp_path / "free").read_text()
    result = run(*command, "--save", model, "--constraint", rule, "--max-iter", "3", "--project-at-predict")
    assert HMMTagger.load(model).project_at_predict
    again = run("tag", "predict", "--load", model, tagged.text, "--probabilities", tmp_path / "again")
    assert again.exit_code == 0, again.stderr
    last = run(
        "tag",
        "predict",
        "--load",
        model,
        tagged.text,
        "--probabilities",
        tmp_path / "free again",
        "--no-project-at-predict",
    )
    assert last.exit_code == 0, last.stderr
    assert (tmp_path / "free again").read_text() != (tmp_path / "again").read_text()


def test_blank_lines_and_new_words(run, tagged):
    result = run("tag", "predict", "--load", tagged.model, "-", stdin=b"\nthe xyzzy\n\n")
    assert result.exit_code == 0, result.stderr
    first, second, third = result.stdout.split("\n")[:3]
    assert (first, third) == ("", "")
    assert second.startswith("the/DET xyzzy/")


def test_words_with_slashes_keep_them(run, tagged, tmp_path):
    text = tmp_path / "text"
    text.write_text("and/or\nthe/dog and/or\n")
    result = run("tag", "predict", "--load", tagged.model, text, "--input-format", "text")
    words = [[token.rpartition("/")[0] for token in line.split()] for line in result.stdout.splitlines()]
    assert words == [["and/or"], ["the/dog", "and/or"]]
    result = run("tag", "predict", "--load", tagged.model, text)
    assert "text is read as word/TAG, and its tags are ignored; if these are words, say --input-format" in result.stderr
    assert [line.count("/") for line in result.stdout.splitlines()] == [1, 2]


def test_formats_are_told_apart_as_in_training(run, tagged, tmp_path):
    text = tmp_path / "text"
    text.write_text("the\tDT\ndog\tNN\n")
    for options in ([], ["--input-format", "auto"], ["--input-format", "columns"]):
        assert run("tag", "predict", "--load", tagged.model, text, *options).stdout.count("/") == 2


def test_posteriors(run, tagged, tmp_path):
    out = tmp_path / "posteriors.tsv"
    options = ["-o", tmp_path / "out", "--probabilities", out, "--min-probability", "0.05"]
    assert run("tag", "predict", "--load", tagged.model, tagged.text, *options).exit_code == 0
    sentences = [block.split("\n") for block in out.read_text().removesuffix("\n\n").split("\n\n")]
    tables = tagged.default.predict_proba(tagged.corpus.words)
    assert len(sentences) == len(tables)
    for lines, words, table in zip(sentences, tagged.corpus.words, tables, strict=True):
        for line, word, row in zip(lines, words, table, strict=True):
            spelled, *entries = line.split("\t")
            listed = {entry.rpartition(":")[0]: float(entry.rpartition(":")[2]) for entry in entries}
            expected = {tag: p for tag, p in zip(tagged.default.tags_, row.tolist(), strict=True) if p >= 0.05}
            assert spelled == word
            assert listed == pytest.approx(expected, rel=1e-3)
            assert list(listed.values()) == sorted(listed.values(), reverse=True)


def test_a_round_through_all_commands(run, tagged, tmp_path):
    """As a newcomer would: learn, tag, judge."""
    assert run("tag", "predict", "--load", tagged.model, tagged.text, "-o", tmp_path / "out").exit_code == 0
    result = run("tag", "evaluate", tagged.gold, tmp_path / "out", "--dictionary", tagged.dictionary)
    assert "ambiguous words" in result.stdout
    right = [float(cell) for cell in result.stdout.replace("│", " ").split() if cell.startswith("0.9")]
    assert right[0] > 0.93


def test_the_bar_reaches_its_end_and_shows_the_objective(run, tagged, tmp_path, monkeypatch):
    seen, totals = [], []

    class Bar:
        def __init__(self, total, *, shown):
            totals.append(total)

        def __enter__(self):
            return lambda doing, amount=0.0: seen.append((doing, amount))

        def __exit__(self, *_):
            return None

    monkeypatch.setattr("spectrem.cli.training.progress_bar", Bar)
    command = ["tag", "train", tagged.text, "--save", tmp_path / "m", "--dictionary", tagged.dictionary]
    for options, n_stages in (
        (["--tol", "0", "--max-iter", "2", "--anneal", "0.8", "--n-init", "2"], 6),
        (["--anneal", "0.5", "--tol", "0.001"], 5),
        ([], 1),
    ):
        seen.clear()
        totals.clear()
        assert run(*command, *options).exit_code == 0
        assert totals == [n_stages]
        assert sum(amount for _, amount in seen) == pytest.approx(n_stages)
        assert min(amount for _, amount in seen) >= -1e-9
        assert seen[-2][0].startswith("Training: gamma 1, objective -")
