package bench

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if IsCrowd() {
		if err := RunCrowd(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	// The race detector has a process sleep for a second when it ends, and here
	// many do.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// Every benchmark runs to its end, counts what it should, and leaves nothing
// behind. How fast it is, is for `tailrace bench` to say.
func TestEveryBenchmarkRuns(t *testing.T) {
	rows, err := Run(t.Context(), Config{Rounds: 1, Clients: 8, Dir: t.TempDir(), Quick: true}, Names()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if !(row.Ours > 0) {
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
			t.Errorf("%s brought no row", name)
		}
	}
}

// A stream that loses, repeats or reorders an event, or ends early, is no
// benchmark but an error.
func TestAnEventAmissFailsTheBenchmark(t *testing.T) {
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
			l := &lab{}
			site, err := serve(t.Context(), plainServer(numbered(c.numbers)))
			if err != nil {
				t.Fatal(err)
			}
			defer site.close()
			_, err = l.crowd(t.Context(), job{
				Addr: site.addr, Events: 3, Rush: true, Repeat: 1, Groups: []group{{Path: "/", Clients: 3}},
			}, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// numbered is a stream of events with these numbers, and then over.
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
