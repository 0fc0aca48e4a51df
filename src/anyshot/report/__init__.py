"""Runs compared, as tables and as a page with figures."""

from typing import TYPE_CHECKING

from anyshot.lazy_imports import lazy_getattr

if TYPE_CHECKING:
    from anyshot.report.comparison import Comparison, compare
    from anyshot.report.formats import format_comparisons, write_comparisons
    from anyshot.report.page import write_page, write_report
    from anyshot.report.statistics import Difference, Spread, holm

__all__ = [
    "Comparison",
    "Difference",
    "Spread",
    "compare",
    "format_comparisons",
    "holm",
    "write_comparisons",
    "write_page",
    "write_report",
]

__getattr__ = lazy_getattr(
    __name__,
    {
        "comparison": ("Comparison", "compare"),
        "formats": ("format_comparisons", "write_comparisons"),
        "page": ("write_page", "write_report"),
        "statistics": ("Difference", "Spread", "holm"),
    },
)
