// The part of the program that runs before Swift's runtime begins.
#pragma once

/// Installs handlers that explain why the process ends: by a Swift trap, by abort(), or by a fault of the process
/// itself. The message reports a lack of memory, with status 1, or an internal failure. The loader calls this function
/// before Swift's runtime begins, because the runtime itself may end the process for lack of memory.
void program_explain_traps(void);

/// Returns the table of options: the file shell/options.
const char *program_options(void);

/// Returns the script with completions for a shell; NULL for an unknown shell. The script contains `@OPTIONS@` where
/// the table must be inserted.
const char *program_completions(const char *shell);
