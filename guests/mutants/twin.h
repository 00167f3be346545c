/* A program that leaves something out, and its correct twin, which is compiled with CORRECT. */
#ifdef CORRECT
#define ONLY_CORRECT(statement) statement
#define CORRECT_OR_WRONG(right, wrong) right
#else
#define ONLY_CORRECT(statement)
#define CORRECT_OR_WRONG(right, wrong) wrong
#endif
