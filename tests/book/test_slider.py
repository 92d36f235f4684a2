"""What scripts/slider.py and book/js/slider.js promise: a figure that moves is moved by its reader, and printed still."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import manuscript
import proofread
import slider


def animation(count=5, caption="step {}", seconds=0.1):
    """An SVG as `figure::frames` writes it: titles, a background that all share, a disc that moves, a frame on top."""

    def group(i, more, inside):
        still = "visible" if i == count else "hidden"
        turn = f'<animate attributeName="visibility" values="hidden;visible" keyTimes="0;0.5" dur="{count * seconds:g}s"/>'
        return f'<g data-frame="{i}" visibility="{still}"{more}>\n{turn}\n{inside}</g>\n'

    titles = [
        group(i, f' aria-label="{caption.format(i)}" data-height="200"', f'<text x="20" y="130">\n({i} of {count})\n</text>\n')
        for i in range(1, count + 1)
    ]
    discs = [group(i, "", f'<circle cx="{1000 * i}" cy="700" r="300" fill="#0072B2"/>\n') for i in range(1, count + 1)]
    width = 1000 * (count + 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width / 10:.2f}" height="120.00" viewBox="0 0 {width} 1200" role="img" '
        f'aria-label="Animation of {count} frames" font-family="Liberation Sans, sans-serif" stroke-linejoin="round">\n'
        f'<rect width="{width}" height="1200" fill="#FFFFFF"/>\n{"".join(titles)}'
        f'<polyline fill="none" stroke="#262626" points="0,1190 {width},1190"/>\n<text x="50" y="1150">\n0 $1 &lt; 2\n</text>\n'
        f'{"".join(discs)}<polyline fill="none" stroke="#E0E0E0" points="0,1100 {width},1100"/>\n</svg>\n'
    )


class Tags(HTMLParser):
    """All start tags with their attributes, and the text outside them."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, name):
        return [attrs for tag, attrs in self.tags if tag == name]


@pytest.fixture
def layout(tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "walk.svg").write_text(animation())
    (tmp_path / "figures" / "climb.svg").write_text(animation(3, "height {}"))
    (tmp_path / "figures" / "curve.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
    cells = [
        {"cell_type": "code", "id": name, "metadata": {}, "source": f'moving.save("{name}")?', "outputs": []}
        for name in ("walk", "climb", "curve", "odd")
    ]
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "moving.ipynb").write_text(json.dumps({"nbformat": 4, "cells": cells}))
    return manuscript.Layout.of(tmp_path, {"HOME": str(tmp_path)})


def expand(layout, *texts):
    chapters = [manuscript.Chapter(f"part/{i}.md", f"Chapter {i}", str(i), text, f"{i}.md") for i, text in enumerate(texts, 1)]
    found = manuscript.expand(chapters, layout)
    return [found.texts[chapter.path] for chapter in chapters]


def problem(layout, text):
    with pytest.raises(manuscript.BookError) as caught:
        expand(layout, text)
    (sentence,) = caught.value.problems
    assert sentence.endswith(".")
    return sentence


# ---- the page


def test_a_slider_is_numbered_captioned_and_referred_to_like_a_figure(layout):
    one, two = expand(
        layout,
        'See {{#ref fig:walk}}.\n\n{{#figure curve "A $c$."}}\n\n{{#slider walk "A *walk*."}}\n',
        "{{#ref fig:walk}}",
    )
    assert "See [Figure 1.2](#fig-walk)." in one and "**Figure 1.2.** A *walk*." in one and 'id="fig-walk"' in one
    assert "Made by cell [`walk`](../notebooks/moving.md#cell-walk)" in one
    assert two == "[Figure 1.2, Chapter 1](1.md#fig-walk)"
    # Between the figure and its caption Markdown sees one block of HTML: no blank line ends it.
    block = one[one.index('<figure class="figure" id="fig-walk"') : one.rindex("<figcaption>")]
    assert "\n\n" not in block and "<img" not in block and "$" not in block


