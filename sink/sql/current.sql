-- Records and observations as a reader of the session sees them: without those that a cleanup removed.
create or replace view events_current as
select e.* from events_counted e
where not exists (
  select 1 from gaps g
  where g.reason = 'removed' and g.tenant = e.tenant and g.root = e.root and g.session = e.session
    and e.ordinal >= g.from_ordinal and e.ordinal <= g.to_ordinal
    and case when g.stream_epoch = e.stream_epoch then e.seq < g.seq else e.stored_at <= g.stored_at end);

create or replace view observations_current as
select o.* from observations_latest o
where not exists (
  select 1 from gaps g
  where g.reason = 'removed' and g.tenant = o.tenant and g.root = o.root and g.session = o.session
    and o.first_ordinal >= g.from_ordinal and o.first_ordinal <= g.to_ordinal
    and case when g.stream_epoch = o.stream_epoch then o.first_seq < g.seq else o.stored_at <= g.stored_at end);
