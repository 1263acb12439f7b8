package chat_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
)

// mayDelete is a grant for the own sessions of a user.
func mayDelete(subject string) func(*auth.Grant) {
	return func(g *auth.Grant) {
		g.Subject, g.Sessions = subject, auth.Sessions{Own: true}
		g.Scopes |= auth.ScopeDelete
	}
}

// forkOf makes a fork of the end of a session, and returns the status.
func (w *forkSite) forkOf(origin, fork, token string) int {
	w.t.Helper()
	snap := w.Snapshot(chunk.RootSession("acme", origin))
	return w.forkAt(origin, fork, token, chunk.Cursor{Seq: snap.Position.Seq, Anchor: snap.Anchor}.String())
}

func (w *forkSite) forkAt(origin, fork, token, at string) int {
	w.t.Helper()
	status, _ := w.do(http.MethodPost, "/v1/sessions/"+url.PathEscape(origin)+"/fork", token, fmt.Sprintf(`{"at":%q,"session":%q}`, at, fork))
	return status
}

// delete deletes a session, and returns the status and the header of the forks that stay.
func (w *forkSite) delete(id, query, token string) string {
	w.t.Helper()
	status, header, _ := w.request(http.MethodDelete, "/v1/sessions/"+url.PathEscape(id)+query, token, "")
	return fmt.Sprintf("%d%v", status, header["X-Forks-Left"])
}

// wantExisting checks which sessions of a tenant exist.
func (w *forkSite) wantExisting(when, tenant string, want map[string]bool) {
	w.t.Helper()
	for id, exists := range want {
		_, err := w.Reader.Snapshot(w.t.Context(), chunk.RootSession(tenant, id))
		if err != nil && !errors.Is(err, chunk.ErrUnknownSession) || (err == nil) != exists {
			w.t.Errorf("%s: %s of %s exists: %t, %v", when, id, tenant, !exists, err)
		}
	}
}

// A deletion takes the forks of the session along, and theirs, as far as the client may delete them. Those of other owners and tenants stay, and so do sessions with
// which a fork was refused. Ids may have any character of a URI.
func TestDeletionTakesForks(t *testing.T) {
	const origin, f1 = "o:1/a@b", "_x-f.1/%2e"
	w := newForkSite(t, repeat)
	ann, bob, all := w.as(mayDelete("ann")), w.as(mayDelete("bob")), w.as(nil)
	w.say(origin, ann, "one")
	w.say("mine", ann, "another session")
	globex := w.as(func(g *auth.Grant) { g.Tenant = "globex"; g.Scopes |= auth.ScopeDelete })
	body := fmt.Sprintf(`{"id":%q,"messages":[{"id":"u1","role":"user","parts":[{"type":"text","text":"hi"}]}]}`, origin)
	if status, _ := w.do(http.MethodPost, "/api/chat/"+url.PathEscape(origin)+"?agentType=support", globex, body); status != http.StatusOK {
		t.Fatal(status)
	}
	other := w.Records(chunk.RootSession("globex", origin))
	if status := w.forkAt(origin, f1, globex, other[len(other)-1].Cursor().String()); status != http.StatusCreated {
		t.Fatal(status)
	}
	asBob := w.as(func(g *auth.Grant) { g.Subject = "bob" })
	for _, row := range []struct {
		origin, fork, token string
		status              int
	}{
		{origin, f1, ann, 201}, {f1, "f1.1", ann, 201}, {"f1.1", "f1.1.1", ann, 201}, {f1, "bobs in f1", ann, 400}, {f1, "bobs-in-f1", asBob, 201},
		{origin, "bobs", asBob, 201}, {"bobs", "in-bobs", all, 201}, {origin, "mine", ann, 409}, {"mine", "of-mine", ann, 201},
	} {
		if status := w.forkOf(row.origin, row.fork, row.token); status != row.status {
			t.Fatalf("%s of %s: %d, want %d", row.fork, row.origin, status, row.status)
		}
	}
	if got := w.delete(origin, "?forks=1", ann); got != "400[]" {
		t.Errorf("forks=1: %s", got)
	}
	if got := w.delete("mine", "?forks=0", ann); got != "204[]" {
		t.Errorf("forks=0: %s", got)
	}
	w.wantExisting("forks=0", "acme", map[string]bool{"mine": false, "of-mine": true, origin: true, "bobs": true})
	if got := w.delete(origin, "", ann); got != "204[2]" {
		t.Errorf("the origin: %s, want 2 left", got)
	}
	w.wantExisting("after the deletion", "acme", map[string]bool{
		origin: false, f1: false, "f1.1": false, "f1.1.1": false, "bobs-in-f1": true, "bobs": true, "in-bobs": false, "of-mine": true,
	})
	w.wantExisting("another tenant", "globex", map[string]bool{origin: true, f1: true})
	if got := w.delete(origin, "", ann); got != "404[]" {
		t.Errorf("again: %s", got)
	}
	// A session with the id of a deleted one has none of its forks.
	w.say(origin, ann, "started again")
	if status := w.forkOf(origin, "later", ann); status != http.StatusCreated {
		t.Fatal(status)
	}
	if got := w.delete(origin, "", w.as(func(g *auth.Grant) { g.Scopes |= auth.ScopeDelete })); got != "204[]" {
		t.Errorf("the session that started again: %s", got)
	}
	w.wantExisting("started again", "acme", map[string]bool{origin: false, "later": false, "bobs": true, "bobs-in-f1": true})
	if got := w.delete("bobs", "", bob); got != "204[]" {
		t.Errorf("a fork alone: %s", got)
	}
}

