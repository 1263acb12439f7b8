package jssnapshots

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// placements are the numbers of partitions of logs.
var placements = map[string]int{"one partition": 1, "four partitions": 4}

// Everything of a tree is in the bucket of its partition.
func TestBucketsOfTrees(t *testing.T) {
	for name, partitions := range placements {
		t.Run(name, func(t *testing.T) {
			js := natstest.Start(t).JetStream(t)
			layout := subjects.Layout{Partitions: partitions}
			st := open(t, js, layout)
			saved := make(map[string]int) // heads by bucket
			for n := range 12 {
				root := chunk.RootSession("acme", fmt.Sprintf("s%d", n))
				for _, s := range []chunk.Session{root, root.Child("kid")} {
					log := storetest.NewLog()
					storetest.NewSessionGenerator(log, s, uint64(n)).Write(t, 30)
					mustSave(t, st, storetest.Fold(t, log, s), 0)
					storetest.Equal(t, s.String(), storetest.Stored(t, st, s), storetest.Fold(t, log, s))
				}
				bucket := names.Layout(layout).SnapshotsOf(layout.Partition(root))
				saved[bucket] += 2
				if stored, err := st.StoredSessions(t.Context(), root); err != nil || len(stored) != 2 {
					t.Errorf("stored sessions of %s: %v, %v", root, stored, err)
				}
			}
			for p := range partitions {
				bucket := names.Layout(layout).SnapshotsOf(p)
				_, err := st.api.State(t.Context(), "KV_"+bucket, "")
				if err != nil {
					t.Fatal(err)
				}
				heads, err := st.api.CountSubjects(t.Context(), "KV_"+bucket, "$KV."+bucket+"."+names.SnapshotHeadKeys())
				if err != nil || heads != saved[bucket] {
					t.Errorf("%s has %d heads, want %d; %v", bucket, heads, saved[bucket], err)
				}
			}
		})
	}
}

// Each and HeadsSavedBefore return every session once, with any number of sessions at a time.
func TestWalkThroughBuckets(t *testing.T) {
	for name, partitions := range placements {
		t.Run(name, func(t *testing.T) {
			st := open(t, natstest.Start(t).JetStream(t), subjects.Layout{Partitions: partitions})
			var want []string
			for n := range 23 {
				s := chunk.RootSession("acme", fmt.Sprintf("s%02d", n))
				mustSave(t, st, fold.New(s).Snapshot(), 0)
				want = append(want, s.String())
			}
			var each []string
			for s, err := range st.Each(t.Context(), chunk.Session{}) {
				if err != nil {
					t.Fatal(err)
				}
				each = append(each, s.String())
			}
			if slices.Sort(each); !slices.Equal(each, want) {
				t.Errorf("Each: %v", each)
			}
			for s, err := range st.Each(t.Context(), chunk.Session{}) { // and it can be left
				if err != nil || s == (chunk.Session{}) {
					t.Fatal(s, err)
				}
				break
			}
			for _, limit := range []int{1, 2, 5, 100} {
				var heads []string
				for place := uint64(0); ; {
					page, next, err := st.HeadsSavedBefore(t.Context(), time.Now().Add(time.Hour), limit, place)
					if err != nil || len(page) > limit {
						t.Fatalf("a page of %d, want %d; %v", len(page), limit, err)
					}
					for _, h := range page {
						heads = append(heads, h.Session.String())
					}
					if place = next; place == 0 {
						break
					}
				}
				if slices.Sort(heads); !slices.Equal(heads, want) {
					t.Errorf("HeadsSavedBefore, %d at a time: %v", limit, heads)
				}
			}
			page, next, err := st.HeadsSavedBefore(t.Context(), time.Now().Add(-time.Hour), 5, 0)
			if len(page) != 0 || next != 0 || err != nil {
				t.Errorf("HeadsSavedBefore of an hour ago: %v, %d, %v", page, next, err)
			}
		})
	}
}

// A cursor of another number of partitions is rejected, and so is a malformed one.
func TestCursorOfBuckets(t *testing.T) {
	st := open(t, natstest.Start(t).JetStream(t), subjects.Layout{Partitions: 4})
	for _, cursor := range []string{"1000", "1.2.3", "1.2.3.4.5", "1..3.4", ".", "1.2.x.4", "1.2.3.-4"} {
		if _, err := st.Sessions(t.Context(), "acme", projector.SessionQuery{Before: cursor}); !errors.Is(err, projector.ErrBadCursor) {
			t.Errorf("cursor %s: %v", cursor, err)
		}
	}
}

// While the bucket of a partition is missing, nothing is saved to that of partition 0, where it would not be found later.
func TestMissingBucketOfAPartition(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	layout := subjects.Layout{Partitions: 2}
	st := open(t, js, layout)
	if err := js.DeleteKeyValue(t.Context(), names.Layout(layout).SnapshotsOf(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := st.open(t.Context(), 1); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("without the bucket: %v", err)
	}
}
