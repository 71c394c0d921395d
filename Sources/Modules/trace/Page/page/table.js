// ---- The table ----

let sorting = { key: "total", down: true }, rows = null;
// Returns a request's method and path with "*" in place of each segment that is a number or an identifier. An
// identifier has at least eight hexadecimal digits, and at least one of them is decimal. The recording has a route in
// place of the path only if the server has routes.
const IDENTIFIER = /^(\d+|(?=[^\d]*\d)[\da-f-]{8,})$/i;
const routeOf = text => {
  const [, start, path] = /^(\S* (?:[a-z]+:\/\/[^\/]*)?)(.*)$/is.exec(text) || [, text, ""];
  return start + path.split("/").map(segment => IDENTIFIER.test(segment) ? "*" : segment).join("/");
};
function collect() {
  // A connection and its callbacks share one name.
  const callbacks = new Map(), lasting = new Map();
  for (const l of lanes()) for (let i = 0; i < l.start.length; i++) {
      const n = l.groups.get(i) || l.object[i], lasts = l.state[i] & LASTS, groups = lasts ? lasting : callbacks,
            route = lasts && label(n).kind === "http" ? routeOf(label(n).text) : "",
            key = route ? route + "\n" + label(n).place : names.get(n) || n;
      let g = groups.get(key);
      if (!g)
        groups.set(key, g = {
          name: (route || label(n).text) + (lasts && label(n).kind === "stream" ? ", from open to close" : ""),
          place: label(n).place,
          kind: label(n).kind,
          times: [],
          late: 0,
          worst: 0,
          longest: 0,
          total: 0,
          at: null
        });
      const d = l.end[i] - l.start[i];
      g.times.push(d);
      g.total += d;
      if (isLate(l, i)) g.late++;
      if (d >= g.longest) {
        g.longest = d;
        g.at = [l, i]; }
    g.worst = Math.max(g.worst, lateness(l, i));
  }
  rows = [...callbacks.values(), ...lasting.values()];
  for (const g of rows) {
    g.times = Float64Array.from(g.times).sort();
    g.count = g.times.length;
    g.p50 = g.times[Math.floor((g.count - 1) * .5)];
    g.p99 = g.times[Math.floor((g.count - 1) * .99)];
  }
}
const COLUMNS = [
  ["name", "callback"], ["count", "count"], ["total", "total"], ["longest", "longest"], ["p50", "p50"], ["p99", "p99"],
  ["late", "late"], ["worst", "latest"]
];
function drawTable() {
  if (!rows) collect();
  const { key, down } = sorting;
  rows.sort((a, b) => (typeof a[key] === "string" ? a[key].localeCompare(b[key]) : a[key] - b[key]) * (down ? -1 : 1));
  const table = document.createElement("table"), head = table.createTHead().insertRow(), body = table.createTBody();
  for (const [name, title] of COLUMNS) {
    const th = document.createElement("th");
    th.textContent = title + (name === key ? down ? " ▾" : " ▴" : "");
    th.tabIndex = 0;
    th.scope = "col";
    th.dataset.key = name;
    th.setAttribute("aria-sort", name === key ? down ? "descending" : "ascending" : "none");
    const sort = () => {
      sorting = { key: name, down: name === key ? !down : name !== "name" };
      drawTable();
      $("table").querySelector(`th[data-key="${name}"]`).focus();
    };
    th.onclick = sort; th.onkeydown = e => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); sort(); } };
    head.append(th);
  }
  for (const g of rows.slice(0, 500)) {
    const tr = body.insertRow(), cells = [
      g.name + (g.place ? "  " + g.place : ""), g.count, duration(g.total), duration(g.longest), duration(g.p50),
      duration(g.p99), g.late || "", g.worst ? duration(g.worst) : ""
    ];
    for (const cell of cells) tr.insertCell().textContent = cell;
    tr.tabIndex = 0; tr.title = "go to the longest";
    tr.onclick = () => choose(...g.at, true);
    tr.onkeydown = e => { if (e.key === "Enter") choose(...g.at, true); };
  }
  $("table").replaceChildren(table);
}
function toggleTable() {
  const shown = $("table").hidden;
  $("table").hidden = !shown;
  $("places").setAttribute("aria-pressed", shown);
  if (shown) drawTable();
  redraw();
}
function toggleArrows() { showsArrows = !showsArrows; $("arrows").setAttribute("aria-pressed", showsArrows); redraw(); }
