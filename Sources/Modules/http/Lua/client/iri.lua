-- runloop.http.iri: URLs that are not ASCII, as browsers take them (RFC 3987), made such as HTTP has them. Loaded with the first. libcurl would
-- convert a host's name from the locale's characters, which are ASCII in a program that has set none, and send the rest as it is.

local native = require "runloop.http.native"

-- A URL, or an authority alone, as HTTP has it; nil, message, code where its host can be none.
return function(url)
  local before, rest = url:match "^(%a[%w+.-]*://)(.*)$"
  if not before then before, rest = "", url end
  local authority, after = rest:match "^([^/?#]*)(.*)$"
  local user, place = authority:match "^(.*@)(.*)$"
  if not user then user, place = "", authority end
  local host, port = place:match "^(.-)(:%d*)$"
  if not host then host, port = place, "" end
  after = after:gsub("[\128-\255]", function(byte) return ("%%%02X"):format(byte:byte()) end)
  host = host:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end)
  if not host:find "[\128-\255]" then return before .. authority .. after end
  local ascii, message, code = native.ascii_host(host)
  if not ascii then return nil, message, code end
  return before .. user .. ascii .. port .. after
end
