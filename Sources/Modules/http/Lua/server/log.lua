-- runloop.http.log: writes a line for each request, in the "combined" format that log tools read, and its seconds.

local rl = require "runloop"
local misuse = require "runloop.misuse"
local objects = require "runloop.objects"
local native = require "runloop.http.native"
local shown = require "runloop.text".shown
local now, ends = rl.now, require("runloop.http.recording").ends

local M = {}

local function clean(text)
  if not text then return "-" end
  return (text:gsub('[%c"\\\127-\255]', function(byte) return ("\\x%02x"):format(byte:byte()) end))
end

local function line_of(entry)
  local client = entry.peer and entry.peer:gsub(":%d+$", "") or "-"
  -- Some of these parts are missing if the head could not be read.
  local request = entry.method
  if request and entry.target then request = request .. " " .. entry.target end
  if request and entry.version then request = request .. " HTTP/" .. entry.version end
  return ('%s - - [%s] "%s" %d %d "%s" "%s" %.6f\n'):format(client, os.date("%d/%b/%Y:%H:%M:%S %z"), clean(request),
    entry.status, entry.bytes, clean(entry.referer), clean(entry.agent), entry.seconds)
end

local function can_write(where)
  if io.type(where) then return io.type(where) == "file" end
  return objects.method(where, "write")
end

-- Returns a function that writes to a file. If several lines in a row are lost, only the first loss is reported; if the
-- file is the standard output, the exit status shows the loss, too.
local function writer(file, name)
  local is_lost
  return function(entry)
    local done, problem, number = file:write(line_of(entry))
    if not done then native.lose_log(file, number) end
    if not done and not is_lost then M.tell(name, "cannot write the access log: " .. problem) end
    is_lost = not done
  end
end

-- Opens a log. `where` is true for the standard error, a path to append to, an open file, or a function that receives a
-- table. Returns a function; nil without a log; nil, message, code if the file cannot be opened.
function M.open(where, name)
  if not where then return nil end
  local write
  if type(where) == "function" then
    write = where
  else
    local file, problem, code = io.stderr
    if type(where) == "string" then
      file, problem, code = native.open_log(where)
      if not file then
        problem = code == "EACCES" and native.internals.refusal("write", where) or problem
        return nil, ("%s: %s (%s)"):format(code, problem:sub(1, 1):lower() .. problem:sub(2), where), code
      end
      file:setvbuf "line"
    elseif where ~= true then
      if not can_write(where) then
        local text = "%s: field 'access_log' must be true, a path, an open file or a function, got %s"
        misuse.raise(text, name, misuse.describe(where))
      end
      file = where
    end
    write = io.type(file) and writer(file, name) or function(entry) file:write(line_of(entry)) end
  end
  return function(stream, request, status, bytes, seconds)
    -- There is no request object if the head could not be parsed.
    request = request or { headers = {} }
    write {
      peer = stream:peer() or "unix:", method = request.method, target = request.target, version = request.version,
      status = status or 0, bytes = bytes or 0, seconds = seconds, referer = request.headers.referer,
      agent = request.headers["user-agent"],
    }
  end
end

-- Ends the record of a request whose task goes on.
function M.ended(connection, status)
  local _, _, _, record = connection:numbers()
  if record then ends(record, status, status >= 499) end
end

-- Writes the line of a request if there is a log.
function M.write(server, connection, request, status, sent)
  if not server.log then return end
  local _, began = connection:numbers()
  server.log(connection.stream, request, status, sent or request.sent, now() - began)
end

-- The traceback of each task's last error, by its coroutine.
local traces = setmetatable({}, { __mode = "k" })

-- For xpcall. Returns the error unchanged, so that `__close` functions receive it, too.
function M.explain(problem)
  traces[coroutine.running()] = rl.traceback(problem):gsub("\n\t%[rlhost%]:[^\n]*", "")
  return problem
end

-- Returns and clears the traceback that `explain` has noted for the running task.
function M.take_trace()
  local running = coroutine.running()
  local trace = traces[running]
  traces[running] = nil
  return trace
end

-- Reports an error to the script, which goes on. `where`: what has failed.
function M.tell(where, value, traceback)
  -- If the host has called the script's coroutine.wrap, the error has the host's position before it.
  if type(value) == "string" then value = value:gsub("^%[rlhost%]:%d+: ", "") end
  traceback = (traceback or tostring(value)):gsub("^%[rlhost%]:%d+: ", "")
  local handler = rl.on_error(nil)
  rl.on_error(handler)
  if handler then
    rl.task(handler, value, { traceback = traceback, where = where })
  else
    io.stderr:write("rlhost: ", shown(traceback, true), "\nin ", shown(where), "\n")
  end
end

function M.report(request, value, traceback)
  M.tell(("request %s %s"):format(request.method, request.target), value, traceback)
end

return M
