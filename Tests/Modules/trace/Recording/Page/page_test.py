"""Tests of the page that shows a recording, in a headless Chromium: page_test.py KNOWN.html ODD.html CUT.html LONG.html
ENDS.html JOINED.html

KNOWN is the recording of PageTests.swift, which describes its events and their times. Each test is a function that gets
a freshly opened page; its description is printed after "ok"."""

import contextlib
import sys

from browser import Browser

TESTS = []
MS = 1e6


def test(story, file=0, before="", **browser):
    """`before`: a script that runs in the page before its own scripts."""
    def add(function):
        TESTS.append((story, function, file, before, browser))
        return function
    return add


def equal(found, wanted, what=""):
    assert found == wanted, f"{what or 'found'}: {found!r}, not {wanted!r}"


class Shown:
    """Computes where events are drawn, from their times and from the range of time that the page reports."""

    def __init__(self, page):
        self.page = page
        self.box = page.evaluate(
            "(r => [r.left, r.top, r.width, r.height])(document.getElementById('lanes').getBoundingClientRect())")

    def x(self, ms):
        start, end, first = self.page.evaluate("[from, to, first]")
        return 112 + (first + ms * MS - start) / (end - start) * (self.box[2] - 112)

    def y(self, lane, row=0):
        top, height = self.page.evaluate(f"[lanes()[{lane}].y + 20, ROW]")
        return top + row * height + height / 2 - 1

    def color(self, ms, lane, row=0):
        """Returns the color of the pixel there."""
        return self.page.evaluate(
            f"[...canvas.getContext('2d').getImageData({round(self.x(ms))}, {round(self.y(lane, row) + 6)}, 1, "
            f"1).data].slice(0, 3)")

    def click(self, ms, lane, row=0):
        self.page.click(self.box[0] + self.x(ms), self.box[1] + self.y(lane, row))


def details(page):
    return page.evaluate("document.getElementById('details').innerText")


def chosen(page):
    return page.evaluate(
        "chosen && label(chosen.lane.object[chosen.slice]).text + ' at ' + ((chosen.lane.start[chosen.slice] - first) "
        "/ 1e6).toFixed(1)")


TIMER, PORT, REQUEST, OBSERVER, SPAN = [230, 159, 0], [0, 114, 178], [204, 121, 167], [153, 153, 153], [184, 168, 0]


@test("boxes are where they must be, in the colour of their kind, and sleep is emptiness")
def boxes(page):
    shown = Shown(page)
    equal(page.evaluate("lanes().map(l => l.name)"), ["main", "worker"])
    equal(shown.color(10.5, 0), TIMER, "the first poll")
    equal(shown.color(35, 0), TIMER, "save")
    equal(shown.color(52, 0), TIMER, "the second poll")
    equal(shown.color(75, 0, 1), PORT, "the port in the modal run")
    equal(shown.color(58, 1), REQUEST, "the request")
    for ms, lane in ((5, 0), (15, 0), (95, 0), (30, 1), (90, 1)):
        color = shown.color(ms, lane)
        assert min(color) > 225, f"the loop sleeps at {ms} ms, but there is {color}"
    count = page.evaluate("drawn.length")
    equal(count, 12, "boxes drawn")


@test("a tail leads from the date to the box")
def tails(page):
    # On the second row nothing else hides the tail of poll, which is due at 70 ms and begins at 80.2.
    shown = Shown(page)
    middle = shown.y(0) + page.evaluate("ROW") / 2 - 4
    pixel = lambda ms: page.evaluate(
        f"[...canvas.getContext('2d').getImageData({round(shown.x(ms))}, {round(middle)}, 1, 1).data].slice(0, 3)")
    red, green, blue = pixel(79.6)
    assert red > green + 20 and red > blue + 20, f"the tail is {(red, green, blue)}"
    red, green, blue = pixel(82)
    assert max(red, green, blue) - min(red, green, blue) < 40, "behind the box there is none"


@test("the keys W S A D, arrows, plus, minus and 0 zoom and move")
def keys(page):
    span = lambda: page.evaluate("to - from")
    start = lambda: page.evaluate("from")
    whole, left = span(), start()
    page.key("w")
    equal(round(span() / whole, 3), 0.8)
    page.key("s")
    equal(round(span() / whole, 3), 1.0)
    page.key("+")
    page.key("-")
    equal(round(span() / whole, 3), 1.0)
    page.key("d")
    assert start() > left
    page.key("a")
    equal(round((start() - left) / whole, 6), 0)
    page.key("ArrowRight")
    page.key("w")
    page.key("ArrowLeft")
    page.key("0")
    equal((span(), start()), (whole, left))


