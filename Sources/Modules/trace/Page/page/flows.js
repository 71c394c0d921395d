// ---- Wake-ups ----

// The places where each flow was sent or has arrived. This is a special hash table: filling a Map of objects takes ten
// times as long.
class Ends {
  constructor(most) {
    let size = 16;
    while (size < 2 * most) size *= 2;
    this.mask = size - 1;
    this.flows = new Uint32Array(size);
    this.lanes = new Uint32Array(size);
    this.times = new Float64Array(size);
    this.slices = new Int32Array(size); this.objects = new Uint32Array(size);
  }

  // Returns the index of a number, or the index of the empty place where the number belongs.
  find(flow) {
    let at = (Math.imul(flow, 0x9e3779b1) >>> 8) & this.mask;
    while (this.flows[at] !== 0 && this.flows[at] !== flow) at = (at + 1) & this.mask;
    return at;
  }

  set(at, flow, lane, time, slice, object) {
    this.flows[at] = flow;
    this.lanes[at] = lane;
    this.times[at] = time;
    this.slices[at] = slice;
    this.objects[at] = object;
  }

  get(flow) {
    const at = this.find(flow);
    return flow && this.flows[at]
      ? { lane: lanes()[this.lanes[at]], time: this.times[at], slice: this.slices[at], object: this.objects[at] }
      : undefined;
  }
}

// Messages between processes: the place where each was sent, and the places where it arrived, which may be several.
let departures = null, arrivals = null;
function followMessages() {
  if (departures) return;
  departures = new Map(); arrivals = new Map();
  for (const l of lanes()) {
    for (let n = 0; n < l.outCount; n++)
      if (l.outFlows[n] >= MESSAGES)
        departures.set(
          l.outFlows[n], { lane: l, time: l.outTimes[n], slice: l.outSlices[n], object: l.outObjects[n] });
    for (let n = 0; n < l.inCount; n++) {
      const flow = l.inFlows[n], end = { lane: l, time: l.inTimes[n], slice: l.inSlices[n], object: 0 };
      if (flow < MESSAGES) continue;
      if (arrivals.has(flow)) arrivals.get(flow).push(end); else arrivals.set(flow, [end]);
    }
  }
}

// Returns all places where a flow has arrived.
function arrived(flow) {
  followMessages();
  const one = flow < MESSAGES && received(flow);
  return one ? [one] : arrivals.get(flow) || [];
}

// Made at first use.
let sends = null, receipts = null;

function sent(flow) {
  if (flow >= MESSAGES) {
    followMessages();
    return departures.get(flow);
  }
  if (!sends) {
    sends = new Ends(lanes().reduce((sum, l) => sum + l.outCount, 0));
    lanes().forEach((l, lane) => {
      for (let n = 0; n < l.outCount; n++)
        if (l.outFlows[n] && l.outFlows[n] < MESSAGES)
          sends.set(sends.find(l.outFlows[n]), l.outFlows[n], lane, l.outTimes[n], l.outSlices[n], l.outObjects[n]);
    });
  }
  return sends.get(flow);
}

// Returns where a flow was received: at a mark, or else in the callback that it has begun, or else at the wake-up of
// the loop.
function received(flow) {
  if (flow >= MESSAGES) return arrived(flow)[0];
  if (!receipts) {
    const all = lanes(),
          told = receipts = new Ends(all.reduce((sum, l) => sum + l.inCount + l.sliceCount + l.sleepCount, 0));
    all.forEach((l, lane) => {
      for (let n = 0; n < l.inCount; n++)
        if (l.inFlows[n] && l.inFlows[n] < MESSAGES)
          told.set(told.find(l.inFlows[n]), l.inFlows[n], lane, l.inTimes[n], l.inSlices[n], 0);
    });
    all.forEach((l, lane) => {
      for (let i = 0; i < l.sliceCount; i++) {
        const flow = l.flow[i], at = flow ? told.find(flow) : 0;
        if (flow && (!told.flows[at] || told.slices[at] < 0)) told.set(at, flow, lane, l.start[i], i, 0);
      }
    });
    all.forEach((l, lane) => {
      for (let n = 0; n < l.sleepCount; n++) {
        const flow = l.wakeFlows[n], at = flow ? told.find(flow) : 0;
        if (flow && !told.flows[at]) told.set(at, flow, lane, l.wakes[n], -1, 0);
      }
    });
  }
  return receipts.get(flow);
}

