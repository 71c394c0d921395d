// What a process inherits from the one that has started it.
#pragma once

/// Undoes what would make this process deaf, or have it do what somebody else wants. An ignored SIGCHLD gets its default, since the kernel
/// would throw away the statuses of children; signals that the process needs are unblocked. Other ignored signals stay so, as nohup(1) and
/// shells want it. In a setuid or setgid program the variables by which a user could have it run other code are removed: LUA_INIT,
/// LUA_PATH, LUA_CPATH, also with a version, and RLHOST_*. To be called before there is a second thread.
void linux_make_inheritance_safe(void);
