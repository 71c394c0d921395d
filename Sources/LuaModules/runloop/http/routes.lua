-- runloop.http.routes: which function answers which path.

local misuse = require "runloop.misuse"
local raise = misuse.raise

local Routes = misuse.class("runloop.http.Routes", { __name = "http routes" })
local M = { Routes = Routes }

-- A tree of segments: { fixed = { name = node }, param = node, rest = node, methods = { GET = { fn, names } } }.
local function node() return { fixed = {} } end

local function add(self, method, path, fn, name)
  misuse.argument(path, "string", name, 1)
  if path:sub(1, 1) ~= "/" then raise("%s: the path must begin with a slash: %q", name, path) end
  local names, place, has_rest = {}, self.root, false
  local rest = path:sub(2)
  while true do
    local segment, following = rest:match "^([^/]*)/?()"
    local is_last = following > #rest and rest:sub(-1) ~= "/"
    if segment:sub(1, 1) == ":" then
      if #segment == 1 then raise("%s: a parameter without a name: %q", name, path) end
      names[#names + 1] = segment:sub(2)
      place.param = place.param or node()
      place = place.param
    elseif segment:sub(1, 1) == "*" then
      if following <= #rest then raise("%s: '*' is the rest of a path, so it comes last: %q", name, path) end
      names[#names + 1] = segment == "*" and "rest" or segment:sub(2)
      place.rest = place.rest or node()
      place = place.rest
      is_last, has_rest = true, true
    else
      place.fixed[segment] = place.fixed[segment] or node()
      place = place.fixed[segment]
    end
    if is_last or segment == "" and following > #rest then break end
    rest = rest:sub(following)
  end
  place.methods = place.methods or {}
  if place.methods[method] then raise("%s: there is a route for %s %s already", name, method, path) end
  place.methods[method] = { fn = fn, names = names, path = path, has_rest = has_rest }
  -- What has no parameters is found by one look.
  if #names == 0 then self.exact[path] = place.methods end
end

local function handler_argument(fn, name, number)
  if not misuse.is_callable(fn) then misuse.wrong(name, "argument #" .. number, "a function", fn) end
end

for _, method in ipairs { "get", "post", "put", "patch", "delete", "head", "options", "any" } do
  Routes[method] = function(self, path, fn)
    local name = "routes:" .. method
    misuse.receiver(self, Routes, name)
    handler_argument(fn, name, 2)
    add(self, method:upper(), path, fn, name)
    return self
  end
end

function Routes:use(fn)
  misuse.receiver(self, Routes, "routes:use")
  handler_argument(fn, "routes:use", 1)
  self.before[#self.before + 1] = fn
  return self
end

function Routes:files(path, directory, extra)
  misuse.receiver(self, Routes, "routes:files")
  misuse.argument(directory, "string", "routes:files", 2)
  if type(path) ~= "string" or not path:find "/%*%w*$" then
    raise("routes:files: argument #1 must be a path that ends in '/*', got " .. (type(path) == "string" and ("%q"):format(path) or misuse.describe(path)))
  end
  local headers = misuse.options(extra, { headers = "table" }, "routes:files", 3).headers
  local rest = path:match "/%*(%w*)$"
  if rest == "" then rest = "rest" end
  add(self, "GET", path, function(request) return { file = request.params[rest], root = directory, headers = headers } end, "routes:files")
  return self
end

function Routes:websocket(path, settings, fn)
  misuse.receiver(self, Routes, "routes:websocket")
  if fn == nil then settings, fn = nil, settings end
  handler_argument(fn, "routes:websocket", 2)
  add(self, "GET", path, function(request)
    local socket = request:websocket(settings)
    if not socket then return end
    fn(socket, request)
    socket:close()
  end, "routes:websocket")
  return self
end

-- The methods at a path, and its parameters.
local function find(place, path, from, values)
  local segment, following = path:match("^([^/]*)/?()", from)
  local is_last = following > #path and path:sub(-1) ~= "/" or segment == "" and following > #path
  local fixed = place.fixed[segment]
  if fixed then
    local found
    if is_last then found = fixed.methods else found = find(fixed, path, following, values) end
    if found then return found end
  end
  if place.param and segment ~= "" then
    values[#values + 1] = segment
    local found
    if is_last then found = place.param.methods else found = find(place.param, path, following, values) end
    if found then return found end
    values[#values] = nil
  end
  if place.rest and place.rest.methods then
    values[#values + 1] = path:sub(from)
    return place.rest.methods
  end
end

local ORDER = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS" }

local function allowed(methods)
  local list = {}
  for _, method in ipairs(ORDER) do
    if methods[method] or method == "HEAD" and methods.GET then list[#list + 1] = method end
  end
  return table.concat(list, ", ")
end

-- Whether a segment would, with its encoded slashes decoded, be a way out of where it is.
local function leaves(coded)
  for segment in coded:gmatch "[^/]*%z[^/]*" do
    for piece in (segment .. "\0"):gmatch "([^%z]*)%z" do
      if piece == "." or piece == ".." then return true end
    end
  end
end

local function answer(self, request)
  local path = request.path
  local methods, values = self.exact[path], nil
  local method = request.method
  local found = methods and (methods[method] or methods.ANY)
  if not found then
    values = {}
    local coded = request.coded_path
    local others = find(self.root, coded or path, 2, values)
    methods = others or methods
    if not methods or coded and leaves(coded) then return { status = 404, body = "Not Found\n" } end
    found = methods[method] or method == "HEAD" and methods.GET or methods.ANY
    if not found then
      if method == "OPTIONS" then return { status = 204, headers = { allow = allowed(methods) } } end
      return { status = 405, body = "Method Not Allowed\n", headers = { allow = allowed(methods) } }
    end
    local params, names = {}, found.names
    for i = 1, #names do
      local value = values[i]
      -- A slash that was encoded is one in a parameter; the rest of a path can be taken apart further, as the path itself.
      if coded then value = value:gsub("\0", found.has_rest and i == #names and "%%2F" or "/") end
      params[names[i]] = value
    end
    request.params = params
  end
  request.route = found.path
  return found.fn(request)
end

-- Those that `use` has added come first, each around the next: fn(request, next).
local function call_from(self, number, request)
  local before = self.before[number]
  if not before then return answer(self, request) end
  return before(request, function() return call_from(self, number + 1, request) end)
end

function Routes.__call(self, request)
  if self.before[1] then return call_from(self, 1, request) end
  return answer(self, request)
end

function M.routes() return setmetatable({ root = node(), exact = {}, before = {} }, Routes) end

return M