@test("L and N go to what is late and slow, Tab to the next, Escape to none")
def jumps(page):
    page.key("l")
    equal(chosen(page), 'timer "poll" at 50.5')
    page.key("l")
    equal(chosen(page), 'timer "poll" at 80.2')
    page.key("l")
    equal(chosen(page), 'timer "poll" at 50.5')
    # The poll at 60 ms does not count: the loop ran in it.
    page.key("n")
    equal(chosen(page), 'timer "save" at 20.0')
    page.key("Tab")
    equal(chosen(page), 'timer "poll" at 50.5')
    page.key("Tab", shift=True)
    equal(chosen(page), 'timer "save" at 20.0')
    page.key("Escape")
    equal(chosen(page), None)
    assert "What stands out" in details(page)


@test("a click tells what it is, why it is late, who woke it and whom it woke, and the steps of its pass")
def click(page):
    shown = Shown(page)
    shown.click(51, 0)
    text = details(page)
    for line in (
        'timer "poll"',
        "made at\napp.lua:12",
        "mode\ndefault",
        "thread\nmain",
        "(30.50 ms late)",
        "ran for\n5 ms",
        "missed\n3 intervals",
        'late because\ntimer "save" held the loop for 30 ms',
        "woke\nrequest app.lua:33 on worker",
        "wrote\n4096 bytes: connection to example"):
        assert line in text, f"{line!r} is not in {text!r}"
    equal(page.evaluate("document.querySelectorAll('#details ol > li').length"), 10, "steps")
    assert "observers: before timers" in text and "asleep" not in text
    page.evaluate(
        "[...document.querySelectorAll('#details a')].find(a => a.textContent === 'request app.lua:33 on "
        "worker').click()")
    text = details(page)
    for line in (
        "thread\nworker",
        "woken by\ntimer \"poll\" on main",
        "loop woke\nwoken by thread main · perform",
        "then waits in stream:read\n",
        "task\npiece 1 of 2",
        "the piece after"):
        assert line in text, f"{line!r} is not in {text!r}"
    page.evaluate("[...document.querySelectorAll('#details a')].find(a => a.textContent === 'the piece after').click()")
    assert "piece 2 of 2" in details(page) and "waits" not in details(page)
    page.key("0")
    shown.click(95, 0)
    assert "What stands out" in details(page), "a click on nothing chooses nothing"


@test(
    "what lasts lies below the callbacks, and a click tells how long, in what it began and ended, and what it came to"
)
def lasting(page):
    shown = Shown(page)
    shown.click(65, 0, 3)
    text = details(page)
    for line in (
        "GET /poll",
        "kind\nHTTP request",
        "began in\ntimer \"poll\"",
        "lasted\n26.40 ms",
        "ended in\nport \"keyboard\"",
        "status\n503",
        "outcome\nfailed"):
        assert line in text, f"{line!r} is not in {text!r}"
    page.evaluate(
        "[...document.querySelectorAll('#details a')].find(a => a.textContent === 'port \"keyboard\"').click()")
    equal(chosen(page), 'port "keyboard" at 73.0')
    page.key("0")
    shown.click(65, 0, 2)
    text = details(page)
    for line in (
        "connection to example",
        "made at\napp.lua:50",
        "kind\nconnection",
        "lasts\n99.99 ms, and goes on at the end",
        "wrote\n4096 bytes"):
        assert line in text, f"{line!r} is not in {text!r}"
    assert "began in" not in text and "outcome" not in text, text
    page.key("0")
    shown.click(56, 0, 4)
    text = details(page)
    for line in (
        'query "select 1" of postgres "a"',
        "kind\ndatabase call",
        "lasted\n9 ms",
        "rows\n42",
        "waited for a connection\n1.50 ms"):
        assert line in text, f"{line!r} is not in {text!r}"
    page.key("t")
    assert (
        page.evaluate(
            "[...document.querySelectorAll('tbody tr')].map(tr => tr.cells[0].textContent + tr.cells[3].textContent)"
        ).count("GET /poll26.40 ms")
        == 1)


