package jscontrol

import (
	"fmt"
	"slices"
	"testing"
)

func (q *fairQueue) addTest(tenant string, seq uint64) {
	q.add(&fetched{tenant: tenant, seq: seq, size: 1})
}

// order takes n commands and returns them as tenant and sequence.
func (q *fairQueue) order(n int) []string {
	var all []string
	for range n {
		f := q.take()
		if f == nil {
			break
		}
		all = append(all, fmt.Sprint(f.tenant, f.seq))
	}
	return all
}

// The tenant with the fewest commands in progress is next; among equal ones they take turns; and of one tenant the oldest command is next.
func TestFairQueueOrder(t *testing.T) {
	q := newFairQueue()
	for _, seq := range []uint64{3, 1, 2} {
		q.addTest("a", seq)
	}
	q.addTest("b", 4)
	q.addTest("c", 5)
	q.addTest("b", 6)
	if got, want := q.order(10), []string{"a1", "b4", "c5", "a2", "b6", "a3"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	q.addTest("a", 7) // three are in progress
	q.addTest("b", 8) // two
	q.addTest("c", 9) // one
	if got, want := q.order(10), []string{"c9", "b8", "a7"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A tenant that waits gets its turn while new tenants arrive all the time.
func TestFairQueueHasNoStarvation(t *testing.T) {
	q := newFairQueue()
	q.addTest("a", 1)
	q.addTest("a", 2)
	for seq := uint64(10); ; seq++ {
		q.addTest(fmt.Sprint("new", seq), seq)
		f := q.take()
		q.done(f.tenant)
		if f.seq == 2 {
			break
		}
		if seq > 13 {
			t.Fatalf("the second command of a tenant still waits")
		}
	}
}

// The next command of each tenant is returned, also of one that has more commands in progress than another with several that wait.
func TestFairQueueRemovesOfEachTenant(t *testing.T) {
	q := newFairQueue()
	q.start("b")
	for seq := range uint64(4) {
		q.addTest("a", seq)
	}
	q.addTest("b", 10)
	q.addTest("c", 11)
	q.start("d")
	q.start("d")
	q.addTest("d", 12)
	if got, want := messageNames(q.removeOfEach(3)), []string{"a0", "c11", "b10"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := messageNames(q.removeOfEach(64)), []string{"a1", "d12"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func messageNames(all []*fetched) (names []string) {
	for _, f := range all {
		names = append(names, fmt.Sprint(f.tenant, f.seq))
	}
	return names
}

// The commands that are returned are those that would start next, once of each tenant or not, and a redelivered one is held once.
func TestFairQueueRemoves(t *testing.T) {
	q := newFairQueue()
	for seq := range uint64(10) {
		q.addTest("a", seq)
		q.addTest("a", seq)
	}
	q.addTest("b", 20)
	if n, size := q.size(); n != 11 || size != 11 {
		t.Errorf("%d commands of %d bytes", n, size)
	}
	if got, want := messageNames(q.removeOfEach(64)), []string{"a0", "b20"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	q.addTest("b", 20)
	if got, want := messageNames(q.remove(3)), []string{"a1", "b20", "a2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	q.drop(func(f *fetched) bool { return f.seq%2 == 0 })
	if got, want := messageNames(q.remove(3)), []string{"a3", "a5", "a7"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	q.drop(func(*fetched) bool { return true })
	if n, size := q.size(); n != 0 || size != 0 || len(q.tenants) != 0 || len(q.next) != 0 {
		t.Errorf("%d commands of %d bytes, %d tenants", n, size, len(q.tenants))
	}
}
