// An object store in memory that is worked on as the OO1 benchmark does (R. Cattell and J. Skeen, "Object
// Operations Benchmark", ACM TODS 17(1), 1992): parts, each connected to three others, nine times in ten
// to one whose number is near its own. A round looks up a thousand parts by number, follows the
// connections of one seven levels deep, and inserts a hundred parts.
//
// object_store PARTS ROUNDS
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS = 7, CONNECTIONS = 3, LOOKUPS = 1000, INSERTS = 100 };

struct part;

struct connection {
	struct part *to;
	char type[10];
	int length;
};

struct part {
	uint32_t number;
	char type[10];
	int x, y;
	long built;
	struct part *same_bucket;
	struct connection *connections[CONNECTIONS];
	struct referrer *referrers; // who is connected to this one
};

struct referrer {
	struct part *from;
	struct referrer *next;
};

static const char part_types[10][10] = { "part-0", "part-1", "part-2", "part-3", "part-4",
					 "part-5", "part-6", "part-7", "part-8", "part-9" };
static const char link_types[10][10] = { "link-0", "link-1", "link-2", "link-3", "link-4",
					 "link-5", "link-6", "link-7", "link-8", "link-9" };
static struct part **buckets;
static uint32_t bucket_mask, parts;
static uint64_t state = 1998;

// Numbers below a bound, the same everywhere (splitmix64).
static uint32_t below(uint32_t bound)
{
	uint64_t mixed = state += 0x9e3779b97f4a7c15;
	mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
	mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
	return (uint32_t)((mixed ^ (mixed >> 31)) % bound);
}

static void *room(size_t bytes)
{
	void *place = malloc(bytes);
	if (!place) {
		fputs("object_store: out of memory\n", stderr);
		exit(1);
	}
	return place;
}

static struct part **bucket_of(uint32_t number)
{
	return &buckets[number * 2654435761u >> 7 & bucket_mask];
}

static struct part *find(uint32_t number)
{
	struct part *part = *bucket_of(number);
	while (part && part->number != number)
		part = part->same_bucket;
	return part;
}

static struct part *add(void)
{
	struct part *part = room(sizeof *part), **bucket = bucket_of(parts);
	*part = (struct part){ .number = parts++, .x = (int)below(100000), .y = (int)below(100000),
			       .built = (long)below(3650), .same_bucket = *bucket };
	memcpy(part->type, part_types[below(10)], sizeof part->type);
	return *bucket = part;
}

static void connect(struct part *part)
{
	uint32_t near = parts / 100 + 1;
	for (int i = 0; i < CONNECTIONS; i++) {
		struct connection *connection = room(sizeof *connection);
		struct referrer *referrer = room(sizeof *referrer);
		uint32_t to = below(10) ? (part->number + parts - near / 2 + below(near)) % parts : below(parts);
		connection->to = find(to);
		connection->length = (int)below(1000);
		memcpy(connection->type, link_types[below(10)], sizeof connection->type);
		*referrer = (struct referrer){ part, connection->to->referrers };
		connection->to->referrers = referrer;
		part->connections[i] = connection;
	}
}

// What a look-up or a visit does with the part: OO1 calls an empty procedure of the host's language.
static uint64_t checksum;
__attribute__((noinline)) static void use(int x, int y, const char *type)
{
	char copy[10];
	memcpy(copy, type, sizeof copy);
	checksum = checksum * 31 + (uint64_t)(x ^ y) + (unsigned char)copy[5];
}

static void follow(const struct part *part, int levels)
{
	use(part->x, part->y, part->type);
	if (levels)
		for (int i = 0; i < CONNECTIONS; i++)
			follow(part->connections[i]->to, levels - 1);
}

int main(int count, char **words)
{
	uint32_t wanted = count > 2 ? (uint32_t)atoi(words[1]) : 0, rounds = count > 2 ? (uint32_t)atoi(words[2]) : 0;
	if (!wanted) {
		fputs("usage: object_store PARTS ROUNDS\n", stderr);
		return 2;
	}
	for (bucket_mask = 1; bucket_mask < wanted; bucket_mask *= 2)
		;
	buckets = calloc(bucket_mask--, sizeof *buckets);
	if (!buckets)
		return 1;
	while (parts < wanted)
		add();
	for (uint32_t number = 0; number < wanted; number++)
		connect(find(number));
	for (uint32_t round = 0; round < rounds; round++) {
		for (int i = 0; i < LOOKUPS; i++) {
			const struct part *part = find(below(parts));
			use(part->x, part->y, part->type);
		}
		follow(find(below(parts)), LEVELS);
		for (int i = 0; i < INSERTS; i++)
			connect(add());
	}
	return checksum == 0; // as good as never; it keeps the work from being left out
}