// Returns when the flows sent by a lane arrived; NaN: not recorded.
function arrivalsOf(l) {
  if (!l.arrivals) l.arrivals = l.outTimes.map((_, n) => arrived(l.outFlows[n]).at(-1)?.time ?? NaN);
  return l.arrivals;
}

// Returns the flows that a callback has sent; for a request, its message.
function flowsOut(l, i) {
  if (l.state[i] & LASTS) return messageOf(l, i);
  const out = [];
  for (let n = upper(l.outTimes, l.start[i] - 1); n < l.outCount && l.outTimes[n] <= l.end[i]; n++)
    if (l.outSlices[n] === i) out.push(l.outFlows[n]);
  return out;
}

// Returns the messages that have arrived in a callback; for a request, the last answer.
function flowsIn(l, i) {
  const found = [];
  if (l.state[i] & LASTS) return answerOf(l, i);
  for (let n = upper(l.inTimes, l.start[i] - 1); n < l.inCount && l.inTimes[n] <= l.end[i]; n++)
    if (l.inSlices[n] === i && l.inFlows[n] >= MESSAGES) found.push(l.inFlows[n]);
  return found;
}

// Returns the message of a request: the first message of this name that was sent after the request began, in the same
// callback.
function messageOf(l, i) {
  if (label(l.object[i]).kind !== "nats") return [];
  const { opener } = l.lasts.find(one => one.slice === i);
  for (let n = upper(l.outTimes, l.start[i] - 1); n < l.outCount && l.outTimes[n] <= l.end[i]; n++)
    if (l.outFlows[n] >= MESSAGES && l.outObjects[n] === l.object[i] && l.outSlices[n] === opener)
      return [l.outFlows[n]];
  return [];
}

function answerOf(l, i) {
  if (label(l.object[i]).kind !== "nats") return [];
  const { closer } = l.lasts.find(one => one.slice === i);
  for (let n = upper(l.inTimes, l.end[i]) - 1; n >= 0 && l.inTimes[n] >= l.start[i]; n--)
    if (l.inFlows[n] >= MESSAGES && l.inObjects[n] === l.object[i] && l.inSlices[n] === closer) return [l.inFlows[n]];
  return [];
}

// Returns the pieces of a task, [lane, slice] each; null: not a task. Caches the last result, since the same task is
// requested many times.
let asked = { task: 0, pieces: null };
function piecesOf(task) {
  if (asked.task === task) return asked.pieces;
  const pieces = [];
  for (const l of lanes()) for (let i = 0; i < l.sliceCount; i++) if (l.task[i] === task) pieces.push([l, i]);
  asked = { task, pieces: pieces.length ? pieces : null };
  return asked.pieces;
}

// The next piece of a span that its task's wait has interrupted; -1: none.
let afterPieces = null;
function pieceAfter(l, i) {
  if (!afterPieces) {
    afterPieces = new Map();
    const open = new Map();  // by task and name
    for (const own of lanes()) {
      const after = new Map();
      afterPieces.set(own, after);
      for (let k = 0; k < own.sliceCount; k++) {
        if (!own.task[k] || label(own.object[k]).kind !== "span") continue;
        const key = own.task[k] + " " + own.object[k], before = open.get(key);
        if (before !== undefined) after.set(before, k);
        if (own.state[k] & WAITS) open.set(key, k); else open.delete(key);
      }
    }
  }
  return afterPieces.get(l).get(i) ?? -1;
}