@test("the steps of a pass have what happened in them")
def steps(page):
    Shown(page).click(11, 0)
    entries = page.evaluate("[...document.querySelectorAll('#details ol > li')].map(li => li.innerText)")
    assert 'observer "redraw"' in entries[1], entries[1]
    assert entries[6].startswith("asleep for 9.") and entries[6].endswith(
        'until a timer was due: timer "poll"'
    ), entries[6]
    assert 'timer "poll"' in entries[8], entries[8]
    assert "not in this pass" not in entries[0] and "not in this pass" in entries[9], entries


@test("what stands out is said: who held the loop, what came late, which mode starved whom")
def findings(page):
    lines = page.evaluate("[...document.querySelectorAll('#findings li')].map(li => li.innerText)")
    assert (
        'timer "save" held main for 30 ms; one callback was late by it, by 30.50 ms. made at app.lua:14' in lines
    ), lines
    assert (
        'timer "poll" was due while main ran in mode modal, which does not serve it: once late, '
        'by 10.20 ms. made at app.lua:12'
        in lines
    ), lines
    page.evaluate("document.querySelector('#findings a').click()")
    assert chosen(page)


@test("a search dims what it does not find, and Enter goes from one to the next")
def search(page):
    page.key("/")
    equal(page.evaluate("document.activeElement.id"), "search")
    for letter in "poll":
        page.key(letter)
    shown = Shown(page)
    equal(shown.color(10.5, 0), TIMER)
    assert shown.color(58, 1) != REQUEST
    page.key("Enter")
    equal(chosen(page), 'timer "poll" at 10.0')
    page.key("Enter")
    equal(chosen(page), 'timer "poll" at 50.5')
    page.key("Enter", shift=True)
    equal(chosen(page), 'timer "poll" at 10.0')
    page.key("Escape")
    equal(page.evaluate("document.activeElement.id"), "lanes")
    page.key("0")
    equal(shown.color(58, 1), REQUEST)


@test("the table counts, sorts by each column, and jumps")
def table(page):
    page.key("t")
    cells = lambda: page.evaluate(
        "[...document.querySelectorAll('tbody tr')].map(tr => [...tr.cells].map(c => c.textContent))")
    poll = next(row for row in cells() if 'timer "poll"' in row[0])
    equal(poll[:7], ['timer "poll"  app.lua:12', "4", "26 ms", "19 ms", "1 ms", "5 ms", "2"])
    for key in ("name", "count", "total", "longest", "p50", "p99", "late", "worst"):
        page.evaluate(f"document.querySelector('th[data-key={key}]').click()")
        down = page.evaluate(f"document.querySelector('th[data-key={key}]').getAttribute('aria-sort')")
        values = page.evaluate(f"rows.map(r => r['{key}'])")
        wanted = sorted(
            values, key=lambda value: value.lower() if isinstance(value, str) else value, reverse=down == "descending")
        equal(values, wanted, key)
    page.evaluate("document.querySelector('th[data-key=longest]').click()")
    page.evaluate("document.querySelector('th[data-key=longest]').click()")
    page.evaluate("document.querySelector('tbody tr').focus()")
    page.key("Enter")
    assert chosen(page), "Enter in a row goes to its longest"
    page.key("t")
    equal(page.evaluate("document.getElementById('table').hidden"), True)


@test("arrows are drawn for the chosen box, and for all by a key")
def arrows(page):
    # The arrow begins at 51 ms and ends at 57 ms, and nothing else is drawn between them.
    count = lambda: page.evaluate(
        """(() => { const c = canvas.getContext('2d'), y = (lanes()[0].y + lanes()[0].height) | 0, w = canvas.width;
      const data = c.getImageData(112, y + 3, w - 112, 1).data; let n = 0;
      for (let i = 0; i < data.length; i += 4) if (data[i + 2] - data[i] > 25) n++; return n; })()"""
    )
    equal(count(), 0)
    page.key("e")
    assert count() > 0, "all arrows"
    page.key("e")
    equal(count(), 0)
    Shown(page).click(51, 0)
    assert count() > 0, "that of the chosen box"


@test("the ruler measures a distance")
def ruler(page):
    shown = Shown(page)
    left, top = shown.box[:2]
    page.drag(left + shown.x(20), top + 300, left + shown.x(50), top + 300, shift=True)
    equal(round(page.evaluate("(ruler.b - ruler.a) / 1e6")), 30)
    page.key("Escape")
    equal(page.evaluate("ruler"), None)


