-- runloop.meanings: names that other libraries and languages use, and our names for the same things. A value is one of
-- our names, a list of names of which the first existing one is suggested, or a text that says what to do instead.

local meanings = {}

-- Modules ------------------------------------------------------------------------------------------------------------

-- Our modules, by the names of similar modules elsewhere and by frequent misspellings.
meanings.modules = {
  rl = "runloop", rlhost = "runloop", ["runloop.rl"] = "runloop", ["runloop.runloop"] = "runloop",
  ["socket.http"] = "runloop.http", ["ssl.https"] = "runloop.http", ["socket.url"] = "runloop.http",
  socket = "runloop.net", ssl = "runloop.net", ["socket.core"] = "runloop.net",
  cjson = "runloop.json", ["cjson.safe"] = "runloop.json", dkjson = "runloop.json", lunajson = "runloop.json",
  rapidjson = "runloop.json", lfs = "runloop.fs", logging = "runloop.log", argparse = "runloop.arguments",
  luv = "runloop", uv = "runloop", copas = "runloop", cqueues = "runloop",
}

-- Functions of modules, and methods of one kind of objects -----------------------------------------------------------

local TIMER_END = "invalidate"

meanings.names = {
  runloop = {
    setTimeout = "after", set_timeout = "after", defer = "after", setInterval = "every", set_interval = "every",
    interval = "every", spawn = "task", go = "task", async = "task", create = "task", coroutine = "task",
    clearTimeout = "timer:invalidate()", clearInterval = "timer:invalidate()", clear = "timer:invalidate()",
    wait = "sleep", delay = "sleep", all = "all_of", race = "first_of", any = "first_of", loop = "run",
    start = "run", quit = "stop", exit = "os.exit", nextTick = "perform", next_tick = "perform",
    setImmediate = "perform", queue = "channel", promise = "future", event = "future", gather = "all_of",
    create_task = "task", semaphore = "mutex", lock = "mutex", emitter = "rl.notifications:observe()",
    timestamp = "time", signal = "process.on_signal", uptime = "now", hrtime = "now",
    Promise = "future", queueMicrotask = "perform", log = "log.info",
  },
  ["runloop.json"] = {
    parse = "decode", loads = "decode", load = "decode", stringify = "encode", dumps = "encode", dump = "encode",
  },
  ["runloop.log"] = { warn = "warning", err = "error", fatal = "error", critical = "error", trace = "debug" },
  ["runloop.fs"] = {
    readFile = "read", read_file = "read", readfile = "read", writeFile = "write", write_file = "write",
    writefile = "write", exists = "stat", mtime = "stat", size = "stat", attributes = "stat",
    mkdir = "make_directory", readdir = "list", dir = "list", ls = "list", unlink = "remove", delete = "remove",
    rm = "remove", rmdir = "remove", move = "rename", lines = "net.open(path):lines()", open = "io.open",
    append = "write", symlink = "symbolic_link", readlink = "read_link", realpath = "real_path",
    mkdtemp = "temporary_directory", cp = "copy", isdir = "stat", isfile = "stat", is_directory = "stat",
    is_file = "stat", tmpname = "os.tmpname", watchFile = "watch", flock = "lock",
  },
  ["runloop.process"] = {
    exec = "run", system = "shell", popen = "start", spawn = "start", getpid = "id", pid = "id",
    cwd = "directory", getcwd = "directory", chdir = "set_directory", exit = "os.exit",
    kill = "program:signal()", argv = "arg", env = "environment", getenv = "os.getenv",
  },
  ["runloop.net"] = {
    listen = "serve", createServer = "serve", bind = "serve", server = "serve", dial = "connect",
    createConnection = "connect", socket = "connect", tcp = "connect", dns = "resolve", lookup = "resolve",
    udp = "datagram", pipe = "copy", tls = "connect", unix = "connect", stdin = "input", stdout = "output",
    stderr = "errors",
  },
  ["runloop.http"] = {
    createServer = "serve", listen = "serve", server = "serve", request = "fetch", put = "fetch", delete = "fetch",
    patch = "fetch", head = "fetch", session = "client", router = "routes", app = "routes",
  },
  ["runloop.crypto"] = {
    sha1 = "hash", sha256 = "hash", sha512 = "hash", md5 = "hash", digest = "hash", createHash = "hasher",
    new = "hasher", hmac_sha256 = "hmac", createHmac = "hmac", random_bytes = "random", randomBytes = "random",
    uuid = "random", compare = "equal", timingSafeEqual = "equal", sign = "ed25519_sign", verify = "ed25519_verify",
  },
  ["runloop.encoding"] = {
    base64 = "encode", b64encode = "encode", base64_encode = "encode", hex = "encode", tohex = "encode",
    to_hex = "encode", b64decode = "decode", base64_decode = "decode", b64 = "encode", unhex = "decode",
    fromhex = "decode", from_hex = "decode",
  },
  ["runloop.url"] = {
    encode = "escape", quote = "escape", urlencode = "query", build = "query", decode = "unescape",
    unquote = "unescape", resolve = "join", absolute = "join", new = "parse",
  },
  ["runloop.zlib"] = {
    gzip = "compress", deflate = "compress", gunzip = "decompress", inflate = "decompress",
    uncompress = "decompress",
  },
  ["runloop.metrics"] = { summary = "histogram", render = "text", collect = "text", expose = "text" },
  ["runloop.test"] = {
    test = "it", specify = "it", context = "describe", suite = "describe", group = "describe", setup = "before_each",
    teardown = "after_each", cleanup = "finally", defer = "finally", pending = "skip", todo = "skip", eq = "equal",
    equals = "equal", deep_equal = "equal", assert_equal = "equal", is_true = "truthy", ok = "truthy",
    assert = "truthy", near = "truthy", almost_equal = "truthy", is_false = "falsy", is_nil = "falsy",
    raises = "error", throws = "error", fails = "error", has_error = "error", mock = "stub", wait_for = "eventually",
    wait_until = "eventually", property = "forall", cases = "each", run = "spawn",
  },
  ["runloop.sqlite"] = { connect = "open", new = "open", database = "open" },
  ["runloop.postgres"] = { connect = "open", new = "open", client = "open", pool = "open" },
  ["runloop.redis"] = { connect = "open", new = "open", client = "open", createClient = "open" },
  ["runloop.nats"] = { open = "connect", publish = "bus:publish()", subscribe = "bus:subscribe()" },
  ["runloop.schedule"] = { every = "rl.every", at = "rl.at" },
  stream = {
    send = "write", receive = "read_line() or read()", recv = "read", pipe = "net.copy()", end_ = "finish",
    shutdown = "finish", settimeout = "set_timeout", setTimeout = "set_timeout", readline = "read_line",
    destroy = "abort", flushed = "flush",
  },
  timer = {
    unref = "keeps_alive = false", ref = "keeps_alive = true", start = "loop:add(timer)", again = "loop:add(timer)",
    reset = "set_fire_date", restart = "set_fire_date", stop = TIMER_END, cancel = TIMER_END, clear = TIMER_END,
    close = TIMER_END,
  },
  program = {
    kill = "signal", terminate = "stop", communicate = "process.run", poll = "is_running", returncode = "wait",
    write = "program.input:write()", read = "program.output:read()",
  },
  logger = { warn = "warning", err = "error", fatal = "error", critical = "error", trace = "debug" },
  ["http client"] = { request = "fetch", put = "fetch", delete = "fetch", patch = "fetch", head = "fetch" },
  listener = { listen = "loop:add(listener)" },
  -- In each pair, the method of the Redis client comes first.
  database = {
    exec = { "call", "execute" }, run = { "call", "execute" }, command = { "call", "execute" },
    insert = "execute", update = "execute", delete = "execute", all = "query", select = "query",
    prepare = "query", get = { "call", "row" }, first = "row", fetch = "row", each = "rows", iterate = "rows",
    nrows = "rows", transaction = "begin", multi = "begin", commit = "tx:commit()", rollback = "tx:rollback()",
    pipeline = "batch", set = "call", del = "call", hget = "call", hset = "call", incr = "call", expire = "call",
    eval = { "script" }, disconnect = "close", quit = "close", unsubscribe = "subscription:invalidate()",
  },
  bus = {
    pub = "publish", sub = "subscribe", on = "subscribe", reply = "message:respond()",
    respond = "message:respond()", unsubscribe = "subscription:invalidate()", jetstream = "stream", kv = "bucket",
    disconnect = "close",
  },
}

