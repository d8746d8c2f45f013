"""Check the built site: internal links lead somewhere, pictures have a text, pages and figures are of bounded size.

``python docs/check_site.py docs/_build/html`` ends with 1 and a line for every fault.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LARGEST = {".html": 1_000_000, ".svg": 150_000}  # bytes


class Page(HTMLParser):
    """The links, anchors and pictures without a text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.without_text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        self.anchors |= {value for name in ("id", "name") if (value := values.get(name))}
        if tag == "a" and values.get("href"):
            self.links.append(str(values["href"]))
        if tag == "img":
            if not (values.get("alt") or "").strip():
                self.without_text.append(str(values.get("src")))
            self.links.append(str(values.get("src")))


def faults(folder: Path) -> list[str]:
    """One line for each fault of the pages below a folder."""
    files = {path.relative_to(folder): path for path in sorted(folder.rglob("*.html"))}
    pages = {name: Page(path.read_text(encoding="utf-8")) for name, path in files.items()}
    wrong = []
    for path in sorted(folder.rglob("*")):
        size, largest = path.stat().st_size, LARGEST.get(path.suffix)
        if largest and size > largest:
            wrong.append(f"{path.relative_to(folder)}: {size:,} bytes, more than {largest:,}")
    for name, page in pages.items():
        wrong += [f"{name}: the picture {source} has no text (alt)" for source in page.without_text]
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if parts.scheme not in ("http", "https", "mailto", "data") or (
                    parts.scheme[:4] == "http" and not parts.netloc
                ):
                    wrong.append(f"{name}: {link} is not a link")
                continue
            target = (folder / name).parent / unquote(parts.path) if parts.path else folder / name
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                wrong.append(f"{name}: {link} leads nowhere")
            elif parts.fragment and target.suffix == ".html":
                there = pages[target.resolve().relative_to(folder.resolve())]
                if unquote(parts.fragment) not in there.anchors:
                    wrong.append(f"{name}: {link}: there is no such place on that page")
    return wrong


if __name__ == "__main__":
    wrong = faults(Path(sys.argv[1]))
    print("\n".join(wrong) or "all internal links lead somewhere, all pictures have a text")
    sys.exit(bool(wrong))
