// Package board has the dashboard of Grafana over the tables of a sink in Postgres. Each query reads one view of package sql, or one table.
package board

import (
	"bytes"
	"encoding/json"
)

// chart is a panel: its query, and how Grafana shows the result.
type chart struct {
	title, description string
	kind, unit         string // of Grafana
	query              string
}

const (
	series = "timeseries" // the columns of the query are time, metric and values
	table  = "table"

	ofTenants = `tenant IN (${tenant:sqlstring})`
)

var charts = []chart{
	{"Cost by agent", "By day (UTC), of all steps with a price, also of those that a cleanup removed.", series, "short", `
SELECT day::timestamp AS time, concat_ws(' ', agent_type, currency) AS metric, sum(cost) AS cost
FROM tailrace.cost_by_agent_day WHERE $__timeFilter(day) AND ` + ofTenants + ` GROUP BY 1, 2 ORDER BY 1`},
	{"Cost by model", "By day (UTC).", series, "short", `
SELECT day::timestamp AS time, concat_ws(' ', model, currency) AS metric, sum(cost) AS cost
FROM tailrace.cost_by_model_day WHERE $__timeFilter(day) AND ` + ofTenants + ` GROUP BY 1, 2 ORDER BY 1`},
	{"Tokens", "By day (UTC), and the steps with tokens but without a price.", series, "short", `
SELECT day::timestamp AS time, sum(input_tokens) AS input, sum(cached_tokens) AS cached, sum(output_tokens) AS output, sum(reasoning_tokens) AS reasoning, sum(steps_without_price) AS steps_without_price
FROM tailrace.cost_by_model_day WHERE $__timeFilter(day) AND ` + ofTenants + ` GROUP BY 1 ORDER BY 1`},
	{"Time to the first token", "By hour: the median and the 95th percentile.", series, "ms", `
SELECT hour AS time, concat_ws(' ', tenant, agent_type, model) AS metric, p50_ms AS p50, p95_ms AS p95
FROM tailrace.first_token WHERE $__timeFilter(hour) AND ` + ofTenants + ` ORDER BY 1`},
	{"Turns", "By hour and state.", series, "short", `
SELECT date_trunc('hour', start_time) AS time, status AS metric, count(*) AS turns
FROM tailrace.turns WHERE $__timeFilter(start_time) AND ` + ofTenants + ` GROUP BY 1, 2 ORDER BY 1`},
	{"Duration of turns", "By hour: the 95th percentile, with and without waits for users.", series, "ms", `
SELECT date_trunc('hour', start_time) AS time, percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms) AS duration, percentile_cont(0.95) WITHIN GROUP (ORDER BY active_ms) AS without_waits
FROM tailrace.turns WHERE $__timeFilter(start_time) AND ` + ofTenants + ` GROUP BY 1 ORDER BY 1`},
	{"Slowest tools", "Milliseconds without the wait for an approval, of all calls.", table, "short", `
SELECT tenant, tool_name, calls, p50_ms, p95_ms, p99_ms, failures, last_time
FROM tailrace.slowest_tools WHERE $__timeFilter(last_time) AND ` + ofTenants + ` ORDER BY p95_ms DESC NULLS LAST LIMIT 20`},
	{"Failing sessions", "Sessions whose latest run failed.", table, "short", `
SELECT failed_time, tenant, root, error_code, status_message, agent_type, user_id
FROM tailrace.failing_sessions WHERE $__timeFilter(failed_time) AND ` + ofTenants + ` ORDER BY failed_time DESC LIMIT 50`},
	{"Approvals", "Approvals of all times: how many wait now and since when, and milliseconds until a decision.", table, "short", `
SELECT tenant, agent_type, tool_name, waiting, waiting_since, approvals, p50_ms, p95_ms, denied, expired
FROM tailrace.approval_waits WHERE ` + ofTenants + ` ORDER BY waiting DESC, p95_ms DESC NULLS LAST LIMIT 20`},
	{"Position", "The newest record in the tables. Its age also rises while the log gets no records; tailrace_sink_lag_seconds does not.", table, "short", `
SELECT name, partition, seq, stored_at, extract(epoch FROM now() - stored_at) AS age_seconds
FROM tailrace.positions ORDER BY stored_at, name, partition`},
	{"Missing records", "Rows of gaps: records that have expired before the sink read them, that the log has lost, or that are malformed.", table, "short", `
SELECT stored_at, reason, tenant, root, partition, from_seq, to_seq, from_ordinal, to_ordinal, detail
FROM tailrace.gaps WHERE reason IN ('expired', 'gap', 'malformed') AND $__timeFilter(stored_at) ORDER BY stored_at DESC LIMIT 50`},
}

const (
	width, height = 12, 8
	sourceType    = "grafana-postgresql-datasource"
)

// source is the data source that a user chooses in the dashboard.
var source = map[string]any{"type": sourceType, "uid": "${datasource}"}

// JSON returns the dashboard.
func JSON() ([]byte, error) {
	panels := make([]any, len(charts))
	for i, c := range charts {
		format := "table"
		if c.kind == series {
			format = "time_series"
		}
		panels[i] = map[string]any{
			"id": i + 1, "type": c.kind, "title": c.title, "description": c.description, "datasource": source,
			"gridPos":     map[string]int{"x": i % 2 * width, "y": i / 2 * height, "w": width, "h": height},
			"targets":     []any{map[string]any{"refId": "A", "datasource": source, "format": format, "rawQuery": true, "editorMode": "code", "rawSql": c.query[1:]}},
			"fieldConfig": map[string]any{"defaults": map[string]any{"unit": c.unit, "min": 0}, "overrides": []any{}},
		}
	}
	board := map[string]any{
		"uid": "tailrace-analytics", "title": "Tailrace analytics", "tags": []string{"tailrace"}, "schemaVersion": 39, "refresh": "1m", "editable": true,
		"time": map[string]any{"from": "now-7d", "to": "now"}, "timezone": "utc", "panels": panels,
		"templating": map[string]any{"list": []any{
			map[string]any{"name": "datasource", "type": "datasource", "query": sourceType},
			map[string]any{
				"name": "tenant", "type": "query", "datasource": source, "query": "SELECT DISTINCT tenant FROM tailrace.sessions ORDER BY 1", "refresh": 2,
				"multi": true, "includeAll": true, "current": map[string]any{"text": "All", "value": "$__all"},
			},
		}},
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(board)
	return out.Bytes(), err
}
