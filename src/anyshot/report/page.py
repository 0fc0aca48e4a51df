"""The page: one HTML file that needs nothing else, and its figures as files beside it."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from anyshot.atomic import check_out, write_beside
from anyshot.errors import InputError
from anyshot.report.comparison import Comparison, Runs, compare
from anyshot.report.formats import make_tables
from anyshot.report.sections import describe_findings, make_sections
from anyshot.report.style import Picture, our_style, render
from anyshot.report.words import printable

MEDIA = {"svg": "svg+xml", "png": "png"}
OURS = re.compile(r"\d{2,}-[a-z0-9-]*\.(png|svg)")


def write_report(runs: Runs, out: str | Path, against: str | None = None) -> Path:
    """Write a page about runs: tables, figures, settings and the commands to repeat them. It needs no network.

    Args:
        runs: a table that `read_runs` gave, or run folders, or folders that hold run folders.
        out: the page to write (.html); it is replaced if it is there.
        against: the learner or method that differences are taken to; see `compare`.

    Returns:
        The folder beside the page with its figures as PNG and SVG.
    """
    check_page(Path(out))
    return write_page(compare(runs, against), out)


def write_page(comparisons: Sequence[Comparison], out: str | Path) -> Path:
    """Write a page about comparisons; see `write_report`. All is moved into place at the end, the page last."""
    out = Path(out)
    check_page(out)
    beside = out.with_name(f"{out.stem}_files")
    with write_beside(out) as unfinished, our_style():
        made: list[str] = []

        def embed(picture: Picture) -> dict[str, Any]:
            """Write the files of a picture, and describe it for the page."""
            name = re.sub("[^a-z0-9]+", "-", f"{len(made) // 2 + 1:02d}-{picture.name.lower()}")[:60].strip("-")
            drawn = {form: render(picture.figure, form) for form in MEDIA}
            for form, data in drawn.items():
                (unfinished / f"{name}.{form}").write_bytes(data)
                made.append(f"{name}.{form}")
            source = f"data:image/{MEDIA[picture.embedded]};base64,{base64.b64encode(drawn[picture.embedded]).decode()}"
            width, height = (round(96 * inches) for inches in picture.figure.get_size_inches())
            return {"source": source, "alt": picture.alt, "width": width, "height": height}

        parts = [
            {
                "comparison": comparison,
                "findings": describe_findings(comparison),
                "tables": make_tables(comparison, titled=False),
                "sections": make_sections(comparison),
            }
            for comparison in comparisons
        ]
        (unfinished / out.name).write_text(_template().render(parts=parts, embed=embed), "utf-8", newline="\n")
        beside.mkdir(exist_ok=True)
        for name in made:
            (unfinished / name).replace(beside / name)
        for old in beside.iterdir():
            if OURS.fullmatch(old.name) and old.name not in made:
                old.unlink()
        (unfinished / out.name).replace(out)
    return beside


def check_page(out: Path) -> None:
    """Raise `InputError` for a place where no page can be written."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"out must end in .html, got {printable(str(out))!r}")
    check_out(out)
    beside = out.with_name(f"{out.stem}_files")
    if beside.is_symlink() or (beside.exists() and not beside.is_dir()):
        raise InputError(f"out needs the folder {printable(str(beside))} for its figures, which is not a folder")


def _template() -> jinja2.Template:
    text = files("anyshot.report").joinpath("page.html.jinja").read_text("utf-8")
    options: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    return jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, **options).from_string(text)
