-- runloop.socket.filters: the parts of lua-socket's module that do not touch sockets, except `sink` and `source`.


-- The value that an exception of `try` carries.
local Exception = { __tostring = function(exception) return tostring(exception[1]) end }

local filters = { sinkt = {}, sourcet = {}, BLOCKSIZE = 2048 }

function filters.newtry(finalizer)
  return function(...)
    if ... then return ... end
    if finalizer then pcall(finalizer) end
    error(setmetatable({ (select(2, ...)) }, Exception), 0)
  end
end

filters.try = filters.newtry()

local function protected(ok, ...)
  if ok then return ... end
  local exception = ...
  if getmetatable(exception) == Exception then return nil, exception[1] end
  error(exception, 0)
end

function filters.protect(fn)
  return function(...) return protected(pcall(fn, ...)) end
end

function filters.skip(count, ...) return select(count + 1, ...) end

function filters.choose(list)
  return function(name, first, second)
    if type(name) ~= "string" then name, first, second = "default", name, first end
    local make = list[name or "nil"]
    if not make then error("unknown key (" .. tostring(name) .. ")", 3) end
    return make(first, second)
  end
end

local function described(socket, call)
  return setmetatable({ getfd = function() return socket:getfd() end, dirty = function() return socket:dirty() end },
    { __call = call })
end

filters.sinkt["close-when-done"] = function(socket)
  return described(socket, function(_, chunk)
    if chunk then return socket:send(chunk) end
    socket:close()
    return 1
  end)
end

filters.sinkt["keep-open"] = function(socket)
  return described(socket, function(_, chunk)
    if chunk then return socket:send(chunk) end
    return 1
  end)
end
filters.sinkt.default = filters.sinkt["keep-open"]

filters.sourcet["by-length"] = function(socket, length)
  return described(socket, function()
    if length <= 0 then return nil end
    local chunk, problem = socket:receive(math.min(filters.BLOCKSIZE, length))
    if problem then return nil, problem end
    length = length - #chunk
    return chunk
  end)
end

filters.sourcet["until-closed"] = function(socket)
  local is_done
  return described(socket, function()
    if is_done then return nil end
    local chunk, problem, partial = socket:receive(filters.BLOCKSIZE)
    if not problem then return chunk end
    if problem ~= "closed" then return nil, problem end
    socket:close()
    is_done = true
    return partial
  end)
end
filters.sourcet.default = filters.sourcet["until-closed"]

filters.sink, filters.source = filters.choose(filters.sinkt), filters.choose(filters.sourcet)
return filters
