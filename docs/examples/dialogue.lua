-- A modal dialogue: while it is open, only its own events happen. Everything else waits, and comes afterwards.
--
--   rlhost dialogue.lua
--
-- The trick is one line: run the loop again, inside the callback, in another mode. Messages and the clock are in the
-- default mode, so they wait. The dialogue's own events, and items in both modes, go on. No other code has to know
-- about the dialogue, no event is lost, and the caller reads like plain code: ask, get an answer, go on.

local rl = require "runloop"
local loop = rl.current()

local function say(...) print(("%-8s"):format(loop:mode() or "-"), ...) end

-- The heartbeat is in both modes, so that it goes on during the dialogue.
local heartbeat = rl.timer { interval = 0.1, name = "heartbeat", callback = function() say "heartbeat" end }
loop:add(heartbeat, { rl.modes.default, rl.modes.modal })

-- Messages come at intervals, in the default mode only.
local messages = rl.source {
  name = "messages",
  perform = function(source)
    for text in source:commands() do say("message: " .. text) end
  end,
}
loop:add(messages)

-- Shows a question, and returns the answer. The "user" here is a timer that presses a button.
local function ask(question, answer)
  say(question)
  local result
  local button = rl.timer {
    delay = 0.25,
    name = "button",
    callback = function()
      result = answer
      loop:stop()                             -- ends the inner run, not the outer one
    end,
  }
  loop:add(button, rl.modes.modal)
  loop:run { mode = rl.modes.modal }
  return result
end

-- These messages come while the dialogue is open.
local mail = rl.timer { delay = 0.12, callback = function() messages:post "first" messages:post "second" end }
loop:add(mail, { rl.modes.default, rl.modes.modal })

rl.after(0.05, function()
  local answer = ask("save before closing?", "yes")
  say("the answer is " .. answer)
  rl.after(0.02, function()
    heartbeat:invalidate()
    messages:invalidate()
  end)
end)
