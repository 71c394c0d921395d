// Names of hosts that are not ASCII.
#pragma once

/// A host's name as name servers, certificates and URLs have it: "bücher.example" is "xn--bcher-kva.example" (IDNA 2008, with the
/// mapping of UTS 46 that browsers use). One that is ASCII stays as it is. Returns 1; or 0, with a code and a text that names it: EINVAL
/// for what can be no name, IDN_MISSING without libidn2, which is loaded at the first name that needs it. Thread-safe.
int linux_ascii_host(const char *name, char out[256], char code[32], char text[512]);
