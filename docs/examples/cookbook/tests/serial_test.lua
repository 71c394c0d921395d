local net, process, json = require "runloop.net", require "runloop.process", require "runloop.json"
local t = require "runloop.test"
local support = require "tests.support"

t.describe("serial", { real_time = true }, function()
  local input, unplug
  local device, socket, reader

  -- A program with a terminal takes the place of the instrument: text that it writes to its terminal comes out of the
  -- device.
  local function plug(link)
    local receiver = assert(process.start { "sh", "-c", "stty raw -echo; tty; exec sleep 1008", terminal = {} })
    unplug = function()
      receiver:stop(0)
      receiver.input:close()
      receiver.output:close()
    end
    input = receiver.input
    assert(os.execute(("ln -sf %s %s"):format(receiver.output:read_line():gsub("\r", ""), link)))
  end

  t.before_each(function()
    device = support.directory() .. "/gps"
    plug(device)
    socket = assert(net.datagram { host = "127.0.0.1", port = 0 })
    t.finally(function() socket:close() end)
    reader = support.start("serial", { device, socket:address(), virtual_time = false })
    reader:wait_for("reading", { from = "errors" })
  end)

  t.after_each(function() unplug() end)

  local POSITION = "$GPGGA,123519,4807.038,S,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*"

  t.it("sends positions, and nothing that is wrong", function()
    input:write("half a line\r\n", POSITION, "48\r\n", POSITION, "5A\r\n")
    t.equal(json.decode((assert(socket:receive(5)))),
      { time = "123519", latitude = -48.1173, longitude = 11 + 31 / 60, satellites = 8, altitude = 545.4 })
    reader:wait_for('wrong sentence bad=1 good=0 line="half a line"', { from = "errors", plain = true })
    reader:wait_for("wrong sentence bad=2 good=0", { from = "errors" })
  end)

  t.it("takes a sentence in pieces, and passes over others", function()
    input:write "$GPGSV,1,1,00*79\r\n"
    for byte in (POSITION .. "5A\r\n"):gmatch "." do
      input:write(byte)
      input:flush()
    end
    t.equal(json.decode((assert(socket:receive(5)))).satellites, 8)
    t.falsy(reader:errors():find "wrong")
  end)

  t.it("waits for a device that was unplugged", function()
    unplug()
    plug(device)
    reader:wait_for("reading", { from = "errors", within = 8 })
    input:write(POSITION, "5A\r\n")
    t.truthy(socket:receive(5))
  end)
end)
