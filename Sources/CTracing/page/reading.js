// A recording is a number of chunks, scripts of the type text/x-rlhost. Each is base64: "z" compressed as gzip does or "r" as it is, then "n" names as
// JSON or "e" events of 32 bytes:
//   u64 nanoseconds · u8 kind · u8 flags · u16 thread · u32 object · u64 a · u32 flow · u32 task
const BEGIN = 1, END = 2, RUN = 3, RUN_END = 4, PASS = 5, PASS_END = 6, SLEEP = 7, WAKE = 8, OUT = 9, IN = 10, MARK = 11, WHOLE = 12, BYTES = 13,
  STEP = 14, OPENS = 16, CLOSES = 17;
const WAITS = 1, FAILED = 2, LASTS = 4;  // flags of END, and what is no callback but lasts
const REASONS = ["", "a timer was due", "a descriptor became ready", "a wake-up", "a signal", "its time was over"];
const RESULTS = ["", "finished", "stopped", "timed out", "handled a source"];
// Okabe and Ito's colours, which the colour-blind can tell apart.
const COLORS = { timer: "#e69f00", source: "#009e73", port: "#0072b2", observer: "#999999", request: "#cc79a7", task: "#56b4e9", message: "#d55e00",
  span: "#b8a800", collector: "#7a4e2d", stream: "#4f7cac", program: "#7f5aa2", http: "#3b8f8f", other: "#888888" };
const GROUNDS = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#999999", "#0072b2", "#f0e442"];
const $ = id => document.getElementById(id);

const names = new Map();      // number -> { text, place, kind }
const threads = new Map();    // number -> lane
const texts = new Map();
let about = {};

// Of each lane; how many there are is counted before they are filled. A slice is a callback, or what lasts: `state` says it.
const SLICE = { start: Float64Array, end: Float64Array, due: Float64Array, object: Uint32Array, row: Uint8Array, missed: Float64Array, flow: Uint32Array,
  task: Uint32Array, mode: Uint32Array, state: Uint8Array, waits: Uint32Array };
const PASSES = { passes: Float64Array, passEnds: Float64Array, passRuns: Int32Array };
const SLEEPS = { sleeps: Float64Array, wakes: Float64Array, reasons: Uint8Array, wakers: Uint32Array, wakeFlows: Uint32Array };
const STEPS = { stepTimes: Float64Array, stepNumbers: Uint8Array };
const PIECES = { byteTimes: Float64Array, byteCounts: Float64Array, byteObjects: Uint32Array, byteOuts: Uint8Array, byteFlows: Uint32Array };
const TABLES = [SLICE, PASSES, SLEEPS, STEPS, PIECES];
const TABLE_OF = new Int8Array(256).fill(-1);    // kind of record -> table that it adds to
for (const kind of [BEGIN, WHOLE, OPENS, CLOSES]) TABLE_OF[kind] = 0;
TABLE_OF[PASS] = 1; TABLE_OF[WAKE] = 2; TABLE_OF[STEP] = 3; TABLE_OF[BYTES] = 4;

function lane(number) {
  let found = threads.get(number);
  if (!found) threads.set(number, found = { number, name: number === 0 ? "main" : "thread " + number, counts: [0, 0, 1, 0, 0], rows: 0, stack: [], depth: 0, run: null,
    runs: [], marks: [], lasts: [], lasting: new Map(), openSleep: NaN, openPasses: [], overlaps: false, lastStart: -Infinity, lastEnd: -Infinity,
    sliceCount: 0, passCount: 0, sleepCount: 0, stepCount: 0, pieceCount: 0 });
  return found;
}

const sends = new Map(), receipts = new Map();   // flow -> { lane, time, slice, object }
const tasks = new Map();                         // task -> [[lane, slice], …]
let last = -Infinity, first = Infinity, records = 0;
// Times are told from a moment shortly before the first: a double has no room for all nanoseconds since a machine's start. None is 0.
let base = null;