@test("drag, wheel and the overview move and zoom")
def mouse(page):
    shown = Shown(page)
    left, top, width, height = shown.box
    page.key("w")
    before = page.evaluate("from")
    page.drag(left + 600, top + 300, left + 500, top + 300)
    assert page.evaluate("from") > before
    span = page.evaluate("to - from")
    page.wheel(left + 600, top + 300, -200)
    assert page.evaluate("to - from") < span
    page.click(left + 10, top - 20)
    assert page.evaluate("(from + to) / 2 < first + (last - first) / 10"), "the strip's left is the beginning"
    page.mouse("mouseMoved", left + shown.x(5), top + shown.y(0))
    page.key("0")
    page.mouse("mouseMoved", left + shown.x(5), top + shown.y(0) + 3)
    tip = page.evaluate("document.getElementById('tip').textContent")
    equal(tip, "main sleeps for 9.99 ms, in mode default, until a timer was due: timer \"poll\"")


@test("the pointer says in what a piece waits, and between two pieces, what waits there, in what and for how long")
def waiting(page):
    shown = Shown(page)
    left, top = shown.box[:2]

    def tip(ms, lane=1):
        page.mouse("mouseMoved", left + shown.x(ms), top + shown.y(lane))
        return page.evaluate("document.getElementById('tip').textContent")

    assert "waits" not in tip(61), "nothing is chosen"
    equal(tip(58), "request · 3 ms, then waits in stream:read · made at app.lua:33")
    equal(tip(62.5), "request · 1 ms · made at app.lua:33")
    for piece in (58, 62.5):
        shown.click(piece, 1)
        text = (
            "worker sleeps for 1.90 ms, in mode default, until a descriptor became ready"
            " · request app.lua:33 waits in stream:read for 2 ms")
        equal(tip(61), text)
        assert "waits" not in tip(30) + tip(90) + tip(55, 0), "it had not begun, or has ended; or it is another loop's"


@test("it says how long, how many, and how late")
def summary(page):
    equal(page.evaluate("document.getElementById('summary').textContent"),
          "100 ms · 2 loops · 9 callbacks · 2 late · longest 30 ms · 1 connection · 1 HTTP request · 1 database call")
    equal(page.evaluate("document.title"), "app.lua – rlhost timeline")
    equal(
        page.evaluate("[...document.querySelectorAll('#legend span')].filter(s => !s.hidden).map(s => s.textContent)"),
        ["timer", "port", "observer", "request", "stream", "http", "data"])
    equal(page.evaluate("performance.getEntriesByType('resource').length"), 0, "nothing is loaded from anywhere")


@test("a thread whose loop has ended counts for nothing from then on", file=4)
def ended(page):
    Shown(page)
    share = page.evaluate("strip.share[Math.floor(strip.share.length * .8)]")
    assert share < .01, f"the strip says {share} where one loop sleeps and the other has ended"
    awake = page.evaluate("(l => awakeBetween(l, first, last) / aliveBetween(l, first, last))(lanes()[1])")
    assert abs(awake - .6 / 10.5) < .01, awake
    page.mouse("mouseMoved", Shown(page).box[0] + Shown(page).x(70), Shown(page).box[1] + Shown(page).y(1))
    equal(page.evaluate("document.getElementById('tip').textContent"), "worker has ended")


@test("time in which a thread was not scheduled is not its callback's", file=4)
def delayed(page):
    lines = page.evaluate("[...document.querySelectorAll('#findings li')].map(li => li.innerText)")
    assert lines[0].startswith("main was not scheduled for 29 ms"), lines
    assert not any("held main" in line for line in lines), lines
    Shown(page).click(35, 0)
    assert "ran for\n30 ms, but was not scheduled for 29 ms of it" in details(page), details(page)


@test("the requests of a route are one row of the table", file=4)
def routes(page):
    page.key("t")
    rows = page.evaluate(
        "[...document.querySelectorAll('tbody tr')].map(tr => tr.cells[0].textContent + ' ' + tr.cells[1].textContent)")
    assert "GET /item/:id 3" in rows and not any("/item/1" in row for row in rows), rows


@test("requests of a client whose paths differ in numbers only are one row of the table", file=4)
def numbered(page):
    page.key("t")
    rows = page.evaluate(
        "[...document.querySelectorAll('tbody tr')].map(tr => tr.cells[0].textContent + ' ' + tr.cells[1].textContent)")
    base = "GET http://1.2.3.4:80/v1/item/"
    equal(sorted(row for row in rows if row.startswith(base)), [base + "* 3", base + "decade 1"])


