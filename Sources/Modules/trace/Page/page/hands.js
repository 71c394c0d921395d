// ---- Input ----

function at(px, py) {
  for (let n = drawn.length - 1; n >= 0; n--) {
    const [l, i, left, y, w] = drawn[n];
    if (px >= left - 2 && px <= left + w + 2 && py >= y && py < y + ROW - 1) return [l, i];
  }
  return null;
}
// Returns the activity of the loop at a place without a callback.
function groundText(px, py) {
  const l = lanes().find(l => py >= l.y && py < l.y + l.height), time = timeAt(px);
  if (!l || px < LABEL || time < first || time > last) return "";
  if (time > l.ended) return `${l.name} has ended`;
  if (time < l.born) return "";
  const run = runAt(l, time), n = upper(l.sleeps, time) - 1;
  const mode = run ? `in mode ${label(run.mode).text}` : "in no run", waits = gapText(l, px, py, time);
  if (n < 0 || l.wakes[n] < time) return `${l.name} is awake, ${mode}${waits}`;
  return `${l.name} sleeps for ${duration(l.wakes[n] - l.sleeps[n])}, ${mode}, until ${wakeText(l, n) || "the end"}${
    waits}`;
}
// Returns a text about the wait at this place: the wait of a span between two of its pieces, or else the wait of the
// chosen task.
function gapText(l, px, py, time) {
  const gap =
    gaps.find(([own, , , left, y, w]) => own === l && px >= left && px < left + w && py >= y && py < y + ROW - 1);
  let before = gap ? gap[1] : -1, after = gap ? gap[2] : -1;
  const pieces = !gap && chosen && chosen.lane === l && l.task[chosen.slice] && piecesOf(l.task[chosen.slice]);
  for (const [, i] of pieces || []) {
    if (l.state[i] & WAITS && l.end[i] <= time && (before < 0 || l.end[i] > l.end[before])) { before = i; after = -1; }
    else if (before >= 0 && after < 0 && l.start[i] >= l.end[before]) after = i;
  }
  if (before < 0 || after >= 0 && l.start[after] <= time) return "";
  return ` · ${boxName(label(l.object[before]))}${waitText(l, before, " waits")}${
    after < 0 ? "" : " for " + duration(l.start[after] - l.end[before])}`;
}
let drag = null;
canvas.addEventListener("pointerdown", e => {
  canvas.focus({ preventScroll: true }); canvas.setPointerCapture(e.pointerId);
  drag = { px: e.offsetX, py: e.offsetY, from, to, scroll, moved: false, measures: e.shiftKey || measuring };
  if (drag.measures) { ruler = { a: timeAt(e.offsetX), b: timeAt(e.offsetX) }; measuring = false; }
});
canvas.addEventListener("pointermove", e => {
  if (drag) {
    if (Math.abs(e.offsetX - drag.px) + Math.abs(e.offsetY - drag.py) > 3) drag.moved = true;
    if (drag.measures) { ruler.b = timeAt(e.offsetX); return redraw(); }
    if (!drag.moved) return;
    const d = (drag.px - e.offsetX) / (width - LABEL) * (drag.to - drag.from);
    from = drag.from + d; to = drag.to + d; scroll = Math.max(0, drag.scroll + drag.py - e.offsetY);
    return redraw();
  }
  const hit = at(e.offsetX, e.offsetY), tip = $("tip");
  const ground = hit ? "" : groundText(e.offsetX, e.offsetY);
  tip.style.display = hit || ground ? "block" : "none";
  if (!hit && !ground) return;
  const [l, i] = hit || [], what = hit && label(l.object[i]);
  tip.textContent = ground ||
    `${what.text} · ${duration(l.end[i] - l.start[i])}${waitText(l, i, ", then waits")}${
      lateness(l, i) ? " · " + duration(lateness(l, i)) + " late" : ""}${what.place ? " · made at " + what.place : ""}`;
  tip.style.left = Math.min(e.clientX + 12, innerWidth - tip.offsetWidth - 4) + "px";
  tip.style.top = e.clientY + 16 + "px";
});
canvas.addEventListener("pointerleave", () => { $("tip").style.display = "none"; });
canvas.addEventListener("pointerup", e => {
  const was = drag;
  drag = null;
  if (!was || was.moved) return;
  ruler = null;
  const hit = at(e.offsetX, e.offsetY);
  if (hit) choose(...hit); else { chosen = null; describe(); redraw(); }
});
canvas.addEventListener("wheel", e => {
  e.preventDefault();
  if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) move((e.deltaX || e.deltaY) / 800);
  else if (e.altKey) { scroll = Math.max(0, scroll + e.deltaY); redraw(); }
  else zoom(Math.exp(e.deltaY * .0018), timeAt(e.offsetX));
}, { passive: false });
let strips = false;
const toStrip = e => {
  const middle = first + (last - first) * e.offsetX / overview.clientWidth, half = (to - from) / 2;
  show(middle - half, middle + half);
};
overview.addEventListener("pointerdown", e => { strips = true; overview.setPointerCapture(e.pointerId); toStrip(e); });
overview.addEventListener("pointermove", e => { if (strips) toStrip(e); });
overview.addEventListener("pointerup", () => { strips = false; });

