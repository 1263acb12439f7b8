package turn

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// TestFinishedCallsAreStored checks that the stored calls are those that were added, and that they are found under their ids and no others.
func TestFinishedCallsAreStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.SampledFrom([]int{1, 5, 29, 1000, blockSize - 1, blockSize + 1})
		var f finishedCalls
		var want []Call
		by := &Agent{}
		shown := map[string]bool{}
		for n := range rapid.IntRange(1, 300).Draw(t, "calls") {
			key := CallKey{ID: strings.Repeat("x", length.Draw(t, "length")) + strconv.Itoa(n%50)}
			if rapid.IntRange(0, 3).Draw(t, "agent") == 0 {
				key.Agent = "k" + strconv.Itoa(n%3)
			}
			suffix := 1
			for shown[key.ShownID(suffix)] {
				suffix++
			}
			c := &Call{Key: key, By: by, Name: []byte(fmt.Sprint("tool", n%40)), suffix: suffix, ID: key.ShownID(suffix)}
			shown[c.ID] = true
			at := rapid.Uint64Range(0, 1<<40)
			ordinal := func(name string) chunk.Ordinal { return chunk.Ordinal(at.Draw(t, name)) }
			c.Client = rapid.Bool().Draw(t, "client")
			c.begunAt, c.endedAt = ordinal("begun"), ordinal("ended")
			if c.Sent = rapid.Bool().Draw(t, "sent"); c.Sent {
				c.sentAt, c.hash = ordinal("sent at"), rapid.Uint64().Draw(t, "hash")
			}
			if c.Delegated = rapid.Bool().Draw(t, "delegated"); c.Delegated {
				c.Mark[0], c.delegatedAt = rapid.Uint64().Draw(t, "mark"), ordinal("delegated at")
			}
			if c.Approved = rapid.Bool().Draw(t, "approved"); c.Approved {
				c.approvalAt = ordinal("approved at")
			}
			f.add(c)
			want = append(want, *c)
		}
		n := 0
		f.each(func(c *Call) {
			if c.By = by; !reflect.DeepEqual(*c, want[n]) {
				t.Fatalf("call %d is\n%+v, want\n%+v", n, *c, want[n])
			}
			n++
		})
		if n != len(want) {
			t.Fatalf("%d calls, want %d", n, len(want))
		}
		for i := range want {
			c := &want[i]
			if !has(&f, c.ID) {
				t.Fatalf("%q is not found", c.ID)
			}
			for _, other := range []string{c.ID + "_1", c.ID + "x", c.ID + "_", "/" + c.ID, c.ID[1:]} {
				if has(&f, other) != shown[other] {
					t.Fatalf("%q is found: %t", other, !shown[other])
				}
			}
		}
	})
}

// TestFinishedCallsAreRemoved compares the removal of records with that from a list of the calls.
func TestFinishedCallsAreRemoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own, child := &Agent{}, &Agent{Session: "k"}
		var f finishedCalls
		var all []*Call
		for n := range rapid.IntRange(1, 30).Draw(t, "calls") {
			begun := chunk.Ordinal(3*n + 1)
			c := &Call{By: own, Key: CallKey{ID: strconv.Itoa(n)}, Sent: true, suffix: 1, begunAt: begun, sentAt: begun + 1, endedAt: begun + 2}
			if rapid.IntRange(0, 3).Draw(t, "agent") == 0 {
				c.By, c.Key.Agent = child, child.Session
			}
			c.ID = c.Key.ShownID(1)
			f.add(c)
			all = append(all, c)
		}
		first := chunk.Ordinal(rapid.IntRange(1, 90).Draw(t, "first"))
		last := first + chunk.Ordinal(rapid.IntRange(0, 20).Draw(t, "more"))
		taken := func(o chunk.Ordinal) bool { return first <= o && o <= last }
		var open, kept []string
		for _, c := range all {
			switch {
			case !c.By.Own():
				kept = append(kept, fmt.Sprint(c.ID, true))
			case taken(c.begunAt):
			case taken(c.endedAt):
				open = append(open, fmt.Sprint(c.Key.ID, !taken(c.sentAt)))
			default:
				kept = append(kept, fmt.Sprint(c.ID, !taken(c.sentAt)))
			}
		}
		var gotOpen, gotKept []string
		for _, c := range f.remove(taken, own) {
			gotOpen = append(gotOpen, fmt.Sprint(c.Key.ID, c.Sent))
		}
		f.each(func(c *Call) {
			gotKept = append(gotKept, fmt.Sprint(c.ID, c.Sent))
		})
		if !slices.Equal(gotOpen, open) || !slices.Equal(gotKept, kept) {
			t.Fatalf("removed %d to %d: open %q, want %q; kept %q, want %q", first, last, gotOpen, open, gotKept, kept)
		}
		for _, c := range all {
			if ok := has(&f, c.ID); ok != slices.ContainsFunc(kept, func(k string) bool { return strings.HasPrefix(k, c.ID+"true") || k == c.ID+"false" }) {
				t.Fatalf("%s is found: %t", c.ID, ok)
			}
		}
	})
}

// TestRemovalKeepsNoNames: each removal stores the names of tools and sessions again, of the calls that are left.
func TestRemovalKeepsNoNames(t *testing.T) {
	const calls = 200
	own, child := &Agent{}, &Agent{Session: "k"}
	var f finishedCalls
	for n := range calls {
		c := &Call{By: own, Key: CallKey{ID: strconv.Itoa(n)}, Name: []byte(fmt.Sprint("tool", n)), suffix: 1, begunAt: chunk.Ordinal(2*n + 1), endedAt: chunk.Ordinal(2*n + 2)}
		if n%2 == 0 {
			c.By, c.Key.Agent = child, fmt.Sprint("k", n)
		}
		c.ID = c.Key.ShownID(1)
		f.add(c)
	}
	for n := range calls {
		f.remove(func(o chunk.Ordinal) bool { return o == chunk.Ordinal(2*n+1) }, own)
		if len(f.names) != f.count || len(f.sessions) != calls/2 {
			t.Fatalf("%d calls have %d names and %d sessions after %d removals", f.count, len(f.names), len(f.sessions), n+1)
		}
	}
	f.each(func(c *Call) {
		if string(c.Name) != "tool"+c.Key.ID {
			t.Errorf("the tool of call %s is %q", c.Key.ID, c.Name)
		}
	})
}

func has(f *finishedCalls, id string) bool {
	_, known := f.find(id)
	return known
}
