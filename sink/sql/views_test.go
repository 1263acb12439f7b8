package sql_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailrace/tailrace/sink/internal/duckdbtest"
	"github.com/tailrace/tailrace/sink/row"
)

var start = time.Date(2026, 11, 29, 23, 59, 0, 0, time.UTC)

// at is the time some seconds after the start.
func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// observation is a row of session s1 from one second to another one, or without an end.
func observation(seq int64, id string, kind row.Kind, status row.Status, from, to float64) row.Observation {
	o := row.Observation{Place: row.Place{StreamEpoch: "h1", Seq: seq, StoredAt: at(from), Tenant: "acme", Root: "s1", Session: "s1"}}
	o.ID, o.Kind, o.Status, o.StartTime, o.FirstSeq, o.FirstOrdinal = id, kind, status, at(from), seq, seq
	o.SessionID, o.UserID, o.AgentType, o.RunID, o.TurnID = "s1", "ann", "support", "r1", "r1"
	if to > 0 {
		o.EndTime, o.DurationMS = new(at(to)), new(int64(1000*(to-from)))
	}
	return o
}

// turn is a turn over two runs with a sub-agent, an approval, a failed tool and a step that a cleanup removed.
func turn() (observations []row.Observation, gaps []row.Gap) {
	step := func(seq int64, id string, from, to float64, cost row.Money) row.Observation {
		o := observation(seq, id, row.Step, row.Completed, from, to)
		o.Model, o.Provider, o.TimeToFirstTokenMS = "m1", "p1", new(int64(800))
		o.InputTokens, o.OutputTokens = new(int64(100)), new(int64(10))
		if cost > 0 {
			o.Cost, o.Currency = new(cost), "USD"
		}
		return o
	}
	run1 := observation(1, "run1", row.Run, row.Running, 0, 0)
	paused := observation(9, "run1", row.Run, row.Suspended, 0, 10)
	paused.FirstSeq, paused.FirstOrdinal = 1, 1
	tool := observation(6, "tool1", row.Tool, row.Failed, 3, 24)
	tool.ToolName, tool.ParentID = "refund", "step1"
	waiting := observation(7, "wait1", row.Approval, row.Waiting, 4, 0)
	approved := observation(12, "wait1", row.Approval, row.Completed, 4, 20)
	for _, o := range []*row.Observation{&waiting, &approved} {
		o.ToolName, o.ParentID, o.FirstSeq, o.FirstOrdinal = "refund", "tool1", 7, 7
	}
	child := observation(8, "run2", row.Run, row.Completed, 5, 9)
	child.Session, child.Depth, child.AgentType, child.RunID = "s1.sub", 1, "clerk", "r2"
	run3 := observation(20, "run3", row.Run, row.Failed, 20, 30)
	run3.RunID, run3.ErrorCode, run3.StatusMessage = "r3", "model_failed", "the model failed"
	removed := step(14, "step2", 21, 22, 2_000_000_000)
	unpriced := step(18, "step3", 61, 62, 0)
	observations = []row.Observation{run1, step(3, "step1", 1, 3, 1_000_000_000), tool, waiting, child, paused, approved, removed, unpriced, run3}
	gaps = []row.Gap{{Place: row.Place{StreamEpoch: "h1", Seq: 16, StoredAt: at(23), Tenant: "acme", Root: "s1", Session: "s1"}, Reason: row.Removed, FromOrdinal: 13, ToOrdinal: 15}}
	return observations, gaps
}

func TestViews(t *testing.T) {
	db := duckdbtest.Open(t)
	db.Query(views())
	observations, gaps := turn()
	insert(t, db, "observations", observations)
	insert(t, db, "gaps", gaps)
	for _, c := range []struct{ query, want string }{
		{"select id, status from observations_current order by id", "run1 suspended, run2 completed, run3 failed, step1 completed, step3 completed, tool1 failed, wait1 completed"},
		{"select count(*) from observations_latest", "8"},
		{"select status, turns, runs, steps, tool_calls, failed_tool_calls, sub_agents, waiting, input_tokens, cost, last_error_code, last_seq from sessions", "failed 1 2 2 1 1 1 0 300 3.000000000 model_failed 20"},
		{"select runs, sub_agents, duration_ms, wait_ms, active_ms, cost, currency from turns", "2 1 30000 16000 14000 3.000000000 USD"},
		{"select id, depth, offset_ms from tree order by start_time, depth", "run1 0 0, step1 1 1000, tool1 2 3000, wait1 3 4000, run2 3 5000, run3 0 20000, step3 1 61000"},
		{"select day, agent_type, steps, steps_without_price, input_tokens, cost from cost_by_agent_day order by day, cost", "2026-11-29 support 2 0 200 3.000000000, 2026-11-30 support 1 1 100 -"},
		{"select day, user_id, output_tokens from cost_by_user_day order by day", "2026-11-29 ann 20, 2026-11-30 ann 10"},
		{"select day, provider, model, steps from cost_by_model_day order by day", "2026-11-29 p1 m1 2, 2026-11-30 p1 m1 1"},
		{"select tool_name, calls, p50_ms, failures from slowest_tools", "refund 1 5000 1"},
		{"select root, error_code, status_message, agent_type, user_id, run_id from failing_sessions", "s1 model_failed the model failed support ann r3"},
		{"select agent_type, model, steps, p95_ms from first_token order by hour", "support m1 1 800, support m1 1 800"},
		{"select tool_name, approvals, waiting, p50_ms, denied, expired from approval_waits", "refund 1 0 16000 0 0"},
	} {
		if diff := cmp.Diff(c.want, textOf(db, c.query)); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", c.query, diff)
		}
	}
	if got := textOf(db, "select waiting from sessions"); got != "0" {
		t.Errorf("sessions has %s rows that wait", got)
	}
}

// textOf is the result of a query: values separated by spaces, rows by commas. The columns are those of the query.
func textOf(db *duckdbtest.DB, query string) string {
	columns, _, _ := strings.Cut(strings.TrimPrefix(query, "select "), " from ")
	var rows []string
	for _, r := range db.Query(query) {
		var values []string
		for c := range strings.SplitSeq(columns, ", ") {
			if strings.HasPrefix(c, "count(*)") {
				c = "count_star()"
			}
			if v := r[c]; v != nil {
				values = append(values, *v)
			} else {
				values = append(values, "-")
			}
		}
		rows = append(rows, strings.Join(values, " "))
	}
	return strings.Join(rows, ", ")
}

// insert adds rows to a table.
func insert[T any](t *testing.T, db *duckdbtest.DB, table string, rows []T) {
	t.Helper()
	for i := range rows {
		var values []string
		for _, c := range row.Columns[T]() {
			switch v := c.Value(reflect.ValueOf(rows[i])).(type) {
			case nil:
				values = append(values, "null")
			case time.Time:
				values = append(values, "'"+v.Format(time.RFC3339Nano)+"'")
			case row.Money:
				values = append(values, fmt.Sprintf("%d.%09d", v/1_000_000_000, v%1_000_000_000))
			default:
				values = append(values, fmt.Sprintf("'%v'", v))
			}
		}
		db.Query("insert into " + table + " values (" + strings.Join(values, ", ") + ")")
	}
}
