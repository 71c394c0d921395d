-- Recordings of threads that continue to run while other threads read their records. Under ThreadSanitizer
-- (scripts/sanitize thread) this test finds reads of memory that another thread is writing.

local t = require "runloop.test"
local fs = require "runloop.fs"
local json = require "runloop.json"
local process = require "runloop.process"

local SCRIPT <const> = [[
local rl = require "runloop"
local function work()
  local rl = require "runloop"
  local count = 0
  rl.every(0.0005, function() rl.perform(function() count = count + 1 end) end)
  rl.run()
end
local threads = {}
for i = 1, 3 do threads[i] = rl.thread { work, name = "worker " .. i, keeps_alive = false } end
for i = 1, 4 do
  assert(rl.trace.start(("%s/recording%d.json"):format(arg[1], i)))
  rl.sleep(0.01)
  assert(rl.trace.dump(("%s/dump%d.json"):format(arg[1], i)))
  rl.sleep(0.005)
  assert(rl.trace.stop())
end
for _, thread in ipairs(threads) do thread:loop():perform(rl.stop) end
print "done"
os.exit(0, true)
]]

t.it("recordings and dumps of running threads are complete", { real_time = true, timeout = 120 }, function()
  local folder = assert(fs.temporary_directory())
  local gone <close> = setmetatable({}, { __close = function() fs.remove(folder, { recursive = true }) end })
  assert(fs.write(folder .. "/app.lua", SCRIPT))
  local run = process.run { fs.real_path(t.rlhost), folder .. "/app.lua", folder }
  t.equal({ run.output, run.errors, run.code }, { "done\n", "", 0 })
  local seen, threads = {}, 0
  for i = 1, 4 do
    for _, kind in ipairs { "recording", "dump" } do
      local events = assert(json.decode(assert(fs.read(("%s/%s%d.json"):format(folder, kind, i)))))
      for _, event in ipairs(events.traceEvents or events) do
        if event.cat and event.cat:find "timer" then seen[event.tid] = true end
      end
    end
  end
  for _ in pairs(seen) do threads = threads + 1 end
  t.truthy(threads >= 3, threads)
end)

-- A program in C whose reader copies the records of a thread that writes: by the recorder's function, and by memcpy.
local READER <const> = [[
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "threads.h"
static uint64_t ring[64], next;
static void *write_all(void *unused) {
  for (uint64_t n = 0; n < 200000; n++) {
    ring[n & 63] = n;
    linux_publish(&next, n + 1);
  }
  return unused;
}
int main(void) {
  pthread_t thread;
  uint64_t copy[64], sum = 0;
  pthread_create(&thread, NULL, write_all, NULL);
  for (int i = 0; i < 2000; i++) {
    COPY(copy, ring, sizeof copy);
    sum += linux_published(&next) + copy[i & 63];
  }
  pthread_join(thread, NULL);
  return puts(sum ? "read" : "");
}
]]
local HERE <const> = debug.getinfo(1, "S").source:match "^@(.*/)" or ""
local HEADERS <const> = HERE .. "../../../Sources/Engine/System/C/include"

t.it("reading records beside their writer passes ThreadSanitizer", { real_time = true, timeout = 120 }, function()
  local folder = assert(fs.temporary_directory())
  local gone <close> = setmetatable({}, { __close = function() fs.remove(folder, { recursive = true }) end })
  assert(fs.write(folder .. "/reader.c", READER))
  local function reported(copy)
    local made = process.run { "gcc", "-O2", "-fsanitize=thread", "-DCOPY=" .. copy, "-I", HEADERS,
      folder .. "/reader.c", "-o", folder .. "/reader", "-lpthread" }
    if not made or made.code ~= 0 then t.skip "gcc, or its ThreadSanitizer, is not installed" end
    local run = process.run { "setarch", "-R", folder .. "/reader" }
    if not run or run.errors:find "unexpected memory mapping" then t.skip "ThreadSanitizer does not run here" end
    return run.errors:find "data race" ~= nil
  end
  t.equal(reported "memcpy", true)
  t.equal(reported "linux_peek", false)
end)
