-- Writes the port of an HTTP server, answers one request, and ends.
local http = require "runloop.http"
local server
server = assert(http.serve("127.0.0.1:0", function()
  require "runloop".task(function() server:stop(5) end)
  return "hello"
end))
print(server:address():match ":(%d+)$")
io.stdout:flush()
require "runloop".run()
