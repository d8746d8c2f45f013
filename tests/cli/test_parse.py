"""`spectrem parse train`, `predict` and `evaluate`: what the estimators do, from files and into files."""

import json
import warnings

import numpy as np
import pytest

from spectrem import DependencyModel, EdgeFactoredParser
from spectrem.cli.drawing import draw_tree
from spectrem.cli.parsing import table_with_punctuation, with_punctuation, without_punctuation
from spectrem.constraints import parse_constraint
from spectrem.data import ParsedSentence, read_conllu, write_conllu, write_lines
from spectrem.exceptions import ConvergenceWarning, InvalidInputError
from spectrem.metrics import attachment_scores, head_is_next, not_punctuation

WORDS = {"DET": ["the", "a"], "NOUN": ["dog", "cat", "day"], "VERB": ["saw", "fell"], "ADV": ["here"]}
FEW = ["--bits", "8", "--passes", "2"]


def make_trees(n, seed):
    """Sentences of nouns with or without determiners around a verb; the last word is a mark of punctuation."""
    rng = np.random.default_rng(seed)
    sentences = []
    for _ in range(n):
        tags, heads = [], []
        for side in range(2):
            if side == 1 or rng.random() < 0.8:
                if rng.random() < 0.6:
                    tags.append("DET")
                    heads.append(len(tags))
                tags.append("NOUN")
                heads.append(None)
            if side == 0:
                verb = len(tags)
                tags.append("VERB")
                heads.append(-1)
        if rng.random() < 0.3:
            tags.append("ADV")
            heads.append(None)
        heads = np.array([verb if head is None else head for head in heads] + [verb])
        forms = [str(rng.choice(WORDS[tag])) for tag in tags]
        relations = [
            "punct" if tag == "PUNCT" else "root" if head < 0 else "dep"
            for tag, head in zip(tags, heads[:-1], strict=True)
        ]
        sentences.append(
            ParsedSentence((*forms, "."), (*tags, "PUNCT"), ("_",) * len(heads), heads, (*relations, "punct"))
        )
    return sentences


class Treebank:
    """Generated trees on disk, with models trained by the command."""

    def __init__(self, folder, run):
        self.train, self.test = folder / "train.conllu", folder / "test.conllu"
        self.trees, self.unseen = make_trees(30, 0), make_trees(12, 1)
        write_conllu(self.train, self.trees)
        write_conllu(self.test, self.unseen)
        self.parser, self.grammar, self.ruled = folder / "parser.npz", folder / "dmv.npz", folder / "ruled.npz"
        for model, options in (
            (self.parser, FEW),
            (self.grammar, ["--dmv", "--max-iter", "3", "--max-length", "5"]),
            (self.ruled, ["--dmv", "--max-iter", "2", "--constraint", RULES, *AT_PREDICT]),
        ):
            done = run("parse", "train", self.train, "--save", model, *options)
            assert done.exit_code == 0, done.stderr


