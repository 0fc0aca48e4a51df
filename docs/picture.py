"""The README's picture: two figures of the demo's report beside each other. `make picture` runs it after the demo."""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

FIGURES = ("cumulative-labels", "cumulative-loss")


def main(files: Path, out: Path) -> None:
    """Put them beside each other."""
    panels = [Image.open(next(files.glob(f"[0-9][0-9]-{name}.png"))).convert("RGB") for name in FIGURES]
    picture = Image.new("RGB", (sum(panel.width for panel in panels), max(panel.height for panel in panels)), "white")
    left = 0
    for panel in panels:
        picture.paste(panel, (left, 0))
        left += panel.width
    picture.quantize(256).save(out, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