function open(l, time, end, object, due, flow, task) {
  const depth = l.depth < 200 ? l.depth : 200, slice = l.sliceCount++;
  l.start[slice] = time; l.end[slice] = end; l.due[slice] = due; l.object[slice] = object; l.row[slice] = depth;
  if (l.run) l.mode[slice] = l.run.mode;
  if (time < l.lastStart) l.overlaps = true;
  l.lastStart = time;
  if (depth + 1 > l.rows) l.rows = depth + 1;
  if (flow) {
    l.flow[slice] = flow;
    // What merely woke the loop has woken it for this.
    const known = receipts.get(flow);
    if (!known || known.slice < 0) receipts.set(flow, { lane: l, time, slice, object: 0 });
  }
  if (task) { l.task[slice] = task; const pieces = tasks.get(task); if (pieces) pieces.push([l, slice]); else tasks.set(task, [[l, slice]]); }
  return slice;
}

// A connection, a program, a request: it lies beside others, and began in the callback `opener`.
function openLasting(l, time, object, number) {
  const slice = l.sliceCount++, what = { slice, number, opener: inner(l), closer: -1 };
  l.start[slice] = time; l.end[slice] = -Infinity; l.object[slice] = object; l.state[slice] = LASTS;
  if (l.run) l.mode[slice] = l.run.mode;
  l.lasts.push(what);
  l.lasting.set(number, what);
  return what;
}

function closeLasting(l, time, object, number, status, flags) {
  const what = l.lasting.get(number) || openLasting(l, first, object, number);  // it may have begun before the recording
  l.lasting.delete(number);
  what.closer = inner(l);
  l.end[what.slice] = time;
  l.missed[what.slice] = status;
  l.state[what.slice] = LASTS | flags & FAILED;
}

function count(words) {
  let l = null;
  for (let at = 2; at < words.length; at += 8) {
    const table = TABLE_OF[words[at] & 255];
    if (table < 0) continue;
    const thread = words[at] >>> 16;
    if (!l || l.number !== thread) l = lane(thread);
    l.counts[table]++;
  }
}

function makeTables(l) {
  TABLES.forEach((table, n) => { for (const name in table) l[name] = new table[name](l.counts[n]); });
}

function take(words) {
  let l = null;
  for (let at = 0; at + 8 <= words.length; at += 8) {
    const time = (words[at + 1] - base.high) * 4294967296 + (words[at] - base.low) + 1e12, head = words[at + 2];
    if (!l || l.number !== head >>> 16) { l = lane(head >>> 16); if (!l.start) makeTables(l); }
    if (time > last) last = time;
    if (time < first) first = time;
    const object = words[at + 3], low = words[at + 4], high = words[at + 5], flow = words[at + 6];
    switch (head & 255) {
      case BEGIN:
        l.stack.push({ run: null, slice: open(l, time, -Infinity, object, low || high ? (high - base.high) * 4294967296 + (low - base.low) + 1e12 : 0, flow, words[at + 7]) });
        l.depth++;
        break;
      case WHOLE: {
        const end = time + low + high * 4294967296;
        if (time < l.lastEnd) l.overlaps = true;
        l.lastEnd = end;
        open(l, time, end, object, 0, flow, words[at + 7]);
        if (end > last) last = end;
        break;
      }
      case END: {
        while (l.stack.length && l.stack[l.stack.length - 1].run) endRun(l, time, 0);
        const top = l.stack.pop();
        if (top) { l.depth--; l.end[top.slice] = time; l.missed[top.slice] = low + high * 4294967296; if (l.state[top.slice] = head >> 8 & 3) l.waits[top.slice] = head >> 8 & WAITS ? flow : 0; }
        break;
      }
      case RUN: {
        const run = { mode: object, start: time, end: -Infinity, result: 0, row: l.depth, outer: l.run, index: l.runs.length };
        l.runs.push(run); l.stack.push({ run, slice: -1 }); l.run = run;
        break;
      }
      case RUN_END: endRun(l, time, low); break;
      case PASS: {
        const pass = l.passCount++;
        l.openPasses.push(pass); l.passes[pass] = time; l.passEnds[pass] = -Infinity; l.passRuns[pass] = l.run ? l.run.index : -1;
        break;
      }
      case PASS_END: { const pass = l.openPasses.pop(); if (pass !== undefined) l.passEnds[pass] = time; break; }
      case SLEEP: l.openSleep = time; break;
      case WAKE: {
        const n = l.sleepCount++;
        l.sleeps[n] = !Number.isNaN(l.openSleep) ? l.openSleep : n || l.sliceCount ? time : first;
        l.wakes[n] = time; l.reasons[n] = low; l.wakers[n] = object; l.wakeFlows[n] = flow; l.openSleep = NaN;
        if (flow && !receipts.has(flow)) receipts.set(flow, { lane: l, time, slice: -1, object: 0 });
        break;
      }
      case OUT: sends.set(flow, { lane: l, time, slice: inner(l), object }); break;
      case IN: { const slice = inner(l); receipts.set(flow, { lane: l, time, slice, object: 0 }); if (slice >= 0 && !l.flow[slice]) l.flow[slice] = flow; break; }
      case MARK: l.marks.push({ time, object }); break;
      case BYTES: {
        const n = l.pieceCount++;
        l.byteTimes[n] = time; l.byteCounts[n] = low + high * 4294967296; l.byteObjects[n] = object; l.byteOuts[n] = head >> 8 & 1; l.byteFlows[n] = flow;
        break;
      }
      case STEP: { const n = l.stepCount++; l.stepTimes[n] = time; l.stepNumbers[n] = low; break; }
      case OPENS: openLasting(l, time, object, flow); break;
      case CLOSES: closeLasting(l, time, object, flow, low, head >> 8 & 255); break;
    }
  }
}

