// A recording is a number of chunks, scripts of the type text/x-rlhost. Each begins with two letters: "z" (compressed
// as gzip does) or "r" (raw), and "n" (names as JSON) or "e" (events of 32 bytes). The data follow in base64. An event:
//   u64 nanoseconds · u8 kind · u8 flags · u16 thread · u32 object · u64 a · u32 flow · u32 task
// Events lie in columns: the first four bytes of all of a chunk's events, the second four of all, and so on. Each time
// is the difference to the event before it in the chunk, which may be negative; the first counts from 0.
const BEGIN = 1, END = 2, RUN = 3, RUN_END = 4, PASS = 5, PASS_END = 6, SLEEP = 7, WAKE = 8, OUT = 9, IN = 10,
      MARK = 11, WHOLE = 12, BYTES = 13, STEP = 14, OPENS = 16, CLOSES = 17, ENDED = 18, DELAYED = 19, BELONGS = 20,
      DEPARTS = 21, ARRIVES = 22;
const WAITS = 1, FAILED = 2, LASTS = 4;  // flags of END, and of lasting items
const REASONS = ["", "a timer was due", "a descriptor became ready", "a wake-up", "a signal", "its time limit passed"];
const RESULTS = ["", "finished", "stopped", "timed out", "handled a source"];
// Okabe and Ito's colours, which the colour-blind can tell apart.
const COLORS = {
  timer: "#e69f00",
  source: "#009e73",
  port: "#0072b2",
  observer: "#999999",
  request: "#cc79a7",
  task: "#56b4e9",
  message: "#d55e00",
  span: "#b8a800",
  collector: "#7a4e2d",
  stream: "#4f7cac",
  program: "#7f5aa2",
  http: "#3b8f8f",
  nats: "#a3336b",
  data: "#5d7a1f",
  other: "#888888"
};
const GROUNDS = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#999999", "#0072b2", "#f0e442"];
const $ = id => document.getElementById(id);

const names = new Map();      // number -> { text, place, kind }
const threads = new Map();    // number -> lane
const texts = new Map();
let about = {};

function lane(number) {
  let found = threads.get(number);
  if (!found) threads.set(number, found = new Lane(number));
  return found;
}

// Decodes a chunk. Workers call this function as well, so it uses nothing of the page.
async function unpack(text) {
  const code = text.slice(2);
  // Older browsers need the second way.
  const bytes = Uint8Array.fromBase64 ? Uint8Array.fromBase64(code) : Uint8Array.from(atob(code), c => c.charCodeAt(0));
  if (text[0] !== "z") return bytes;
  const unzip = new DecompressionStream("gzip"), writer = unzip.writable.getWriter();
  // Reading reports errors in the bytes.
  writer.write(bytes).catch(() => {});
  writer.close().catch(() => {});
  return new Uint8Array(await new Response(unzip.readable).arrayBuffer());
}

// Unpacks chunks in order: in workers while this thread reads, or here if that is faster or there are no workers.
class Unpacking {
  static AHEAD = 12;  // Chunks per thread: with more, large recordings would be in memory twice.

  constructor(texts) {
    this.texts = texts; this.started = 0; this.answers = []; this.workers = [];
    const count = texts.length < 8 ? 0 : Math.min(4, navigator.hardwareConcurrency || 1);
    try {
      const code = URL.createObjectURL(new Blob([
        `${unpack}
        let before = null;
        onmessage = ({ data: [n, text] }) => before = Promise.resolve(before).then(() => unpack(text)).then(bytes => postMessage([n, bytes], [bytes.buffer]), error => postMessage([n, null, error.message]));`
      ]));
      while (this.workers.length < count) {
        const worker = new Worker(code);
        worker.onmessage = ({ data: [n, bytes, message] }) => {
          if (bytes) this.answers[n].resolve(bytes);
          else this.answers[n].reject(new Error(message));
        };
        // If a worker does not start, this thread does its work.
        worker.onerror = () => {
          for (const answer of this.answers)
            if (answer && answer.worker === worker) unpack(answer.text).then(answer.resolve, answer.reject);
        };
        this.workers.push(worker);
      }
    } catch { /* the bytes read so far are enough */ }
  }

