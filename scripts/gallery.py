"""The page "Gallery of figures": every figure that a notebook saves, with the cell that made it and files to take away.

Needs only the standard library.
"""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from pathlib import Path

ENDINGS = ("svg", "pdf", "png", "csv")
WIDE = 400  # pixels; a figure that is wider takes the whole width of the page
LONGEST = 240  # letters of a description that the figure itself has to offer


@dataclass(frozen=True)
class Use:
    """Where the book shows a figure."""

    name: str  # "Figure 3.1"
    title: str  # of the chapter
    href: str  # from the gallery
    caption: str


def endings(figures: Path, name: str) -> list[str]:
    """In which forms a figure is there."""
    return [ending for ending in ENDINGS if (figures / f"{name}.{ending}").is_file()]


def shortened(text: str) -> str:
    """The beginning of a long description, up to the end of a word."""
    return text if len(text) <= LONGEST else text[: text.rfind(" ", 0, LONGEST)].rstrip(",;:. ") + " …"


def as_written(text: str) -> str:
    """Markdown that shows a plain text, whatever signs are in it."""
    return re.sub(r"([\\`*_{}\[\]|#~])", r"\\\1", html.escape(text, quote=False)).replace("$", "&#36;")


def description(figures: Path, name: str, use: Use | None) -> tuple[str, str]:
    """(sentence for screen readers, caption) of a figure. The caption is that of the chapter that shows it, else the
    figure's own, else the sentence."""
    svg = (figures / f"{name}.svg").read_text(encoding="utf-8")
    label = re.search(r"<svg\b[^>]*\baria-label=\"([^\"]*)\"", svg)
    sentence = html.unescape(label[1]) if label else name
    record = figures / f"{name}.json"
    config = json.loads(record.read_text(encoding="utf-8")).get("config", {}) if record.is_file() else {}
    own = (config.get("figure", {}).get("caption") or "").strip()
    if use:
        return sentence, use.caption
    return sentence, as_written(own if own.endswith((".", "!", "?")) else f"{own}." if own else shortened(sentence))


def entry(figures: Path, name: str, cell: str, page: str, use: Use | None) -> str:
    """One figure: Markdown, since a caption may hold formulas."""
    sentence, caption = description(figures, name, use)
    width = re.search(r"<svg\b[^>]*\bwidth=\"([\d.]+)", (figures / f"{name}.svg").read_text(encoding="utf-8"))
    wide = " wide" if width and float(width[1]) > WIDE else ""
    alt = html.escape(sentence, quote=True).replace("$", "&#36;")
    links = [f'cell <a href="{page}#cell-{cell}"><code>{cell}</code></a>']
    if use:
        links.append(f'<a href="{use.href}">{use.name}, {html.escape(use.title)}</a>')
    links += [f'<a href="figures/{name}.{ending}" download>{ending}</a>' for ending in endings(figures, name)]
    return (
        f'<figure class="gallery-entry{wide}" id="gallery-{name}">\n'
        f'<a class="card" href="figures/{name}.svg"><img src="figures/{name}.svg" alt="{alt}"></a>\n'
        f"<figcaption>\n\n{caption}\n\n"
        f'<p class="figure-source">{" · ".join(links)}</p>\n\n</figcaption>\n</figure>\n'
    )


def gallery(figures: Path, made: dict, titles: dict[str, str], uses: dict[str, Use]) -> str:
    """All figures by notebook; `made` says which cell of which notebook saves each."""
    page: list[str] = []
    for notebook, title in titles.items():
        names = [name for name, source in made.items() if source.notebook == notebook]
        if names:
            entries = "\n".join(
                entry(figures, name, made[name].cell, f"notebooks/{notebook}.html", uses.get(name)) for name in names
            )
            origin = f"From the notebook [{notebook}](notebooks/{notebook}.md)."
            page.append(f'## {title}\n\n{origin}\n\n<div class="gallery">\n\n{entries}\n</div>\n')
    return "\n".join(page)
