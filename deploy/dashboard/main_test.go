package main

import (
	"bytes"
	"os"
	"testing"
)

// TestDashboardIsUpToDate compares the dashboard with the lists of metrics, which tests of the programs compare with what the code registers.
func TestDashboardIsUpToDate(t *testing.T) {
	stored, err := os.ReadFile("../k8s/components/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	board, err := render([]string{"../metrics.json", "../sink-metrics.json"})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(board, stored) {
		t.Error("k8s/components/monitoring/dashboard.json is not the dashboard of metrics.json and sink-metrics.json; run `make dashboard`")
	}
}
