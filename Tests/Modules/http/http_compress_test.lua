-- Compressed answers of http.serve: which answers are compressed; their header fields, pieces and turns; and files
-- beside their compressed forms.

local t = require "runloop.test"
local rl = require "runloop"
local http = require "runloop.http"
local zlib = require "runloop.zlib"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local problem_of = support.problem_of

local LONG <const> = ("some text, "):rep(1000)

local function client(handler, options)
  return t.http(http.serve("memory", { compress = options or true }, handler))
end

local function get(own, headers, extra)
  local request = { "/", headers = headers or { ["accept-encoding"] = "gzip" } }
  for name, value in pairs(extra or {}) do request[name] = value end
  return assert(own:fetch(request))
end

local function check_compressed(answer, text)
  t.equal(answer.headers["content-encoding"], "gzip")
  t.equal(answer.headers.vary, "Accept-Encoding")
  t.equal(zlib.decompress(answer.body, { format = "gzip" }), text)
end

local function check_plain(answer, text, vary)
  t.equal(answer.headers["content-encoding"], nil)
  t.equal(answer.headers.vary, vary)
  t.equal(answer.body, text)
end

t.it("texts and tables are compressed, and have the length of the compressed body", function()
  local answer = get(client(function() return LONG end))
  check_compressed(answer, LONG)
  t.equal(answer.headers["content-length"], tostring(#answer.body))
  t.truthy(#answer.body < #LONG / 10)
  answer = get(client(function() return { json = { text = LONG }, status = 201 } end))
  t.equal(answer.status, 201)
  check_compressed(answer, ('{"text":"%s"}'):format(LONG))
  answer = get(client(function() return { body = LONG, headers = { ETag = '"a"', vary = "Cookie" } } end))
  t.equal(answer.headers.etag, 'W/"a"')
  t.equal(answer.headers.vary, "Cookie, Accept-Encoding")
  t.equal(zlib.decompress(answer.body), LONG)
  answer = get(client(function() return { body = LONG, headers = { etag = 'W/"a"', vary = "accept-encoding" } } end))
  t.equal(answer.headers.etag, 'W/"a"')
  t.equal(answer.headers.vary, "accept-encoding")
end)

-- An Accept-Encoding, and whether gzip is sent for it.
local ACCEPTS <const> = {
  ["gzip"] = true, ["x-gzip"] = true, ["GZIP"] = true, ["deflate, gzip;q=0.5"] = true, ["*"] = true,
  ["br, *;q=0.1"] = true,
  ["gzip;q=0"] = false, ["gzip;q=0.0, *"] = false, ["*;q=0"] = false, ["*;q=0, gzip"] = true, [""] = false,
  ["identity"] = false, ["identity;q=0"] = false, ["identity;q=0, *"] = true, ["gzip;q=0.5, identity;q=0.6"] = false,
  ["gzip;q=0.5, identity;q=0.5"] = true, ["gzip;q=x"] = false, ["gzip;q=x, *;q=1"] = true, ["br"] = false,
  ["gzip ; Q=1"] = true, ["gzip;q=0.001"] = true, [" , gzip,,"] = true, ["deflate"] = false,
}

t.it("Accept-Encoding determines whether an answer is compressed", function()
  local own = client(function() return LONG end)
  for accept, is_compressed in pairs(ACCEPTS) do
    local answer = get(own, { ["accept-encoding"] = accept })
    t.equal(answer.headers["content-encoding"], is_compressed and "gzip" or nil, accept)
    t.equal(answer.headers.vary, "Accept-Encoding")
  end
  check_plain(get(own, {}), LONG, "Accept-Encoding")
end)

t.it("answers that must not be compressed stay plain", function()
  local function answer_of(answer, headers)
    return get(client(function() return answer end), headers)
  end
  check_plain(answer_of(("x"):rep(1023)), ("x"):rep(1023), "Accept-Encoding")
  for _, headers in ipairs { { ["content-type"] = "image/png" }, { ["Content-Encoding"] = "br" },
    { ["cache-control"] = "private, no-transform" }, { ["content-range"] = "bytes 0-1/2" } } do
    local answer = answer_of { body = LONG, headers = headers }
    t.equal(answer.body, LONG)
    t.equal(answer.headers.vary, nil)
  end
  check_plain(answer_of { body = LONG, compress = false }, LONG)
  check_plain(answer_of(LONG, { ["accept-encoding"] = "gzip", range = "bytes=0-1" }), LONG)
  t.equal(answer_of({ status = 206, body = LONG }).headers.vary, nil)
  t.equal(answer_of(204).headers["content-encoding"], nil)
  t.equal(answer_of({ status = 304, headers = { etag = '"a"' } }).headers.etag, '"a"')
  check_plain(get(t.http(http.serve("memory", function() return LONG end))), LONG)
end)

t.it("the options determine which sizes and types are compressed", function()
  local function is_compressed(options, content_type, size)
    local answer = { body = ("x"):rep(size), headers = { ["content-type"] = content_type } }
    return get(client(function() return answer end, options)).headers["content-encoding"] == "gzip"
  end
  t.truthy(is_compressed({ least = 10 }, "text/html; charset=utf-8", 10))
  t.falsy(is_compressed({ least = 10 }, "text/html", 9))
  t.truthy(is_compressed({ types = { "image/*" } }, "image/bmp", 2000))
  t.falsy(is_compressed({ types = { "image/*" } }, "text/plain", 2000))
  for _, content_type in ipairs { "text/css", "application/json", "application/problem+json", "application/xml",
    "image/svg+xml", "application/wasm", "text/javascript", "application/javascript", "TEXT/HTML" } do
    t.truthy(is_compressed(true, content_type, 2000), content_type)
  end
  t.falsy(is_compressed(true, "application/octet-stream", 2000))
  t.equal(problem_of(http.serve, "memory", { compress = { levle = 1 } }, print),
    "http.serve: compress: unknown field 'levle' (did you mean 'level'?)")
  t.equal(problem_of(http.serve, "memory", { compress = { level = 10 } }, print),
    "http.serve: compress: field 'level' must be an integer from 1 to 9, got 10")
  t.equal(problem_of(http.serve, "memory", { compress = { types = { 5 } } }, print),
    "http.serve: compress: field 'types' must be a list of names, such as text/*, got 5")
  t.truthy(problem_of(http.serve, "memory", { compress = 5 }, print):find "field 'compress' must be")
end)

t.it("HEAD is answered with the fields of GET, without a length that is unknown", function()
  local own = client(function() return { body = LONG, headers = { etag = '"a"' } } end)
  local answer = get(own, nil, { method = "HEAD" })
  t.equal(answer.body, "")
  t.equal(answer.headers["content-encoding"], "gzip")
  t.equal(answer.headers["content-length"], nil)
  t.equal(answer.headers.etag, 'W/"a"')
  t.equal(get(own, {}, { method = "HEAD" }).headers["content-length"], tostring(#LONG))
end)

t.it("a long text is compressed over several turns of the loop", function()
  local text = LONG:rep(100)
  local own, turns = client(function() return text end), 0
  local observer = rl.observer {
    activities = "before_timers", repeats = true, callback = function() turns = turns + 1 end,
  }
  rl.current():add(observer, "common")
  local answer = get(own)
  observer:invalidate()
  check_compressed(answer, text)
  t.truthy(turns >= #text // 65536, turns)
end)

t.it("pieces are compressed with one flush for each turn of the loop", function()
  local own = client(function(request)
    local response = request:respond { headers = { ["content-type"] = "text/plain", ["content-length"] = 9 } }
    response:write "one"
    response:write "two"
    rl.sleep(1)
    response:write "six"
    response:finish()
  end)
  local answer = assert(own:open { "/", headers = { ["accept-encoding"] = "gzip" } })
  t.equal(answer.headers["content-encoding"], "gzip")
  t.equal(answer.headers["content-length"], nil)
  local stage = zlib.decompressor()
  local first = answer:read()
  t.equal(stage(first), "onetwo")
  -- A flush ends with an empty stored block.
  t.equal(select(2, first:gsub("\0\0\xff\xff", "")), 1)
  t.equal(rl.now() < 1, true)
  local rest = answer:read_all()
  t.equal(stage(rest) .. stage(), "six")
  answer:close()
end)

t.it("pieces of functions and random texts are compressed", function()
  for _ = 1, 20 do
    local parts = {}
    for i = 1, math.random(1, 30) do
      parts[i] = (math.random(2) == 1 and "abc" or tostring(math.random())):rep(math.random(0, 20000))
    end
    local waits, place = math.random(2) == 1, 0
    local own = client(function()
      return { body = function()
        place = place + 1
        if waits then rl.sleep(0.01) end
        return parts[place]
      end }
    end)
    check_compressed(get(own), table.concat(parts))
  end
end)

t.it("pieces that exceed the announced length raise an error", function()
  local own = client(function(request)
    local response = request:respond { headers = { ["content-type"] = "text/plain", ["content-length"] = 3 } }
    t.truthy(problem_of(response.write, response, "four"):find "longer than its Content%-Length")
  end)
  check_compressed(get(own), "fou")
end)

t.it("events stay plain, unless compression is requested", function()
  local function handler(request)
    local events = request:events { keep_alive = false }
    events:send "one"
    events:queue { data = "two" }
    rl.sleep(1)
    events:send "three"
    events:close()
  end
  local answer = get(client(handler))
  check_plain(answer, "data: one\n\ndata: two\n\ndata: three\n\n")
  answer = get(client(handler, { events = true }))
  check_compressed(answer, "data: one\n\ndata: two\n\ndata: three\n\n")
  t.equal(select(2, answer.body:gsub("\0\0\xff\xff", "")), 1)
end)

t.it("a handler ends when its client leaves", function()
  local ended
  local server = http.serve("memory", { compress = true }, function(request)
    local guard <close> = setmetatable({}, { __close = function() ended = true end })
    local response = request:respond { headers = { ["content-type"] = "text/plain" } }
    while response:write(LONG) do rl.sleep(0.1) end
  end)
  local answer = assert(t.http(server):open { "/", headers = { ["accept-encoding"] = "gzip" } })
  answer:read()
  answer:close()
  rl.sleep(1)
  t.truthy(ended)
end)

-- Files ---------------------------------------------------------------------------------------------------------------

local REAL <const> = { real_time = true }

t.it("files are compressed", REAL, function()
  local directory, place <close> = support.directory()
  local long = LONG:rep(50)
  support.write(directory .. "/a.txt", LONG)
  support.write(directory .. "/b.txt", long)
  support.write(directory .. "/c.png", LONG)
  local own = client(http.routes():files("/*", directory))
  local plain = get(own, {}, { [1] = "/a.txt" })
  check_plain(plain, LONG, "Accept-Encoding")
  local answer = get(own, nil, { [1] = "/a.txt" })
  check_compressed(answer, LONG)
  t.equal(answer.headers.etag, "W/" .. plain.headers.etag)
  local asked = { ["accept-encoding"] = "gzip", ["if-none-match"] = answer.headers.etag }
  t.equal(get(own, asked, { [1] = "/a.txt" }).status, 304)
  check_compressed(get(own, nil, { [1] = "/b.txt" }), long)
  check_plain(get(own, nil, { [1] = "/c.png" }), LONG)
  answer = get(own, { ["accept-encoding"] = "gzip", range = "bytes=0-3" }, { [1] = "/a.txt" })
  t.equal({ answer.status, answer.body, answer.headers["content-encoding"] }, { 206, LONG:sub(1, 4) })
  answer = get(own, nil, { [1] = "/b.txt", method = "HEAD" })
  t.equal({ answer.headers["content-encoding"], answer.headers["content-length"] }, { "gzip" })
end)

t.it("an existing compressed file is sent in place of the plain one", REAL, function()
  local directory, place <close> = support.directory()
  support.write(directory .. "/a.js", "plain")
  support.write(directory .. "/a.js.gz", "gzipped")
  support.write(directory .. "/a.js.br", "brotli")
  support.write(directory .. "/old.js", "plain")
  support.write(directory .. "/old.js.gz", "gzipped")
  support.write(directory .. "/alone.js.gz", "gzipped")
  support.write(directory .. "/index.html", "plain")
  support.write(directory .. "/index.html.gz", "gzipped")
  support.write(directory .. "/out.js", "plain")
  os.execute(("touch -d '1 hour ago' %s/old.js.gz; ln -s /etc/passwd %s/out.js.gz"):format(directory, directory))
  local own = t.http(http.serve("memory", http.routes():files("/*", directory, { compressed = true })))
  local function ask(path, accept, headers)
    local all = { ["accept-encoding"] = accept }
    for name, value in pairs(headers or {}) do all[name] = value end
    return get(own, all, { [1] = path })
  end
  local answer = ask("/a.js", "gzip")
  t.equal({ answer.body, answer.headers["content-encoding"], answer.headers.vary, answer.headers["content-type"] },
    { "gzipped", "gzip", "Accept-Encoding", "text/javascript; charset=utf-8" })
  local plain = ask("/a.js", nil)
  t.equal({ plain.body, plain.headers["content-encoding"], plain.headers.vary }, { "plain", nil, "Accept-Encoding" })
  t.falsy(plain.headers.etag == answer.headers.etag)
  t.equal(ask("/a.js", "gzip, br").body, "brotli")
  t.equal(ask("/a.js", "gzip, br;q=0.5").body, "gzipped")
  t.equal(ask("/a.js", "gzip;q=0.5, identity").body, "plain")
  t.equal(ask("/a.js", "gzip;q=0, br;q=0").body, "plain")
  t.equal(ask("/a.js", "gzip", { range = "bytes=0-1" }).body, "pl")
  t.equal(ask("/a.js", "gzip", { ["if-none-match"] = answer.headers.etag }).status, 304)
  t.equal(ask("/old.js", "gzip").body, "plain")
  t.equal(ask("/out.js", "gzip").body, "plain")
  t.equal(ask("/alone.js", "gzip").status, 404)
  t.equal(ask("/", "gzip").body, "gzipped")
  t.equal(ask("/", "gzip").headers["content-type"], "text/html; charset=utf-8")
  t.equal(problem_of(http.routes().files, http.routes(), "/*", directory, { compresed = true }),
    "routes:files: unknown field 'compresed' (did you mean 'compressed'?)")
end)
