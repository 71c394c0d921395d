// As process 1 of its container, a program must wait for orphans, as init does.
#pragma once

/// Calls `body` and exits with the status that it returns. In process 1, `body` runs on a second thread, while the
/// first one waits for orphans; it leaves children of other threads to the code that started them. Call it once, on the
/// first thread.
_Noreturn void linux_run_main(int (*body)(void));
/// Makes process 1 look for orphans. Every handler of SIGCHLD calls it. Safe in a signal handler.
void linux_note_child_end(void);
