package board

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/internal/pgtest"
	"github.com/tailrace/tailrace/sink/postgres"
	"github.com/tailrace/tailrace/sink/row"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var update = flag.Bool("update", false, "write the dashboard")

const boardFile = "../../../deploy/grafana/analytics.json"

// file is the dashboard, as far as it is checked here.
type file struct {
	Panels []struct {
		Title   string `json:"title"`
		Targets []struct {
			Format string `json:"format"`
			SQL    string `json:"rawSql"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name  string `json:"name"`
			Query string `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

// TestBoard compares the file with the dashboard, and runs each of its queries on a database with rows. After an intended change:
//
//	make dashboard
func TestBoard(t *testing.T) {
	want, err := JSON()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(boardFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(boardFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) {
		t.Errorf("%s is not the dashboard; run `make dashboard`", boardFile)
	}
	var board file
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	url := pgtest.Database(t)
	store(t, url)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, panel := range board.Panels {
		t.Run(panel.Title, func(t *testing.T) {
			checkQuery(t, conn, panel.Targets[0].SQL, panel.Targets[0].Format == "time_series")
		})
	}
	checkQuery(t, conn, board.Templating.List[1].Query, false)
}

var timeFilter = regexp.MustCompile(`\$__timeFilter\((\w+)\)`)

// checkQuery runs a query with what Grafana writes for its macros. A time series has one column with times, and texts only in the column metric.
func checkQuery(t *testing.T, conn *pgx.Conn, query string, isSeries bool) {
	t.Helper()
	query = timeFilter.ReplaceAllString(query, "$1 BETWEEN '2026-11-28T10:00:00Z' AND '2026-11-30T00:00:00Z'")
	query = strings.ReplaceAll(query, "${tenant:sqlstring}", "'acme','zeta'")
	rows, err := conn.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	fields := rows.FieldDescriptions()
	all, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d rows, %v from %s", len(all), err, query)
	}
	for _, f := range fields {
		isTime := f.DataTypeOID == pgtype.TimestampOID || f.DataTypeOID == pgtype.TimestamptzOID
		isText := f.DataTypeOID == pgtype.TextOID
		if isSeries && (isTime != (f.Name == "time") || isText != (f.Name == "metric")) {
			t.Errorf("column %s has the type %d", f.Name, f.DataTypeOID)
		}
		if all[0][f.Name] == nil && f.Name != "detail" && !strings.HasPrefix(f.Name, "from_") {
			t.Errorf("column %s has no value in %v", f.Name, all[0])
		}
	}
}

// store writes rows of each kind with the store of the sink.
func store(t *testing.T, url string) {
	t.Helper()
	s, err := postgres.Open(postgres.Config{URL: url, Name: "board"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	positions, err := s.Begin(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	place := row.Place{StreamEpoch: "h", Seq: 9, StoredAt: at, Tenant: "acme", Root: "s1", Session: "s1"}
	observation := func(id string, kind row.Kind, status row.Status) row.Observation {
		return row.Observation{
			Place: place, ID: id, TraceID: "t", Kind: kind, Name: id, Status: status, StartTime: at, EndTime: new(at.Add(time.Second)), DurationMS: new(int64(1000)),
			SessionID: "s1", UserID: "ann", AgentType: "assistant", RunID: "r1", TurnID: "r1", FirstSeq: 1, FirstOrdinal: 1, LastOrdinal: 9,
		}
	}
	run := observation("run", row.Run, row.Failed)
	run.ErrorCode, run.StatusMessage = "timeout", "the model did not respond"
	step := observation("step", row.Step, row.Completed)
	step.ParentID, step.Model, step.Provider, step.TimeToFirstTokenMS = "run", "m1", "p1", new(int64(300))
	step.InputTokens, step.CachedTokens, step.OutputTokens, step.ReasoningTokens = new(int64(100)), new(int64(50)), new(int64(20)), new(int64(5))
	step.Cost, step.Currency, step.CostSource = new(row.Money(1_500_000)), "USD", "list"
	tool := observation("call", row.Tool, row.Completed)
	tool.ParentID, tool.ToolName, tool.ToolCallID = "step", "search", "c1"
	decided, waiting := observation("wait1", row.Approval, row.Completed), observation("wait2", row.Approval, row.Waiting)
	decided.ParentID, decided.ToolName, decided.Approved = "call", "search", new(true)
	waiting.ParentID, waiting.ToolName, waiting.EndTime, waiting.DurationMS = "call", "search", nil, nil
	batch := &row.Batch{
		Through:      row.Position{Generation: 1, History: "h", Seq: 9, Anchor: chunk.AnchorAt(at), StoredAt: at},
		Observations: []row.Observation{run, step, tool, decided, waiting},
		Gaps:         []row.Gap{{Place: place, Reason: row.Expired, FromSeq: new(int64(1)), ToSeq: new(int64(3))}},
	}
	if err := s.Commit(t.Context(), positions[0], batch); err != nil {
		t.Fatal(err)
	}
}