function inner(l) {
  for (let i = l.stack.length - 1; i >= 0; i--) if (!l.stack[i].run) return l.stack[i].slice;
  return -1;
}

function endRun(l, time, result) {
  for (let i = l.stack.length - 1; i >= 0; i--) {
    const { run } = l.stack[i];
    if (!run) continue;
    l.stack.splice(i, 1);
    run.end = time; run.result = result; l.run = run.outer;
    return;
  }
}

async function unpack(text) {
  const mark = text.slice(0, 2), code = text.slice(2);
  // The second is for browsers that are some years old.
  let bytes = Uint8Array.fromBase64 ? Uint8Array.fromBase64(code) : Uint8Array.from(atob(code), c => c.charCodeAt(0));
  if (mark[0] === "z") {
    const unzip = new DecompressionStream("gzip"), writer = unzip.writable.getWriter();
    // What is wrong with the bytes, reading says.
    writer.write(bytes).catch(() => {});
    writer.close().catch(() => {});
    bytes = new Uint8Array(await new Response(unzip.readable).arrayBuffer());
  }
  return [mark[1], bytes];
}

// A browser has room for so many records; of a larger recording the last ones are shown.
const MOST_RECORDS = 6e6;

// How many bytes a chunk has when it is unpacked, as its end says.
function sizeOf(text) {
  if (text[0] !== "z") return Math.floor((text.length - 2) * 3 / 4);
  const end = atob(text.slice(-8)), at = end.length - 4;
  return (end.charCodeAt(at) | end.charCodeAt(at + 1) << 8 | end.charCodeAt(at + 2) << 16 | end.charCodeAt(at + 3) << 24) >>> 0;
}

async function load() {
  const pieces = [...document.querySelectorAll('script[type="text/x-rlhost"]')].map(s => s.textContent.trim());
  const read = async text => {
    try { return await unpack(text); } catch (error) {
      // A program that is killed leaves the last chunk unfinished.
      if (text !== pieces[pieces.length - 1]) throw error;
      about.cut = true;
      return ["", null];
    }
  };
  const told = pieces.filter(text => text[1] !== "e"), recorded = pieces.filter(text => text[1] === "e");
  const chunks = await Promise.all(told.map(read));
  // From the end on, some at a time: their memory is given back meanwhile.
  const parts = [];
  while (recorded.length && records < MOST_RECORDS) {
    for (const [, bytes] of (await Promise.all(recorded.splice(-64).map(read))).reverse()) {
      if (!bytes || bytes.byteLength < 32) continue;
      parts.push(new Uint32Array(bytes.buffer, 0, bytes.byteLength >> 2));
      records += bytes.byteLength >> 5;
    }
  }
  parts.reverse();
  about.left = recorded.reduce((sum, text) => sum + (sizeOf(text) >> 5), 0);
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
  for (const words of parts) count(words);
  if (parts.length) base = { low: parts[0][0], high: parts[0][1] };
  for (const words of parts) take(words);
  if (first === Infinity) first = last = 0;
  for (const l of threads.values()) finish(l);
}

