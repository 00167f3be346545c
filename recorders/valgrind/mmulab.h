/* Marks a region of interest in a program, for mmulab.

   SPDX-License-Identifier: MIT OR Apache-2.0

      #include "mmulab.h"

      MMULAB_REGION_BEGIN("solve");
      solve(system);
      MMULAB_REGION_END("solve");

   `mmulab record` notes the marks in the trace, and `mmulab replay --region solve` counts what is between them,
   for all threads. Without the recorder a mark is a few instructions that do nothing. They are Valgrind's client
   requests, so that the program needs valgrind/valgrind.h when it is compiled (Debian: the package valgrind) and
   nothing when it runs. `mmulab.h` can be copied into other programs. */

#ifndef MMULAB_H
#define MMULAB_H

#include <valgrind/valgrind.h>

enum {
   MMULAB_REQUEST_REGION_BEGINS = VG_USERREQ_TOOL_BASE('M', 'U'),
   MMULAB_REQUEST_REGION_ENDS
};

/* `name` is a string of up to 255 bytes. Regions of the same name may be nested. */
#define MMULAB_REGION_BEGIN(name)                                                                  \
   VALGRIND_DO_CLIENT_REQUEST_STMT(MMULAB_REQUEST_REGION_BEGINS, (name), 0, 0, 0, 0)
#define MMULAB_REGION_END(name)                                                                    \
   VALGRIND_DO_CLIENT_REQUEST_STMT(MMULAB_REQUEST_REGION_ENDS, (name), 0, 0, 0, 0)

#endif
