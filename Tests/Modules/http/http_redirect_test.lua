-- runloop.http: redirects, and the requests that follow them.

local t = require "runloop.test"
local rl = require "runloop"
local http = require "runloop.http"

local STATUSES <const> = { 301, 302, 303, 307, 308 }
local server, other, base, seen

-- Notes the fields of each request; "/to/302?where=/x" redirects to "/x".
local function app()
  local routes = http.routes()
  routes:any("/to/:status", function(request)
    local is_early = request.query.early
    seen[#seen + 1] = request.method .. " " .. (is_early and "" or request:body())
    if request.query.slowly then rl.sleep(2) end
    return { status = tonumber(request.params.status), body = "moved",
      headers = { location = request.query.where or "/here",
        ["set-cookie"] = { "a=1; Path=/" } } }
  end)
  routes:any("/here", function(request)
    local headers = request.headers
    seen[#seen + 1] = request.method .. " " .. request:body()
    return http.json { method = request.method, body = request:body(), type = headers["content-type"],
      length = headers["content-length"],
      encoding = headers["content-encoding"], transfer = headers["transfer-encoding"],
        authorization = headers.authorization,
      cookie = headers.cookie, host = headers.host, other = headers["x-other"] }
  end)
  return routes
end

t.before_each(function()
  seen = {}
  server, other = assert(http.serve("127.0.0.1:0", app())), assert(http.serve("127.0.0.1:0", app()))
  base = "http://" .. server:address()
end)
t.after_each(function()
  server:stop(0)
  other:stop(0)
end)

-- Returns the request that a server receives after a redirect with this status.
local function behind(status, request)
  request.url = base .. "/to/" .. status .. (request.where and "?where=" .. http.escape(request.where) or "")
  request.where = nil
  local answer, problem, code = http.fetch(request)
  if not answer then return nil, problem, code end
  return answer.body ~= "" and answer:json() or answer, answer
end

local function once(text)
  return function()
    local given = text
    text = nil
    return given
  end
end

t.describe("a redirect", function()
  t.it("keeps method and body, or neither, as browsers do", function()
    for _, status in ipairs(STATUSES) do
      for _, method in ipairs { "GET", "POST", "PUT", "PATCH", "DELETE" } do
        seen = {}
        local is_got = method == "GET" or status == 303 or status < 303 and method == "POST"
        local body = method ~= "GET" and method ~= "DELETE" and "body" or nil
        local got, answer = behind(status, { method = method, body = body,
          headers = { ["content-type"] = "a/b", ["content-encoding"] = "x" } })
        t.equal({ got.method, got.body, got.length, got.type }, is_got and method ~= "GET" and { "GET", "", nil, nil }
          or { method, body or "", body and "4" or nil, "a/b" }, method .. status)
        t.equal(got.encoding, (not is_got or method == "GET") and "x" or nil)
        t.equal({ answer.status, answer.redirects, answer.url }, { 200, 1, base .. "/here" })
        t.equal(#seen, 2)
      end
      t.equal({ behind(status, { method = "HEAD" }).status, seen[#seen] }, { 200, "HEAD " })
    end
  end)

  t.it("does not send the body of a function or stream again, but returns an error", function()
    for _, status in ipairs(STATUSES) do
      for _, method in ipairs { "POST", "PUT" } do
        for _, length in ipairs { false, 4 } do
          seen = {}
          local got, problem, code = behind(status,
            { method = method, body = once "body", headers = { ["content-length"] = length } })
          t.equal(seen[1], method .. " body")
          if status == 303 or status < 303 and method == "POST" then
            t.equal({ got.method, got.body, got.length, got.transfer }, { "GET", "" })
          else
            t.equal({ got, code, #seen }, { nil, "ESPIPE", 1 })
            t.equal(problem,
              ("ESPIPE: the answer %d leads to %s/here, where the body has to be sent again, and a function or a "
                .. "stream gives it only once: send it there, or give a string, or follow = 0 (%s/to/%d)")
                :format(status, base, base, status))
          end
        end
      end
    end
  end)

  t.it("ends the sending of the body if it arrives before its end", { real_time = true, timeout = 30 }, function()
    local count, was_cancelled = 0, false
    local answer = assert(http.post(base .. "/to/303?early=1", function()
      local guard <close> = setmetatable({}, { __close = function() was_cancelled = count == 3 end })
      count = count + 1
      if count == 3 then rl.sleep(60) end
      return "piece"
    end, { timeout = 20 }))
    t.equal({ answer.status, answer:json().method, count }, { 200, "GET", 3 })
    t.eventually(function() return was_cancelled end)
  end)

  t.it("is followed by http.open, too", function()
    local answer <close> = assert(http.open { base .. "/to/302", json = { 1 } })
    t.equal({ answer.status, answer.url, answer.redirects, answer:json().method }, { 200, base .. "/here", 1, "GET" })
    local none, _, code = http.open { base .. "/to/307", body = once "x" }
    t.equal({ none, code }, { nil, "ESPIPE" })
  end)

  t.it("is returned like any answer if it is not followed", function()
    local answer = assert(http.fetch { base .. "/to/307", method = "PUT", body = once "body", follow = 0 })
    t.equal({ answer.status, answer.body, answer.headers.location, answer.redirects }, { 307, "moved", "/here", 0 })
    for _, status in ipairs { 300, 304, 305, 306 } do t.equal(http.get(base .. "/to/" .. status).status, status) end
    local silent = t.http(function() return { status = 302 } end)
    t.equal(silent:get("/").status, 302)
    local bare <close> = assert(http.serve(0, function() return { status = 301, body = "nowhere" } end))
    t.equal(http.get("http://" .. bare:address()).body, "nowhere")
  end)

  t.it("sends no credentials to another server", function()
    local headers = { authorization = "A", cookie = "c=1", host = "example.org", ["x-other"] = "o" }
    local elsewhere = "http://" .. other:address() .. "/here"
    local function told(where, request)
      request.where = where
      local got = behind(302, request)
      return { got.authorization, got.cookie, got.host, got.other }
    end
    t.equal(told("/here", { headers = headers }), { "A", "c=1", "example.org", "o" })
    t.equal(told(base:upper() .. "/here", { headers = headers }), { "A", "c=1", "example.org", "o" })
    local stranger = { nil, nil, other:address(), "o" }
    t.equal(told(elsewhere, { headers = headers }), stranger)
    t.equal(told(elsewhere:match "^http:(.*)", { headers = headers }), stranger)
    -- The same after a redirect back to the first server: fields that were removed stay removed.
    local back = ("http://%s/to/302?where=%s"):format(other:address(), http.escape(base .. "/here"))
    t.equal(told(back, { headers = headers }), { nil, nil, server:address(), "o" })
    t.equal(told("/here", { user = "u", password = "p" })[1], "Basic dTpw")
    t.equal(told(elsewhere, { user = "u", password = "p" })[1], nil)
    t.equal(assert(http.get(base .. "/to/302", { user = "u", password = "p" })).url, base .. "/here")
  end)

  t.it("gets the cookies of the client, if that keeps cookies", function()
    local client <close> = http.client { cookies = true }
    t.equal(client:get(base .. "/to/302"):json().cookie, "a=1")
    t.equal(http.get(base .. "/to/302"):json().cookie, nil)
  end)

  t.it("is followed to URLs of http and https only", function()
    for _, where in ipairs { "file:///etc/passwd", "ftp://127.0.0.1/", "javascript:1" } do
      local none, problem, code = behind(302, { where = where })
      t.equal({ none, problem, code },
        { nil, ("EPROTONOSUPPORT: the answer 302 leads to %s, which is neither http:// nor https:// "
          .. "(%s/to/302?where=%s)")
          :format(where, base, http.escape(where)), "EPROTONOSUPPORT" })
    end
    t.equal({ behind(302, { where = "http://127.0.0.1:9/" }) },
      { nil, "ECONNREFUSED: connection refused (http://127.0.0.1:9/)", "ECONNREFUSED" })
    t.equal(select(3, behind(302, { where = "http://[bad/" })), "EINVAL")
  end)

  t.it("is followed by the client of tests if the option asks for it", function()
    local client = t.http(app())
    t.equal(client:get("/to/302").status, 302)
    for _, status in ipairs(STATUSES) do
      local answer = client:fetch { "/to/" .. status, method = "PUT", body = "body", follow = 5 }
      t.equal({ answer.status, answer.redirects, answer.url, answer:json().method, answer:json().body },
        { 200, 1, "http://test/here", status == 303 and "GET" or "PUT", status == 303 and "" or "body" })
    end
    t.equal(client:fetch({ "/to/302", body = once "body", follow = 1 }):json().method, "GET")
    t.equal(select(3, client:fetch { "/to/307", body = once "body", follow = 1 }), "ESPIPE")
    t.equal(select(2, client:get("/to/302?where=" .. http.escape "/to/302", { follow = 1 })),
      "ELOOP: more than 1 redirects (http://test/to/302)")
    for where, url in pairs { ["../here"] = "http://test/here", ["//other/here?a=1"] = "http://other/here?a=1",
      ["http://x/here#y"] = "http://x/here" } do
      local answer = client:get("/to/302?where=" .. http.escape(where), { follow = 1, user = "u", password = "p" })
      t.equal({ answer.status, answer.url, answer:json().authorization },
        { 200, url, where == "../here" and "Basic dTpw" or nil }, where)
    end
    t.equal(client:get("/here", { user = "u", password = "p", connect_timeout = 1, decompress = false,
      tls = true }):json().authorization, "Basic dTpw")
    local start = rl.now()
    local slow = t.http(function() rl.sleep(60) end)
    t.equal({ slow:get("/", { idle_timeout = 5 }) }, { nil, "timed out" })
    t.equal(rl.now() - start, 5.0)
  end)

  t.it("takes no more time than the limit of the request", function()
    local start = rl.now()
    local url = base .. "/to/302?slowly=1&where=" .. http.escape "/to/302?slowly=1"
    t.equal(assert(http.get(url, { timeout = 5 })).redirects, 2)
    t.equal(rl.now() - start, 4.0)
    t.equal({ http.get(url, { timeout = 3 }) }, { nil, "timed out" })
    t.equal(rl.now() - start, 7.0)
    t.equal(table.pack(http.get(url, { follow = 1 })),
      { nil, ("ELOOP: more than 1 redirects (%s/to/302?slowly=1)"):format(base), "ELOOP", n = 3 })
  end)
end)
