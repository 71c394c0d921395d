-- A modal dialogue in a real terminal: while it is open, only its own events happen, and the caller reads like plain
-- code.
--
--   rlhost modal.lua
--
-- Up and down choose a line, `d` asks whether to delete it, `q` ends the program. The clock is in the default mode, so
-- it stands still while the dialogue is open, and jumps afterwards. The heart is in both modes, and goes on beating.
-- Keys go to the handlers of the running mode, so no handler has to be removed.

local rl = require "runloop"
local terminal = require "runloop.terminal"
local loop = rl.current()

local screen <close> = assert(terminal.open())
local raw <close> = assert(screen:raw())
local other <close> = screen:alternate_screen()
local hidden <close> = screen:hide_cursor()

local function put(row, column, text)
  screen:move(row, column)
  screen:write(text)
end

local lines, chosen = { "apples", "bread", "cheese", "dates" }, 1

local function draw()
  screen:clear()
  put(1, 1, "shopping list")
  for number, line in ipairs(lines) do
    put(number + 2, 3, number == chosen and terminal.style("reverse", line) or line)
  end
  put(#lines + 4, 1, "up, down: choose   d: delete   q: end")
end

local seconds, beats = 0, 0
local function tick()
  seconds = seconds + 1
  put(1, 30, ("clock %d"):format(seconds))
end
local function beat()
  beats = beats + 1
  put(2, 30, beats % 2 == 0 and "heart *" or "heart  ")
end
local clock = rl.timer { interval = 1, name = "clock", modes = rl.modes.default, callback = tick }
local both = { rl.modes.default, rl.modes.modal }
local heart = rl.timer { interval = 0.25, name = "heart", modes = both, callback = beat }

-- Asks, and returns the answer. The loop runs here, in a mode of its own, until the answer has come.
local function confirm(question)
  local answer
  put(10, 5, "+" .. ("-"):rep(#question + 10) .. "+")
  put(11, 5, "| " .. question .. " (y/n)   |")
  put(12, 5, "+" .. ("-"):rep(#question + 10) .. "+")
  local keys <close> = screen:key_handler(function(key)
    if key.name == "y" or key.name == "n" or key.name == "escape" then
      answer = key.name == "y"
      loop:stop()                             -- ends the inner run, not the outer one
    end
  end)
  loop:add(keys, rl.modes.modal)
  loop:run { mode = rl.modes.modal }
  return answer
end

draw()
local ended = rl.condition()
local keys <close> = screen:on_key(function(key)
  if key.name == "down" then chosen = math.min(#lines, chosen + 1)
  elseif key.name == "up" then chosen = math.max(1, chosen - 1)
  elseif key.name == "d" and lines[chosen] then
    if confirm("delete " .. lines[chosen] .. "?") then
      table.remove(lines, chosen)
      chosen = math.max(1, math.min(chosen, #lines))
    end
  elseif key.name == "q" then return ended:signal() end
  draw()
end)
ended:wait()
clock:invalidate()
heart:invalidate()
