-- Views over a lake of tailrace-sink: duckdb -init views.sql
set timezone = 'UTC';

create or replace view events as
select * from read_parquet('{lake}/events/*/*.parquet', union_by_name = true, hive_partitioning = false);

create or replace view observations as
select * from read_parquet('{lake}/observations/*/*.parquet', union_by_name = true, hive_partitioning = false);

create or replace view gaps as
select * from read_parquet('{lake}/gaps/*/*.parquet', union_by_name = true, hive_partitioning = false);
