-- Tables in ClickHouse from the Parquet files of a sink in an S3-compatible store. Not tested here: there is no ClickHouse server in the tests.
-- A new file is imported once. The files m*.parquet are merged from files p*.parquet, which are removed two hours later, at the earliest after their day. What is deleted in the lake later stays in ClickHouse: delete rows by the gaps with the reason 'deleted'.
CREATE TABLE observations_lake ENGINE = S3Queue('https://host/bucket/prefix/observations/*/{p,schema}*.parquet', 'Parquet')
SETTINGS mode = 'unordered', after_processing = 'keep';

-- Of several rows with one id the one with the highest seq counts: read with FINAL.
CREATE TABLE observations ENGINE = ReplacingMergeTree(seq) ORDER BY (tenant, root, id) EMPTY AS SELECT * FROM observations_lake;

CREATE MATERIALIZED VIEW observations_import TO observations AS SELECT * FROM observations_lake;

CREATE TABLE gaps_lake ENGINE = S3Queue('https://host/bucket/prefix/gaps/*/{p,schema}*.parquet', 'Parquet') SETTINGS mode = 'unordered', after_processing = 'keep';
CREATE TABLE gaps ENGINE = ReplacingMergeTree ORDER BY (stream_epoch, partition, seq, reason, from_ordinal) EMPTY AS SELECT * FROM gaps_lake;
CREATE MATERIALIZED VIEW gaps_import TO gaps AS SELECT * FROM gaps_lake;

SELECT toDate(start_time) AS day, agent_type, sum(cost) FROM observations FINAL WHERE kind = 'step' GROUP BY day, agent_type ORDER BY day;
