package main

import (
	"bytes"
	"os"
	"testing"
)

// TestDashboardIsUpToDate compares the dashboard with the list of metrics, which a test of cmd/tailrace compares with what the code registers.
func TestDashboardIsUpToDate(t *testing.T) {
	list, err := os.ReadFile("../metrics.json")
	if err != nil {
		t.Fatal(err)
	}
	stored, err := os.ReadFile("../k8s/components/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	board, err := render(list)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(board, stored) {
		t.Error("k8s/components/monitoring/dashboard.json is not the dashboard of metrics.json; run `make dashboard`")
	}
}
