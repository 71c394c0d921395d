local net, http = require "runloop.net", require "runloop.http"
local t = require "runloop.test"
local support = require "tests.support"

t.describe("tls_front", function()
  local certificate, key, backend
  local front, address, numbers

  t.before_each(function()
    certificate, key = support.certificate()
    backend = assert(net.serve("127.0.0.1:0", function(stream)
      for line in stream:lines() do stream:write(line:upper(), "\n") end
    end))
    t.finally(function() backend:stop(0) end)
    front = support.start("tls_front", { certificate, key, "localhost:0", backend:address(), "127.0.0.1:0" })
    address = "localhost:" .. front:wait_for("listening address=\"?%S-:(%d+)", { from = "errors" })
    numbers = front:wait_for("numbers address=\"?([%d.:]+)", { from = "errors" })
  end)

  local function connect() return assert(net.connect(address, { tls = { ca = certificate } })) end

  t.it("passes on what comes, until both sides have ended", function()
    local stream <close> = connect()
    stream:write "hello\n"
    t.equal(stream:read_line(), "HELLO")
    stream:write "bye"
    stream:finish()
    t.equal(stream:read_all(), "BYE\n")
    local page
    t.eventually(function()
      page = http.get("http://" .. numbers .. "/metrics").body
      return page:find('front_connections_total{result="complete"} 1', 1, true)
    end)
    t.truthy(page:find('front_bytes_total{direction="up"} 9', 1, true), page)
    t.truthy(page:find("front_open_connections 0", 1, true), page)
  end)

  t.it("refuses the 21st connection of an address", function()
    local streams = {}
    for i = 1, 20 do
      streams[i] = connect()
      streams[i]:write "a\n"
      t.equal(streams[i]:read_line(), "A")
    end
    local one_more = net.connect(address, { tls = { ca = certificate } })
    t.falsy(one_more and one_more:read_line())
    streams[1]:close()
    t.eventually(function()
      local stream <close> = connect()
      stream:write "b\n"
      return stream:read_line() == "B"
    end)
    for _, stream in ipairs(streams) do stream:close() end
  end)

  t.it("lets connections end before it ends", function()
    local stream <close> = connect()
    stream:write "a\n"
    stream:read_line()
    front:signal "TERM"
    t.eventually(function() return not net.connect(address) end)
    stream:write "last\n"
    stream:finish()
    t.equal(stream:read_all(), "LAST\n")
    front:wait()
  end)

  t.it("closes the connection when the server behind it is away", function()
    backend:stop(0)
    local stream <close> = connect()
    t.falsy(stream:read_line())
    front:wait_for("no backend", { from = "errors" })
  end)
end)
