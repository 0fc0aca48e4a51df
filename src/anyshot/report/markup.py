"""Parts of a page as HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from anyshot.report.formats import Shown, Table
from anyshot.report.style import Picture

Inline = Callable[[Picture], str]  # a picture as an image within the page, which is also written beside it


def tables(shown: Shown) -> str:
    """The tables of a comparison and what a reader must know of them."""
    notes = [f'<p class="note">{escape(sentence)}</p>' for sentence in shown.remarks]
    return "\n".join([*(table(rows, heading) for heading, rows in shown.tables), *notes])


def figures(pictures: Sequence[Picture], inline: Inline) -> str:
    """Pictures beside each other where there is room."""
    return '<div class="figures">\n' + "\n".join(map(inline, pictures)) + "\n</div>" if pictures else ""


def joined(parts: Sequence[str]) -> str:
    """The parts that have something in them, one below another."""
    return "\n".join(part for part in parts if part)


def table(rows: Table, caption: str) -> str:
    """A table that scrolls where it is too wide."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in rows[0])
    lines = [
        f'<tr><th scope="row">{escape(first)}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in rest) + "</tr>"
        for first, *rest in rows[1:]
    ]
    body = "\n".join(lines)
    return (
        f'<figure>\n<figcaption>{escape(caption)}</figcaption>\n<div class="scroll" tabindex="0">\n<table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>\n</figure>"
    )


def bullets(lines: Sequence[str]) -> str:
    """One below another."""
    return "<ul>\n" + "\n".join(f"<li>{escape(line)}</li>" for line in lines) + "\n</ul>"


def paragraph(text: str) -> str:
    """Some sentences."""
    return f"<p>{escape(text)}</p>"
