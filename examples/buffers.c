/* Four threads, each with a new buffer for every request: what munmap costs on several cores.
 *
 *     gcc -O2 -pthread -o buffers examples/buffers.c
 *     mmulab record -o buffers.mmt ./buffers
 *     mmulab replay buffers.mmt --schedule round-robin --cores 4 -m x86-64
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { THREADS = 4, REQUESTS = 200, BUFFER_BYTES = 256 << 10 };

static void *serve(void *unused)
{
    (void)unused;
    for (int request = 0; request < REQUESTS; request++) {
        unsigned char *buffer = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (buffer == MAP_FAILED) {
            abort();
        }
        memset(buffer, request, BUFFER_BYTES);
        if (munmap(buffer, BUFFER_BYTES) != 0) {
            abort();
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS - 1];
    for (int number = 0; number < THREADS - 1; number++) {
        if (pthread_create(&threads[number], NULL, serve, NULL) != 0) {
            return EXIT_FAILURE;
        }
    }
    serve(NULL);
    for (int number = 0; number < THREADS - 1; number++) {
        pthread_join(threads[number], NULL);
    }
    return EXIT_SUCCESS;
}
