-- smtp_send.lua SERVER FROM TO...: sends a mail, which it reads from standard input, through a mail server. Encrypts
-- the connection (STARTTLS), logs in as SMTP_USER with SMTP_PASSWORD, and trusts the certificates of the file SMTP_CA.
--   printf 'Subject: hello\n\nHow are you?\n' | rlhost smtp_send.lua mail.example.org:587 me@example.org you@a.example
local net, encoding = require "runloop.net", require "runloop.encoding"

local server, from = arg[1], arg[2]
if not arg[3] then io.stderr:write "usage: rlhost smtp_send.lua SERVER FROM TO... < MAIL\n" os.exit(64) end
local user, password = os.getenv "SMTP_USER", os.getenv "SMTP_PASSWORD"

local stream <close> = assert(net.connect(server:find ":" and server or server .. ":587", { timeout = 30 }))
stream:set_timeout(60)

-- Sends a command, if there is one, and reads the answer, which may have several lines. Ends the program unless the
-- answer begins with the expected digit. Messages show `shown` in place of a secret.
local function ask(command, expected, shown)
  if command then assert(stream:write(command, "\r\n")) end
  local lines = {}
  repeat
    local line = assert(stream:read_line { max = 4096 })
    lines[#lines + 1] = line
  until line:match "^%d%d%d" and line:sub(4, 4) ~= "-"
  local text = table.concat(lines, "\n")
  if lines[#lines]:sub(1, 1) ~= expected then
    error(("%s: %s"):format(shown or command or "greeting", text), 0)
  end
  return text:upper()
end

-- A line that is one dot ends the mail, so each dot at the beginning of a line is doubled.
local function stuff(text)
  text = text:gsub("\r?\n", "\r\n"):gsub("^%.", ".."):gsub("\n%.", "\n..")
  return text:sub(-2) == "\r\n" and text or text .. "\r\n"
end

local function head(mail)
  local fields = mail:match "^(.-)\r?\n\r?\n" or ""
  local function has(name) return ("\n" .. fields:lower()):find("\n" .. name .. ":", 1, true) end
  local added = {}
  if not has "from" then added[#added + 1] = "From: <" .. from .. ">\n" end
  if not has "to" then added[#added + 1] = "To: <" .. table.concat(arg, ">, <", 3) .. ">\n" end
  if not has "date" then added[#added + 1] = os.date "!Date: %a, %d %b %Y %T +0000\n" end
  return table.concat(added) .. (fields == "" and not mail:find "^\n" and "\n" or "")
end

local mail = assert(net.input():read_all { max = 64 << 20 })
ask(nil, "2")
local offers = ask("EHLO localhost", "2")
if not offers:find "STARTTLS" then error(server .. " does not offer STARTTLS", 0) end
ask("STARTTLS", "2")
assert(stream:start_tls { server_name = server:match "^[^:]+", ca = os.getenv "SMTP_CA" })
offers = ask("EHLO localhost", "2") -- an attacker could have sent the text before the handshake
if user then
  local secret = encoding.encode("\0" .. user .. "\0" .. password, "base64")
  ask("AUTH PLAIN " .. secret, "2", "AUTH PLAIN")
end
ask("MAIL FROM:<" .. from .. ">", "2")
for number = 3, #arg do ask("RCPT TO:<" .. arg[number] .. ">", "2") end
ask("DATA", "3")
local answer = ask(stuff(head(mail) .. mail) .. ".", "2", "the mail")
ask("QUIT", "2")
print(answer)
