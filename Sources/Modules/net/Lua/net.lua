-- runloop.net: its Lua half. The chunk receives the functions written in Swift, and the internals.

local native, internals = ...
local rl = require "runloop"
local misuse = require "runloop.misuse"
local raise, describe, wrong = misuse.raise, misuse.describe, misuse.wrong
local type, next, setmetatable, tostring = type, next, setmetatable, tostring
local integer_of, io_type = math.tointeger, io.type

local net = {}

-- Arguments ----------------------------------------------------------------------------------------------------------
local PLACE = 'a port, "host:port", "unix:/path" or a table { host =, port =, path = }'

local function port_text(name, what, port)
  local number = type(port) == "number" and integer_of(port)
  if not number or number < 0 or number > 65535 then wrong(name, what, "a port from 0 to 65535", port) end
  return tostring(number)
end

-- Returns the host and port, or the path, of a table as one text. With `is_checked`, the function in Swift reports that
-- both are missing, after it has looked for unknown fields.
local function place_of_table(name, where, is_checked)
  local host, port, path, fd = where.host, where.port, where.path, where.fd
  if fd ~= nil then
    if math.type(fd) == "integer" and fd >= 0 and fd < 2 ^ 31 then return "descriptor " .. fd end
    wrong(name, "field 'fd'", "the number of a socket, as net.inherited has it", fd)
  end
  if path ~= nil then
    if type(path) ~= "string" then wrong(name, "field 'path'", "a string", path) end
    if host ~= nil or port ~= nil then raise(name .. ": field 'path' excludes 'host' and 'port'") end
    return "unix:" .. path
  end
  if port == nil and is_checked then return nil end
  if port == nil then raise(name .. ": field 'port' or 'path' is missing") end
  local text = port_text(name, "field 'port'", port)
  if host == nil then return text end
  if type(host) ~= "string" or host == "" then wrong(name, "field 'host'", "a host's name or address", host) end
  if host:find(":", 1, true) and not host:find "^%[" then host = "[" .. host .. "]" end
  return host .. ":" .. text
end

local PLACE_FIELDS = { "host", "port", "path", "fd" }
local OF_PLACES = { host = true, port = true, path = true, fd = true }
-- Further fields in the tables of net.inherited.
local INHERITED_FIELDS = { name = true, kind = true, address = true }

local function place_of(name, where)
  if type(where) == "number" then return port_text(name, "argument #1", where) end
  if type(where) == "string" then return where end
  if type(where) ~= "table" then wrong(name, "argument #1", PLACE, where) end
  for field in next, where do
    if not OF_PLACES[field] and not (where.fd and INHERITED_FIELDS[field]) then
      raise("%s: unknown field '%s' of argument #1%s", name, tostring(field), misuse.hint(field, OF_PLACES))
    end
  end
  return place_of_table(name, where)
end

local function check_options(name, number, options)
  if options == nil then return {} end
  if type(options) == "table" then return options end
  if number == 2 and integer_of(options) and name ~= "net.resolve" then
    raise('%s: argument #2 must be an options table, got %d (a port belongs to argument #1: "localhost:%d")', name,
      options, options)
  end
  wrong(name, "argument #" .. number, "an options table", options)
end

-- Raises `text` with the field's name if the options have one of these fields.
local function refuse(name, options, fields, text)
  for _, field in next, fields do
    if options[field] ~= nil then raise(name .. ": " .. text, field) end
  end
end

local FUNCTIONS = { "on_data", "on_end", "on_error", "on_open", "on_connection", "on_trouble" }
local OF_STREAMS = { "on_data", "on_end", "on_error", "on_open", "on_connection" }

-- The index of each of these functions in the table for Swift. The enum `Handlers` has the same indices.
local PLACES = {}
for place, field in next, FUNCTIONS do PLACES[field] = place end

-- Returns the table of the functions among the options; nil if none of them makes an object deliver input.
local function functions_of(name, options)
  local functions, delivers = {}, false
  for place, field in next, FUNCTIONS do
    local fn = options[field]
    if fn ~= nil and type(fn) ~= "function" then wrong(name, "field '" .. field .. "'", "a function", fn) end
    functions[place] = fn or false
    if fn and field ~= "on_trouble" then delivers = true end
  end
  return delivers and functions or nil
