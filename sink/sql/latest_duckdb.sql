-- The latest row of each observation. It includes rows of steps and calls that a cleanup removed: they were paid.
create or replace view observations_latest as
select * from observations_counted qualify row_number() over (partition by id order by seq desc) = 1;
