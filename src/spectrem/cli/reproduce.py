"""``spectrem reproduce``: the experiments of the papers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spectrem._outputs import outputs_together
from spectrem.cli.files import check_folder, check_standard_output, finish
from spectrem.cli.homes import Threads
from spectrem.cli.options import Seed
from spectrem.exceptions import InvalidInputError

if TYPE_CHECKING:
    from spectrem.reproduce.report import Report

app = typer.Typer(
    help="Repeat an experiment of a paper: print its numbers beside ours and draw its figure.",
    no_args_is_help=True,
)

Data = Annotated[
    Path | None,
    typer.Option(
        envvar="SPECTREM_DATA",
        help="Folder of the Hansards files, or one that holds them as align/hansards-enfr  [default: ../shared/data]",
        show_default=False,
    ),
]
TaggedData = Annotated[
    Path | None,
    typer.Option(
        envvar="SPECTREM_DATA",
        help="Folder of the tagged corpora, which holds tag and ud  [default: ../shared/data]",
        show_default=False,
    ),
]
Seeds = Annotated[
    int | None, typer.Option(min=1, help="Random starts of every method  [default: 10]", show_default=False)
]
Draws = Annotated[
    int | None, typer.Option(min=1, help="Of labelled sentences, for each size  [default: 5]", show_default=False)
]
Languages = Annotated[
    str | None, typer.Option(help="With commas between  [default: English,Portuguese]", show_default=False)
]
Sizes = Annotated[str | None, typer.Option(help="Training pairs, separated by commas.", show_default=False)]
Size = Annotated[int | None, typer.Option(min=1, help="Training pairs  [default: 100000]", show_default=False)]


def _check(output: Path) -> Path:
    check_standard_output()
    check_folder("--output", output)
    return output


Output = Annotated[
    Path, typer.Option(callback=_check, help="Folder for the figure (PNG), the numbers (TSV) and the text.")
]
Quick = Annotated[bool, typer.Option("--quick", help="A small run (1,000 pairs) to see that everything works.")]
QuickTagged = Annotated[bool, typer.Option("--quick", help="A small run (2,000 words) to see that everything works.")]
Starts = Annotated[int | None, typer.Option(min=1, help="Random starts  [default: 200]", show_default=False)]
LinkDraws = Annotated[
    int | None, typer.Option(min=1, help="Of links and starts, for each data set  [default: 3]", show_default=False)
]
QuickLinks = Annotated[bool, typer.Option("--quick", help="A small run (wine alone) to see that everything works.")]
QuickStarts = Annotated[bool, typer.Option("--quick", help="A small run (20 starts) to see that everything works.")]

_QUICK_SIZE = 1_000
_QUICK_TOKENS = 2_000
_QUICK_STARTS = 20
_OUTPUT = Path("reproduced")


@app.command("uem-table2")
def uem_table2(
    data: Data = None,
    sizes: Sizes = None,
    output: Output = _OUTPUT,
    quick: Quick = False,
    threads: Threads = None,
) -> None:
    """Unified EM (Samdani et al. 2012), table 2: AER of EM, PR, CoDL and UEM [default sizes: 10000,50000,100000]."""
    from spectrem.reproduce.corpus import find_hansards
    from spectrem.reproduce.uem_table2 import GAMMAS, SIZES, uem_table2

    report = uem_table2(
        find_hansards(data),
        _chosen_sizes(sizes, quick, SIZES),
        gammas=(0.5,) if quick else GAMMAS,
        n_threads=threads,
        log=_log,
    )
    _finish(report, output)


@app.command("em-constraints-fig1")
def em_constraints_fig1(
    starts: Starts = None,
    seed: Seed = 0,
    output: Output = _OUTPUT,
    quick: QuickStarts = False,
) -> None:
    """EM under posterior constraints (Graca et al. 2007), figure 1: nine points that constraints group otherwise."""
    from spectrem.reproduce.em_constraints_fig1 import COVARIANCES, STARTS, em_constraints_fig1

    covariances = COVARIANCES[:1] if quick else COVARIANCES
    chosen = starts or (_QUICK_STARTS if quick else STARTS)
    _finish(em_constraints_fig1(chosen, covariances=covariances, seed=seed, log=_log), output)


@app.command("em-constraints-fig3")
def em_constraints_fig3(
    data: Data = None,
    sizes: Sizes = None,
    output: Output = _OUTPUT,
    quick: Quick = False,
    threads: Threads = None,
) -> None:
    """EM under posterior constraints (Graca et al. 2007), figure 3: learning curves of Model 2 and the HMM."""
    from spectrem.reproduce.corpus import find_hansards
    from spectrem.reproduce.em_constraints_fig3 import SIZES, em_constraints_fig3

    report = em_constraints_fig3(find_hansards(data), _chosen_sizes(sizes, quick, SIZES), n_threads=threads, log=_log)
    _finish(report, output)


@app.command("em-constraints-fig4")
def em_constraints_fig4(
    data: Data = None,
    size: Size = None,
    output: Output = _OUTPUT,
    quick: Quick = False,
    threads: Threads = None,
) -> None:
    """EM under posterior constraints (Graca et al. 2007), figure 4: likelihood and AER of the HMM by iteration."""
    from spectrem.reproduce.corpus import find_hansards
    from spectrem.reproduce.em_constraints_fig4 import ITERATIONS, SIZE, em_constraints_fig4

    report = em_constraints_fig4(
        find_hansards(data),
        size or (_QUICK_SIZE if quick else SIZE),
        iterations=(1, 3) if quick else ITERATIONS,
        n_threads=threads,
        log=_log,
    )
    _finish(report, output)


@app.command("pr-fig6")
def pr_fig6(
    data: Data = None,
    size: Size = None,
    output: Output = _OUTPUT,
    quick: Quick = False,
    threads: Threads = None,
) -> None:
    """Posterior regularization (Ganchev et al. 2010), figure 6: precision against recall, by training and decoding."""
    from spectrem.reproduce.corpus import find_hansards
    from spectrem.reproduce.pr_fig6 import SIZE, pr_fig6

    report = pr_fig6(find_hansards(data), size or (_QUICK_SIZE if quick else SIZE), n_threads=threads, log=_log)
    _finish(report, output)


@app.command("da-table1")
def da_table1(
    data: TaggedData = None,
    output: Output = _OUTPUT,
    quick: QuickTagged = False,
    threads: Threads = None,
) -> None:
    """Annealing (Smith and Eisner 2004), table 1: trigram tagging with a dictionary, by EM and by annealing."""
    from spectrem.learning import Anneal
    from spectrem.reproduce.da_table1 import da_table1
    from spectrem.reproduce.tagged_corpus import find_tagged

    small: dict[str, Any] = {
        "n_tokens": _QUICK_TOKENS,
        "n_test": 40,
        "labelled": (20,),
        "schedule": Anneal(0.1, 1.0, 2.0),
        "max_iter": 20,
    }
    _finish(da_table1(find_tagged(data), n_threads=threads, log=_log, **(small if quick else {})), output)


@app.command("pr-fig12")
def pr_fig12(
    data: TaggedData = None,
    seeds: Seeds = None,
    languages: Languages = None,
    output: Output = _OUTPUT,
    quick: QuickTagged = False,
    threads: Threads = None,
) -> None:
    """Posterior regularization (Ganchev et al. 2010), figure 12: tag induction by EM, VEM and under sparsity."""
    from spectrem.reproduce.pr_fig12 import LANGUAGES, SEEDS, pr_fig12
    from spectrem.reproduce.tagged_corpus import BOSQUE, PENN, find_tagged

    small: dict[str, Any] = {"n_tokens": _QUICK_TOKENS, "iterations": 20, "strengths": (32.0,)}
    report = pr_fig12(
        find_tagged(data, needs=(PENN, *BOSQUE)),
        languages=_chosen_names(languages, tuple(LANGUAGES)),
        seeds=range(seeds or (2 if quick else len(SEEDS))),
        n_threads=threads,
        log=_log,
        **(small if quick else {}),
    )
    _finish(report, output)


@app.command("uem-fig1")
def uem_fig1(
    data: TaggedData = None,
    draws: Draws = None,
    output: Output = _OUTPUT,
    quick: QuickTagged = False,
    threads: Threads = None,
) -> None:
    """Unified EM (Samdani et al. 2012), figure 1: the best gamma of a tagger by the quality of its start."""
    from spectrem.reproduce.tagged_corpus import find_tagged
    from spectrem.reproduce.uem_fig1 import DRAWS, uem_fig1

    small: dict[str, Any] = {"n_tokens": _QUICK_TOKENS, "gammas": (0.0, 0.5, 1.0), "sizes": (5, 20)}
    report = uem_fig1(
        find_tagged(data),
        draws=draws or (2 if quick else DRAWS),
        n_threads=threads,
        log=_log,
        **(small if quick else {}),
    )
    _finish(report, output)


@app.command("pos-dictionary")
def pos_dictionary(
    data: TaggedData = None,
    output: Output = _OUTPUT,
    quick: QuickTagged = False,
    threads: Threads = None,
) -> None:
    """Tagging with a dictionary and no labels: EM, annealing, minimal grammars, and how to choose without gold tags."""
    from spectrem.reproduce.pos_dictionary import pos_dictionary
    from spectrem.reproduce.tagged_corpus import find_tagged

    small: dict[str, Any] = {"n_tokens": _QUICK_TOKENS, "max_rounds": 2}
    _finish(pos_dictionary(find_tagged(data), n_threads=threads, log=_log, **(small if quick else {})), output)


@app.command("cluster-links")
def cluster_links(
    draws: LinkDraws = None,
    seed: Seed = 0,
    output: Output = _OUTPUT,
    quick: QuickLinks = False,
) -> None:
    """Mixtures under links, on data that scikit-learn ships: agreement with classes by number of links and gamma."""
    from spectrem.reproduce.cluster_links import DRAWS, cluster_links

    small: dict[str, Any] = {"names": ("wine",), "counts": (50, 400), "gammas": (1.0, 0.5, 0.0)}
    chosen = draws or (2 if quick else DRAWS)
    _finish(cluster_links(draws=chosen, seed=seed, log=_log, **(small if quick else {})), output)


def _chosen_names(names: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    chosen = known if names is None else tuple(dict.fromkeys(name.strip() for name in names.split(",")))
    if not set(chosen) <= set(known):
        raise InvalidInputError(f"--languages must be among {', '.join(known)}, with commas between, got {names!r}")
    return chosen


def _chosen_sizes(sizes: str | None, quick: bool, default: tuple[int, ...]) -> tuple[int, ...]:
    if sizes is None:
        return (_QUICK_SIZE,) if quick else default
    try:
        chosen = tuple(int(size) for size in sizes.split(","))
    except ValueError:
        chosen = ()
    if not chosen or min(chosen) < 1:
        raise InvalidInputError(
            f"--sizes must be whole numbers above 0 with commas between, as 10000,50000, got {sizes!r}"
        )
    return tuple(sorted(set(chosen)))


def _log(line: str) -> None:
    typer.echo(line, err=True)


def _finish(report: Report, output: Path) -> None:
    typer.echo(str(report))
    with outputs_together():
        typer.echo(f"\nWritten: {', '.join(map(str, report.write(output)))}")
        finish()
