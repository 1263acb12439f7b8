// Command dashboard writes the dashboard of Grafana with a panel for each metric that Tailrace registers.
//
//	dashboard metrics.json sink-metrics.json > dashboard.json
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// metric is a metric in the lists that tests of cmd/tailrace and of sink/cmd/tailrace-sink write.
type metric struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	Labels []string `json:"labels"`
	Help   string   `json:"help"`
}

// rows are the rows of the dashboard: their titles, and the prefixes of the metrics in them. A metric is in the first row that fits.
var rows = []struct {
	title    string
	prefixes []string
}{
	{"Event streams", []string{"edge_"}},
	{"Chats", []string{"chat_"}},
	{"Requests and limits", []string{"requests_", "limits_", "auth_"}},
	{"Hub", []string{"hub_"}},
	{"Ingest and publishing", []string{"ingest_", "publish_", "producer_"}},
	{"Workers and runs", []string{"worker_", "runs_", "command", "approvals_", "usage_"}},
	{"Projector and snapshots", []string{"projector_", "snapshot_"}},
	{"Sink", []string{"sink_"}},
	{"NATS and storage", []string{"nats_", "stream_", "dependency_"}},
	{"Other", []string{""}},
}

type panel struct {
	ID          int            `json:"id"`
	Type        string         `json:"type"`
	Title       string         `json:"title"`
	Description string         `json:"description,omitempty"`
	GridPos     map[string]int `json:"gridPos"`
	Datasource  map[string]any `json:"datasource,omitempty"`
	Targets     []target       `json:"targets,omitempty"`
	FieldConfig any            `json:"fieldConfig,omitempty"`
	Collapsed   *bool          `json:"collapsed,omitempty"`
	Panels      []panel        `json:"panels,omitempty"`
}

type target struct {
	RefID  string `json:"refId"`
	Expr   string `json:"expr"`
	Legend string `json:"legendFormat"`
}

const (
	columns = 3
	width   = 24 / columns
	height  = 7
	pods    = `{namespace="$namespace"}`
)

// source is the data source that a user chooses in the dashboard.
var source = map[string]any{"type": "prometheus", "uid": "${datasource}"}

func main() {
	board, err := render(os.Args[1:])
	if err != nil {
		fatal(err)
	}
	if _, err := os.Stdout.Write(board); err != nil {
		fatal(err)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "dashboard:", err)
	os.Exit(1)
}

// render returns the dashboard for the metrics of several files.
func render(files []string) ([]byte, error) {
	var metrics []metric
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // an argument of the user
		if err != nil {
			return nil, err
		}
		var list []metric
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		metrics = append(metrics, list...)
	}
	panels := overview()
	id, y := len(panels)+1, 1+height
	for i, row := range rows {
		title := panel{ID: id, Type: "row", Title: row.title, GridPos: position(0, y, 24, 1), Collapsed: new(false), Panels: []panel{}}
		id, y = id+1, y+1
		var inRow []panel
		for _, m := range metrics {
			if rowOf(m) == i {
				n := len(inRow)
				inRow = append(inRow, panelOf(m, id, position(n%columns*width, y+n/columns*height, width, height)))
				id++
			}
		}
		if inRow != nil {
			panels = append(append(panels, title), inRow...)
			y += (len(inRow) + columns - 1) / columns * height
		}
	}
	board := map[string]any{
		"uid": "tailrace", "title": "Tailrace", "tags": []string{"tailrace"}, "schemaVersion": 39, "refresh": "30s", "editable": true,
		"time": map[string]any{"from": "now-1h", "to": "now"}, "panels": panels,
		"templating": map[string]any{"list": []any{
			map[string]any{"name": "datasource", "type": "datasource", "query": "prometheus"},
			map[string]any{"name": "namespace", "type": "query", "datasource": source, "query": "label_values(tailrace_build_info, namespace)", "refresh": 2},
		}},
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(board)
	return out.Bytes(), err
}

