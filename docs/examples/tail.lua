-- `tail -F`: shows what is appended to a file, or written into a fifo, as it comes; also when the file is cut, or another takes its place.
--
--   rlhost tail.lua PATH [SECONDS]
--
-- The two need different means. A fifo has a descriptor that becomes readable. A plain file is always "readable", even at its end, so the
-- file system is asked to tell of changes. SECONDS ends the program when nothing has come for so long.

local rl = require "runloop"
local fs = require "runloop.fs"
local net = require "runloop.net"

local path = arg[1] or error("usage: rlhost tail.lua PATH [SECONDS]", 0)
local patience = tonumber(arg[2])
local ending = patience and rl.after(patience, function() os.exit(0, true) end)

local function show(text)
  io.write(text)
  io.flush()
  if ending then ending:set_fire_date(rl.now() + patience) end
end

local information = fs.stat(path)
if information and information.kind ~= "file" then
  -- Open for writing, too, it does not end with its writers, and opening it waits for nobody.
  for bytes in assert(net.open(assert(io.open(path, "r+")))):chunks() do show(bytes) end
  return
end

local file, inode, position

local function copy()
  file:seek("set", position)
  for text in function() return file:read(65536) end do
    position = position + #text
    show(text)
  end
end

-- What is there now: the same file as before, perhaps cut, or another.
local function look()
  local now = fs.stat(path)
  if file and (not now or now.inode ~= inode) then
    copy()                                    -- what was written before it was moved away
    file:close()
    file = nil
    if now then io.write("tail: ", path, " is another file; from its start:\n") end
  end
  if not now then return end
  if not file then
    file, inode, position = io.open(path, "rb"), now.inode, 0
    if not file then return end
  elseif now.size < position then
    io.write("tail: ", path, " was cut; from its start:\n")
    position = 0
  end
  copy()
end

look()
assert(fs.watch(path, { while_writing = true }, look))
look()                                        -- what came before the watch
