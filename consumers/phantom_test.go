package consumers

import (
	"errors"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// If a purge up to a sequence leaves no message in the stream, nats-server 2.15 counts the purged messages again in the next purge. That purge then also
// removes the last message, whose sequence is after the bound of the purge, but the index of the subject keeps it. From then on the count of the subject
// includes a message that no consumer delivers, and a request for the last message of the subject fails. A read must end nevertheless, with the records that
// the log has.
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
