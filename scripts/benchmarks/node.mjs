// The workloads on Node, as its users write them.
import { Worker, isMainThread, parentPort } from "node:worker_threads";
import childProcess from "node:child_process";
import fs, { readFileSync, writeSync } from "node:fs";
import { performance } from "node:perf_hooks";
import net from "node:net";
import readline from "node:readline";
import tty from "node:tty";

let startedCPU, startedAt;
function start() { startedAt = performance.now(); startedCPU = process.cpuUsage(); }
function cpu() { const used = process.cpuUsage(startedCPU); return (used.user + used.system) * 1e-6; }
function print(result) { console.log(JSON.stringify(result)); }
function finish(ops, more = {}) {
  print({ ops, cpu: cpu(), wall: (performance.now() - startedAt) * 1e-3, ...more });
  process.exit(0);
}
function memory() {
  globalThis.gc?.();  // run with --expose-gc
  return Number(/Anonymous: *(\d+)/.exec(readFileSync("/proc/self/smaps_rollup", "latin1"))[1]) * 1024;
}
const random = (limit) => Math.floor(Math.random() * limit);
const interval = (i) => 1 + i % 10;
const message = Buffer.from("12345678");
const ignore = () => {};

function json(encodes, size, count) {
  const records = Array.from({ length: size }, (_, i) => ({
    id: i + 1, name: "item number " + (i + 1), price: (i + 1) * 1.25, tags: ["a", "b", "c"], sold: i % 2 === 1,
    text: 'with "quotes" and\nlines, ' + (i + 1),
  }));
  const text = JSON.stringify(records);
  start();
  for (let i = 0; i < count; i++) encodes ? JSON.stringify(records) : JSON.parse(text);
  finish(size * count);
}

