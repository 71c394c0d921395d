// A recording is a number of chunks, scripts of the type text/x-rlhost. Each is base64: "z" compressed as gzip does or "r" as it is, then "n" names as
// JSON or "e" events of 32 bytes:
//   u64 nanoseconds · u8 kind · u8 flags · u16 thread · u32 object · u64 a · u32 flow · u32 task
const BEGIN = 1, END = 2, RUN = 3, RUN_END = 4, PASS = 5, PASS_END = 6, SLEEP = 7, WAKE = 8, OUT = 9, IN = 10, MARK = 11, WHOLE = 12, BYTES = 13,
  STEP = 14;
const WAITS = 1, FAILED = 2;  // flags of END
const REASONS = ["", "a timer was due", "a descriptor became ready", "a wake-up", "a signal", "its time was over"];
const RESULTS = ["", "finished", "stopped", "timed out", "handled a source"];
// Okabe and Ito's colours, which the colour-blind can tell apart.
const COLORS = { timer: "#e69f00", source: "#009e73", port: "#0072b2", observer: "#999999", request: "#cc79a7", task: "#56b4e9", message: "#d55e00",
  span: "#b8a800", collector: "#7a4e2d", stream: "#4f7cac", program: "#7f5aa2", other: "#888888" };
const GROUNDS = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#999999", "#0072b2", "#f0e442"];
const $ = id => document.getElementById(id);

const names = new Map();      // number -> { text, place, kind }
const threads = new Map();    // number -> lane
const texts = new Map();
let about = {};

class Column {                // a growing array of numbers
  constructor(type = Float64Array) { this.type = type; this.data = new type(16); this.length = 0; }
  push(value) {
    if (this.length === this.data.length) { const more = new this.type(this.length * 4); more.set(this.data); this.data = more; }
    this.data[this.length++] = value;
  }
  done() { this.data = this.data.slice(0, this.length); return this.data; }
}

function lane(number) {
  let found = threads.get(number);
  if (!found) threads.set(number, found = { number, name: number === 0 ? "main" : "thread " + number, rows: 0, stack: [], runs: [], passes: new Column(),
    passEnds: new Column(), sleeps: new Column(), wakes: new Column(), reasons: new Column(Uint8Array), wakers: new Column(Uint32Array),
    wakeFlows: new Column(Uint32Array), marks: [], stepTimes: new Column(), stepNumbers: new Column(Uint8Array), byteTimes: new Column(), byteCounts: new Column(),
    byteObjects: new Column(Uint32Array), byteOuts: new Column(Uint8Array), passRuns: new Column(Int32Array), start: new Column(), end: new Column(), due: new Column(), object: new Column(Uint32Array),
    row: new Column(Uint8Array), missed: new Column(), flow: new Column(Uint32Array), task: new Column(Uint32Array), mode: new Column(Uint32Array),
    state: new Column(Uint8Array), openSleep: NaN, openPasses: [], overlaps: false, lastStart: -Infinity, lastEnd: -Infinity });
  return found;
}

const sends = new Map(), receipts = new Map();   // flow -> { lane, time, slice, object }
const tasks = new Map();                         // task -> [[lane, slice], …]
let last = -Infinity, first = Infinity, records = 0;
// Times are told from a moment shortly before the first: a double has no room for all nanoseconds since a machine's start. None is 0.
let base = null;

function open(lane, time, object, due, flow, task) {
  const index = lane.start.length, depth = lane.stack.reduce((n, s) => n + (s.run ? 0 : 1), 0);
  lane.start.push(time); lane.end.push(-Infinity); lane.due.push(due); lane.object.push(object); lane.row.push(Math.min(depth, 200)); lane.missed.push(0);
  lane.flow.push(flow); lane.task.push(task); lane.state.push(0);
  lane.mode.push(lane.run ? lane.run.mode : 0);
  if (time < lane.lastStart) lane.overlaps = true;
  lane.lastStart = time;
  if (depth + 1 > lane.rows) lane.rows = depth + 1;
  // What merely woke the loop has woken it for this.
  if (flow && !(receipts.get(flow)?.slice >= 0)) receipts.set(flow, { lane, time, slice: index });
  if (task) { const pieces = tasks.get(task); if (pieces) pieces.push([lane, index]); else tasks.set(task, [[lane, index]]); }
  return index;
}

