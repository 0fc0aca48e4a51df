"""The page: one HTML file that needs nothing else, and its figures as files beside it."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from anyshot.errors import InputError
from anyshot.report.comparison import AnyComparison
from anyshot.report.markup import Inline, paragraph
from anyshot.report.offline_comparison import OfflineComparison
from anyshot.report.offline_section import INTRODUCTION as OFFLINE
from anyshot.report.offline_section import offline_section
from anyshot.report.online_section import INTRODUCTION as ONLINE
from anyshot.report.online_section import online_section
from anyshot.report.style import Picture, our_style, rendered
from anyshot.report.writing import writing_beside

CSS = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto;
  padding: 1rem; max-width: 70rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.5rem 0; }
h2 { font-size: 1.35rem; line-height: 1.25; margin: 2.2rem 0 0.6rem; padding-top: 0.8rem;
  border-top: 2px solid #1a1a1a; }
h3 { font-size: 1.1rem; margin: 1.8rem 0 0.4rem; }
p, li { max-width: 46rem; }
.scroll { overflow-x: auto; margin: 0.3rem 0; }
table { border-collapse: collapse; font-size: 0.92rem; overflow-wrap: normal; }
figure { margin: 1.2rem 0; }
figcaption { font-weight: 600; }
th, td { text-align: left; padding: 0.28rem 0.8rem 0.28rem 0; border-bottom: 1px solid #ddd; white-space: nowrap;
  vertical-align: top; font-variant-numeric: tabular-nums; }
tbody th { font-weight: 600; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); gap: 1.2rem;
  margin: 1rem 0; align-items: start; }
.figures img { width: 100%; max-width: 36rem; height: auto; display: block; }
.sheet img { width: 100%; min-width: 36rem; max-width: 56rem; height: auto; }
pre { overflow-x: auto; background: #f4f4f4; padding: 0.7rem; font-size: 0.85rem; overflow-wrap: normal; }
summary { cursor: pointer; font-weight: 600; }
.note { border-left: 4px solid #d55e00; padding-left: 0.7rem; }
""".strip()
MEDIA = {"svg": "svg+xml", "png": "png"}
OURS = re.compile(r"\d\d-[a-z0-9+-]+\.(png|svg)")


def write_report(comparisons: Sequence[AnyComparison], out: Path) -> Path:
    """Write the page to `out` and its figures into a folder beside it, whose path is returned.

    All is written under temporary names and moved into place at the end, the page last.
    """
    check_out(out)
    beside = out.with_name(f"{out.stem}_files")
    with writing_beside(out) as unfinished, our_style():
        made: list[str] = []

        def inline(picture: Picture) -> str:
            name = f"{len(made) // 2 + 1:02d}-{picture.name}"
            drawn = {form: rendered(picture.figure, form) for form in ("svg", "png")}
            for form, data in drawn.items():
                (unfinished / f"{name}.{form}").write_bytes(data)
                made.append(f"{name}.{form}")
            inside = base64.b64encode(drawn[picture.embedded]).decode()
            source = f"data:image/{MEDIA[picture.embedded]};base64,{inside}"
            width, height = (round(96 * inches) for inches in picture.figure.get_size_inches())
            return f'<img src="{source}" alt="{escape(picture.alt)}" width="{width}" height="{height}">'

        body = "\n".join(_section(comparison, inline) for comparison in comparisons)
        (unfinished / out.name).write_text(_page(comparisons, body), "utf-8", newline="\n")
        beside.mkdir(exist_ok=True)
        for name in made:
            (unfinished / name).replace(beside / name)
        for old in beside.iterdir():
            if OURS.fullmatch(old.name) and old.name not in made:
                old.unlink()
        (unfinished / out.name).replace(out)
    return beside


def check_out(out: Path) -> None:
    """Raise `InputError` for a name that no page can have."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out must end in .html, got {str(out)!r}")
    if out.is_dir():
        raise InputError(f"--out must be a file, {out} is a folder")


def _section(comparison: AnyComparison, inline: Inline) -> str:
    if isinstance(comparison, OfflineComparison):
        return offline_section(comparison, inline)
    return online_section(comparison, inline)


def _page(comparisons: Sequence[AnyComparison], body: str) -> str:
    name = "anyshot report: " + "; ".join(one.group.title for one in comparisons)
    offline = any(isinstance(one, OfflineComparison) for one in comparisons)
    online = not all(isinstance(one, OfflineComparison) for one in comparisons)
    both = "Online and offline learning"
    heading = both if online and offline else "Offline meta-learning" if offline else "Online incremental learning"
    introduction = "\n".join(paragraph(told) for told, there in ((ONLINE, online), (OFFLINE, offline)) if there)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(name)}</title>
<style>
{CSS}
</style>
</head>
<body>
<h1>{heading}: a comparison</h1>
{introduction}
{body}
</body>
</html>
"""
