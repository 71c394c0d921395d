// The sandbox: the kernel's restrictions of this process, its threads and its programs from some moment on.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// What a sandbox can allow. The order is that of `linux_allowance_names`.
enum linux_allowance {
  LINUX_ALLOW_READ,
  LINUX_ALLOW_WRITE,
  LINUX_ALLOW_CONNECT,
  LINUX_ALLOW_LISTEN,
  LINUX_ALLOW_RUN,
  LINUX_ALLOW_ENV,
  LINUX_ALLOW_MODULES,
  LINUX_ALLOWANCES
};

/// A sandbox that is being described. The sandbox becomes a layer of the process when the process enters it.
typedef struct linux_sandbox linux_sandbox;

/// Returns NULL without memory.
linux_sandbox *linux_new_sandbox(void);
/// Frees a sandbox that was not entered.
void linux_free_sandbox(linux_sandbox *sandbox);
/// Allows one thing, such as a path, or all things of a kind if `value` is NULL. The first invalid value fails the
/// attempt to enter the sandbox.
void linux_allow(linux_sandbox *sandbox, enum linux_allowance kind, const char *value);
/// The same for an option such as "--allow-read=/etc". Returns 0 if the option has another meaning.
int linux_allow_option(linux_sandbox *sandbox, const char *option);
/// Returns whether something of a kind is allowed.
int linux_allows_some(const linux_sandbox *sandbox, enum linux_allowance kind);
/// Returns the name of the kind that was allowed first; NULL if nothing is allowed.
const char *linux_first_allowed(const linux_sandbox *sandbox);
/// Returns the name of an allowed message port by its index; NULL after the last one.
const char *linux_listened_port(const linux_sandbox *sandbox, int index);
/// Allows reading a script, if it exists.
void linux_allow_script(linux_sandbox *sandbox, const char *path);
/// Lets Lua read the files that match the templates of a list such as package.path. An absolute template allows the
/// directory before its `?`. A relative template allows the files with its ending, down to three directories below the
/// current one.
void linux_allow_templates(linux_sandbox *sandbox, const char *templates);
/// Sets the directory of message ports. Call it before the sandbox clears the environment. The text must stay valid.
void linux_set_port_directory(linux_sandbox *sandbox, const char *path);
/// Returns the directory of message ports of the sandbox that the process has entered; NULL if there is none.
const char *linux_port_directory(void);
/// Closes the descriptors that the parent process has left open by accident. Call it before this process opens
/// descriptors of its own.
void linux_close_inherited(void);

/// Enters a sandbox for good: this thread, those that it starts from now on, and programs. This thread must be the only
/// thread of the process.
///
/// Returns 0; 64 for an invalid value, and 66 for a missing file, each with the end of a message. If the kernel cannot
/// enforce all restrictions, returns 69 with one line for each reason, and changes nothing. With `goes_on`, it then
/// enforces what it can, and returns 0 with the same lines.
int linux_enter_sandbox(linux_sandbox *sandbox, int goes_on, char text[1024]);

/// Returns the number of threads of this process; 0 without /proc.
int linux_threads(void);

/// Returns the time at which the process entered its first sandbox, in seconds since the system's start; 0 if it has
/// not entered any.
double linux_sandboxed_at(void);
/// Returns whether the process has entered a sandbox.
int linux_is_sandboxed(void);
/// Returns whether all sandboxes allow C modules.
int linux_allows_modules(void);
/// Returns "not allowed by the sandbox: --allow-read=/etc" if a sandbox does not allow something of a kind: a path, an
/// address "host:port" or "host:PORT" for any port, "port:NAME", a program or a variable. The text lasts until the
/// thread's next call. Returns NULL if the thing is allowed, or if there is no sandbox.
const char *linux_refusal(enum linux_allowance kind, const char *subject);
/// Asks the doorman to connect to a message port. Returns a descriptor, or -1 and errno; -2 if there is no doorman.
int linux_connect_by_doorman(const char *name);
