"""HTML of every page, of live runs and of finished ones: frame, tables, SVG bars, and small grey PNGs.

Text becomes markup in `tag`, which escapes whatever is no `Html`. Drawn by hand rather than by a plotting
library: the pictures then take the page's fonts and its light and dark colours, weigh a few kilobytes, are
the same bytes on every machine and need no package.
"""

import base64
import math
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme import __version__
from fedkme.inputs import read_text
from fedkme.pages.glossary import explained

STYLE = read_text(Path(__file__).with_name("style.css"))
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Rights of a finished page: it loads nothing and runs nothing."""
FINISHED = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n<style>{STYLE}</style>'
WIDE = 6
"""Columns from which on a table has no room on a phone."""
LONG = 40
"""Signs of all names of columns from which on it has none."""
WIDTH = 480
"""Width of a drawing in CSS pixels; the page shrinks it where there is less room."""


_BARS = 355
"""Place at which the longest bar ends; behind it is its number."""
_LONGEST = 22
"""Characters of a label."""
FACTOR = 20
"""Span of values from which on a logarithmic scale shows them."""


def short(value: float) -> str:
    """A number in about three significant digits."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def number(value: Any) -> str:
    """A number for people; `-` where there is none, `inf` where it has no bound."""
    if isinstance(value, str):
        return value
    return "-" if value is None or math.isnan(value) else short(value)


class Html(str):
    """Markup, in which all text is escaped."""


def tag(name: str, /, *content: str, **attributes: float | str) -> Html:
    """An element: content that is no markup is escaped, and so are attributes.

    Names of attributes have `_` for `-`, and at the end for nothing. A float has one decimal; an attribute
    without a text is left out.
    """
    texts = (
        (key.rstrip("_").replace("_", "-"), f"{value:.1f}" if isinstance(value, float) else str(value))
        for key, value in attributes.items()
    )
    given = "".join(f' {key}="{escape(value)}"' for key, value in texts if value)
    return Html(f"<{name}{given}>{joined(content)}</{name}>")


def joined(parts: Iterable[str], between: str = "") -> Html:
    """Markup of parts, escaped where they are none."""
    return Html(between.join(each if isinstance(each, Html) else escape(each) for each in parts))


def plain_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Html:
    """A table that needs no style sheet, as in a notebook."""
    head = tag("thead", tag("tr", *(tag("th", name) for name in header)))
    body = tag("tbody", *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows))
    return tag("table", head, body)


@dataclass(frozen=True, slots=True)
class Bar:
    """One horizontal bar.

    Attributes:
        label: its name.
        parts: lengths, >= 0, each with the style class of its colour: `main`, `other` or `waste`.
        text: what to print behind it.
    """

    label: str
    parts: tuple[tuple[float, str], ...]
    text: str


def bars(title: str, rows: Sequence[Bar], *, height: int = 26) -> Html:
    """Horizontal bars on a common scale from 0, as one SVG element.

    Args:
        title: what the drawing says to someone who cannot see it.
        rows: rows from top to bottom.
        height: height of a row, of which 8 are between it and the next; 18 and more leave room for the text.
    """
    left, thick = _left(rows), height - 8
    room = _BARS - left
    longest = max((sum(length for length, _ in row.parts) for row in rows), default=0.0) or 1.0
    shapes = []
    for position, row in enumerate(rows):
        top = position * height + 4
        base = top + thick / 2 + 4
        shapes.append(tag("text", _clipped(row.label), x=left - 8, y=base, text_anchor="end"))
        x = float(left)
        for length, style in row.parts:
            width = room * length / longest
            shapes.append(tag("rect", class_=style, x=x, y=top, width=width, height=thick))
            x += width
        shapes.append(tag("text", row.text, class_="value", x=x + 6, y=base))
    return svg(title, len(rows) * height + 4, shapes)


