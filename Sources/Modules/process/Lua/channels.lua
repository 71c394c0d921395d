-- runloop.process.channels: what a program gets as its input, its output and its errors.

local native, internals = ...
local type, format = type, string.format

local channels = {}

-- Of an open file, or of an object that has one.
function channels.descriptor_of(value) return type(value) ~= "number" and internals.find_descriptor(value, 0) or nil end

-- What of the world a program gets as its descriptor, and what we keep of it. Opened descriptors that are ours to close when it has
-- started are put into `spare`.
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
  -- A stream has read on for itself; what it has nobody else can get.
  local ahead = reads and internals.kind(value) == "stream" and value:buffered() or 0
  if ahead > 0 then
    return nil, format("EINVAL: the stream that is to be the input has read %d bytes ahead, which the program would not get: read them before", ahead), "EINVAL"
  end
  return channels.descriptor_of(value)
end

return channels
