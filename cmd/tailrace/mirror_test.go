package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/health"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/openapitest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/producers"
)

// mirrored is a deployment at home, and an edge on a leaf node with mirrors of it. Each process has the permissions of its role.
type mirrored struct {
	*natstest.Leaf
	*site // its edge is that on the leaf node

	atHome, onLeaf *roletest.Users
	roles          []*process // at home
}

// leafUser is the user of the leaf node at home, with the permissions of docs/mirror.md.
const leafUser = `{
	user: leaf, password: secret
	permissions: {
		publish: ["$JS.home.API.>", "$JS.FC.>", "tr.>", "$O.TR_OBJECTS.>"]
		subscribe: ["$JS.M.>", "$JSC.R.>", "_INBOX_edge.>", "_INBOX_setup.>", "_INBOX_operator.>"]
	}
}
`

func startMirrored(t *testing.T) *mirrored {
	t.Helper()
	m := &mirrored{
		atHome: roletest.New(t, natsauth.Config{Domain: natstest.HomeDomain, AllowDelete: true}),
		onLeaf: roletest.New(t, natsauth.Config{Domain: natstest.HomeDomain, MirrorDomain: natstest.LeafDomain, AllowDelete: true}),
	}
	m.Leaf = natstest.StartLeaf(t, natstest.LeafConfig{
		Home: strings.Replace(m.atHome.Conf, "users: [", "users: [ "+leafUser, 1), Leaf: m.onLeaf.Conf, User: url.UserPassword("leaf", "secret"),
	}, natstest.Listen(), natstest.FailOnViolation())
	tailrace(t, exitOK, m.home(natsauth.Setup, "setup")...)
	m.site = &site{env: &env{Stack: stack.Start(t, stack.Options{On: m.Home}), t: t, doc: openapitest.Load(t)}, nats: m.Home.URL}
	m.producer = m.NewWriter(producers.Config{Linger: producers.Off})
	m.startRoles()
	m.wantMirrors("created")
	m.wantMirrors("exists")
	m.running = startEdge(t, m.leaf(natsauth.Edge, "--allow-delete")...)
	awaitStart(t, m.ops)
	return m
}

// home and leaf return the arguments of a role.
func (m *mirrored) home(role natsauth.Role, args ...string) []string {
	return append(args, "--nats-url", m.Home.URL, "--nats-nkey", m.atHome.Seed(role), "--nats-domain", natstest.HomeDomain)
}

func (m *mirrored) leaf(role natsauth.Role, args ...string) []string {
	return append(args, "--nats-url", m.Leaf.Leaf.URL, "--nats-nkey", m.onLeaf.Seed(role), "--nats-domain", natstest.HomeDomain, "--mirror-domain", natstest.LeafDomain)
}

func (m *mirrored) startRoles() {
	m.roles = []*process{
		startProcess(m.t, m.home(natsauth.Projector, "projector", "--ops-listen", "", "--save-after", "10ms")...),
		startProcess(m.t, m.home(natsauth.Worker, "worker", "--ops-listen", "", "--demo-pace", "0")...),
	}
}

// wantMirrors runs `tailrace mirror`, which prints the same result for each mirror.
func (m *mirrored) wantMirrors(result string, args ...string) {
	m.t.Helper()
	out := tailrace(m.t, exitOK, m.leaf(natsauth.Setup, append([]string{"mirror"}, args...)...)...)
	for _, stream := range []string{"TR_CHUNKS_0", "KV_TR_SNAPSHOTS", "OBJ_TR_OBJECTS"} {
		if !strings.Contains(out, stream) {
			m.t.Errorf("mirror: %s, want %s", out, stream)
		}
	}
	if n := strings.Count(out, " "+result); n != 3 {
		m.t.Errorf("mirror: %s, want three mirrors %s", out, result)
	}
}

