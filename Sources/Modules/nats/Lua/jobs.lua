-- runloop.nats.jobs: the common parts of rl.worker and rl.pool with `via`: subjects, and values as JSON.

local json = require "runloop.json"
local misuse = require "runloop.misuse"
local check = require "runloop.nats.check"

local type, select, pcall, ipairs = type, select, pcall, ipairs
local format, match, gsub, unpack = string.format, string.match, string.gsub, table.unpack

local jobs = {}

-- More values than this could be too many for the stack of Lua's functions.
local MOST_VALUES = 200
--- The name of the workers' consumer, and the seconds for which a stored job is left to a worker that may have died.
jobs.CONSUMER, jobs.ACK_WAIT, jobs.MOST_DELIVERIES = "workers", 10, 3
--- The server has no limit of deliveries: workers count them.
jobs.ENDLESS = 1 << 30
--- If a cancel message has this text in place of a job's id, it reports to the workers that there is a stream.
jobs.LOOK = "+"

--- Checks the common options: a bus and the name of a pool.
function jobs.check(options, what)
  if getmetatable(options.via) ~= require "runloop.nats.bus" then
    misuse.wrong(what, "field 'via'", "a bus, as nats.connect returns it", options.via)
  end
  check.name(options.name, what, "field 'name'")
end

--- Returns the subject of a pool: `kind` is "run", "cancel", "who" or "durable".
function jobs.subject(bus, name, kind) return format("%s.pool.%s.%s", bus._prefix, name, kind) end

--- Returns a message with these values as JSON; or nil, the number of a value that cannot be sent, and the reason.
function jobs.encode(message, ...)
  local list, nils = {}, {}
  for index = 1, select("#", ...) do
    local value = select(index, ...)
    if value == nil then
      nils[#nils + 1], value = index, json.null
    end
    list[index] = value
  end
  if #list > MOST_VALUES then return nil, MOST_VALUES + 1, format("at most %d values can go", MOST_VALUES) end
  message.values, message.nils = json.array(list), nils[1] and nils or nil
  local fine, text = pcall(json.encode, message)
  if fine then return text end
  local number, place = match(text, "%(at values%[(%d+)%]([^)]*)%)$")
  text = gsub(gsub(text, "^.*json%.encode: ", ""), " %(at values%[%d+%][^)]*%)$", "")
  return nil, math.tointeger(number) or 1, place and place ~= "" and format("%s (at %s)", text, place) or text
end

--- Returns the values in a message, as a function with these values as results; nil if the message has none.
function jobs.values(message)
  local list, nils = message.values, message.nils or {}
  if type(list) ~= "table" or type(nils) ~= "table" or #list > MOST_VALUES then return nil end
  local count = #list
  for _, index in ipairs(nils) do
    if math.type(index) ~= "integer" or index < 1 or index > count then return nil end
    list[index] = nil
  end
  return function() return unpack(list, 1, count) end
end

--- Returns the text of a job with this number of seconds as the remaining time; nil if the text has another form.
function jobs.renewed(text, seconds)
  local job = jobs.decode(text)
  if not job or type(job.timeout) ~= "number" then return nil end
  job.timeout = seconds
  return json.encode(job)
end

--- Parses a message; returns nil if the text is not a message.
function jobs.decode(text)
  local message = json.decode(text)
  return type(message) == "table" and message or nil
end

return jobs