// What was still open at the end, columns of their final size, and coarser levels for drawing much on little room.
function finish(l) {
  if (!l.start) makeTables(l);
  for (const run of l.runs) if (run.end < run.start) run.end = last;
  if (!Number.isNaN(l.openSleep)) { l.sleeps[l.sleepCount] = l.openSleep; l.wakes[l.sleepCount++] = last; }
  // There is room for one sleep that does not end, and for those ends of what lasts that needed no slice of their own.
  for (const name in SLEEPS) l[name] = l[name].subarray(0, l.sleepCount);
  for (const name in SLICE) l[name] = l[name].subarray(0, l.sliceCount);
  const count = l.start.length, { start, end, row, object } = l;
  for (let i = 0; i < count; i++) if (end[i] < start[i]) end[i] = last;
  for (let i = 0; i < l.passEnds.length; i++) if (l.passEnds[i] < l.passes[i]) l.passEnds[i] = last;
  if (l.overlaps) arrange(l);
  pack(l);
  // The slices of each row, in time.
  const sizes = new Uint32Array(l.rows);
  for (let i = 0; i < count; i++) sizes[row[i]]++;
  l.byRow = Array.from(sizes, size => ({ index: new Uint32Array(size), start: null, levels: [] }));
  sizes.fill(0);
  for (let i = 0; i < count; i++) l.byRow[row[i]].index[sizes[row[i]]++] = i;
  for (const own of l.byRow) {
    if (l.overlaps || l.lasts.length) own.index.sort((a, b) => start[a] - start[b] || end[b] - end[a]);
    const n = own.index.length;
    let from = new Float64Array(n), to = new Float64Array(n), busy = new Float64Array(n), kind = new Uint32Array(n);
    for (let k = 0; k < n; k++) { const i = own.index[k]; from[k] = start[i]; to[k] = end[i]; busy[k] = end[i] - start[i]; kind[k] = object[i]; }
    own.start = from;
    while (from.length > 2048) {
      const n = Math.ceil(from.length / 4), f = new Float64Array(n), t = new Float64Array(n), b = new Float64Array(n), k = new Uint32Array(n);
      for (let i = 0; i < n; i++) {
        let longest = -1, ends = -Infinity, time = 0;
        for (let j = 4 * i, until = Math.min(j + 4, from.length); j < until; j++) {
          if (to[j] > ends) ends = to[j];
          time += busy[j];
          if (busy[j] > longest) { longest = busy[j]; k[i] = kind[j]; }
        }
        f[i] = from[4 * i]; t[i] = ends; b[i] = time;
      }
      own.levels.push({ from: f, to: t, busy: b, kind: k });
      [from, to, busy, kind] = [f, t, b, k];
    }
  }
  // Time awake, summed up, for the overview.
  l.asleep = new Float64Array(l.sleeps.length + 1);
  for (let i = 0; i < l.sleeps.length; i++) l.asleep[i + 1] = l.asleep[i] + l.wakes[i] - l.sleeps[i];
}

// What was told as a whole may have been told after what lies in it: rows by what lies in what.
function arrange(l) {
  const { start, end, state } = l, order = Uint32Array.from(start.keys()).filter(i => !(state[i] & LASTS)), open = [];
  order.sort((a, b) => start[a] - start[b] || end[b] - end[a]);
  l.rows = 0;
  for (const i of order) {
    while (open.length && open[open.length - 1] <= start[i]) open.pop();
    l.row[i] = Math.min(open.length, 200);
    l.rows = Math.max(l.rows, l.row[i] + 1);
    open.push(end[i]);
  }
}

// What lasts lies below the callbacks, in as many rows as it takes side by side, but for the last, which takes the rest.
const MOST_ROWS = 16;
function pack(l) {
  l.callbackRows = l.rows;
  const ends = [], { start } = l;
  l.lasts.sort((a, b) => start[a.slice] - start[b.slice]);
  for (const { slice } of l.lasts) {
    let row = ends.findIndex(end => end <= start[slice]);
    if (row < 0) row = Math.min(ends.length, MOST_ROWS - 1);
    ends[row] = Math.max(ends[row] || 0, l.end[slice]);
    l.row[slice] = l.callbackRows + row;
  }
  l.rows += ends.length;
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
