package bench

import (
	"math"
	"testing"
)

// Sizes with one server and with three are measured in processes of their own, which end with the benchmark; edges deliver every chunk.
func TestScaleMeasuresSizes(t *testing.T) {
	b, err := newScaleBench(t.Context(), Config{Dir: t.TempDir(), Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	measured := make(map[size][]usage)
	want := []size{{1, 1, 1, 1000}, {3, 4, 2, 1000}}
	if err := b.round(t.Context(), want, measured); err != nil {
		t.Fatal(err, b.close(true))
	}
	if err := b.close(false); err != nil {
		t.Fatal(err)
	}
	for _, s := range want {
		if len(measured[s]) != 1 || math.IsNaN(measured[s][0].Server) || !(measured[s][0].ServerIdle > 0) || math.IsNaN(measured[s][0].Edge) {
			t.Errorf("%s: %+v", s, measured[s])
		}
	}
}
