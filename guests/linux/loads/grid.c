/* grid: an OpenMP program. Each number of a grid becomes the mean of its neighbours, step by step; threads take eight rows at
 * a time. Ends with status 0 if one thread gets the same.
 *
 *   grid THREADS
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 256, COLUMNS = 256, STEPS = 12 };

static int grids[2][ROWS][COLUMNS];

static unsigned solve(int threads)
{
    unsigned sum = 0;

    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            grids[0][row][column] = (row * 31 + column * 17) & 1023;
    memcpy(grids[1], grids[0], sizeof grids[0]);
    omp_set_num_threads(threads);
    for (int step = 0; step < STEPS; step++) {
        int(*from)[COLUMNS] = grids[step & 1], (*to)[COLUMNS] = grids[!(step & 1)];
#pragma omp parallel for schedule(dynamic, 8)
        for (int row = 1; row < ROWS - 1; row++)
            for (int column = 1; column < COLUMNS - 1; column++)
                to[row][column] = (from[row - 1][column] + from[row + 1][column] + from[row][column - 1] + from[row][column + 1]) >> 2;
    }
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            sum = sum * 31 + grids[STEPS & 1][row][column];
    return sum;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "grid THREADS\n");
        return 2;
    }
    return solve(atoi(argv[1])) != solve(1);
}