function take(view) {
  if (!base && view.byteLength >= 32) base = { low: view.getUint32(0, true), high: view.getUint32(4, true) };
  const moment = at => (view.getUint32(at + 4, true) - base.high) * 4294967296 + (view.getUint32(at, true) - base.low) + 1e12;
  for (let at = 0; at + 32 <= view.byteLength; at += 32) {
    const time = moment(at);
    const kind = view.getUint8(at + 8), flags = view.getUint8(at + 9), l = lane(view.getUint16(at + 10, true)), object = view.getUint32(at + 12, true);
    const a = view.getUint32(at + 16, true) + view.getUint32(at + 20, true) * 4294967296, date = a ? moment(at + 16) : 0;
    const flow = view.getUint32(at + 24, true), task = view.getUint32(at + 28, true);
    records++;
    if (time > last) last = time;
    if (time < first) first = time;
    switch (kind) {
      case BEGIN: l.stack.push({ slice: open(l, time, object, date, flow, task) }); break;
      case WHOLE: { if (time < l.lastEnd) l.overlaps = true; l.lastEnd = time + a; const slice = open(l, time, object, 0, flow, task); l.end.data[slice] = time + a; if (time + a > last) last = time + a; break; }
      case END: {
        while (l.stack.length && l.stack[l.stack.length - 1].run) endRun(l, time, 0);
        const top = l.stack.pop();
        if (top) { l.end.data[top.slice] = time; l.missed.data[top.slice] = a; l.state.data[top.slice] = flags; }
        break;
      }
      case RUN: { const run = { run: true, mode: object, start: time, end: -Infinity, result: 0, row: l.stack.reduce((n, s) => n + (s.run ? 0 : 1), 0), outer: l.run, index: l.runs.length };
        l.runs.push(run); l.stack.push(run); l.run = run; break; }
      case RUN_END: endRun(l, time, a); break;
      case PASS: l.openPasses.push(l.passes.length); l.passes.push(time); l.passEnds.push(-Infinity); l.passRuns.push(l.run ? l.run.index : -1); break;
      case PASS_END: { const pass = l.openPasses.pop(); if (pass !== undefined) l.passEnds.data[pass] = time; break; }
      case SLEEP: l.openSleep = time; break;
      case WAKE:
        if (Number.isNaN(l.openSleep)) l.openSleep = l.wakes.length || l.start.length ? time : first;
        l.sleeps.push(l.openSleep); l.wakes.push(time); l.reasons.push(a); l.wakers.push(object); l.wakeFlows.push(flow); l.openSleep = NaN;
        if (flow && !receipts.has(flow)) receipts.set(flow, { lane: l, time, slice: -1 });
        break;
      case OUT: sends.set(flow, { lane: l, time, slice: inner(l), object }); break;
      case IN: { const slice = inner(l); receipts.set(flow, { lane: l, time, slice }); if (slice >= 0 && !l.flow.data[slice]) l.flow.data[slice] = flow; break; }
      case MARK: l.marks.push({ time, object }); break;
      case BYTES: l.byteTimes.push(time); l.byteCounts.push(a); l.byteObjects.push(object); l.byteOuts.push(flags & 1); break;
      case STEP: l.stepTimes.push(time); l.stepNumbers.push(a); break;
    }
  }
}

function inner(l) {
  for (let i = l.stack.length - 1; i >= 0; i--) if (!l.stack[i].run) return l.stack[i].slice;
  return -1;
}

function endRun(l, time, result) {
  for (let i = l.stack.length - 1; i >= 0; i--) {
    if (!l.stack[i].run) continue;
    const run = l.stack.splice(i, 1)[0];
    run.end = time; run.result = result; l.run = run.outer;
    return;
  }
}

async function unpack(text) {
  const mark = text.slice(0, 2), code = text.slice(2);
  // The second is for browsers that are some years old.
  let bytes = Uint8Array.fromBase64 ? Uint8Array.fromBase64(code) : Uint8Array.from(atob(code), c => c.charCodeAt(0));
  if (mark[0] === "z") bytes = new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
  return [mark[1], bytes];
}