def test_nothing_moves_by_itself_and_the_last_frame_stands(layout):
    (text,) = expand(layout, '{{#slider walk "A walk."}}')
    page = Tags(text)
    assert "animate" not in text and "(1 of 5)" not in text
    frames = [attrs for attrs in page.all("g") if "data-frame" in attrs]
    assert [(f["data-frame"], f["visibility"]) for f in frames] == [(str(i), "visible" if i == 5 else "hidden") for i in range(1, 6)]
    stage = page.all("svg")[0]
    assert (stage["viewbox"], stage["height"], stage["aria-label"]) == ("0 200 6000 1000", "100.00", "A walk.")
    assert json.loads(page.all("div")[0]["data-captions"]) == [f"step {i}" for i in range(1, 6)]
    assert page.all("div")[0]["data-seconds"] == "0.1"
    # Without a script there is nothing to move, and the caption is that of the frame in view.
    controls = next(attrs for attrs in page.all("div") if attrs.get("class") == "slider-controls")
    assert "hidden" in controls and "5 of 5: step 5" in page.text
    ranged = page.all("input")[0]
    assert (ranged["type"], ranged["min"], ranged["max"]) == ("range", "1", "5")
    assert ranged["id"] == page.all("label")[0]["for"] == page.all("output")[0]["for"]
    assert page.all("output")[0]["aria-live"] == "polite"


def test_what_frames_share_is_in_the_page_once(layout):
    (text,) = expand(layout, '{{#slider walk "A walk."}}')
    assert text.count("#262626") == 1 and text.count("#E0E0E0") == 1 and text.count("<circle") == 5
    drawn = re.findall(r"#262626|<circle|#E0E0E0", text)
    assert drawn == ["#262626", *["<circle"] * 5, "#E0E0E0"]


def test_identifiers_of_all_sliders_of_the_book_differ_and_every_copy_finds_its_own(layout):
    one, two = expand(layout, '{{#slider walk "A."}}\n\n{{#slider climb "B."}}', '{{#figure curve "C."}}')
    tags = Tags(one + two)
    ids = [attrs["id"] for _, attrs in tags.tags if "id" in attrs]
    assert len(ids) == len(set(ids)) > 10
    copies = [attrs["href"] for attrs in tags.all("use")]
    assert len(copies) == 2 * 3 * 3 and {copy[1:] for copy in copies} <= set(ids)
    assert all(attrs["for"] in ids for attrs in tags.all("label") + tags.all("output"))
    assert all(copy.startswith("#slider-walk-") for copy in re.findall(r'<use href="([^"]*)', one[: one.index("fig-climb")]))


@pytest.mark.parametrize(("words", "frames"), [("", [1, 3, 5]), (" print=2,4", [2, 4]), (" print=5", [5])])
def test_a_printed_page_has_the_chosen_frames_with_their_captions(layout, words, frames):
    (text,) = expand(layout, '{{#slider walk "A walk."' + words + "}}")
    printed = text[text.index("slider-print") :]
    assert re.findall(r"<p>(.*?)</p>", printed) == [f"{i} of 5: step {i}" for i in frames]
    assert printed.count("<svg") == len(frames)
    # In each copy: the background, the frame, and what lies on top of it.
    for copy, frame in zip(re.findall(r"<svg.*?</svg>", printed), frames):
        first, disc, last = re.findall(r'href="#([^"]*)"', copy)
        inside = text[text.index(f'id="{disc}"') :]
        assert f'cx="{1000 * frame}"' in inside[: inside.index("</g>")]
        assert "#262626" in text[text.index(f'id="{first}"') :][:600] and "#E0E0E0" in text[text.index(f'id="{last}"') :][:200]


def test_captions_cannot_become_markup_or_formulas(layout):
    (layout.figures / "odd.svg").write_text(animation(2, "cost $5, a &lt;b&gt; &amp; &quot;c&quot; {}"))
    (text,) = expand(layout, '{{#slider odd "Odd."}}')
    assert "$" not in text and "<b>" not in text
    page = Tags(text)
    assert json.loads(page.all("div")[0]["data-captions"])[0] == 'cost $5, a <b> & "c" 1'
    assert 'cost $5, a <b> & "c" 2' in page.text


