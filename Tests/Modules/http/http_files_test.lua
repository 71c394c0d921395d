-- runloop.http: files as answers, whole and in part.

local t = require "runloop.test"
local http = require "runloop.http"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local directory = support.directory

t.describe("files", function()
  local function tagged(answer) return answer.headers.etag end

  t.it("are sent whole, in part, or not at all", function()
    local path, guard <close> = directory()
    os.execute(([[cd %s; printf 0123456789 > a.txt; mkdir sub; printf '<p>' > sub/index.html; printf top > index.html
      head -c 1000000 /dev/zero > big; ln -s a.txt in; ln -s /etc/passwd out; ln -s / up
      printf secret > ../%s.secret]]):format(path, path:match "[^/]*$"))
    local app = http.routes()
    app:files("/s/*", path)
    app:get("/one", function() return http.file(path .. "/a.txt", { headers = { ["x-a"] = "b" } }) end)
    local other <close> = assert(http.serve(0, app))
    local root = "http://" .. other:address()
    local function get(url, headers) return http.get(root .. url, { headers = headers, follow = 0 }) end
    local whole = get "/s/a.txt"
    t.equal({ whole.status, whole.body, whole.headers["content-type"], whole.headers["accept-ranges"] },
      { 200, "0123456789", "text/plain; charset=utf-8", "bytes" })
    t.equal(get("/one").headers["x-a"], "b")
    for range, expected in pairs { ["bytes=2-4"] = "234", ["bytes=7-"] = "789", ["bytes=-3"] = "789",
      ["bytes=0-99"] = "0123456789", ["bytes=9-9"] = "9" } do
      local part = get("/s/a.txt", { range = range })
      t.equal({ part.status, part.body }, { 206, expected }, range)
    end
    t.equal(get("/s/a.txt", { range = "bytes=2-4" }).headers["content-range"], "bytes 2-4/10")
    local beyond = get("/s/a.txt", { range = "bytes=10-" })
    t.equal({ beyond.status, beyond.headers["content-range"] }, { 416, "bytes */10" })
    t.equal(get("/s/a.txt", { range = "lines=1" }).status, 200)
    t.equal(get("/s/a.txt", { range = "bytes=2-4", ["if-range"] = '"other"' }).body, "0123456789")
    t.equal(get("/s/a.txt", { range = "bytes=2-4", ["if-range"] = tagged(whole) }).body, "234")
    t.equal(get("/s/a.txt", { ["if-none-match"] = 'W/"x", ' .. tagged(whole) }).status, 304)
    t.equal(get("/s/a.txt", { ["if-none-match"] = '"x"' }).status, 200)
    t.equal(get("/s/a.txt", { ["if-modified-since"] = whole.headers["last-modified"] }).status, 304)
    t.equal(get("/s/a.txt", { ["if-match"] = '"x"' }).status, 412)
    local long_ago <const>, far <const> = "Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"
    t.equal(get("/s/a.txt", { ["if-unmodified-since"] = long_ago }).status, 412)
    t.equal(get("/s/a.txt", { ["if-unmodified-since"] = long_ago, ["if-none-match"] = tagged(whole) }).status, 412)
    t.equal(get("/s/a.txt", { ["if-unmodified-since"] = whole.headers["last-modified"] }).status, 200)
    t.equal(get("/s/a.txt", { ["if-unmodified-since"] = far }).status, 200)
    t.equal(get("/s/a.txt", { ["if-unmodified-since"] = "a while ago" }).status, 200)
    t.equal(get("/s/a.txt", { ["if-unmodified-since"] = long_ago, ["if-match"] = tagged(whole) }).status, 200)
    t.equal(#get("/s/big").body, 1000000)
    t.equal(get("/s/big", { range = "bytes=999990-" }).body, ("\0"):rep(10))
    local head = http.fetch { root .. "/s/big", method = "HEAD" }
    t.equal({ head.body, head.headers["content-length"] }, { "", "1000000" })
    t.equal({ get("/s/").body, get("/s/sub/").body, get("/s/sub").headers.location }, { "top", "<p>", "/s/sub/" })
    t.equal(get("/s/in").body, "0123456789")
    for _, escape in ipairs { "/s/out", "/s/up/etc/passwd", "/s/..%2f" .. path:match "[^/]*$" .. ".secret",
      "/s/%2e%2e/x", "/s/none", "/s/a.txt/x", "/s//etc/passwd" } do
      t.equal(get(escape).status, 404, escape)
    end
    os.remove(path .. ".secret")
  end)

  t.it("of /proc are sent whole, although their reported size is 0", function()
    local path, guard <close> = directory()
    os.execute(("cd %s; : > empty; ln -s /proc/self/status out"):format(path))
    local routes = http.routes()
    routes:files("/made/*", "/proc/self")
    routes:files("/s/*", path)
    routes:get("/version", function() return http.file "/proc/version" end)
    routes:get("/mtu", function() return http.file "/sys/class/net/lo/mtu" end)
    local other <close> = assert(http.serve(0, routes))
    local function ask(url, method, headers)
      return assert(http.fetch { "http://" .. other:address() .. url, method = method, headers = headers })
    end
    local version = assert(io.open "/proc/version"):read "a"
    for _, headers in ipairs { {}, { range = "bytes=2-4" },
      { ["if-none-match"] = '"x"', ["if-modified-since"] = "Thu, 01 Jan 2099 00:00:00 GMT" } } do
      local answer = ask("/version", nil, headers)
      t.equal({ answer.status, answer.body, answer.headers.etag, answer.headers["accept-ranges"] }, { 200, version })
    end
    local head = ask("/version", "HEAD")
    t.equal({ head.body, head.headers["content-length"] }, { "", tostring(#version) })
    t.truthy(ask "/made/status".body:find "^Name:%s")
    -- The file is longer than one read returns.
    t.equal(select(2, ask "/made/maps".body:gsub("%[stack%]", "")), 1)
    local mtu = io.open "/sys/class/net/lo/mtu"
    if mtu then t.equal(ask "/mtu".body, mtu:read "a") end
    local empty = ask "/s/empty"
    t.equal({ empty.status, empty.body, empty.headers["content-length"] }, { 200, "", "0" })
    t.truthy(empty.headers.etag)
    t.equal(ask "/s/out".status, 404)
  end)
end)
