// ---- Texts ----

function item(list, term, text, go) {
  if (text === "" || text == null) return;
  const dt = document.createElement("dt"), dd = document.createElement("dd");
  dt.textContent = term;
  if (go) dd.append(link(text, go));
  else dd.textContent = text;
  list.append(dt, dd);
}

function other(end) {
  if (!end) return null;
  const text = end.slice >= 0 ? boxName(label(end.lane.object[end.slice])) : "the loop";
  return [
    text + " on " + end.lane.name,
    end.slice >= 0 ? () => choose(end.lane, end.slice, true) : () => show(end.time - 1e5, end.time + 1e5)
  ];
}

// Adds where a flow has arrived.
function itemsOf(list, flow) {
  const term = flow >= MESSAGES ? "message to" : "woke", ends = arrived(flow);
  if (!ends.length) item(list, term, label((sent(flow) || {}).object).text + " (not seen to arrive)");
  for (const end of ends.slice(0, 20)) item(list, term, ...other(end));
}

// Returns the call in which the task waited after this piece; older recordings do not contain it.
function waitText(l, i, words) {
  return l.state[i] & WAITS ? words + (l.waits[i] ? " in " + label(l.waits[i]).text : "") : "";
}

// Returns why a loop woke, and which thread woke it.
function wakeText(l, n) {
  const by = label(l.wakers[n]).text;
  return by && l.reasons[n] === 3 ? "it is woken by " + by : REASONS[l.reasons[n]] + (by ? ": " + by : "");
}

function describe() {
  const aside = $("details");
  aside.textContent = "";
  const h = document.createElement("h2"), list = document.createElement("dl");
  if (!chosen) return welcome();
  const { lane: l, slice: i } = chosen, what = label(l.object[i]);
  if (l.state[i] & LASTS) return describeLasting(aside, l, l.lasts.find(one => one.slice === i));
  h.textContent = what.text || what.kind;
  item(list, "kind", what.kind);
  item(list, "made at", what.place);
  item(list, "thread", l.name);
  item(list, "mode", label(l.mode[i]).text);
  if (l.due[i]) item(list, "due", moment(l.due[i]));
  item(list, "began", moment(l.start[i]) + (lateness(l, i) > 0 ? "  (" + duration(lateness(l, i)) + " late)" : ""));
  if (lateness(l, i) >= LATE) {
    const why = cause(l, i);
    item(list, "late because", why.text, why.culprit ? () => choose(...why.culprit, true) : null);
  }
  item(list, "ran for",
    duration(l.end[i] - l.start[i]) + delayText(l, i) + waitText(l, i, ", then waits") +
      (l.state[i] & FAILED ? ", and failed" : ""));
  if (l.missed[i]) item(list, "missed", l.missed[i] + (l.missed[i] === 1 ? " interval" : " intervals"));
  const amounts = new Map();
  for (let n = upper(l.byteTimes, l.start[i] - 1); n < l.byteTimes.length && l.byteTimes[n] <= l.end[i]; n++) {
    const key = l.byteOuts[n] + "\n" + label(l.byteObjects[n]).text;
    amounts.set(key, (amounts.get(key) || 0) + l.byteCounts[n]);
  }
  for (const [key, count] of amounts) {
    const [out, name] = key.split("\n");
    item(list, out === "1" ? "wrote" : "read", plural(count, "byte") + (name ? ": " + name : ""));
  }
  let pass = upper(l.passes, l.start[i]) - 1;
  while (pass >= 0 && l.passEnds[pass] < l.start[i]) pass--;  // a nested run has had passes since
  const wake = upper(l.wakes, l.start[i]) - 1;
  if (l.flow[i] && sent(l.flow[i])) { const [text, go] = other(sent(l.flow[i])); item(list, "woken by", text, go); }
  if (wake >= 0 && pass >= 0 && l.wakes[wake] >= l.passes[pass])
    item(list, "loop woke", wakeText(l, wake).replace(/^it is /, ""));
  for (const flow of flowsIn(l, i).slice(0, 20)) {
    const [text, go] = other(sent(flow)) || ["a process or a moment outside the recording", null];
    item(list, "message from", text, go);
  }
  for (const flow of chosen.out.slice(0, 20)) itemsOf(list, flow);
  const pieces = l.task[i] && piecesOf(l.task[i]);
  if (pieces && pieces.length > 1) {
    const n = pieces.findIndex(([p, k]) => p === l && k === i);
    item(list, "task", "piece " + (n + 1) + " of " + pieces.length);
    if (n > 0) item(list, "", "the piece before", () => choose(...pieces[n - 1], true));
    if (n + 1 < pieces.length) item(list, "", "the piece after", () => choose(...pieces[n + 1], true));
  }
  aside.append(h, list);
  if (pass >= 0) aside.append(steps(l, pass));
}

