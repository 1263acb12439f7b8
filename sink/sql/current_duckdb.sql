-- Rows that do not count: of records that the log has lost (recreated), and of sessions that were deleted. A gap applies to rows of its own history by their
-- sequence, and to rows of other histories by the time at which their records were stored. DuckDB is ten times faster with these keys than with NOT EXISTS.
create or replace view events_excluded as
select e.stream_epoch, e.partition, e.seq
from events e join gaps g on g.stream_epoch = e.stream_epoch and g.partition = e.partition
where g.reason = 'recreated' and e.seq >= coalesce(g.from_seq, 0) and e.seq <= coalesce(g.to_seq, 9223372036854775807)
union all
select e.stream_epoch, e.partition, e.seq
from events e join gaps g on g.tenant = e.tenant and g.root = e.root and g.partition = e.partition
where g.reason = 'deleted' and (g.session = g.root or g.session = e.session)
  and case when g.stream_epoch = e.stream_epoch then e.seq <= coalesce(g.to_seq, g.seq) else e.stored_at <= g.stored_at end;

create or replace view observations_excluded as
select o.stream_epoch, o.partition, o.seq, o.id
from observations o join gaps g on g.stream_epoch = o.stream_epoch and g.partition = o.partition
where g.reason = 'recreated' and o.seq >= coalesce(g.from_seq, 0) and o.seq <= coalesce(g.to_seq, 9223372036854775807)
union all
select o.stream_epoch, o.partition, o.seq, o.id
from observations o join gaps g on g.tenant = o.tenant and g.root = o.root and g.partition = o.partition
where g.reason = 'deleted' and (g.session = g.root or g.session = o.session)
  and case when g.stream_epoch = o.stream_epoch then o.seq <= coalesce(g.to_seq, g.seq) else o.stored_at <= g.stored_at end;

-- Rows that a cleanup removed.
create or replace view events_removed as
select e.stream_epoch, e.partition, e.seq
from events e join gaps g on g.tenant = e.tenant and g.root = e.root and g.session = e.session
where g.reason = 'removed' and e.ordinal >= g.from_ordinal and e.ordinal <= g.to_ordinal and e.seq >= coalesce(g.from_seq, 0)
  and case when g.stream_epoch = e.stream_epoch then e.seq < g.seq else e.stored_at <= g.stored_at end;

create or replace view observations_removed as
select o.stream_epoch, o.partition, o.seq, o.id
from observations o join gaps g on g.tenant = o.tenant and g.root = o.root and g.session = o.session
where g.reason = 'removed' and o.first_ordinal >= g.from_ordinal and o.first_ordinal <= g.to_ordinal and o.first_seq >= coalesce(g.from_seq, 0)
  and case when g.stream_epoch = o.stream_epoch then o.first_seq < g.seq else o.stored_at <= g.stored_at end;

-- The latest row of each observation. It includes rows of steps and calls that a cleanup removed: they were paid.
create or replace view observations_latest as
select o.* from observations o anti join observations_excluded x using (stream_epoch, partition, seq, id)
qualify row_number() over (partition by o.id order by o.seq desc) = 1;

-- Records and observations as a reader of the session sees them: without those that a cleanup removed.
create or replace view events_current as
select e.* from events e
anti join events_excluded x using (stream_epoch, partition, seq)
anti join events_removed r using (stream_epoch, partition, seq);

create or replace view observations_current as
select o.* from observations_latest o anti join observations_removed r using (stream_epoch, partition, seq, id);
