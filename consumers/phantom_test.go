package consumers

import (
	"errors"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// A server that has purged a log up to a sequence where nothing was left forgets
// how far it came, and the next purge counts the same messages again: with
// nats-server 2.15 it takes the last message along, which is after its bound, and
// leaves it in the index of its subject. From then on the count announces a
// message that no consumer ever delivers, and the last message of the subject is
// one that cannot be had. A read ends all the same, and says what there is.
func TestMessageThatIsOnlyInTheIndex(t *testing.T) {
	w := newEnv(t, Config{})
	bob, carol := chunk.RootSession("acme", "bob"), chunk.RootSession("acme", "carol")
	w.say(alice, "one")
	gone := w.say(bob, "two")
	w.remove(gone)
	w.purgeUpTo(gone.Seq)
	w.say(alice, "three")
	phantom := w.say(bob, "four")
	w.purgeUpTo(phantom.Seq)
	want := w.say(carol, "five")

	ctx := background(t, 10*time.Second)
	for _, s := range []chunk.Session{alice, bob} {
		for what, read := range map[string]func() ([]chunk.Record, error){
			"the session": func() ([]chunk.Record, error) { return collect(w.reader.Replay(ctx, chunk.Range{Session: s})) },
			"the tree": func() ([]chunk.Record, error) {
				return collect(w.reader.Replay(ctx, chunk.Range{Session: s, Tree: true}))
			},
		} {
			if got, err := read(); len(got) > 0 || !errors.Is(err, chunk.ErrUnknownSession) {
				t.Errorf("%s of %s: %v, %v", what, s.ID, positions(got), err)
			}
		}
	}
	got, err := collect(w.reader.Replay(ctx, chunk.Range{Session: carol}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, []chunk.Record{want})
}
