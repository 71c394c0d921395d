-- Links, the site, the reference, and lists in the documents that have to agree with the program.

local t = require "runloop.test"
local fs = require "runloop.fs"
local process = require "runloop.process"

local ROOT = debug.getinfo(1, "S").source:match "^@(.-)/?Tests/Program/[^/]*$"
ROOT = ROOT:sub(1, 1) == "/" and ROOT or process.directory() .. "/" .. ROOT
local REAL = { real_time = true, timeout = 120 }

local function read(path) return assert(fs.read(path)) end

local function run(...)
  local command = { ... }
  command.environment = { RLHOST = t.rlhost }
  return process.run(command)
end

local function sh(text, ...) return run("sh", "-c", text, "sh", ...) end

local place = assert(fs.temporary_directory())
t.after_all(function() fs.remove(place, { recursive = true }) end)

t.it("every link in the source leads somewhere", REAL, function()
  local result = run(ROOT .. "/scripts/links")
  t.equal({ result.code, result.output, result.errors }, { 0, "", "" })
end)

t.it("every link of an installed document leads to an installed file", REAL, function()
  local result = run(ROOT .. "/scripts/install", "--program", t.rlhost, place .. "/installed")
  t.equal(result.code, 0, result.errors)
  result = run(ROOT .. "/scripts/links", place .. "/installed")
  t.equal({ result.code, result.output, result.errors }, { 0, "", "" })
  result = run(ROOT .. "/scripts/links", "--hosts", place .. "/installed")
  t.truthy(result.code == 0 and result.output:find "https?://")
end)

t.it("dead links are reported", REAL, function()
  local path = place .. "/broken"
  fs.make_directory(path .. "/empty", { parents = true })
  local function findings(name, text)
    fs.write(path .. "/" .. name, text)
    local result = run(ROOT .. "/scripts/links", path)
    fs.remove(path .. "/" .. name)
    return result.code .. " " .. result.output
  end
  fs.write(path .. "/there.md", "# A title, with `code`\n")
  local good = "[x](there.md#a-title-with-code) [y](#own)\n\n# Own\n\n`[z](none)`\n\n```\n[z](none)\n```\n"
  t.equal(findings("a.md", good), "0 ")
  t.equal(findings("a.md", "[x](nowhere.md)\n"), "1 a.md:1: nowhere.md: there is no such file\n")
  t.equal(findings("a.md", "\n![x](there.md#title)\n"), "1 a.md:2: there.md#title: there is no such heading\n")
  t.equal(findings("a.md", "[x](../../etc)\n"), "1 a.md:1: ../../etc: it leads out of the directory\n")
  t.equal(findings("a.html", '<a href="there.md">x</a><a href="#b">y</a><p id="b">'), "0 ")
  t.equal(findings("a.html", '\n<img src="none.png">'), "1 a.html:2: none.png: there is no such file\n")
  t.equal(findings("a.html", '<a href="empty">x</a>'), "1 a.html:1: empty: the directory has no index page\n")
  t.equal(findings("a.html", '<a href="#c">x</a>'), "1 a.html:1: #c: there is no such heading\n")
  t.equal(findings("a.html", '<a href="https://example.org/">x</a>'), "0 ")
  t.equal(findings("a.html", '<script src="https://example.org/x.js"></script>'),
    "1 a.html:1: https://example.org/x.js: it is loaded from another host\n")
  t.equal(findings("a.html", '<link rel="stylesheet" href="//example.org/x.css">'),
    "1 a.html:1: //example.org/x.css: it is loaded from another host\n")
end)

