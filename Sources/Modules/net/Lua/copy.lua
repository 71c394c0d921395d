-- runloop.net.copy: copies from one stream to another, within the kernel if possible, or through stages: functions that
-- get bytes and return others.

local native = ...
local misuse = require "runloop.misuse"
local min, integer_of, type = math.min, math.tointeger, type

-- `hidden`: methods of streams that scripts do not see.
return function(hidden)
  -- Copies in the kernel. Returns the number of copied bytes, and whether they are all; or nil, message, code and the
  -- number of copied bytes.
  local function in_kernel(from, to, left)
    local splice <close> = native.splice(from, to)
    local count = 0
    while splice and left > 0 do
      local bytes, message, code = splice:step(integer_of(min(left, 1 << 20)))
      if bytes == nil then return nil, message, code, count end
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
      if not is_good and message then return nil, message, code, count end
    end
    return count, left <= 0
  end

  -- Copies by reading pieces of at most `size` bytes and handing each to `write`. Returns what `in_kernel` returns.
  local function by_hand(from, to, left, size, write)
    local count = 0
    -- No input is read while the output accepts nothing.
    local is_writable, problem, problem_code = to:queue()
    if not is_writable then return nil, problem, problem_code, 0 end
    while left > 0 do
      local bytes, message, code = from:read(left < size and integer_of(left) or size)
      if not bytes then
        if message then return nil, message, code, count end
        break
      end
      local done
      done, message, code = write(to, bytes)
      if not done then return nil, message, code, count end
      count, left = count + #bytes, left - #bytes
    end
    return count, true
  end

  -- Calls a stage with bytes, or with nil at the end. Returns the stage's output, "" if there is none, and whether the
  -- stage has more output. On failure returns nil, message, code.
  local function made_by(stages, number, bytes)
    local made, message, code = stages[number](bytes)
    if type(made) == "string" then return made, message == true end
    if made == nil and message ~= nil then return nil, message, code end
    if made == nil and bytes == nil then return "" end
    misuse.raise("net.copy: stage %d must return a string, or nil and a reason, got %s", number, misuse.describe(made))
  end

  -- Passes bytes through the stages from `number` on, and writes the result of the last one to the output.
  local function pass(stages, number, to, bytes)
    if number > #stages then return to:write(bytes) end
    local more
    repeat
      local made, message, code = made_by(stages, number, bytes)
      if not made then return nil, message, code end
      more = message
      if made ~= "" then
        local done
        done, message, code = pass(stages, number + 1, to, made)
        if not done then return nil, message, code end
      end
      -- A stage whose output is much larger than its input returns the output in several parts: call it until none is
      -- left.
      bytes = ""
    until not more
    return true
  end

  -- Tells each stage about the end, and passes the rest of its output to the following stages.
  local function finish(stages, to)
    for i = 1, #stages do
      local bytes, message, code = made_by(stages, i, nil)
      if not bytes then return nil, message, code end
      if bytes ~= "" then
        local done
        done, message, code = pass(stages, i + 1, to, bytes)
        if not done then return nil, message, code end
      end
    end
    return true
  end

  local function through(from, to, left, stages)
    local count, message, code, until_then = by_hand(from, to, left, 16384, function(_, bytes)
      return pass(stages, 1, to, bytes)
    end)
    if not count then return nil, message, code, until_then end
    local done
    done, message, code = finish(stages, to)
    if not done then return nil, message, code, count end
    return count, true
  end

  return function(from, to, max, stages)
    local count, is_all, code, until_then
    if stages then
      count, is_all, code, until_then = through(from, to, max, stages)
    else
      count, is_all, code, until_then = in_kernel(from, to, max)
    end
    if not count then return nil, is_all, code, until_then end
    if not is_all then
      local more, message
      more, message, code, until_then = by_hand(from, to, max - count, 65536, to.write)
      if not more then return nil, message, code, count + until_then end
      count = count + more
    end
    local done, message
    done, message, code = to:flush()
    if not done then return nil, message, code, count end
    return count
  end
end
