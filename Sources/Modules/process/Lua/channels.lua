-- runloop.process.channels: opens the standard input, output and error of a program.

local native, internals = ...
local type, format = type, string.format

local channels = {}

-- Returns the descriptor of an open file, or of an object that has one.
function channels.descriptor_of(value) return type(value) ~= "number" and internals.find_descriptor(value, 0) or nil end

-- Returns the descriptor that the program gets, and the end that we keep. Adds the descriptors that we must close after
-- the program has started to `spare`.
function channels.open(options, field, default, spare, ours)
  local value = options[field]
  if value == nil then value = default end
  local reads = field == "input"
  if value == "pipe" then
    local from, to, code = native.pipe()
    if not from then return nil, to, code end
    local theirs, mine = reads and from or to, reads and to or from
    spare[#spare + 1] = theirs
    ours[field] = mine
    return theirs
  elseif value == "inherit" then
    return ({ input = 0, output = 1, errors = 2 })[field]
  elseif value == "null" then
    return -1
  elseif value == "output" and field == "errors" then
    return -2
  elseif type(value) == "string" then
    local fd, message, code = native.open(value, reads)
    if not fd then return nil, message, code end
    spare[#spare + 1] = fd
    return fd
  end
  -- The stream has buffered these bytes already, so no program can get them from its descriptor.
  local buffered = reads and internals.kind(value) == "stream" and value:buffered() or 0
  if buffered > 0 then
    local text = "EINVAL: the stream for the input has buffered %d bytes, which the program would not get: "
      .. "read them first"
    return nil, format(text, buffered), "EINVAL"
  end
  return channels.descriptor_of(value)
end

return channels
