-- A chat room: clients connect (nc localhost 4000), send a name, and get the others' lines. Slow readers do not delay
-- others.
--
--   rlhost chat.lua [PORT]

local rl, net = require "runloop", require "runloop.net"
local room = {}

local function tell(who, text)
  for person in pairs(room) do
    if person ~= who then person:queue(text, "\n") end     -- never waits; drops a client that does not read
  end
end

local server = assert(net.serve(tonumber(arg[1]) or 4000, function(client)
  client:write "name? "
  local name = client:read_line { timeout = 30, max = 40 }
  if not name or name == "" then return end                -- the stream is closed when this returns
  room[client] = name
  local leave <close> = setmetatable({}, { __close = function()
    room[client] = nil
    tell(nil, name .. " leaves")
  end })
  tell(client, name .. " comes")
  for line in client:lines { max = 4096 } do tell(client, name .. ": " .. line) end
end))

print("listening on " .. server:address())
io.stdout:flush()
