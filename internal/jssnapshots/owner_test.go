package jssnapshots

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// owned is a session of an owner, "" for none, after a number of records.
func owned(s chunk.Session, owner string, records int) fold.Snapshot {
	snap := fold.New(s).Snapshot()
	snap.Position = chunk.Position{Seq: chunk.Seq(records), Ordinal: chunk.Ordinal(records)}
	if owner != "" {
		snap.Owner = &chunk.Principal{Subject: owner}
	}
	return snap
}

// owners is a store with the checks of the index of owners.
type owners struct {
	*Store

	t  *testing.T
	js jetstream.JetStream
}

func (o owners) save(snap fold.Snapshot, after projector.Revision) projector.Revision {
	o.t.Helper()
	r, err := o.Save(o.t.Context(), snap, after)
	if err != nil {
		o.t.Fatal(err)
	}
	return r
}

// want checks for which of ann and bob the index has s as a session of others.
func (o owners) want(when string, s chunk.Session, ofOthers map[string]bool) {
	o.t.Helper()
	for _, subject := range []string{"ann", "bob"} {
		if got, err := o.OwnedByOther(o.t.Context(), s, subject); err != nil || got != ofOthers[subject] {
			o.t.Errorf("%s: session of others than %s: %t, %v", when, subject, got, err)
		}
	}
}

// stored returns the number of messages that were ever written to the bucket.
func (o owners) stored() uint64 {
	o.t.Helper()
	s, err := o.js.Stream(o.t.Context(), "KV_TR_SNAPSHOTS")
	if err != nil {
		o.t.Fatal(err)
	}
	return s.CachedInfo().State.LastSeq
}

func newOwners(t *testing.T) owners {
	t.Helper()
	js := natstest.Start(t).JetStream(t)
	return owners{open(t, js, subjects.Layout{}), t, js}
}

var (
	notAnn = map[string]bool{"ann": true}
	notBob = map[string]bool{"bob": true}
	noOne  = map[string]bool{"ann": true, "bob": true}
)

// The index has the owner with the first head, and it is written once. No client owns a session without an owner, and a session that is not saved is not in the index.
func TestOwnerIndex(t *testing.T) {
	o := newOwners(t)
	o.want("unknown", s1, nil)
	r := o.save(owned(s1, "ann", 1), 0)
	o.want("first save", s1, notBob)
	before := o.stored()
	r = o.save(owned(s1, "ann", 2), r)
	_, loaded, err := o.Load(t.Context(), s1)
	if err != nil || loaded != r {
		t.Fatalf("revision %d, want %d: %v", loaded, r, err)
	}
	o.save(owned(s1, "ann", 3), loaded)
	if n := o.stored() - before; n != 2 {
		t.Errorf("%d writes for two heads", n)
	}
	o.want("later saves", s1, notBob)

	none, sub := chunk.RootSession("acme", "none"), s1.Child("sub")
	o.save(owned(none, "", 1), 0)
	o.want("without an owner", none, noOne)
	before = o.stored()
	o.save(owned(sub, "", 1), 0)
	if n := o.stored() - before; n != 1 {
		t.Errorf("%d writes for the head of a sub-agent", n)
	}
	o.want("with a sub-agent", s1, notBob)
	o.want("another tenant", chunk.RootSession("umbrella", "s1"), nil)
	o.want("another session", chunk.RootSession("acme", "s11"), nil)
}

// A previous owner is not denied a session by the index, and neither is the present one: the head decides.
func TestOwnerIndexOnlyDenies(t *testing.T) {
	o := newOwners(t)
	r := o.save(owned(s1, "ann", 1), 0)
	// The log was replaced by an older copy, with another first run.
	o.save(owned(s1, "bob", 1), r)
	o.want("another log", s1, nil)
	snap, _, err := o.Load(t.Context(), s1)
	if err != nil || snap.Owner.Subject != "bob" {
		t.Errorf("owner %+v, %v", snap.Owner, err)
	}
}

// The deletion of a session removes its owner, also a key without a head, and not that of a session that was started meanwhile.
func TestDeletedSessionHasNoOwner(t *testing.T) {
	o := newOwners(t)
	r := o.save(owned(s1, "ann", 3), 0)
	tombstone := fold.NewTombstone(s1, chunk.Position{Seq: 4, Ordinal: 4}, 1)
	before := o.stored()
	r = o.save(tombstone, r)
	if n := o.stored() - before; n != 1 {
		t.Errorf("%d writes for a tombstone", n)
	}
	if found, err := o.DeleteData(t.Context(), tombstone, r, r, false); err != nil || !found {
		t.Errorf("found %t, %v", found, err)
	}
	o.want("deleted", s1, nil)
	if found, err := o.DeleteData(t.Context(), tombstone, r, r, false); err != nil || found {
		t.Errorf("found %t again, %v", found, err)
	}
	o.save(owned(s1, "bob", 5), r)
	o.want("started again", s1, notAnn)
	if _, err := o.DeleteData(t.Context(), tombstone, r, r, false); err != nil {
		t.Error(err)
	}
	o.want("data deleted again", s1, notAnn)
	// A save that is too late for the deletion removes its key.
	late := chunk.RootSession("acme", "late")
	o.save(fold.NewTombstone(late, chunk.Position{Seq: 4, Ordinal: 4}, 1), 0)
	if _, err := o.Save(t.Context(), owned(late, "ann", 3), 0); err == nil {
		t.Error("saved over a tombstone")
	}
	o.want("a late save", late, nil)
	stored, err := o.StoredSessions(context.Background(), s1)
	if err != nil || len(stored) != 1 || stored[0] != s1 {
		t.Errorf("stored sessions %v, %v", stored, err)
	}
}
