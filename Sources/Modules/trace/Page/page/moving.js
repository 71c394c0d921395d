// ---- Navigation ----

function show(a, b) {
  const span = Math.max(b - a, 100), whole = Math.max(last - first, 1000) * 1.2;
  const middle = (a + b) / 2, size = Math.min(span, whole);
  from = middle - size / 2; to = middle + size / 2;
  redraw();
}
function showAll() {
  const margin = Math.max(500, (last - first) * .01);
  from = first - margin;
  to = last + margin;
  scroll = 0;
  redraw();
}
function zoom(factor, around = (from + to) / 2) {
  show(around - (around - from) * factor, around + (to - around) * factor);
}
function move(share) { const d = (to - from) * share; show(from + d, to + d); }

function choose(l, i, goes) {
  chosen = { lane: l, slice: i, out: flowsOut(l, i) };
  if (goes) {
    const length = Math.max(l.end[i] - l.start[i], lateness(l, i));
    if (l.start[i] < from || l.end[i] > to || x(l.end[i]) - x(l.start[i]) < 4)
      show(l.start[i] - length * 4 - 1e4, l.end[i] + length * 4 + 1e4);
    const y = l.y + HEAD + l.row[i] * ROW;
    if (y < RULER || y + ROW > height) scroll += y - height / 2;
  }
  describe();
  redraw();
}

// Goes to the next slice that `wanted` accepts; after the last, to the first.
function next(wanted, backwards, none = "there is none") {
  const now = chosen ? chosen.lane.start[chosen.slice] : backwards ? Infinity : -1;
  let best = null, outer = null;
  for (const l of lanes()) for (let i = 0; i < l.start.length; i++) {
    if (chosen && l === chosen.lane && i === chosen.slice || !wanted(l, i)) continue;
    const t = backwards ? -l.start[i] : l.start[i], n = backwards ? -now : now;
    if (t > n && (!best || t < best[2])) best = [l, i, t];
    if (!outer || t < outer[2]) outer = [l, i, t];
  }
  const hit = best || outer;
  if (hit) choose(hit[0], hit[1], true);
  else tell(none);
}
function tell(text) {
  $("summary").textContent = text;
  clearTimeout(tell.later);
  tell.later = setTimeout(summary, 1500);
}

let slowLimit = 1e7;
const isLate = (l, i) => lateness(l, i) >= LATE;
const isSlow = (l, i) => l.end[i] - l.start[i] >= slowLimit && !(l.state[i] & LASTS) && heldFor(l, i) >= slowLimit;
