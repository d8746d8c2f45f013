"""The site: what Sphinx needs to know, and four small steps of its own before it begins.

API pages are made from `public_names.py`, figures of the guide are drawn by `figures.py`, sections of experiments are
made of their results by `experiments.py`, and keys of papers in docstrings, such as ``[Samdani2012]``, become links to
the references.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from pybtex.database import parse_file
from pybtex.plugin import register_plugin

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import citations  # noqa: E402
import command_line  # noqa: E402
import experiments  # noqa: E402
import figures  # noqa: E402
import protocols  # noqa: E402
import public_names  # noqa: E402

import spectrem  # noqa: E402

project = "Spectrem"
author = "The Spectrem developers"
copyright = "2026, the Spectrem developers"
release = version = spectrem.__version__
language = "en"
smartquotes = False  # options and code are quoted as they are typed

extensions = [
    *("sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc", "myst_parser"),
    *("sphinx_gallery.gen_gallery", "sphinxcontrib.bibtex", "sphinx_copybutton", "sphinxext.opengraph"),
    "sphinx_design",
]
exclude_patterns = ["_build", "_templates", "_generated/**/*.md", "README.md"]
templates_path = ["_templates"]
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [  # what stands in single backticks and has no page of its own, or is another library's
    ("py:.*", r"(sklearn|skops|numpy|scipy|typer|operator|matplotlib|polars|pandas|dask|distributed)\b.*"),
    ("py:.*", r"spectrem\.(models|kernels|cli)\b.*"),
    ("py:obj", r"partial_fit|update|decide|out/annealing\.png"),  # in the headers of examples
    ("py:.*", r"(.*\.)?[a-z]\w*_"),  # attributes of estimators, which their class explains
]
suppress_warnings = ["config.cache"]  # functions of the settings of the gallery cannot be kept between builds

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist", "attrs_inline"]
myst_heading_anchors = 4

autosummary_generate = True
autodoc_typehints = "none"  # docstrings say them, with shapes and units
autodoc_class_signature = "mixed"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "Spectrem"
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "Spectrem", "alt_text": "Spectrem"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
ogp_site_url = "/"
ogp_social_cards = {"enable": False}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "keys"
bibtex_reference_style = "label"


def _figures_of(block: Any, variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """The figures that a block of an example has named, which pyplot does not know; files in ``out`` are removed."""
    from matplotlib.figure import Figure
    from sphinx_gallery.scrapers import figure_rst

    example, named = Path(variables["src_file"]), variables["example_globals"]
    seen = variables.setdefault("_figures_seen", [])
    paths = []
    for name, value in named.items():
        if isinstance(value, Figure) and not name.startswith("_") and all(value is not other for other in seen):
            seen.append(value)
            paths.append(next(variables["image_path_iterator"]))
            value.savefig(paths[-1], dpi=120)
    for written in sorted((example.parent / "out").glob("*.png")):  # by examples that name the same figure, too
        written.unlink()
        if not any(written.parent.iterdir()):
            written.parent.rmdir()
    return figure_rst(paths, settings["src_dir"], str(named.get("alt", "")))


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": "network_in_torch|bilstm_crf|biaffine",  # PyTorch is optional
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "plot_gallery": True,
    "min_reported_time": 5,
    "write_computation_times": False,
    "image_scrapers": (_figures_of,),
    "capture_repr": (),
    "abort_on_example_error": True,
}


register_plugin("pybtex.style.formatting", "keys", citations.ByKey)
HOMES: dict[str, str] = {}
"""The room whose pages explain a public class or function, by its name."""

_KEYS = frozenset(parse_file(HERE / "references.bib").entries)


def _link_public_name(app: Any, env: Any, node: Any, text: Any) -> Any:
    """Lead from a public name, or a method of one, to the page of the room that explains it, wherever it is named."""
    target = node.get("reftarget", "")
    for room in public_names.ROOMS:
        inside = target.removeprefix(f"{room}.")
        home = HOMES.get(inside.partition(".")[0])
        if node.get("refdomain") == "py" and home and (inside == target or room != home):
            full = f"{home}.{inside}"
            if full != target:
                return env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", full, node, text)
    return None


def _skip_fields(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out fields of named tuples, which their class explains, and methods that are scikit-learn's or Python's."""
    module = str(getattr(obj, "__module__", ""))
    theirs = (
        module.startswith(("sklearn", "collections", "_collections")) or "metadata_rout" in name or "_request" in name
    )
    return True if theirs or type(obj).__name__ in ("_tuplegetter", "method_descriptor") else None


def _describe_thumbnails(app: Any, doctree: Any) -> None:
    """Give the small pictures of the gallery, which come without a text, one that names the example."""
    for image in doctree.findall(nodes.image):
        name = Path(image["uri"]).stem.removeprefix("sphx_glr_").removesuffix("_thumb").replace("_", " ")
        if not image.get("alt") and "thumb" in image["uri"]:
            image["alt"] = f"Example: {name}"


def _cite_lines(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = citations.link_citations(lines, _KEYS)


def write_api(folder: Path) -> None:
    """Write a page for each room of public names, and the page that lists these."""
    folder.mkdir(exist_ok=True)
    pages: dict[str, str] = {}
    first: dict[int, str] = {}  # of every class and function, the room that explains it
    for room, (title, sentence, groups) in public_names.ROOMS.items():
        lines = [title, "=" * len(title), "", f".. module:: {room}", "", sentence, ""]
        values = {name: getattr(public_names.import_room(room), name) for names in groups.values() for name in names}
        homes = {name: first.setdefault(id(value), room) for name, value in values.items() if callable(value)}
        for name in values:
            HOMES.setdefault(name, homes.get(name, room))
        for group, names in groups.items():
            if len(groups) > 1:
                lines += [group, "-" * len(group), ""]
            here = [name for name in names if homes.get(name, room) == room]
            if here:
                lines += [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
                lines += [*(f"   {name}" for name in here), ""]
            if len(here) < len(names):
                links = [f":py:obj:`{name} <{homes[name]}.{name}>`" for name in names if name not in here]
                lines += [f"Explained elsewhere: {', '.join(links)}.", ""]
        pages[room] = "\n".join(lines)
    for room, text in pages.items():
        path = folder / f"{room}.rst"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _cite_in_markdown(text: str) -> str:
    return citations.link_citations([text], _KEYS)[0].replace(":cite:p:", "{cite:p}")


def _prepare(app: Any) -> None:
    figures.draw_all(HERE / "_generated")
    experiments.write(HERE / "_generated" / "experiments", _cite_in_markdown)


def setup(app: Any) -> dict[str, Any]:
    """Connect the steps of this file to those of Sphinx."""
    protocols.complete_docstrings()
    write_api(HERE / "api")
    command_line.write(HERE / "api" / "command_line.md")
    app.connect("builder-inited", _prepare)
    app.connect("doctree-read", _describe_thumbnails)
    app.connect("missing-reference", _link_public_name)
    app.connect("autodoc-skip-member", _skip_fields)
    app.connect("autodoc-process-docstring", _cite_lines, priority=400)  # before numpydoc
    return {"parallel_read_safe": True, "parallel_write_safe": True}
