/* A program that is easy on caches one way round and hard on TLBs the other: it sums a square matrix
 * of doubles by rows and by columns. `examples/small.mmt` is a recording of the first four million
 * instructions of the C compiler as it checks this file:
 *   mmulab record --max-instructions 4000000 -o examples/small.mmt -- \
 *     $(gcc -print-prog-name=cc1) -quiet -fsyntax-only examples/matrix.c -o /dev/null */
enum { SIDE = 512 };

static double matrix[SIDE][SIDE];

static double by_rows(void)
{
    double sum = 0;
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            sum += matrix[row][column];
    return sum;
}

static double by_columns(void)
{
    double sum = 0;
    for (int column = 0; column < SIDE; column++)
        for (int row = 0; row < SIDE; row++)
            sum += matrix[row][column];
    return sum;
}

int main(void)
{
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            matrix[row][column] = row ^ column;
    return by_rows() != by_columns();
}
