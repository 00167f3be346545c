CREATE TABLE rows(id INTEGER PRIMARY KEY, key INTEGER, name TEXT);
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 300)
  INSERT INTO rows SELECT n, n * 7919 % 509, 'the row with number ' || n FROM numbers;
CREATE INDEX keys ON rows(key);
SELECT count(*), sum(one.id * other.key) FROM rows one JOIN rows other ON one.key = other.key WHERE one.id < other.id;
SELECT key, count(*) AS number, max(name) FROM rows GROUP BY key ORDER BY number DESC, key LIMIT 3;
UPDATE rows SET key = (key * 31 + id) % 499 WHERE id % 3 = 0;
DELETE FROM rows WHERE key % 5 = 0;
SELECT count(*), sum(key) FROM rows;
