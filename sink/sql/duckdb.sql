-- Views over a lake of tailrace-sink: duckdb -init views.sql
set timezone = 'UTC';

-- The files p* have the rows as they were stored, and the files m* are merged from them. Rows of records before merged_end are taken from merged files, and the others
-- from the files p*. Both have them for an hour.
create or replace view merged as
select m."table", m.partition, m.generation, m."end" as merged_end
from (
  select unnest(merged) as m
  from read_json('{lake}/maintained/*.json', columns = {merged: 'struct("table" varchar, partition bigint, generation bigint, "end" bigint)[]'})
);

create or replace view events as
select f.* exclude (filename)
from read_parquet('{lake}/events/*/*.parquet', union_by_name = true, hive_partitioning = false, filename = true) f
left join merged m on m."table" = 'events'
  and m.partition || '-g' || m.generation = regexp_extract(f.filename, '[pm]([0-9]+-g[0-9]+)-[0-9]+\.parquet$', 1)
where regexp_matches(f.filename, '/m[^/]*$') = (cast(regexp_extract(f.filename, '([0-9]+)\.parquet$', 1) as bigint) < coalesce(m.merged_end, 0));

create or replace view observations as
select f.* exclude (filename)
from read_parquet('{lake}/observations/*/*.parquet', union_by_name = true, hive_partitioning = false, filename = true) f
left join merged m on m."table" = 'observations'
  and m.partition || '-g' || m.generation = regexp_extract(f.filename, '[pm]([0-9]+-g[0-9]+)-[0-9]+\.parquet$', 1)
where regexp_matches(f.filename, '/m[^/]*$') = (cast(regexp_extract(f.filename, '([0-9]+)\.parquet$', 1) as bigint) < coalesce(m.merged_end, 0));

create or replace view gaps as
select f.* exclude (filename)
from read_parquet('{lake}/gaps/*/*.parquet', union_by_name = true, hive_partitioning = false, filename = true) f
left join merged m on m."table" = 'gaps'
  and m.partition || '-g' || m.generation = regexp_extract(f.filename, '[pm]([0-9]+-g[0-9]+)-[0-9]+\.parquet$', 1)
where regexp_matches(f.filename, '/deleted-[^/]*$')
  or regexp_matches(f.filename, '/m[^/]*$') = (try_cast(regexp_extract(f.filename, '([0-9]+)\.parquet$', 1) as bigint) < coalesce(m.merged_end, 0));
