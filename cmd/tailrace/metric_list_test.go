package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// listedMetric is a metric in the list that the alerts and the dashboard of deploy/ are made of.
type listedMetric struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	Labels []string `json:"labels,omitempty"`
	Help   string   `json:"help"`
}

const metricList = "../../deploy/metrics.json"

// TestMetricList compares the metrics that a process with all roles registers with the list in deploy/. After an intended change:
//
//	make dashboard
func TestMetricList(t *testing.T) {
	server := streamtest.Start(t)
	p := startProcess(t, "up", "--nats-url", server.URL, "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--demo", "0", "--drain", "0s")
	url := p.await(t, `is running: (\S+)`)
	ops := p.awaitOps(t)
	get(t, url+"/healthz", "")
	get(t, url+"/v1/sessions/none/snapshot", "") // the counters of requests exist from the first one
	var got []listedMetric
	// Some series exist once the first probe has run. They are the last ones to appear.
	natstest.Eventually(t, "the metrics of the streams", func(context.Context) error {
		_, text := get(t, ops+"/metrics", "")
		got = readMetrics(text)
		for _, name := range []string{"tailrace_stream_writable", "tailrace_stream_differences", "tailrace_projector_lag_seconds", "tailrace_requests_total"} {
			if !slices.ContainsFunc(got, func(m listedMetric) bool { return m.Name == name }) {
				return fmt.Errorf("no %s", name)
			}
		}
		return nil
	})
	got = append(got, firehoseMetrics(t, server.URL)...)
	slices.SortFunc(got, func(a, b listedMetric) int { return strings.Compare(a.Name, b.Name) })
	var list bytes.Buffer
	enc := json.NewEncoder(&list)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(got); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(metricList, list.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(metricList)
	if err != nil {
		t.Fatal(err)
	}
	if list.String() != string(stored) {
		t.Errorf("the registered metrics differ from %s; run `make dashboard` if the change is intended:\n%s", metricList, list.String())
	}
}

// firehoseMetrics returns the metrics that a durable firehose adds.
func firehoseMetrics(t *testing.T, natsURL string) []listedMetric {
	t.Helper()
	p := startProcess(t, "firehose", "--nats-url", natsURL, "--durable", "lake", "--ack", "written", "--ops", "--ops-listen", "127.0.0.1:0")
	ops := p.awaitOps(t)
	var got []listedMetric
	natstest.Eventually(t, "the lag", func(context.Context) error {
		_, text := get(t, ops+"/metrics", "")
		got = slices.DeleteFunc(readMetrics(text), func(m listedMetric) bool { return !strings.HasPrefix(m.Name, "tailrace_firehose_") })
		if !slices.ContainsFunc(got, func(m listedMetric) bool { return m.Name == "tailrace_firehose_lag_messages" }) {
			return errors.New("no lag")
		}
		return nil
	})
	if status, body := get(t, ops+"/readyz", ""); status != http.StatusOK {
		t.Errorf("readyz of a firehose: %d %s", status, body)
	}
	return got
}

// readMetrics returns the metrics of Tailrace in the text format, by name. Labels are those of any series, without the bounds of histograms.
func readMetrics(text string) (metrics []listedMetric) {
	series := regexp.MustCompile(`^(tailrace_[a-z0-9_]+)\{(.*)\} `)
	label := regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="(?:[^"\\]|\\.)*"`)
	labels := map[string]bool{}
	help := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# HELP tailrace_"); ok {
			_, help, _ = strings.Cut(rest, " ")
			labels = map[string]bool{}
		} else if rest, ok := strings.CutPrefix(line, "# TYPE tailrace_"); ok {
			name, kind, _ := strings.Cut(rest, " ")
			metrics = append(metrics, listedMetric{Name: "tailrace_" + name, Type: kind, Help: help})
		} else if found := series.FindStringSubmatch(line); found != nil {
			for _, l := range label.FindAllStringSubmatch(found[2], -1) {
				if l[1] != "le" {
					labels[l[1]] = true
				}
			}
			metrics[len(metrics)-1].Labels = slices.Sorted(maps.Keys(labels))
		}
	}
	return metrics
}

// TestMetricsPage compares docs/reference/metrics.md with the list in deploy/, which TestMetricList compares with the code.
func TestMetricsPage(t *testing.T) {
	stored, err := os.ReadFile(metricList)
	if err != nil {
		t.Fatal(err)
	}
	var list []listedMetric
	if err := json.Unmarshal(stored, &list); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("# Metrics\n\nEvery metric that the ops listener of a process of `tailrace` serves at `/metrics`.\n\n" +
		"<!-- Written from deploy/metrics.json by `go test ./cmd/tailrace -run TestMetricsPage -update` -->\n\n| metric | type | meaning |\n|---|---|---|\n")
	for _, m := range list {
		name := m.Name
		if len(m.Labels) > 0 {
			name += "{" + strings.Join(m.Labels, ",") + "}"
		}
		want.WriteString("| `" + name + "` | " + m.Type + " | " + strings.ReplaceAll(m.Help, "|", "\\|") + " |\n")
	}
	const page = "../../docs/reference/metrics.md"
	if *update {
		if err := os.WriteFile(page, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != want.String() {
		t.Errorf("%s is out of date (%v): run this test with -update", page, err)
	}
}