def test_every_mistake_is_a_sentence(layout):
    assert "1.md:2: there is no figure gone.svg" in problem(layout, '\n{{#slider gone "A."}}')
    assert "figure curve cannot have a slider: it does not move" in problem(layout, '{{#slider curve "A."}}')
    assert "`print=6` does not name frames from 1 to 5" in problem(layout, '{{#slider walk "A." print=6}}')
    assert "`print=1-3` does not name frames" in problem(layout, '{{#slider walk "A." print=1-3}}')
    assert '{{#slider NAME "caption"}}' in problem(layout, "{{#slider walk}}")
    (layout.figures / "mute.svg").write_text(animation(3, ""))
    assert "its frame 1 has no caption" in problem(layout, '{{#slider mute "A."}}')
    (layout.figures / "torn.svg").write_text(animation()[:-20])
    assert "it is not an SVG" in problem(layout, '{{#slider torn "A."}}')


# ---- the figures of the crate

SLIDERS = {"rate-roc-slider": "02_rate", "lp-newton-slider": "03_lp"}


@pytest.mark.parametrize(("name", "notebook"), SLIDERS.items())
def test_the_moving_figures_of_the_notebooks_can_have_a_slider(name, notebook):
    cells = json.loads((ROOT / "notebooks" / f"{notebook}.ipynb").read_text(encoding="utf-8"))["cells"]
    (cell,) = [cell for cell in cells if f'.save("{name}")' in "".join(cell["source"])]
    (svg,) = ["".join(output["data"]["image/svg+xml"]) for output in cell["outputs"] if "image/svg+xml" in output.get("data", {})]
    assert len(svg) < 600_000
    frames = slider.read(svg)
    assert 15 <= len(frames.captions) <= 40 and len(set(frames.captions)) == len(frames.captions)
    page = slider.inline(svg, name, "moves")
    assert len(page) < 600_000 and "animate" not in page


# ---- in the browser


def page_of(layout, folder):
    """A page with two sliders and the book's own style and script, and the keys that reach the page noted."""
    (text,) = expand(layout, '{{#slider walk "A walk."}}\n\n{{#slider climb "A climb."}}')
    (folder / "book.css").write_text((ROOT / "book" / "css" / "book.css").read_text())
    (folder / "slider.js").write_text((ROOT / "book" / "js" / "slider.js").read_text())
    keys = "<script>window.keys = []; document.addEventListener('keydown', (e) => window.keys.push(e.key));</script>"
    (folder / "index.html").write_text(
        "<!doctype html><html lang=en class=light><head><meta charset=utf-8><title>t</title><link rel=icon href=data:,>"
        f"<link rel=stylesheet href=book.css></head><body><main>{text}</main>{keys}<script src=slider.js></script></body></html>"
    )
    return (folder / "index.html").as_uri()


SEEN = """() => [...document.querySelectorAll(".slider")].map((slider) =>
    [...slider.querySelectorAll(".slider-stage [data-frame]")].filter((g) => getComputedStyle(g).visibility === "visible")
        .map((g) => Number(g.dataset.frame)))"""
TEXTS = '() => [...document.querySelectorAll(".slider-text")].map((text) => text.textContent)'


@pytest.fixture(scope="module")
def chromium():
    pytest.importorskip("playwright")
    from playwright.sync_api import sync_playwright

    try:
        program = proofread.find_chromium()
    except manuscript.BookError as error:
        pytest.skip(str(error))
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=proofread.CHROMIUM_ARGS, timeout=1000 * proofread.HANGS_AFTER)
        yield browser
        browser.close()


