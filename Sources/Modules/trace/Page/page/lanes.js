// ---- Lanes ----

let last = -Infinity, first = Infinity;
// Times count from shortly before the first event, because a double cannot hold all nanoseconds since the machine's
// start. 0: no time.
let base = null;

// The columns of a lane, which grow together. A slice is a callback or a lasting item, as `state` says.
const SLICES = ["start", "end", "due", "object", "row", "missed", "flow", "task", "mode", "state", "waits"];
const PASSES = ["passes", "passEnds", "passRuns"];
const SLEEPS = ["sleeps", "wakes", "reasons", "wakers", "wakeFlows"];
const STEPS = ["stepTimes", "stepNumbers"];
const PIECES = ["byteTimes", "byteCounts", "byteObjects", "byteOuts", "byteFlows"];
const OUTS = ["outTimes", "outFlows", "outSlices", "outObjects"];
const INS = ["inTimes", "inFlows", "inSlices", "inObjects"];

class Lane {
  // Each property is assigned by name: an object whose properties have computed names is slow.
  constructor(number) {
    const times = () => new Float64Array(256), words = () => new Uint32Array(256), bytes = () => new Uint8Array(256),
          places = () => new Int32Array(256);
    this.number = number; this.name = number === 0 ? "main" : "thread " + number; this.owner = ""; this.own = "";
    this.sliceCount = 0;
    this.start = times();
    this.end = times();
    this.due = times();
    this.object = words();
    this.row = bytes();
    this.missed = times();
    this.flow = words(); this.task = words(); this.mode = words(); this.state = bytes(); this.waits = words();
    this.passCount = 0; this.passes = times(); this.passEnds = times(); this.passRuns = places();
    this.sleepCount = 0;
    this.sleeps = times();
    this.wakes = times();
    this.reasons = bytes();
    this.wakers = words();
    this.wakeFlows = words();
    this.stepCount = 0; this.stepTimes = times(); this.stepNumbers = bytes();
    this.pieceCount = 0;
    this.byteTimes = times();
    this.byteCounts = times();
    this.byteObjects = words();
    this.byteOuts = bytes();
    this.byteFlows = words();
    this.outCount = 0;
    this.outTimes = times();
    this.outFlows = times();
    this.outSlices = places();
    this.outObjects = words();
    this.arrivals = null;
    this.inCount = 0; this.inTimes = times(); this.inFlows = times();
    this.inSlices = places();
    this.inObjects = words();
    // The stack has the index of each open slice, and ~index of each open run.
    this.stack = []; this.depth = 0; this.run = null; this.openSleep = NaN; this.openPasses = [];
    this.runs = []; this.marks = []; this.lasts = []; this.lasting = new Map(); this.groups = new Map();
    this.rows = 0; this.callbackRows = 0; this.overlaps = false; this.lastStart = -Infinity; this.lastEnd = -Infinity;
    this.byRow = []; this.asleep = null;
    // The loop exists from its first event to its recorded end, or else to the end of the recording.
    this.born = Infinity; this.ended = Infinity;
    // How long a slice's thread waited for a processor, if that is notable.
    this.delays = new Map(); this.waited = new Map(); this.closed = -1;
    // Totals: objects, callbacks, late callbacks, the longest callback, and those that are late or long enough to be
    // findings.
    this.objects = new Set(); this.callbacks = 0; this.late = 0; this.longest = 0; this.notable = [];
    this.y = 0; this.height = 0; this.shares = null; this.sharesFor = "";
  }

  reserve(size) {
    if (size > 256)
      for (const columns of [SLICES, PASSES, SLEEPS, STEPS, PIECES, OUTS, INS]) this.resize(columns, size);
  }

  resize(columns, size) {
    for (const name of columns) {
      const column = this[name];
      if (size <= column.length) this[name] = column.subarray(0, size);
      else (this[name] = new column.constructor(size)).set(column);
    }
  }

  open(time, end, object, due, flow, task) {
    const depth = this.depth < 200 ? this.depth : 200, slice = this.sliceCount++;
    if (slice === this.start.length) this.resize(SLICES, 2 * slice);
    this.start[slice] = time;
    this.end[slice] = end;
    this.due[slice] = due;
    this.object[slice] = object;
    this.row[slice] = depth;
    this.flow[slice] = flow; this.task[slice] = task;
    if (this.run) this.mode[slice] = this.run.mode;
    if (time < this.lastStart) this.overlaps = true;
    this.lastStart = time;
    if (depth + 1 > this.rows) this.rows = depth + 1;
    return slice;
  }