-- Methods of all objects ---------------------------------------------------------------------------------------------

local END = { "invalidate", "close", "cancel" }
local KILL = { "cancel", "invalidate", "close" }
local START = { "fire", "task", "run" }
local RESULT = { "await", "join", "wait", "receive" }
local SEND = { "post", "send", "signal" }
meanings.methods = {
  cancel = END, stop = END, close = END, destroy = END, remove = END, clear = END, invalidate = END, dispose = END,
  kill = KILL, abort = KILL, start = START, again = START, spawn = START, wait = RESULT, get = RESULT,
  result = RESULT, recv = RESULT, send = SEND, write = SEND, put = SEND, push = SEND, notify = SEND,
  isvalid = "is_valid",
}

-- Words with a different meaning: no similarly spelt name is suggested for them.
meanings.words = {}
for word in ([[get set put push pop start stop send end begin open close read write add remove reset ref unref poll wait
  lock unlock bind find kill exec fork join list load save parse print reload resume pause sort seek tell time date
  trace]]):gmatch "%a+" do
  meanings.words[word] = true
end

-- Fields of options --------------------------------------------------------------------------------------------------

local CALLBACK = { "callback", "perform", "on_data", "on_connection" }
local SECONDS = { "seconds: timeout", "seconds: delay", "seconds: interval", "seconds: limit", "seconds: idle" }
meanings.fields = {
  anywhere = {
    timeout_ms = SECONDS, ms = SECONDS, milliseconds = SECONDS, cwd = "directory", env = "environment",
    stdin = "input", stdout = "output", stderr = "errors", callback = CALLBACK, cb = CALLBACK,
    func = CALLBACK, handler = CALLBACK, ["function"] = CALLBACK, filename = "path", file = "path",
    hostname = "host",
  },
  process = {
    shell = "process.shell", tty = "terminal", uid = "process.set_user", user = "process.set_user",
    args = "the words follow the program", argv = "the words follow the program",
    -- process.run and process.start each lack some options of the other.
    on_output = "process.start", on_errors = "process.start", modes = "process.start",
    timeout = "process.run", grace = "process.run", max_output = "process.run",
  },
  http = {
    data = "body", params = "query", auth = "user and password", verify = "tls", allow_redirects = "follow",
    redirect = "follow", max_redirects = "follow", username = "user", ssl = "tls", uri = "url",
  },
}

return meanings
