// Settings that a process inherits from its parent.
#pragma once

/// Undoes inherited settings that would make this process miss signals or run foreign code. An ignored SIGCHLD gets its
/// default, since the kernel would drop the statuses of children. Signals that the process needs are unblocked. Other
/// ignored signals stay ignored, as nohup(1) and shells want. In a setuid or setgid program, variables with which a
/// user could run other code are removed: LUA_INIT, LUA_PATH, LUA_CPATH, also with a version, and RLHOST_*. Call it
/// before there is a second thread.
void linux_make_inheritance_safe(void);
