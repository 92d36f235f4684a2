"""Whether the pages of the built book are whole: links, anchors and leftovers without a browser, the rest in Chromium.

Needs playwright and a Chromium for the second, else only the standard library.
"""

from __future__ import annotations

import asyncio
import functools
import http.server
import os
import re
import shutil
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from manuscript import BookError

THEMES = {"light": "light", "dark": "navy"}
WIDE, NARROW = 1280, 400
HANGS_AFTER = 600  # seconds; a guard against a browser that hangs, not a measure of speed
CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Page(HTMLParser):
    """Ids, references and readable text of one built page."""

    def __init__(self, source: str):
        super().__init__(convert_charrefs=True)
        self.ids, self.links, self.loads, self.text = set(), [], [], []
        self.hidden: list[str] = []
        self.errors: list[str] = []
        self.feed(source)
        self.close()

    QUIET = {"script", "style", "code", "pre", "math", "template", "title"}

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if attrs.get("id"):
            self.ids.add(attrs["id"])
        if tag == "a" and attrs.get("name"):
            self.ids.add(attrs["name"])
        if tag == "a" and attrs.get("href") is not None:
            self.links.append(attrs["href"])
        if tag == "link" and attrs.get("href") and attrs.get("rel") != "canonical":
            self.loads.append(attrs["href"])
        for key in ("src", "srcset", "poster", "data"):
            if tag in ("script", "img", "iframe", "source", "video", "audio", "embed", "object") and attrs.get(key):
                self.loads.append(attrs[key])
        if "katex-error" in (attrs.get("class") or ""):
            self.errors.append(attrs.get("title") or "a formula that KaTeX could not read")
        if tag in self.QUIET:
            self.hidden.append(tag)
        elif tag in ("p", "div", "li", "td", "th", "h1", "h2", "h3", "h4", "br", "figcaption"):
            self.text.append("\n")

    def handle_endtag(self, tag):
        if tag in self.hidden:
            while self.hidden.pop() != tag:
                pass
            self.text.append(" \x00 ")  # code stands here, so that what surrounds it does not join up

    def handle_data(self, data):
        if not self.hidden:
            self.text.append(data)


LEFTOVERS = [
    (re.compile(r"\{\{\s*#\w*"), "a directive"),
    (re.compile(r"\$\$"), "a display formula"),
    (re.compile(r"\$[^$\n\x00]{1,200}\$"), "an inline formula"),
    (re.compile(r"\\(?:[a-zA-Z]{2,}|[\[\]()])"), "a TeX command"),
    (re.compile(r"[A-Za-z0-9)}][_^]\{"), "a TeX script"),
    (re.compile(r"\[[^\]\n]+\]\([^)\s]+\)"), "a Markdown link"),
]


def leftovers(page: Page) -> list[str]:
    """Sentences about source text a reader would see."""
    text = "".join(page.text)
    found = []
    for pattern, what in LEFTOVERS:
        if hit := pattern.search(text):
            around = " ".join(text[max(0, hit.start() - 30) : hit.end() + 30].replace("\x00", " ").split())
            found.append(f"{what} is left in the text: …{around}…")
    return found + [f"KaTeX failed: {error}" for error in page.errors]


def html_pages(folder: Path) -> list[Path]:
    """The pages a reader opens; toc.html is the sidebar of readers without scripts, checked for links only."""
    return [file for file in sorted(folder.rglob("*.html")) if file.name != "toc.html"]


def remote(reference: str) -> bool:
    return bool(re.match(r"(?:[a-z][a-z0-9+.-]*:)?//", reference.strip(), re.I))


def check_static(folder: Path) -> tuple[list[str], set[str]]:
    """(problems as sentences, external links seen) of a built book."""
    if not (folder / "index.html").is_file():
        return [f"There is no book in {folder}: run `make book` first."], set()
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in sorted(folder.rglob("*.html"))}
    problems, external = [], set()

    def resolve(file: Path, reference: str, what: str) -> None:
        name = file.relative_to(folder)
        split = urlsplit(reference)
        if split.scheme or split.netloc:
            if what == "link":
                if split.scheme in ("http", "https"):
                    external.add(reference)
            elif split.scheme != "data":
                problems.append(f"{name}: loads {reference} from elsewhere; everything a page needs is in the book.")
            return
        base = folder if split.path.startswith("/") else file.parent
        target = Path(os.path.normpath(base / unquote(split.path).lstrip("/"))) if split.path else file
        if target.is_dir():
            target = target / "index.html"
        if not target.is_file():
            problems.append(f"{name}: the {what} {reference} leads to no file.")
        elif split.fragment and target in pages and unquote(split.fragment) not in pages[target].ids:
            problems.append(f"{name}: the {what} {reference} names an anchor its page does not have.")

    for file, page in pages.items():
        for reference in page.loads:
            resolve(file, reference, "resource")
        for reference in page.links:
            resolve(file, reference, "link")
        if file.name != "toc.html":
            problems += [f"{file.relative_to(folder)}: {sentence}" for sentence in leftovers(page)]
    for file in sorted(folder.rglob("*.css")):
        for reference in re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", file.read_text(encoding="utf-8")):
            resolve(file, next(filter(None, reference)), "resource")
    return list(dict.fromkeys(problems)), external


# ---------------------------------------------------------------- in a browser


