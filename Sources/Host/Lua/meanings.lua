-- runloop.meanings: names that other libraries and languages use, with the names that mean the same here.

local meanings = {}

-- Our modules by the names that other libraries use for the same, and by misspelt names of our own.
meanings.modules = {
  rl = "runloop", rlhost = "runloop", ["runloop.rl"] = "runloop", ["runloop.runloop"] = "runloop",
  ["socket.http"] = "runloop.http", ["ssl.https"] = "runloop.http", ["socket.url"] = "runloop.http",
  socket = "runloop.net", ssl = "runloop.net", ["socket.core"] = "runloop.net",
  cjson = "runloop.json", ["cjson.safe"] = "runloop.json", dkjson = "runloop.json", lunajson = "runloop.json",
  rapidjson = "runloop.json", lfs = "runloop.fs", logging = "runloop.log", argparse = "runloop.arguments",
  luv = "runloop", uv = "runloop", copas = "runloop", cqueues = "runloop",
}

return meanings