  // A lasting item, such as a connection, a program or a request: may overlap others; began in the callback `opener`.
  openLasting(time, object, number) {
    const slice = this.sliceCount++, what = { slice, number, opener: this.inner(), closer: -1 };
    if (slice === this.start.length) this.resize(SLICES, 2 * slice);
    this.start[slice] = time; this.end[slice] = -Infinity; this.object[slice] = object; this.state[slice] = LASTS;
    if (this.run) this.mode[slice] = this.run.mode;
    this.lasts.push(what);
    this.lasting.set(number, what);
    return what;
  }

  closeLasting(time, object, number, status, waited, flags) {
    const what =
      this.lasting.get(number) || this.openLasting(first, object, number);  // it may have begun before the recording
    this.lasting.delete(number);
    what.closer = this.inner();
    this.end[what.slice] = time;
    this.missed[what.slice] = status;
    if (waited) this.waited.set(what.slice, waited);
    this.state[what.slice] = LASTS | flags & FAILED;
  }

  // Returns the innermost open callback, or -1.
  inner() {
    const { stack } = this;
    for (let i = stack.length - 1; i >= 0; i--) if (stack[i] >= 0) return stack[i];
    return -1;
  }

  endCallback(time, flags, missed, waits) {
    const { stack } = this;
    while (stack.length && stack[stack.length - 1] < 0) this.endRun(time, 0);
    if (!stack.length) return;
    const slice = this.closed = stack.pop();
    this.depth--;
    this.end[slice] = time; this.missed[slice] = missed; this.state[slice] = flags & (WAITS | FAILED);
    if (flags & WAITS) this.waits[slice] = waits;
  }

  endRun(time, result) {
    for (let i = this.stack.length - 1; i >= 0; i--) {
      if (this.stack[i] >= 0) continue;
      const run = this.runs[~this.stack[i]];
      this.stack.splice(i, 1);
      run.end = time; run.result = result; this.run = run.outer;
      return;
    }
  }

  pass(time) {
    const pass = this.passCount++;
    if (pass === this.passes.length) this.resize(PASSES, 2 * pass);
    this.openPasses.push(pass);
    this.passes[pass] = time;
    this.passEnds[pass] = -Infinity;
    this.passRuns[pass] = this.run ? this.run.index : -1;
  }

  wake(time, reason, waker, flow) {
    const n = this.sleepCount++;
    if (n === this.sleeps.length) this.resize(SLEEPS, 2 * n);
    this.sleeps[n] = !Number.isNaN(this.openSleep) ? this.openSleep : n || this.sliceCount ? time : first;
    this.wakes[n] = time; this.reasons[n] = reason; this.wakers[n] = waker; this.wakeFlows[n] = flow;
    this.openSleep = NaN;
  }

  sent(time, flow, object) {
    const n = this.outCount++;
    if (n === this.outTimes.length) this.resize(OUTS, 2 * n);
    this.outTimes[n] = time; this.outFlows[n] = flow; this.outSlices[n] = this.inner(); this.outObjects[n] = object;
  }

  received(time, flow, object) {
    const n = this.inCount++, slice = this.inner();
    if (n === this.inTimes.length) this.resize(INS, 2 * n);
    this.inTimes[n] = time; this.inFlows[n] = flow; this.inSlices[n] = slice; this.inObjects[n] = object;
    if (slice >= 0 && !this.flow[slice] && flow < MESSAGES) this.flow[slice] = flow;
  }

  bytes(time, count, object, isOut, flow) {
    const n = this.pieceCount++;
    if (n === this.byteTimes.length) this.resize(PIECES, 2 * n);
    this.byteTimes[n] = time;
    this.byteCounts[n] = count;
    this.byteObjects[n] = object;
    this.byteOuts[n] = isOut;
    this.byteFlows[n] = flow;
  }