@test("dark where the system is", dark=True)
def dark(page):
    color = page.evaluate("[...canvas.getContext('2d').getImageData(300, canvas.height - 5, 1, 1).data].slice(0, 3)")
    assert max(color) < 50, color
    equal(Shown(page).color(10.5, 0), TIMER)


@test("in a narrow window the details are below, and nothing is cut", width=420, height=800)
def narrow(page):
    equal(page.evaluate("document.documentElement.scrollWidth <= innerWidth"), True)
    assert page.evaluate(
        "document.getElementById('details').getBoundingClientRect().top >= canvas.getBoundingClientRect().bottom - 1")
    assert page.evaluate("canvas.getBoundingClientRect().height > 200")
    equal(Shown(page).color(35, 0), TIMER)


@test("on paper it is white, and as sharp as paper is, whatever the screen was", dark=True)
def paper(page):
    corner = lambda: page.evaluate(
        "[...canvas.getContext('2d').getImageData(canvas.width - 2, canvas.height - 2, 1, 1).data].slice(0, 3)")
    assert max(corner()) < 60, "the screen is dark"
    width = page.evaluate("canvas.width")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    equal(corner(), [255, 255, 255])
    equal(page.evaluate("canvas.width"), 3 * 760)
    page.evaluate("dispatchEvent(new Event('afterprint')); draw()")
    assert max(corner()) < 60, "the screen is dark again"
    equal(page.evaluate("canvas.width"), width)


@test("a box without a name of its own has its place; what a callback held its loop for is without the runs in it")
def boxes_names(page):
    shown = page.evaluate("lanes().flatMap(l => [...l.object].map(n => boxName(label(n))))")
    assert "request app.lua:33" in shown and 'timer "poll"' in shown and "GET /poll" in shown, shown
    poll = page.evaluate("(l => heldFor(l, [...l.start].findIndex((t, i) => l.end[i] - t === 19e6)))(lanes()[0]) / 1e6")
    equal(poll, 1)


@test("it can be printed: no buttons, all of the text")
def printing(page):
    page.call("Emulation.setEmulatedMedia", media="print")
    equal(page.evaluate("getComputedStyle(document.getElementById('late')).display"), "none")
    assert page.evaluate(
        "document.getElementById('details').scrollHeight <= document.getElementById('details').clientHeight + 1")
    assert len(page.call("Page.printToPDF")["data"]) > 10000


@test("names are text, whatever they hold, and complete slices lie where they belong", file=1)
def odd(page):
    equal(page.evaluate("document.title"), "<img src=x onerror=fail()> – rlhost timeline")
    equal(page.evaluate("document.images.length"), 0)
    equal(page.evaluate("lanes()[0].byRow.map(r => r.index.length)"), [1, 2, 1], "rows")
    # The two pieces of a span are joined, and the third is another span.
    equal(page.evaluate("[0, 1, 2].map(i => pieceAfter(lanes()[1], i))"), [1, -1, -1], "pieces")
    shown = Shown(page)
    red, green, blue = shown.color(0.000040, 1)
    assert blue < red - 30 and blue < green - 30, f"between them lies {(red, green, blue)}"
    page.mouse("mouseMoved", shown.box[0] + shown.x(0.000040), shown.box[1] + shown.y(1))
    tip = page.evaluate("document.getElementById('tip').textContent")
    assert tip.startswith("thread 1 is awake, in no run · load waits in rl.sleep for "), tip
    page.key("t")
    assert page.evaluate("document.querySelector('tbody').textContent.includes('</script><b>')")
    assert "17 earlier records were dropped" in page.evaluate("document.getElementById('summary').textContent")


@test("a file that ends early shows what is there, and says so", file=2)
def cut(page):
    assert "it ends early" in page.evaluate("document.getElementById('summary').textContent")
    assert page.evaluate("lanes().length") >= 1


def ticks(page):
    """Checks place and length of each tick of both loops: the first, the last, and all."""
    equal(page.evaluate("[threads.size, about.title]"), [2, "long"])
    wrong = page.evaluate(
        """lanes().map(l => [l.start.length, l.sleeps.length, [...l.start].filter((time, i) =>
      time - first !== i * 1e6 || l.end[i] - time !== i + 1
      || l.missed[i] !== i + 1 || l.due[i] !== time || l.sleeps[i + 1] !== l.end[i] ||
      label(l.object[i]).text !== 'timer "tick"').length])"""
    )
    equal(wrong, [[12000, 12001, 0]] * 2)


