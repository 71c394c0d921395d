"""The description of every public call in docs/lua: its parameters, its results, and whether it waits."""
import re
from collections import namedtuple
from pathlib import Path

# `owner`: the class of a method, or None; `name`: as a script writes it, "net.serve" or "read".
Call = namedtuple("Call", "module owner name parameters returns waits")
# `kind`: "name", "text", "union", "list", "map", "table", "function" or "rest".
Type = namedtuple("Type", "kind value")
TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\.\.\.|[\w.*-]+|\[\]|[|?(){}<>,:\[\]])')
ANY = Type("name", "any")


class Reader:
    """Reads one type from the beginning of a line; a description may follow it."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def peek(self):
        match = TOKEN.match(self.text, self.at)
        return match[1] if match else ""

    def take(self, wanted=None):
        match = TOKEN.match(self.text, self.at)
        if not match or wanted and match[1] != wanted:
            return None
        self.at = match.end()
        return match[1]

    def union(self):
        members = [self.postfix()]
        while self.take("|"):
            members.append(self.postfix())
        return members[0] if len(members) == 1 else Type("union", members)

    def postfix(self):
        found = self.primary()
        while self.text[self.at:self.at + 2] == "[]" or self.text[self.at:self.at + 1] == "?":
            if self.take("[]"):
                found = Type("list", found)
            else:
                self.take("?")
                found = Type("union", [found, Type("name", "nil")])
        return found

    def primary(self):
        token = self.take()
        if not token:
            return ANY
        if token.startswith('"'):
            return Type("text", token)
        if token == "(":
            found = self.union()
            self.take(")")
            return found
        if token == "{":
            fields = self.fields("}")
            return Type("table", fields)
        if token == "fun" and self.peek() == "(":
            self.take("(")
            parameters = self.fields(")")
            returns = []
            if self.text[self.at:self.at + 1] == ":":
                while self.take(":" if not returns else ","):
                    returns.append(self.union())
            return Type("function", (parameters, returns))
        if token == "table" and self.take("<"):
            key = self.union()
            self.take(",")
            value = self.union()
            self.take(">")
            return Type("map", (key, value))
        return Type("rest", None) if token == "..." else Type("name", token)

    def fields(self, end):
        """→ [(name, may be absent, type)]"""
        found = []
        while self.peek() not in ("", end):
            name = self.take()
            if name == "[":
                name = "[" + str(self.take()) + "]"
                self.take("]")
            may_lack = bool(self.take("?"))
            kind = self.union() if self.take(":") else ANY
            nil = kind.kind == "union" and Type("name", "nil") in kind.value
            found.append((name, may_lack or nil, kind))
            if not self.take(","):
                break
        self.take(end)
        return found


def read(text):
    return Reader(text).union()


class Reference:
    """All pages: `calls`; `classes`, by name {field: (may be absent, type)}; `aliases`, by name."""

    def __init__(self, folder):
        self.calls, self.classes, self.aliases, self.parents = [], {}, {}, {}
        for page in sorted(Path(folder).glob("*.lua")):
            self.page(page.read_text())

    def page(self, text):
        module = re.search(r"^---@meta (\S+)", text, re.M)[1]
        owners, block, last, alias = {}, [], None, None
        for line in text.split("\n"):
            if line.startswith("---"):
                block.append(line)
                if match := re.match(r"---@class ([\w.]+)(?:: (.*))?", line):
                    last = match[1]
                    self.classes[last] = {}
                    self.parents[last] = re.findall(r"[\w.]+", match[2] or "")
                elif match := re.match(r"---@field (\[?\w+\]?)(\??) (.*)", line):
                    self.classes[last][match[1]] = (bool(match[2]), read(match[3]))
                elif match := re.match(r"---@alias ([\w.]+) ?(.*)", line):
                    alias = match[1]
                    self.aliases[alias] = read(match[2]) if match[2] else Type("union", [])
                elif (match := re.match(r"---\| (.*)", line)) and alias:
                    self.aliases[alias].value.append(read(match[1]))
                continue
            if (match := re.match(r"local (\w+) = {}", line)) and block:
                owners[match[1]] = last if any("@class" in row for row in block) else module
            if match := re.match(r"function (\w+)([.:])(\w+)\(", line):
                self.call(module, owners.get(match[1], module), match[2], match[3], block)
            block = []

    def call(self, module, owner, separator, name, block):
        parameters, returns = [], []
        for row in block:
            if match := re.match(r"---@param (\S+?)(\??) (.*)", row):
                kind = read(match[3])
                nil = kind.kind == "union" and Type("name", "nil") in kind.value
                parameters.append((match[1], bool(match[2]) or nil, kind))
            elif match := re.match(r"---@return (.*)", row):
                returns.append(read(match[1]))
        waits = any(re.search(r"\b[Ww]aits\b", row) for row in block)
        is_method = separator == ":" or owner not in (module, "runloop")
        self.calls.append(
            Call(module, owner if is_method else None, name, parameters, returns, waits or name in ("await", "sleep")))

    def fields(self, name):
        """→ {field: (may be absent, type)}, with those of the parents."""
        found = {}
        for parent in self.parents.get(name, []):
            found.update(self.fields(parent))
        found.update(self.classes.get(name, {}))
        return found

    def resolve(self, kind):
        """→ the members of a type, without aliases and unions."""
        if kind.kind == "name" and kind.value in self.aliases:
            kind = self.aliases[kind.value]
        if kind.kind != "union":
            return [kind]
        return [member for part in kind.value for member in self.resolve(part)]
