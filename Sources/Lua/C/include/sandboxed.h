// The functions of Lua's library that a sandbox changes.
#pragma once

struct cl_state;

/// The kinds of things that a sandbox may refuse, as far as Lua's library needs them.
enum cl_refused { CL_READING, CL_WRITING, CL_RUNNING = 4 };

/// Replaces functions in a state, and in all states that are opened from now on. The error of a refused call then names
/// the option that would allow it. Unless `allows_modules` is set, neither bytecode nor C modules are loaded. The
/// kernel refuses the same, whatever a script calls.
///
/// - `refusal` returns the text of a refusal, or NULL. Set once, before there is a second thread.
int cl_enter_sandbox(struct cl_state *state, const char *(*refusal)(int kind, const char *subject), int allows_modules);
/// Returns copies of package.path and package.cpath, which the caller frees; NULL if they are not texts.
void cl_copy_search_paths(struct cl_state *state, char **path, char **cpath);