t.it("scripts refuse wrong words with status 64, before they do anything", REAL, function()
  for _, words in ipairs {
    { "site", "--frob" }, { "site", "--output" }, { "site", "--output", place .. "/x", "more" }, { "check", "frob" },
    { "check", "format", "more" }, { "setup", "--frob" }, { "need", "--frob" }, { "bench", "--frob" },
    { "leaks", "--frob" }, { "package", "--frob" }, { "tidy", "--frob" }, { "order", "--frob" }, { "soak", "frob" },
  } do
    local result = run(ROOT .. "/scripts/" .. words[1], table.unpack(words, 2))
    t.equal({ result.code, result.output }, { 64, "" }, table.concat(words, " "))
    t.truthy(result.errors:find("^" .. words[1] .. ": [^\n]+\n$"), result.errors)
  end
  local result = run(ROOT .. "/scripts/package", "--program", t.rlhost, "--output", "/proc/none", "tar")
  t.equal({ result.code, result.errors }, { 1, "package: the directory /proc/none cannot be made or written\n" })
  result = sh("SOURCE_DATE_EPOCH=soon exec $1/scripts/package --program $2 --output $3 tar", ROOT, t.rlhost, place)
  t.equal({ result.code, result.errors },
    { 1, "package: SOURCE_DATE_EPOCH must be a number of seconds since 1970, not 'soon'\n" })
end)

t.it("scripts/site replaces no files of others", REAL, function()
  fs.make_directory(place .. "/mine")
  fs.write(place .. "/mine/precious", "")
  for _, name in ipairs { place .. "/mine", place .. "/mine/precious" } do
    local result = run(ROOT .. "/scripts/site", "--output", name)
    t.equal({ result.code, result.errors },
      { 1, "site: " .. name .. " has other files, which the site would replace\n" })
  end
  t.truthy(fs.stat(place .. "/mine/precious"))
  t.equal(run(ROOT .. "/scripts/site", "--output", "/proc/none").errors,
    "site: the directory /proc/none cannot be made or written\n")
end)

local has_mkdocs = os.execute "dpkg -s mkdocs mkdocs-material >/dev/null 2>&1"
local it = has_mkdocs and t.it or function(name, _, body) t.skip(name .. ": needs mkdocs-material", body) end

-- Makes the site once.
local function site()
  if not fs.stat(place .. "/site") then
    local result = run(ROOT .. "/scripts/site", "--output", place .. "/site")
    t.equal(result.code, 0, result.output .. result.errors)
  end
  return place .. "/site"
end

it("every link of the site leads to a page and a heading, and nothing is loaded from another host", REAL, function()
  local result = run(ROOT .. "/scripts/links", site())
  t.equal({ result.code, result.output, result.errors }, { 0, "", "" })
  t.truthy(tonumber(sh("find $1 -name '*.html' | wc -l", site()).output) > 40)
  t.truthy(read(site() .. "/index.html"):find("rlhost", 1, true))
end)

it("the site's search finds every call by its name", REAL, function()
  local index = read(site() .. "/search/search_index.json")
  local calls = 0
  for _, entry in ipairs(assert(fs.list(ROOT .. "/docs/lua"))) do
    local name = type(entry) == "table" and entry.name or entry
    local module = name:match "^(.*)%.lua$"
    for owner, separator, call in read(ROOT .. "/docs/lua/" .. name):gmatch "\nfunction (%l[%w_]*)([.:])([%w_]+)%(" do
      calls = calls + 1
      local where = ('"reference/%s.html#%s-%s"'):format(module, owner, call)
      t.truthy(index:find(where, 1, true), where)
      t.truthy(index:find(('"title":"%s%s%s('):format(owner, separator, call), 1, true), owner .. separator .. call)
    end
  end
  t.truthy(calls > 150, calls)
end)

it("the reference has signatures, arguments, results and anchors", REAL, function()
  local page = read(site() .. "/reference/runloop-net.html")
  t.truthy(page:find('id="stream-read_line"', 1, true))
  page = read(site() .. "/reference/runloop-process.html")
  t.truthy(page:find 'id="process%-run">process%.run%(options%)')
  t.truthy(page:find("<code>runloop%.process%.Options&?#?1?2?4?;?|?string%[%]</code>"), "the argument's type")
  t.truthy(page:find("Errors: nil, a message, and a code", 1, true))
end)