// Describes a connection, a program or a request.
function describeLasting(aside, l, { slice: i, number, opener, closer }) {
  const h = document.createElement("h2"), list = document.createElement("dl"), what = label(l.object[i]),
        isOpen = l.lasting.has(number) && l.lasting.get(number).slice === i;
  h.textContent = what.text || what.kind;
  item(list, "kind", LASTING[what.kind] || what.kind);
  item(list, "made at", what.place);
  item(list, "thread", l.name);
  if (l.groups.has(i)) item(list, "route", label(l.groups.get(i)).text);
  item(list, "began", moment(l.start[i]));
  const inside = slice => [boxName(label(l.object[slice])), () => choose(l, slice, true)];
  if (opener >= 0) item(list, "began in", ...inside(opener));
  item(list, isOpen ? "lasts" : "lasted", duration(l.end[i] - l.start[i]) + (isOpen ? ", and goes on at the end" : ""));
  if (closer >= 0) item(list, "ended in", ...inside(closer));
  const status = l.missed[i], failed = l.state[i] & FAILED;
  if (what.kind === "program" && !isOpen) item(list, "exit status", String(status));
  else if (what.kind === "data" && !isOpen && !failed) item(list, "rows", String(status));
  else if (status) item(list, "status", String(status));
  if (l.waited.has(i)) item(list, "waited for a connection", duration(1000 * l.waited.get(i)));
  if (failed) item(list, "outcome", "failed");
  for (const flow of flowsOut(l, i)) itemsOf(list, flow);
  for (const flow of answerOf(l, i)) item(list, "answer from", ...(other(sent(flow)) || ["not seen to leave"]));
  const counts = [0, 0];
  for (let n = upper(l.byteTimes, l.start[i] - 1); n < l.byteTimes.length && l.byteTimes[n] <= l.end[i]; n++)
    if (l.byteFlows[n] === number) counts[l.byteOuts[n]] += l.byteCounts[n];
  if (counts[0]) item(list, "read", plural(counts[0], "byte"));
  if (counts[1]) item(list, "wrote", plural(counts[1], "byte"));
  aside.append(h, list);
}

// Returns the ten steps of one pass, with the events of each.
function steps(l, pass) {
  const start = l.passes[pass], end = l.passEnds[pass], entries = Array.from({ length: 10 }, () => []);
  const sleep = upper(l.sleeps, start - 1), sleeps = sleep < l.sleeps.length && l.sleeps[sleep] <= end ? sleep : -1;
  const run = l.runs[l.passRuns[pass]];
  const isFirst = run && !(pass > 0 && l.passes[pass - 1] >= run.start && l.passRuns[pass - 1] === l.passRuns[pass]);
  const isLast = run && l.passRuns.indexOf(l.passRuns[pass], pass + 1) < 0;
  const depth = run ? run.row : 0, level = l.byRow[depth] || { index: [], start: [] };
  // The observers of a run's entry come before its first pass, those of its exit after the last.
  const begins = isFirst ? run.start : start, ends = isLast ? run.end : end;
  for (let n = upper(level.start, begins - 1); n < level.index.length && level.start[n] <= ends; n++) {
    const i = level.index[n];
    const what = label(l.object[i]), before = sleeps < 0 || l.start[i] < l.sleeps[sleeps];
    let step = 9;
    if (what.kind === "observer") {
      const told = upper(l.stepTimes, l.start[i]) - 1;
      step = told >= 0 && l.stepTimes[told] >= begins && l.stepNumbers[told] ? Math.min(10, l.stepNumbers[told])
        : before                                                             ? 3
                                                                             : 8;
    } else if (what.kind === "source" || what.kind === "request" && before) step = 4;
    else if (before) step = 5;
    entries[step - 1].push([l, i]);
  }
  const words = [
    "observers: entry", "observers: before timers", "observers: before sources", "custom sources and requests",
    "a port that is ready already", "observers: before waiting",
    sleeps >= 0
      ? "asleep for " + duration(l.wakes[sleeps] - l.sleeps[sleeps]) + ", until " + (wakeText(l, sleeps) || "now")
      : "does not sleep",
    "observers: after waiting", "what woke it", "observers: exit"
  ];
  const box = document.createElement("div"), h = document.createElement("h2"), ol = document.createElement("ol");
  h.textContent = "The pass it is in: " + duration(end - start) + " from " + moment(start);
  words.forEach((word, n) => {
    const li = document.createElement("li");
    const has = entries[n].length || n === 6 && sleeps >= 0;
    if (!has) li.className = "quiet";
    li.append(n === 0 && !isFirst || n === 9 && !isLast ? word + " (not in this pass)" : word);
    for (const [lane, i] of entries[n].slice(0, 12)) {
      const a = document.createElement("a"), line = document.createElement("div");
      a.textContent = label(lane.object[i]).text; a.onclick = () => choose(lane, i, true);
      line.append("+" + duration(lane.start[i] - start) + " ", a, ", " + duration(lane.end[i] - lane.start[i]));
      li.append(line);
    }
    if (entries[n].length > 12) li.append("… and " + (entries[n].length - 12) + " more");
    ol.append(li);
  });
  box.append(h, ol);
  return box;
}