end

-- TLS ----------------------------------------------------------------------------------------------------------------
local methods = internals.methods "stream"
local hidden = {}
local function hide(methods, names)
  for _, name in next, names do hidden[name], methods[name] = methods[name], nil end
end
hide(methods, { "next_line", "next_chunk", "was_accepted", "begin_tls", "handshake", "requested_name", "continue_tls",
  "refuse_tls", "give_up_tls", "leave_tls", "end_choice", "deliver", "await_input", "deliver_all", "write_draft",
  "available", "share", "make_blocking", "look", "take_line", "read_more", "drop", "outlet", "close_within" })
internals.deliver, internals.available = hidden.deliver_all, hidden.available
internals.write_draft, internals.share, internals.outlet = hidden.write_draft, hidden.share, hidden.outlet
internals.make_blocking = hidden.make_blocking
internals.close_within = hidden.close_within
internals.look, internals.await_input = hidden.look, hidden.await_input
internals.take_line = hidden.take_line

local read_patterns

native.set_pattern_reader(function(...)
  read_patterns = read_patterns or require "runloop.net.patterns" (hidden)
  return read_patterns(...)
end)

local made

-- Returns the TLS part, which is loaded at the first call.
local function tls()
  made = made or require "runloop.net.tls" (hidden)
  return made
end

local function check_self(self, name)
  if internals.kind(self) ~= "stream" then misuse.wrong_self("stream:" .. name, "stream", self) end
end

function methods.start_tls(self, options)
  check_self(self, "start_tls")
  return tls().start(self, check_options("stream:start_tls", 1, options))
end

-- Listening ----------------------------------------------------------------------------------------------------------
local listener_methods = internals.methods "listener"
hide(listener_methods, { "begin_choice", "tell" })

--- Checks the options of a client before it connects. Raises an error that names the function `what`. Returns true; or
--- nil, the reason and its code, for a certificate that cannot be used.
function internals.check_tls(options, what)
  local settings, message, code = tls().settings(options, false, what)
  if settings then return true end
  return nil, message, code
end

-- For each listener: its TLS server, if `accept` returns the listener's connections.
local tls_of = setmetatable({}, { __mode = "k" })

-- Listens. Resolves the host first if it is not an address.
local function listen(name, make, where, options, functions, caller, attempt, on_text)
  local message, code, listener, server
  local options_of_tls = options.tls
  if options_of_tls then
    local settings
    settings, message, code = tls().settings(options_of_tls, true, name)
    if not settings then return nil, message, code end
    server = tls().server(caller or name, settings, options_of_tls, attempt, on_text)
    if functions and functions[PLACES.on_connection] then
      functions[PLACES.on_connection] = tls().before(server, functions[PLACES.on_connection])
    elseif functions then
      functions[PLACES.on_connection] = tls().before_delivery(server, functions[PLACES.on_error])
    end
  end
  listener, message, code = make(where, options, functions)
  if not listener and code == "ENOTFOUND" then
    local host, port = where:match "^(.*):(%d+)$"
    local addresses, problem, problem_code = net.resolve(host)
    if not addresses then return nil, problem, problem_code end
    local place = place_of_table(name, { host = addresses[1], port = integer_of(port) })
    listener, message, code = make(place, options, functions)
  end
  if listener and server and not functions then tls_of[listener] = server end
  return listener, message, code
end

local accept = listener_methods.accept

function listener_methods.accept(self, timeout)
  local stream, message, code = accept(self, timeout)
  local server = stream and tls_of[self]
  if not server then return stream, message, code end
  return tls().accepted(stream, server, timeout)
end

function net.listener(options)
  if type(options) ~= "table" then raise("net.listener: an options table is expected, got " .. describe(options)) end
  local where = place_of_table("net.listener", options, true)
  local functions = functions_of("net.listener", options)
  if functions and functions[PLACES.on_connection] then
    if functions[PLACES.on_data] or functions[PLACES.on_end] or functions[PLACES.on_error] then
      raise("net.listener: give either on_connection, or on_data, on_end and on_error")
    end
  end
  return listen("net.listener", native.listener, where, options, functions)
