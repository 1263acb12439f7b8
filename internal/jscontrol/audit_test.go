package jscontrol

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/subjects"
)

func newAudit(t *testing.T, js jetstream.JetStream) *Audit {
	t.Helper()
	a, err := NewAudit(js, subjects.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// ids returns the ids of the events of a query, which must not fail.
func (a *Audit) ids(t *testing.T, q AuditQuery) []string {
	t.Helper()
	var ids []string
	for e, err := range a.Events(t.Context(), q) {
		if err != nil || e.Err != nil {
			t.Fatal(err, e.Err)
		}
		ids = append(ids, e.ID)
	}
	return ids
}

// A repeated event is stored once. Events are read in their order, of one tenant or all.
func TestAuditEvents(t *testing.T) {
	a := newAudit(t, streamtest.Start(t).JetStream(t))
	for _, e := range []audit.Event{
		{ID: "1", Act: audit.Message, Outcome: audit.Done, Tenant: "acme", Session: session},
		{ID: "1", Act: audit.Message, Outcome: audit.Done, Tenant: "acme", Session: session},
		{ID: "2", Act: audit.Access, Outcome: audit.Refused},
		{ID: "3", Act: audit.Deny, Outcome: audit.Done, Tenant: "globex"},
	} {
		e.Time = time.Now()
		if err := a.Put(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		q    AuditQuery
		want []string
	}{
		{AuditQuery{}, []string{"1", "2", "3"}},
		{AuditQuery{Tenant: "acme"}, []string{"1"}},
		{AuditQuery{Tenant: "other"}, nil},
		{AuditQuery{Since: time.Now().Add(time.Hour)}, nil},
	} {
		if got := a.ids(t, tt.q); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.q, got, tt.want)
		}
	}
	var token *names.TokenError
	if err := a.Put(t.Context(), audit.Event{Act: "a.b", Tenant: "acme"}); !errors.As(err, &token) {
		t.Errorf("an act that is not a token: %v", err)
	}
}

// The server refuses to delete or purge events, also for a client that may do everything, and does not let an update allow it.
func TestAuditIsAppendOnly(t *testing.T) {
	js := streamtest.Start(t).JetStream(t)
	a := newAudit(t, js)
	if err := a.Put(t.Context(), audit.Event{ID: "1", Act: audit.Delete, Tenant: "acme", Time: time.Now()}); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), names.Layout{}.AuditStream())
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"deny purge":  func(c *jetstream.StreamConfig) { c.DenyPurge = false },
		"deny delete": func(c *jetstream.StreamConfig) { c.DenyDelete = false },
	} {
		changed := cfg
		change(&changed)
		if _, err := js.UpdateStream(t.Context(), changed); err == nil {
			t.Errorf("%s was changed", name)
		}
	}
	if err := stream.Purge(t.Context()); err == nil {
		t.Error("purged")
	}
	if err := stream.DeleteMsg(t.Context(), 1); err == nil {
		t.Error("deleted")
	}
	if err := stream.SecureDeleteMsg(t.Context(), 1); err == nil {
		t.Error("erased")
	}
	if got := a.ids(t, AuditQuery{}); !slices.Equal(got, []string{"1"}) {
		t.Errorf("events %v", got)
	}
}
