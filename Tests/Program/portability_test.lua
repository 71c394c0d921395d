-- The program on other machines: aarch64, systems without certificates, processors without a counter of ticks.

local t = require "runloop.test"
local fs = require "runloop.fs"
local process = require "runloop.process"
local json = require "runloop.json"

local ROOT = debug.getinfo(1, "S").source:match "^@(.-)/?Tests/Program/[^/]*$"
ROOT = ROOT:sub(1, 1) == "/" and ROOT or process.directory() .. "/" .. ROOT
local REAL = { real_time = true, timeout = 60 }

local function sh(text, ...) return assert(process.run { "sh", "-c", text, "sh", ... }) end

local function directory()
  local path = assert(fs.temporary_directory())
  return path, setmetatable({}, { __close = function() sh("rm -rf '" .. path .. "'") end })
end

local it = fs.stat "/usr/aarch64-linux-gnu/include" and t.it
  or function(name, _, body) t.skip(name .. ": needs libc6-dev-arm64-cross", body) end

it("scripts/portability has no findings", REAL, function()
  local run = sh(ROOT .. "/scripts/portability")
  t.equal({ run.code, run.output, run.errors }, { 0, "", "" })
end)

it("scripts/portability finds code that depends on x86-64", REAL, function()
  local path <const>, gone <close> = directory()
  local violations = {
    { "#if defined(__x86_64__)\nint fast;\n#endif\nint slow;", "write the #else" },
    { "void *page(void); // 4096 bytes, a page", "sysconf" },
    { "#include <stdatomic.h>\n_Atomic int n;\nint f(void) { return atomic_load(&n); }", "atomic_…_explicit" },
    { "int f(int *n) { return __sync_fetch_and_add(n, 1); }", "atomic_…_explicit" },
    { "// struct epoll_event has 12 bytes", "sizeof(struct epoll_event)" },
    { "unsigned long f(void) {\n#if defined(__x86_64__)\nreturn __builtin_ia32_rdtsc();\n#else\nreturn 0;\n#endif\n}",
      "linux_ticks" },
    { "int f(void) { return __builtin_ia32_rdtsc() != 0; }", "error: " },
    { "_Static_assert((char)-1 < 0, \"char has a sign\");", "error: " },
    { "#include <sys/io.h>\nint f(void) { return inb(1); }", "error: ", place = "/sys/io.h:" },
  }
  sh("mkdir $2/scripts $2/Sources && cp $1/scripts/portability $2/scripts", ROOT, path)
  for number, violation in ipairs(violations) do
    fs.write(path .. "/Sources/" .. number .. ".c", violation[1] .. "\n")
  end
  local run = sh(path .. "/scripts/portability")
  t.equal(run.code, 1, run.errors)
  for number, violation in ipairs(violations) do
    local found = ""
    for line in run.output:gmatch "[^\n]+" do
      local place = violation.place or "Sources/" .. number .. ".c:"
      if line:find(place, 1, true) then found = found .. line .. "\n" end
    end
    t.truthy(found:find(violation[2], 1, true), number .. ": " .. run.output)
  end
end)

t.it("recordings have right times without the processor's counter of ticks", REAL, function()
  local path <const>, gone <close> = directory()
  local run = process.run { t.rlhost, "--trace=" .. path .. "/x.json", "-e",
    "rl.after(0.05, function() local to = rl.now() + 0.1 repeat until rl.now() > to end)",
    environment = { RLHOST_TICKS = "off" } }
  t.equal(run.code, 0, run.errors)
  local trace, began, length = json.decode(assert(fs.read(path .. "/x.json"))), nil, nil
  for _, event in ipairs(trace.traceEvents or trace) do
    if event.ph == "B" and event.name == "timer" then began = event.ts end
    if event.ph == "E" and began then length, began = length or event.ts - began, nil end
  end
  t.truthy(length and length >= 100000 and length < 5e6, length)
end)

-- Without installed certificates, the error does not blame the server's certificate.
local can_hide = os.execute "unshare -m true 2>/dev/null"
local as_root = can_hide and t.it or function(name, _, body) t.skip(name .. ": needs root", body) end

as_root("a system without certificates has another error than a wrong certificate", REAL, function()
  local path <const>, gone <close> = directory()
  sh([[cd $1 && mkdir empty && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
    -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost]], path)
  fs.write(path .. "/try.lua", [[
    local net, http = require "runloop.net", require "runloop.http"
    local tls = { certificate = "cert.pem", key = "key.pem" }
    local server <close> = assert(http.serve("127.0.0.1:0", { tls = tls }, function() return "x" end))
    local place = "localhost:" .. server:address():match "%d+$"
    print(select(2, net.connect(place, { tls = true })))
    print(select(2, http.get("https://" .. place .. "/")))
  ]])
  local absent = "this system has no CA certificates, so no certificate can be checked: apt install ca-certificates"
  local run = sh([[unset SSL_CERT_FILE SSL_CERT_DIR
    cd $1 && unshare -m sh -c 'mount --bind empty /etc/ssl/certs && exec "$1" try.lua' sh "$2"]], path, t.rlhost)
  local first, second = run.output:match "^([^\n]*)\n([^\n]*)\n"
  t.truthy(first and first:find("TLS_CERTIFICATE: " .. absent, 1, true), run.output .. run.errors)
  t.truthy(second and second:find("TLS_CERTIFICATE: " .. absent, 1, true), run.output)
  run = sh('cd $1 && "$2" try.lua', path, t.rlhost)
  t.falsy(run.output:find(absent, 1, true), run.output)
end)
