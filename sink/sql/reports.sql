-- A row for each turn, over all its runs and sub-agents. wait_ms is the time in which at least one approval or tool of a client was open; duration_ms includes it.
create or replace view turns as
with waits as (
  select
    tenant, root, turn_id, start_time, end_time,
    max(end_time) over (partition by tenant, root, turn_id order by start_time, id rows between unbounded preceding and 1 preceding) as covered
  from observations_current
  where kind in ('approval', 'client_tool') and end_time is not null
),
waited as (
  select
    tenant, root, turn_id,
    cast(round(1000 * sum(extract(epoch from (greatest(end_time, covered) - greatest(start_time, covered))))) as bigint) as wait_ms
  from waits
  group by tenant, root, turn_id
),
shown as (
  select
    tenant, root, turn_id, min(trace_id) as trace_id,
    (array_agg(user_id order by start_time, first_seq) filter (where kind = 'run' and depth = 0))[1] as user_id,
    (array_agg(agent_type order by start_time, first_seq) filter (where kind = 'run' and depth = 0))[1] as agent_type,
    (array_agg(status order by start_time desc, first_seq desc) filter (where kind = 'run' and depth = 0))[1] as status,
    min(start_time) filter (where kind = 'run') as start_time,
    max(end_time) filter (where kind = 'run') as end_time,
    cast(round(1000 * extract(epoch from (max(end_time) filter (where kind = 'run') - min(start_time) filter (where kind = 'run')))) as bigint) as duration_ms,
    count(*) filter (where kind = 'run' and depth = 0) as runs,
    count(distinct session) filter (where kind = 'run' and depth > 0) as sub_agents,
    count(*) filter (where kind = 'step') as steps,
    count(*) filter (where kind = 'tool') as tool_calls,
    count(*) filter (where kind = 'tool' and status in ('failed', 'rejected')) as failed_tool_calls,
    count(*) filter (where status = 'waiting') as waiting
  from observations_current
  group by tenant, root, turn_id
),
paid as (
  select
    tenant, root, turn_id,
    cast(sum(input_tokens) as bigint) as input_tokens,
    cast(sum(output_tokens) as bigint) as output_tokens,
    case when count(distinct currency) <= 1 then sum(cost) end as cost,
    case when count(distinct currency) <= 1 then max(currency) end as currency
  from observations_latest
  where kind = 'step'
  group by tenant, root, turn_id
)
select
  s.tenant, s.root, s.turn_id, s.trace_id, s.user_id, s.agent_type, s.status, s.start_time, s.end_time, s.duration_ms,
  coalesce(w.wait_ms, 0) as wait_ms, case when s.duration_ms > coalesce(w.wait_ms, 0) then s.duration_ms - coalesce(w.wait_ms, 0) when s.duration_ms is not null then 0 end as active_ms,
  s.runs, s.sub_agents, s.steps, s.tool_calls, s.failed_tool_calls, s.waiting, p.input_tokens, p.output_tokens, p.cost, p.currency
from shown s
left join waited w on w.tenant = s.tenant and w.root = s.root and w.turn_id is not distinct from s.turn_id
left join paid p on p.tenant = s.tenant and p.root = s.root and p.turn_id is not distinct from s.turn_id;

-- Observations of a session with their depth and their offset from the start of the turn, for a waterfall: filter by tenant and root, order by start_time and depth.
create or replace view tree as
select
  tenant, root, turn_id, session, id, parent_id,
  3 * depth + case kind when 'run' then 0 when 'step' then 1 when 'tool' then 2 else 3 end as depth,
  kind, name, status, start_time, end_time, duration_ms,
  cast(round(1000 * extract(epoch from (start_time - min(start_time) over (partition by tenant, root, turn_id)))) as bigint) as offset_ms,
  model, input_tokens, output_tokens, cost, error_code
from observations_current;

create or replace view cost_by_agent_day as
select
  cast(start_time at time zone 'UTC' as date) as day, tenant, agent_type, currency,
  count(*) as steps, count(*) filter (where cost is null and coalesce(input_tokens, output_tokens) is not null) as steps_without_price,
  cast(sum(input_tokens) as bigint) as input_tokens, cast(sum(output_tokens) as bigint) as output_tokens, cast(sum(cached_tokens) as bigint) as cached_tokens,
  cast(sum(cache_write_tokens) as bigint) as cache_write_tokens, cast(sum(reasoning_tokens) as bigint) as reasoning_tokens, sum(cost) as cost