@pytest.fixture
def opened(layout, chromium, tmp_path):
    """Opens the page with some options; what went wrong in it fails the test. The page's clock stands still until a test
    moves it, so that nothing depends on how busy the machine is."""
    address, wrong, contexts = page_of(layout, tmp_path), [], []

    def open_page(**options):
        contexts.append(chromium.new_context(**options))
        contexts[-1].set_default_timeout(1000 * proofread.HANGS_AFTER)
        page = contexts[-1].new_page()
        page.clock.install(time=0)
        page.clock.pause_at(1000)
        page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: wrong.append(str(e)))
        page.on("requestfailed", lambda r: wrong.append(f"failed: {r.url}"))
        page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else wrong.append(f"elsewhere: {r.url}"))
        page.goto(address, wait_until="load")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def test_the_slider_is_moved_by_keys_and_one_frame_is_seen(opened):
    page = opened()
    assert page.evaluate(SEEN) == [[1], [1]] and page.evaluate(TEXTS) == ["1 of 5: step 1", "1 of 3: height 1"]
    ranged = page.get_by_label("Frame").first
    page.keyboard.press("Tab")  # to the button
    page.keyboard.press("Tab")
    assert ranged.evaluate("(e) => e === document.activeElement")
    for key, frame in [("ArrowRight", 2), ("ArrowUp", 3), ("ArrowLeft", 2), ("End", 5), ("ArrowRight", 5), ("Home", 1)]:
        page.keyboard.press(key)
        assert page.evaluate(SEEN) == [[frame], [1]], key
        assert page.evaluate(TEXTS) == [f"{frame} of 5: step {frame}", "1 of 3: height 1"]
        assert ranged.get_attribute("aria-valuetext") == f"{frame} of 5"
    # mdBook turns its pages by arrow keys; those of the slider do not reach it.
    assert page.evaluate("window.keys") == ["Tab", "Tab", "End", "Home"]
    page.get_by_label("Frame").nth(1).focus()
    page.keyboard.press("End")
    assert page.evaluate(SEEN) == [[1], [3]]


def test_play_and_pause(opened):
    page = opened()
    button, text = page.get_by_role("button").first, page.locator(".slider-text").first
    button.focus()
    page.keyboard.press("Enter")
    assert (button.text_content(), text.get_attribute("aria-live")) == ("Pause", "off")
    page.clock.run_for(99)
    assert page.evaluate(SEEN) == [[1], [1]]
    page.clock.run_for(1)
    assert page.evaluate(SEEN) == [[2], [1]] and text.text_content() == "2 of 5: step 2"
    page.keyboard.press("Enter")
    assert (button.text_content(), text.get_attribute("aria-live")) == ("Play", "polite")
    page.clock.run_for(60_000)
    assert page.evaluate(SEEN) == [[2], [1]]
    button.click()
    page.clock.run_for(60_000)
    assert page.evaluate(SEEN) == [[5], [1]] and button.text_content() == "Play"
    # From the end it begins anew; moving the slider takes over.
    button.click()
    assert page.evaluate(SEEN) == [[1], [1]]
    page.get_by_label("Frame").first.focus()
    page.keyboard.press("End")
    assert button.text_content() == "Play"
    page.clock.run_for(60_000)
    assert page.evaluate(SEEN) == [[5], [1]]


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_nothing_plays_unasked(opened, motion):
    page = opened(reduced_motion=motion)
    page.clock.run_for(60_000)
    assert page.evaluate(SEEN) == [[1], [1]]


def test_a_printed_page_has_frames_and_no_controls(opened):
    page = opened()
    assert not page.locator(".slider-print").first.is_visible()
    page.emulate_media(media="print")
    for gone in ("button", "input", "output", ".slider-stage"):
        assert not any(element.is_visible() for element in page.locator(gone).all())
    shown = page.locator(".slider-print").first
    assert shown.locator("p").all_text_contents() == ["1 of 5: step 1", "3 of 5: step 3", "5 of 5: step 5"]
    # What lies under the middle of each disc is the copy of that frame, though the frame itself is hidden.
    for picture, frame in zip(shown.locator("svg").all(), [1, 3, 5]):
        picture.scroll_into_view_if_needed()
        hit = picture.evaluate(
            """(svg, frame) => {
                const place = new DOMPoint(1000 * frame, 700).matrixTransform(svg.getScreenCTM());
                const found = document.elementsFromPoint(place.x, place.y);
                return found.some((e) => svg.contains(e) && e !== svg);
            }""",
            frame,
        )
        assert hit, f"frame {frame}"
    assert len(page.pdf()) > 5000


def test_without_a_script_the_last_frame_stands(opened):
    page = opened(java_script_enabled=False)
    assert not page.get_by_role("button").first.is_visible()
    assert page.locator(".slider-text").first.text_content() == "5 of 5: step 5"
    seen = [group.get_attribute("data-frame") for group in page.locator("[data-frame]").all() if group.is_visible()]
    assert seen == ["5", "3"]