  start() {
    const n = this.started++, text = this.texts[n], worker = this.workers[n % this.workers.length],
          answer = { text, worker };
    answer.bytes = new Promise((resolve, reject) => { answer.resolve = resolve; answer.reject = reject; });
    answer.bytes.catch(() => {});  // The reader that waits for this chunk gets the error.
    this.answers.push(answer);
    if (worker) worker.postMessage([n, text]);
    else unpack(text).then(answer.resolve, answer.reject);
  }

  bytes(n) {
    const until = Math.min(this.texts.length, n + Math.max(1, Unpacking.AHEAD * this.workers.length));
    while (this.started < until) this.start();
    const { bytes } = this.answers[n];
    return bytes;
  }

  end() { for (const worker of this.workers) worker.terminate(); }
}

// The largest number of records that a browser can hold; a larger recording shows its last ones.
const MOST_RECORDS = 6e6;

// Reads the number of records of a chunk at the chunk's end.
function countOf(text) {
  if (text[0] !== "z") return Math.floor((text.length - 2) * 3 / 4) >> 5;
  const end = atob(text.slice(-8)), at = end.length - 4;
  return ((end.charCodeAt(at) | end.charCodeAt(at + 1) << 8 | end.charCodeAt(at + 2) << 16 |
            end.charCodeAt(at + 3) << 24) >>>
           0) >>
    5;
}

async function load() {
  const pieces = [...document.querySelectorAll('script[type="text/x-rlhost"]')].map(s => s.textContent.trim()),
        final = pieces[pieces.length - 1];
  const read = async (text, bytes) => {
    try { return await bytes; } catch (error) {
      // A killed program leaves its last chunk unfinished.
      if (text !== final) throw error;
      about.cut = true;
      return null;
    }
  };
  const said = pieces.filter(text => text[1] === "n").map(text => read(text, unpack(text)));
  for (const bytes of await Promise.all(said)) if (bytes) learn(JSON.parse(new TextDecoder().decode(bytes)));
  const recorded = pieces.filter(text => text[1] === "e");
  let start = recorded.length;
  // The end of an unfinished chunk has no valid count.
  for (let count = 0; start > 0 && count < MOST_RECORDS;) {
    const text = recorded[--start];
    if (text !== final) count += countOf(text);
  }
  about.left = recorded.splice(0, start).reduce((sum, text) => sum + countOf(text), 0);
  // Growing a column copies it, so the likely size is reserved.
  const room =
    Math.floor(recorded.reduce((sum, text) => sum + (text === final ? 0 : countOf(text)), 0) / 8 / (threads.size || 1));
  for (const l of threads.values()) l.reserve(room);
  const unpacking = new Unpacking(recorded);
  for (let n = 0; n < recorded.length; n++) {
    const bytes = await read(recorded[n], unpacking.bytes(n));
    if (bytes && bytes.byteLength >= 32) take(new Uint32Array(bytes.buffer, 0, (bytes.byteLength >> 5) * 8));
    unpacking.answers[n] = recorded[n] = null;
  }
  unpacking.end();
  if (first === Infinity) first = last = 0;
  for (const l of threads.values()) l.finish();
}

// Reads metadata events: names, and properties of the whole recording.
function learn(told) {
  for (const [number, kind, text, place] of told.names || []) {
    const key = kind + "\n" + text + "\n" + place;  // equal names of several processes
    if (!texts.has(key)) texts.set(key, { kind: COLORS[kind] ? kind : "other", text, place: place || "" });
    names.set(number, texts.get(key));
  }
  Object.assign(about, told.about || {});
  for (const [number, name, process] of told.threads || []) {
    const l = lane(number), owner = (about.processes || [])[process];
    l.name = name;
    // In a page of several processes, the name of the process comes first.
    if (owner) [l.owner, l.own] = cut(name, name.indexOf(": ", owner.name.length), 2);
  }
}

const cut = (text, at, length) => [text.slice(0, at), text.slice(at + length)];

// Returns the first index with a greater value.
function upper(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
