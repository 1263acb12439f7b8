package hub_test

import (
	"testing"
	"testing/synctest"
)

// Histories that were found by TestAnyHistory, or that it is too unlikely to
// find, told in order.
func TestToldHistories(t *testing.T) {
	for _, tt := range []struct {
		name   string
		memory int64
		page   int
		script []op
	}{
		{
			name:   "a page read between the mark of a clean-up and its deletes is not shown to those who come after them",
			memory: 1 << 20, page: 1 << 20,
			script: []op{
				{"append", 0, 0}, {"append", 0, 1}, {"append", 0, 0}, {"mark", 0, 0}, {"settle", 0, 0},
				{"attach", 0, 0}, {"readAll", 0, 0}, {"delete", 0, 0}, {"settle", 0, 0}, {"attach", 0, 0}, {"readAll", 1, 0},
			},
		},
		{
			name:   "a page that is being read when the mark of a clean-up comes is not kept for others",
			memory: 1 << 20, page: 1 << 20,
			script: []op{
				{"append", 0, 0}, {"append", 0, 1}, {"append", 0, 0}, {"settle", 0, 0},
				{"attach", 0, 0}, {"between", 6, 2}, {"readAll", 0, 0}, {"delete", 0, 0}, {"settle", 0, 0}, {"attach", 0, 0}, {"readAll", 1, 0},
			},
		},
		{
			name:   "the stream is made again while no feed is open, and is shorter",
			memory: 1 << 20, page: 1 << 20,
			script: []op{
				{"burst", 0, 9}, {"settle", 0, 0}, {"attach", 0, 0}, {"readAll", 0, 0}, {"recreateDown", 0, 0}, {"readNow", 0, 0},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, tt.memory, tt.page)
				defer m.stop()
				if err := m.run(tt.script); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
