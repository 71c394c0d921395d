-- serial.lua DEVICE HOST:PORT [BAUD]: reads a GPS receiver or another instrument that speaks NMEA 0183 on a serial
-- line, drops sentences whose checksum is wrong, and sends positions as JSON datagrams. The device may be unplugged.
local rl, net, process = require "runloop", require "runloop.net", require "runloop.process"
local json, log = require "runloop.json", require "runloop.log"

local device, where, baud = arg[1], arg[2], arg[3] or "4800"
if not where then io.stderr:write "usage: rlhost serial.lua DEVICE HOST:PORT [BAUD]\n" os.exit(64) end
local socket = assert(net.datagram { peer = where })
local counts = { good = 0, bad = 0 }

-- Returns the fields of "$GPGGA,…*47", or nil if the two digits are not the exclusive or of all bytes before them.
local function parse(line)
  local body, sum = line:match "%$([^*]+)%*(%x%x)%s*$"
  if not body then return nil end
  local is = 0
  for i = 1, #body do is = is ~ body:byte(i) end
  if is ~= tonumber(sum, 16) then return nil end
  local fields = {}
  for field in (body .. ","):gmatch "([^,]*)," do fields[#fields + 1] = field end
  return fields
end

-- "4807.038" and "N" are 48 degrees and 7.038 minutes.
local function degrees(text, side)
  local whole, minutes = text:match "^(%d+)(%d%d%.?%d*)$"
  if not whole then return nil end
  local value = tonumber(whole) + tonumber(minutes) / 60
  return (side == "S" or side == "W") and -value or value
end

local function position(fields)
  if fields[1]:sub(3) ~= "GGA" or fields[7] == "0" then return nil end -- another sentence, or no satellites
  return {
    time = fields[2], latitude = degrees(fields[3], fields[4]), longitude = degrees(fields[5], fields[6]),
    satellites = tonumber(fields[8]), altitude = tonumber(fields[10]),
  }
end

local function read()
  local result = assert(process.run { "stty", "-F", device, baud, "raw", "-echo" })
  if result.code ~= 0 then error(result.errors:gsub("\n$", ""), 0) end
  local stream <close> = assert(net.open(assert(io.open(device, "r+")), { owns = true }))
  log.info("reading", { device = device })
  for line in stream:lines { max = 1024, timeout = 60 } do
    local fields = parse(line)
    local kind = fields and "good" or "bad"
    counts[kind] = counts[kind] + 1
    local found = fields and position(fields)
    if found then socket:send(json.encode(found, { sort = true })) end
    if not fields then log.warning("wrong sentence", { line = line, bad = counts.bad, good = counts.good }) end
  end
  error("the device has gone", 0)
end

local backoff = rl.backoff { first = 0.5, most = 5 }
while true do
  local _, problem = pcall(read)
  if rl.is_cancelled(problem) then return end
  log.warning(problem)
  backoff:wait()
end
