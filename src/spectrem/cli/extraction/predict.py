"""`spectrem extract predict`."""

from __future__ import annotations

from typing import Annotated

import typer

from spectrem.cli.ending import say
from spectrem.cli.estimator_options import Settings, takes
from spectrem.cli.files import command_files
from spectrem.cli.options import Output, Quiet
from spectrem.estimators.extraction.parameters import ExtractionParameters


@takes(ExtractionParameters, only=["decode", "relation_bonus", "infeasible", "n_threads"])
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model written by spectrem extract train.")],
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="Sentences with mentions, in the format of CoNLL04; their labels are ignored (a mention whose type is "
            "not known has the type _); - is standard input.",
        ),
    ],
    settings: Settings,
    output: Output = "-",
    quiet: Quiet = False,
) -> None:
    """Find types of mentions and relations between them with a trained model.

    Example: **spectrem extract predict model.npz text.corp -o found.corp**

    Types and relations meet the constraints inside sentences that the model was
    trained under.
    """
    with command_files({"MODEL": model, "TEXT": text}, {"--output": output}):
        from spectrem.data import read_relations, write_relations
        from spectrem.estimators import RelationExtractor

        extractor = RelationExtractor.load(model).set_params(**settings)
        found = extractor.predict(read_relations(text))
        write_relations(output, found)
    if not quiet:
        n_relations = sum(len(sentence.relations or ()) for sentence in found)
        n_mentions = sum(len(sentence.mentions) for sentence in found)
        say(f"{len(found)} sentences: {n_mentions} mentions, {n_relations} relations")
