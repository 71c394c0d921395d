-- runloop.luv.items: what bridges to other loops have in the modes of this one: an observer that gives the other loop
-- a turn in each pass, a port for its descriptor, and a timer for its next date.

local rl = require "runloop"

local Items = {}
Items.__index = Items

-- A date that never comes.
local NEVER <const> = 1e9

-- The port keeps a mode alive while the other loop has something active.
local function enter(self, mode)
  if self.modes[mode] then return end
  self.modes[mode] = true
  local loop = rl.current()
  loop:add(self.port, mode)
  loop:add(self.timer, mode)
end

local function leave(self)
  local loop = rl.current()
  for mode in next, self.modes do
    loop:remove(self.port, mode)
    loop:remove(self.timer, mode)
    self.modes[mode] = nil
  end
end

local function take_turn(self)
  local mode = rl.current():mode()
  if not mode then return end
  if not self.is_active() then
    if next(self.modes) then
      leave(self)
      rl.current():wake_up()
    end
    return
  end
  local seconds, alive = self.turn()
  if not alive then
    leave(self)
    return rl.current():wake_up()
  end
  if not rl.current():contains(self.observer, mode) then return end
  enter(self, mode)
  self.timer:set_fire_date(rl.now() + (seconds or NEVER))
end

-- `plan`: name, fd, turn() -> seconds, is_alive; is_active().
function Items.new(plan)
  local self = setmetatable({ turn = plan.turn, is_active = plan.is_active, modes = {} }, Items)
  local function serve() take_turn(self) end
  self.port = rl.fd_port { fd = plan.fd, events = "r", name = plan.name, callback = serve }
  self.timer = rl.timer { delay = NEVER, interval = NEVER, name = plan.name, callback = serve, keeps_alive = false }
  -- At the end of a run as well: the last callback may have made something.
  self.observer = rl.observer { activities = { "before_waiting", "exit" }, name = plan.name, callback = serve,
    modes = "common" }
  -- For one pass, so that what is made before the loop runs is noticed.
  enter(self, "default")
  return self
end

-- Looks again in this pass.
function Items:wake()
  local mode = rl.current():mode()
  if mode and rl.current():contains(self.observer, mode) then enter(self, mode) end
  rl.current():wake_up()
end

function Items:invalidate()
  leave(self)
  self.port:invalidate()
  self.timer:invalidate()
  self.observer:invalidate()
end

return Items
