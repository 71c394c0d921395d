// CLinux: the system calls that Swift's Glibc module does not show, or shows only as variadic functions.
#pragma once

#include "arguments.h"
#include "clock.h"
#include "death.h"
#include "descriptors.h"
#include "epoll.h"
#include "errors.h"
#include "family.h"
#include "hosts.h"
#include "libraries.h"
#include "programs.h"
#include "signals.h"
#include "sockets.h"
#include "surroundings.h"
#include "terminal.h"
#include "threads.h"
#include "worker.h"
