"""Names of options: those of earlier versions, which still work, and those that people know from other programs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from spectrem.estimators.declare import UNTIL
from spectrem.exceptions import InvalidInputError

_SAVE, _PRIOR, _INPUT = {"--model": "--save"}, {"--variance": "--C"}, {"--format": "--input-format"}
_DECODE = {"--decode best": "--decode viterbi"}
FORMER: Mapping[str, Mapping[str, str]] = {
    "align": {"--format": "--output-format"},
    "cluster": {"--probabilities": "--add-probabilities"},
    "demo": {"--pairs": "--n-pairs"},
    "extract predict": _DECODE,
    "extract train": _SAVE | _PRIOR | _DECODE,
    "lexicon": {"--format": "--output-format"},
    "parse predict": {"--posteriors": "--probabilities"},
    "parse train": _SAVE | _PRIOR,
    "parse transfer": _SAVE | _PRIOR,
    "tag predict": {"--posteriors": "--probabilities"} | _INPUT,
    "tag train": _SAVE | _PRIOR | _INPUT,
}
"""Former names of options of commands, and of their values, and the names now."""


class _Peer(NamedTuple):
    """The option that one of another program corresponds to: the first of ``names`` that the command has."""

    names: tuple[str, ...] = ()
    remark: str = ""


_THREADS = _Peer(("--n-threads",))
_ITERATIONS = _Peer(("--max-iter", "--passes"))
_SEED = _Peer(("--random-state",))
_NUMBER = _Peer(("--n-components", "--n-states"))
_MODEL = _Peer(("--save", "--load"))
_STOP = _Peer(("--tol",), "the gain below which training stops")
_GAUSSIAN = _Peer(("--C",), "the variance of the Gaussian prior")
_INPUTS = _Peer((), "files that are read are arguments, which need no name; see --help")
PEERS: Mapping[str, _Peer] = {
    "--C": _Peer((), "it is the variance of the prior of weights of features, which this command does not learn"),
    **dict.fromkeys(("--seed", "--random-seed", "--rng", "--random"), _SEED),
    **dict.fromkeys(("--jobs", "--n-jobs", "-j", "--threads", "--num-threads", "--workers", "--nthreads"), _THREADS),
    **dict.fromkeys(("--iterations", "--iter", "--iters", "--n-iter", "--niter", "--num-iterations"), _ITERATIONS),
    **dict.fromkeys(("--max-iterations", "--max-iters", "--maxiter"), _ITERATIONS),
    **dict.fromkeys(("--epochs", "--n-epochs", "--max-epochs"), _Peer(("--passes", "--max-iter"))),
    **dict.fromkeys(("--n-states", "--states", "--num-states", "--n-tags", "--n-components", "--k"), _NUMBER),
    **dict.fromkeys(("--n-clusters", "--clusters", "--num-clusters", "--n-topics", "--num-topics"), _NUMBER),
    **dict.fromkeys(("--model-file", "--model-path", "--model", "-m"), _MODEL),
    **dict.fromkeys(("--save-model", "--output-model"), _Peer(("--save",))),
    **dict.fromkeys(("--load-model", "--input-model", "--pretrained"), _Peer(("--load", "--start"))),
    **dict.fromkeys(("--out", "--output-file", "--outfile"), _Peer(("--output",))),
    **dict.fromkeys(("--input", "--input-file", "--infile", "-i", "--train", "--test", "--corpus"), _INPUTS),
    "--format": _Peer(("--output-format", "--input-format")),
    **dict.fromkeys(("--verbose", "-v"), _Peer((), "a summary is printed unless --quiet is given; drop it")),
    **dict.fromkeys(("--c2", "--l2"), _Peer(("--C",), "the variance of the prior, C = 1 / (2 c2) for CRFsuite's c2")),
    **dict.fromkeys(("--regularization", "--reg", "--prior"), _GAUSSIAN),
    **dict.fromkeys(("--gaussian-variance", "--variance"), _GAUSSIAN),
    **dict.fromkeys(("--c1", "--l1"), _Peer(("--l1-ratio",), "the share of the penalty 1 / C that is on sizes")),
    **dict.fromkeys(("--epsilon", "--convergence", "--delta", "--tolerance"), _STOP),
    **dict.fromkeys(("--learning-rate", "--lr", "--eta"), _Peer(("--rate",))),
    **dict.fromkeys(("--minfreq", "--min-freq", "--min-df", "--feature.minfreq"), _Peer(("--min-count",))),
    **dict.fromkeys(("--algorithm", "--optimizer"), _Peer(("--learner",))),
    **dict.fromkeys(("--nbest", "--topk", "--top-k", "--k-best", "--kbest"), _Peer(("--n-best",))),
    **dict.fromkeys(("--probs", "--proba", "--posteriors", "--marginals"), _Peer(("--probabilities",))),
    **dict.fromkeys(("--heuristic", "--symmetrization", "--sym", "--symal"), _Peer(("--decode", "--method"))),
    "--reverse": _Peer(("--decode",), "--decode backward gives the other direction"),
    **dict.fromkeys(("--null-prob", "--p0"), _Peer(("--null-probability",))),
    **dict.fromkeys(("--dict", "--lexicon"), _Peer(("--dictionary",))),
    **dict.fromkeys(("--labeled", "--gold"), _Peer(("--labelled", "--dev", "--known"))),
    **dict.fromkeys(("--labels", "--labelled"), _Peer(("--known",), "the column of what is known")),
    "--horizon": _Peer(("--steps",)),
    "--infeasible": _Peer((), "it is not a choice here what happens where constraints cannot hold; drop it"),
    "--unlabeled": _Peer(("--unlabelled",)),
    "--normalise": _Peer(("--normalize",)),
    "--standardise": _Peer(("--standardize",)),
    "--delimiter": _Peer((), "columns end at commas in .csv and at tabs in .tsv, which the name of the file says"),
}
"""Names of options in CRFsuite, hmmlearn, fast_align, eflomal, MALLET and scikit-learn."""

VALUES: Mapping[str, Mapping[str, str]] = {
    "--output-format": {
        **dict.fromkeys(("conll", "conll2000", "crfsuite", "bio", "iob"), "columns"),
        **dict.fromkeys(("conll-u", "ud"), "conllu"),
    },
    "--input-format": {
        **dict.fromkeys(("plain", "txt", "raw"), "text"),
        **dict.fromkeys(("conll", "conll2000", "crfsuite", "bio", "iob", "tsv"), "columns"),
        **dict.fromkeys(("conll-u", "ud"), "conllu"),
    },
    "--decode": {
        "map": "viterbi",
        **dict.fromkeys(("mbr", "mpm", "max", "marginal"), "posterior"),
        "gdfa": "grow-diag-final-and",
        "intersect": "intersection",
    },
    "--method": {
        "gdfa": "grow-diag-final-and",
        "gdf": "grow-diag-final",
        "gd": "grow-diag",
        "intersect": "intersection",
    },
    "--covariance-type": {"diagonal": "diag", "isotropic": "spherical"},
}
"""Names of values of options in these programs."""


def translated(words: Sequence[str], program: Any, say: Callable[[str], None]) -> list[str]:
    """The words of a command line with the names that options have now; a line says so of each former one.

    Parameters
    ----------
    words : sequence of str
    program : command
        As Typer makes it, with those below it.
    say : callable (line) -> None

    Raises
    ------
    InvalidInputError
        For a name or value that the command does not have, but which means something in programs that people know.
    """
    command, group, depth = program, program, 0
    while depth < len(words) and words[depth] in getattr(command, "commands", {}):
        group, command, depth = command, command.commands[words[depth]], depth + 1
    path, found = " ".join(words[:depth]), []
    here = _options(command)
    in_training = _options(group.commands.get("train", group.commands.get("fit"))) if path.endswith(" predict") else {}
    former, rest = FORMER.get(path, {}), list(words[depth:])
    end = rest.index("--") if "--" in rest else len(rest)
    for at in range(end):
        name, equals, value = rest[at].partition("=")
        if name in former:
            _tell(say, f"{name} is called {former[name]} now; the old name")
            name = former[name]
        elif name not in here and name[:1] == "-":
            _refuse(f"spectrem {path}", name, here, in_training)
        value = value if equals else "".join(rest[at + 1 : at + 2])
        if (now := former.get(f"{name} {value}")) is not None:
            _tell(say, f"{name} {value} is called {now} now; the old name")
            name, _, rest[at + (not equals)] = now.partition(" ")
            value = rest[at + (not equals)]
        known = VALUES.get(name, {}).get(value)
        if name in here and known is not None:
            raise InvalidInputError(f"{name} {value} is called {known} here; give {name} {known}")
        found.append(f"{name}={value}" if equals else name)
    return [*words[:depth], *_with_load(_with_commas(found + rest[end:], here, say), command, here, say)]


def _options(command: Any) -> dict[str, Any]:
    """The options of a command by their names."""
    options = [one for one in getattr(command, "params", ()) if one.param_type_name == "option"]
    return {name: option for option in options for name in (*option.opts, *option.secondary_opts)}


def _tell(say: Callable[[str], None], former: str) -> None:
    say(f"note: {former} works until version {UNTIL}")


def _refuse(command: str, name: str, here: Collection[str], in_training: Collection[str]) -> None:
    """Raise for an option that the command lacks, if there is more to say about it than that."""
    hyphened, peer = name.replace("_", "-"), PEERS.get(name, _Peer())
    called = next((one for one in (hyphened, *peer.names) if one in here), None)
    if called is not None:
        raise InvalidInputError(
            f"{command} has no {name}; it is called {called} here" + f": {peer.remark}" * bool(peer.remark)
        )
    if name in in_training:
        raise InvalidInputError(f"{command} has no {name}; it belongs to training, and the model keeps it; drop it")
    if peer.remark and not peer.names:
        raise InvalidInputError(f"{command} has no {name}: {peer.remark}")


def _with_commas(words: list[str], here: Collection[str], say: Callable[[str], None]) -> list[str]:
    """The words with ``--columns 0,1`` for the former ``--columns 0 1``."""
    at = words.index("--columns") if "--columns" in words and "--columns" in here else len(words)
    two = words[at + 1 : at + 3]
    if len(two) < 2 or not all(one.removeprefix("-").isdigit() for one in two):
        return words
    _tell(say, f"--columns {' '.join(two)} is written --columns {','.join(two)} now; the old way")
    return [*words[: at + 1], ",".join(two), *words[at + 3 :]]


def _with_load(words: list[str], command: Any, here: Mapping[str, Any], say: Callable[[str], None]) -> list[str]:
    """The words with ``--load MODEL`` for a model that was formerly the first argument."""
    if "--load" not in here or not here["--load"].required:
        return words
    arguments, at = [], 0
    while at < len(words):
        name, equals, _ = words[at].partition("=")
        if name == "--load":
            return words
        option = here.get(name)
        if option is None and (name[:1] != "-" or name == "-"):
            arguments.append(at)
        at += 1 if equals or option is None or option.is_flag else 1 + option.nargs
    if len(arguments) != 1 + sum(one.param_type_name == "argument" for one in command.params):
        return words
    model = words[arguments[0]]
    _tell(say, f"the model is given by --load {model} now; to name it first")
    return ["--load", model, *(word for at, word in enumerate(words) if at != arguments[0])]