from observations_latest
where kind = 'step'
group by 1, 2, 3, 4;

create or replace view cost_by_user_day as
select
  cast(start_time at time zone 'UTC' as date) as day, tenant, user_id, user_issuer, currency,
  count(*) as steps, count(*) filter (where cost is null and coalesce(input_tokens, output_tokens) is not null) as steps_without_price,
  cast(sum(input_tokens) as bigint) as input_tokens, cast(sum(output_tokens) as bigint) as output_tokens, cast(sum(cached_tokens) as bigint) as cached_tokens,
  cast(sum(cache_write_tokens) as bigint) as cache_write_tokens, cast(sum(reasoning_tokens) as bigint) as reasoning_tokens, sum(cost) as cost
from observations_latest
where kind = 'step'
group by 1, 2, 3, 4, 5;

create or replace view cost_by_model_day as
select
  cast(start_time at time zone 'UTC' as date) as day, tenant, provider, model, currency,
  count(*) as steps, count(*) filter (where cost is null and coalesce(input_tokens, output_tokens) is not null) as steps_without_price,
  cast(sum(input_tokens) as bigint) as input_tokens, cast(sum(output_tokens) as bigint) as output_tokens, cast(sum(cached_tokens) as bigint) as cached_tokens,
  cast(sum(cache_write_tokens) as bigint) as cache_write_tokens, cast(sum(reasoning_tokens) as bigint) as reasoning_tokens, sum(cost) as cost
from observations_latest
where kind = 'step'
group by 1, 2, 3, 4, 5;

-- Tools that ended, without the time in which a call waited for an approval.
create or replace view slowest_tools as
with approvals as (
  select parent_id, sum(duration_ms) as wait_ms from observations_current where kind = 'approval' group by parent_id
),
calls as (
  select t.tenant, t.tool_name, t.status, t.start_time, greatest(t.duration_ms - coalesce(a.wait_ms, 0), 0) as duration_ms
  from observations_current t left join approvals a on a.parent_id = t.id
  where t.kind = 'tool' and t.duration_ms is not null
)
select
  tenant, tool_name, count(*) as calls,
  percentile_cont(0.5) within group (order by duration_ms) as p50_ms,
  percentile_cont(0.95) within group (order by duration_ms) as p95_ms,
  percentile_cont(0.99) within group (order by duration_ms) as p99_ms,
  count(*) filter (where status in ('failed', 'rejected')) as failures, max(start_time) as last_time
from calls
group by tenant, tool_name
order by p95_ms desc nulls last;

-- Sessions whose latest run failed, with the error of that run.
create or replace view failing_sessions as
with latest as (
  select
    tenant, root, status, error_code, status_message, agent_type, user_id, run_id, coalesce(end_time, start_time) as failed_time,
    row_number() over (partition by tenant, root order by start_time desc, first_seq desc) as place
  from observations_current
  where kind = 'run' and depth = 0
)
select tenant, root, failed_time, status, error_code, status_message, agent_type, user_id, run_id
from latest
where place = 1 and status in ('failed', 'abandoned')
order by failed_time desc;

create or replace view first_token as
select
  date_trunc('hour', start_time at time zone 'UTC') as hour, tenant, agent_type, model, count(*) as steps,
  percentile_cont(0.5) within group (order by time_to_first_token_ms) as p50_ms,
  percentile_cont(0.95) within group (order by time_to_first_token_ms) as p95_ms,
  percentile_cont(0.99) within group (order by time_to_first_token_ms) as p99_ms
from observations_current
where kind = 'step' and time_to_first_token_ms is not null
group by 1, 2, 3, 4;

-- Approvals by tool. An approval expired if it ended at its deadline or later without a decision.
create or replace view approval_waits as
select
  tenant, agent_type, tool_name, count(*) as approvals,
  count(*) filter (where status = 'waiting') as waiting, min(start_time) filter (where status = 'waiting') as waiting_since,
  percentile_cont(0.5) within group (order by duration_ms) as p50_ms,
  percentile_cont(0.95) within group (order by duration_ms) as p95_ms,
  count(*) filter (where status = 'denied') as denied,
  count(*) filter (where approved is null and end_time >= deadline) as expired
from observations_current
where kind = 'approval'
group by tenant, agent_type, tool_name;
