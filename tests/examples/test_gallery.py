"""The gallery and the README do what they say."""

import io
import re
import runpy
import subprocess
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*/*.py"))


def path_of(name):
    return next(script for script in SCRIPTS if script.name == name)


@pytest.fixture(scope="module")
def output_of(tmp_path_factory):
    """What a script prints; it runs once, in a folder of its own, and no warning may pass.

    It runs in this process, which has imported the library already. ``run.named`` has the variables of a script.
    """
    pytest.importorskip("matplotlib", reason="scripts draw what they found, and matplotlib is not installed")
    printed, named = {}, {}

    def run(name):
        if name not in printed:
            folder = tmp_path_factory.mktemp("example")
            output, script = io.StringIO(), str(path_of(name))
            with pytest.MonkeyPatch.context() as patch, chdir(folder), redirect_stdout(output):
                patch.setattr(sys, "argv", [script])
                named[name] = runpy.run_path(script, run_name="__main__")
            printed[name] = output.getvalue(), folder
        return printed[name][0]

    run.named = named
    run.folder = lambda name: (run(name), printed[name][1])[1]
    return run


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_runs(script, output_of):
    if script.name in ("network_in_torch.py", "bilstm_crf.py", "biaffine.py"):
        pytest.importorskip("torch", reason="PyTorch is optional")
    if script.name == "align_running_text.py":
        pytest.importorskip("icu4py", reason="text is split by icu4py, which is not installed")
    assert output_of(script.name)
    named = output_of.named[script.name]
    assert named["figure"].axes, "the gallery shows the figure of every script"
    assert len(named["alt"]) > 30, "and a text for those who do not see it"


def test_a_script_runs_in_a_process_of_its_own(tmp_path, output_of):
    command = [sys.executable, "-W", "error", str(path_of("own_constraint.py"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, output_of("own_constraint.py"), "")


def test_networks_learn_from_known_shares(output_of):
    found = re.findall(r"(labels alone|and what is known) +(0\.\d+) ", output_of("network_in_batches.py"))
    accuracy = {name: float(value) for name, value in found}
    assert accuracy["and what is known"] > accuracy["labels alone"] + 0.04


def test_messages_have_what_is_known_of_them(output_of):
    pytest.importorskip("torch", reason="PyTorch is optional")
    found = re.findall(r"(labels alone|and knowledge)  (0\.\d+)  ([\d., ]+)$", output_of("bilstm_crf.py"), re.MULTILINE)
    (alone, _), (guided, counts) = ((float(f1), [float(n) for n in row.split(",")]) for _, f1, row in found)
    assert guided > alone + 0.05
    assert counts == pytest.approx([1.0, 1.0, 0.4], abs=0.15)


def test_parts_of_trees_train_a_biaffine_parser(output_of):
    pytest.importorskip("torch", reason="PyTorch is optional")
    whole, parts = map(float, re.findall(r"attachment (0\.\d+)", output_of("biaffine.py")))
    assert whole + 0.2 < parts > 0.9


def test_constraints_and_gamma_help(output_of):
    lines = output_of("gamma_and_constraints.py").splitlines()
    errors = {line[:12].strip(): [float(value) for value in line[13:].split()] for line in lines[3:7]}
    plain, sharp = 1, 2  # columns of gamma 1 and 0.5
    assert errors["agreement"][sharp] < errors["agreement"][plain] < errors["none (EM)"][plain]
    assert errors["fertility"][plain] < errors["none (EM)"][plain]


def test_what_is_known_of_words_helps_an_aligner(output_of):
    found = re.findall(r"^(\S.*?) +alignment error rate (0\.\d+)$", output_of("what_one_knows.py"), re.MULTILINE)
    nothing, counts, constraint, anchors = (float(error) for _, error in found)
    assert counts < constraint < nothing - 0.03
    assert anchors < nothing - 0.02


def test_the_constraint_holds(output_of):
    """Every sentence has its verb, at every gamma; the model alone and the soft constraint have less."""
    sums = {}
    for line in output_of("own_constraint.py").splitlines():
        if "p(verb)" in line:
            sums[line.split("p(verb)")[0].strip()] = [float(value) for value in re.findall(r"sum (\d\.\d+)", line)]
    for gamma in ("1", "0.5", "0"):
        assert sums[f"with a verb, gamma {gamma}"] == pytest.approx([1.0, 1.0], abs=0.01)
    assert max(sums["model"]) < min(sums["soft, gamma 1"])
    assert max(sums["soft, gamma 1"]) < 1.0


def test_the_dictionary_is_enough(output_of):
    accuracies = [float(share) for share in re.findall(r"accuracy.*: (0\.\d+)", output_of("tagger_from_dictionary.py"))]
    assert accuracies[0] > 0.95
    assert accuracies[0] > accuracies[1] > 0.9


def test_a_dictionary_helps_a_conditional_random_field(output_of):
    alone, guided = map(float, re.findall(r"[es]: (0\.\d+)", output_of("tagger_from_few_labels.py")))
    assert alone + 0.2 < guided > 0.85


def test_proportions_and_partial_labels_help_where_labels_are_few(output_of):
    alone, proportions, sharp, partial = map(
        float, re.findall(r"  (0\.\d+)$", output_of("few_labels.py"), re.MULTILINE)
    )
    assert alone + 0.1 < proportions < sharp - 0.1
    assert sharp + 0.02 < partial


def test_a_parser_knows_what_it_is_unsure_of(output_of):
    row = r"(projective|arcs may cross|head = next word) +(0\.\d+)(?:.*mean doubt (0\.\d+))?"
    found = {name: (float(uas), doubt) for name, uas, doubt in re.findall(row, output_of("trees_as_pictures.py"))}
    assert found["projective"][0] > found["arcs may cross"][0] > found["head = next word"][0] + 0.3
    assert float(found["projective"][1]) < float(found["arcs may cross"][1])
    picture = output_of.folder("trees_as_pictures.py") / "out" / "trees.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_constraint_on_brackets_adds_to_them(output_of):
    rows = re.findall(r"^ *(\S.*?) +([01]\.\d{3})  (\d\.\d\d)$", output_of("brackets_under_a_constraint.py"), re.M)
    f1 = {name: float(value) for name, value, _ in rows}
    crossing = {name: float(value) for name, _, value in rows}
    assert f1["right-branching"] < f1["EM"] < f1["under the constraint"] - 0.03 < f1["best binary trees"] == 1.0
    assert crossing["under the constraint"] < crossing["EM"]


def test_a_verb_in_every_sentence_mends_most(output_of):
    rows = re.findall(r"(EM|with a verb) +(0\.\d+) +(\d+) of 300", output_of("every_sentence_has_a_verb.py"))
    accuracy, without = ({name: float(row[k]) for name, *row in rows} for k in (0, 1))
    assert accuracy["with a verb"] > accuracy["EM"] + 0.03
    assert without["with a verb"] < 15 < 100 < without["EM"]


def test_annealing_forgets_the_start(output_of):
    """And ends above EM with one dictionary, below it with the other, as the script says."""
    found = {}
    row = r"(\d+) words, start \d, +(\w+): (-\d\.\d+) nats per word, accuracy (0\.\d+)"
    for size, name, likelihood, accuracy in re.findall(row, output_of("annealing.py")):
        found.setdefault((size, name), []).append((float(likelihood), float(accuracy)))
    assert len(found) == 4
    for size in ("60", "45"):
        assert found[size, "annealed"][0] == pytest.approx(found[size, "annealed"][1], abs=0.002)
    assert min(found["60", "annealed"]) > max(found["60", "EM"])
    assert max(accuracy for _, accuracy in found["45", "annealed"]) < min(accuracy for _, accuracy in found["45", "EM"])
    picture = output_of.folder("annealing.py") / "out" / "annealing.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_proportions_mend_the_border(output_of):
    row = r"(labelled rows alone|hard self-training|a tenth, gamma 0.5) +(0\.\d+) +(0\.\d+)"
    found = {name: float(accuracy) for name, accuracy, _ in re.findall(row, output_of("label_proportions.py"))}
    assert found["a tenth, gamma 0.5"] > max(found["labelled rows alone"], found["hard self-training"]) + 0.02


def test_a_document_has_each_role_once(output_of):
    alone, together = re.search(
        r"repeated roles: (\d+) in .*, (\d+) decided", output_of("once_per_document.py")
    ).groups()
    assert int(alone) > int(together) == 0


def test_balanced_clusters_are_balanced(output_of):
    out = output_of("balanced_clusters.py")
    sizes = {
        name: [int(size) for size in row.split(", ")]
        for name, row in re.findall(r"(no constraint|most probable|feasible|k-means)  \[(.*?)\]", out)
    }
    assert all(sum(own) == 400 for own in sizes.values())
    for name in ("feasible", "k-means"):
        assert 90 <= min(sizes[name]) <= max(sizes[name]) <= 110
    assert max(sizes["most probable"]) > 110
    assert max(sizes["no constraint"]) > 150


def test_annealing_leaves_bad_starts_behind(output_of):
    row = r"(EM|annealed, variances learned|fixed, then EM) +(-\d\.\d+) +(-\d\.\d+) +(\d+) of 24"
    reached = {name: int(count) for name, _, _, count in re.findall(row, output_of("annealing_mixture.py"))}
    assert reached["fixed, then EM"] > reached["EM"] + 8
    assert reached["annealed, variances learned"] < reached["EM"]


def test_knowledge_says_which_states_are_meant(output_of):
    alone, learned, decided = map(float, re.findall(r"accuracy (0\.\d+)", output_of("states_of_an_office.py")))
    assert alone + 0.15 < learned < decided > 0.9


def test_views_that_agree_carry_labels_on(output_of):
    found = [float(value) for value in re.findall(r"(?:accuracy|reviews:) ([\d.]+)", output_of("views_that_agree.py"))]
    alone, joined, agreed, sharper, few, together = found
    assert alone < 0.65
    assert joined < 0.65
    assert min(agreed, sharper) > 0.9
    assert few < together == 1


def test_rules_lead_to_the_grammar(output_of):
    lines = output_of("grammar_from_rules.py").splitlines()[:5]
    found = [float(line.split()[-1]) for line in lines]
    assert found == sorted(found)
    assert found[-1] > 0.9


def test_scores_find_the_pairs_that_were_cut(output_of):
    pytest.importorskip("icu4py", reason="text is split by icu4py, which is not installed")
    lowest = re.search(r"lowest scores:  (.*)", output_of("align_running_text.py"))[1]
    assert set(re.findall(r"\((\d+),", lowest)[:3]) == {"10", "20", "30"}
