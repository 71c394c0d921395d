"""Speaks to rlhost's message ports from Python, by the frames of docs/message-ports.md.

  python3 message_client.py NAME ID TEXT          prints the answer
"""
import os
import socket
import struct
import sys

HEAD = struct.Struct(">2sBBIQiI")  # "RL", version, kind, length of data, conversation, id, 0
REQUEST, SEND, REPLY, DONE, FAILURE, BYE = 1, 2, 3, 4, 5, 6
LONGEST = 16 << 20


def directory():
    """Returns the directory of the sockets, which only this user can enter."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and is_private(runtime):
        return runtime + "/rlhost"
    return f"/tmp/rlhost-{os.geteuid()}"


def is_private(path):
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return status.st_uid == os.geteuid() and status.st_mode & 0o170077 == 0o040000


class RemotePort:
    def __init__(self, name):
        if not is_private(directory()):
            raise PermissionError(directory() + " is not private")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Through a descriptor, since a socket's address holds a path of at most 107 bytes.
        file = os.open(directory() + "/" + name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self.socket.connect(f"/proc/self/fd/{file}")
        finally:
            os.close(file)
        credentials = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
        if struct.unpack("iII", credentials)[1] != os.geteuid():
            raise PermissionError("the port belongs to another user")
        self.conversation = 0

    def start(self, kind, id, data):
        self.conversation += 1
        self.socket.sendall(HEAD.pack(b"RL", 1, kind, len(data), self.conversation, id, 0) + data)
        return self.conversation

    def receive(self):
        """Returns the next frame: kind, conversation, id, data."""
        magic, version, kind, length, conversation, id, zero = HEAD.unpack(self.read(HEAD.size))
        if magic != b"RL" or version != 1 or zero != 0 or length > LONGEST:
            raise ConnectionError("this is not a frame")
        return kind, conversation, id, self.read(length)

    def read(self, count):
        parts = []
        while count:
            part = self.socket.recv(min(count, 1 << 16))
            if not part:
                raise ConnectionError("the port is gone")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def request(self, id, data=b""):
        return self.answer(self.start(REQUEST, id, data))

    def send(self, id, data=b""):
        """Sends a message, and returns when it was handled. Up to 256 may be unanswered, so waiting is optional."""
        self.answer(self.start(SEND, id, data))

    def answer(self, expected):
        kind, conversation, _, data = self.receive()
        if kind in (FAILURE, BYE):
            raise RuntimeError(data.decode(errors="replace"))
        if conversation != expected or kind not in (REPLY, DONE):
            raise ConnectionError("an answer to something else")
        return data


if __name__ == "__main__":
    print(RemotePort(sys.argv[1]).request(int(sys.argv[2]), sys.argv[3].encode()).decode())
