package bench

import (
	"math"
	"testing"

	"github.com/tailrace/tailrace/subjects"
)

// Sizes with one server and with three are measured in processes of their own, which end with the benchmark; the edges deliver every chunk.
func TestScaleMeasuresSizes(t *testing.T) {
	b, err := newScaleBench(t.Context(), Config{Dir: t.TempDir(), Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	measured := make(map[size][]usage)
	want := []size{{1, 1, 1, 1000}, {3, 2, 2, 1000}}
	if err := b.round(t.Context(), want, measured); err != nil {
		t.Fatal(err, b.close(true))
	}
	if err := b.close(false); err != nil {
		t.Fatal(err)
	}
	for _, s := range want {
		if len(measured[s]) != 1 || math.IsNaN(measured[s][0].Server) || !(measured[s][0].ServerIdle > 0) || math.IsNaN(measured[s][0].Edge) || !(measured[s][0].Rate > 0) {
			t.Errorf("%s: %+v", s, measured[s])
		}
	}
}

// Every partition has as many sessions, so that none is idle.
func TestEvenSessions(t *testing.T) {
	for _, partitions := range []int{1, 4, 8, 16} {
		l := subjects.Layout{Partitions: partitions}
		of := make(map[int]int)
		for _, id := range evenSessions(l, "s", 32) {
			of[l.Partition(rootSession(id))]++
		}
		for p := range partitions {
			if of[p] != 32/partitions {
				t.Errorf("P = %d: partition %d has %d sessions", partitions, p, of[p])
			}
		}
	}
}
