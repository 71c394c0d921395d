-- runloop.http.files: answers with a file: the whole, a part, or nothing if the client has it already.

local native = require "runloop.http.native"

local M = {}

local TYPES = {
  html = "text/html; charset=utf-8", htm = "text/html; charset=utf-8", css = "text/css; charset=utf-8",
  txt = "text/plain; charset=utf-8", md = "text/markdown; charset=utf-8", js = "text/javascript; charset=utf-8",
  mjs = "text/javascript; charset=utf-8", json = "application/json", xml = "application/xml", svg = "image/svg+xml",
  png = "image/png", jpg = "image/jpeg", jpeg = "image/jpeg", gif = "image/gif", webp = "image/webp",
  avif = "image/avif", ico = "image/x-icon", woff = "font/woff", woff2 = "font/woff2", ttf = "font/ttf",
  pdf = "application/pdf", zip = "application/zip", gz = "application/gzip", tar = "application/x-tar",
  wasm = "application/wasm", mp3 = "audio/mpeg", ogg = "audio/ogg", wav = "audio/wav", mp4 = "video/mp4",
  webm = "video/webm", csv = "text/csv; charset=utf-8", lua = "text/plain; charset=utf-8",
}

local STATUS = {
  ENOENT = 404, ENOTDIR = 404, EISDIR = 404, ELOOP = 404, EXDEV = 404, ENAMETOOLONG = 404, EACCES = 403, EPERM = 403,
}

-- Returns a table that describes an open file; or nil and the error's name.
local function opened(answer, fd, size, seconds, ...)
  if not fd then return nil, size end
  local nanoseconds, is_generated = ...
  return { fd = fd, size = size, seconds = seconds, nanoseconds = nanoseconds, is_generated = is_generated,
    name = answer.file }
end

-- Opens the file of an answer, or the file with an additional ending in its name.
local function open(answer, ending)
  if not answer.root then return opened(answer, native.open_file(answer.file .. ending)) end
  local path = answer.file:gsub("^/+", "")
  if path == "" or path:sub(-1) == "/" then path = path .. "index.html" end
  return opened(answer, native.open_file(answer.root, path .. ending))
end

local ENDINGS <const>, CODINGS <const> = { br = ".br", gzip = ".gz" }, { "br", "gzip" }

-- Opens a compressed version of an answer's file: one that the client prefers and that is not older than the file.
local function open_compressed(request, answer, file)
  if request.headers.range then return nil end
  local accepted = require("runloop.http.compress").accepted
  for _, coding in ipairs(accepted(request.headers["accept-encoding"], CODINGS)) do
    local found = open(answer, ENDINGS[coding])
    if found and not found.is_generated and (found.seconds > file.seconds
      or found.seconds == file.seconds and found.nanoseconds >= file.nanoseconds) then
      found.coding = coding
      return found
    end
    if found then native.close_file(found.fd) end
  end
end

-- Whether a list of tags, as in If-None-Match, has this one. Weak tags match as well.
local function has_tag(list, tag)
  if list:match "^%s*%*%s*$" then return true end
  for other in list:gmatch '"[^"]*"' do
    if other == tag then return true end
  end
  return false
end

-- Returns the first and the last byte of a range; false if the file does not have it; nil to send the whole file.
local function range_of(text, size)
  local first, last = text:match "^bytes=%s*(%d*)%-(%d*)%s*$"
  if not first or first == "" and last == "" or #first > 18 or #last > 18 then return nil end
  if first == "" then
    local count = tonumber(last)
    if count == 0 or size == 0 then return false end
    return size - math.min(count, size), size - 1
  end
  first, last = math.tointeger(tonumber(first)), last ~= "" and math.tointeger(tonumber(last)) or size - 1
  if first >= size then return false end
  if last < first then return nil end
  return first, math.min(last, size - 1)
end