@test("many chunks are read in other threads, and come in their order", file=3)
def many(page):
    ticks(page)
    page.evaluate("show(first + 5998.5e6, first + 6000.5e6)")
    page.frame()
    equal(
        page.evaluate("drawn.map(([l, i]) => l.number + ' ' + i).join()"), "0 5999,0 6000,1 5999,1 6000", "boxes drawn")


@test("and the same without other threads, where a browser has none", file=3, before="delete window.Worker")
def alone(page):
    equal(page.evaluate("typeof Worker"), "undefined")
    ticks(page)


@test(
    "and where they do not start",
    file=3,
    before="window.Worker = class { constructor() { setTimeout(() => this.onerror(), 50); } "
    "postMessage() {} terminate() {} }",
)
def broken(page):
    ticks(page)


@test("processes of several machines have lanes with their names, one clock, and its error in the head", file=5)
def machines(page):
    equal(page.evaluate("lanes().map(l => l.owner + '|' + l.own)"), ["p1.lua 7@m1|main", "p2.lua 7@m2|main",
                                                                   "p3.lua 7@m3|main"])
    # The round trip takes 6 ms, of which 2 ms are work, so the clocks are known to 2 ms.
    summary = page.evaluate("document.getElementById('summary').textContent")
    assert "clocks by the time of day, which may be wrong: p3.lua 7; others ± 2 ms" in summary, summary
    title = page.evaluate("document.getElementById('summary').title")
    equal(title.split("\n"), ["p1.lua 7 on m1: the clock of the first one", "p2.lua 7 on m2: ± 2 ms",
                              "p3.lua 7 on m3: by its machine's time of day"])
    times = page.evaluate("lanes().slice(0, 2).map(l => l.start[0] - first)")
    equal(times[1] - times[0], 2e6, "the middle between the bounds")


@test("arrows lead from a request to the callback that answers, and from the answer back", file=5)
def messages(page):
    flows = page.evaluate(
        "lanes().flatMap(l => [...l.outFlows].map(f => [l.own && l.number, sent(f).slice >= 0, arrived(f).map(e => "
        "e.lane.number + ' ' + label(e.lane.object[e.slice]).text)]))")
    equal(flows, [[0, True, ["1 task"]], [1, True, ["0 task"]]])
    page.evaluate("choose(lanes()[0], lanes()[0].lasts[0].slice, true)")
    text = details(page)
    for words in ("NATS request", "message to\ntask p.lua:2 on p2.lua 7@m2: main",
                  "answer from\ntask p.lua:2 on p2.lua 7@m2: main"):
        assert words in text, text
    page.evaluate("choose(lanes()[1], 0, true)")
    text = details(page)
    for words in ("message from\ntimer p.lua:1 on p1.lua 7@m1: main", "message to\ntask p.lua:2 on p1.lua 7@m1: main"):
        assert words in text, text
    page.evaluate("choose(lanes()[0], 0, true)")
    page.frame()
    shown = Shown(page)
    color = page.evaluate(
        "(() => { const a = endpoint(sent(lanes()[0].outFlows[0])), data = canvas.getContext('2d').getImageData("
        "Math.round(a.px) - 2, Math.round(a.py) + 12, 40, 60).data; for (let i = 0; i < data.length; i += 4) if "
        "(data[i] > 140 && data[i + 1] < 90 && data[i + 2] > 80 && data[i + 2] < 140) return true; return false; })()")
    assert color and shown, "an arrow in the colour of messages leads down"


def main(files):
    failed = 0
    with contextlib.ExitStack() as stack:
        # All browsers start at the same time.
        browsers = [(options, stack.enter_context(Browser(**options)))
                    for options in ({}, {"dark": True}, {"width": 420, "height": 800})]
        for options, browser in browsers:
            for story, function, file, before, wanted in TESTS:
                if wanted != options:
                    continue
                page = browser.open("file://" + files[file], before)
                try:
                    page.wait("['ready', 'failed'].includes(document.documentElement.dataset.state)", 60)
                    equal(page.evaluate("document.documentElement.dataset.state"), "ready", "state")
                    page.frame()
                    function(page)
                    print("ok", story)
                except (AssertionError, RuntimeError) as error:
                    failed += 1
                    print("failed", story + ":", error)
                # An open page would continue to use the processor.
                page.close()
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(sys.argv[1:])
