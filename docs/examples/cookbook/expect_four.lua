-- expect_four.lua: automates four programs that expect a person at a terminal, all at the same time: ssh-keygen,
-- bc, Python and gdb. One function, `expect`, does it: it waits for a text, then types an answer.
local rl, process, fs = require "runloop", require "runloop.process", require "runloop.fs"

-- Starts a program on a terminal of its own. Returns a function that waits for a text, types an answer if there is one,
-- and returns what came before the text; and the program.
local function talk(words)
  words.terminal, words.environment = {}, { TERM = "dumb" } -- programs then write no colours
  local program = assert(process.start(words))
  local function expect(text, answer)
    local before, problem = program.output:read_until(text, { timeout = 20 })
    if not before then error(("%s: %q did not come: %s"):format(words[1], text, problem or "it has ended"), 2) end
    if answer then program.input:write(answer, "\n") end
    return before
  end
  return expect, program
end

local function ssh_keygen()
  local directory = assert(fs.temporary_directory "keys")
  local expect, program = talk { "ssh-keygen", "-t", "ed25519", "-C", "me", "-f", directory .. "/key" }
  for _, again in ipairs { "a typing mistake", "correct horse" } do -- it asks again if the passphrases differ
    expect("(empty for no passphrase): ", "correct horse")
    expect("same passphrase again: ", again)
  end
  expect "key fingerprint is:\r\n"
  local fingerprint = expect " me"
  expect "[SHA256]-----+\r\n"
  program:wait(20)
  assert(fs.remove(directory, { recursive = true }))
  return fingerprint
end

local function bc()
  local expect, program = talk { "bc", "--quiet", "--mathlib" }
  program.input:write "scale = 40; 4 * a(1)\n"
  expect "a(1)\r\n" -- the terminal shows what is typed
  local pi = expect "\r\n"
  program.input:write "quit\n"
  program:wait(20)
  return pi
end

local function python()
  local expect, program = talk { "python3", "-q" }
  expect(">>> ", "def twice(x):")
  expect("... ", "  return 2 * x")
  expect("... ", "")
  expect(">>> ", "print('=', twice(2 ** 64))")
  expect "\r\n= "
  local result = expect "\r\n"
  expect(">>> ", "exit()")
  program:wait(20)
  return result
end

local function gdb()
  local expect, program = talk { "gdb", "-q", "-nx", "/bin/true" }
  expect("(gdb) ", "starti") -- stops before the first instruction
  expect("(gdb) ", "x/i $pc")
  expect "<"
  local place = expect ">:"
  expect("(gdb) ", "quit")
  expect("(y or n) ", "y") -- gdb asks because /bin/true still runs
  program:wait(20)
  return place
end

local names = { "ssh-keygen", "bc", "python3", "gdb" }
local results = rl.settle_all { ssh_keygen, bc, python, gdb }
for number, result in ipairs(results) do
  print(("%-10s  %s"):format(names[number], result[1]))
end