  step(time, number) {
    const n = this.stepCount++;
    if (n === this.stepTimes.length) this.resize(STEPS, 2 * n);
    this.stepTimes[n] = time; this.stepNumbers[n] = number;
  }

  // Ends open slices, trims the columns, and builds the coarser levels for drawing many slices on few pixels.
  finish() {
    const until = Math.min(last, this.ended);
    for (const run of this.runs) if (run.end < run.start) run.end = until;
    if (!Number.isNaN(this.openSleep)) this.wake(until, 0, 0, 0);
    this.resize(SLICES, this.sliceCount);
    this.resize(PASSES, this.passCount);
    this.resize(SLEEPS, this.sleepCount);
    this.resize(STEPS, this.stepCount);
    this.resize(PIECES, this.pieceCount); this.resize(OUTS, this.outCount); this.resize(INS, this.inCount);
    const { start, end, passes, passEnds, sleeps, wakes } = this;
    for (let i = 0; i < end.length; i++) if (end[i] < start[i]) end[i] = until;
    for (let i = 0; i < passEnds.length; i++) if (passEnds[i] < passes[i]) passEnds[i] = until;
    if (this.overlaps) arrange(this);
    pack(this);
    this.byRow = rowsOf(this);
    this.sumUp();
    // The sum of the time asleep.
    const asleep = this.asleep = new Float64Array(sleeps.length + 1);
    for (let i = 0; i < sleeps.length; i++) asleep[i + 1] = asleep[i] + wakes[i] - sleeps[i];
  }

  sumUp() {
    const { start, end, due, object, state } = this, known = new Uint32Array(256);
    for (let i = 0; i < start.length; i++) {
      const n = object[i];
      if (known[n & 255] !== n) this.objects.add(known[n & 255] = n);
      if (state[i] & LASTS) continue;
      const late = due[i] ? start[i] - due[i] : 0, time = end[i] - start[i];
      this.callbacks++;
      if (late >= LATE) this.late++;
      if (late >= NOTABLY_LATE || time >= HELD) this.notable.push(i);
      if (time > this.longest) this.longest = Math.max(this.longest, heldFor(this, i));
    }
  }
}

// Messages between processes get numbers after those of the flows within one process. In files, their numbers have 64
// bits, of which the upper half identifies the sender.
const MESSAGES = 4294967296, senders = new Map();
function message(low, high) {
  let sender = senders.get(high);
  if (!sender) senders.set(high, sender = senders.size + 1);
  return sender * MESSAGES + low;
}

// Reads the events of a chunk, column by column.
function take(words) {
  const count = words.length >> 3, column = n => words.subarray(n * count, (n + 1) * count);
  const timeLow = column(0), timeHigh = column(1), heads = column(2), objects = column(3), lows = column(4),
        highs = column(5), flows = column(6), numbers = column(7);
  if (!base) base = { low: timeLow[0], high: timeHigh[0] };
  const { low: baseLow, high: baseHigh } = base;
  let l = null, time = 1e12 + (timeHigh[0] - baseHigh) * 4294967296 + (timeLow[0] - baseLow);
  for (let at = 0; at < count; at++) {
    if (at) time += (timeHigh[at] | 0) * 4294967296 + timeLow[at];
    const head = heads[at], kind = head & 255;
    if (!l || l.number !== head >>> 16) l = lane(head >>> 16);
    if (time < l.born) l.born = time;
    if (time > last) last = time;
    if (time < first) first = time;
    const object = objects[at], low = lows[at], high = highs[at], flow = flows[at];
    switch (kind) {
      case BEGIN:
        l.stack.push(l.open(time, -Infinity, object,
          low || high ? (high - baseHigh) * 4294967296 + (low - baseLow) + 1e12 : 0, flow, numbers[at]));
        l.depth++;
        break;
      case WHOLE: {
        const end = time + low + high * 4294967296;
        if (time < l.lastEnd) l.overlaps = true;
        l.lastEnd = end;
        l.closed = l.open(time, end, object, 0, flow, numbers[at]);
        if (end > last) last = end;
        break;
      }
      case END: l.endCallback(time, head >> 8 & 255, low + high * 4294967296, flow); break;
      case RUN:
        l.run = {
          mode: object,
          start: time,
          end: -Infinity,
          result: 0,
          row: l.depth,
          outer: l.run,
          index: l.runs.length
        };
        l.stack.push(~l.runs.length); l.runs.push(l.run);
        break;
      case RUN_END: l.endRun(time, low); break;
      case PASS: l.pass(time); break;
      case PASS_END: if (l.openPasses.length) l.passEnds[l.openPasses.pop()] = time; break;
      case SLEEP: l.openSleep = time; break;
      case WAKE: l.wake(time, low, object, flow); break;
      case OUT: l.sent(time, flow, object); break;
      case IN: l.received(time, flow, 0); break;
      case DEPARTS: l.sent(time, message(low, high), object); break;
      case ARRIVES: l.received(time, message(low, high), object); break;
      case MARK: l.marks.push({ time, object }); break;
      case BYTES: l.bytes(time, low + high * 4294967296, object, head >> 8 & 1, flow); break;
      case STEP: l.step(time, low); break;
      case OPENS: l.openLasting(time, object, flow); break;
      case CLOSES: l.closeLasting(time, object, flow, low, high, head >> 8 & 255); break;
      case BELONGS: { const what = l.lasting.get(flow); if (what) l.groups.set(what.slice, object); break; }
      case ENDED: l.ended = time; break;
      case DELAYED:
        if (l.closed >= 0 && l.object[l.closed] === object) l.delays.set(l.closed, low + high * 4294967296);
        break;
    }
  }
}

