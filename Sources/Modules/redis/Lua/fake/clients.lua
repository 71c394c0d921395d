-- runloop.redis.fake.clients: the fake's commands for connections, transactions and channels.

local rl = require "runloop"
local replies = require "runloop.redis.fake.replies"
local Space = require "runloop.redis.fake.spaces"

local ipairs, pairs, next = ipairs, pairs, next
local upper, lower, format, concat = string.upper, string.lower, string.format, table.concat
local fail, integer, bulk, text = replies.fail, replies.integer, replies.bulk, replies.text
local read_integer, OK = replies.read_integer, replies.OK

local commands = {}

-- Connections ---------------------------------------------------------------------------------------------------------

commands.ping = { -1, function(client, words)
  if #words > 2 then fail "ERR wrong number of arguments for 'ping' command" end
  if client.protocol == 2 and client.channels.count + client.patterns.count > 0 then
    return replies.list { bulk "pong", bulk(words[2] or "") }
  end
  return words[2] and bulk(words[2]) or "+PONG\r\n"
end }
commands.echo = { 2, function(_, words) return bulk(words[2]) end }

commands.time = { 1, function()
  local now = rl.time()
  return replies.texts { format("%d", now // 1), format("%d", now % 1 * 1e6 // 1) }
end }

commands.select = { 2, function(client, words)
  local number = read_integer(words[2])
  local space = client.fake._spaces[number + 1]
  if not space then fail "ERR DB index is out of range" end
  client.space, client.database = space, number
  return OK
end }

local function log_in(client, user, password)
  local wanted = client.fake._password
  if user ~= "default" or wanted and password ~= wanted then
    fail "WRONGPASS invalid username-password pair or user is disabled."
  end
  client.is_known = true
end

commands.auth = { -2, function(client, words)
  if #words > 3 then replies.syntax() end
  if #words == 2 and not client.fake._password then
    fail("ERR AUTH <password> called without any password configured for the default user. "
      .. "Are you sure your configuration is correct?")
  end
  log_in(client, #words == 3 and words[2] or "default", words[#words])
  return OK
end, is_open = true }

local function check_name(name)
  if name:find "[^!-~]" then fail "ERR Client names cannot contain spaces, newlines or special characters." end
  return name ~= "" and name or nil
end

-- Reads the words after the version of HELLO, and logs in.
local function hello_options(client, words)
  local at, name = 3, nil
  while words[at] do
    local option = upper(words[at])
    if option == "AUTH" and words[at + 2] then
      log_in(client, words[at + 1], words[at + 2])
      at = at + 3
    elseif option == "SETNAME" and words[at + 1] then
      name = check_name(words[at + 1])
      at = at + 2
    else
      fail("ERR Syntax error in HELLO option '%s'", words[at])
    end
  end
  return name
end

commands.hello = { -1, function(client, words)
  local version = words[2] and read_integer(words[2], "ERR Protocol version is not an integer or out of range")
  if version and (version < 2 or version > 3) then fail "NOPROTO unsupported protocol version" end
  local name = hello_options(client, words)
  if not client.is_known then
    fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> "
      .. "<pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
  end
  client.name, client.protocol = name or client.name, version or client.protocol
  return replies.map(client, { bulk "server", bulk "redis", bulk "version", bulk "7.0.0", bulk "proto",
    integer(client.protocol), bulk "id", integer(client.id), bulk "mode", bulk "standalone", bulk "role",
    bulk "master", bulk "modules", replies.EMPTY })
end, is_open = true }

commands.quit = { -1, function(client)
  client.is_ending = true
  return OK
end, is_open = true, is_immediate = true }

-- CLIENT --------------------------------------------------------------------------------------------------------------

local function line_of(client)
  return format("id=%d addr=fake:%d laddr=fake:0 name=%s db=%d sub=%d psub=%d multi=%d cmd=%s user=default resp=%d\n",
    client.id, client.id, client.name or "", client.database, client.channels.count, client.patterns.count,
    client.transaction and #client.transaction or -1, client.command or "NULL", client.protocol)
end

local function find_client(fake, id)
  for _, client in ipairs(fake._clients) do if client.id == id then return client end end
end

local subcommands = {}

subcommands.setname = { 3, function(client, words)
  client.name = check_name(words[3])
  return OK
end }
subcommands.getname = { 2, function(client) return text(client, client.name) end }
subcommands.id = { 2, function(client) return integer(client.id) end }
subcommands.info = { 2, function(client) return bulk(line_of(client)) end }
subcommands["no-evict"] = { 3, function() return OK end }
subcommands.list = { -2, function(client)
  local lines = {}
  for index, one in ipairs(client.fake._clients) do lines[index] = line_of(one) end
  return bulk(concat(lines))
end }

subcommands.unblock = { -3, function(client, words)
  local how = words[4] and upper(words[4]) or "TIMEOUT"
  if how ~= "TIMEOUT" and how ~= "ERROR" then
    fail "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"
  end
  local other = find_client(client.fake, read_integer(words[3]))
  local blocked = other and other.blocked
  if not blocked then return integer(0) end
  client.fake:_unblock(blocked, how == "ERROR" and "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n")
  return integer(1)
end }

local function kind_of(client) return client.channels.count + client.patterns.count > 0 and "pubsub" or "normal" end

subcommands.kill = { -3, function(client, words)
  local wanted = { SKIPME = "yes" }
  for at = 3, #words, 2 do
    local option = upper(words[at])
    if not words[at + 1] or option ~= "ID" and option ~= "TYPE" and option ~= "SKIPME" then replies.syntax() end
    wanted[option] = option == "ID" and read_integer(words[at + 1]) or lower(words[at + 1])
  end
  local count = 0
  for _, one in ipairs { table.unpack(client.fake._clients) } do
    if (not wanted.ID or one.id == wanted.ID) and (not wanted.TYPE or kind_of(one) == wanted.TYPE)
      and (one ~= client or wanted.SKIPME == "no") then
      count = count + 1
      if one == client then client.is_ending = true else one.stream:abort() end
    end
  end
  return integer(count)
end }
commands.client = { -2, subcommands = subcommands }

-- Transactions --------------------------------------------------------------------------------------------------------

local function forget_watched(client)
  for _, watched in ipairs(client.watched) do
    local watchers = watched.space.watchers[watched.key]
    if watchers then
      watchers[client] = nil
      if not next(watchers) then watched.space.watchers[watched.key] = nil end
    end
  end
  client.watched, client.is_dirty = {}, nil
end

commands.watch = { -2, function(client, words)
  if client.transaction then fail "ERR WATCH inside MULTI is not allowed" end
  local space = client.space
  for at = 2, #words do
    local key = words[at]
    space:find(key)
    space.watchers[key] = space.watchers[key] or {}
    space.watchers[key][client] = true
    client.watched[#client.watched + 1] = { space = space, key = key }
  end
  return OK
end, is_immediate = true }

commands.unwatch = { 1, function(client)
  forget_watched(client)
  return OK
end }

commands.multi = { 1, function(client)
  if client.transaction then fail "ERR MULTI calls can not be nested" end
  client.transaction, client.is_broken = {}, nil
  return OK
end, is_immediate = true }

commands.discard = { 1, function(client)
  if not client.transaction then fail "ERR DISCARD without MULTI" end
  client.transaction = nil
  forget_watched(client)
  return OK
end, is_immediate = true }

commands.exec = { 1, function(client)
  local transaction = client.transaction
  if not transaction then fail "ERR EXEC without MULTI" end
  -- A watched key that has expired counts as changed.
  for _, watched in ipairs(client.watched) do watched.space:find(watched.key) end
  local is_dirty = client.is_dirty
  client.transaction = nil
  forget_watched(client)
  if client.is_broken then fail "EXECABORT Transaction discarded because of previous errors." end
  if is_dirty then return replies.null_list(client) end
  local pieces = {}
  client.is_executing = true
  for index, words in ipairs(transaction) do pieces[index] = client.fake:_perform(client, words) end
  client.is_executing = nil
  return replies.list(pieces)
end, is_immediate = true }

-- Called for RESET, and at the end of a connection.
local function leave_everything(client)
  client.transaction = nil
  forget_watched(client)
  for _, list in ipairs { "channels", "patterns" } do
    for _, name in ipairs(client[list]:list()) do
      client[list]:remove(name)
      local known = client.fake["_" .. list]
      local listeners = known.values[name].listeners
      listeners:remove(client)
      if listeners.count == 0 then known:remove(name) end
    end
  end
end

commands.reset = { 1, function(client)
  leave_everything(client)
  client.protocol, client.name, client.space, client.database = 2, nil, client.fake._spaces[1], 0
  client.is_known = not client.fake._password
  return "+RESET\r\n"
end, is_open = true, is_immediate = true }

-- Channels ------------------------------------------------------------------------------------------------------------

local function subscription_count(client) return integer(client.channels.count + client.patterns.count) end

local function subscribe(word, list)
  return { -2, function(client, words)
    local pieces, known = {}, client.fake["_" .. list]
    for at = 2, #words do
      local name = words[at]
      if client[list]:set(name, true) then
        if not known.values[name] then
          known:set(name, { listeners = Space.Ordered.new(), pattern = list == "patterns" and replies.pattern(name) })
        end
        known.values[name].listeners:set(client, true)
      end
      pieces[#pieces + 1] = replies.push(client, { bulk(word), bulk(name), subscription_count(client) })
    end
    return concat(pieces)
  end, is_pushed = true }
end

local function unsubscribe(word, list)
  return { -1, function(client, words)
    local pieces, known = {}, client.fake["_" .. list]
    local names = #words > 1 and { table.unpack(words, 2) } or client[list]:list()
    for _, name in ipairs(names) do
      if client[list]:remove(name) then
        known.values[name].listeners:remove(client)
        if known.values[name].listeners.count == 0 then known:remove(name) end
      end
      pieces[#pieces + 1] = replies.push(client, { bulk(word), bulk(name), subscription_count(client) })
    end
    if #names == 0 then
      pieces[1] = replies.push(client, { bulk(word), replies.null(client), subscription_count(client) })
    end
    return concat(pieces)
  end, is_pushed = true }
end
commands.subscribe, commands.psubscribe = subscribe("subscribe", "channels"), subscribe("psubscribe", "patterns")
commands.unsubscribe = unsubscribe("unsubscribe", "channels")
commands.punsubscribe = unsubscribe("punsubscribe", "patterns")

commands.publish = { 3, function(client, words)
  local fake, channel, count = client.fake, words[2], 0
  local known = fake._channels.values[channel]
  for _, listener in ipairs(known and known.listeners:list() or {}) do
    count = count + 1
    fake:_send(listener, replies.push(listener, { bulk "message", bulk(channel), bulk(words[3]) }))
  end
  for glob, one in pairs(fake._patterns.values) do
    if channel:find(one.pattern) then
      for _, listener in ipairs(one.listeners:list()) do
        count = count + 1
        fake:_send(listener, replies.push(listener, { bulk "pmessage", bulk(glob), bulk(channel), bulk(words[3]) }))
      end
    end
  end
  return integer(count)
end }

local pubsub = {}
pubsub.channels = { -2, function(client, words)
  local pattern, found = words[3] and replies.pattern(words[3]), {}
  for _, name in ipairs(client.fake._channels:list()) do
    if not pattern or name:find(pattern) then found[#found + 1] = name end
  end
  return replies.texts(found)
end }
pubsub.numsub = { -2, function(client, words)
  local pieces = {}
  for at = 3, #words do
    local known = client.fake._channels.values[words[at]]
    pieces[#pieces + 1], pieces[#pieces + 2] = bulk(words[at]), integer(known and known.listeners.count or 0)
  end
  return replies.list(pieces)
end }
pubsub.numpat = { 2, function(client) return integer(client.fake._patterns.count) end }
commands.pubsub = { -2, subcommands = pubsub }

return { commands = commands, leave_everything = leave_everything }