def find_chromium(env: dict[str, str] | os._Environ = os.environ) -> str:
    for candidate in (env.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if candidate and (path := shutil.which(candidate, path=env.get("PATH"))):
            return path
    raise BookError("No Chromium was found: install Debian's package `chromium`, or set CHROMIUM to the program.")


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A browser that closes a connection early is no news."""


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class KeptHandler(QuietHandler):
    """Of a folder that does not change: a browser asks once for what pages share, however new the files are."""

    def end_headers(self):
        self.send_header("Cache-Control", "max-age=86400")
        super().end_headers()


class Server:
    """Serves a folder on localhost in a thread."""

    def __init__(self, folder: Path, port: int = 0, handler: type[QuietHandler] = QuietHandler):
        handler = functools.partial(handler, directory=str(folder))
        self.server = QuietServer(("127.0.0.1", port), handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


# What a reader would see of a loaded page, in one round trip: every font and picture is there before anything is judged.
LOOK = """async () => {
    await document.fonts.ready;
    const pictures = await Promise.all([...document.images].map((image) => image.decode().then(() => null, () => image.src)));
    const room = document.documentElement.clientWidth;
    const wider = () => {
        if (document.documentElement.scrollWidth <= room + 1) return null;
        for (const e of document.querySelectorAll('main *'))
            if (e.getBoundingClientRect().right > room + 1 && !e.closest('pre, .equation-body, .katex-display, .table-wrapper, .html-output, mark'))
                return e.tagName.toLowerCase() + (e.id ? '#' + e.id : '') + ': ' + e.textContent.trim().slice(0, 60);
        return 'an element outside the text';
    };
    return {
        worn: [...document.documentElement.classList],
        wide: wider(),
        blind: pictures.filter((source) => source !== null),
        mute: [...document.fonts].filter((font) => font.status === 'error').map((font) => font.family),
    };
}"""


async def look_at_pages(folder: Path, shots: Path | None, chromium: str) -> tuple[list[str], int]:
    try:
        from playwright.async_api import Error as BrowserError
        from playwright.async_api import async_playwright
    except ImportError:
        raise BookError("The page test needs the Python package playwright (its own browser is not needed).") from None
    looks = [(theme, width) for theme in THEMES for width in (WIDE, NARROW)]
    at_once = asyncio.Semaphore(os.cpu_count() or 1)

    async def one_look(browser, address: str, theme: str, width: int) -> tuple[list[str], int]:
        """All pages, one after the other in one tab, which keeps what they share."""
        problems, seen, taken = [], [], 0

        def failed(request) -> None:
            # An icon comes when all else is there, and leaving the page may cut it off; check_static knows its file.
            if (request.resource_type, request.failure) != ("other", "net::ERR_ABORTED"):
                seen.append(f"request failed: {request.url}")

        context = await browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        context.set_default_timeout(HANGS_AFTER * 1000)
        await context.add_init_script(
            "window.print = () => {};"
            "if (location.host) {"  # the empty tab has no storage
            f"localStorage.setItem('mdbook-theme', '{THEMES[theme]}');"
            f"localStorage.setItem('mdbook-sidebar', '{'visible' if width == WIDE else 'hidden'}');"
            "}"
        )
        context.on("console", lambda m: seen.append(f"console {m.type}: {m.text}") if m.type == "error" else None)
        context.on("weberror", lambda e: seen.append(f"script error: {e.error}"))
        context.on("requestfailed", failed)
        context.on("response", lambda r: seen.append(f"status {r.status}: {r.url}") if r.status >= 400 else None)
        context.on(
            "request",
            lambda r: None
            if r.url.startswith((address, "data:", "blob:"))
            else seen.append(f"request to elsewhere: {r.url}"),
        )
        page = await context.new_page()
        for file in html_pages(folder):
            name = file.relative_to(folder)
            try:
                await page.goto(address + name.as_posix(), wait_until="load")
                found = await page.evaluate(LOOK)
                if THEMES[theme] not in found["worn"]:
                    seen.append(f"the theme {THEMES[theme]} is not applied")
                if found["wide"]:
                    seen.append(f"wider than the window: {found['wide']}")
                seen += [f"a picture that cannot be shown: {source}" for source in found["blind"]]
                seen += [f"a font that cannot be read: {family}" for family in found["mute"]]
                if shots and name.name != "print.html":
                    shot = shots / f"{theme}-{width}" / name.with_suffix(".png")
                    shot.parent.mkdir(parents=True, exist_ok=True)
                    await page.screenshot(path=str(shot), full_page=True, animations="disabled")
                    taken += 1
            except BrowserError as error:
                seen.append(str(error).splitlines()[0])
                await page.close()
                page = await context.new_page()
            problems += [f"{name} ({theme}, {width} px): {sentence}." for sentence in dict.fromkeys(seen)]
            seen.clear()
        await context.close()
        return problems, taken

    with Server(folder, handler=KeptHandler) as server:
        async with async_playwright() as play:
            try:
                browser = await play.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGS, timeout=HANGS_AFTER * 1000)
            except BrowserError as error:
                raise BookError(f"{chromium} does not start: {str(error).splitlines()[0]}") from None

            async def in_turn(theme: str, width: int):
                async with at_once:
                    return await one_look(browser, server.address, theme, width)

            results = await asyncio.gather(*(in_turn(theme, width) for theme, width in looks))
            await browser.close()
    return [problem for problems, _ in results for problem in problems], sum(taken for _, taken in results)


def check_browser(folder: Path, chromium: str, shots: Path | None = None) -> tuple[list[str], int]:
    """Opens every page in both themes and at two widths, as many at once as there are cores; (problems as sentences,
    screenshots taken). No check needs the screenshots, which take longer than all else: they are for people, into the
    folder `shots` if it is given."""
    if shots:
        shutil.rmtree(shots, ignore_errors=True)
    return asyncio.run(look_at_pages(folder, shots, chromium))