-- Reads a file that the kernel generates, as in /proc and /sys: its size is 0 or wrong before it is read. Returns nil
-- if the size is right.
local PIECE <const>, MOST <const> = 65536, 16 << 20
local function read_generated(fd, size, name)
  local pieces, length = {}, 0
  repeat
    local bytes, code = native.read_file(fd, length, PIECE)
    if not bytes then error(("the file %s cannot be read: %s"):format(name, code), 0) end
    length = length + #bytes
    if length > MOST then error(("the file %s, which has no size, has more than %d bytes"):format(name, MOST), 0) end
    pieces[#pieces + 1] = bytes
  until bytes == ""
  return length ~= size and table.concat(pieces) or nil
end

-- Reads a part of a file. Raises an error if the file was truncated after its size was read.
local function read_part(file, first, count)
  local bytes = native.read_file(file.fd, first, count)
  if not bytes or #bytes ~= count then error(("the file %s changed while it was read"):format(file.name), 0) end
  return bytes
end

-- Answers for a file that cannot be opened; `code` is the error's name.
local function send_error(request, answer, code, send)
  if code == "EISDIR" and answer.root and request.path:sub(-1) ~= "/" then
    -- Relative links in the directory's index need the slash.
    local url = request.path:gsub("[^/]+", function(name) return native.escape(name) end) .. "/"
    if request.query_string ~= "" then url = url .. "?" .. request.query_string end
    return send(request, 301, { location = url }, 0)
  end
  local status = STATUS[code] or 500
  local text = status == 404 and "Not Found\n" or status == 403 and "Forbidden\n" or "Internal Server Error\n"
  request.sent = #text
  return send(request, status, nil, text, "text/plain; charset=utf-8")
end

-- Sends the text of a generated file. The answer has no tag and no date, so that conditions and ranges do not apply.
local function send_generated(request, headers, text, sending)
  local announced, send = sending.length, sending.send
  if request.method == "HEAD" then return send(request, 200, headers, announced or #text) end
  if announced and announced ~= #text then return sending.send_part(request, 200, headers, text, nil, announced) end
  request.sent = #text
  return send(request, 200, headers, text)
end

local function type_of(answer)
  local ending, is_index = answer.file:match "%.(%w+)$" or "", answer.file == "" or answer.file:sub(-1) == "/"
  return answer.type or TYPES[ending:lower()] or is_index and TYPES.html or "application/octet-stream"
end

-- Checks the request's conditions in the order of RFC 9110, 13.2.2. Returns 412, 304, or nil to send the file.
local function failed_condition(request, tag, seconds)
  local asked = request.headers
  local match, unmodified = asked["if-match"], asked["if-unmodified-since"]
  local date = not match and unmodified and native.read_date(unmodified)
  if match and not has_tag(match, tag) or date and seconds > date then return 412 end
  if request.method ~= "GET" and request.method ~= "HEAD" then return nil end
  local none, since = asked["if-none-match"], asked["if-modified-since"]
  if none then return has_tag(none, tag) and 304 or nil end
  date = since and native.read_date(since)
  return date and seconds <= date and 304 or nil
end

-- Returns the range that the request asks for, as `range_of` does; nil if it asks for no range.
local function requested_range(request, headers, size, tag)
  local asked = request.headers
  local range, condition = request.method == "GET" and asked.range, asked["if-range"]
  if not range or condition and condition ~= tag and condition ~= headers["last-modified"] then return nil end
  return range_of(range, size)
end

local LONG <const> = 262144

-- Sends a file through the server's compressor: a long one piece by piece.
local function send_compressed(request, headers, file, level, sending)
  if request.method == "HEAD" then return sending.send(request, 200, headers) end
  if file.size <= LONG then
    local bytes = require("runloop.http.compress").text(read_part(file, 0, file.size), level)
    request.sent = #bytes
    return sending.send(request, 200, headers, bytes)
  end
  -- The response itself decides whether to compress.
  headers["content-encoding"] = nil
  local response, at = sending.open(request, 200, headers), 0
  while at < file.size do
    local bytes = read_part(file, at, math.min(PIECE, file.size - at))
    if not response:write(bytes) then return end
    at = at + #bytes
  end
  return response:finish()
end

-- Returns the fields of an answer with a file.
local function fields_of(answer, file)
  local headers = {
    etag = file.tag, ["last-modified"] = native.write_date(file.seconds), ["accept-ranges"] = "bytes",
    ["content-type"] = type_of(answer), ["x-content-type-options"] = "nosniff", ["content-encoding"] = file.coding,
  }
  if file.coding then headers["accept-ranges"] = nil end
  if file.text then headers.etag, headers["last-modified"], headers["accept-ranges"] = nil, nil, nil end
  for name, value in pairs(answer.headers or {}) do headers[name] = value end
  return answer.compressed and require("runloop.http.compress").varying(headers) or headers
end

-- Opens the file of an answer, or a compressed one beside it. Returns a table; or nil and the error's name.
local function open_best(request, answer)
  local file, problem = open(answer, "")
  if not file then return nil, problem end
  local best = answer.compressed and not file.is_generated and open_compressed(request, answer, file)
  if best then
    native.close_file(file.fd)
    file = best
  end
  local ending = file.coding and "-" .. file.coding or ""
  file.tag = ('"%x-%x%05x%s"'):format(file.size, file.seconds, file.nanoseconds // 1000, ending)
  return file
end

-- Answers with a file. `sending` has the functions that all answers share, and the length that the handler has
-- announced. A range has a length of its own.
function M.send(request, answer, sending)
  local send, announced = sending.send, sending.length
  local connection = request.connection
  connection:claim(request)
  local file, problem = open_best(request, answer)
  if not file then return send_error(request, answer, problem, send) end
  local guard <close> = setmetatable({}, {
    __close = function()
      if file.fd then native.close_file(file.fd) end
    end,
  })
  local size, seconds, tag = file.size, file.seconds, file.tag
  file.text = file.is_generated and read_generated(file.fd, size, answer.file)
  local headers = fields_of(answer, file)
  if file.text then return send_generated(request, headers, file.text, sending) end
  local failed = failed_condition(request, tag, seconds)
  if failed == 412 then return send(request, 412, headers, 0) end
  if failed then
    headers["content-type"], headers["accept-ranges"] = nil, nil
    return send(request, 304, headers, announced)
  end
  local status, first, last = 200, 0, size - 1
  local from, to = requested_range(request, headers, size, tag)
  if from == false then
    headers["content-range"] = ("bytes */%d"):format(size)
    return send(request, 416, headers, 0)
  elseif from then
    status, first, last = 206, from, to
    headers["content-range"] = ("bytes %d-%d/%d"):format(first, last, size)
  end
  local count = last - first + 1
  if status == 200 and not announced then
    local level
    headers, level = sending.plan(request, 200, headers, nil, count)
    if level then return send_compressed(request, headers, file, level, sending) end
  end
  local length = status == 200 and announced or count
  if request.method == "HEAD" then return send(request, status, headers, length) end
  if count <= PIECE then
    local bytes = read_part(file, first, count)
    if length ~= count then return sending.send_part(request, status, headers, bytes, nil, length) end
    request.sent = count
    return send(request, status, headers, bytes)
  end
  size = count
  if length > size then connection:last(request) else count = length end
  request.sent = count
  send(request, status, headers, length)
  native.seek_file(file.fd, first)
  local net = require "runloop.net"
  local source <close> = assert(net.open(file.fd, { owns = true }))
  file.fd = nil
  local copied
  copied, problem = net.copy(source, connection.stream, { max = count })
  if copied ~= count then
    connection:last(request)
    connection.stream:abort()
    if not copied and request.is_gone then return end
    if copied or not problem then error(("the file %s became shorter while it was sent"):format(answer.file), 0) end
  elseif size ~= length then
    sending.report_length(request, size, length)
  end
end

return M
