-- The latest row of each observation: the table has one row for each. It includes rows of steps and calls that a cleanup removed: they were paid.
create or replace view observations_latest as
select * from observations_counted;
