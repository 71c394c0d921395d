local rl, fs = require "runloop", require "runloop.fs"
local t = require "runloop.test"
local support = require "tests.support"

t.describe("job_queue", function()
  local directory

  t.before_each(function() directory = support.directory() end)

  local function queue(...) return support.start("job_queue", { "jobs", directory = directory, ... }) end
  local function add(...)
    local program = queue("add", ...)
    t.equal(program:wait(), 0, program:errors())
    return tonumber(program:output())
  end
  local function list()
    local program = queue "list"
    program:wait()
    return program:output()
  end
  local function content(name) return fs.read(directory .. "/" .. name) end

  t.it("runs jobs of several workers, each job once", function()
    for i = 1, 6 do t.equal(add("sh", "-c", "echo " .. i .. " >> out"), i) end
    local first, second = queue("work", 2), queue("work", 2)
    t.eventually(function() return select(2, list():gsub("done", "")) == 6 end)
    local numbers = {}
    for number in content "out":gmatch "%d" do numbers[#numbers + 1] = number end
    table.sort(numbers)
    t.equal(table.concat(numbers), "123456")
    add("sh", "-c", "echo 7 >> out") -- wakes a worker that waits
    t.eventually(function() return content "out":find "7" end)
    t.truthy(first:is_running() and second:is_running())
  end)

  t.it("tries a job five times, with longer and longer pauses", function()
    add("sh", "-c", "echo try >> out; false")
    queue "work"
    t.eventually(function() return list():find "failed +5" end, { within = 60, every = 1 })
    t.equal(content "out", ("try\n"):rep(5))
    t.truthy(rl.now() >= 2 + 4 + 8 + 16, rl.now())
  end)

  t.it("takes the job of a worker that was killed", function()
    add("sh", "-c", "echo begun >> out; test -e go || exec sleep 1007; echo done >> out")
    local worker = queue "work"
    t.eventually(function() return content "out" end)
    worker:signal "KILL"
    worker:wait()
    assert(fs.write(directory .. "/go", ""))
    queue "work"
    t.eventually(function() return list():find "done +2" end, { within = 60, every = 1 })
    t.equal(content "out", "begun\nbegun\ndone\n")
  end)
end)