end

-- For modules with a server: `caller` is the function that a script has called; `attempt` and `on_text` as in
-- `tls.server`.
function internals.serve(where, options, fn, caller, attempt, on_text)
  local place = place_of("net.serve", where)
  options = check_options("net.serve", 2, options)
  if type(fn) ~= "function" then
    raise("net.serve: the last argument must be a function, got " .. describe(fn))
  end
  refuse("net.serve", options, PLACE_FIELDS, "field '%s' belongs to argument #1")
  refuse("net.serve", options, OF_STREAMS, "unknown field '%s': the function receives the connections")
  local functions = functions_of("net.serve", options)
    or { false, false, false, false, false, options.on_trouble or false }
  functions[PLACES.on_connection] = fn
  local listener, message, code = listen("net.serve", native.serve, place, options, functions, caller, attempt, on_text)
  if not listener then return nil, message, code end
  rl.current():add(listener, "common")
  return listener
end

function net.serve(where, options, fn)
  if fn == nil and type(options) == "function" then options, fn = nil, options end
  return internals.serve(where, options, fn)
end

-- Streams ------------------------------------------------------------------------------------------------------------
function net.connect(where, options)
  local place = place_of("net.connect", where)
  options = check_options("net.connect", 2, options)
  refuse("net.connect", options, OF_STREAMS, "field '%s' is for net.stream")
  refuse("net.connect", options, PLACE_FIELDS, "field '%s' belongs to argument #1")
  if not options.tls then return native.connect(place, options) end
  local settings, message, code = tls().settings(options.tls, false, "net.connect")
  if not settings then return nil, message, code end
  local start, stream, server_name = rl.now(), nil, options.tls ~= true and options.tls.server_name
  stream, message, code = native.connect(place, options)
  if not stream then return nil, message, code end
  local done
  done, message, code = tls().handshake(stream, settings, options.tls, server_name or tls().host_of(place),
    math.max(0.001, (options.timeout or 30) - (rl.now() - start)))
  if done then return stream end
  stream:close()
  return nil, message, code
end

function net.stream(options)
  if type(options) ~= "table" then raise("net.stream: an options table is expected, got " .. describe(options)) end
  local where = place_of_table("net.stream", options, true)
  if options.on_connection ~= nil then raise("net.stream: field 'on_connection' is for net.listener") end
  local settings, name
  if options.tls then
    local message, code
    settings, message, code = tls().settings(options.tls, false, "net.stream")
    if not settings then return nil, message, code end
    name = options.tls ~= true and options.tls.server_name or where and tls().host_of(where)
  end
  return native.stream(where, options, functions_of("net.stream", options), settings, name)
end

net.pair, net.memory, net.inherited = native.pair, native.memory, native.inherited

-- Without an address or a peer, the system chooses an IPv4 address.
function net.datagram(options)
  if type(options) ~= "table" then raise("net.datagram: an options table is expected, got " .. describe(options)) end
  local where
  if options.port ~= nil or options.path ~= nil or options.fd ~= nil then
    where = place_of_table("net.datagram", options)
  elseif options.host ~= nil then
    raise("net.datagram: field 'host' needs field 'port'")
  end
  local peer = options.peer ~= nil and place_of("net.datagram", options.peer) or nil
  return native.datagram(where, peer, options)
end

local datagram_methods = internals.methods "datagram"
local send = datagram_methods.send

function datagram_methods.send(self, data, where)
  if type(where) == "number" or type(where) == "table" then where = place_of("datagram:send", where) end
  return send(self, data, where)
end

