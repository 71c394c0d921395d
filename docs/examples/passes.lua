-- Draws each pass of the loop on one line: from "about to fire timers" to its end.
--
--   rlhost passes.lua
--
--   T S     the pass has begun: timers, then sources are next
--   (name)  a callback ran
--   z 20    the loop slept for 20 milliseconds
--
-- Two timers, a source and a pipe make work. Look for passes without sleep: after the loop has performed a source, it
-- only checks for ready items, and it handles a ready port without going to sleep.

local rl = require "runloop"
local loop = rl.current()

local line, asleep = nil, nil
local function draw(text) line[#line + 1] = text end
local function finish()
  if line then print(table.concat(line, " ")) end
  line = nil
end

rl.observe("all", function(_, activity)
  if activity == "entry" then
    print "enter"
  elseif activity == "before_timers" then
    finish()
    line = { "T" }
  elseif activity == "before_sources" then
    draw "S"
  elseif activity == "before_waiting" then
    asleep = rl.now()
  elseif activity == "after_waiting" then
    draw(("z %.0f"):format((rl.now() - asleep) * 1000))
  else
    finish()
    print "exit"
  end
end)

local source = rl.source { perform = function(source) draw "(source)" source:invalidate() end }
loop:add(source)

-- A pipe that contains data from the start.
local uv = require "luv"
local pipe = uv.pipe()
uv.fs_write(pipe.write, "hello")
rl.on_readable(pipe.read, function(port)
  draw("(pipe " .. uv.fs_read(pipe.read, 10) .. ")")
  port:invalidate()
end)

rl.after(0.02, function() draw "(20 ms)" source:signal() end)
rl.after(0.15, function() draw "(150 ms)" end)