AT_PREDICT = ["--project-at-predict", "--decode", "posterior"]
RULES = "tag_rules({'VERB': ['NOUN', 'PUNCT', 'ADV'], 'NOUN': ['DET']}, 0.9, roots='VERB')"


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    from typer.testing import CliRunner

    from spectrem.cli.app import app

    def run(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return Treebank(tmp_path_factory.mktemp("trees"), run)


def fitted_quietly(grammar, tags):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return grammar.fit(tags)


def same_trees(sentences, heads):
    return all(np.array_equal(one.heads, own) for one, own in zip(sentences, heads, strict=True))


def test_the_parser_is_that_of_the_estimator(run, treebank, tmp_path):
    out = tmp_path / "parsed.conllu"
    done = run("parse", "predict", "--load", treebank.parser, treebank.test, "-o", out)
    assert done.exit_code == 0, done.stderr
    assert "parsed 12 sentences" in done.stderr
    expected = EdgeFactoredParser(bits=8, passes=2).fit(treebank.trees)
    parsed = read_conllu(out)
    assert same_trees(parsed, expected.predict(treebank.unseen))
    assert [one.forms for one in parsed] == [one.forms for one in treebank.unseen]
    gold = [one.heads for one in treebank.unseen]
    assert attachment_scores(gold, [one.heads for one in parsed]).uas > 0.9


def test_weights_that_nothing_taught_are_not_counted(run, tmp_path):
    write_conllu(tmp_path / "one.conllu", make_trees(1, 0))
    done = run("parse", "train", tmp_path / "one.conllu", "--save", tmp_path / "m.npz", "--bits", "12")
    learned = np.count_nonzero(EdgeFactoredParser.load(tmp_path / "m.npz").theta_)
    assert 0 < learned < 16 * 2**12
    assert f"learned {learned} weights from 1 sentence" in done.stderr


def test_the_grammar_reads_no_heads(run, treebank):
    short = [one.upos for one in treebank.trees if len(one.upos) <= 5]
    expected = fitted_quietly(DependencyModel(max_iter=3), short)
    done = run("parse", "predict", "--load", treebank.grammar, treebank.test, "-q")
    found = [line.split("\t")[6] for line in done.stdout.splitlines() if line]
    heads = expected.predict([one.upos for one in treebank.unseen])
    assert found == [str(head + 1) for own in heads for head in own]


def test_the_grammar_learns_from_heads_if_asked(run, treebank, tmp_path):
    for options in (["--heads"], ["--init", "supervised"]):
        model, out = tmp_path / "model.npz", tmp_path / "out.conllu"
        arguments = ["--save", model, "--dmv", "--smoothing", "0.1", *options]
        assert run("parse", "train", treebank.train, *arguments).exit_code == 0
        assert run("parse", "predict", "--load", model, treebank.test, "-o", out).exit_code == 0
        scores = json.loads(run("parse", "evaluate", treebank.test, out, "--json").stdout)
        assert scores["predicted"][0]["all_words"]["uas"] > 0.95


def test_punctuation_is_left_out_if_asked(run, treebank, tmp_path):
    model, out = tmp_path / "model.npz", tmp_path / "out.conllu"
    options = ["--dmv", "--skip-punctuation", "--max-iter", "3", "--max-length", "4"]
    assert run("parse", "train", treebank.train, "--save", model, *options).exit_code == 0
    tags = [one.upos[:-1] for one in treebank.trees if len(one.upos) <= 5]
    expected = fitted_quietly(DependencyModel(max_iter=3), tags)
    posteriors = tmp_path / "posteriors.txt"
    arguments = ["-o", out, "--probabilities", posteriors]  # the model keeps --skip-punctuation
    assert run("parse", "predict", "--load", model, treebank.test, *arguments).exit_code == 0
    mark = tmp_path / "mark.conllu"
    write_conllu(mark, [ParsedSentence(("!", "?"), ("PUNCT", "PUNCT"), ("_", "_"))])
    alone = run("parse", "predict", "--load", model, mark, "--show", "-q")
    assert alone.stdout.split("\n")[:2] == ["! ─┐ root 1.00", "? ◄┘ 1.00"]
    heads = expected.predict([one.upos[:-1] for one in treebank.unseen])
    parsed = read_conllu(out)
    assert same_trees([one._replace(heads=one.heads[:-1]) for one in parsed], heads)
    assert all(one.heads[-1] == one.heads.tolist().index(-1) for one in parsed)
    assert posteriors.read_text().split("\n\n")[0].splitlines()[-1] == f".\t{heads[0].tolist().index(-1) + 1}:1"


def test_trees_without_punctuation_are_those_of_the_words_left():
    # the head of "a" is a comma, whose head is "b"
    sentence = ParsedSentence(("a", ",", "b", "!"), ("X", "PUNCT", "X", "PUNCT"), ("_",) * 4, np.array([1, 2, -1, -2]))
    reduced, kept = without_punctuation(sentence)
    assert (reduced.forms, reduced.heads.tolist(), kept.tolist()) == (("a", "b"), [1, -1], [0, 2])
    penn = sentence._replace(upos=("_",) * 4, xpos=("NN", ",", "VB", "."))
    assert without_punctuation(penn)[1].tolist() == kept.tolist()
    assert with_punctuation(reduced.heads, kept, 4).tolist() == [2, 2, -1, 2]
    assert with_punctuation(np.array([-2]), np.array([1]), 2).tolist() == [-2, -2]
    assert with_punctuation(np.zeros(0, np.int64), np.zeros(0, np.int64), 2).tolist() == [-1, 0]
    table = table_with_punctuation(np.array([[0.2, 0.8], [0.1, 0.9]]), kept, np.array([2, 2, -1, 2]))
    assert table.tolist() == [[0.2, 0, 0.8, 0], [0, 0, 1, 0], [0.1, 0, 0.9, 0], [0, 0, 1, 0]]


def test_rules_are_met_by_new_trees(run, treebank):
    done = run("parse", "predict", "--load", treebank.ruled, treebank.test, "-q")
    found = [line.split("\t")[6] for line in done.stdout.splitlines() if line]
    rules = [parse_constraint(RULES)]
    grammar = DependencyModel(max_iter=2, constraints=rules, project_at_predict=True, decode="posterior")
    fitted_quietly(grammar, [one.upos for one in treebank.trees])
    heads = grammar.predict([one.upos for one in treebank.unseen])
    assert found == [str(head + 1) for own in heads for head in own]


def test_trees_that_may_cross_are_learned_from_as_they_are(run, treebank, tmp_path):
    model = tmp_path / "crossing.npz"
    options = [*FEW, "--no-projective", "--no-single-root"]
    assert run("parse", "train", treebank.train, "--save", model, *options).exit_code == 0
    parser = EdgeFactoredParser.load(model)
    assert (parser.projective, parser.single_root) == (False, False)


def test_everything_but_trees_is_copied(run, treebank, tmp_path):
    text, out = tmp_path / "text.conllu", tmp_path / "out.conllu"
    lines = [
        "# text = the dog fell",
        "1-2\tthedog\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No",
        "1\tthe\tthe\tDET\t_\tDefinite=Def\t_\t_\t2:det\t_",
        "2\tdog\tdog\tNOUN\t_\t_\t_\t_\t_\t_",
        "2.1\tx\tx\tX\t_\t_\t_\t_\t_\t_",
        "3\tfell\tfall\tVERB\t_\t_\t9\told\t_\tEnd=Yes",
    ]
    text.write_text("\n".join(lines).replace("\t9\t", "\t_\t"))
    assert run("parse", "predict", "--load", treebank.parser, text, "-o", out).exit_code == 0
    found = out.read_text().split("\n")
    assert found[0] == lines[0]
    assert found[1] == lines[1]
    assert found[2] == "1\tthe\tthe\tDET\t_\tDefinite=Def\t2\tdep\t_\t_"
    assert found[3] == "2\tdog\tdog\tNOUN\t_\t_\t3\tdep\t_\t_"
    assert found[4] == lines[4]
    assert found[5:] == ["3\tfell\tfall\tVERB\t_\t_\t0\troot\t_\tEnd=Yes", "", ""]
    piped = run("parse", "predict", "--load", treebank.parser, "-", "-q", stdin=text.read_text())
    assert piped.stdout == out.read_text()


def test_posteriors_and_pictures(run, treebank, tmp_path):
    posteriors = tmp_path / "posteriors.txt"
    done = run(
        "parse", "predict", "--load", treebank.parser, treebank.test, "--show", "--probabilities", posteriors, "-q"
    )
    assert done.exit_code == 0, done.stderr
    parser = EdgeFactoredParser.load(treebank.parser)
    tables, heads = parser.predict_proba(treebank.unseen), parser.predict(treebank.unseen)
    first = treebank.unseen[0]
    relations = parser.parse(treebank.unseen[:1])[0].relations
    assert done.stdout.startswith(draw_tree(first.forms, heads[0], tables[0], relations) + "\n\n")
    rows = posteriors.read_text().split("\n\n")[0].splitlines()
    assert [row.split("\t")[0] for row in rows] == list(first.forms)
    for word, row in enumerate(rows):
        for cell in row.split("\t")[1:]:
            head, probability = cell.split(":")
            assert float(probability) == pytest.approx(tables[0][word, int(head) - 1 if head != "0" else word], 1e-3)
    with_file = run(
        "parse", "predict", "--load", treebank.parser, treebank.test, "--show", "-o", tmp_path / "out.conllu", "-q"
    )
    assert with_file.stdout == done.stdout
    assert same_trees(read_conllu(tmp_path / "out.conllu"), heads)


def test_evaluation_counts_what_the_metrics_do(run, treebank, tmp_path):
    out = tmp_path / "next.conllu"
    chain = head_is_next([len(one.forms) for one in treebank.unseen])
    guess = [
        one._replace(heads=own, relations=("dep:sub",) * len(own))
        for one, own in zip(treebank.unseen, chain, strict=True)
    ]
    guess[0] = guess[0]._replace(heads=np.full(len(chain[0]), -1))
    write_conllu(out, guess)
    gold = [one.heads for one in treebank.unseen]
    found = json.loads(run("parse", "evaluate", treebank.test, out, treebank.test, "--json").stdout)
    mask = not_punctuation([one.upos for one in treebank.unseen])
    expected = attachment_scores(gold, [one.heads for one in guess], mask=mask)
    first = found["predicted"][0]["without_punctuation"]
    assert (first["uas"], first["undirected"], first["roots"]) == (expected.uas, expected.undirected, expected.roots)
    assert found["predicted"][0]["all_words"]["uas"] == attachment_scores(gold, [one.heads for one in guess]).uas
    assert first["las"] == 0.0 < first["las_universal"]
    assert found["predicted"][1]["all_words"]["las"] == 1.0
    assert found["head_is_next"]["all_words"]["uas"] == attachment_scores(gold, chain).uas
    assert found["sentences_with_several_roots"] == {"gold": 0, "predicted": [1, 0]}
    assert found["sign_test"]["all_words"]["words"]["n_first"] == 0
    table = run("parse", "evaluate", treebank.test, out, "--max-length", "4").stdout
    assert "head = next word" in table
    assert "sentences with several roots: 0 of GOLD" in table
    assert f"{sum(len(own) <= 4 for own in gold)} sentences" in table


def test_words_without_gold_heads_do_not_count(run, treebank, tmp_path):
    gold = tmp_path / "gold.conllu"
    first = treebank.unseen[0]
    heads = first.heads.copy()
    heads[:2] = -2  # two roots, if unknown heads were roots
    write_conllu(gold, [first._replace(heads=heads), *treebank.unseen[1:]])
    found = json.loads(run("parse", "evaluate", gold, treebank.test, "--json").stdout)
    assert found["n_words"]["all_words"] == sum(len(one.forms) for one in treebank.unseen) - 2
    assert found["n_unknown_heads"] == 2
    assert found["sentences_with_several_roots"] == {"gold": 0, "predicted": [0]}
    assert found["n_words"]["without_punctuation"] == found["n_words"]["all_words"] - len(treebank.unseen)
    assert found["predicted"][0]["all_words"]["uas"] == 1.0
    shown = run("parse", "evaluate", gold, treebank.test).stdout
    assert "left out: 2 words, whose heads GOLD does not know" in shown
    assert "left out" not in run("parse", "evaluate", treebank.test, treebank.test).stdout


@pytest.mark.parametrize("source", ["file", "standard input"])
def test_declared_columns_get_the_trees(run, treebank, tmp_path, source):
    plus, out = tmp_path / "plus.conllup", tmp_path / "out.conllup"
    rows = ["# global.columns = ID FORM UPOS HEAD DEPREL XPOS FEATS LEMMA"]
    for one in treebank.unseen:
        rows += [
            f"{k}\t{form}\t{tag}\t0\told\t_\tF\tL" for k, (form, tag) in enumerate(zip(*one[:2], strict=True), 1)
        ] + [""]
    write_lines(plus, rows)
    assert (
        run("parse", "predict", "--load", treebank.parser, treebank.test, "-o", tmp_path / "plain.conllu").exit_code
        == 0
    )
    if source == "file":
        assert run("parse", "predict", "--load", treebank.parser, plus, "-o", out).exit_code == 0
        assert out.read_text().splitlines()[1].split("\t")[5:] == ["_", "F", "L"]
    else:
        piped = run("parse", "predict", "--load", treebank.parser, "-", "-o", out, stdin=plus.read_text())
        assert piped.exit_code == 0
    assert same_trees(read_conllu(out), [one.heads for one in read_conllu(tmp_path / "plain.conllu")])


def test_columns_that_are_not_declared_are_refused(run, treebank, tmp_path):
    plus, out = tmp_path / "plus.conllup", tmp_path / "out.conllup"
    plus.write_text("# global.columns = ID FORM UPOS\n1\tdog\tNOUN\n")
    for more in (["-o", out], []):
        done = run("parse", "predict", "--load", treebank.parser, plus, *more)
        assert (done.exit_code, done.stdout, out.exists()) == (2, "", False)
        assert "plus.conllup, line 2: has no column HEAD, which '0' belongs into; declare it" in done.stderr


BAD_LINES = {
    "a cycle": (
        ["1\ta\t_\tX\t_\t_\t2\t_\t_\t_", "2\tb\t_\tX\t_\t_\t1\t_\t_\t_"],
        "line 1: words 1 and 2 are heads of each other",
    ),
    "no root": (["1\ta\t_\tX\t_\t_\t1\t_\t_\t_"], "line 1: word 1 is its own head"),
    "a head that is not there": (["1\ta\t_\tX\t_\t_\t3\t_\t_\t_"], "line 1: has the head 3, but the sentence has"),
}


@pytest.mark.parametrize("case", list(BAD_LINES))
def test_heads_that_are_no_tree_are_named_by_line(run, tmp_path, case):
    lines, message = BAD_LINES[case]
    path = tmp_path / "bad.conllu"
    path.write_text("\n".join(lines) + "\n\n")
    for arguments in (["train", path, "--save", tmp_path / "m.npz"], ["evaluate", path, path]):
        done = run("parse", *arguments)
        assert done.exit_code == 2
        assert message in done.stderr


def test_heads_that_are_not_read_may_be_anything(run, treebank, tmp_path):
    path, model = tmp_path / "cycle.conllu", tmp_path / "m.npz"
    path.write_text("1\ta\t_\tNOUN\t_\t_\t2\tx\t_\t_\n2\tb\t_\tVERB\t_\t_\t1\t_\t_\t_\n\n")
    assert read_conllu(path, trees=False)[0][3:] == (None, None)
    assert run("parse", "train", path, "--dmv", "--save", model).exit_code == 0
    assert run("parse", "predict", "--load", model, path, "-o", tmp_path / "out.conllu").exit_code == 0
    assert run("parse", "predict", "--load", treebank.parser, path, "-o", tmp_path / "out.conllu").exit_code == 0
    assert (read_conllu(tmp_path / "out.conllu")[0].heads == -1).sum() == 1
    assert "in a cycle" in run("parse", "train", path, "--dmv", "--heads", "--save", model).stderr


ROOTS = [ParsedSentence(("a", "b"), ("X", "X"), ("_", "_"), np.array([-1, -1]))]
CROSSING = ParsedSentence(("a", "b", "c", "d"), ("X",) * 4, ("_",) * 4, np.array([2, 3, -2, -2]))


@pytest.mark.filterwarnings("ignore:1 heads count as not known")
@pytest.mark.parametrize("options", [[], ["--dmv", "--heads"]])
def test_a_tree_that_crosses_does_not_stop_training(run, tmp_path, options):
    path, model = tmp_path / "text.conllu", tmp_path / "m.npz"
    write_conllu(path, [*make_trees(5, 0), CROSSING])
    done = run("parse", "train", path, "--save", model, "--max-iter", "2", *options)
    assert done.exit_code == 0, done.stderr
    assert ", 1 head lifted since arcs crossed" in done.stderr
    done = run("parse", "train", path, "--save", model, "--max-iter", "2", "--crossing", "skip", *options)
    assert ", 1 sentence left out since arcs cross" in done.stderr
    assert "lifted" not in done.stderr


CASES = [
    (
        ["train", "ROOTS", "--save", "M"],
        "roots.conllu, line 1 ('a b'): heads must have one word under the root, got 2; repair them, or give --no",
    ),
    (
        ["train", "CROSSING", "--save", "M", "--crossing", "raise"],
        "crossing.conllu, line 4 ('a b c d'): heads must fit a tree without crossing arcs, but fit none; repair them, "
        "or give --crossing lift or --crossing skip",
    ),
    (["train", "TRAIN", "--save", "M", "--constraint", "E[root] <= 3"], "spans the corpus; give --learner batch"),
    (
        ["train", "TRAIN", "--save", "M", "--dmv", "--constraint", "tag_rules({'VREB': ['NOUN']}, roots='VERB')"],
        "there is no head_tag 'VREB'; did you mean 'VERB'? the head_tags are",
    ),
    (
        [
            "train",
            "TRAIN",
            "--save",
            "M",
            "--dmv",
            "--constraint",
            f"{RULES.replace('NOUN', 'NUON')}.slack(penalty=4)",
        ],
        "there is no head_tag 'NUON'; did you mean 'NOUN'?",
    ),
    (
        ["train", "TRAIN", "--save", "M", "--dmv", "--constraint", "(E[direction == 'lfet'] <= 1).per('sentence')"],
        "there is no direction 'lfet'; did you mean 'left'? the directions are 'left', 'right'",
    ),
    (["train", "TRAIN", "--save", "M", "--adjacency"], "--adjacency True changes nothing without --dmv"),
    (["train", "TRAIN", "--save", "M", "--field", "xpos"], "--field changes nothing without --dmv"),
    (["train", "TRAIN", "--save", "M", "--dmv", "--bits", "9"], "--bits 9 concerns parsers with features; drop it"),
    (["train", "TRAIN", "--save", "M", "--anneal", "0.5"], "--anneal 0.5 changes nothing without --learner batch or"),
    (
        ["train", "TRAIN", "--save", "M", "--infeasible", "skip"],
        "--infeasible skip changes nothing without --con",
    ),
    (
        ["train", "TRAIN", "--save", "M", "--dmv", "--field", "xpos"],
        "'the' has no tag in the column XPOS; tag it",
    ),
    (
        ["train", "TRAIN", "--save", "M", "--max-length", "1"],
        "no sentence has up to --max-length 1 words; the",
    ),
    (["train", "RAW", "--save", "M"], "raw.conllu: holds no heads to learn from, only _; give --dmv"),
    (["train", "RAW", "--save", "M", "--dmv", "--heads"], "raw.conllu: holds no heads, only _; drop --heads"),
    (["train", "EMPTY", "--save", "M"], "holds no sentences; give a file of CoNLL-U"),
    (["train", "TRAIN", "--save", "M", "--dmv", "--constraint", "E[tag == 'X'] <= 1"], "--constraint \"E[tag == 'X']"),
    (
        ["predict", "--load", "PARSER", "TEST", "--project-at-predict"],
        "holds no constraints to meet; train it with --constraint",
    ),
    (
        ["train", "TRAIN", "--save", "M", "--dmv", "--crossing", "skip"],
        "--crossing skip changes nothing with --dmv unless it learns from heads; add --heads or drop this",
    ),
    (
        ["train", "TRAIN", "--save", "M", "--crossing", "skip", "--no-projective"],
        "--crossing skip concerns trees without crossing arcs; drop one of them",
    ),
    (["train", "TRAIN", "--save", "M", "--skip-punctuation"], "--skip-punctuation changes nothing without --dmv"),
    (
        ["predict", "--load", "PARSER", "TEST", "--skip-punctuation"],
        "--skip-punctuation changes nothing without a model of --d",
    ),
    (
        ["predict", "--load", "PARSER", "TEST", "--field", "upos"],
        "--field upos changes nothing without a model of --dmv",
    ),
    (
        ["predict", "--load", "PARSER", "TEST", "--project-at-predict"],
        "holds no constraints to meet; train it with --constraint",
    ),
    (["train", "TRAIN", "--save", "M", "--skip-punctuation"], "--skip-punctuation changes nothing without --dmv"),
    (
        ["predict", "--load", "PARSER", "TEST", "--skip-punctuation"],
        "--skip-punctuation changes nothing without a model of --d",
    ),
    (
        ["predict", "--load", "PARSER", "TEST", "--field", "upos"],
        "--field upos changes nothing without a model of --dmv",
    ),
    (
        ["predict", "--load", "PARSER", "TEST", "--min-probability", "0.1"],
        "--min-probability 0.1 changes nothing without --prob",
    ),
    (
        ["predict", "--load", "PARSER", "TEST", "--show", "-o", "-"],
        "--show draws trees on standard output; give --output a file",
    ),
    (["predict", "--load", "TRAIN", "TEST"], "train.conllu"),
    (["evaluate", "TRAIN", "TEST"], "30 sentences, but"),
    (["evaluate", "TEST", "OTHER"], "must have the same words, but have"),
    (["evaluate", "RAW", "RAW"], "GOLD has no heads, only _; name a file of trees"),
]


@pytest.mark.parametrize(("arguments", "message"), CASES, ids=[message[:40] for _, message in CASES])
def test_errors_say_what_to_do(run, treebank, tmp_path, arguments, message):
    raw, empty, other = tmp_path / "raw.conllu", tmp_path / "empty.conllu", tmp_path / "other.conllu"
    write_conllu(raw, [one._replace(heads=None, relations=None) for one in treebank.unseen])
    write_conllu(other, make_trees(12, 5))
    empty.write_text("\n")
    roots = tmp_path / "roots.conllu"
    write_conllu(roots, ROOTS)
    crossing = tmp_path / "crossing.conllu"
    write_conllu(crossing, [ROOTS[0]._replace(heads=np.array([1, -1])), CROSSING])
    files = {
        "CROSSING": crossing,
        "TRAIN": treebank.train,
        "TEST": treebank.test,
        "PARSER": treebank.parser,
        "M": tmp_path / "m.npz",
        "RAW": raw,
        "EMPTY": empty,
        "OTHER": other,
        "ROOTS": roots,
    }
    done = run("parse", *(files.get(argument, argument) for argument in arguments))
    assert done.exit_code == 2, done.stdout
    assert message in done.stderr
    assert not (tmp_path / "m.npz").exists()


def test_a_tree_that_crosses_is_drawn_with_junctions():
    assert draw_tree(["a", "b", "c", "d"], [2, 3, -1, 2]).splitlines() == [
        "a ──◄┐",
        "b ───┼◄┐",
        "c ─┬─┘ │ root",
        "d ◄┴───┘",
    ]
    assert draw_tree(["a"], [-1], [[1.0]]) == "a  root 1.00"
    assert draw_tree(["a", "b"], [-2, -2]) == "a\nb"


def test_one_head_per_word_is_asked_for():
    with pytest.raises(InvalidInputError, match=r"heads must be one per word, 2; got shape \(1,\)"):
        draw_tree(["a", "b"], [-1])
