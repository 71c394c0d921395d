"""The random program of a seed: a tree of actions, each of which can be left out."""
import random
import re

SECONDS = r"seconds|timeout|delay|interval|after|grace|limit|first|most|latency|idle|tolerance|within|ping|keep_alive"
MODES = "default common a b modal event_tracking".split()
PATHS = "a.txt b.txt new sub sub/c.txt sub/new link no/such . a.db t.html t.json t.pftrace".split()
FILES = [f"file({n})" for n in range(1, 6)] + ["-1", "99999", "0"]
COMMANDS = """{ "true" }
{ "cat" }
{ "sleep", "0.02" }
{ "sh", "-c", "exit 3" }
{ "sh", "-c", "sleep 0.1 & wait" }
{ "sh", "-c", "echo out; echo err >&2; kill -9 $$" }
{ "sh", "-c", "yes | head -c 200000" }
{ "no-such-program" }""".split("\n")
SQL = """create table if not exists t(a, b)
insert into t values(1, ?)
select * from t
select ?, ?
with recursive c(n) as (select 1 union all select n + 1 from c limit 3000) select n from c
begin
commit
select 1; select 2
drop table t
nonsense
PING
GET
SET
BLPOP
MULTI
SUBSCRIBE
""".split("\n")
CRON = ["* * * * *", "*/5 * * * mon-fri", "30 2 29 2 *", "61 * * * *", "@hourly", "0 0 1 1 * *", ""]
# The answers of peers: of servers of several protocols, and nonsense.
REPLIES = r"""+OK\r\n
$-1\r\n
*2\r\n$1\r\na\r\n:1\r\n
*100000\r\n
garbage\0\255
%1\r\n+server\r\n+x\r\n
HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello
HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZ\r\n
HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n\129\127\255
R\0\0\0\8\0\0\0\0Z\0\0\0\5I
E\0\0\0\255
INFO {\"server_id\":\"x\",\"max_payload\":100}\r\nPONG\r\n
MSG a 1 9999999999\r\n""".split("\n")
WORDS = r"""a
b
default
text/*
one\ntwo\n
a=1&b=2
{\"a\":[1,2]}
\0\255
%s
*
a.b.>
/x
/item/:id
/*
GET
2024-01-02
12:30
é\u{202e}""".split("\n")


def quoted(words):
    return [f'"{word}"' for word in (words.split("|") if isinstance(words, str) else words)]


