-- A custom source with a command buffer: a small bank that receives orders from any code and executes them in one
-- place.
--
--   rlhost commands.lua
--
-- A timer, a socket or another thread posts a command and goes on. The loop performs the source once for all commands
-- that have arrived. So no command runs in the middle of other work, and a thousand orders cost one wake-up.

local rl = require "runloop"
local loop = rl.current()

local balance, batches = 0, 0

local orders = {
  deposit = function(amount) balance = balance + amount end,
  withdraw = function(amount)
    if amount > balance then return print(("refused: %d of %d"):format(amount, balance)) end
    balance = balance - amount
  end,
  close = function(_, source) source:invalidate() end,      -- the last item of the loop: the program ends
}

local bank = rl.source {
  name = "bank",
  schedule = function(_, _, mode) print("open for business in mode " .. mode) end,
  perform = function(source)
    batches = batches + 1
    for order, amount in source:commands() do orders[order](amount, source) end
    print(("batch %d done, balance %d"):format(batches, balance))
  end,
  cancel = function(_, _, mode) print("closed in mode " .. mode) end,
}
loop:add(bank)

-- All of these are posted before the loop runs: one batch.
for day = 1, 5 do bank:post("deposit", day * 10) end
bank:post("withdraw", 1000)

-- Later orders arrive while the loop sleeps, and wake it.
rl.after(0.02, function()
  bank:post("withdraw", 50)
  rl.after(0.02, function() bank:post "close" end)
end)
