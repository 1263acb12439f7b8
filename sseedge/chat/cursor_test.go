package chat

import (
	"net/http"
	"testing"
)

// CS-1 and CS-2: the header with the cursor.
func TestCursor(t *testing.T) {
	for _, row := range []struct {
		rule string
		h    map[string]string
		want int
	}{
		{"CS-1: the first wins", map[string]string{"X-Resume-From-Sequence": "1", "X-Resume-At": "2", "Last-Event-ID": "3"}, 1},
		{"CS-1: then the second", map[string]string{"X-Resume-At": "2", "Last-Event-ID": "3"}, 2},
		{"CS-1: then that of an EventSource", map[string]string{"Last-Event-ID": "3"}, 3},
		{"CS-2: a value that is not a number is ignored", map[string]string{"X-Resume-From-Sequence": "undefined", "Last-Event-ID": "3"}, 3},
		{"CS-2: nor a negative one", map[string]string{"X-Resume-From-Sequence": "-3"}, -1},
		{"CS-2: nor nothing", map[string]string{}, -1},
		{"with an anchor", map[string]string{"X-Resume-From-Sequence": "7-mgj6k3gb"}, 7},
		{"with an epoch", map[string]string{"Last-Event-ID": "7-dk3p9x0q1a2b"}, 7},
		{"zero is a cursor", map[string]string{"X-Resume-From-Sequence": "0"}, 0},
	} {
		t.Run(row.rule, func(t *testing.T) {
			h := make(http.Header)
			for name, value := range row.h {
				h.Set(name, value)
			}
			got := -1
			if c, ok := readCursor(h); ok {
				got = int(c.Seq)
			}
			if got != row.want {
				t.Errorf("got %d, want %d", got, row.want)
			}
		})
	}
}
