"""Growth curves as a hand-written SVG: small panels, both axes logarithmic."""

import math
from html import escape

COLUMNS, WIDTH, HEIGHT = 2, 420, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 84, 40, 44
COLOURS = {"C": "#9a9a9a", "C+Lua": "#5b6770", "luv": "#2a78b5", "node": "#3d9140",
           "cqueues": "#b8860b", "CF": "#8a4fbf", "rlhost": "#d1343a"}


def decades(low, high):
    """The powers of ten that enclose the values."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    return first, max(last, first + 1)


def short(x):
    for limit, suffix in ((1e6, "M"), (1e3, "k")):
        if x >= limit:
            return f"{x / limit:g}{suffix}"
    return f"{x:g}"


def text(x, y, content, anchor="start", size=11, colour="#333", extra=""):
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" fill="{colour}"{extra}>{escape(content)}</text>'


def apart(wanted, gap=12):
    """Label positions that do not cover each other, in the order of the wanted ones."""
    placed = []
    for y in wanted:
        placed.append(max(y, placed[-1] + gap) if placed else y)
    return placed


def panel(curve, lines, left, top):
    parts = [
        text(left + LEFT, top + 20, f"{curve.title} ({curve.unit})", size=13, colour="#111",
             extra=' font-weight="600"')]
    points = [point for line in lines.values() for point in line]
    if not points:
        return parts + [text(left + LEFT, top + 60, "nothing measured")]
    x_first, x_last = decades(min(x for x, _ in points), max(x for x, _ in points))
    y_first, y_last = decades(min(y for _, y in points), max(y for _, y in points))
    x0, x1, y0, y1 = left + LEFT, left + WIDTH - RIGHT, top + HEIGHT - BOTTOM, top + TOP

    def at(x, y):
        return (x0 + (math.log10(x) - x_first) / (x_last - x_first) * (x1 - x0),
                y0 - (math.log10(y) - y_first) / (y_last - y_first) * (y0 - y1))

    for power in range(x_first, x_last + 1):
        x, _ = at(10.0 ** power, 10.0 ** y_first)
        parts.append(f'<line x1="{x:.1f}" y1="{y0}" x2="{x:.1f}" y2="{y1}" stroke="#e4e4e4"/>')
        parts.append(text(x, y0 + 16, short(10.0 ** power), "middle"))
    for power in range(y_first, y_last + 1):
        _, y = at(10.0 ** x_first, 10.0 ** power)
        parts.append(f'<line x1="{x0}" y1="{y:.1f}" x2="{x1}" y2="{y:.1f}" stroke="#e4e4e4"/>')
        parts.append(text(x0 - 6, y + 4, short(10.0 ** power), "end"))
    parts.append(text((x0 + x1) / 2, y0 + 34, curve.axis, "middle"))

    ends = []
    for name, line in lines.items():
        colour, width = COLOURS[name], 2.4 if name == "rlhost" else 1.5
        path = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        parts += ['<circle cx="{:.1f}" cy="{:.1f}" r="2.5" fill="{}"/>'.format(*at(x, y), colour) for x, y in line]
        ends.append((at(*line[-1])[1], name))
    ends.sort()
    for y, (_, name) in zip(apart([y for y, _ in ends]), ends):
        parts.append(text(x1 + 8, y + 4, name, colour=COLOURS[name]))
    return parts


def draw(panels):
    rows = (len(panels) + COLUMNS - 1) // COLUMNS
    width, height = COLUMNS * WIDTH, rows * HEIGHT + 10
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
             '<title>Cost against size: CPU time per operation</title>',
             f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for i, (curve, lines) in enumerate(panels):
        parts += panel(curve, lines, i % COLUMNS * WIDTH, i // COLUMNS * HEIGHT)
    return "\n".join([*parts, "</svg>", ""])