// overview returns the first row: what users notice.
func overview() []panel {
	rate := pods + "[$__rate_interval]"
	quantile := func(q, metric string) string {
		return "histogram_quantile(" + q + ", sum by (le) (rate(" + metric + "_bucket" + rate + ")))"
	}
	panels := []panel{{ID: 1, Type: "row", Title: "Overview", GridPos: position(0, 0, 24, 1), Collapsed: new(false), Panels: []panel{}}}
	for i, p := range []struct {
		title, unit string
		targets     []target
	}{
		{"Open event streams and chats", "short", []target{{"A", "sum(tailrace_edge_connections" + pods + ")", "event streams"}, {"B", "sum(tailrace_chat_streams" + pods + ")", "chats"}}},
		{"Time from a message to the answer", "s", []target{{"A", quantile("0.5", "tailrace_chat_first_answer_seconds"), "p50"}, {"B", quantile("0.99", "tailrace_chat_first_answer_seconds"), "p99"}}},
		{"Failed commands, and runs that lost their worker", "cps", []target{
			{"A", `sum by (agent_type) (rate(tailrace_worker_commands_total{namespace="$namespace", result="failed"}[$__rate_interval]))`, "failed {{agent_type}}"},
			{"B", "sum by (reason) (rate(tailrace_runs_ended_without_worker_total" + rate + "))", "without worker {{reason}}"},
		}},
		{"Age of what readers and snapshots lack", "s", []target{{"A", quantile("0.99", "tailrace_edge_delivery_seconds"), "delivery p99"}, {"B", "max(tailrace_projector_lag_seconds" + pods + ")", "snapshots"}}},
	} {
		panels = append(panels, panel{
			ID: i + 2, Type: "timeseries", Title: p.title, GridPos: position(i*6, 1, 6, height), Datasource: source, Targets: p.targets,
			FieldConfig: map[string]any{"defaults": map[string]any{"unit": p.unit, "min": 0}, "overrides": []any{}},
		})
	}
	return panels
}

func position(x, y, w, h int) map[string]int { return map[string]int{"x": x, "y": y, "w": w, "h": h} }

func rowOf(m metric) int {
	return slices.IndexFunc(rows, func(r struct {
		title    string
		prefixes []string
	},
	) bool {
		return slices.ContainsFunc(r.prefixes, func(prefix string) bool { return strings.HasPrefix(m.Name, "tailrace_"+prefix) })
	})
}

func panelOf(m metric, id int, at map[string]int) panel {
	return panel{
		ID: id, Type: "timeseries", Title: strings.ReplaceAll(strings.TrimPrefix(m.Name, "tailrace_"), "_", " "), Description: m.Help,
		GridPos: at, Datasource: source, Targets: targetsOf(m), FieldConfig: map[string]any{"defaults": map[string]any{"unit": unitOf(m), "min": 0}, "overrides": []any{}},
	}
}

// targetsOf returns the queries of a metric: the rate of a counter, the median and the 99th percentile of a histogram, and a gauge by its labels and its pod.
func targetsOf(m metric) []target {
	by, legend := "", "all"
	if len(m.Labels) > 0 {
		by, legend = " by ("+strings.Join(m.Labels, ", ")+")", "{{"+strings.Join(m.Labels, "}} {{")+"}}"
	}
	switch m.Type {
	case "counter":
		return []target{{"A", "sum" + by + " (rate(" + m.Name + pods + "[$__rate_interval]))", legend}}
	case "histogram":
		var targets []target
		for i, q := range []string{"0.5", "0.99"} {
			targets = append(targets, target{
				string(rune('A' + i)),
				"histogram_quantile(" + q + ", sum by (" + strings.Join(append(slices.Clone(m.Labels), "le"), ", ") + ") (rate(" + m.Name + "_bucket" + pods + "[$__rate_interval])))",
				strings.TrimPrefix(legend+" ", "all ") + "p" + strings.TrimPrefix(q, "0."),
			})
		}
		return targets
	}
	return []target{{"A", "max by (" + strings.Join(append(slices.Clone(m.Labels), "pod"), ", ") + ") (" + m.Name + pods + ")", strings.TrimPrefix(legend+" ", "all ") + "{{pod}}"}}
}

// unitOf returns Grafana's name of the unit at the end of a metric's name.
func unitOf(m metric) string {
	name := strings.TrimSuffix(m.Name, "_total")
	switch {
	case strings.HasSuffix(name, "_seconds"):
		return "s"
	case strings.HasSuffix(name, "bytes") && m.Type == "counter", strings.HasSuffix(name, "bytes_sent"):
		return "Bps"
	case strings.HasSuffix(name, "bytes"):
		return "bytes"
	case m.Type == "counter":
		return "ops"
	}
	return "short"
}
