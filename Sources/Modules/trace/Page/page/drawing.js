// ---- Drawing ----

const HEAD = 20, RULER = 22, GAP = 10, LATE = 1e6;
let LABEL = 112;  // more for the names of several processes
let ROW = 18;  // as high as there is room
let from = 0, to = 1, chosen = null, hovered = null, showsArrows = false, found = null, scroll = 0, ruler = null,
    wanted = false;
const canvas = $("lanes"), overview = $("overview");

const label = n => names.get(n) || { kind: "other", text: n ? "#" + n : "", place: "" };
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let theme = {};
function readTheme() {
  theme =
    Object.fromEntries(["back", "panel", "line", "text", "faint", "accent", "chosen"].map(n => [n, css("--" + n)]));
}

// Shows only significant digits.
const duration = ns => spelled(ns).replace(/\.0+ /, " ");
function spelled(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return (ns / 1e9).toFixed(size >= 1e10 ? 2 : 3) + " s";
  if (size >= 1e6) return (ns / 1e6).toFixed(size >= 1e8 ? 1 : 2) + " ms";
  if (size >= 1e3) return (ns / 1e3).toFixed(size >= 1e5 ? 0 : 1) + " µs";
  return ns.toFixed(0) + " ns";
}
const moment = ns => ((ns - first) / 1e9).toFixed(to - from < 1e6 ? 9 : 6) + " s";
const lateness = (l, i) => l.due[i] ? Math.max(0, l.start[i] - l.due[i]) : 0;

function laneHeight(l) { return HEAD + Math.max(1, l.rows) * ROW + 6; }
let sorted = null;
function lanes() {
  return sorted && sorted.length === threads.size ? sorted
                                                  : sorted = [...threads.values()].sort((a, b) => a.number - b.number);
}
function layout() {
  const rows = lanes().reduce((n, l) => n + Math.max(1, l.rows), 0);
  ROW = Math.max(18, Math.min(30, Math.floor((height - RULER - lanes().length * (HEAD + 6 + GAP)) / rows)));
  let y = RULER - scroll;
  for (const l of lanes()) { l.y = y; l.height = laneHeight(l); y += l.height + GAP; }
  return y + scroll;
}
const x = time => LABEL + (time - from) / (to - from) * (width - LABEL);
const timeAt = px => from + (px - LABEL) / (width - LABEL) * (to - from);
let width = 800, height = 400;

let printing = false;
function fit(element) {
  const box = element.getBoundingClientRect(), scale = printing ? 3 : window.devicePixelRatio || 1;
  element.width = Math.max(1, Math.round(box.width * scale));
  element.height = Math.max(1, Math.round(box.height * scale));
  const c = element.getContext("2d");
  c.setTransform(scale, 0, 0, scale, 0, 0);
  return [c, box.width, box.height];
}

function redraw() { if (!wanted) { wanted = true; requestAnimationFrame(() => { wanted = false; draw(); }); } }

// boxes, and where spans continue below a wait: [lane, slice, the piece after, left, top, width]
let drawn = null, gaps = [];
function draw() {
  const [c, w, h] = fit(canvas);
  width = w; height = h;
  const bottom = layout();
  if (scroll > Math.max(0, bottom - h)) { scroll = Math.max(0, bottom - h); layout(); }
  c.fillStyle = theme.back; c.fillRect(0, 0, w, h);
  c.font = "12px system-ui, sans-serif"; c.textBaseline = "middle";
  drawn = []; gaps = [];
  for (const l of lanes()) if (l.y < h && l.y + l.height > RULER) drawLane(c, l);
  drawRuler(c);
  if (showsArrows) drawAllArrows(c);
  if (chosen) drawChosen(c);
  if (ruler) drawMeasure(c);
  drawOverview();
}

function clip(text, c, room) {
  if (room < 12) return "";
  if (c.measureText(text).width <= room) return text;
  let n = Math.max(0, Math.floor(text.length * room / c.measureText(text).width) - 1);
  while (n > 1 && c.measureText(text.slice(0, n) + "…").width > room) n--;
  return n > 2 ? text.slice(0, n) + "…" : "";
}

