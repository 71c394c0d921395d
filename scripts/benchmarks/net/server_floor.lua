-- The least that a Lua host does for each read: it calls one function with the bytes, and writes the result.
local workload, port = arg[1], arg[2]
local rest = {}

local handlers = {
  echo = function(_, bytes) return bytes end,
  lines = function(fd, bytes)
    local text, out, first = (rest[fd] or "") .. bytes, {}, 1
    while true do
      local at = text:find("\n", first, true)
      if not at then break end
      out[#out + 1] = text:sub(first, at - 1)
      out[#out + 1] = "\n"
      first = at + 1
    end
    rest[fd] = text:sub(first)
    return table.concat(out)
  end,
  sink = function(fd, bytes)
    if bytes == "" then return rest[fd] .. "\n" end
    rest[fd] = (rest[fd] or 0) + #bytes
  end,
  answer = function() return "hello\n", true end,
  idle = function() end,
}

serve(port, handlers[workload])
