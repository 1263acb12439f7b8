-- Rows that count: without records that the log has lost (recreated) and without sessions that were deleted. A gap applies to rows of its own history by their
-- sequence, and to rows of other histories by the time at which their records were stored.
create or replace view events_counted as
select e.* from events e
where not exists (
  select 1 from gaps g
  where g.reason = 'recreated' and g.stream_epoch = e.stream_epoch and g.partition = e.partition
    and e.seq >= coalesce(g.from_seq, 0) and e.seq <= coalesce(g.to_seq, 9223372036854775807))
and not exists (
  select 1 from gaps g
  where g.reason = 'deleted' and g.tenant = e.tenant and g.root = e.root and g.partition = e.partition
    and (g.session = g.root or g.session = e.session)
    and case when g.stream_epoch = e.stream_epoch then e.seq <= coalesce(g.to_seq, g.seq) else e.stored_at <= g.stored_at end);

create or replace view observations_counted as
select o.* from observations o
where not exists (
  select 1 from gaps g
  where g.reason = 'recreated' and g.stream_epoch = o.stream_epoch and g.partition = o.partition
    and o.seq >= coalesce(g.from_seq, 0) and o.seq <= coalesce(g.to_seq, 9223372036854775807))
and not exists (
  select 1 from gaps g
  where g.reason = 'deleted' and g.tenant = o.tenant and g.root = o.root and g.partition = o.partition
    and (g.session = g.root or g.session = o.session)
    and case when g.stream_epoch = o.stream_epoch then o.seq <= coalesce(g.to_seq, g.seq) else o.stored_at <= g.stored_at end);

-- The latest row of each observation: the table has one row for each. It includes rows of steps and calls that a cleanup removed: they were paid.
create or replace view observations_latest as
select * from observations_counted;

-- Records and observations as a reader of the session sees them: without those that a cleanup removed.
create or replace view events_current as
select e.* from events_counted e
where not exists (
  select 1 from gaps g
  where g.reason = 'removed' and g.tenant = e.tenant and g.root = e.root and g.session = e.session
    and e.ordinal >= g.from_ordinal and e.ordinal <= g.to_ordinal and e.seq >= coalesce(g.from_seq, 0)
    and case when g.stream_epoch = e.stream_epoch then e.seq < g.seq else e.stored_at <= g.stored_at end);

create or replace view observations_current as
select o.* from observations_latest o
where not exists (
  select 1 from gaps g
  where g.reason = 'removed' and g.tenant = o.tenant and g.root = o.root and g.session = o.session
    and o.first_ordinal >= g.from_ordinal and o.first_ordinal <= g.to_ordinal and o.first_seq >= coalesce(g.from_seq, 0)
    and case when g.stream_epoch = o.stream_epoch then o.first_seq < g.seq else o.stored_at <= g.stored_at end);
