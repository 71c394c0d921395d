-- runloop.http.routes: finds the function for a path.

local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local native = require "runloop.http.native"
local belongs, label = native.belongs, require("runloop.http.recording").label
-- The index of the route among the values of a request.
local ROUTE = native.own.ROUTE
local raise = misuse.raise

local Routes = objects.class("runloop.http.Routes", { __name = "http routes" })
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
      for _, other in ipairs(names) do
        if other == segment:sub(2) then raise("%s: two parameters have the same name: %q", name, path) end
      end
      names[#names + 1] = segment:sub(2)
      place.param = place.param or node()
      place = place.param
    elseif segment:sub(1, 1) == "*" then
      if following <= #rest then raise("%s: '*' stands for the rest of a path: it must come last: %q", name, path) end
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
  place.methods[method] = { fn = fn, names = names, path = path, has_rest = has_rest, made = objects.made_at() }
  -- A path without parameters is found with one look-up.
  if #names == 0 then self.exact[path] = place.methods end
end

local function handler_argument(fn, name, number)
  if not misuse.is_callable(fn) then misuse.wrong(name, "argument #" .. number, "a function", fn) end
end

for _, method in ipairs { "get", "post", "put", "patch", "delete", "head", "options", "any" } do
  Routes[method] = function(self, path, fn)
    local name = "routes:" .. method
    handler_argument(fn, name, 2)
    add(self, method:upper(), path, fn, name)
    return self
  end
end

function Routes:use(fn)
  handler_argument(fn, "routes:use", 1)
  self.before[#self.before + 1] = fn
  return self
end

function Routes:files(path, directory, extra)
  misuse.argument(directory, "string", "routes:files", 2)
  if type(path) ~= "string" or not path:find "/%*%w*$" then
    local given = type(path) == "string" and ("%q"):format(path) or misuse.describe(path)
    raise("routes:files: argument #1 must be a path that ends in '/*', got " .. given)
  end
  extra = misuse.options(extra, { headers = "table", compressed = "boolean" }, "routes:files", 3)
  local headers, compressed = extra.headers, extra.compressed
  local rest = path:match "/%*(%w*)$"
  if rest == "" then rest = "rest" end
  local function file_of(request)
    return { file = request.params[rest], root = directory, headers = headers, compressed = compressed }
  end
  add(self, "GET", path, file_of, "routes:files")
  return self
end

function Routes:websocket(path, settings, fn)
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
objects.methods(Routes, "routes")

local function route_of(methods, method) return methods[method] or method == "HEAD" and methods.GET or methods.ANY end

-- Returns the most exact route for a method at a path, and puts its parameters into `values`. Routes for other methods
-- at the path go into `others`.
local function find(place, path, from, method, values, others)
  local segment, following = path:match("^([^/]*)/?()", from)
  local is_last = following > #path and path:sub(-1) ~= "/" or segment == "" and following > #path
  local function look(at, is_end)
    if not is_end then return find(at, path, following, method, values, others) end
    local found = at.methods and route_of(at.methods, method)
    if at.methods and not found then others[#others + 1] = at.methods end
    return found
  end
  local fixed, count = place.fixed[segment], #values
  local found = fixed and look(fixed, is_last)
  if not found and place.param and segment ~= "" then
    values[count + 1] = segment
    found = look(place.param, is_last)
  end
  if not found and place.rest then
    values[count + 1] = path:sub(from)
    found = look(place.rest, true)
  end
  if not found then values[count + 1] = nil end
  return found
end

local ORDER = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS" }

local function allowed(others)
  local list = {}
  for _, method in ipairs(ORDER) do
    for _, methods in ipairs(others) do
      if route_of(methods, method) then
        list[#list + 1] = method
        break
      end
    end
  end
  return table.concat(list, ", ")
end

-- If `handler` is a set of routes, returns the methods that are allowed for the path of a request. Called for a method
-- that no route can have.
function M.allow(handler, request)
  local others = {}
  if getmetatable(handler) == Routes and request.method ~= "CONNECT" then
    local found = find(handler.root, request.coded_path or request.path, 2, request.method, {}, others)
    if not found and others[1] then return allowed(others) end
  end
  return table.concat(ORDER, ", ")
end

-- Whether a segment contains ".." or "." once its encoded slashes are decoded.
local function leaves(coded)
  for segment in coded:gmatch "[^/]*%z[^/]*" do
    for piece in (segment .. "\0"):gmatch "([^%z]*)%z" do
      if piece == "." or piece == ".." then return true end
    end
  end
end

local function answer(self, request)
  local path = request.path
  local methods = self.exact[path]
  local method = request.method
  local found = methods and (methods[method] or methods.ANY)
  if not found then
    local values, others = {}, { methods }
    local coded = request.coded_path
    found = find(self.root, coded or path, 2, method, values, others)
    if not found and not others[1] or coded and leaves(coded) then return { status = 404, body = "Not Found\n" } end
    if not found then
      if method == "OPTIONS" then return { status = 204, headers = { allow = allowed(others) } } end
      return { status = 405, body = "Method Not Allowed\n", headers = { allow = allowed(others) } }
    end
    local params, names = {}, found.names
    for i = 1, #names do
      local value = values[i]
      -- An encoded slash becomes a slash in a parameter. In the rest of a path (`*`), the slash stays encoded, since
      -- the handler may split the rest further.
      if coded then value = value:gsub("\0", found.has_rest and i == #names and "%%2F" or "/") end
      params[names[i]] = value
    end
    request.params = params
    -- In recordings, the requests of a route are counted together.
    belongs(label(method, found.path))
  end
  request[ROUTE] = found
  return found.fn(request)
end

-- Calls the functions that `use` has added, each with the next as argument: fn(request, next).
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
