-- runloop.fs: the reported changes lead from the tree before to the tree after, whatever moves.

local rl, fs, t = require "runloop", require "runloop.fs", require "runloop.test"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*/)" or "") .. "../../Support/support.lua")
local write, told = support.write, support.told
-- Rounds of random changes: few, and many in scripts/soak.
local ROUNDS = os.getenv "RLHOST_SOAK" and 40 or 5

t.describe("fs.watch and moves", function()
  local directory, watcher
  local function watch(options)
    watcher = assert(fs.watch(directory, options or {}))
  end

  t.before_each(function()
    directory = assert(fs.temporary_directory "watch")
  end)
  t.after_each(function()
    if watcher then watcher:invalidate() end
    assert(fs.remove(directory, { recursive = true }))
  end)

  t.it("lists a new directory that is renamed, and distinguishes two that swap names", { real_time = true }, function()
    local function run(commands)
      os.execute("cd " .. directory .. " && " .. commands)
      return told(watcher, directory)
    end
    watch { recursive = true }
    t.equal(run "mkdir new; touch new/f; mv new new2; touch new2/g", "created new2/; created new2/f; created new2/g")
    t.equal(run "echo 1 > new2/f; touch new2/h", "changed new2/f; created new2/h")
    run "mkdir current a b; touch current/f a/fa b/fb"
    t.equal(run "mkdir next; touch next/f; mv current old2; mv next current",
      "created old2/; changed current/f; created old2/f; changed current/")
    t.equal(run "touch current/1", "created current/1")
    t.equal(run "mv a t; mv b a; mv t b",
      "removed a/fa; changed a/; removed b/fb; created a/fb; changed b/; created b/fa")
    t.equal(run "rm -r b; mv a b; mkdir a", "removed b/fa; changed a/; changed b/; removed a/fb; created b/fb")
    t.equal(run "mv b c; mv c d; mv d b", "")
    t.equal(run "touch a/1 b/2", "created a/1; created b/2")
  end)

  -- The tree below a directory: whether each path is a directory.
  local function real()
    local paths = {}
    for path, kind in fs.walk(directory) do paths[path] = kind == "directory" end
    paths[directory] = nil
    return paths
  end

  local function names(paths)
    local list = {}
    for path, is_directory in pairs(paths) do
      list[#list + 1] = path:sub(#directory + 2) .. (is_directory and "/" or "")
    end
    table.sort(list)
    return table.concat(list, " ")
  end

  -- Does to `paths` what a change says. Fails if the change cannot be true.
  local function follow(paths, change)
    local function check(is_fine, why)
      if not is_fine then
        t.fail(("%s: %s %s from %s; there is: %s"):format(why, change.kind, change.path, change.from, names(paths)))
      end
    end
    local path, from, above = change.path, change.from, change.path:match "^(.*)/"
    if change.kind ~= "removed" then check(above == directory or paths[above], "not in a directory") end
    if change.kind == "renamed" then
      check(paths[from] == change.is_directory, "nothing of this kind is there")
      local moved = { [path] = paths[from] }
      paths[from] = nil
      for below, is_directory in pairs(paths) do
        if below:sub(1, #from + 1) == from .. "/" then
          moved[path .. below:sub(#from + 1)], paths[below] = is_directory, nil
        end
      end
      for below in pairs(paths) do check(below:sub(1, #path + 1) ~= path .. "/", "something is there") end
      for below, is_directory in pairs(moved) do paths[below] = is_directory end
    else
      check((paths[path] == nil) == (change.kind == "created"), "it is there, or is not")
      if change.kind == "removed" then paths[path] = nil else paths[path] = change.is_directory end
    end
  end

  -- Two names are exchanged in one step, in the way in which new versions replace old ones.
  local EXCHANGE = [[python3 -c 'import ctypes, sys; a, b = (name.encode() for name in sys.argv[1:]); ]]
    .. [[ctypes.CDLL(None).renameat2(-100, a, -100, b, 2)']]

  local SLOW = { real_time = true, timeout = 60 }
  t.it("distinguishes names that are exchanged and moved elsewhere in the same moment", SLOW, function()
    local function told_of(before, commands)
      os.execute("cd " .. directory .. " && rm -rf * && { " .. before .. "; }")
      local known = real()
      watch { recursive = true }
      os.execute("cd " .. directory .. " && { " .. commands:gsub("exchange", EXCHANGE) .. "; }")
      -- Once a later change is reported, all earlier changes have been reported, too.
      local deadline = rl.now() + 10
      repeat
        for _, change in ipairs(watcher:next(0.3) or {}) do follow(known, change) end
      until names(known) == names(real()) or rl.now() > deadline
      t.equal(names(known), names(real()), commands)
      watcher:invalidate()
    end
    told_of("mkdir -p a/x c/x; touch a/x/seen c/x/seen c/y", "exchange a c/x; mv c a/x")
    told_of("mkdir -p b/x/y b/y c/x; touch b/seen c/seen c/x/seen", "mkdir a; exchange b c; touch c/y; mv c a/x")
    told_of("mkdir -p a/y; touch a/seen a/x a/y/seen",
      "mkdir c; sleep 0.03; mv a/y c/x; mkdir c/y; sleep 0.03; exchange a c/x; mv c b")
    told_of("mkdir -p a/y; touch a/seen a/y/seen b", "exchange a b; mv b c")
  end)

  -- Applies the reported changes to the tree before, until no more arrive.
  local function listen(paths)
    while true do
      local changes = watcher:next(0.1)
      if not changes then return paths end
      for _, change in ipairs(changes) do
        if change.kind == "rescan" then paths = real() else follow(paths, change) end
      end
    end
  end

  -- Checks that the old tree, changed as reported, equals the tree now; and that all of it is still watched.
  local function check(model, what)
    model = listen(model)
    t.equal(names(model), names(real()), what)
    for path, is_directory in pairs(real()) do if is_directory then write(path .. "/seen", "x") end end
    model = listen(model)
    t.equal(names(model), names(real()), what .. "; then a file in each directory")
    return model
  end

  t.it("reports items that leave or enter a directory between two of its moves", { real_time = true }, function()
    local function told_of(before, commands)
      os.execute("cd " .. directory .. " && rm -rf * && " .. before)
      watcher = assert(fs.watch(directory, { recursive = true }))
      os.execute("cd " .. directory .. " && " .. commands)
      local text = told(watcher, directory)
      watcher:invalidate()
      return text
    end
    local before = "mkdir -p p/c && touch p/c/d"
    t.equal(told_of(before, "mv p/c p/x; rm p/x/d; mv p/x p/a"), "removed p/c/d; renamed p/a from p/c/")
    t.equal(told_of(before, "mv p/c c; mv c/d b; mv c p/a"), "renamed b from p/c/d; renamed p/a from p/c/")
    t.equal(told_of(before, "mv p/c p/x; mv p/x/d p/b"), "renamed p/x from p/c/; renamed p/b from p/x/d")
    t.equal(told_of(before, "mv p/c p/x; echo > p/x/n; mv p/x p/y; echo > p/y/m"),
      "renamed p/y from p/c/; created p/y/n; created p/y/m")
    t.equal(told_of("mkdir -p c/d/m e && touch c/d/m/d", "mv c/d e/e; rm -r e/e/m; mv -T e/e c"),
      "removed c/d/m/; removed c/d/m/d; renamed c from c/d/")
    t.equal(told_of(before, "mv p/c q; mkdir r; mv q r/m"), "created r/; renamed r/m from p/c/")
    t.equal(told_of("touch a", "mv a b; echo >> b"), "renamed b from a; changed b")
  end)

  t.it("reports the net difference of random moves in one moment", { real_time = true, timeout = 60 }, function()
    local outside = assert(fs.temporary_directory "outside")
    local finally <close> = setmetatable({}, { __close = function() fs.remove(outside, { recursive = true }) end })
    watch { recursive = true, latency = 0.02 }
    local model = real()
    local function any(kind)
      local list = { kind and directory }
      for path, is_directory in pairs(real()) do if is_directory or not kind then list[#list + 1] = path end end
      table.sort(list)
      return list[1] and list[math.random(#list)]
    end
    for _ = 1, ROUNDS do
      local log, count = {}, 0
      for _ in pairs(real()) do count = count + 1 end
      for number = 1, math.random(12) + math.max(0, 12 - count) do
        local what, from, to = number <= 12 - count and 2 or math.random(12), any(),
          any "directory" .. "/" .. ("abcd"):sub(math.random(4)):sub(1, 1)
        log[#log + 1] = ("%d %s %s"):format(what, from, to)
        if what <= 2 then
          fs.make_directory(to)
        elseif what == 3 then
          if not real()[to] then write(to, "x") end
        elseif what == 4 then
          if from then fs.remove(from, { recursive = true }) end
        elseif what == 5 then
          if from then os.remove(from) end
        elseif what == 6 then
          if from then os.rename(from, outside .. "/away") end
        elseif what == 7 then
          os.rename(outside .. "/away", to)
        elseif from then
          os.rename(from, to)
        end
      end
      model = check(model, (table.concat(log, "; "):gsub(directory, "")))
    end
  end)

  t.it("reports the net difference of random changes of files", { real_time = true, timeout = 60 }, function()
    watch { recursive = true, latency = 0.02 }
    local model = real()
    for _ = 1, ROUNDS do
      local log = {}
      for _ = 1, math.random(1, 12) do
        local function name()
          return ("abc"):sub(math.random(3)):sub(1, 1)
            .. (math.random(2) == 1 and "/" .. ("xy"):sub(math.random(2)):sub(1, 1) or "")
        end
        local from, to = name(), name()
        local what = ({ "mkdir %s", "mkdir -p %s", "touch %s", "rm -rf %s", "mv -T %s %s", "mv -T %s %s",
          #log == 3 and EXCHANGE .. " %s %s" or "mkdir %s" })[math.random(7)]:format(from, to)
        log[#log + 1] = what
        if math.random(6) == 1 then log[#log + 1] = "sleep 0.03" end
      end
      local commands = table.concat(log, "; ")
      os.execute("cd " .. directory .. " && { " .. commands .. "; } 2>/dev/null")
      model = check(model, commands)
    end
  end)
end)
