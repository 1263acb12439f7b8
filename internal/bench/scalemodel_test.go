package bench

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-6*max(1, math.Abs(want)) }

// The fit minimizes the squares: one value that is too large by 3 among three equal rows moves a constant by 1.
func TestLeastSquares(t *testing.T) {
	got, err := leastSquares([][]float64{{1}, {1}, {1}}, []float64{5, 5, 8})
	if err != nil || !near(got[0], 6) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := leastSquares([][]float64{{1, 2}, {2, 4}}, []float64{1, 2}); err == nil {
		t.Error("rows that do not determine the coefficients have a fit")
	}
	// The errors count as shares of the value: 1 of 2 more than 100 of 1000.
	if got, err = relativeFit([][]float64{{1}, {1}}, []float64{1, 100}); err != nil || !(got[0] < 2) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := relativeFit([][]float64{{1}}, []float64{0}); err == nil {
		t.Error("a cost of 0 was fitted")
	}
}

var testModel = costModel{
	Servers: map[int]serverCost{
		1: {Store: 90, Send: 20, Partition: 1, Idle: 1500, IdlePartition: 20, IdleFeed: 5},
		3: {Store: 450, Send: 15, Partition: 8, Idle: 15_000, IdlePartition: 700, IdleFeed: 80},
	},
	Edge:       edgeCost{Receive: 50, Deliver: 12, Idle: 500, IdlePartition: 3},
	Loaded:     serverCost{Store: 200, Send: 15},
	LoadedEdge: edgeCost{Receive: 20, Deliver: 8},
}

// exactly returns measurements that the test model predicts exactly.
func exactly(load scaleLoad) map[size][]usage {
	all := make(map[size][]usage)
	for _, s := range slices.Concat(fitted, heldOut) {
		u := testModel.predict(s, load)
		u.Rate = float64(s.Rate)
		all[s] = []usage{u, {}, {Server: 1e6, ServerIdle: 1e6, Edge: 1e6, EdgeIdle: 1e6, Rate: 1e6}} // the outliers do not move the median
	}
	for _, s := range loaded {
		d := float64(load.readers) / float64(s.Edges)
		all[s] = []usage{{Server: 200 + 15*float64(s.Edges), Edge: 20 + 8*d, Rate: loadedRate}}
	}
	return all
}

// The fit returns the model that made the measurements.
func TestFitOfCosts(t *testing.T) {
	load := newScaleLoad(Config{})
	medians := make(map[size]usage)
	for s, rounds := range exactly(load) {
		medians[s] = medianUsage(rounds)
	}
	got, err := fitCosts(medians, fitted, load)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(slices.Clone(heldOut), size{3, 100, 50, 1000}) {
		server, edge := got.predict(s, load).perChunk(s)
		wantServer, wantEdge := testModel.predict(s, load).perChunk(s)
		if !near(server, wantServer) || !near(edge, wantEdge) {
			t.Errorf("%s: %v and %v, want %v and %v", s, server, edge, wantServer, wantEdge)
		}
	}
	if l, e := got.Loaded, got.LoadedEdge; !near(l.Store, 200) || !near(l.Send, 15) || !near(e.Receive, 20) || !near(e.Deliver, 8) {
		t.Errorf("loaded: %+v, %+v", l, e)
	}
}

// A size that costs more than predicted fails the benchmark, after everything was printed.
func TestWrongPredictionFails(t *testing.T) {
	load := newScaleLoad(Config{})
	measured := exactly(load)
	var b strings.Builder
	if err := reportScale(&b, load, measured); err != nil {
		t.Fatalf("%v\n%s", err, &b)
	}
	measured[heldOut[0]] = []usage{{Server: 1000, Edge: 10}}
	b.Reset()
	err := reportScale(&b, load, measured)
	if err == nil || !strings.Contains(err.Error(), "a prediction is wrong by") || !strings.Contains(b.String(), "READERS") {
		t.Errorf("error %v\n%s", err, &b)
	}
}

// Readers and deliveries determine the edges, chunks and edges the servers.
func TestNeeds(t *testing.T) {
	for _, c := range []struct {
		readers, chunks float64
		interest        bool
		want            needs
	}{
		// 1e4 (200 + 15) us and 4 partitions of 700 us and 80 us for each of 10 edges.
		{1e5, 1e4, false, needs{Partitions: 4, Deployments: 1, Servers: 3, Edges: 10, Egress: 1e4 * 10 * partitionBytes, Possible: true}},
		{1e5, 1e4, true, needs{Partitions: 4, Deployments: 1, Servers: 3, Edges: 10, Egress: 1e4 * interestBytes, Possible: true}},
		// An edge has two processors' time in a second; receiving takes it all.
		{1e5, 1e5, false, needs{Partitions: 34, Deployments: 1}},
		// More partitions than a deployment has. Servers: 1e6 · 215 us + 334 · 700 us of 8 s each. Edges: 1e6 · 28 us of 2 s each, fewer than the readers need.
		{1e6, 1e6, true, needs{Partitions: 334, Deployments: 6, Servers: 27, Edges: 100, Egress: 1e6 * interestBytes, Possible: true}},
		// Edges: 1e7 · 28 us of 2 s each.
		{1e5, 1e7, true, needs{Partitions: 3334, Deployments: 53, Servers: 270, Edges: 140, Egress: 1e7 * interestBytes, Possible: true}},
	} {
		if got := testModel.needsOf(c.readers, c.chunks, c.interest); got != c.want {
			t.Errorf("%.0e readers, %.0e chunks, interest %t:\n got %+v\nwant %+v", c.readers, c.chunks, c.interest, got, c.want)
		}
	}
}
