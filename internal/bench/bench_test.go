package bench

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if IsChild() {
		if err := RunChild(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	// The race detector delays the exit of each process by a second, and these
	// tests start many.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// Every benchmark completes with positive figures and leaks no goroutine.
func TestEveryBenchmarkRuns(t *testing.T) {
	rows, err := Run(t.Context(), Config{Rounds: 1, Clients: 8, Dir: t.TempDir(), Quick: true}, append(Names(), "longturn")...)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if !(row.Value > 0) {
			t.Errorf("%+v: the figure is not positive", row)
		}
	}
	seen := make(map[string]bool)
	for _, row := range rows {
		name, _, _ := strings.Cut(row.Name, "-")
		seen[name] = true
	}
	for _, name := range Names() {
		if !seen[name] {
			t.Errorf("%s returned no row", name)
		}
	}
}

// A stream that loses, repeats or reorders an event, or ends early, fails the
// benchmark.
func TestWrongEventFailsTheBenchmark(t *testing.T) {
	for name, c := range map[string]struct {
		numbers []int
		want    string
	}{
		"lost":      {[]int{0, 1, 3}, "got event 3, want 2"},
		"repeated":  {[]int{0, 1, 1}, "got event 1, want 2"},
		"reordered": {[]int{1, 0, 2}, "got event 1, want 0"},
		"missing":   {[]int{0, 1}, "before event 2 of 3"},
	} {
		t.Run(name, func(t *testing.T) {
			site, err := serve(t.Context(), plainServer(numbered(c.numbers)))
			if err != nil {
				t.Fatal(err)
			}
			defer site.close()
			_, err = loadClients(t.Context(), job{
				Addr: site.addr, Events: 3, Burst: true, Repeat: 1, Groups: []group{{Path: "/", Clients: 3}},
			}, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// numbered serves a stream of events with these numbers.
type numbered []int

func (n numbered) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	out, err := stream(w)
	if err != nil {
		return
	}
	for _, number := range n {
		fmt.Fprintf(w, "id: %d\ndata: {\"n\":%d}\n\n", number, number)
		out.Flush()
	}
}

// Programs read the output with --json: a figure that the baseline lacks has no ratio.
func TestRowsAsJSON(t *testing.T) {
	var b strings.Builder
	rows := []Row{
		{Name: "publish", Figure: chunksPerSecond, Baseline: "bare", Value: 1.25, BaselineValue: 2.5, Ratio: 0.5},
		{Name: "storm", Figure: reads, Baseline: "bare", Value: 1, BaselineValue: math.NaN(), Ratio: math.NaN()},
	}
	if err := PrintJSON(&b, rows); err != nil {
		t.Fatal(err)
	}
	want := `{"name":"publish","figure":"chunks/s","baseline":"bare","ours":1.25,"raw":2.5,"ratio":0.5}
{"name":"storm","figure":"log reads/session","baseline":"bare","ours":1}
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
}

// The benchmark of feeds runs on three servers in a process of their own, which end with it.
func TestFeedsBenchmarkRuns(t *testing.T) {
	h, err := newHarness(t.Context(), Config{Dir: t.TempDir(), Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	p := h.feeds()[0]
	for side, work := range map[string]work{"interest": p.ours, "partition": p.raw} {
		got, err := work(t.Context(), 1)
		if err != nil {
			t.Fatalf("%s: %v", side, err)
		}
		if !(got.of(egress) > 0) || math.IsNaN(got.of(processor)) {
			t.Errorf("%s: %+v", side, got)
		}
	}
}