def scaled(title: str, rows: Sequence[Bar]) -> Html:
    """Bars, or dots on a logarithmic scale where the lengths above 0 span a factor of more than 20.

    A bar has no meaning on a scale without a 0, so that each value is then a dot on a line from the left;
    what is not above 0 has its number alone.
    """
    lengths = [sum(length for length, _ in row.parts) for row in rows]
    above = [length for length in lengths if length > 0]
    if not above or max(above) <= FACTOR * min(above):
        return bars(title, rows)
    marks = [10.0**power for power in range(_power(min(above)), _power(max(above)) + 2)]
    left, foot = _left(rows), len(rows) * 26 + 6
    room = _BARS - left

    def x_at(value: float) -> float:
        return left + room * math.log(value / marks[0]) / math.log(marks[-1] / marks[0])

    shapes = [tag("line", class_="grid", x1=x_at(mark), x2=x_at(mark), y1=2, y2=foot) for mark in marks]
    for mark in marks[:: math.ceil(len(marks) / 4)]:
        shapes.append(
            tag("text", short(mark), class_="axis", x=x_at(mark), y=foot + 14, text_anchor="middle")
        )
    for position, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        y, style = position * 26 + 13, row.parts[0][1]
        shapes.append(tag("text", _clipped(row.label), x=left - 8, y=y + 4, text_anchor="end"))
        x = x_at(length) if length > 0 else left
        if length > 0:
            shapes.append(tag("rect", class_=style, x=left, y=y - 1.5, width=x - left, height=3))
            shapes.append(tag("circle", class_=style, cx=x, cy=y, r=5.5))
        shapes.append(tag("text", row.text, class_="value", x=x + 11, y=y + 4))
    shapes.append(tag("text", "logarithmic scale", class_="axis", x=WIDTH, y=foot + 14, text_anchor="end"))
    return svg(title, foot + 20, shapes)


def _power(value: float) -> int:
    return math.floor(math.log10(value))


def grey_png(pixels: NDArray[np.uint8]) -> str:
    """A grey image (h, w), 0 black, as a `data:` address of a PNG."""
    height, width = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    lines = b"".join(b"\0" + row.tobytes() for row in pixels)  # filter 0 before every line
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    image = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + image).decode()


def svg(title: str, height: int, shapes: Iterable[Html]) -> Html:
    """A drawing of WIDTH by `height` pixels, of SVG elements."""
    box = f"0 0 {WIDTH} {height}"
    return tag("svg", *shapes, viewBox=box, width=WIDTH, height=height, role="img", aria_label=title)


def _clipped(label: str) -> str:
    return label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "…"


def _left(rows: Sequence[Bar]) -> float:
    """Width of the labels and of the space behind them."""
    return max(150, 12 + 7.4 * min(_LONGEST, max((len(row.label) for row in rows), default=0)))


def ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers that enclose [low, high]."""
    span = (high - low) or abs(high) or 1.0
    raw = span / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    start, end = math.floor(low / step), math.ceil((high or span) / step - 1e-9)
    return [float(f"{step * number:.12g}") for number in range(start, max(end, start + 1) + 1)]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten, with 2 and 5 between them where there are few, that enclose [low, high]."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 2 else (1,)
    marks = [10.0**power * factor for power in range(first, last) for factor in factors] + [10.0**last]
    # The ends by default: rounding may put a power of ten on the wrong side of its own logarithm.
    start = max((tick for tick in marks if tick <= low), default=marks[0])
    end = min((tick for tick in marks if tick >= high), default=marks[-1])
    return [tick for tick in marks if start <= tick <= end]


def document(
    title: str,
    head: Html,
    sections: Iterable[tuple[str, Html]],
    details: Iterable[tuple[str, Html]] = (),
    live: bool = False,
) -> str:
    """A whole page; the same bytes for the same content.

    Terms are linked to a glossary at its end; a section without content is left out. A finished page may load
    nothing. A live one has its style and its script beside it, by which it renews itself.

    Args:
        title: title of the window.
        head: what stands above all sections.
        sections: name and content, in order.
        details: more of them, folded away until somebody looks, with the glossary: a link to a term opens it.
        live: the page renews itself; then nothing is folded, as it would close under its reader.
    """
    seen = list(sections)
    linked, rest = explained(head, [*seen, *details])
    body = joined(
        [
            _section(name, Html(f"\n{text}\n"), folded=not live and place >= len(seen))
            for place, (name, text) in enumerate(rest)
            if text
        ],
        "\n",
    )
    top = (
        '<link rel="stylesheet" href="page.css">\n<script src="page.js" defer></script>' if live else FINISHED
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{tag('title', title)}\n{top}\n</head>\n<body>\n<header>\n{linked}\n</header>\n"
        f"<main>\n{body}\n</main>\n<footer>fedkme {__version__}</footer>\n</body>\n</html>\n"
    )


def _section(name: str, text: Html, folded: bool) -> Html:
    head = Html(f"<h2>{escape(name, quote=False)}</h2>")
    return tag("section", tag("details", tag("summary", head), text) if folded else joined([head, text]))


def written(at: datetime, config: str = "", verb: str = "") -> Html:
    """Date, version and, where there is one, the command by which the run can be had again, as HTML.

    Args:
        at: time at which the run ended, in UTC.
        config: text of the configuration beside the page.
        verb: command that takes the configuration.
    """
    repeat = [" · repeat it, in the folder of this page: ", tag("code", verb)] if config else []
    if 'kind = "frames"' in config:
        repeat = [" · made of data frames in Python: the same frames and settings repeat it"]
    time = tag("time", f"{at.day} {at:%B %Y, %H:%M} UTC", datetime=f"{at:%Y-%m-%dT%H:%M}Z")
    return tag("p", time, f" · fedkme {__version__}", *repeat, class_="about")


def banner(text: str) -> Html:
    """Banner that a reader must not miss."""
    return tag("p", text, class_="banner")


def about(text: str) -> Html:
    """A line about the run, below the title."""
    return tag("p", text, class_="about")


def note(text: str) -> Html:
    """A paragraph that explains a section; empty without a text."""
    return tag("p", text, class_="note") if text else Html()


def notes(texts: Iterable[str]) -> Html:
    """A paragraph for each text; empty without any."""
    return joined(map(note, texts))


def judged(grade: str, lines: Sequence[str], *why: str) -> Html:
    """A verdict's lines with the colour and the mark of a grade, and the reasons below them."""
    first, *rest = lines
    words = 2 if first.startswith("Cannot tell ") else 1
    word, text = " ".join(first.split(" ")[:words]), " ".join(first.split(" ")[words:])
    reasons = (tag("p", each, class_="why") for each in why if each)
    shown = tag("p", tag("strong", word), f" {text}")
    return tag("div", shown, *(tag("p", line) for line in rest), *reasons, class_=f"verdict graded {grade}")