def rules(world):
    """→ (pattern, values): parameters and fields whose "owner.name" matches get these values instead of values of their
    types. The values stay within the scratch directory, the loopback and the programs above."""
    def connected():
        return [world.address(), world.address(), *quoted("unix:s1|unix:s2|127.0.0.1:1|memory")]

    def urls():
        ends = [(scheme, path) for scheme in ("http", "http", "https", "ws") for path in ("/", "/x", "/item/3?q=%ff")]
        return [f'"{scheme}://" .. {world.address()} .. "{path}"' for scheme, path in ends]

    def databases():
        schemes = ("redis://", "postgres://", "nats://", "")
        return [f'"{scheme}" .. {world.address()}' for scheme in schemes] + ['"127.0.0.1:1"']

    def seconds():
        return [f"{world.chance.random() * 0.004:.6f}", "0", "0.02"]

    def dates():
        return [f"rl.now() + {world.chance.random() * 0.004:.6f}", "0", "rl.now() + 60"]

    own = [*quoted("127.0.0.1:0|[::1]:0|unix:s1|nonsense"), "0", '"unix:@fuzz-" .. M.process.id()',
           '{ host = "127.0.0.1", port = 0 }', '{ path = "s2" }']
    modes = [*quoted(MODES), '{ "a", "default" }', "{}"]
    return [(re.compile(f"(?:.*[._])?(?:{pattern})$"), values) for pattern, values in [
        (r"(net\.serve|net\.listener|Listener\w*|http\.serve)\.where", own),
        (r"net\.datagram.*where|DatagramOptions\.peer", quoted("127.0.0.1:0|127.0.0.1:1")),
        (r"Datagram\.send\.where", ['"127.0.0.1:1"', "nil", world.address]),
        (r"(redis|postgres|nats)\.(open|connect)\.(where|servers)", databases),
        (r"where|address|server", connected),
        (r"port", ["0", "1"]),
        (r"host|bind|group|(resolve|toip|getaddrinfo|tohostname|getnameinfo)\.(name|address)",
         quoted(["localhost", "127.0.0.1", "::1", "", "a b"])),
        (r"interface", ['"lo"']),
        (r"url|base|reference|proxy", urls),
        (r"fd|files?", FILES),
        (r"process\.(run|start)\.options", lambda: [world.program()]),
        (r"process\.shell\.text", quoted("exit 3|echo x|cat")),
        (r"process\.Options\.(input|output|errors)", quoted("pipe|null|new|output|inherit")),
        (r"Options\.(certificate|ca|client_ca)", quoted("cert.pem|no.pem")),
        (r"Options\.key", ['"key.pem"']),
        (r"Trace\.\w+\.path", quoted("t.html|t.json|t.pftrace|no")),
        (r"sqlite\.open\.path", quoted(":memory:|a.db")),
        (r"path|from|to|target|directory|root|file|history|prefix|credentials|nkey|unix|type", quoted(PATHS)),
        (r"(on_signal|signal|wait_signal)\.name", quoted("USR1|USR2|HUP|WINCH|CHLD|no")),
        (r"Program\.signal\.name", quoted("TERM|USR1|KILL|STOP|no")),
        (r"sql|command", quoted(SQL)),
        (r"expression", quoted(CRON)),
        (r"rounds", ["1", "10", "0"]),
        (r"resize|progress|count|places|capacity|threads|connections|tries|backlog", ["0", "1", "2", "3", "70000"]),
        (r"modes?", modes),
        (r"(MessagePortOptions|remote_port|MessagePort\.set_name)\.name", quoted("fuzz.a|fuzz.b|no such")),
        (r"on_shutdown\.options", ["{ limit = 0.05 }"]),
        (r"name|channel|subject|event", quoted(["a", "b", "n1", "a.b", "", "\\0\\n"])),
        (SECONDS, seconds),
        (r"date|before", dates),
    ]]


class Node:
    """An action, with those in its callbacks: `pieces` are texts and lists of nodes. A program that leaves out the
    node's number lacks the whole node. A program that leaves out the negative number keeps the nodes inside it, but not
    the action."""

    def __init__(self, number, pieces):
        self.number, self.pieces = number, pieces

    def numbers(self):
        yield self.number
        for piece in self.pieces:
            for node in piece if isinstance(piece, list) else ():
                yield from node.numbers()

    def render(self, left_out, indent):
        if self.number in left_out:
            return ""
        if -self.number in left_out:
            return "".join(node.render(left_out, indent) for piece in self.pieces[1:] if isinstance(piece, list)
                           for node in piece)
        text = ""
        for piece in self.pieces:
            if isinstance(piece, str):
                text += piece
            else:
                inner = "".join(node.render(left_out, indent + "  ") for node in piece)
                text += "\n" + inner + indent if inner else " "
        return indent + text + "\n"


