
// ---- Findings ----

const HELD = 20e6, NOTABLY_LATE = 5e6, OFTEN = 50, WINDOW = 100e6;

function asleepBetween(l, a, b) { return asleepBefore(l, b) - asleepBefore(l, a); }

// Returns the innermost run at a moment.
function runAt(l, time) {
  let run = l.runs[upperOf(l.runs, time, run => run.start) - 1] || null;
  while (run && run.end < time) run = run.outer;
  return run;
}

function upperOf(sorted, value, key) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(sorted[middle]) <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Returns why a callback was late: { text, culprit: [lane, slice], mode }, from what the loop did between its due date
// and its start.
function cause(l, i) {
  const due = l.due[i], start = l.start[i], late = start - due;
  // A run in another mode does not serve the callback, whether it sleeps or works.
  const run = runAt(l, due + late / 2);
  if (run && run.mode !== l.mode[i] && Math.min(run.end, start) - Math.max(run.start, due) >= late / 2)
    return { mode: run, text: `the loop ran in mode ${label(run.mode).text} meanwhile, which does not serve it` };
  if (asleepBetween(l, due, start) >= late / 2) {
    return {
      text: "the loop went on sleeping: the system woke the loop late, or the loop's mode does not serve the callback",
    };
  }
  const depth = l.row[i];
  let best = null;
  for (let row = depth; row >= 0 && best === null; row--) {
    const own = l.byRow[row], { index, start: starts } = own;
    let low = upper(starts, due - .5), high = upper(starts, start);
    while (high > low && l.end[index[high - 1]] > start) high--;  // excludes the slice itself and the slices around it
    const inside = longestOf(l, own, low, high), before = low > 0 ? index[low - 1] : -1;
    let most = 0;
    if (inside >= 0) most = l.end[inside] - l.start[inside];
    if (most > 0) best = inside;
    if (before >= 0 && l.end[before] <= start && l.end[before] - due > most) best = before;
  }
  if (best === null) return { text: "the loop was busy between its callbacks, or did not run" };
  return {
    culprit: [l, best],
    text:
      `${label(l.object[best]).text} held the loop for ${duration(l.end[best] - l.start[best])}${delayText(l, best)}`
  };
}

// Returns the longest slice between two places of a row; -1: none. Caches the longest of each 16 slices, and of each 16
// groups of 16, because this function is called for each late callback.
function longestOf(l, own, low, high) {
  const { index } = own, time = i => l.end[i] - l.start[i];
  if (!own.longest) {
    own.longest = [index];
    for (let below = index; below.length > 16;) {
      const level = new Uint32Array(Math.ceil(below.length / 16));
      below.forEach((i, n) => { if (!(n & 15) || time(i) > time(level[n >> 4])) level[n >> 4] = i; });
      own.longest.push(below = level);
    }
  }
  let best = -1;
  const look = i => { if (best < 0 || time(i) > time(best)) best = i; };
  own.longest.forEach((level, n) => {
    const isLast = n + 1 === own.longest.length;
    while (low < high && (isLast || low & 15)) look(level[low++]);
    while (low < high && high & 15) look(level[--high]);
    low >>= 4; high >>= 4;
  });
  return best;
}

// Returns how long a callback held its loop. Nested runs do not count, since the loop continued in them. The time for
// which the thread waited for a processor does not count, since the machine causes it.
function heldFor(l, i) {
  const { runs } = l;
  let time = l.end[i] - l.start[i] - delayOf(l, i), after = l.start[i];
  for (let n = upperOf(runs, l.start[i] - .5, run => run.start); n < runs.length && runs[n].start < l.end[i]; n++) {
    if (runs[n].row <= l.row[i] || runs[n].start < after) continue;
    after = Math.min(runs[n].end, l.end[i]);
    time -= after - runs[n].start;
  }
  return Math.max(0, time);
}
const delayOf = (l, i) => l.delays.get(i) || 0;
const delayText = (l, i) => delayOf(l, i) ? `, but was not scheduled for ${duration(delayOf(l, i))} of it` : "";

