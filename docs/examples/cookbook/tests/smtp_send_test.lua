local json = require "runloop.json"
local t = require "runloop.test"
local support = require "tests.support"

-- The server is Debian's python3-aiosmtpd.
t.describe("smtp_send", { real_time = true }, function()
  local certificate, server

  t.before_all(function()
    local key
    certificate, key = support.certificate()
    server = t.server { "/usr/bin/python3", "tests/smtp_server.py", certificate, key, "{port}", ready = "tcp" }
  end)

  local function send(mail, changes)
    local environment = { SMTP_USER = "me", SMTP_PASSWORD = "secret", SMTP_CA = certificate }
    for name, value in pairs(changes or {}) do environment[name] = value end
    local program = support.start("smtp_send", {
      "localhost:" .. server:port(), "me@example.org", "a@example.org", "b@example.org",
      env = environment, virtual_time = false })
    program:write(mail)
    program:close_input()
    return program:wait(), program
  end

  local function last_mail() return json.decode(server:output():match "([^\n]*)\n$") end

  t.it("sends a mail by TLS, with dots at the beginnings of lines", function()
    local status, program = send "Subject: dots\n\n.\n..\nno dot.\n.hidden\n.\n"
    t.equal(status, 0, program:errors())
    local mail = last_mail()
    t.equal({ mail.from, mail.tls, mail.to }, { "me@example.org", true, { "a@example.org", "b@example.org" } })
    t.equal(mail.text:match "\r\n\r\n(.*)", ".\r\n..\r\nno dot.\r\n.hidden\r\n.\r\n")
    t.truthy(mail.text:find "^From: <me@example.org>\r\nTo: <a@example.org>, <b@example.org>\r\nDate: ", mail.text)
  end)

  t.it("adds what a mail lacks: fields, the end of the last line", function()
    t.equal((send "no head at all"), 0)
    t.truthy(last_mail().text:find "^From:.*\r\n\r\nno head at all\r\n$")
    t.equal((send "From: me <me@example.org>\nto: you\n\ntext"), 0)
    t.truthy(last_mail().text:find "^Date: [^\n]*\nFrom: me <me@example.org>\r\nto: you\r\n\r\ntext\r\n$")
  end)

  t.it("tells what the server has refused, and keeps the password to itself", function()
    local status, program = send("text", { SMTP_PASSWORD = "wrong" })
    t.equal(status, 1)
    t.truthy(program:errors():find "AUTH PLAIN: 535")
    t.falsy(program:errors():find "wrong")
  end)

  t.it("does not talk with a server whose certificate is not trusted", function()
    local status, program = send("text", { SMTP_CA = false })
    t.equal(status, 1)
    t.truthy(program:errors():find "TLS_CERTIFICATE")
  end)
end)
