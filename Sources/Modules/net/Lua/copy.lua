-- runloop.net.copy: copies from one stream to another, within the kernel if possible.

local native = ...
local min, integer_of = math.min, math.tointeger

-- `hidden`: methods of streams that scripts do not see.
return function(hidden)
  -- Copies in the kernel. Returns the number of bytes, and whether that is all; or nil, message, code.
  local function in_kernel(from, to, left)
    local splice <close> = native.splice(from, to)
    local count = 0
    while splice and left > 0 do
      local bytes, message, code = splice:step(integer_of(min(left, 1 << 20)))
      if bytes == nil then return nil, message, code end
      if bytes then
        if bytes == 0 then return count, true end
        count, left = count + bytes, left - bytes
        -- Waiting for input lets other tasks run.
        message = "input"
      elseif not message then
        return count, false
      end
      local is_good
      if message == "output" then
        is_good, message, code = to:flush()
      else
        is_good, message, code = hidden.await_input(from)
      end
      if not is_good and message then return nil, message, code end
    end
    return count, left <= 0
  end

  -- Copies by reading and writing.
  local function by_hand(from, to, left)
    local count = 0
    -- Do not read for an output that takes nothing.
    local is_writable, problem, problem_code = to:queue()
    if not is_writable then return nil, problem, problem_code end
    while left > 0 do
      local bytes, message, code = from:read(left < 65536 and integer_of(left) or 65536)
      if not bytes then
        if message then return nil, message, code end
        break
      end
      local done
      done, message, code = to:write(bytes)
      if not done then return nil, message, code end
      count, left = count + #bytes, left - #bytes
    end
    return count
  end

  return function(from, to, max)
    local count, is_all, code = in_kernel(from, to, max)
    if not count then return nil, is_all, code end
    if not is_all then
      local more, message
      more, message, code = by_hand(from, to, max - count)
      if not more then return nil, message, code end
      count = count + more
    end
    local done, message
    done, message, code = to:flush()
    if not done then return nil, message, code end
    return count
  end
end