function drawRuler(c) {
  c.fillStyle = theme.panel; c.fillRect(0, 0, width, RULER);
  c.strokeStyle = theme.line; c.fillStyle = theme.faint; c.textAlign = "left";
  let step = 10 ** Math.floor(Math.log10((to - from) / (width - LABEL) * 110));
  for (const factor of [1, 2, 5, 10]) if (step * factor / (to - from) * (width - LABEL) > 90) { step *= factor; break; }
  for (let t = Math.ceil((from - first) / step) * step + first; t < to; t += step) {
    const px = Math.round(x(t)) + .5;
    if (px < LABEL) continue;
    c.beginPath(); c.moveTo(px, 14); c.lineTo(px, height); c.globalAlpha = .5; c.stroke(); c.globalAlpha = 1;
    c.fillText(t - first === 0 ? "0" : duration(t - first), px + 3, 9);
  }
}

function drawLane(c, l) {
  const top = l.y, right = width;
  c.save();
  c.beginPath(); c.rect(0, RULER, width, height); c.clip();
  c.strokeStyle = theme.line; c.strokeRect(-1, top + .5, width + 2, l.height);
  c.beginPath(); c.rect(LABEL, RULER, width, height); c.clip();
  // Draws modes as the background, with nested runs over it.
  let before = -Infinity;
  const nothing = (to - from) / (width - LABEL) / 2;
  for (const run of l.runs) {
    if (run.end < from || run.start > to || run.end - run.start < nothing && run.start - before < nothing) continue;
    before = run.start;
    const a = Math.max(LABEL, x(run.start)), b = Math.min(right, x(run.end)),
          y = top + 1 + (run.row ? HEAD + run.row * ROW - 2 : 0);
    c.fillStyle = ground(run.mode); c.globalAlpha = run.row ? .4 : .3;
    c.fillRect(a, y, Math.max(1, b - a), top + l.height - y);
    c.globalAlpha = 1;
  }
  drawSleep(c, l);
  for (const run of l.runs) {
    if (run.end < from || run.start > to || run.end - run.start < 30 * 2 * nothing) continue;
    const a = Math.max(LABEL, x(run.start)), b = Math.min(right, x(run.end)),
          y = top + 1 + (run.row ? HEAD + run.row * ROW - 2 : 0);
    if (b - a > 30) {
      c.fillStyle = theme.faint;
      c.textAlign = "left";
      c.fillText(clip(label(run.mode).text, c, b - a - 8), a + 4, run.row ? y + l.height - (y - top) - 8 : y + 9);
    }
  }
  // A line marks the time awake.
  drawAwake(c, l, top + HEAD - 3);
  for (let row = 0; row < l.byRow.length; row++) drawRow(c, l, row, top + HEAD + row * ROW);
  for (const mark of l.marks) {
    if (mark.time < from || mark.time > to) continue;
    const px = x(mark.time);
    c.fillStyle = COLORS.span;
    c.beginPath();
    c.moveTo(px, top + HEAD);
    c.lineTo(px - 4, top + HEAD - 8);
    c.lineTo(px + 4, top + HEAD - 8);
    c.fill();
    const text = label(mark.object).text.slice(0, 200);  // Keeps the text readable over the mode's name.
    c.fillStyle = theme.back;
    c.globalAlpha = .85;
    c.fillRect(px + 5, top + HEAD - 14, c.measureText(text).width + 2, 14);
    c.globalAlpha = 1;
    c.fillStyle = theme.text; c.textAlign = "left"; c.fillText(text, px + 6, top + HEAD - 7);
  }
  c.restore();
  c.fillStyle = theme.panel;
  c.fillRect(0, Math.max(RULER, top + 1), LABEL - 4, l.height - 1 - Math.max(0, RULER - top - 1));
  c.save(); c.beginPath(); c.rect(0, RULER, LABEL - 8, height); c.clip();
  c.fillStyle = theme.text;
  c.textAlign = "left";
  c.font = "600 12px system-ui, sans-serif";
  c.fillText(clip(l.owner || l.name, c, LABEL - 16), 8, top + 11);
  c.font = "11px system-ui, sans-serif"; c.fillStyle = theme.faint;
  const alive = aliveBetween(l, from, to),
        share = Math.max(0, Math.min(1, awakeBetween(l, from, to) / Math.max(1, alive)));
  c.fillText((l.own ? l.own + " · " : "") + (alive > 0  ? "awake " + (share * 100).toFixed(share < .1 ? 1 : 0) + " %"
      : l.ended <= from ? "has ended"
                        : ""),
    8, top + 27);
  c.restore();
  c.font = "12px system-ui, sans-serif";
}

