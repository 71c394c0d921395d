-- Ways out of the sandbox. Each way is tried, and each must fail: by the script, and by a program that the script may
-- run.

local rl = require "runloop"
local fs = require "runloop.fs"
local process = require "runloop.process"
local t = require "runloop.test"

local REAL <const> = { real_time = true, timeout = 60 }
local RLHOST <const> = fs.real_path "/proc/self/exe"
local EACCES <const>, EPERM <const>, ENOSYS <const>, EOPNOTSUPP <const> = 13, 1, 38, 95

-- The directories with the libraries of a debug build.
local LIBRARIES <const> = (fs.read "/proc/self/maps" or ""):match "(/%S+)/libswiftCore%.so" or "/usr/lib"

-- The script may read and write in/; out/ has the secret.
local function place()
  local path = assert(fs.real_path(assert(fs.temporary_directory())))
  for _, name in ipairs { "in", "out" } do assert(fs.make_directory(path .. "/" .. name)) end
  assert(fs.write(path .. "/out/secret", "SECRET"))
  assert(fs.write(path .. "/in/own", "own"))
  return path, setmetatable({}, { __close = function() fs.remove(path, { recursive = true }) end })
end

local function run(path, code, options, more)
  local words = { RLHOST, "--sandbox", "--allow-read=" .. path .. "/in", "--allow-write=" .. path .. "/in" }
  for option in (options or ""):gmatch "%S+" do words[#words + 1] = option end
  words[#words + 1] = "-"
  for name, value in pairs(more or {}) do words[name] = value end
  words.input = ("local RLHOST, path, parent = %q, %q, %d\n%s"):format(RLHOST, path, process.id(), code)
  return assert(process.run(words))
end

-- The code prints true for each escape that succeeded; the file with the secret is unchanged afterwards.
local function stays_inside(code, options, more, expected)
  local path <const>, gone <close> = place()
  local answer = run(path, code, options, more)
  local text = answer.output .. answer.errors
  t.falsy(text:find "SECRET", text)
  t.falsy(text:find "true", text)
  t.truthy(text:find(expected or "not allowed by the sandbox", 1, not expected), text)
  t.equal(fs.read(path .. "/out/secret"), "SECRET")
  t.equal(#fs.list(path .. "/out"), 1)
end

-- Each row: a name; the code; further options and settings of the program; the output, if it differs from the name of
-- an option.
local ESCAPES <const> = {
  { "by ..", [[print(io.open(path .. "/in/../out/secret"))]] },
  { "by its working directory", [[require "runloop.process".set_directory(path .. "/out") print(io.open "secret")]] },
  { "by a symbolic link that it makes", [[local fs = require "runloop.fs"
    fs.symbolic_link(path .. "/out/secret", path .. "/in/link") print(fs.read(path .. "/in/link"))]] },
  { "by writing through a link", [[local fs = require "runloop.fs"
    fs.symbolic_link(path .. "/out/secret", path .. "/in/link") print(io.open(path .. "/in/link", "w"))]] },
  { "by a link to a directory", [[local fs = require "runloop.fs"
    fs.symbolic_link(path .. "/out", path .. "/in/link") print(fs.list(path .. "/in/link"))]] },
  { "by a hard link in", [[print(require "runloop.fs".link(path .. "/out/secret", path .. "/in/x"))]] },
  { "by a hard link out", [[print(require "runloop.fs".link(path .. "/in/own", path .. "/out/x"))]] },
  { "by renaming in", [[print(os.rename(path .. "/out/secret", path .. "/in/x"))]] },
  { "by renaming out", [[print(os.rename(path .. "/in/own", path .. "/out/x"))]] },
  { "by exchanging directories", [[print(require "runloop.fs".rename(path .. "/out", path .. "/in/out"))]] },
  { "by removing", [[print(os.remove(path .. "/out/secret"))]] },
  { "by listing", [[print(require "runloop.fs".list(path .. "/out"))]] },
  { "by watching", [[print(require "runloop.fs".watch(path .. "/out", print))]] },
  { "by appending", [[print(io.open(path .. "/out/secret", "a"))]] },
  { "by /proc/self/mem", [[print(io.open "/proc/self/mem", io.open("/proc/self/mem", "r+"))]] },
  { "by /proc/self/root", [[print(io.open("/proc/self/root" .. path .. "/out/secret"))]] },
  { "by its parent's environment", [[print(io.open("/proc/" .. parent .. "/environ"))]] },
  { "by its own environment", [[print(os.getenv "WORD", io.open "/proc/self/environ")]], nil,
    { environment = { WORD = "SECRET" } } },
  { "by a socket", [[print(require "runloop.net".connect "127.0.0.1:22")]] },
  { "by another port", [[print(require "runloop.net".connect "127.0.0.1:22")]], "--allow-connect=127.0.0.1:23" },
  { "by listening", [[print(require "runloop.net".serve({ host = "127.0.0.1", port = 0 }, print))]] },
  { "by a datagram", [[print(require "runloop.net".datagram { peer = "127.0.0.1:53" })]], "--allow-connect=53" },
  { "by an abstract socket", [[print(require "runloop.net".connect "unix:@x")]], "--allow-connect=53" },
  { "by the socket of a service", [[print(require "runloop.net".connect "unix:/run/dbus/system_bus_socket")]],
    "--allow-listen=53" },
  { "by a message port", [[print(require "runloop".remote_port "x")]], "--allow-connect=port:y" },
  { "by attaching", [[print(require "runloop".remote_port("rlhost-attach." .. parent))]] },
  { "by os.execute", [[print(os.execute("cat " .. path .. "/out/secret"))]] },
  { "by io.popen", [[print(io.popen("cat " .. path .. "/out/secret"))]] },
  { "by a program", [[print(require "runloop.process".run { "cat", path .. "/out/secret" })]] },
  { "by another program than the allowed one",
    [[print(require "runloop.process".run { "head", path .. "/out/secret" })]], "--allow-run=cat" },
  { "by a program of its own", [[local fs = require "runloop.fs" fs.write(path .. "/in/x", "#!/bin/sh\necho true",
    { mode = 0x1c0 }) print(require "runloop.process".run { path .. "/in/x" })]], "--allow-run=cat" },
  { "by the program that may run", [[print(require "runloop.process".run { "cat", path .. "/out/secret" }.errors)]],
    "--allow-run=cat", nil, "cat: .*/out/secret: Permission denied" },
  { "by LD_PRELOAD", [[print(require "runloop.process".run { "cat", path .. "/out/secret",
    environment = { LD_PRELOAD = "/lib/x86_64-linux-gnu/libm.so.6" } }.errors)]], "--allow-run=cat", nil,
    "Permission denied" },
  { "by dlopen", [[print(package.loadlib("/usr/lib/x86_64-linux-gnu/libm.so.6", "*"))]] },
  { "by a C module", [[package.cpath = path .. "/in/?.so" require "runloop.fs".write(path .. "/in/x.so", "x")
    print(require "x")]] },
  { "by bytecode", [[print(load(string.dump(function() end)))]], nil, nil, "attempt to load a binary chunk" },
  { "by bytecode in a file", [[require "runloop.fs".write(path .. "/in/x.lua", string.dump(function() end))
    print(select(2, loadfile(path .. "/in/x.lua")))]], nil, nil, "attempt to load a binary chunk" },
  { "by a module of bytecode", [[require "runloop.fs".write(path .. "/in/x.lua", string.dump(function() end))
    package.path = path .. "/in/?.lua" print(select(2, pcall(require, "x")))]], nil, nil,
    "attempt to load a binary chunk" },
  { "by bytecode for dofile", [[local fs = require "runloop.fs"
    fs.write(path .. "/in/x.lua", string.dump(function() return "true" end))
    print(select(2, pcall(dofile, path .. "/in/x.lua")))]], nil, nil, "attempt to load a binary chunk" },
  { "by upvalues of functions that the sandbox has replaced", [[local found = {}
    for _, f in ipairs { load, loadfile, dofile, package.loadlib, io.open, os.execute } do
      for i = 1, 5 do found[#found + 1] = debug.getupvalue(f, i) end
    end
    print(#found, debug.getinfo(load, "S").what, "not allowed by the sandbox")]] },
  { "by a thread", [[print(require "runloop".thread(function(path) return io.open(path) end,
    path .. "/out/secret"):join())]], nil, nil, "^true\tnil\tEACCES" },
  { "by a thread that it has made before", [[local rl = require "runloop"
    local thread = rl.thread(function() require "runloop".sleep(60) end)
    print(select(2, pcall(rl.sandbox, {}))) os.exit(0)]], nil, nil, "threads run" },
  { "by a wider sandbox", [[local rl = require "runloop" assert(rl.sandbox { read = true, write = true, run = true })
    print(io.open(path .. "/out/secret"))]] },
  { "by a temporary file", [[print(io.tmpfile()) print(require "runloop.fs".temporary_directory())]], nil,
    { environment = { TMPDIR = "/var/tmp" } } },
  { "by a core dump", [[print((require "runloop.process".run { "sh", "-c", "ulimit -Hc" }.output:gsub("\n", "")))]],
    "--allow-run=sh", nil, "^0\n" },
  { "by a recording", [[print(require "runloop".trace.start(path .. "/out/x.html"))]] },
  { "by a log", [[print(require "runloop.log".open { to = path .. "/out/x.log" })]] },
  { "by a database", [[print(require "runloop.sqlite".open(path .. "/out/x.db"))]] },
  { "by a database inside another", [[local db = require "runloop.sqlite".open(path .. "/in/x.db")
    print(db:execute("attach '" .. path .. "/out/y.db' as y"))]] },
  { "by a copy of a database", [[local db = require "runloop.sqlite".open(path .. "/in/x.db")
    print(db:execute("vacuum into '" .. path .. "/out/y.db'"))]] },
  { "by a library of SQLite", [[local db = require "runloop.sqlite".open(path .. "/in/x.db")
    print(db:execute("select load_extension($1)", path .. "/in/x.so"))]], nil, nil, "not authorized" },
  { "by PostgreSQL", [[print(require "runloop.postgres".open "postgres://u@127.0.0.1:1/d")]] },
  { "by PostgreSQL's own socket", [[print(require "runloop.postgres".open "postgres://u@/d?host=/run/postgresql")]],
    "--allow-connect=53" },
  { "by Redis", [[print(require "runloop.redis".open "redis://127.0.0.1:1")]], "--allow-connect=53" },
  { "by NATS", [[print(require "runloop.nats".connect("nats://127.0.0.1:1", { timeout = 5 }))]],
    "--allow-connect=53" },
  { "by LuaSocket", [[print(require "runloop.socket".connect("127.0.0.1", 22))]], "--allow-connect=53" },
  { "by LuaSocket's listener", [[print(require "runloop.socket".bind("127.0.0.1", 8080))]], "--allow-listen=53" },
  { "by LuaSocket's datagrams", [[print(require "runloop.socket".udp():setpeername("127.0.0.1", 53))]],
    "--allow-connect=53" },
  { "by asking for a name", [[print(require "runloop.net".resolve "secret.example.org")]],
    "--allow-connect=example.org:53" },
  { "by the URL of a file", [[print(require "runloop.http".get("file://" .. path .. "/out/secret"))]],
    "--allow-connect", nil, "EPROTONOSUPPORT" },
  { "by HTTP through a Unix socket", [[print(require "runloop.http".get("http://x/", { unix = "/run/docker.sock" }))]],
    "--allow-connect=80" },
  { "by a lock", [[print(require "runloop.fs".lock(path .. "/out/lock"))]] },
  { "by copying in", [[print(require "runloop.fs".copy(path .. "/out/secret", path .. "/in/x"))]] },
  { "by copying out", [[print(require "runloop.fs".copy(path .. "/in/own", path .. "/out/x"))]] },
  { "by lines", [[print(select(2, pcall(io.lines, path .. "/out/secret")))]] },
  { "by running it", [[print(select(2, pcall(dofile, path .. "/out/secret")))]] },
  { "by a blocking function", [[print(require "runloop".blocking(function(path) return io.open(path) end,
    path .. "/out/secret"))]] },
  { "by a dump", [[print(require "runloop".trace.dump(path .. "/out/x.html"))]] },
  { "by a terminal", [[print(require "runloop.process".start { "sh", terminal = {} })]], "--allow-run=sh" },
  { "by LUA_INIT", [[print(INIT, "not allowed by the sandbox")]], nil,
    { environment = { LUA_INIT = "INIT = 'SECRET'" } } },
  { "by rlhost in rlhost", [[print(require "runloop.process".run { RLHOST, "-e",
    "print(io.open(" .. ("%q"):format(path .. "/out/secret") .. "))" }.output)]],
    ("--allow-run=%s --allow-read=%s"):format(RLHOST, LIBRARIES), nil, "Permission denied" },
  { "by SQL that names a URI", [[local db = require "runloop.sqlite".open ":memory:"
    print(db:execute("attach 'file:" .. path .. "/out/y.db?mode=rwc' as y"))]] },
  { "by a copy of a database to a link", [[local db = require "runloop.sqlite".open(path .. "/in/x.db")
    require "runloop.fs".symbolic_link(path .. "/out/y.db", path .. "/in/y.db")
    print(db:execute("vacuum into '" .. path .. "/in/y.db'"))]] },
  { "by a function of SQL", [[local db = require "runloop.sqlite".open ":memory:"
    print(db:query("select readfile($1)", path .. "/out/secret"))]], nil, nil, "no such function" },
  { "by a link without a target", [[local fs = require "runloop.fs"
    fs.symbolic_link("../out/x", path .. "/in/link") print(io.open(path .. "/in/link", "w"))
    print(fs.write(path .. "/in/link", "x"))]] },
  { "by a chain of links", [[local fs = require "runloop.fs" fs.symbolic_link(path .. "/out", path .. "/in/one")
    fs.symbolic_link("one/secret", path .. "/in/two") print(io.open(path .. "/in/two"))]] },
  { "by copying a link", [[local fs = require "runloop.fs" fs.symbolic_link(path .. "/out/secret", path .. "/in/link")
    print(fs.copy(path .. "/in/link", path .. "/in/x"))]] },
  { "by /proc/self/cwd", [[require "runloop.process".set_directory(path .. "/out")
    print(io.open "/proc/self/cwd/secret")]] },
  { "by /proc/self/exe", [[print(io.open("/proc/self/exe", "r+"))]] },
  { "by a directory that may be listed", [[print(io.open "/proc/self/fd/../environ",
    io.open "/proc/self/fd/../maps")]] },
  { "by the directory of libraries", [[print(io.open "/usr/lib/../../etc/passwd")]] },
  { "by shared memory", [[print(io.open("/dev/shm/" .. parent, "w"))]] },
  { "by the terminal", [[print(io.open("/dev/tty", "r+"))]] },
  { "by loading it", [[print(loadfile(path .. "/out/secret"))]] },
  { "by requiring it", [[package.path = path .. "/out/?" print(select(2, pcall(require, "secret")))]] },
  { "by a name for a temporary file", [[print(select(2, pcall(os.tmpname)))]] },
  { "by a log that is full", [[local fs = require "runloop.fs"
    fs.symbolic_link(path .. "/out/x", path .. "/in/log.1")
    local log = require "runloop.log".open { to = path .. "/in/log", max_size = 4096, keep = 1 }
    for i = 1, 200 do log:info(("x"):rep(100)) end
    print(#fs.read(path .. "/in/log.1") > 1000 and "inside")]], nil, nil, "inside" },
  { "by an access log", [[print(require "runloop.http".serve("memory", { access_log = path .. "/out/x" }, print))]] },
  { "by a server's certificate", [[print(require "runloop.http".serve({ host = "127.0.0.1", port = 0 },
    { tls = { certificate = path .. "/out/secret", key = path .. "/out/secret" } }, print))]], "--allow-listen=0" },
  { "by a list of authorities", [[local one = require "runloop.net".pair()
    print(one:start_tls { ca = path .. "/out/secret" })]] },
  { "by HTTP's list of authorities", [[print(require "runloop.http".get("https://127.0.0.1:1/",
    { tls = { ca = path .. "/out/secret" } }))]], "--allow-connect=1" },
  { "by HTTP's key", [[print(require "runloop.http".get("https://127.0.0.1:1/",
    { tls = { certificate = path .. "/in/own", key = path .. "/out/secret" } }))]], "--allow-connect=1" },
  { "by Redis's list of authorities", [[print(require "runloop.redis".open("rediss://127.0.0.1:1",
    { tls = { ca = path .. "/out/secret" } }))]], "--allow-connect=1" },
  { "by a proxy", [[print(require "runloop.http".get("http://127.0.0.1:23/", { proxy = "http://127.0.0.1:22" }))]],
    "--allow-connect=127.0.0.1:23" },
  { "by a proxy with a path", [[print(require "runloop.http".get("http://127.0.0.1:23/",
    { proxy = "socks5h://localhost" .. path .. "/in/socket" }))]], "--allow-connect=127.0.0.1:23" },
  { "by a WebSocket", [[print(require "runloop.http".websocket("ws://127.0.0.1/", { unix = "/run/docker.sock" }))]],
    "--allow-connect=80" },
  { "by a shorter form of another address", [[print(require "runloop.net".connect "127.2:23")]],
    "--allow-connect=127.0.0.1:23" },
  { "by a mapped form of another address", [[print(require "runloop.net".connect "[::ffff:127.0.0.2]:23")]],
    "--allow-connect=127.0.0.1:23" },
  { "by the address of no host", [[print(require "runloop.net".connect "0.0.0.0:23")]],
    "--allow-connect=127.0.0.1:23" },
  { "by a listener with a path", [[print(require "runloop.net".serve("unix:" .. path .. "/in/socket", print))]],
    "--allow-listen=0" },
  { "by a listener with an abstract name", [[print(require "runloop.net".serve("unix:@" .. parent, print))]],
    "--allow-listen=0" },
  { "by a datagram to a path", [[print(require "runloop.net".datagram { path = path .. "/in/socket" })]],
    "--allow-connect=53" },
  { "by the rights of another user", [[print(require "runloop.process".set_user "nobody")]], nil, nil,
    "permission denied" },
  { "by the working directory of a program", [[print(require "runloop.process".run { "cat", "secret",
    directory = path .. "/out" }.errors)]], "--allow-run=cat", nil, "Permission denied" },
  { "by the input of a program", [[print(require "runloop.process".start { "cat", input = path .. "/out/secret" })]],
    "--allow-run=cat" },
  { "by the output of a program", [[print(require "runloop.process".start { "cat", output = path .. "/out/x" })]],
    "--allow-run=cat" },
  { "by an answer that is a file", [[local http = require "runloop.http"
    local server = http.serve("memory", function() return http.file(path .. "/out/secret") end)
    local one, other = require "runloop.net".pair() server:accept(other)
    one:write "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    print(one:read_line()) server:close()]], nil, nil, "HTTP/1.1 40[34]" },
  { "by a signal", [[print(require "runloop.process".shell("kill -0 " .. parent).errors)]], "--allow-run=sh", nil,
    "Operation not permitted" },
}

t.describe("a script cannot leave the sandbox", function()
  t.each(ESCAPES, "%s", REAL, function(_, code, options, more, expected)
    local path_in_code = code
    if expected == "^true\tnil\tEACCES" then
      -- The code runs in a thread, and `join` returns one value before its results.
      path_in_code = code:gsub("print%((.*)%)$", "print(select(2, %1))")
      expected = "^nil\tEACCES"
    end
    stays_inside(path_in_code, options, more, expected)
  end)

  t.it("through a descriptor that its parent has left open", REAL, function()
    local path <const>, gone <close> = place()
    local answer = process.run { "sh", "-c", 'exec "$0" "$@" 5<' .. path .. "/out/secret", RLHOST, "--sandbox", "-e",
      [[print(select(3, rl.wait_readable(5, 0)), io.open "/proc/self/fd/5", io.open "/dev/fd/5")]] }
    t.falsy(answer.output:find "SECRET")
    t.truthy(answer.output:find "^EBADF\tnil", answer.output .. answer.errors)
  end)

  t.it("by opening its standard input again", REAL, function()
    local path <const>, gone <close> = place()
    local answer = process.run { "sh", "-c", 'exec "$0" "$@" <' .. path .. "/out/secret", RLHOST, "--sandbox", "-e",
      [[print(io.open "/proc/self/fd/0", io.open("/proc/self/fd/0", "w"))]] }
    t.truthy(answer.output:find "^nil\tnil\tEACCES", answer.output .. answer.errors)
    t.equal(fs.read(path .. "/out/secret"), "SECRET")
  end)

  t.it("by a redirection to another port", REAL, function()
    local http = require "runloop.http"
    local hit = 0
    local other <close> = http.serve({ host = "127.0.0.1", port = 0 }, function() hit = hit + 1 return "SECRET" end)
    local server <close> = http.serve({ host = "127.0.0.1", port = 0 }, function()
      return { status = 302, headers = { location = "http://" .. other:address() .. "/" } }
    end)
    stays_inside(("print(require 'runloop.http'.get 'http://%s/')"):format(server:address()),
      "--allow-connect=" .. server:address())
    t.equal(hit, 0)
  end)

  -- Without /proc, this list is not available.
  local is_root = process.run { "id", "-u" }.output == "0\n"
  local test = is_root and t.it or t.skip
  test("by an open descriptor or a thread if /proc is missing", REAL, function()
    local path <const>, gone <close> = place()
    local answer = process.run { "unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@" 5<'
      .. path .. "/out/secret", RLHOST, "--sandbox", "--allow-read", "-e",
      [[print(select(3, rl.wait_readable(5, 0))) print(pcall(rl.sandbox, {}))]] }
    t.truthy(answer.output:find "^EBADF\nfalse\t.-there is no /proc", answer.output .. answer.errors)
  end)

  test("as process 1, where rl.sandbox is refused because it cannot restrict the first thread", REAL, function()
    local answer = process.run { "unshare", "-fp", "--mount-proc", RLHOST, "-e", "print(pcall(rl.sandbox, {}))" }
    t.truthy(answer.output:find "^false\t.-2 threads run, .-as process 1, use the option %-%-sandbox", answer.output
      .. answer.errors)
  end)

  t.it("by a module that is a link", REAL, function()
    local path <const>, gone <close> = place()
    fs.write(path .. "/out/secret.lua", "return 'SECRET'")
    fs.symbolic_link(path .. "/out/secret.lua", path .. "/in/x.lua")
    local answer = process.run { RLHOST, "--sandbox", "-e", "print(pcall(require, 'x'))", directory = path .. "/in" }
    t.falsy(answer.output:find "SECRET", answer.output)
    t.truthy(answer.output:find "not allowed by the sandbox", answer.output)
  end)

  t.it("by the prompt's history", REAL, function()
    local path <const>, gone <close> = place()
    local program <close> = t.spawn { t.rlhost, "--sandbox", "-i", terminal = { rows = 10, columns = 60 },
      env = { RLHOST_HISTORY = path .. "/out/history", TERM = "xterm" } }
    program:write "print(1 + 1)\r"
    program:wait_for "2"
    program:write "\4"
    program:wait { within = 20 }
    t.equal(#fs.list(path .. "/out"), 1)
  end)

  t.it("through rlhost attach", REAL, function()
    local program <close> = t.spawn { t.rlhost, "--sandbox", "-e", "print 'ready' rl.sleep(60)" }
    program:wait_for "ready"
    local answer = process.run { RLHOST, "attach", tostring(program:pid()), "-e", "print 'in'" }
    t.equal(answer.code, 69)
    t.falsy(answer.output:find "in", answer.output)
  end)
end)

-- System calls that any program can make. Each line: a name, and the error that it must get.
local CALLS <const> = [[
import ctypes, fcntl, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
numbers = %s
def call(name, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(numbers[name], *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    print(name, 0 if result >= 0 else ctypes.get_errno())
def attempt(name, body):
    try:
        body()
        print(name, 0)
    except OSError as error:
        print(name, error.errno)
path, parent = sys.argv[1], int(sys.argv[2])
secret, own = (path + "/out/secret").encode(), (path + "/in/own").encode()
room = ctypes.create_string_buffer(4096)
vector = struct.pack("LL", ctypes.addressof(room), 16)
for name in ("ptrace", "process_vm_readv", "kcmp", "pidfd_getfd", "pidfd_send_signal"):
    call(name, 16 if name == "ptrace" else parent, parent, vector, 1, vector, 1)
for name in ("mount", "umount2", "pivot_root", "chroot", "open_tree", "fsopen", "mount_setattr", "open_by_handle_at",
             "fanotify_init", "io_uring_setup", "io_uring_enter", "add_key", "keyctl", "bpf", "perf_event_open",
             "userfaultfd", "kexec_load", "init_module", "swapon", "reboot", "settimeofday", "sethostname", "shmget",
             "process_madvise", "process_mrelease", "quotactl_fd", "fanotify_mark", "move_mount", "fsconfig", "fspick",
             "request_key", "swapoff", "personality", "ioprio_set", "migrate_pages", "vhangup", "clock_adjtime",
             "io_uring_register", "kexec_file_load", "statmount", "listmount", "mq_unlink", "shmat", "msgsnd", "semop", "open_tree_attr",
             "msgget", "semget", "mq_open", "memfd_create", "execveat", "setns", "syslog", "quotactl", "acct"):
    call(name, 0, 0, 0, 0, 0)
call("unshare", 0x10000000)
call("clone", 0x10000000, 0, 0, 0, 0)
call("clone", 0x8000, 0, 0, 0, 0)
call("openat2", -100, secret, struct.pack("QQQ", 0, 0, 0), 24)
call("clone3", 0, 0)
call("chmod", secret, 0o777)
call("fchmodat", -100, secret, 0o777)
call("lchown", secret, 0, 0)
call("utimensat", -100, secret, 0, 0)
call("setxattr", secret, b"user.x", b"x", 1, 0)
call("truncate", secret, 0)
call("getxattr", secret, b"user.x", room, 16)
call("lgetxattr", secret, b"user.x", room, 16)
call("listxattr", secret, room, 16)
call("llistxattr", secret, room, 16)
call("getxattrat", -100, secret, 0, b"user.x", room, 16)
call("listxattrat", -100, secret, 0, room, 16)
call("inotify_add_watch", 0, secret, 1)
call("prlimit64", parent, 7, 0, 0)
call("setpriority", 0, parent, 19)
call("sched_setaffinity", parent, 0, 0)
call("kill", parent, 0)
call("ioctl", 0, 0x5412, b"x")
call("unknown", 0)
attempt("secret", lambda: open(secret))
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("ping", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1))
attempt("mptcp", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262))
attempt("packet", lambda: socket.socket(17, socket.SOCK_RAW, 0))
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
attempt("alg", lambda: socket.socket(38, 5, 0))
attempt("unix", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
attempt("pair of datagrams", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
attempt("raw pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)[0].sendto(b"x", path + "/out/dgram"))
attempt("tipc pair", lambda: socket.socketpair(30, 4))
attempt("smc over tcp", lambda: socket.socket().setsockopt(6, 31, b"smc"))
opened = os.open(own, os.O_RDONLY)
attempt("flags", lambda: fcntl.ioctl(opened, 0x40086602, struct.pack("l", 0x40)))
attempt("version", lambda: fcntl.ioctl(opened, 0x40087602, struct.pack("l", 1)))
attempt("extended flags", lambda: fcntl.ioctl(opened, 0x401c5820, struct.pack("5I8x", 128, 0, 0, 0, 0)))
attempt("old version", lambda: fcntl.ioctl(opened, 0x40086604, struct.pack("l", 1)))
attempt("verity", lambda: fcntl.ioctl(opened, 0x40806685, bytes(128)))
attempt("encryption", lambda: fcntl.ioctl(os.open(path + "/in", os.O_RDONLY), 0x800c6613, bytes(12)))
attempt("subvolume", lambda: fcntl.ioctl(os.open(path + "/in", os.O_RDONLY), 0x5000940e, bytes(1024)))
attempt("line discipline", lambda: fcntl.ioctl(0, 0x5423, struct.pack("i", 2)))
try:
    fcntl.ioctl(opened, 0x80086601, bytes(8))
except OSError as error:
    print("allowed" if error.errno != 13 else "refused", "to read flags")
else:
    print("allowed to read flags")
attempt("lease", lambda: fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_WRLCK))
handle = os.open(secret, os.O_PATH)
attempt("handle", lambda: os.open("/proc/self/fd/%%d" %% handle, os.O_RDONLY))
attempt("directory of a handle", lambda: os.open("secret", os.O_RDONLY, dir_fd=os.open(path + "/out", os.O_PATH)))
attempt("shared memory", lambda: open("/dev/shm/" + str(parent), "w"))
attempt("terminal", lambda: open("/dev/tty", "w"))
attempt("score", lambda: open("/proc/self/oom_score_adj", "w"))
attempt("setting", lambda: open("/proc/sys/kernel/core_pattern", "w"))
attempt("device", lambda: os.mknod(path + "/in/device", 0o20666, 0x103))
attempt("parent's files", lambda: os.listdir("/proc/%%d/root" %% parent))
attempt("fast open", lambda: socket.socket().sendto(b"x", 0x20000000, ("127.0.0.1", 22)))
attempt("connect", lambda: socket.socket().connect(("127.0.0.1", 22)))
attempt("listen", lambda: socket.socket().listen())
attempt("exec", lambda: os.execv("/usr/bin/head", ["head", secret]))
sys.stdout.flush()
if os.fork() == 0:
    os.execv("/lib64/ld-linux-x86-64.so.2", ["ld", "/usr/bin/head", secret])
# The loader may run what may be read, in the same sandbox.
print("loader", 13 if os.wait()[1] else 0)
]]

local NUMBERS <const> = [[{"ptrace": 101, "process_vm_readv": 310, "kcmp": 312, "pidfd_getfd": 438,
"pidfd_send_signal": 424, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "open_tree": 428,
"fsopen": 430, "mount_setattr": 442, "open_by_handle_at": 304, "fanotify_init": 300, "io_uring_setup": 425, "io_uring_enter": 426,
"add_key": 248, "keyctl": 250, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "kexec_load": 246,
"init_module": 175, "swapon": 167, "reboot": 169, "settimeofday": 164, "sethostname": 170, "shmget": 29, "msgget": 68,
"semget": 64, "mq_open": 240, "memfd_create": 319, "execveat": 322, "setns": 308, "syslog": 103, "quotactl": 179,
"process_madvise": 440, "process_mrelease": 448, "quotactl_fd": 443, "fanotify_mark": 301, "move_mount": 429,
"fsconfig": 431, "fspick": 433, "request_key": 249, "swapoff": 168, "personality": 135, "ioprio_set": 251,
"migrate_pages": 256, "vhangup": 153, "clock_adjtime": 305, "io_uring_register": 427, "kexec_file_load": 320,
"statmount": 457, "listmount": 458, "mq_unlink": 241, "shmat": 30, "msgsnd": 69, "semop": 65, "open_tree_attr": 467, "openat2": 437,
"acct": 163, "unshare": 272, "clone": 56, "clone3": 435, "chmod": 90, "fchmodat": 268, "lchown": 94, "utimensat": 280,
"setxattr": 188, "getxattr": 191, "lgetxattr": 192,
"listxattr": 194, "llistxattr": 195, "getxattrat": 464, "listxattrat": 465, "truncate": 76, "inotify_add_watch": 254, "prlimit64": 302, "setpriority": 141,
"sched_setaffinity": 203, "kill": 62, "ioctl": 16, "unknown": 500}]]

t.describe("a program cannot leave the sandbox by a system call", function()
  local PYTHON <const> = "/usr/bin/python3"
  local is_here = process.run { "uname", "-m" }.output == "x86_64\n" and fs.stat(PYTHON)
  local test = is_here and t.it or t.skip
  test("and gets an error for each of them", REAL, function()
    local path <const>, gone <close> = place()
    fs.write(path .. "/in/calls.py", CALLS:format(NUMBERS:gsub("\n", " ")))
    local answer = run(path, ([[
      local answer = require "runloop.process".run { %q, path .. "/in/calls.py", path, tostring(parent) }
      print(answer.output, answer.errors)]]):format(PYTHON),
      "--allow-read=/usr --allow-connect=23 --allow-run=" .. PYTHON)
    local count = 0
    for name, error in answer.output:gmatch "([%a][%w_ ]*) (%d+)\n" do
      count = count + 1
      local expected = (name == "clone3" or name == "unknown") and ENOSYS or name == "kill" and EPERM
        or (name:find "getxattr" or name:find "listxattr") and EOPNOTSUPP or EACCES
      t.equal(tonumber(error), expected, name)
    end
    t.equal(count, 119, answer.output .. answer.errors)
    t.truthy(answer.output:find "allowed to read flags")
    t.falsy(answer.output:find "SECRET")
  end)

  -- TCP sockets are allowed for the sake of the listener, and the kernel does not check the port of this call.
  test("and cannot connect the socket of a listener by sending", REAL, function()
    local server <close> = require "runloop.net".serve({ host = "127.0.0.1", port = 0 }, print)
    local path <const>, gone <close> = place()
    local answer = run(path, ([[
      local answer = require "runloop.process".run { %q, "-c", "import socket; socket.socket()." ..
        "sendto(b'x', 0x20000000, ('127.0.0.1', %d))" }
      print(answer.errors)]]):format(PYTHON, server:port()), "--allow-read=/usr --allow-listen=0 --allow-run=" .. PYTHON)
    t.truthy(answer.output:find "Errno 13", answer.output .. answer.errors)
  end)
end)