// A process that dies between two deletions leaves the origin, and the next request deletes the rest. Eight requests at once delete each session once.
func TestInterruptedDeletionOfForks(t *testing.T) {
	w := newForkSite(t, repeat)
	ann := w.as(mayDelete("ann"))
	for round, crashAfter := range []int64{0, 1, 2, 3} {
		id := func(name string) string { return fmt.Sprint(name, round) }
		w.say(id("s"), ann, fmt.Sprint("one", round))
		exists := map[string]bool{}
		for _, row := range [][2]string{{"s", "f"}, {"f", "g"}, {"s", "h"}} {
			if status := w.forkOf(id(row[0]), id(row[1]), ann); status != http.StatusCreated {
				t.Fatal(status)
			}
			exists[id(row[1])] = false
		}
		var deletions atomic.Int64
		w.eraser.before = func(chunk.Session) error {
			if deletions.Add(1) > crashAfter {
				return errors.New("crashed")
			}
			return nil
		}
		if got := w.delete(id("s"), "", ann); got != "503[]" {
			t.Errorf("crash after %d: %s", crashAfter, got)
		}
		w.wantExisting("after the crash", "acme", map[string]bool{id("s"): true})
		w.eraser.before = nil
		var requests sync.WaitGroup
		results := make([]string, 8)
		for i := range results {
			requests.Go(func() { results[i] = w.delete(id("s"), "", ann) })
		}
		requests.Wait()
		if !slices.Contains(results, "204[]") || slices.ContainsFunc(results, func(r string) bool { return r != "204[]" && r != "404[]" }) {
			t.Errorf("crash after %d, eight at once: %v", crashAfter, results)
		}
		exists[id("s")] = false
		w.wantExisting("in the end", "acme", exists)
	}
}

// A fork that is made while those before it are deleted is deleted too. One that is made when they all are stays, and after the deletion of the origin there is none.
func TestForkDuringDeletion(t *testing.T) {
	w := newForkSite(t, repeat)
	ann := w.as(mayDelete("ann"))
	s := w.say("s", ann, "one")
	at := w.end(s)
	if status := w.forkAt("s", "f1", ann, at); status != http.StatusCreated {
		t.Fatal(status)
	}
	w.eraser.before = func(one chunk.Session) error {
		if fork := map[string]string{"f1": "f2", "s": "f3"}[one.ID]; fork != "" {
			if status := w.forkAt("s", fork, ann, at); status != http.StatusCreated {
				t.Errorf("%s during the deletion of %s: %d", fork, one.ID, status)
			}
		}
		return nil
	}
	if got := w.delete("s", "", ann); got != "204[]" {
		t.Error(got)
	}
	w.eraser.before = nil
	w.wantExisting("after the deletion", "acme", map[string]bool{"s": false, "f1": false, "f2": false, "f3": true})
	if status := w.forkAt("s", "f4", ann, at); status != http.StatusNotFound {
		t.Errorf("a fork of the deleted session: %d", status)
	}

	// While the origin is deleted: a fork that is refused has no record that a reader gets.
	refused := 0
	for n := range 24 {
		id, fork, status := fmt.Sprint("r", n), fmt.Sprint("rf", n), 0
		at := w.end(w.say(id, ann, fmt.Sprint("race", n)))
		var request sync.WaitGroup
		w.eraser.before = func(chunk.Session) error {
			request.Go(func() { status = w.forkAt(id, fork, ann, at) })
			return nil
		}
		if got := w.delete(id, "", ann); got != "204[]" {
			t.Error(got)
		}
		request.Wait()
		if status != http.StatusCreated && status != http.StatusNotFound {
			t.Errorf("the fork: %d", status)
		}
		if status != http.StatusCreated {
			refused++
		}
		w.wantExisting("after both", "acme", map[string]bool{id: false, fork: status == http.StatusCreated})
	}
	t.Logf("%d of 24 forks were refused", refused)
}