// Returns the share of sleep in the time of each pixel.
function sharesAsleep(l) {
  const key = `${from} ${to} ${width}`;
  if (l.sharesFor === key) return l.shares;
  const shares = new Float32Array(Math.max(0, Math.ceil(width - LABEL))), time = (to - from) / (width - LABEL);
  let before = asleepBefore(l, from);
  for (let n = 0; n < shares.length; n++) {
    const after = asleepBefore(l, from + (n + 1) * time);
    shares[n] = Math.max(0, Math.min(1, (after - before) / time));
    before = after;
  }
  l.sharesFor = key;
  return l.shares = shares;
}

// Sleep is drawn as empty space, since it takes most of the time.
function drawSleep(c, l) {
  const low = Math.max(0, upper(l.wakes, from) - 1), high = upper(l.sleeps, to), y = l.y + 1, h = l.height - 1;
  c.fillStyle = theme.back;
  if (high - low > 2 * (width - LABEL)) {
    // Joins neighbours of the same shade.
    const shares = sharesAsleep(l), pale = n => Math.round(shares[n] * 16) / 16;
    for (let n = 0; n < shares.length;) {
      const share = pale(n), start = n;
      while (n < shares.length && pale(n) === share) n++;
      if (share > 0) { c.globalAlpha = .78 * share; c.fillRect(LABEL + start, y, n - start, h); }
    }
  } else {
    c.globalAlpha = .78;
    for (let i = low; i < high; i++) {
      const a = Math.max(LABEL, x(l.sleeps[i])), b = Math.min(width, x(l.wakes[i]));
      if (b > a) c.fillRect(a, y, b - a, h);
    }
  }
  c.globalAlpha = 1;
}

const grounds = new Map();
function ground(mode) {
  if (!grounds.has(mode)) grounds.set(mode, GROUNDS[grounds.size % GROUNDS.length]);
  return grounds.get(mode);
}

function drawAwake(c, l, y) {
  c.fillStyle = theme.faint; c.globalAlpha = .55;
  if (!l.sleeps.length) { c.globalAlpha = 1; return; }
  const first = Math.max(0, upper(l.wakes, from) - 1), end = upper(l.sleeps, to);
  if (end - first > 3 * (width - LABEL)) {
    const shares = sharesAsleep(l);
    for (let n = 0; n < shares.length; n++)
      if (shares[n] < 1 && LABEL + n <= x(l.ended)) c.fillRect(LABEL + n, y + 2 * shares[n], 1, 2 - 2 * shares[n]);
  } else {
    let awake = first > 0 ? l.wakes[first - 1] : l.runs.length ? l.runs[0].start : from;
    for (let i = first; i <= end; i++) {
      const until = i < l.sleeps.length ? l.sleeps[i] : Math.min(last, l.ended);
      const a = Math.max(LABEL, x(awake)), b = Math.min(width, x(until));
      if (b >= a) c.fillRect(a, y, Math.max(.5, b - a), 2);
      if (i < l.wakes.length) awake = l.wakes[i];
    }
  }
  c.globalAlpha = 1;
}

