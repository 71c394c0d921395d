-- Requests a page from a web server through TLS, and prints the negotiated parameters and the beginning of the answer.
--
--   rlhost tls_client.lua HOST[:PORT] [CA_FILE]

local net = require "runloop.net"

local host, port = arg[1]:match "^(.-):?(%d*)$"
local where = { host = host, port = tonumber(port) or 443 }
local stream <close> = assert(net.connect(where, { tls = { ca = arg[2] }, timeout = 10 }))
local tls = stream:tls()
print(tls.version, tls.certificate.subject)

stream:write("GET / HTTP/1.1\r\nHost: ", host, "\r\nConnection: close\r\n\r\n")
print(assert(stream:read_line { timeout = 10 }))
local length = 0
for chunk in stream:chunks { timeout = 10 } do length = length + #chunk end
print(length .. " bytes more")
