-- The sandbox: what a script in it can do, what it cannot, and the errors on a kernel that is too old.

local rl = require "runloop"
local fs = require "runloop.fs"
local net = require "runloop.net"
local process = require "runloop.process"
local t = require "runloop.test"

local REAL <const> = { real_time = true, timeout = 60 }
local RLHOST <const> = fs.real_path "/proc/self/exe"

local function directory(files)
  local path = assert(fs.real_path(assert(fs.temporary_directory())))
  for name, text in pairs(files or {}) do
    assert(fs.make_directory((path .. "/" .. name):match "^(.*)/", { parents = true }))
    assert(fs.write(path .. "/" .. name, text))
  end
  return path, setmetatable({}, { __close = function() fs.remove(path, { recursive = true }) end })
end

local function run(options, code, more)
  local words = { RLHOST, "--sandbox" }
  for option in options:gmatch "%S+" do words[#words + 1] = option end
  words[#words + 1] = "-"
  for name, value in pairs(more or {}) do words[name] = value end
  words.input = code
  local answer = assert(process.run(words))
  answer.errors = answer.errors:gsub(RLHOST, "rlhost")
  return answer
end

-- The code prints the expected text, when it runs in a sandbox with these options.
local function prints(expected, options, code, more)
  local answer = run(options, code, more)
  t.equal(answer.output .. answer.errors, expected .. "\n")
end

local function refused(option, options, code, more)
  local answer = run(options, code, more)
  t.truthy(answer.output:find("not allowed by the sandbox: " .. option, 1, true), answer.output .. answer.errors)
end

t.describe("refusals name the option that would allow the call", function()
  t.each({
    { "fs.read", "--allow-read=/etc", [[print(require "runloop.fs".read "/etc/passwd")]] },
    { "fs.list", "--allow-read=/", [[print(require "runloop.fs".list "/home")]] },
    { "fs.list of the root", "--allow-read=/ ", [[print(require "runloop.fs".list "/")]] },
    { "fs.write", "--allow-write=/var", [[print(require "runloop.fs".write("/var/x", "x"))]] },
    { "fs.rename", "--allow-write=/etc", [[print(require "runloop.fs".rename("/etc/passwd", "/etc/x"))]] },
    { "fs.make_directory", "--allow-write=/var", [[print(require "runloop.fs".make_directory "/var/x")]] },
    { "fs.temporary_directory", "--allow-write=/tmp", [[print(require "runloop.fs".temporary_directory())]] },
    { "fs.watch", "--allow-read", [[print(require "runloop.fs".watch("/etc", print))]] },
    { "io.open", "--allow-read=/etc", [[print(io.open "/etc/passwd")]] },
    { "io.open to write", "--allow-write=/etc", [[print(io.open("/etc/x", "w"))]] },
    { "io.open with +", "--allow-write=/etc", [[print(io.open("/etc/passwd", "r+"))]], "--allow-read=/etc" },
    { "io.lines", "--allow-read=/etc", [[print(pcall(io.lines, "/etc/passwd"))]] },
    { "io.input", "--allow-read=/etc", [[print(pcall(io.input, "/etc/passwd"))]] },
    { "io.output", "--allow-write=/etc", [[print(pcall(io.output, "/etc/x"))]] },
    { "io.popen", "--allow-run=sh", [[print(io.popen "id")]] },
    { "io.tmpfile", "--allow-write=/tmp", [[print(io.tmpfile())]] },
    { "os.tmpname", "--allow-write=/tmp", [[print(pcall(os.tmpname))]] },
    { "os.execute", "--allow-run=sh", [[print(os.execute "id")]] },
    { "os.remove", "--allow-write=/etc", [[print(os.remove "/etc/passwd")]] },
    { "os.rename", "--allow-write=/etc", [[print(os.rename("/etc/passwd", "/tmp/x"))]] },
    { "loadfile", "--allow-read=/etc", [[print(loadfile "/etc/passwd")]] },
    { "dofile", "--allow-read=/etc", [[print(pcall(dofile, "/etc/passwd"))]] },
    { "package.loadlib", "--allow-modules", [[print(package.loadlib("/usr/lib/x.so", "*"))]] },
    { "process.run", "--allow-run=id", [[print(require "runloop.process".run { "id" })]] },
    { "net.connect", "--allow-connect=127.0.0.1:1", [[print(require "runloop.net".connect "127.0.0.1:1")]] },
    { "a name", "--allow-connect=example.org:1", [[print(require "runloop.net".connect "example.org:1")]] },
    { "a Unix socket", "--allow-connect", [[print(require "runloop.net".connect "unix:/tmp/x")]] },
    { "an abstract name", "--allow-connect", [[print(require "runloop.net".connect "unix:@x")]] },
    { "net.listener", "--allow-listen=0",
      [[print(require "runloop.net".serve({ port = 0, host = "127.0.0.1" }, print))]] },
    { "net.datagram", "--allow-connect", [[print(require "runloop.net".datagram { peer = "127.0.0.1:1" })]] },
    { "rl.message_port", "--allow-listen=port:x",
      [[print(require "runloop".message_port { name = "x", callback = print })]] },
    { "rl.remote_port", "--allow-connect=port:x", [[print(require "runloop".remote_port "x")]] },
    { "http.get", "--allow-connect=127.0.0.1:1", [[print(require "runloop.http".get "http://127.0.0.1:1/")]] },
    { "http.get of a name", "--allow-connect=example.org:80",
      [[print(require "runloop.http".get "http://example.org/")]] },
    { "log.open", "--allow-write=/var", [[print(require "runloop.log".open { to = "/var/x.log" })]] },
    { "rl.trace.start", "--allow-write=/var", [[print(require "runloop".trace.start "/var/x.html")]] },
  }, "%s", REAL, function(_, option, code, options) refused(option, options or "", code) end)

  t.it("and have error codes", REAL, function()
    prints("nil\tEACCES: not allowed by the sandbox: --allow-read=/etc (/etc/passwd)\tEACCES", "",
      [[print(require "runloop.fs".read "/etc/passwd")]])
    prints("nil\tEACCES: not allowed by the sandbox: --allow-read=/etc (/etc/passwd)\t13", "",
      [[print(io.open "/etc/passwd")]])
  end)

  t.it("and the error of require names the file that it may not read", REAL, function()
    local path <const>, gone <close> = directory { ["lib/secret.lua"] = "return 1" }
    refused("--allow-read=" .. path .. "/lib (" .. path .. "/lib/secret.lua)", "",
      ("package.path = %q .. '/lib/?.lua' print(pcall(require, 'secret'))"):format(path))
  end)
end)

t.describe("the sandbox allows", function()
  t.it("modules beside the script, and the script itself", REAL, function()
    local path <const>, gone <close> = directory {
      ["main.lua"] = "print(require 'one', require 'lib.two', io.open 'data.txt')", ["one.lua"] = "return 1",
      ["lib/two.lua"] = "return 2", ["data.txt"] = "x" }
    local answer = process.run { RLHOST, "--sandbox", "main.lua", directory = path }
    t.truthy(answer.output:find("^1\t2\tnil\tEACCES: not allowed by the sandbox: %-%-allow%-read="), answer.output
      .. answer.errors)
  end)

  t.it("the given files and directories, and no others", REAL, function()
    local path <const>, gone <close> = directory { ["in/a.txt"] = "a", ["out/b.txt"] = "b", ["inner.txt"] = "c" }
    prints("a\tnil\tnil\t1\ttrue", ("--allow-read=%s/in --allow-write=%s/in"):format(path, path), ([[
      local fs, path = require "runloop.fs", %q
      print(fs.read(path .. "/in/a.txt"), (fs.read(path .. "/in/../out/b.txt")), (fs.read(path .. "/inner.txt")),
        #fs.list(path .. "/in"), fs.write(path .. "/in/c.txt", "x"))]]):format(path))
  end)

  t.it("the given variables, and removes all others from the memory", REAL, function()
    prints("2\tnil\tnil", "--allow-env=ONE,TWO --allow-read", [[
      print(os.getenv "TWO", os.getenv "THREE", io.open("/proc/self/environ"):read "a":match "THREE")]],
      { environment = { TWO = "2", THREE = "3" } })
  end)

  t.it("variables in a list with empty names", REAL, function()
    prints("2\tnil", "--allow-env=,TWO,, --allow-env=", [[print(os.getenv "TWO", os.getenv "THREE")]],
      { environment = { TWO = "2", THREE = "3" } })
  end)

  t.it("the numbers of the process itself, also where /proc cannot be read", REAL, function()
    for options, file in pairs { [""] = "nil", ["--allow-read=/proc"] = "true" } do
      prints(file .. "\ttrue\ttrue\ttrue", options, [[
        local before = io.open "/proc/self/statm" ~= nil or nil
        local text = require "runloop.metrics".text()
        local function number(name) return tonumber(text:match("\nprocess_" .. name .. " (%S+)")) end
        local files = { require "runloop.net".pair() }
        local now = tonumber(require "runloop.metrics".text():match "\nprocess_open_fds (%S+)")
        print(before, number "open_fds" >= 3 and now >= number "open_fds" + 2,
          math.abs(os.time() - number "start_time_seconds") < 60, number "resident_memory_bytes" > 2e6)]])
    end
  end)

  t.it("a given program, which inherits the sandbox and the variables", REAL, function()
    local answer = run("--allow-run=cat --allow-read=/etc/hostname", [[
      local process = require "runloop.process"
      print(process.run { "cat", "/etc/hostname" }.code, process.run { "cat", "/etc/passwd" }.errors)
      print(process.run { "ls" })]])
    t.truthy(answer.output:find "^0\tcat: /etc/passwd: Permission denied\n", answer.output .. answer.errors)
    t.truthy(answer.output:find("--allow-run=ls (ls)", 1, true), answer.output)
  end)

  t.it("a given script as a program, with its interpreter", REAL, function()
    local path <const>, gone <close> = directory { ["tool"] = "#!/bin/sh\necho from $0" }
    process.run { "chmod", "+x", path .. "/tool" }
    prints("from " .. path .. "/tool\n", "--allow-run=" .. path .. "/tool",
      ("io.write(require 'runloop.process'.run { %q }.output, '\\n')"):format(path .. "/tool"))
  end)

  t.it("bytecode and C modules with --allow-modules only", REAL, function()
    prints("nil\tattempt to load a binary chunk (mode is 't')", "", "print(load(string.dump(function() end)))")
    prints("true", "--allow-modules", "print(load(string.dump(function() end)) ~= nil)")
    prints("true\t5", "", "print(load 'return 5' ~= nil, load('return x', 'x', 't', { x = 5 })())")
  end)

  t.it("the given hosts, which the script reaches through the process outside", REAL, function()
    local server <close> = net.serve({ host = "127.0.0.1", port = 0 }, function(stream) stream:write "hello\n" end)
    local port = server:port()
    local code = ([[
      local net = require "runloop.net"
      local function try(place)
        local stream, problem, code = net.connect(place)
        return stream and stream:read_line() or code
      end
      print(try "127.0.0.1:%d", try "localhost:%d", try "127.0.0.2:%d")]]):format(port, port, port)
    local hosts = ("--allow-connect=127.0.0.1:%d --allow-connect=localhost:%d"):format(port, port)
    prints("hello\thello\tEACCES", hosts, code)
    prints("hello\thello\tECONNREFUSED", "--allow-connect=" .. port, code)
    prints("EACCES\tEACCES\tEACCES", "--allow-connect=" .. port + 1, code)
  end)

  t.it("listening at the given port only", REAL, function()
    local free <close> = net.serve({ host = "127.0.0.1", port = 0 }, print)
    local port = free:port()
    free:close()
    prints(port .. "\tEACCES", "--allow-listen=" .. port, ([[
      local net = require "runloop.net"
      local one <close> = net.serve({ host = "127.0.0.1", port = %d }, print)
      print(one:port(), select(3, net.serve({ host = "127.0.0.1", port = 0 }, print)))]]):format(port))
  end)

  t.it("the given message ports only", REAL, function()
    local name = "sandbox-test-" .. process.id()
    local function answer(_, _, data) return "got " .. data end
    local port = assert(rl.message_port { name = name, callback = answer })
    rl.current():add(port, "common")
    prints("got x\tnil", "--allow-connect=port:" .. name, ([[
      local rl = require "runloop"
      local remote = assert(rl.remote_port %q)
      print(remote:request(1, "x"), (rl.remote_port %q))]]):format(name, name .. "-other"))
    port:invalidate()
    prints("got x", ("--allow-listen=port:%s --allow-connect=port:%s"):format(name, name), ([[
      local rl = require "runloop"
      local function answer(_, _, data) return "got " .. data end
      local port = assert(rl.message_port { name = %q, callback = answer })
      rl.current():add(port, "common")
      print(assert(rl.remote_port %q):request(1, "x"))
      port:invalidate()]]):format(name, name))
  end)
end)

t.describe("a sandbox with the permissions that a program needs", function()
  t.it("lets a file server, an HTTP client and a supervisor run unchanged", REAL, function()
    local path <const>, gone <close> = directory { ["page.txt"] = "a page" }
    local options = "--allow-listen=0 --allow-connect --allow-run=sh --allow-read=" .. path
    prints("a page\t404\t3\tEACCES", options, ([[
      local http, process = require "runloop.http", require "runloop.process"
      local server <close> = assert(http.serve({ host = "127.0.0.1", port = 0 }, function(request)
        return http.file(%q .. request.path)
      end))
      local url = "http://" .. server:address() .. "/"
      print(http.get(url .. "page.txt").body, http.get(url .. "none").status,
        process.run { "sh", "-c", "exit 3" }.code, select(3, require "runloop.fs".read "/etc/passwd"))]]):format(path))
  end)
end)

t.describe("rl.sandbox", function()
  t.it("can only remove permissions", REAL, function()
    local path <const>, gone <close> = directory { ["a.txt"] = "a" }
    local options = ("--allow-read=%s --allow-read=/etc"):format(path)
    prints("true\ttrue\ttrue\ta\tEACCES\tEACCES", options, ([[
      local rl = require "runloop"
      print(io.open "/etc/passwd" ~= nil, rl.sandbox { read = { %q } },
        rl.sandbox { read = true, run = true, env = true }, io.open(%q):read "a",
        select(2, io.open "/etc/passwd"):match "^%%u+", select(2, io.open "/usr/share"):match "^%%u+")
      ]]):format(path, path .. "/a.txt"))
  end)

  t.it("works without --sandbox", REAL, function()
    local answer = process.run { RLHOST, "-", input = [[
      local rl = require "runloop"
      print(rl.sandbox { read = { "/etc/hostname" }, connect = { 80, "localhost:81", "port:x" }, modules = false })
      print(io.open "/etc/passwd")
      print(os.getenv "HOME", rl.thread(function() return io.open "/etc/passwd" end):join())]] }
    t.equal(answer.output .. answer.errors, "true\n"
      .. "nil\tEACCES: not allowed by the sandbox: --allow-read=/etc (/etc/passwd)\t13\n"
      .. "nil\ttrue\tnil\tEACCES: not allowed by the sandbox: --allow-read=/etc (/etc/passwd)\t13\n")
  end)

  t.it("raises an error while other threads run", REAL, function()
    local answer = process.run { RLHOST, "-", input = [[
      local rl = require "runloop"
      local thread = rl.thread(function() require "runloop".sleep(60) end)
      print(pcall(rl.sandbox, {}))
      print(io.open "/etc/passwd" ~= nil)
      os.exit(0)]] }
    t.truthy(answer.output:find "^false\tstdin:3: rl.sandbox: %d+ threads run, and .-call it before", answer.output
      .. answer.errors)
    t.truthy(answer.output:find "true\n$", answer.output)
  end)

  t.it("rejects invalid arguments", REAL, function()
    prints("rl.sandbox: unknown field 'reed' (did you mean 'read'?)", "", [[
      local _, message = pcall(require "runloop".sandbox, { reed = {} })
      print((message:gsub("^stdin:%d+: ", "")))]])
    for code, text in pairs {
      ["{ read = 5 }"] = "field 'read' must be a table or a boolean, got 5",
      ["5"] = "argument #1 must be a table, got 5",
      ["{ read = { 5 } }"] = "element 1 of field 'read' must be a string, got 5",
      ["{ listen = { 'x' } }"] = "--allow-listen=PORT or =port:NAME is expected, not 'x'" } do
      local answer = run("", ("print(pcall(require 'runloop'.sandbox, %s))"):format(code))
      t.truthy(answer.output:find(text, 1, true), answer.output .. answer.errors)
    end
    prints("nil\tENOENT: --allow-read=/none: no such file or directory\tENOENT", "",
      "print(require 'runloop'.sandbox { read = { '/none' } })")
  end)
end)

t.describe("the error names an option that is wrong, or not allowed, in:", function()
  t.each({
    { "--sandbox --allow-connect=host", 64, "--allow-connect=HOST:PORT, =PORT or =port:NAME is expected, not 'host'" },
    { "--sandbox --allow-listen=x:1", 64, "--allow-listen=PORT or =port:NAME is expected, not 'x:1'" },
    { "--sandbox --allow-read=", 64, "--allow-read= needs a value; without '=' it allows all" },
    { "--sandbox --allow-read=/none", 66, "--allow-read=/none: no such file or directory" },
    { "--sandbox --allow-run=no-such-program", 66, "--allow-run=no-such-program: no such program" },
    { "--sandbox --allow-modules=x", 64, "unknown option '--allow-modules=x'" },
    { "--sandbox --allow-reed", 64, "unknown option '--allow-reed' (did you mean '--allow-read'?)" },
    { "--sandbox=lax", 64, "unknown option '--sandbox=lax'" },
    { "--allow-read", 64, "--allow-read is for --sandbox" },
    { "--sandbox --watch x.lua", 64, "--sandbox runs a script; it is not for --watch and 'test'" },
    { "--sandbox test", 64, "--sandbox runs a script; it is not for --watch and 'test'" },
    { "--sandbox --trace=/var/x.html", 1, "--allow-write=/var" },
    { "--sandbox --attach=x", 1, "not allowed by the sandbox" },
    { "--sandbox /none.lua", 66, "cannot open /none.lua" },
  }, "%s", REAL, function(options, status, text)
    local words = { RLHOST, input = "" }
    for word in options:gmatch "%S+" do words[#words + 1] = word end
    local answer = assert(process.run(words))
    t.truthy(answer.errors:find(text, 1, true), answer.errors)
    t.equal(answer.code, status)
  end)
end)

t.describe("a sandbox on a kernel without some features of Landlock", function()
  -- The first call asks for Landlock's ABI.
  local function with_abi(abi, ...)
    local result = abi > 0 and "retval=" .. abi or "error=ENOSYS"
    local words = { "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=landlock_create_ruleset", "-e",
      "inject=landlock_create_ruleset:" .. result .. ":when=1", RLHOST }
    for _, word in ipairs { ... } do words[#words + 1] = word end
    local answer = assert(process.run(words))
    return answer.code, (answer.errors:gsub("^[^:]*: ", "")), answer.output
  end

  t.each({
    { 0, "--sandbox", "this kernel cannot restrict files: Landlock is missing" },
    { 2, "--allow-connect=127.0.0.1:80",
      "this kernel can allow all of TCP or none: Landlock ABI 2; 4 is needed for --allow-connect=HOST:PORT" },
    { 3, "--allow-listen=80",
      "this kernel can allow all of TCP or none: Landlock ABI 3; 4 is needed for --allow-listen=PORT" },
    { 5, "--allow-run=cat",
      "this kernel lets programs send signals to all others: Landlock ABI 5; 6 is needed for --allow-run" },
  }, "needs best-effort for Landlock ABI %d and %s", REAL, function(abi, option, text)
    local code, errors, output = with_abi(abi, "--sandbox", option, "-e", "print 'runs'")
    t.equal({ code, output }, { 69, "" }, errors)
    t.truthy(errors:find("--sandbox: " .. text, 1, true), errors)
    code, errors, output = with_abi(abi, "--sandbox=best-effort", option, "-e", "print 'runs'")
    t.equal({ code, output }, { 0, "runs\n" }, errors)
    t.truthy(errors:find("--sandbox=best-effort: " .. text, 1, true), errors)
  end)

  t.it("refuses TCP, truncation and signals by a filter of system calls", REAL, function()
    local path <const>, gone <close> = directory { ["a.txt"] = "text" }
    local code, errors, output = with_abi(1, "--sandbox", "--allow-read=" .. path, "-e", ([[
      print(select(3, require "runloop.net".connect "127.0.0.1:1"))
      print(io.open(%q, "w"))
      print(io.open "/etc/passwd")
      print(os.remove(%q))]]):format(path .. "/a.txt", path .. "/a.txt"))
    t.equal({ code, errors }, { 0, "" })
    t.truthy(output:find "^EACCES\nnil\tEACCES.-nil\tEACCES", output)
    t.equal(fs.read(path .. "/a.txt"), "text")
  end)
end)