// Returns the result of `heldFor` without the time of inner callbacks that are findings themselves. A span
// belongs to the script: its callback is the finding.
function ownTime(l, i) {
  const inner = l.byRow[l.row[i] + 1];
  let time = heldFor(l, i);
  if (!inner || time < HELD) return time;
  for (let n = upper(inner.start, l.start[i] - .5); n < inner.index.length && inner.start[n] < l.end[i]; n++) {
    const k = inner.index[n];
    if (l.end[k] - l.start[k] < HELD || l.state[k] & LASTS || label(l.object[k]).kind === "span" ||
      runAt(l, l.start[k]) !== runAt(l, l.start[i]))
      continue;
    const held = heldFor(l, k);
    if (held >= HELD) time -= held;
  }
  return time;
}

// Returns the parts of a sentence about callbacks that were delayed by another callback.
function lateBy({ count, worst, at }) {
  if (!count) return [];
  const one = count === 1;
  return [
    ["; "], [one ? "one callback" : count + " callbacks", at],
    [` ${one ? "was" : "were"} late by it, ${one ? "by" : "up to"} ${duration(worst)}`]
  ];
}

let causes = null;  // findings, computed once
function findings() {
  if (causes) return causes;
  const held = new Map(), starved = new Map(), delayed = new Map(), system = { count: 0, worst: 0, at: null },
        list = [];
  let looked = 0;
  for (const l of lanes()) for (const i of l.notable) {
    const late = lateness(l, i);
    if (late < NOTABLY_LATE || ++looked > 20000) continue;
    const why = cause(l, i);
    let entry = system;
    if (why.culprit && delayOf(l, why.culprit[1]) * 2 >= l.end[why.culprit[1]] - l.start[why.culprit[1]]) {
      if (!delayed.has(l)) delayed.set(l, { count: 0, worst: 0, at: null, longest: 0, culprit: null });
      entry = delayed.get(l);
      const time = delayOf(l, why.culprit[1]);
      if (time > entry.longest) { entry.longest = time; entry.culprit = why.culprit; }
    } else if (why.culprit) {
      const [, k] = why.culprit, key = label(l.object[k]);
      if (!held.has(key)) held.set(key, { count: 0, worst: 0, at: null, longest: 0, culprit: null });
      entry = held.get(key);
      const own = ownTime(l, k), time = own < NOTABLY_LATE ? l.end[k] - l.start[k] : own;
      if (time > entry.longest) { entry.longest = time; entry.culprit = why.culprit; }
    } else if (why.mode) {
      const key = label(l.object[i]).text + "\n" + label(why.mode.mode).text;
      if (!starved.has(key)) starved.set(key, { count: 0, worst: 0, at: null, mode: why.mode });
      entry = starved.get(key);
    }
    entry.count++;
    if (late > entry.worst) { entry.worst = late; entry.at = [l, i]; }
  }
  for (const l of lanes()) for (const i of l.notable) {
    if (l.end[i] - l.start[i] < HELD) continue;
    const key = label(l.object[i]), time = key.kind === "span" ? 0 : ownTime(l, i);
    if (time < HELD) continue;
    if (!held.has(key)) held.set(key, { count: 0, worst: 0, at: null, longest: 0, culprit: null });
    const entry = held.get(key);
    if (time > entry.longest) { entry.longest = time; entry.culprit = [l, i]; }
  }
  for (const [key, entry] of held) {
    if (entry.longest < NOTABLY_LATE) continue;
    list.push({
      weight: entry.longest + entry.worst * entry.count,
      parts: [
        [key.text, entry.culprit],
        [` held ${entry.culprit[0].name} for ${duration(entry.longest)}`],
        ...lateBy(entry),
        ["."]
      ],
      place: key.place
    });
  }
  for (const [l, entry] of delayed)
    list.push({
      weight: entry.worst,
      parts: [
        [l.name], [" was not scheduled for "], [duration(entry.longest), entry.culprit],
        [": the processors were busy; "], [entry.count === 1 ? "one callback" : entry.count + " callbacks", entry.at],
        [` came late because of it, by up to ${duration(entry.worst)}.`]
      ],
      place: ""
    });
  for (const entry of starved.values()) {
    const [l, i] = entry.at;
    list.push({
      weight: entry.worst * entry.count,
      parts: [
        [label(l.object[i]).text, entry.at],
        [` was due while ${l.name} ran in mode ${label(entry.mode.mode).text}, which does not serve it: ${
          entry.count === 1 ? "once" : entry.count + " times"} late, by ${entry.count === 1 ? "" : "up to "}${
          duration(entry.worst)}.`]
      ],
      place: label(l.object[i]).place
    });
  }
  if (system.count)
    list.push({
      weight: system.worst,
      parts: [
        [system.count === 1 ? "One callback" : system.count + " callbacks", system.at],
        [` came late, by up to ${
          duration(
            system.worst)}, without another callback to blame: the system woke the loop late, or it was not running.`]
      ],
      place: ""
    });
  for (const l of lanes()) {
    // The moment at which other threads sent most.
    const times = [];
    for (let n = 0; n < l.wakes.length; n++) if (l.reasons[n] === 3) times.push(l.wakes[n]);
    let most = 0, when = 0;
    for (let a = 0, b = 0; b < times.length; b++) {
      while (times[b] - times[a] > WINDOW) a++;
      if (b - a + 1 > most) {
        most = b - a + 1;
        when = times[a];
      }
    }
    if (most < OFTEN) continue;
    const rate = Math.round(most / Math.min(WINDOW, Math.max(last - first, 1e6)) * 1e9),
          awake = WINDOW - asleepBetween(l, when, when + WINDOW);
    const sender = waker(l, when);
    list.push({
      weight: most * 1e5,
      parts: [
        [l.name, () => show(when, when + WINDOW)],
        [` was woken ${rate} times a second${sender ? ", most by " + sender : ""}, for ${
          duration(awake / most)} of work each time.`]
      ],
      place: ""
    });
  }
  return causes = list.sort((a, b) => b.weight - a.weight).slice(0, 8);
}

