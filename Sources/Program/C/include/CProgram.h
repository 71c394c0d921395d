// The part of the program that runs before Swift's runtime begins.
#pragma once

/// Installs handlers that explain why the process ends: by a trap of Swift's, by abort() or by a fault of its own. The
/// message reports a lack of memory, with status 1, or an internal failure. The loader calls this function before
/// Swift's runtime begins, because the runtime itself may end the process for lack of memory.
void program_explain_traps(void);

/// Returns the table of options: the file shell/options.
const char *program_options(void);

/// Returns a script with completions, which has `@OPTIONS@` where the table belongs, or NULL for another shell.
const char *program_completions(const char *shell);