def tiles(entries: Iterable[tuple[str, str, str]]) -> Html:
    """The most important numbers of a page: name, value and meaning."""
    cells = (tag("div", tag("dt", name), tag("dd", value), tag("dd", text)) for name, value, text in entries)
    return tag("dl", *cells, class_="tiles")


def listing(text: str) -> Html:
    """A text file; empty without one."""
    return tag("pre", text) if text else Html()


def folded(name: str, text: Html) -> Html:
    """A part of a section that is folded away until somebody looks; empty without content."""
    return tag("details", tag("summary", name), text) if text else Html()


def faults(entries: Iterable[Mapping[str, Any]]) -> Html:
    """Owners that left a run, as metrics.json has them: `round`, `owner`, `code` and `line`."""
    rows = [
        (
            number(fault.get("round")),
            str(fault.get("owner")),
            number(fault.get("code")),
            str(fault.get("line")),
        )
        for fault in entries
    ]
    return table("The run went on without these owners.", (">round", "owner", ">code", "what happened"), rows)


def pair(figures: Iterable[Html]) -> Html:
    """Figures side by side where there is room."""
    text = joined(figures, "\n")
    return tag("div", text, class_="pair") if text else Html()


def figure(title: str, drawing: Html, caption: str) -> Html:
    """A drawing with a title and an explanation."""
    return tag("figure", tag("strong", title), drawing, tag("figcaption", caption))


def table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], wide: bool = False) -> Html:
    """A table; a column whose header starts with '>' holds numbers and is set flush right.

    On a narrow screen one that is wide, or has many or long names of columns, is a list for each row.
    """
    if not rows:
        return Html()
    styles = ["n" if name.startswith(">") else "" for name in header]
    names = [name.removeprefix(">") for name in header]
    wide = wide or len(names) >= WIDE or len("".join(names)) >= LONG
    head = (tag("th", name, scope="col", class_=style) for name, style in zip(names, styles, strict=True))
    kinds = [
        {"class_": style, "data_name": name if wide else ""}
        for style, name in zip(styles, names, strict=True)
    ]
    lines = (
        tag("tr", *(tag("td", cell, **kind) for cell, kind in zip(row, kinds, strict=True))) for row in rows
    )
    top = tag("thead", tag("tr", *head)) if any(names) else ""
    # Not a <caption>: that would wrap to the width of a narrow table.
    whole = tag("table", top, tag("tbody", joined(lines, "\n")), class_="wide" if wide else "")
    return joined([note(caption), tag("div", whole, class_="scroll")])