// Returns the thread that sent most of the events that woke a loop from a moment on.
function waker(l, when) {
  const counts = new Map();
  for (let n = upper(l.wakes, when - 1), seen = 0; n < l.wakes.length && seen < 200; n++, seen++) {
    const sender = sent(l.wakeFlows[n]);
    const text =
      label(l.wakers[n]).text || sender && `${label(sender.object).text || "sends"} from ${sender.lane.name}`;
    if (text) counts.set(text, (counts.get(text) || 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0];
}

function link(text, go) {
  const a = document.createElement("a");
  a.textContent = text; a.tabIndex = 0;
  a.onclick = go; a.onkeydown = e => { if (e.key === "Enter") { e.stopPropagation(); go(); } };
  return a;
}

function drawFindings(aside) {
  const h = document.createElement("h2"), list = document.createElement("ul"), found = findings();
  h.textContent = "What stands out"; list.id = "findings";
  for (const { parts, place } of found) {
    const li = document.createElement("li");
    for (const [text, go] of parts)
      li.append(go ? link(text, typeof go === "function" ? go : () => choose(...go, true)) : text);
    if (place) {
      const small = document.createElement("small");
      small.textContent = " made at " + place;
      li.append(small);
    }
    list.append(li);
  }
  if (!found.length) {
    const li = document.createElement("li");
    li.textContent = `Nothing: no callback came ${duration(NOTABLY_LATE)} late or held its loop for ${duration(HELD)}.`;
    list.append(li);
  }
  aside.append(h, list);
}
