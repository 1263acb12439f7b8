-- A row for each session with its sub-agents. Tokens and cost include removed steps; cost is null if its steps have several currencies.
create or replace view sessions as
with shown as (
  select
    tenant, root,
    (array_agg(user_id order by start_time desc, first_seq desc) filter (where kind = 'run' and depth = 0))[1] as user_id,
    (array_agg(agent_type order by start_time desc, first_seq desc) filter (where kind = 'run' and depth = 0))[1] as agent_type,
    min(start_time) as first_time,
    max(coalesce(end_time, start_time)) as last_time,
    (array_agg(status order by start_time desc, first_seq desc) filter (where kind = 'run' and depth = 0))[1] as status,
    count(distinct turn_id) filter (where kind = 'run') as turns,
    count(*) filter (where kind = 'run' and depth = 0) as runs,
    count(*) filter (where kind = 'step') as steps,
    count(*) filter (where kind = 'tool') as tool_calls,
    count(*) filter (where kind = 'tool' and status in ('failed', 'rejected')) as failed_tool_calls,
    count(distinct session) filter (where kind = 'run' and depth > 0) as sub_agents,
    count(*) filter (where status = 'waiting') as waiting,
    (array_agg(error_code order by start_time desc, first_seq desc) filter (where kind = 'run' and error_code is not null))[1] as last_error_code,
    max(seq) as last_seq
  from observations_current
  group by tenant, root
),
paid as (
  select
    tenant, root,
    cast(sum(input_tokens) as bigint) as input_tokens,
    cast(sum(output_tokens) as bigint) as output_tokens,
    case when count(distinct currency) <= 1 then sum(cost) end as cost,
    case when count(distinct currency) <= 1 then max(currency) end as currency
  from observations_latest
  where kind = 'step'
  group by tenant, root
)
select
  s.tenant, s.root, s.user_id, s.agent_type, s.first_time, s.last_time, s.status, s.turns, s.runs, s.steps, s.tool_calls, s.failed_tool_calls, s.sub_agents,
  s.waiting, p.input_tokens, p.output_tokens, p.cost, p.currency, s.last_error_code, s.last_seq
from shown s left join paid p on p.tenant = s.tenant and p.root = s.root;