-- The calls of the annotations that wait: a line for each module.
local function waiting()
  local lines = {}
  for _, entry in ipairs(assert(fs.list(ROOT .. "/docs/lua"))) do
    local path = ROOT .. "/docs/lua/" .. (type(entry) == "table" and entry.name or entry)
    local module, class
    local text, classes, names = {}, {}, {}
    for line in (path:find "%.lua$" and read(path) or ""):gmatch "[^\n]*" do
      module = module or line:match "^%-%-%-@meta (%S+)"
      class = line:match "^%-%-%-@class ([%w_.]+)" or class
      local variable = line:match "^local ([%w_]+) = {}"
      if variable and class then classes[variable] = class:match "[^.]*$":gsub("(%l)(%u)", "%1_%2"):lower() end
      local owner, rest = line:match "^function ([%w_]+)([.:][%w_]+)%("
      if owner and table.concat(text, " "):find "%f[%w]Waits%f[%W]" then
        names[#names + 1] = "`" .. (owner:find "^%l" and owner or classes[owner] or owner) .. rest .. "`"
      end
      local comment = line:match "^%-%-%-(.*)"
      if comment then text[#text + 1] = comment else text = {} end
    end
    if #names > 0 then lines[#lines + 1] = ("| `%s` | %s |"):format(module, table.concat(names, ", ")) end
  end
  table.sort(lines)
  return table.concat(lines, "\n")
end

t.it("docs/waiting.md lists the calls with \"Waits.\" in their annotations", function()
  local list = read(ROOT .. "/docs/waiting.md"):match "\n| module | calls |\n|[-|]+|\n(.-)\n\n"
  -- With UPDATE_DOCUMENTS in the environment, the table is corrected.
  if os.getenv "UPDATE_DOCUMENTS" then
    local text = read(ROOT .. "/docs/waiting.md")
    local first, last = text:find(list, 1, true)
    fs.write(ROOT .. "/docs/waiting.md", text:sub(1, first - 1) .. waiting() .. text:sub(last + 1))
  else
    t.equal(list, waiting(), "UPDATE_DOCUMENTS=1 rlhost test Tests/Program/documents_test.lua writes it")
  end
end)

t.it("documented calls wait, and the others of their modules do not", REAL, function()
  local rl = require "runloop"
  local path = place .. "/waits"
  fs.make_directory(path)
  local function waits(fn, ...)
    local others = false
    rl.perform(function() others = true end)
    assert(fn(...))
    return others
  end
  for _, call in ipairs {
    { "write", path .. "/a", "x" }, { "read", path .. "/a" }, { "list", path }, { "stat", path },
    { "make_directory", path .. "/x" }, { "remove", path .. "/x" }, { "rename", path .. "/a", path .. "/b" },
    { "copy", path .. "/b", path .. "/c" }, { "link", path .. "/b", path .. "/e" },
    { "symbolic_link", "b", path .. "/f" }, { "read_link", path .. "/f" }, { "real_path", path },
  } do
    t.equal(waits(fs[call[1]], table.unpack(call, 2)), true, call[1])
    t.truthy(read(ROOT .. "/docs/waiting.md"):find("`fs." .. call[1] .. "`", 1, true))
  end
  for _, fn in ipairs { rl.now, rl.current, function() return require "runloop.json".encode {} end } do
    t.equal(waits(fn), false)
  end
end)

local ORDER = { "## Install", "dpkg -i", "scripts/setup", "## Your first script", "## Which module",
  "## How it differs", "## More", "Swift" }

t.it("README installs before it builds, and keeps its order", function()
  local lines, place_of = {}, {}
  for line in read(ROOT .. "/README.md"):gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
  t.truthy(#lines <= 120, #lines)
  for number, line in ipairs(lines) do
    for _, word in ipairs(ORDER) do
      if not place_of[word] and line:find(word, 1, true) then place_of[word] = number end
    end
  end
  t.truthy(place_of["dpkg -i"] <= 45, place_of["dpkg -i"])
  local last = 0
  for _, heading in ipairs(ORDER) do
    t.truthy(place_of[heading] and place_of[heading] > last, heading)
    last = place_of[heading]
  end
end)

t.it("the tour has its parts in order", function()
  local guide, at = read(ROOT .. "/docs/guide.md"), 0
  local headings = { "Run", "Wait", "Programs", "Files", "Network", "HTTP", "Tests", "Threads", "Timers in depth",
    "Sources", "Modes", "Observers" }
  for _, heading in ipairs(headings) do
    at = guide:find("\n## " .. heading .. "\n", at, true)
    t.truthy(at, heading)
  end
  t.truthy(guide:find("io.read", 1, true) and guide:find("os.execute", 1, true))
end)
