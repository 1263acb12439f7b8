package hub_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/tailrace/tailrace/internal/hub"
)

// Histories found by TestAnyHistory, or too unlikely for it to find.
func TestKnownHistories(t *testing.T) {
	for _, tt := range []struct {
		name   string
		memory int64
		page   int
		script []op
	}{
		{
			name:   "a page read between the truncation record of a cleanup and its deletes is not shown to clients that subscribe later",
			memory: 1 << 20, page: 1 << 20,
			script: []op{
				{"append", 0, 0}, {"append", 0, 1}, {"append", 0, 0}, {"truncation", 0, 0}, {"wait", 0, 0},
				{"attach", 0, 0}, {"readAll", 0, 0}, {"delete", 0, 0}, {"wait", 0, 0}, {"attach", 0, 0}, {"readAll", 1, 0},
			},
		},
		{
			name:   "a page that is being read when a truncation record arrives is not cached for other clients",
			memory: 1 << 20, page: 1 << 20,
			script: []op{
				{"append", 0, 0}, {"append", 0, 1}, {"append", 0, 0}, {"wait", 0, 0},
				{"attach", 0, 0}, {"between", 6, 2}, {"readAll", 0, 0}, {"delete", 0, 0}, {"wait", 0, 0}, {"attach", 0, 0}, {"readAll", 1, 0},
			},
		},
		{
			name:   "the feed drops the record that fences a writer, and then delivers a record of that writer",
			memory: 1 << 20, page: 1 << 20,
			script: []op{
				{"append", 0, 5}, {"append", 0, 0}, {"wait", 0, 0}, {"attach", 0, 0}, {"readAll", 0, 0},
				{"drop", 0, 1}, {"takeover", 0, 0}, {"fenced", 0, 0}, {"readAll", 0, 0}, {"append", 0, 0}, {"wait", 0, 0},
				{"attach", 0, 0}, {"readAll", 1, 0}, {"readAll", 0, 0},
			},
		},
		{
			name:   "the feed drops the end of a session, and no record of the session follows",
			memory: 1 << 20, page: 1 << 20,
			script: []op{
				{"append", 1, 0}, {"wait", 0, 0}, {"attach", 1, 1}, {"drop", 0, 1}, {"append", 0, 7}, {"append", 1, 0}, {"wait", 0, 0},
				{"attach", 0, 1}, {"readAll", 1, 0},
			},
		},
		{
			name:   "records expire while a page of the tree is read, and its client leaves before the next record of their session",
			memory: 20 << 10, page: 200,
			script: []op{
				{"append", 0, 0}, {"append", 0, 0}, {"append", 0, 0}, {"append", 1, 0}, {"between", 18, 4}, {"attach", 0, 0},
				{"append", 0, 0}, {"append", 0, 0}, {"read", 0, 1}, {"detach", 0, 0},
			},
		},
		{
			name:   "the stream is recreated with fewer records while no feed is open",
			memory: 1 << 20, page: 1 << 20,
			script: []op{
				{"burst", 0, 9}, {"wait", 0, 0}, {"attach", 0, 0}, {"readAll", 0, 0}, {"recreateDown", 0, 0}, {"readNow", 0, 0},
			},
		},
	} {
		for _, roots := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/roots=%t", tt.name, roots), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newModel(t, hub.Config{MaxMemory: tt.memory, PageBytes: tt.page}, roots)
					defer m.stop()
					if err := m.run(tt.script); err != nil {
						t.Fatal(err)
					}
				})
			})
		}
	}
}