const workloads = {
  timers(size, window) {
    let done = 0;
    const fired = () => { if (++done === size) finish(size); };
    start();
    for (let i = 0; i < size; i++) setTimeout(fired, random(window + 1));
  },

  cancel(size, count) {
    for (let i = 0; i < size; i++) setTimeout(ignore, 60000);
    start();
    for (let i = 0; i < count; i++) clearTimeout(setTimeout(ignore, 30000));
    finish(count);
  },

  // Node moves a deadline by restarting the timer with the delay it was made with.
  move(size, count) {
    const timers = Array.from({ length: size }, (_, i) => setTimeout(ignore, 30000 + i * 7919 % 9973));
    start();
    for (let i = 0; i < count; i++) timers[i % size].refresh();
    finish(count);
  },

  repeat(size, milliseconds) {
    let fires = 0, due = 0;
    for (let i = 0; i < size; i++) {
      setInterval(() => { fires++; }, interval(i));
      due += Math.floor(milliseconds / interval(i));
    }
    setTimeout(() => finish(fires, { delivered: fires / due, wall: undefined }), milliseconds);
    start();
  },

  lateness(size, milliseconds) {
    const counts = new Uint32Array(8000);  // in steps of 5 µs, as in common.lua
    let noted = 0;
    for (let i = 0; i < size; i++) {
      let due = performance.now() + interval(i);
      setInterval(() => {
        const now = performance.now();
        counts[Math.min(7999, Math.max(0, Math.floor((now - due) * 200)))]++;
        noted++;
        due = now + interval(i);  // Node has no grid: the next fire counts from this one
      }, interval(i));
    }
    setTimeout(() => {
      let step = 0, seen = counts[0];
      while (seen < noted * 0.99) seen += counts[++step];
      print({ ops: noted, p99: (step + 1) / 200000 });
      process.exit(0);
    }, milliseconds);
  },

  burst(_, count) {
    let done = 0;
    const called = () => { if (++done === count) finish(count); };
    start();
    for (let i = 0; i < count; i++) setImmediate(called);
  },

  chain(_, count) {
    let done = 0;
    const called = () => { if (++done === count) finish(count); else setImmediate(called); };
    start();
    setImmediate(called);
  },

  // Node cannot make a socket pair: a connection over loopback would cost more than the peers' pairs,
  // so the pair comes in from the harness as descriptors 3 and 4.
  pingpong(_, count) {
    let hops = 0;
    const [a, b] = [3, 4].map((fd) => new net.Socket({ fd, readable: true, writable: true }));
    for (const socket of [a, b]) {
      socket.on("data", (bytes) => { if (++hops === count) finish(count); else socket.write(bytes); });
    }
    start();
    a.write(message);
  },

  // The pipes come from the harness as well: descriptors 3, 5, 7 … are their reading ends, and 4, 6, 8 … their writing
  // ends.
  idle(size, count) {
    let done = 0;
    const next = () => writeSync(4 + 2 * random(size), message);
    for (let i = 0; i < size; i++) {
      const pipe = new net.Socket({ fd: 3 + 2 * i, readable: true, writable: false });
      pipe.on("data", () => { if (++done === count) finish(count); else next(); });
    }
    setImmediate(() => { start(); next(); });
  },

  wake(size, count) {
    let trips = 0, ready = 0;
    const workers = Array.from({ length: size }, () => new Worker(new URL(import.meta.url)));
    for (const worker of workers) {
      worker.on("message", (answer) => {
        if (answer === "ready") { if (++ready < size) return; start(); }
        else if (++trips === count) finish(count);
        workers[trips % size].postMessage(0);
      });
    }
  },

  echo(connections, requests) {
    let done = 0;
    const server = net.createServer({ noDelay: true }, (client) => {
      client.on("data", (bytes) => {
        client.write(bytes);
        if (++done === connections) start();
        if (done === connections + requests) finish(requests);
      });
      client.on("error", ignore);
    });
    server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, () => console.log(server.address().port));
  },

  spawn(size, count) {
    const next = (left) => {
      if (left === 0) return finish(count);
      const program = childProcess.spawn("/bin/true", [], { stdio: ["ignore", "pipe", "inherit"] });
      program.stdout.on("data", ignore);
      program.on("close", () => next(left - 1));
    };
    start();
    next(count);
  },

  output(size, count) {
    start();
    const program = childProcess.spawn(
      "/usr/bin/head", ["-c", String(count * 1048576), "/dev/zero"], { stdio: ["ignore", "pipe", "inherit"] });
    program.stdout.on("data", ignore);
    program.on("close", () => finish(count));
  },

  changes(size, count) {
    const directory = fs.mkdtempSync("/tmp/bench-");
    fs.watch(directory, (kind, name) => {
      if (name !== "done") return;
      fs.rmSync(directory, { recursive: true });
      finish(count);
    });
    start();
    childProcess.spawn("/bin/sh",
      ["-c", `cd ${directory}; i=0; while [ $i -lt ${count} ]; do : > f$((i % 100)); i=$((i + 1)); done; : > done`],
      { stdio: "ignore" });
  },

  keys(size, count) {
    const terminal = new tty.ReadStream(fs.openSync("/dev/tty", "r+"));
    terminal.setRawMode(true);
    readline.emitKeypressEvents(terminal);
    let seen = 0;
    terminal.on("keypress", () => {
      fs.writeSync(1, ".");
      if (++seen === count) {
        terminal.setRawMode(false);
        console.log();
        finish(count);
      }
    });
    fs.writeSync(1, "?");
    start();
  },

  "memory-timer"(size) {
    const before = memory(), kept = [];
    for (let i = 0; i < size; i++) kept.push(setTimeout(ignore, 1000000));
    print({ ops: kept.length, bytes: memory() - before });
    process.exit(0);
  },

  // Descriptors from the harness, as for `idle`.
  "memory-fd"(size) {
    const before = memory(), kept = [];
    for (let i = 0; i < size; i++) {
      kept.push(new net.Socket({ fd: 3 + 2 * i, readable: true, writable: true }));
      kept[i].on("data", ignore);
    }
    setImmediate(() => {
      print({ ops: size, bytes: memory() - before });
      process.exit(0);
    });
  },

  "json-encode": (size, count) => json(true, size, count),
  "json-decode": (size, count) => json(false, size, count),

  "memory-thread"(size) {
    const before = memory();
    let ready = 0;
    for (let i = 0; i < size; i++) {
      new Worker(new URL(import.meta.url)).on("message", () => {
        if (++ready < size) return;
        print({ ops: size, bytes: memory() - before });
        process.exit(0);
      });
    }
  },
};

if (!isMainThread) {
  parentPort.on("message", () => parentPort.postMessage(0));
  parentPort.postMessage("ready");
} else {
  const [name, size, count] = process.argv.slice(2);
  if (!workloads[name]) process.exit(69);
  workloads[name](Number(size), Number(count));
}