let measuring = false;
const search = $("search");
search.addEventListener("input", () => {
  const text = search.value.toLowerCase();
  found = text ? what => (what.text + " " + what.place).toLowerCase().includes(text) : null;
  redraw();
});
search.addEventListener("keydown", e => {
  if (e.key === "Enter" && found) next((l, i) => found(label(l.object[i])), e.shiftKey);
  if (e.key === "Escape") { search.value = ""; found = null; canvas.focus(); redraw(); }
  e.stopPropagation();
});
const nextLate = () => next(isLate, false, "nothing is 1 ms late or more"),
      nextSlow = () => next(isSlow, false, "nothing is slow");
$("late").onclick = nextLate;
$("slow").onclick = nextSlow;
$("arrows").onclick = toggleArrows;
$("places").onclick = toggleTable;
$("all").onclick = showAll;
$("help").onclick = () => { chosen = null; describe(); redraw(); };
const KEYS = {
  w: () => zoom(.8),
  s: () => zoom(1.25),
  "+": () => zoom(.8),
  "=": () => zoom(.8),
  "-": () => zoom(1.25),
  a: () => move(-.15),
  d: () => move(.15),
  ArrowLeft: () => move(-.15),
  ArrowRight: () => move(.15),
  ArrowUp: () => {
    scroll = Math.max(0, scroll - 40);
    redraw();
  },
  ArrowDown: () => {
    scroll += 40;
    redraw();
  },
  0: showAll,
  "/": () => search.focus(),
  l: nextLate,
  n: nextSlow,
  e: toggleArrows,
  t: toggleTable,
  "?": () => {
    chosen = null;
    describe();
    redraw();
  },
  m: () => {
    measuring = true;
    tell("drag to measure");
  },
  Escape: () => {
    chosen = null;
    ruler = null;
    found = null;
    search.value = "";
    describe();
    redraw();
  },
  Enter: () => {
    if (chosen) choose(chosen.lane, chosen.slice, true);
  }
};
addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "Tab" && document.activeElement === canvas) {
    const before = chosen;
    next(() => true, e.shiftKey);
    if (chosen !== before) e.preventDefault();
    return;
  }
  const key = KEYS[e.key.length === 1 ? e.key.toLowerCase() : e.key];
  if (!key || document.activeElement && ["TH", "TR", "A"].includes(document.activeElement.tagName) && e.key === "Enter")
    return;
  if (document.activeElement && $("table").contains(document.activeElement) && e.key.startsWith("Arrow")) return;
  e.preventDefault();
  $("tip").style.display = "none";  // the tip described the old view
  key();
});
addEventListener("resize", () => { strip = null; redraw(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readTheme(); redraw(); });
// Paper is white, and of fixed width.
addEventListener("beforeprint", () => {
  printing = true;
  document.documentElement.classList.add("paper");
  strip = null;
  readTheme();
  draw();
});
addEventListener("afterprint", () => {
  printing = false;
  document.documentElement.classList.remove("paper");
  strip = null;
  readTheme();
  redraw();
});

addEventListener("DOMContentLoaded", async () => {
  readTheme();
  for (const [kind, color] of Object.entries(COLORS)) {
    if (kind === "other") continue;
    const span = document.createElement("span");
    span.textContent = kind; span.style.setProperty("--c", color); span.dataset.kind = kind;
    $("legend").append(span);
  }
  try { await load(); } catch (error) {
    $("details").textContent = "This recording cannot be read: " + error.message;
    document.documentElement.dataset.state = "failed";
    return;
  }
  if (about.processes) LABEL = 184;
  const seen = new Set(lanes().flatMap(l => [...l.objects].map(n => label(n).kind)));
  for (const span of $("legend").children) span.hidden = !seen.has(span.dataset.kind);
  if (about.title) { $("title").textContent = about.title; document.title = about.title + " – rlhost timeline"; }
  summary();
  welcome();
  showAll();
  draw();
  canvas.focus({ preventScroll: true });
  document.documentElement.dataset.state = "ready";
});
