-- A plugin that misbehaves in five ways.
local json = require "runloop.json"
local net = require "runloop.net"

local tricks = {}

function tricks.read()
  local file, problem = io.open "/etc/passwd"
  return file and file:read "a" or problem
end

function tricks.connect()
  local stream, problem = net.connect "127.0.0.1:22"
  return stream and "connected" or problem
end

function tricks.nonsense()
  io.write(("{"):rep(5000), "\n")
  return ""
end

function tricks.memory()
  local kept = {}
  while true do kept[#kept + 1] = ("x"):rep(100000) .. #kept end
end

function tricks.forever() while true do pcall(function() while true do end end) end end

for line in io.lines() do
  local trick = tricks[json.decode(line).text]
  print(json.encode { text = trick and trick() or "I am harmless." })
end
