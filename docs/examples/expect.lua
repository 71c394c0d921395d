-- expect.lua: logs in to a program that asks questions on a terminal, runs a command there, and shows its output.
local process = require "runloop.process"
local command = arg[1] or "read -p 'login: ' a; read -p 'password: ' b; exec sh"
local program <close> = assert(process.start { "sh", "-c", command, terminal = {} })

local function expect(text, answer)
  local before = assert(program.output:read_until(text, { timeout = 10 }))
  if answer then program.input:write(answer, "\n") end
  return before
end

expect("login: ", "ada")
expect("password: ", "secret")
program.input:write "PS1= PS2=; stty -echo; printf 'ready%s' .; echo\n"
expect "ready."
program.input:write "uname -s; printf 'done%s' .; exit\n"
print("the system: " .. expect("done."):match "%a+")