async function load() {
  const pieces = [...document.querySelectorAll('script[type="text/x-rlhost"]')].map(s => s.textContent.trim());
  const chunks = await Promise.all(pieces.map(async (text, n) => {
    try { return await unpack(text); } catch (error) {
      // A program that is killed leaves the last chunk unfinished.
      if (n < pieces.length - 1) throw error;
      about.cut = true;
      return ["", null];
    }
  }));
  for (const [kind, bytes] of chunks) {
    if (kind !== "n") continue;
    const told = JSON.parse(new TextDecoder().decode(bytes));
    for (const [number, kind, text, place] of told.names || []) {
      const key = kind + "\n" + text + "\n" + place;  // the same in several processes
      if (!texts.has(key)) texts.set(key, { kind: COLORS[kind] ? kind : "other", text, place: place || "" });
      names.set(number, texts.get(key));
    }
    for (const [number, name] of told.threads || []) lane(number).name = name;
    Object.assign(about, told.about || {});
  }
  for (const [kind, bytes] of chunks) if (kind === "e") take(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  if (first === Infinity) first = last = 0;
  for (const l of threads.values()) finish(l);
}

// What was still open at the end, columns of their final size, and coarser levels for drawing much on little room.
function finish(l) {
  for (const run of l.runs) if (run.end < run.start) run.end = last;
  if (!Number.isNaN(l.openSleep)) { l.sleeps.push(l.openSleep); l.wakes.push(last); l.reasons.push(0); l.wakers.push(0); l.wakeFlows.push(0); }
  for (const column of ["start", "end", "due", "object", "row", "missed", "flow", "task", "mode", "state", "passes", "passEnds", "sleeps", "wakes", "reasons",
    "wakers", "wakeFlows", "passRuns", "stepTimes", "stepNumbers", "byteTimes", "byteCounts", "byteObjects", "byteOuts"]) l[column] = l[column].done();
  for (let i = 0; i < l.end.length; i++) if (l.end[i] < l.start[i]) l.end[i] = last;
  for (let i = 0; i < l.passEnds.length; i++) if (l.passEnds[i] < l.passes[i]) l.passEnds[i] = last;
  const order = Uint32Array.from(l.start, (_, i) => i);
  if (l.overlaps) arrange(l, order);
  l.byRow = [];
  for (let row = 0; row < l.rows; row++) {
    const own = [];
    for (const i of order) if (l.row[i] === row) own.push(i);
    const index = Uint32Array.from(own);
    const levels = [];
    let from = Float64Array.from(index, i => l.start[i]), to = Float64Array.from(index, i => l.end[i]), busy = Float64Array.from(index, i => l.end[i] - l.start[i]);
    let kind = Uint32Array.from(index, i => l.object[i]);
    while (from.length > 2048) {
      const n = Math.ceil(from.length / 4), f = new Float64Array(n), t = new Float64Array(n), b = new Float64Array(n), k = new Uint32Array(n);
      for (let i = 0; i < n; i++) {
        let longest = -1;
        f[i] = from[4 * i];
        for (let j = 4 * i; j < Math.min(4 * i + 4, from.length); j++) {
          t[i] = Math.max(t[i], to[j]); b[i] += busy[j];
          if (busy[j] > longest) { longest = busy[j]; k[i] = kind[j]; }
        }
      }
      levels.push({ from: f, to: t, busy: b, kind: k });
      [from, to, busy, kind] = [f, t, b, k];
    }
    l.byRow.push({ index, start: Float64Array.from(index, i => l.start[i]), levels });
  }
  // Time awake, summed up, for the overview.
  l.asleep = new Float64Array(l.sleeps.length + 1);
  for (let i = 0; i < l.sleeps.length; i++) l.asleep[i + 1] = l.asleep[i] + l.wakes[i] - l.sleeps[i];
}

// What was told as a whole may have been told after what lies in it: rows by what lies in what.
function arrange(l, order) {
  order.sort((a, b) => l.start[a] - l.start[b] || l.end[b] - l.end[a]);
  const open = [];
  l.rows = 0;
  for (const i of order) {
    while (open.length && open[open.length - 1] <= l.start[i]) open.pop();
    l.row[i] = Math.min(open.length, 200);
    l.rows = Math.max(l.rows, l.row[i] + 1);
    open.push(l.end[i]);
  }
}

function asleepBefore(l, time) {
  const i = upper(l.sleeps, time) - 1;
  return i < 0 ? 0 : l.asleep[i] + Math.min(time, l.wakes[i]) - l.sleeps[i];
}

// The first place whose value is greater.
function upper(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) { const middle = (low + high) >> 1; if (sorted[middle] <= value) low = middle + 1; else high = middle; }
  return low;
}