class World:
    """Makes the program of a seed, from a Reference."""

    # Calls that only tests can make, or that would need other programs.
    LEFT_OUT = {"runloop.test"}
    # A sandbox takes away for good what the rest of the program needs.
    NEVER = {"sandbox"}
    SINGLE = {"runloop.Notifications": "M.runloop.notifications", "runloop.Trace": "M.runloop.trace",
              "runloop.socket.dns": "M.socket.dns", "runloop.luv.Bridge": "M.luv",
              "runloop.cqueues.Bridge": "M.cqueues", "runloop.glib.Bridge": "M.glib"}
    DEEDS = ("sleep sleep gc nested fail close drop finalizer thread hook co speaker closing add task unhandled sort "
             "other").split()
    # These calls end the program, or wait for its end, so they are made seldom.
    RARE = {"stop", "shutdown", "on_shutdown", "set_default", "attach", "install", "__unload", "parse"}

    def __init__(self, reference, seed, actions):
        self.reference, self.chance, self.count, self.depth = reference, random.Random(seed), 0, 0
        self.known, self.rules, self.in_thread = {}, rules(self), False
        calls = [call for call in reference.calls
                 if call.module not in self.LEFT_OUT and call.name not in self.NEVER]
        self.makers = {}
        for call in calls:
            for name in self.made(call):
                self.makers.setdefault(name, []).append(call)
        modules = sorted({call.module for call in calls})
        theme = ["runloop", *self.chance.sample(modules, self.chance.choice([1, 2, 3, 5]))]
        self.calls = {module: [call for call in calls if call.module == module] for module in theme}
        self.body = []
        while self.count < actions:
            self.action(self.body)
        self.end = self.chance.choice(["return"] * 9 + ["exit", "close", "stop", "shutdown", "error", "leave"])

    def text(self, left_out=()):
        return ('dofile(os.getenv "FUZZ_WORLD")\n' + "".join(node.render(left_out, "") for node in self.body)
                + f'finish "{self.end}"\n')

    def numbers(self):
        return [number for node in self.body for number in node.numbers()]

    def made(self, call):
        """→ the classes of the objects that a call returns, or passes to its functions."""
        found = set()
        for kind in call.returns:
            found |= {member.value for member in self.reference.resolve(kind) if member.kind == "name"}
        for _, _, kind in call.parameters:
            for member in self.reference.resolve(kind):
                for _, _, inner in member.value[0] if member.kind == "function" else ():
                    found |= {part.value for part in self.reference.resolve(inner) if part.kind == "name"}
        return found

    # Actions

    def number(self):
        self.count += 1
        return self.count

    def block(self, size, prepare=None):
        """→ the actions of a callback; only these actions use the objects that they make."""
        before, self.depth = {name: list(found) for name, found in self.known.items()}, self.depth + 1
        nodes = []
        if prepare:
            prepare()
        for _ in range(size):
            self.action(nodes)
        self.known, self.depth = before, self.depth - 1
        return nodes

    def action(self, nodes):
        roll = self.chance.random()
        if roll < 0.25 or self.depth and roll < 0.5:
            self.deed(nodes)
        else:
            module = self.chance.choice(list(self.calls))
            if self.chance.random() < 0.2:
                module = "runloop"
            call = self.chance.choice(self.calls[module])
            is_rare = call.name in self.RARE and call.owner in (None, "runloop.Loop")
            if not is_rare or self.chance.random() < 0.03:
                self.call(call, nodes, 0)

    def deed(self, nodes):
        """Adds an action that is not a call of the reference."""
        chance, number = self.chance, self.number()
        anything = [g for found in self.known.values() for g in found] or ["nil"]
        thing, mode = chance.choice(anything), chance.choice(MODES)
        act = chance.choice(self.DEEDS)
        ending = chance.choice(["close", "invalidate", "cancel", "abort", "stop"])
        # The program could not end the threads of a thread.
        if act in ("finalizer", "thread", "hook", "closing", "task", "sort") and self.depth > 2 or (
                act == "thread" and self.in_thread):
            act = "close"
        pieces = {
            "sleep": [f"a({number}, function() rl.sleep({chance.random() * 0.002:.6f}) end)"],
            "gc": ["collectgarbage()"],
            "nested": [f'a({number}, function() nested("{mode}", {chance.random() * 0.003:.6f}) end)'],
            "fail": [f"error({self.strange()})" if self.depth else "collectgarbage()"],
            "close": [f'a({number}, function() m({thing}, "{ending}") end)'],
            "drop": [f"v[{chance.randint(1, max(1, number))}] = nil"],
            "add": [f'a({number}, function() rl.current():add({thing}, "{mode}") end)'],
            "speaker": [f'a({number}, function() return speaker("{chance.choice(REPLIES)}") end)'],
            "unhandled": [f"a({number}, function() rl.after(0, error, {self.strange()}) end)"],
            "co": [f"a({number}, function() coroutine.yield({thing}) end)"],
            "other": [f"a({number}, function() return m({self.strange()}, {thing}, {self.strange()}) end)"],
        }.get(act)
        if act == "speaker":
            self.learn("runloop.net.Listener", f"g({number})")
        if not pieces:
            if act == "thread":
                known, self.known, self.in_thread = self.known, {}, True
                inner = self.block(chance.randint(0, 6))
                self.known, self.in_thread = known, False
                last = inner[-1].number if inner else 0
                head = f"a({number}, function() return rl.thread(function(...) "
                pieces = [head + 'dofile(os.getenv "FUZZ_WORLD")', inner, f"return g({last}) end, {thing}) end)"]
                self.learn("runloop.Thread", f"g({number})")
            else:
                inner = self.block(chance.randint(1, 3))
                head, tail = {
                    "finalizer": ("setmetatable({}, { __gc = function()", "end })"),
                    "hook": ("debug.sethook(function() debug.sethook()", f'end, "crl", {chance.randint(1, 300)})'),
                    "closing": (f"a({number}, function() local c <close> = setmetatable({{}}, {{ __close = function()",
                                "end }) rl.sleep(0.001) end)"),
                    "task": (f"t({number}, function()", "end)"),
                    "sort": (f"a({number}, function() table.sort({{ 3, 1, 2 }}, function(x, y)",
                             "return x < y end) end)"),
                }[act]
                pieces = [head, inner, tail]
        nodes.append(Node(number, pieces))

    def call(self, call, nodes, deep):
        """Adds a call, after the calls that make the objects which it needs."""
        target = f"M.{call.module.removeprefix('runloop.')}.{call.name}("
        if call.owner:
            single = self.SINGLE.get(call.owner)
            target = f'm({single or self.object(call.owner, nodes, deep)}, "{call.name}", '
            if call.owner == "runloop.Trace":
                target = f"{single}.{call.name}("
        number, arguments = self.number(), []
        for name, may_lack, kind in call.parameters:
            if may_lack and self.chance.random() < 0.4:
                if self.chance.random() < 0.5:
                    break
                arguments.append(["nil"])
            else:
                count = self.chance.randint(0, 2) if name == "..." else 1
                place = f"{call.owner or call.module}.{call.name}.{name}"
                arguments += [self.value(kind, place, nodes, deep) for _ in range(count)]
        pieces = [target]
        for index, argument in enumerate(arguments):
            pieces += ([", "] if index else []) + argument
        way = self.chance.random()
        if call.owner and target.startswith("m(") and not arguments:
            pieces[0] = pieces[0].removesuffix(", ")
        if call.waits and way < 0.5 or not self.depth and way < 0.1:
            head = f"t({number}, function() return "
        elif call.waits and (not self.depth or way < 0.7):
            head = f"w({number}, {self.chance.choice([0.001, 0.004, 0.02])}, function() return "
        else:
            head = ("co" if way > 0.96 else "a") + f"({number}, function() return "
        nodes.append(Node(number, [head, *pieces, ") end)"]))
        for index, kind in enumerate(call.returns, 1):
            for member in self.reference.resolve(kind):
                if member.kind == "name" and member.value in self.reference.classes:
                    self.learn(member.value, f"g({number}{f', {index}' if index > 1 else ''})")
                elif member.kind == "function" and self.depth < 3 and self.chance.random() < 0.7:
                    step = self.number()
                    nodes.append(Node(step, [
                        f"w({step}, 0.02, function() each(g({number}), nil, function(...) if enter({step}, ...) then",
                        self.block(1, lambda: self.learn_first(member.value[1], f"g({step})")), "end end) end)"]))

    def learn(self, name, expression):
        found = self.known.setdefault(name, [])
        found.append(expression)
        for field, (_, kind) in self.reference.fields(name).items():
            for member in self.reference.resolve(kind):
                if member.kind == "name" and member.value in self.makers and "(" not in field and field[0] != "[":
                    self.known.setdefault(member.value, []).append(f'f({expression}, "{field}")')

    def learn_all(self, kind, expression):
        for member in self.reference.resolve(kind):
            if member.kind == "name" and member.value in self.reference.classes:
                self.learn(member.value, expression)

    def learn_first(self, kinds, expression):
        for kind in kinds[:1]:
            self.learn_all(kind, expression)

    def object(self, name, nodes, deep):
        """→ an expression for an object of a class, which is made if there is none."""
        found = self.known.get(name, [])
        if self.chance.random() < 0.03:
            return self.strange()
        if (not found or self.chance.random() < 0.15) and deep < 4 and self.makers.get(name):
            self.call(self.chance.choice(self.makers[name]), nodes, deep + 1)
            found = self.known.get(name, [])
        if not found:
            return "nil"
        return self.chance.choice(found[-4:] if self.chance.random() < 0.7 else found)

    # Values

    def strange(self):
        return f"odd[{self.chance.randint(1, 45)}]"

    def address(self):
        found = self.known.get("runloop.http.Server", []) + self.known.get("runloop.net.Listener", [])
        return f"at({self.chance.choice(found)})" if found else 'at()'

    def program(self):
        words = self.chance.choice(COMMANDS)
        if self.chance.random() < 0.4:
            return words
        options = self.value(read_class("runloop.process.Options"), "", [], 9)
        return words[:-1] + ", " + "".join(part for part in options if isinstance(part, str)).strip("{} ") + " }"

    def value(self, kind, place, nodes, deep):
        """→ pieces of an expression of a type."""
        chance = self.chance
        for pattern, values in self.rules:
            if pattern.match(place) and not (kind.kind == "function"):
                choice = chance.choice(values() if callable(values) else values)
                return [choice() if callable(choice) else choice]
        if chance.random() < 0.04:
            return [self.strange()]
        members = self.reference.resolve(kind)
        objects = [member for member in members if member.kind == "name" and self.is_class(member.value)]
        kind = chance.choice(objects if objects and chance.random() < 0.6 else members) if members else kind
        if kind.kind == "text":
            return [kind.value]
        if kind.kind == "list":
            count = chance.randint(0, 3)
            return self.table([("", self.value(kind.value, place, nodes, deep + 1)) for _ in range(count)])
        if kind.kind == "map":
            return self.table([(chance.choice(["a", "b", "n1"]), self.value(kind.value[1], place, nodes, deep + 1))
                               for _ in range(chance.randint(0, 2))])
        if kind.kind == "table":
            return self.options({name: (may, inner) for name, may, inner in kind.value}, place, nodes, deep)
        if kind.kind == "function" or kind.value == "function":
            return self.function(kind.value if kind.kind == "function" else ([], []))
        if kind.kind == "name" and kind.value in self.reference.classes:
            if kind.value in self.makers or kind.value in self.SINGLE:
                return [self.SINGLE.get(kind.value) or self.object(kind.value, nodes, deep)]
            return self.options(self.reference.fields(kind.value), kind.value, nodes, deep)
        return [self.plain(kind.value)]

    def is_class(self, name):
        return name in self.makers and name in self.reference.classes

    def plain(self, name):
        chance = self.chance
        if name == "boolean":
            return chance.choice(["true", "false"])
        if name in ("integer", "number", "lightuserdata"):
            small = f"{chance.random() * 0.003:.6f}"
            return chance.choice([str(chance.randint(-1, 5)), str(chance.randint(0, 70000)), small, "1"])
        if name == "string":
            return chance.choice(quoted(WORDS) + ['("x"):rep(%d)' % chance.choice([10, 3000, 70000])])
        if name in ("nil", "true", "false"):
            return name
        if name == "file*":
            return chance.choice(FILES[:5])
        anything = [g for found in self.known.values() for g in found] + ["nil", "1", '"a"', "{}"]
        return chance.choice(anything)

    def table(self, entries):
        pieces = ["{ "]
        for name, value in entries:
            key = "" if name[:1] in ("", "[") else f"{name} = "
            pieces += [key, *value, ", "]
        return [*pieces, "}"]

    def options(self, fields, place, nodes, deep):
        entries = []
        likely = self.chance.choice([0.1, 0.25, 0.5])
        for name, (may_lack, kind) in fields.items():
            if not may_lack or deep < 4 and self.chance.random() < likely:
                entries.append((name, self.value(kind, f"{place}.{name}", nodes, deep + 1)))
        if self.chance.random() < 0.02:
            entries.append(("nonsense", ["1"]))
        return self.table(entries)

    def function(self, kind):
        parameters, returns = kind
        number = self.number()

        def prepare():
            for index, (_, _, inner) in enumerate(parameters, 1):
                self.learn_all(inner, f"g({number}, {index})")
        if self.depth > 2:
            names = ["function(...) return ... end", "print", "function() end", "error", "function() rl.sleep(0) end"]
            return [self.chance.choice(names)]
        inner = self.block(self.chance.choice([0, 1, 1, 2, 3]), prepare)
        pieces = [f"function(...) if enter({number}, ...) then", inner, "end"]
        if returns:
            pieces += [" return ", *self.value(returns[0], "", [], 3)]
        return [*pieces, " end"]


def read_class(name):
    from reference import Type
    return Type("name", name)
