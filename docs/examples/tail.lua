-- `tail -f`: shows what is appended to a file, or written into a fifo, as it comes.
--
--   rlhost tail.lua PATH [SECONDS]
--
-- The two need different means. A fifo has a descriptor that becomes readable, so a port waits for it and the program sleeps
-- meanwhile. A plain file is always "readable", even at its end, so the only question to ask is whether it has grown, and a
-- timer asks it. SECONDS ends the program when nothing has come for so long.
--
-- luv serves as a set of system calls here: its own loop never runs.

local rl = require "runloop"
local uv = require "luv"

local path = arg[1] or error("usage: rlhost tail.lua PATH [SECONDS]", 0)
local patience = tonumber(arg[2])

-- Opening a fifo would otherwise wait for somebody who writes.
local function open() return assert(uv.fs_open(path, uv.constants.O_RDONLY | uv.constants.O_NONBLOCK, 0)) end

local fd = open()
local is_fifo = assert(uv.fs_fstat(fd)).type == "fifo"
local position = 0
local watcher

-- One timer, moved ahead with each piece that comes, is cheaper than a new one each time, and cannot be forgotten.
local ending = patience and rl.after(patience, function() watcher:invalidate() end)

-- Everything there is to read now. A fifo without a writer and a file at its end both read as "".
local function copy()
  while true do
    local text = uv.fs_read(fd, 4096, is_fifo and -1 or position)
    if not text or text == "" then return end
    position = position + #text
    io.write(text)
    io.flush()
    if ending then ending:set_fire_date(rl.now() + patience) end
  end
end

local function watch_fifo()
  watcher = rl.on_readable(fd, function(port, events)
    copy()
    if not events:find "h" then return end
    -- The last writer has gone, and the descriptor will say so for ever. A fresh one waits for the next writer. It is opened
    -- before the old one is closed: a fifo that nobody has open forgets what is in it.
    local fresh = open()
    port:invalidate()
    uv.fs_close(fd)
    fd = fresh
    watch_fifo()
  end)
end

if is_fifo then
  watch_fifo()
else
  watcher = rl.every(0.1, function()
    if assert(uv.fs_fstat(fd)).size < position then
      io.write("tail: ", path, " was cut; from its start:\n")
      position = 0
    end
    copy()
  end)
  copy()
end