// requestsAtHome returns the requests of the edge that reach home until the returned function is called.
func (m *mirrored) requestsAtHome() (stop func() map[string]int) {
	m.t.Helper()
	var mu sync.Mutex
	seen := make(map[string]int)
	nc := m.Home.Conn(m.t)
	prefix := natsauth.InboxPrefix(natsauth.Edge, "")
	if _, err := nc.Subscribe(">", func(msg *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(msg.Reply, prefix) {
			seen[msg.Subject]++
		}
	}); err != nil {
		m.t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		m.t.Fatal(err)
	}
	return func() map[string]int {
		if err := nc.Flush(); err != nil {
			m.t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

// sessionPaths are the reads of a session.
func sessionPaths(session string) []string {
	var paths []string
	for _, path := range []string{"snapshot", "messages", "tree", "events"} {
		paths = append(paths, "/v1/sessions/"+session+"/"+path)
	}
	return append(paths, "/v1/sessions")
}

func (m *mirrored) wantReads(session string) {
	m.t.Helper()
	for _, path := range sessionPaths(session) {
		m.sees(path, "")
	}
}

// An edge on a leaf node reads the mirrors there, and sends home what it writes. A client sees what it has written. While the connection is lost, clients read
// what the mirrors have. A record of another history at home is not shown as one of the history of the mirrors.
func TestEdgeOnMirror(t *testing.T) {
	m := startMirrored(t)
	wantAnswer(t, m.url, "c1")

	asked := m.requestsAtHome()
	for range 3 {
		m.wantReads("c1")
	}
	requests := asked()
	if requests["$JS.API.STREAM.INFO.TR_CHUNKS_0"] == 0 {
		t.Errorf("requests at home: %v, want the state of the log", requests)
	}
	for subject := range requests {
		if strings.Contains(subject, ".GET.") || strings.Contains(subject, ".CONSUMER.") {
			t.Errorf("a read has sent %s to home", subject)
		}
	}

	open := m.start("open", "?")
	for n := range 5 { // each is seen by the next read
		want := fmt.Sprintf("written %d.", n)
		m.emit(open, text(want))
		m.sees("/v1/sessions/open/snapshot?partial=1", want)
	}

	m.deleteSession()
	m.loseLink()
	m.changeHistory()
}

// deleteSession deletes a session at home and starts it again: the mirrors have its records, and the edge does not show them.
func (m *mirrored) deleteSession() {
	t := m.t
	run := m.start("secret", "?")
	m.emit(run, text("deleted later."))
	m.end(run)
	m.sees("/v1/sessions/secret/snapshot", "deleted later.")
	if status, _, text := sendAs(t, http.MethodDelete, m.url+"/v1/sessions/secret", "", nil); status != http.StatusNoContent {
		t.Fatalf("delete: %d %s", status, text)
	}
	hidden := func(want int) {
		t.Helper()
		for _, path := range sessionPaths("secret") {
			natstest.Eventually(t, "a hidden session in "+path, func(context.Context) error { // as above
				if status, body := get(t, m.url+path, ""); strings.Contains(body, "deleted later.") || status != want && strings.Contains(path, "secret") {
					return fmt.Errorf("%d %s", status, body)
				}
				return nil
			})
		}
	}
	hidden(http.StatusNotFound)
	run = m.start("secret", "again?")
	m.emit(run, text("the second life."))
	m.end(run)
	hidden(http.StatusOK)
	m.sees("/v1/sessions/secret/snapshot", "the second life.")
}

// sees waits until a page has a text. The machine may be so busy that home is taken for lost.
func (m *mirrored) sees(path, want string) {
	m.t.Helper()
	natstest.Eventually(m.t, fmt.Sprintf("%q in %s", want, path), func(context.Context) error {
		if status, body := get(m.t, m.url+path, ""); status != http.StatusOK || !strings.Contains(body, want) {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
}

// loseLink cuts the connection, and checks what the edge serves without it and afterwards.
func (m *mirrored) loseLink() {
	t := m.t
	stream := m.attach("/v1/sessions/open/events")
	m.until(stream, "written 4.")
	m.Cut(t)
	run := m.takeOver("open")
	m.emit(run, text("during the cut."))
	// It may have been accepted by a connection that is about to be found lost: then it takes longer.
	if status, header, text, err := read(t.Context(), http.MethodPost, m.url+"/api/chat", chatPost, nil); err != nil || status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("a message without the connection: %d %v %s, %v", status, header, text, err)
	}
	natstest.Eventually(t, "a refusal of what the mirror does not have", func(context.Context) error {
		if status, body := get(t, m.url+"/v1/sessions/unknown/snapshot", ""); status != http.StatusServiceUnavailable {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	m.wantReads("c1")
	m.get("/v1/sessions/open/snapshot?partial=1", "written 4.")
	awaitProbe(t, m.ops+"/readyz")
	m.Link.Restore()
	m.until(stream, "during the cut.")
	m.emit(run, text("after it."))
	m.until(stream, "after it.")
	natstest.Eventually(t, "an unknown session", func(context.Context) error {
		if status, body := get(t, m.url+"/v1/sessions/unknown/snapshot", ""); status != http.StatusNotFound {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	wantAnswer(t, m.url, "c2")
	m.end(run)
}

// changeHistory restores a backup at home, which lacks records that the mirrors have.
func (m *mirrored) changeHistory() {
	t := m.t
	for _, p := range m.roles {
		p.end()
	}
	kept := m.start("kept", "?")
	m.emit(kept, text("in the backup."))
	var backup []natstest.Backup
	streams := []string{"KV_TR_SNAPSHOTS", "OBJ_TR_OBJECTS", "TR_CHUNKS_0"}
	for _, stream := range streams {
		backup = append(backup, natstest.BackUp(t, m.JS, stream))
	}
	m.emit(kept, text("lost."))
	rec, err := m.Log.Last(t.Context(), chunk.RootSession("default", "kept"))
	if err != nil {
		t.Fatal(err)
	}
	stream := m.attach("/v1/sessions/kept/events")
	m.until(stream, "lost.")

	for i, name := range streams {
		if err := m.JS.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		backup[i].Restore(t, m.JS)
	}
	tailrace(t, exitOK, m.home(natsauth.Operator, "epoch", "--new", strings.Join(streams, ","))...)
	run := m.takeOver("kept")
	for range 5 { // beyond the end of the mirror
		m.emit(run, text("another history."))
	}
	m.awaitMirrors(health.Failed)
	m.awaitDoctor("which creates it again")
	if status, body := get(t, m.url+"/v1/sessions/kept/snapshot", ""); status != http.StatusServiceUnavailable {
		t.Errorf("a read of the old mirrors: %d %s", status, body)
	}
	m.wantMirrors("recreated")
	m.awaitMirrors(health.OK)
	m.awaitDoctor("ok       mirror ")
	wantOneHistory(t, stream)
	m.get("/v1/sessions/kept/events?after="+rec.Cursor().String(), `"type":"truncated"`, `"reason":"recreated"`)
	m.sees("/v1/sessions/kept/snapshot?partial=1", "another history.")
	m.startRoles()
	wantAnswer(t, m.url, "c3")
}

// awaitMirrors waits until the edge, which stays ready, reports its mirrors.
func (m *mirrored) awaitMirrors(want health.State) {
	m.t.Helper()
	natstest.Eventually(m.t, "mirrors to be "+string(want), func(context.Context) error {
		if got := readiness(m.t, m.ops)["mirrors"]; got != want {
			return fmt.Errorf("they are %s", got)
		}
		return nil
	})
}

// awaitDoctor waits until `tailrace doctor` prints a text for each mirror. On a busy machine it may report requests that got no response.
func (m *mirrored) awaitDoctor(text string) {
	m.t.Helper()
	natstest.Eventually(m.t, "doctor to print "+text, func(context.Context) error {
		_, out, errs := runCommand(m.t, "", m.leaf(natsauth.Operator, "doctor")...)
		if n := strings.Count(out, text); n != 3 {
			return fmt.Errorf("%d times: %s%s", n, out, errs)
		}
		return nil
	})
}

// wantOneHistory reads the rest of a stream, which ends or is truncated before the first record of another history.
func wantOneHistory(t *testing.T, stream attached) {
	t.Helper()
	for {
		event, err := firstEvent(stream.events)
		switch {
		case err != nil, strings.Contains(event, `"type":"truncated"`):
			return
		case strings.Contains(event, "another history."):
			t.Errorf("a stream has records of two histories: %s", event)
			return
		}
	}
}