function drawRow(c, l, row, y) {
  const { index, start, levels } = l.byRow[row];
  // In the last row of lasting items, an item may overlap others that began later.
  let low = row === l.callbackRows + MOST_ROWS - 1 ? 0 : Math.max(0, upper(start, from) - 1), high = upper(start, to);
  if (high - low > 2 * (width - LABEL)) {
    let level = 0, n = (high - low) / 4;
    while (level + 1 < levels.length && n > 2 * (width - LABEL)) { level++; n /= 4; }
    if (levels[level]) return drawLevel(c, levels[level], y);
  }
  for (let n = low; n < high; n++) {
    const i = index[n], a = x(l.start[i]), b = x(l.end[i]);
    if (b < LABEL || a > width) continue;
    const kind = label(l.object[i]), late = lateness(l, i), left = Math.max(LABEL, a), w = Math.max(b - left, 1.5);
    if (late > 0) {  // a tail that begins at the due date
      const due = Math.max(LABEL, x(l.due[i]));
      if (a - due > 1) {
        c.fillStyle = late >= LATE ? "#d55e00" : theme.faint; c.globalAlpha = .45;
        c.fillRect(due, y + ROW - 6, a - due, 3);  // below the names of the slices that it passes
        c.fillRect(due, y + 3, 2, ROW - 8); c.globalAlpha = 1;
      }
    }
    const dim = found && !found(kind) ? .2 : 1, lasts = l.state[i] & LASTS;
    c.fillStyle = COLORS[kind.kind]; c.globalAlpha = lasts ? dim * .4 : dim;
    c.fillRect(left, lasts ? y + 2 : y, w, lasts ? ROW - 5 : ROW - 2);
    c.globalAlpha = dim;
    if (lasts) {  // drawn pale, with its two ends
      if (left === a) c.fillRect(left, y + 2, Math.min(3, w), ROW - 5);
      if (b <= width) c.fillRect(Math.max(left, b - 1), y + 2, 1, ROW - 5);
    // a gap to the next slice
    } else if (w > 5 && left === a) { c.fillStyle = theme.back; c.fillRect(left, y, 1, ROW - 2); }
    if (l.state[i] & FAILED) { c.fillStyle = "#d00000"; c.fillRect(left, y, w, 3); }
    if (w > 26) {
      c.fillStyle = "#ffffff";
      if (["timer", "span", "task", "observer"].includes(kind.kind)) c.fillStyle = "#000000";
      if (lasts) c.fillStyle = theme.text;
      c.textAlign = "left";
      c.fillText(boxText(c, kind, l.end[i] - l.start[i], w - 6), left + 3, y + ROW / 2 - 1);
    }
    // If the task waited in a span, the span continues in another piece.
    const rest = kind.kind === "span" && l.state[i] & WAITS ? pieceAfter(l, i) : -1;
    if (rest >= 0 && x(l.start[rest]) > b) {
      const start = Math.max(LABEL, b), room = Math.min(width, x(l.start[rest])) - start;
      c.globalAlpha = dim * .35;
      c.fillStyle = COLORS.span;
      c.fillRect(start, y + 2, room, ROW - 5);
      c.globalAlpha = dim;
      if (gaps.length < 20000) gaps.push([l, i, rest, start, y, room]);
      if (room > 26 && w <= 26) {
        c.fillStyle = theme.text;
        c.textAlign = "left";
        c.fillText(boxText(c, kind, l.end[rest] - l.start[i], room - 6), start + 3, y + ROW / 2 - 1);
      }
    }
    c.globalAlpha = 1;
    if (drawn.length < 20000) drawn.push([l, i, left, y, w]);
  }
}

