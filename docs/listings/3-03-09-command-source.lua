-- Listings 3-3 to 3-9, and Figure 3-2: a custom input source with a command buffer, served by a thread of its own.
--
--   rlhost 3-03-09-command-source.lua
--
-- The worker makes the source (3-3, 3-7) and adds it to its loop. Its schedule callback registers it with the main
-- thread (3-4, 3-8), which then posts commands (3-9). The worker performs them (3-5). When the source is invalidated,
-- its cancel callback makes the main thread forget it (3-6, 3-8), and waits until it has.

local rl = require "runloop"

-- 3-8: the main thread's list of sources. These functions run on the main thread, and requests name them instead of
-- passing them: a function that is passed is copied, together with its own copy of the list.
local delegate = { sources = {} }
package.loaded.delegate = delegate

function delegate.register(context)
  table.insert(delegate.sources, context)
  print(("main: source \"%s\" registered"):format(context.source:name()))
  delegate.on_register(context)
end

function delegate.remove(context)
  for i, known in ipairs(delegate.sources) do
    if known.source == context.source then
      table.remove(delegate.sources, i)
      print(("main: source \"%s\" removed, %d left"):format(context.source:name(), #delegate.sources))
      return
    end
  end
end

local function worker()
  local rl = require "runloop"
  local main, results = rl.main(), {}

  local commands = {
    add = function(a, b) results[#results + 1] = ("%d + %d = %d"):format(a, b, a + b) end,
    join = function(...) results[#results + 1] = table.concat({ ... }, " ") end,
    quit = function(source) source:invalidate() end,
  }

  -- 3-3 and 3-7: the source. The chapter's buffer, lock and context object are built in: `post` fills the buffer, and
  -- `commands` empties it.
  local source = rl.source {
    name = "calculator",

    -- 3-4: the source was added to a mode of a loop.
    schedule = function(source, loop, mode)
      results[#results + 1] = "scheduled in mode " .. mode
      main:perform(function(context) require "delegate".register(context) end, { source = source, loop = loop })
    end,

    -- 3-5: called once for any number of signals.
    perform = function(source)
      for name, a, b, c in source:commands() do
        if name == "quit" then commands.quit(source) else commands[name](a, b, c) end
      end
    end,

    -- 3-6: the source has left a mode. With `wait` this continues after the main thread has forgotten it.
    cancel = function(source, loop, mode)
      local function remove(context) require "delegate".remove(context) end
      main:perform { remove, { source = source, loop = loop }, wait = true }
      results[#results + 1] = "cancelled in mode " .. mode
    end,
  }

  rl.current():add(source, rl.modes.default)
  rl.run()                                    -- until the source is gone: the loop is empty then
  return results
end

-- 3-9: the main thread's use of a registered source. One call does everything: it puts the command into the buffer,
-- signals the source, and wakes its loop, in this order.
function delegate.on_register(context)
  context.source:post("add", 2, 3)
  context.source:post("join", "three", "small", "words")
  -- The chapter's own way, for a source without the buffer: signal the source, then wake its loop; here the buffer has
  -- no new command.
  context.source:signal()
  context.loop:wake_up()
  context.source:post "quit"
end

local ended, results = rl.thread { worker, name = "worker" }:join()
assert(ended, results)
for _, line in ipairs(results) do print("worker: " .. line) end

--[[ expected:
main: source "calculator" registered
main: source "calculator" removed, 0 left
worker: scheduled in mode default
worker: 2 + 3 = 5
worker: three small words
worker: cancelled in mode default
]]
