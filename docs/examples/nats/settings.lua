-- Follows its settings in a bucket: `rlhost settings.lua` shows them, and `rlhost settings.lua color blue` sets one for
-- all programs that run. The third argument is the server's address.

local nats = require "runloop.nats"

local key, value, address = arg[1], arg[2], arg[3]
local bus = assert(nats.connect(address or "nats://localhost:4222"))
local bucket = assert(bus:bucket("settings", { history = 5 }))

if value and value ~= "" then
  print("revision", assert(bucket:put(key, value)))
  return
end

local settings = {}
assert(bucket:watch(">", function(entry)
  if not entry then
    print "ready"
  else
    settings[entry.key] = entry.operation == "put" and entry.value or nil
    print(entry.key, settings[entry.key] or "(default)")
  end
end))
