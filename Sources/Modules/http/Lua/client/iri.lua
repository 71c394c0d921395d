-- runloop.http.iri: converts URLs with other characters than ASCII to the form that HTTP requires, as browsers do (RFC
-- 3987). This part is loaded when the first such URL occurs.

local native = require "runloop.http.native"

-- Converts a URL, or an authority alone. Returns nil, message, code if the host has no such form.
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