// An object without a name is identified by the place where it was made.
const UNNAMED = new Set(["timer", "source", "port", "observer", "request", "task", "message"]);
function boxName({ kind, text, place }) {
  return UNNAMED.has(kind) && !text.includes('"') && place.includes(":") ? text + " " + place.replace(/.*\//, "")
                                                                         : text;
}

function boxText(c, what, time, room) {
  const name = boxName(what), width = c.measureText(name).width;
  if (width > room) return clip(what.text, c, room);
  const long = name + "  " + duration(time);
  return c.measureText(long).width <= room ? long : name;
}

function drawLevel(c, level, y) {
  const low = Math.max(0, upper(level.from, from) - 1), high = upper(level.from, to);
  let object = -1, color = "", alpha = 0;
  for (let i = low; i < high; i++) {
    const a = Math.max(LABEL, x(level.from[i])), b = x(level.to[i]);
    if (b < LABEL) continue;
    // Changing the brush takes longer than using it.
    if (level.kind[i] !== object) {
      object = level.kind[i];
      const wanted = COLORS[label(object).kind];
      if (wanted !== color) c.fillStyle = color = wanted;
    }
    const share =
      .25 + .75 * Math.round(16 * Math.min(1, level.busy[i] / Math.max(1, level.to[i] - level.from[i]))) / 16;
    if (share !== alpha) c.globalAlpha = alpha = share;
    c.fillRect(a, y, Math.max(1, b - a), ROW - 2);
  }
  c.globalAlpha = 1;
}

function place(l, i) { return { px: x(l.start[i]), py: l.y + HEAD + l.row[i] * ROW + ROW / 2 - 1 }; }

function arrow(c, a, b) {
  const dx = b.px - a.px, dy = b.py - a.py, length = Math.hypot(dx, dy) || 1;
  c.beginPath(); c.moveTo(a.px, a.py);
  const bend = Math.max(12, Math.min(80, Math.abs(dx) / 2));
  c.bezierCurveTo(a.px + bend, a.py, b.px - bend, b.py, b.px, b.py); c.stroke();
  const angle = Math.atan2(dy, bend);
  c.beginPath(); c.moveTo(b.px, b.py); c.lineTo(b.px - 7, b.py - 4); c.lineTo(b.px - 7, b.py + 4); c.fill();
}

function endpoint(end) {
  return end.slice >= 0 ? { px: x(end.time), py: place(end.lane, end.slice).py }
                        : { px: x(end.time), py: end.lane.y + HEAD - 3 };
}

function drawFlow(c, flow) {
  const a = sent(flow);
  if (!a) return;
  if (flow >= MESSAGES) c.strokeStyle = c.fillStyle = COLORS.nats;
  for (const b of arrived(flow)) arrow(c, endpoint(a), endpoint(b));
  if (flow >= MESSAGES) c.strokeStyle = c.fillStyle = theme.accent;
}

const MOST_ARROWS = 3000;
function drawAllArrows(c) {
  c.save(); c.beginPath(); c.rect(LABEL, RULER, width, height); c.clip();
  c.strokeStyle = c.fillStyle = theme.accent; c.globalAlpha = .5; c.lineWidth = 1;
  const shown = [];
  for (const l of lanes()) {
    const arrivals = arrivalsOf(l);
    for (let n = 0; n < l.outCount; n++)
      if (Math.max(l.outTimes[n], arrivals[n]) >= from && Math.min(l.outTimes[n], arrivals[n]) <= to)
        shown.push(l.outFlows[n]);
  }
  // If there are too many arrows to distinguish, draws some of each moment.
  for (let n = 0, step = Math.max(1, shown.length / MOST_ARROWS); n < shown.length; n += step)
    drawFlow(c, shown[Math.floor(n)]);
  c.restore();
}

function drawChosen(c) {
  const { lane: l, slice: i } = chosen, at = place(l, i);
  c.save(); c.beginPath(); c.rect(LABEL, RULER, width, height); c.clip();
  c.strokeStyle = theme.chosen; c.lineWidth = 2;
  c.strokeRect(x(l.start[i]) - 1, at.py - ROW / 2, Math.max(3, x(l.end[i]) - x(l.start[i])) + 2, ROW);
  c.strokeStyle = c.fillStyle = theme.accent; c.lineWidth = 1.5;
  if (l.flow[i]) drawFlow(c, l.flow[i]);
  for (const flow of flowsIn(l, i)) drawFlow(c, flow);
  for (const flow of chosen.out) drawFlow(c, flow);
  // The pieces of a task are joined.
  const pieces = l.task[i] && piecesOf(l.task[i]);
  if (pieces) {
    c.setLineDash([4, 3]); c.beginPath();
    pieces.forEach(([p, n], k) => {
      const { py } = place(p, n);
      if (k) c.lineTo(x(p.start[n]), py);
      c.moveTo(x(p.end[n]), py);
    });
    c.stroke(); c.setLineDash([]);
  }
  c.restore();
}

function drawMeasure(c) {
  const a = x(Math.min(ruler.a, ruler.b)), b = x(Math.max(ruler.a, ruler.b));
  c.fillStyle = theme.accent; c.globalAlpha = .15; c.fillRect(a, RULER, b - a, height); c.globalAlpha = 1;
  c.strokeStyle = theme.accent;
  c.beginPath();
  c.moveTo(a, RULER);
  c.lineTo(a, height);
  c.moveTo(b, RULER);
  c.lineTo(b, height);
  c.stroke();
  c.fillStyle = theme.text; c.textAlign = "center"; c.font = "600 13px system-ui, sans-serif";
  c.fillText(duration(Math.abs(ruler.b - ruler.a)), Math.max(LABEL + 40, (a + b) / 2), RULER + 12);
  c.font = "12px system-ui, sans-serif";
}

let strip = null;
function drawOverview() {
  const [c, w, h] = fit(overview);
  if (!strip || strip.w !== w) {
    const all = lanes(), share = new Float64Array(Math.ceil(w));
    for (let px = 0; px < share.length; px++) {
      const a = first + (last - first) * px / w, b = first + (last - first) * (px + 1) / w;
      for (const l of all)
        if (l.sleeps.length || l.runs.length)
          share[px] = Math.max(share[px], awakeBetween(l, a, b) / Math.max(1, b - a));
    }
    strip = { w, share };
  }
  c.fillStyle = theme.panel; c.fillRect(0, 0, w, h);
  c.fillStyle = theme.accent;
  for (let px = 0; px < strip.share.length; px++) {
    const s = Math.max(0, Math.min(1, strip.share[px]));
    c.fillRect(px, h - 2 - s * (h - 6), 1, s * (h - 6) + (s > 0 ? 1 : 0));
  }
  const a = (from - first) / (last - first || 1) * w, b = (to - first) / (last - first || 1) * w;
  c.fillStyle = theme.back; c.globalAlpha = .6; c.fillRect(0, 0, a, h); c.fillRect(b, 0, w - b, h); c.globalAlpha = 1;
  c.strokeStyle = theme.text; c.strokeRect(a + .5, .5, Math.max(2, b - a - 1), h - 1);
}
