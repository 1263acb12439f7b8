package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/sink/export"
	"github.com/tailrace/tailrace/sink/otlp"
	"github.com/tailrace/tailrace/sink/run"
)

var update = flag.Bool("update", false, "write the list of metrics")

// metricList is the list that alerts and the dashboard of deploy/ are compared with, beside metrics.json for the program tailrace.
const metricList = "../../../deploy/sink-metrics.json"

// listedMetric is a metric of the list.
type listedMetric struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	Labels []string `json:"labels,omitempty"`
	Help   string   `json:"help"`
}

// TestMetricList compares the metrics that a sink registers with the list in deploy/. After an intended change:
//
//	make dashboard
func TestMetricList(t *testing.T) {
	var list collected
	if _, err := run.NewMetrics(&list); err != nil {
		t.Fatal(err)
	}
	if _, err := export.NewMetrics(&list); err != nil {
		t.Fatal(err)
	}
	if _, err := otlp.New(&url.URL{Scheme: "otlp+http", Host: "localhost"}, "", &list, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(list.metrics, func(a, b listedMetric) int { return strings.Compare(a.Name, b.Name) })
	// The lag of stores and of exports has one name.
	list.metrics = slices.CompactFunc(list.metrics, func(a, b listedMetric) bool {
		return a.Name == b.Name && a.Type == b.Type && slices.Equal(a.Labels, b.Labels)
	})
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(list.metrics); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(metricList, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(metricList)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(stored) {
		t.Errorf("the registered metrics differ from %s; run `make dashboard` if the change is intended:\n%s", metricList, text.String())
	}
}

// collected is a prometheus.Registerer that lists what is registered.
type collected struct{ metrics []listedMetric }

var description = regexp.MustCompile(`fqName: "([^"]*)", help: "([^"]*)", unit: "[^"]*", constLabels: \{\}, variableLabels: \{([^}]*)\}`)

func (c *collected) Register(collector prometheus.Collector) error {
	kind := "histogram"
	switch collector.(type) {
	case *prometheus.GaugeVec, prometheus.Gauge:
		kind = "gauge"
	case *prometheus.CounterVec, prometheus.Counter:
		kind = "counter"
	}
	descriptions := make(chan *prometheus.Desc, 1)
	collector.Describe(descriptions)
	found := description.FindStringSubmatch((<-descriptions).String())
	m := listedMetric{Name: found[1], Type: kind, Help: found[2]}
	if found[3] != "" {
		m.Labels = strings.Split(found[3], ",")
	}
	c.metrics = append(c.metrics, m)
	return nil
}

func (c *collected) MustRegister(collectors ...prometheus.Collector) {
	for _, collector := range collectors {
		if err := c.Register(collector); err != nil {
			panic(err)
		}
	}
}

func (c *collected) Unregister(prometheus.Collector) bool { return false }
