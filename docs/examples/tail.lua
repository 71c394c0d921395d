-- Like `tail -F`: prints the text that is appended to a file or written into a fifo, even after the file is truncated
-- or replaced.
--
--   rlhost tail.lua PATH [SECONDS]
--
-- The two kinds need different calls. A fifo has a descriptor that becomes readable. A plain file is always "readable",
-- even at its end, so the file system reports its changes. SECONDS ends the program after that much silence.

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
  -- If a fifo is opened for writing as well, it does not end with its writers, and opening it does not wait for one.
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

-- Checks the file: it may be the same as before, truncated, or another one.
local function look()
  local now = fs.stat(path)
  if file and (not now or now.inode ~= inode) then
    copy()                                    -- the rest of the old file
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
look()                                        -- text from before the watch
