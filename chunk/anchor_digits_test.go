package chunk

import (
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestAppendAnchor(t *testing.T) {
	check := func(a Anchor) {
		if got, want := string(appendAnchor([]byte("x"), a)), "x"+strconv.FormatInt(int64(a), anchorBase); got != want {
			t.Fatalf("%d: %s, want %s", a, got, want)
		}
	}
	for _, a := range []Anchor{0, 1, 35, 36, 37, 1295, 1296, 1297, 46655, 46656, math.MaxInt64, math.MinInt64, -1} {
		check(a)
	}
	rapid.Check(t, func(rt *rapid.T) { check(Anchor(rapid.Int64().Draw(rt, "anchor"))) })
}