// The slices of each row by time, and coarser levels. An entry of a coarser level joins four entries: it has their
// start, their end, their busy share, and the object with most of the busy time.
function rowsOf(l) {
  const { start, end, row, object, sliceCount: count } = l, sizes = new Uint32Array(l.rows);
  for (let i = 0; i < count; i++) sizes[row[i]]++;
  const rows = Array.from(sizes, size => ({ index: new Uint32Array(size), start: new Float64Array(size), levels: [] }));
  sizes.fill(0);
  for (let i = 0; i < count; i++) {
    const own = rows[row[i]], n = sizes[row[i]]++;
    own.index[n] = i;
    own.start[n] = start[i];
  }
  for (const own of rows) {
    const { index } = own;
    if (l.overlaps || l.lasts.length) {
      index.sort((a, b) => start[a] - start[b] || end[b] - end[a]);
      index.forEach((i, n) => { own.start[n] = start[i]; });
    }
    if (index.length > 2048) own.levels.push(coarser(index, start, end, null, object));
    for (let level; (level = own.levels[own.levels.length - 1]) && level.from.length > 2048;)
      own.levels.push(coarser(null, level.from, level.to, level.busy, level.kind));
  }
  return rows;
}

function coarser(index, from, to, busy, kind) {
  const count = (index || from).length, n = Math.ceil(count / 4), f = new Float64Array(n), t = new Float64Array(n),
        b = new Float64Array(n), k = new Uint32Array(n);
  for (let i = 0; i < n; i++) {
    let longest = -1, ends = -Infinity, time = 0;
    for (let j = 4 * i, until = Math.min(j + 4, count); j < until; j++) {
      const at = index ? index[j] : j, one = busy ? busy[at] : to[at] - from[at];
      if (to[at] > ends) ends = to[at];
      time += one;
      if (one > longest) { longest = one; k[i] = kind[at]; }
    }
    f[i] = from[index ? index[4 * i] : 4 * i]; t[i] = ends; b[i] = time;
  }
  return { from: f, to: t, busy: b, kind: k };
}

// A complete event may come after the events inside it, so rows follow from nesting.
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

// Lasting items are below the callbacks, in as many rows as they need; the last row has all further ones.
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

// How long the loop existed between two moments, and how long of that it was awake.
function aliveBetween(l, a, b) { return Math.max(0, Math.min(b, l.ended, last) - Math.max(a, l.born)); }
function awakeBetween(l, a, b) {
  const start = Math.max(a, l.born), end = Math.min(b, l.ended, last);
  return end > start ? end - start - (asleepBefore(l, end) - asleepBefore(l, start)) : 0;
}

function asleepBefore(l, time) {
  const i = upper(l.sleeps, time) - 1;
  return i < 0 ? 0 : l.asleep[i] + Math.min(time, l.wakes[i]) - l.sleeps[i];
}
