// Messages to the service manager that has started this process, as sd_notify(3) sends them.
#pragma once

#include <stddef.h>

/// Sends a message. Returns 1; 0 if no service manager has started this process; -1 with errno if it cannot be sent.
int linux_notify_manager(const void *text, size_t count);
/// Sends "STOPPING=1", once, if this process has reported that it is ready and not yet that it stops.
void linux_notify_manager_of_end(void);
