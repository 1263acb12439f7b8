package postgres

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace/tailrace/sink/internal/pgtest"
	"github.com/tailrace/tailrace/sink/row"
)

// turn returns the rows of a turn: a run with two steps, of which a cleanup removed the first one, a call with an approval of 10 s, and a call that failed.
func turn() *row.Batch {
	b := &row.Batch{Through: positionAt(20)}
	seq := int64(0)
	add := func(kind row.Kind, id, parent string, status row.Status, from, to time.Duration) *row.Observation {
		seq++
		start, end := firstTime.Add(from), firstTime.Add(to)
		b.Observations = append(b.Observations, row.Observation{
			Place: placeAt(seq, end), ID: id, ParentID: parent, TraceID: "t", Kind: kind, Status: status, StartTime: start, EndTime: &end, DurationMS: new((to - from).Milliseconds()),
			SessionID: "s1", UserID: "ann", AgentType: "helper", RunID: "r1", TurnID: "r1", FirstSeq: seq, FirstOrdinal: seq, LastOrdinal: seq,
		})
		return &b.Observations[len(b.Observations)-1]
	}
	for i, id := range []string{"removed", "step"} {
		step := add(row.Step, id, "run", row.Completed, time.Second, time.Duration(3+i)*time.Second)
		step.Model, step.Provider, step.InputTokens, step.OutputTokens = "m", "p", new(int64(100)), new(int64(10))
		step.Cost, step.Currency, step.TimeToFirstTokenMS = new(row.Money(2_500_000_000)), "USD", new(int64(400))
	}
	call := add(row.Tool, "call", "step", row.Completed, 3*time.Second, 15*time.Second)
	call.ToolName = "search"
	wait := add(row.Approval, "wait", "call", row.Completed, 4*time.Second, 14*time.Second)
	wait.ToolName, wait.Approved = "search", new(true)
	failed := add(row.Tool, "failed call", "step", row.Failed, 5*time.Second, 6*time.Second)
	failed.ToolName = "fetch"
	run := add(row.Run, "run", "", row.Failed, 0, 20*time.Second)
	run.ErrorCode, run.StatusMessage = "timeout", "the model did not answer"
	b.Gaps = []row.Gap{{Place: placeAt(20, firstTime.Add(time.Minute)), Reason: row.Removed, FromOrdinal: 1, ToOrdinal: 1}}
	b.Events = []row.Event{
		{Place: placeAt(1, firstTime), Ordinal: 1, Type: "text_delta", Time: firstTime}, {Place: placeAt(2, firstTime), Ordinal: 2, Type: "text_delta", Time: firstTime},
	}
	return b
}

// TestViews reads every view.
func TestViews(t *testing.T) {
	url := pgtest.Database(t)
	s := openStore(t, url)
	if err := s.Commit(t.Context(), begin(t, s), turn()); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, url)
	for query, want := range map[string]string{
		`SELECT string_agg(ordinal::text, ' ') FROM tailrace.events_current`:                                                                                  "2",
		`SELECT string_agg(id, ', ' ORDER BY seq) FROM tailrace.observations_current`:                                                                         "step, call, wait, failed call, run",
		`SELECT concat_ws(' ', root, user_id, status, duration_ms, wait_ms, active_ms, runs, steps, tool_calls, failed_tool_calls, cost) FROM tailrace.turns`: "s1 ann failed 20000 10000 10000 1 1 2 1 5.000000000",
		`SELECT string_agg(concat_ws(' ', depth, kind, offset_ms), ', ' ORDER BY depth, offset_ms) FROM tailrace.tree`:                                        "0 run 0, 1 step 1000, 2 tool 3000, 2 tool 5000, 3 approval 4000",
		`SELECT concat_ws(' ', day, agent_type, steps, input_tokens, cost) FROM tailrace.cost_by_agent_day`:                                                   "2026-11-28 helper 2 200 5.000000000",
		`SELECT concat_ws(' ', day, user_id, output_tokens, currency) FROM tailrace.cost_by_user_day`:                                                         "2026-11-28 ann 20 USD",
		`SELECT concat_ws(' ', day, provider, model, steps_without_price) FROM tailrace.cost_by_model_day`:                                                    "2026-11-28 p m 0",
		`SELECT string_agg(concat_ws(' ', tool_name, calls, p50_ms, failures), ', ' ORDER BY p95_ms DESC) FROM tailrace.slowest_tools`:                        "search 1 2000 0, fetch 1 1000 1",
		`SELECT concat_ws(' ', root, status, error_code, status_message, user_id) FROM tailrace.failing_sessions`:                                             "s1 failed timeout the model did not answer ann",
		`SELECT concat_ws(' ', agent_type, model, steps, p50_ms) FROM tailrace.first_token`:                                                                   "helper m 1 400",
		`SELECT concat_ws(' ', tool_name, approvals, waiting, p50_ms, denied, expired) FROM tailrace.approval_waits`:                                          "search 1 0 10000 0 0",
		`SELECT concat_ws(' ', root, status, turns, runs, steps, tool_calls, cost, last_error_code, last_seq) FROM tailrace.sessions`:                         "s1 failed 1 1 1 2 5.000000000 timeout 6",
	} {
		rows, err := conn.Query(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[*string])
		if err != nil || got == nil || *got != want {
			t.Errorf("%s: got %v, %v, want %q", query, deref(got), err, want)
		}
	}
	checkSessions(t.Context(), t, conn)
}

// TestReader runs the statements of docs/guides/operate.md: the role of a dashboard reads every table, also one that the sink creates later, and writes none.
func TestReader(t *testing.T) {
	url := pgtest.Database(t)
	s := openStore(t, url)
	if err := s.Commit(t.Context(), begin(t, s), turn()); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/guides/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```sql run=TestReader\n")
	statements, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/guides/operate.md has no statements")
	}
	conn := connect(t, url)
	run := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	run("CREATE ROLE grafana")
	t.Cleanup(func() {
		for _, statement := range []string{"RESET ROLE", "DROP OWNED BY grafana", "DROP ROLE grafana"} {
			if _, err := conn.Exec(context.Background(), statement); err != nil {
				t.Errorf("%s: %v", statement, err)
			}
		}
	})
	run(statements)
	run("CREATE TABLE tailrace.later (id int)")
	run("SET ROLE grafana")
	run("SELECT id FROM tailrace.later")
	rows, err := conn.Query(t.Context(), "SELECT count(*) FROM tailrace.observations_current")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int]); err != nil || n == 0 {
		t.Errorf("%d rows, %v, want some", n, err)
	}
	if _, err := conn.Exec(t.Context(), "DELETE FROM tailrace.events"); err == nil {
		t.Error("the role deletes rows")
	}
}

func deref(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// TestViewsOfAnotherVersion replaces views and sessions that another version has created.
func TestViewsOfAnotherVersion(t *testing.T) {
	url := pgtest.Database(t)
	s := openStore(t, url)
	if err := s.Commit(t.Context(), begin(t, s), turn()); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, url)
	if _, err := conn.Exec(t.Context(), `COMMENT ON VIEW tailrace.sessions_computed IS 'other'; UPDATE tailrace.sessions SET turns = 7; DROP VIEW tailrace.turns`); err != nil {
		t.Fatal(err)
	}
	begin(t, s)
	checkSessions(t.Context(), t, conn)
	if n := queryInt(t, conn, `SELECT count(*) FROM tailrace.turns`); n != 1 {
		t.Errorf("there are %d turns", n)
	}
}
