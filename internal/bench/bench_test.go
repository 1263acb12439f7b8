package bench

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every benchmark runs to its end, counts what it should, and leaves nothing
// behind. How fast it is, is for `tailrace bench` to say.
func TestEveryBenchmarkRuns(t *testing.T) {
	rows, err := Run(t.Context(), Config{Rounds: 1, Clients: 8, Dir: t.TempDir(), Quick: true}, Names()...)
	if err != nil {
		t.Fatal(err)
	}
	if want := 7; len(rows) != want {
		t.Fatalf("%d rows, want %d", len(rows), want)
	}
	for _, row := range rows {
		if row.Ours <= 0 || row.Raw <= 0 || row.Ratio <= 0 {
			t.Errorf("%+v: a figure is not positive", row)
		}
	}
}
