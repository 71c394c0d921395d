-- A small program with a prompt: repeats each line in capitals; "bye" ends it.

local rl = require "runloop"

io.stdout:setvbuf "no"
print "ready"
io.write "> "
rl.on_readable(0, function(port)
  local line = io.read()
  if not line or line == "bye" then
    print "see you"
    port:invalidate()
    return
  end
  print(line:upper())
  io.write "> "
end)