function welcome() {
  const aside = $("details");
  aside.textContent = "";
  drawFindings(aside);
  const box = document.createElement("div");
  aside.append(box);
  box.innerHTML = `<h2>How to read it</h2>
    <p>Each lane is a thread's run loop. The coloured ground is the <b>mode</b> it runs in; ground on ground is a run inside a run. Where nothing is, the loop
    <b>sleeps</b>. Each box is a <b>callback</b>; a line that leads to it begins at the date when it was due: so <b>late</b> it was. The pale boxes below last
    longer than a callback: <b>connections, programs, requests, calls of databases</b>. Arrows lead from what was sent to what that woke, also between processes.</p>
    <p>The strip above shows all of it: how much of the time the busiest loop was <b>awake</b>. Click there to go to that moment.</p>
    <p>Click a box to see where it was made, who woke it, whom it woke, and the ten steps of its pass.</p>
    <div id="keys"><h2>Keys</h2><dl>
    <dt><kbd>W</kbd> <kbd>S</kbd> <kbd>+</kbd> <kbd>−</kbd> wheel</dt><dd>zoom</dd><dt><kbd>A</kbd> <kbd>D</kbd> <kbd>←</kbd> <kbd>→</kbd> drag</dt><dd>move</dd>
    <dt><kbd>↑</kbd> <kbd>↓</kbd></dt><dd>other lanes</dd><dt><kbd>0</kbd></dt><dd>all</dd><dt><kbd>Tab</kbd> <kbd>⇧Tab</kbd></dt><dd>next, previous callback</dd>
    <dt><kbd>/</kbd></dt><dd>search by name; <kbd>Enter</kbd>: next</dd><dt><kbd>L</kbd></dt><dd>next that is 1 ms late or more</dd><dt><kbd>N</kbd></dt><dd>next slow one</dd>
    <dt><kbd>E</kbd></dt><dd>all arrows</dd><dt><kbd>T</kbd></dt><dd>table by place</dd><dt><kbd>⇧</kbd> drag, <kbd>M</kbd></dt><dd>ruler</dd><dt><kbd>Esc</kbd></dt><dd>choose nothing</dd></dl></div>`;
}

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
// Lasting items have their own words.
const LASTING = { stream: "connection", program: "program", http: "HTTP request", nats: "NATS request",
  data: "database call" };

// Returns by how much the times of different processes may be wrong; returns nothing for processes of one machine.
function clockText() {
  const all = about.processes || [], unknown = all.filter(one => one.error === undefined),
        most = Math.max(0, ...all.map(one => one.error || 0)), name = one => `${one.name} ${one.process}`;
  $("summary").title = all.map(one => `${name(one)}${one.host && " on " + one.host}: ${
    one.shares && !one.error           ? "the clock of the first one"
      : one.error === undefined        ? "by its machine's time of day"
                                       : "± " + duration(one.error)}`).join("\n");
  if (unknown.length)
    return `clocks by the time of day, which may be wrong: ${unknown.map(name).join(", ")}${
      most ? `; others ± ${duration(most)}` : ""}`;
  return most || all.some(one => !one.shares) ? `clocks ± ${duration(most)}` : "";
}

function summary() {
  let callbacks = 0, late = 0, longest = 0;
  const lasting = {};
  for (const l of threads.values()) {
    callbacks += l.callbacks; late += l.late; longest = Math.max(longest, l.longest);
    for (const { slice } of l.lasts) {
      const { kind } = label(l.object[slice]);
      lasting[kind] = (lasting[kind] || 0) + 1;
    }
  }
  $("summary").textContent = [
    duration(last - first), plural(threads.size, "loop"), plural(callbacks, "callback"), late + " late",
    "longest " + duration(longest),
    ...Object.entries(lasting).map(([kind, count]) => plural(count, LASTING[kind] || kind)), clockText()
  ].filter(Boolean).join(" · ");
  if (about.dropped) $("summary").textContent += ` · ${about.dropped} earlier records were dropped`;
  if (about.left)
    $("summary").textContent += ` · the first ${about.left} records are not shown: there are too many for a page`;
  if (about.lost) $("summary").textContent += ` · ${about.lost} later records had no room`;
  if (about.cut) $("summary").textContent += " · it ends early: the program was killed";
  slowLimit = Math.max(1e5, longest / 4);
}
