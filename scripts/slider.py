"""Turns an animated figure of the crate into one that a reader moves by hand.

The SVG of `figure::frames` has groups that say which frame they belong to (`data-frame`), between elements that all
frames share; those with the title of a frame hold its caption. `inline` puts that SVG into a page without its
animation and its titles, and adds a slider, a button and the caption of the frame in view; book/js/slider.js brings them
to life. Where no script runs the last frame stands. A printed page has no controls but a few frames, one below the other.
"""

from __future__ import annotations

import html
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field

SVG = "http://www.w3.org/2000/svg"
ET.register_namespace("", SVG)


class SliderError(Exception):
    """What the author has to mend, as a part of a sentence."""


def split_arguments(args: str) -> tuple[str, str | None]:
    """(the arguments of a figure, the frames to print as written) of `NAME "caption" [print=K,K,...]`."""
    found = re.fullmatch(r"(.*\")\s+print=(\S+)\s*", args, re.S)
    return (found[1], found[2]) if found else (args, None)


@dataclass
class Frames:
    """An animation taken apart."""

    root: ET.Element
    top: int = 0  # what the titles take of the page, in units of the drawing
    seconds: float = 0.0
    captions: list[str] = field(default_factory=list)
    pieces: list[tuple[int | None, list[ET.Element]]] = field(default_factory=list)  # (frame, elements) in drawing order


def read(svg: str) -> Frames:
    """The frames of a picture. Raises SliderError if it is none of `figure::frames`."""
    try:
        root = ET.fromstring(svg)
    except ET.ParseError as error:
        raise SliderError(f"it is not an SVG: {error}") from None
    frames, captions = Frames(root), {}
    for element in root:
        if element.get("data-frame") is None:
            if not frames.pieces or frames.pieces[-1][0] is not None:
                frames.pieces.append((None, []))
            frames.pieces[-1][1].append(element)
            continue
        number = int(element.get("data-frame"))
        if element.get("aria-label") is not None:
            captions[number] = " ".join(element.get("aria-label").split())
            frames.top = int(element.get("data-height"))
            frames.seconds = float(element.find(f"{{{SVG}}}animate").get("dur").removesuffix("s"))
        else:
            frames.pieces.append((number, [part for part in element if part.tag != f"{{{SVG}}}animate"]))
    if sorted(captions) != list(range(1, len(captions) + 1)) or len(captions) < 2:
        raise SliderError("it does not move; save what `figure::frames` returns")
    for number, caption in sorted(captions.items()):
        if not caption:
            raise SliderError(f"its frame {number} has no caption, which is what the slider says; give every frame one")
    frames.captions = [caption for _, caption in sorted(captions.items())]
    frames.seconds /= len(captions)
    return frames


def printed_frames(count: int, chosen: str | None) -> list[int]:
    """Numbers of the frames on a printed page, from 1: those chosen, else the first, the middle and the last."""
    if chosen is None:
        return sorted({1, (count + 1) // 2, count})
    words = chosen.split(",")
    if not all(word.isdigit() and 1 <= int(word) <= count for word in words):
        raise SliderError(f"`print={chosen}` does not name frames from 1 to {count}, with commas between them")
    return [int(word) for word in words]


def markup(element: ET.Element) -> str:
    """An element as HTML holds it: the namespace is known there, and a dollar sign would begin a formula."""
    text = ET.tostring(element, encoding="unicode").replace(f' xmlns="{SVG}"', "").replace("$", "&#36;")
    return re.sub(r"\s*\n\s*", "\n", text).strip()


def attribute(text: str) -> str:
    return html.escape(text, quote=True).replace("$", "&#36;")


def inline(svg: str, name: str, alt: str, chosen: str | None = None) -> str:
    """HTML of the slider, without a blank line. `alt` is what the whole shows, already escaped; `name` is unique in the
    book, and every identifier begins with it."""
    frames = read(svg)
    count, to_print = len(frames.captions), printed_frames(len(frames.captions), chosen)
    root = frames.root
    _, _, across, down = map(int, root.get("viewBox").split())
    height = float(root.get("height")) * (down - frames.top) / down
    size = f'viewBox="0 {frames.top} {across} {down - frames.top}" width="{root.get("width")}" height="{height:.2f}"'
    looks = " ".join(f'{key}="{attribute(root.get(key))}"' for key in ("font-family", "stroke-linejoin") if root.get(key))

    stage, uses = [], {number: [] for number in to_print}
    for place, (number, elements) in enumerate(frames.pieces):
        inside = "\n".join(map(markup, elements))
        if number is None:
            own = f"slider-{name}-{place}"
            for list_ in uses.values():
                list_.append(own)
            stage.append(f'<g id="{own}">\n{inside}\n</g>')
            continue
        if number in uses:
            # The group inside has no visibility of its own, so that a copy of it is seen while this one is hidden.
            own = f"slider-{name}-{place}"
            uses[number].append(own)
            inside = f'<g id="{own}">\n{inside}\n</g>'
        seen = "visible" if number == count else "hidden"
        stage.append(f'<g data-frame="{number}" visibility="{seen}">\n{inside}\n</g>')

    control = f"slider-{name}"
    lines = [
        f'<div class="slider" data-seconds="{frames.seconds:g}" data-captions="{attribute(json.dumps(frames.captions))}">',
        '<div class="card slider-stage">',
        f'<svg role="img" aria-label="{alt}" {size} {looks}>',
        *stage,
        "</svg>",
        "</div>",
        # Without a script nothing could be moved, so the script shows them.
        '<div class="slider-controls" hidden>',
        '<button type="button">Play</button>',
        f'<label for="{control}">Frame</label>',
        f'<input id="{control}" type="range" min="1" max="{count}" step="1" value="{count}" autocomplete="off">',
        "</div>",
        f'<output class="slider-text" for="{control}" aria-live="polite">'
        f"{count} of {count}: {attribute(frames.captions[-1])}</output>",
        '<div class="slider-print">',
    ]
    for number, parts in uses.items():
        caption = attribute(frames.captions[number - 1])
        copies = "".join(f'<use href="#{part}"></use>' for part in parts)
        lines += [
            '<div class="card">',
            f'<svg role="img" aria-label="{caption}" {size} {looks}>{copies}</svg>',
            f"<p>{number} of {count}: {caption}</p>",
            "</div>",
        ]
    return "\n".join([*lines, "</div>", "</div>"]) + "\n"
