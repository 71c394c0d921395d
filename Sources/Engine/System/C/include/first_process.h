// A program that is process 1 of its container has duties that other programs leave to an init.
#pragma once

/// Calls `body` and exits with what it returns. In process 1 that happens on a second thread, while the first one waits for orphans;
/// children of all other threads are left to whoever has started them. To be called once, by the first thread.
_Noreturn void linux_run_main(int (*body)(void));
/// A child has ended: process 1 looks for orphans. Called by every handler of SIGCHLD. Safe in a signal handler.
void linux_note_child_end(void);