local OPEN = {
  owns = "boolean", name = "any", keeps_alive = "any", on_data = "function", on_end = "function", on_error = "function",
}
function net.open(object, options)
  local fd = internals.find_descriptor(object, 0)
  if not fd then wrong("net.open", "argument #1", "a descriptor, an open file, or an object that has one", object) end
  internals.refuse_keys("net.open", fd)
  options = check_options("net.open", 2, options)
  misuse.fields(options, OPEN, "net.open")
  local keeps_alive = options.keeps_alive
  if keeps_alive ~= nil and type(keeps_alive) ~= "boolean" then
    wrong("net.open", "field 'keeps_alive'", "a boolean", keeps_alive)
  end
  local functions = functions_of("net.open", options)
  if not options.owns or type(object) == "number" then
    return native.open(fd, options.owns, options.name, functions, keeps_alive)
  end
  if io_type(object) ~= "file" then
    raise("net.open: field 'owns' is for numbers and files: a descriptor of another object is the object's")
  end
  -- The stream gets a duplicate, and the file is closed.
  object:flush()
  local stream, message, code = native.open(fd, false, options.name, functions, keeps_alive)
  if stream then object:close() end
  return stream, message, code
end

-- All callers share one stream for each of standard input, standard output and standard error.
local standard = {}
internals.standard = standard
for fd, name in next, { [0] = "input", [1] = "output", [2] = "errors" } do
  net[name] = function()
    internals.refuse_keys("net.input", fd)
    local stream = standard[fd]
    if stream and stream:is_open() then return stream end
    local message, code
    stream, message, code = native.open(fd, false, name)
    standard[fd] = stream
    return stream, message, code
  end
end

local READING = { timeout = "seconds", max = "positive" }
local function check_reading(name, options) misuse.fields(check_options(name, 1, options), READING, name) end

-- The steps of `for line in stream:lines()`. This is a tail call, so that an error has the position of the loop.
for name, step in next, { lines = hidden.next_line, chunks = hidden.next_chunk } do
  methods[name] = function(self, options)
    check_self(self, name)
    if options ~= nil then check_reading("stream:" .. name, options) end
    return function() return step(self, options) end
  end
end

-- Names --------------------------------------------------------------------------------------------------------------
local RESOLVE = { family = "any", timeout = "any" }
local FAMILIES = { any = 0, ipv4 = 1, ipv6 = 2 }

function net.resolve(name, options)
  if type(name) ~= "string" or name == "" or name:find "\0" then
    wrong("net.resolve", "argument #1", "a host's name", name)
  end
  options = check_options("net.resolve", 2, options)
  misuse.fields(options, RESOLVE, "net.resolve")
  local family = FAMILIES[options.family or "any"]
  if not family then wrong("net.resolve", "field 'family'", '"any", "ipv4" or "ipv6"', options.family) end
  return native.resolve(name, family, options.timeout)
end

-- Copying ------------------------------------------------------------------------------------------------------------
local COPY = { max = "any", through = "any" }
local copy

local function is_stage(value)
  local metatable = type(value) ~= "function" and debug.getmetatable(value)
  return type(value) == "function" or metatable and metatable.__call ~= nil
end

-- Returns the list of stages for the value of field 'through'.
local function stages_of(value)
  if is_stage(value) then return { value } end
  if type(value) ~= "table" then wrong("net.copy", "field 'through'", "a function, or a list of functions", value) end
  local stages = {}
  for i = 1, #value do
    if not is_stage(value[i]) then
      wrong("net.copy", "element " .. i .. " of field 'through'", "a function", value[i])
    end
    stages[i] = value[i]
  end
  if #stages == 0 then
    raise "net.copy: field 'through' must be a function, or a list of functions, got an empty list"
  end
  return stages
end

function net.copy(from, to, options)
  if internals.kind(from) ~= "stream" then wrong("net.copy", "argument #1", "a stream", from) end
  if internals.kind(to) ~= "stream" then wrong("net.copy", "argument #2", "a stream", to) end
  options = check_options("net.copy", 3, options)
  misuse.fields(options, COPY, "net.copy")
  local left = options.max or math.huge
  if left ~= math.huge and (not integer_of(left) or left < 0) then
    wrong("net.copy", "field 'max'", "a number of bytes, 0 or more", left)
  end
  copy = copy or require "runloop.net.copy" (hidden)
  return copy(from, to, left, options.through ~= nil and stages_of(options.through) or nil)
end

return net
