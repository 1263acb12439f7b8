package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/producers"
)

// accountsEnv is a NATS server with an account for each of some tenants, in which their own projectors and workers run, and one edge for all of them. The
// tenant initech has an account without JetStream.
type accountsEnv struct {
	t      *testing.T
	server *natstest.Server
	blocks map[string]string // of the accounts, for the configuration of the server
	keys   string            // directory
	issuer *authtest.Issuer
	url    string
	ops    string
}

func newAccountsEnv(t *testing.T) *accountsEnv {
	t.Helper()
	e := &accountsEnv{t: t, keys: t.TempDir(), blocks: map[string]string{"SYS": "SYS { users: [{user: sys, password: sys}] }\n"}}
	e.print("DEFAULT", "--role", "all")
	for _, tenant := range []string{"acme", "globex", "initech"} {
		e.print(strings.ToUpper(tenant), "--tenant", tenant)
	}
	e.blocks["INITECH"] = strings.Replace(e.blocks["INITECH"], "jetstream: enabled", "jetstream: disabled", 1)
	e.server = natstest.Start(t, natstest.ServerConfig(e.config()), natstest.FailOnViolation())
	for _, tenant := range []string{"", "acme", "globex"} {
		tailrace(t, exitOK, e.as(natsauth.Setup, tenant, "setup")...)
		startProcess(t, e.as(natsauth.Projector, tenant, "projector", "--ops-listen", "")...)
		startProcess(t, e.as(natsauth.Worker, tenant, "worker", "--ops-listen", "", "--demo", "0")...)
	}
	e.startEdge()
	return e
}

// print adds the printed block of an account.
func (e *accountsEnv) print(account string, args ...string) {
	e.t.Helper()
	conf := tailrace(e.t, exitOK, append([]string{"nats-auth", "print", "--account", account, "--keys", e.keys, "--allow-delete"}, args...)...)
	_, block, found := strings.Cut(conf, "accounts {\n")
	if !found {
		e.t.Fatalf("no accounts in\n%s", conf)
	}
	e.blocks[account] = strings.TrimSuffix(block, "}\n")
}

// config returns the configuration of the server, without the users of some accounts.
func (e *accountsEnv) config(without ...string) string {
	var b strings.Builder
	b.WriteString("system_account: SYS\naccounts {\n")
	for account, block := range e.blocks {
		for _, w := range without {
			if account == w {
				block = w + " { jetstream: enabled }\n"
			}
		}
		b.WriteString(block)
	}
	b.WriteString("}\n")
	return b.String()
}

func (e *accountsEnv) seed(role natsauth.Role, tenant string) string {
	return filepath.Join(e.keys, natsauth.UserName(role, tenant)+".nk")
}

// as returns the arguments of a process of a role in the account of a tenant, "" for the account of the other tenants.
func (e *accountsEnv) as(role natsauth.Role, tenant string, args ...string) []string {
	return append(args, "--nats-url", e.server.URL, "--nats-nkey", e.seed(role, tenant))
}

func (e *accountsEnv) startEdge() {
	t := e.t
	t.Helper()
	entries := make(map[string]map[string]string)
	for _, tenant := range []string{"acme", "globex", "initech"} {
		entries[tenant] = map[string]string{"nkey": e.seed(natsauth.Edge, tenant)}
	}
	text, err := json.Marshal(entries)
	if err != nil {
		t.Fatal(err)
	}
	e.issuer = authtest.NewIssuer(t)
	edge := startEdge(t, e.as(natsauth.Edge, "", "--accounts", writeFile(t, "accounts.json", string(text)), "--auth", e.issuer.File(), "--allow-delete")...)
	e.url, e.ops = edge.url, edge.ops
	for _, tenant := range []string{"other", "acme", "globex"} {
		natstest.Eventually(t, "the account of "+tenant, func(ctx context.Context) error {
			return wantStatus(e.do(ctx, tenant, http.MethodGet, "/v1/sessions", ""))(http.StatusOK)
		})
	}
}

// token returns a token of a client of a tenant with all rights.
func (e *accountsEnv) token(tenant, id string) string {
	e.t.Helper()
	return e.issuer.Token(auth.Grant{
		Tenant: tenant, Subject: "user-of-" + tenant, Scopes: auth.ScopeRead | auth.ScopeChat | auth.ScopeDelete | auth.ScopeAdmin, Sessions: auth.Sessions{All: true}, TokenID: id,
	}, time.Hour, nil)
}

// do sends a request of a client of a tenant with all rights; without a tenant it has no credential.
func (e *accountsEnv) do(ctx context.Context, tenant, method, path, body string) (status int, text string) {
	e.t.Helper()
	token := ""
	if tenant != "" {
		token = e.token(tenant, "")
	}
	status, _, text, err := read(ctx, method, e.url+path, body, bearer(token))
	if err != nil {
		return 0, err.Error()
	}
	return status, text
}

// wantStatus returns a function that compares the status of a response.
func wantStatus(status int, text string) func(want int) error {
	return func(want int) error {
		if status != want {
			return fmt.Errorf("status %d, want %d: %s", status, want, text)
		}
		return nil
	}
}

// chat has a tenant's worker answer in a chat, and waits until the session is listed.
func (e *accountsEnv) chat(tenant, id string) {
	e.t.Helper()
	natstest.Eventually(e.t, "an answer for "+tenant, func(context.Context) error {
		status, text := e.do(e.t.Context(), tenant, http.MethodPost, "/api/chat",
			fmt.Sprintf(`{"id":%q,"messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"plain, for %s"}]}]}`, id, tenant))
		if status != http.StatusOK || !strings.Contains(text, `"type":"finish"`) {
			return fmt.Errorf("status %d: %s", status, text)
		}
		return nil
	})
	natstest.Eventually(e.t, "the list of "+tenant, func(ctx context.Context) error {
		status, list := e.do(ctx, tenant, http.MethodGet, "/v1/sessions", "")
		if status != http.StatusOK || !strings.Contains(list, `"`+id+`"`) {
			return fmt.Errorf("status %d: %s", status, list)
		}
		return nil
	})
}

// operator returns JetStream in the account of a tenant, with all rights.
func (e *accountsEnv) operator(tenant string) jetstream.JetStream {
	return e.connect(natsauth.Operator, tenant, natsauth.InboxPrefix(natsauth.Operator))
}

// audited returns the number of messages to agents of a tenant in the audit log of an account.
func (e *accountsEnv) audited(ctx context.Context, account, tenant string) (n uint64, err error) {
	stream, err := e.operator(account).Stream(ctx, "TR_AUDIT")
	if err != nil {
		return 0, err
	}
	subject, err := names.Layout{}.Audit(tenant, string(audit.Message))
	if err != nil {
		return 0, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, err
	}
	return info.State.Subjects[subject], nil
}

func (e *accountsEnv) connect(role natsauth.Role, tenant, inbox string) jetstream.JetStream {
	e.t.Helper()
	key, err := nats.NkeyOptionFromSeed(e.seed(role, tenant))
	if err != nil {
		e.t.Fatal(err)
	}
	return natstest.JetStream(e.t, e.server.URL, key, nats.CustomInboxPrefix(inbox), nats.Name("tailrace-"+string(role)+"-test"))
}

// One edge serves tenants with accounts of their own, with their own projectors and workers there, and the tenants of its own account: each tenant gets
// its sessions, also under an id that others use, and its commands are in its account alone. Requests without a credential are those of any edge.
func TestAccounts(t *testing.T) {
	e := newAccountsEnv(t)
	tenants := []string{"acme", "globex", "other"}
	for _, tenant := range tenants {
		e.chat(tenant, "same")
		e.chat(tenant, "of-"+tenant)
	}
	for _, tenant := range tenants {
		for _, path := range []string{"/v1/sessions", "/v1/sessions/same/events", "/v1/events?session=same", "/v1/sessions/same/snapshot", "/v1/sessions/same/messages", "/v1/sessions/same/tree"} {
			status, text := e.do(t.Context(), tenant, http.MethodGet, path, "")
			if status != http.StatusOK {
				t.Errorf("%s of %s: %d %s", path, tenant, status, text)
			}
			for _, other := range tenants {
				if other != tenant && strings.Contains(text, other) {
					t.Errorf("%s of %s has something of %s: %s", path, tenant, other, text)
				}
			}
		}
		for _, other := range tenants {
			want := http.StatusNotFound
			if other == tenant {
				want = http.StatusOK
			}
			if err := wantStatus(e.do(t.Context(), tenant, http.MethodGet, "/v1/sessions/of-"+other+"/snapshot", ""))(want); err != nil {
				t.Errorf("%s reads the session of %s: %v", tenant, other, err)
			}
		}
	}
	for _, tenant := range []string{"acme", "globex", ""} { // each has sent two commands
		stream, err := e.operator(tenant).Stream(t.Context(), "TR_COMMANDS")
		if err != nil {
			t.Fatal(err)
		}
		if last := stream.CachedInfo().State.LastSeq; last != 2 {
			t.Errorf("the account of %q got %d commands, want 2", tenant, last)
		}
	}
	natstest.Eventually(t, "the messages of all tenants in the audit log of the settings' account", func(ctx context.Context) error {
		for _, tenant := range tenants {
			n, err := e.audited(ctx, "", tenant)
			if err != nil {
				return err
			}
			if n != 2 {
				return fmt.Errorf("%d messages of %s", n, tenant)
			}
		}
		return nil
	})
	if n, err := e.audited(t.Context(), "acme", "acme"); err != nil || n > 0 {
		t.Errorf("the audit log in the account of acme has %d messages, %v", n, err)
	}
	for _, tenant := range tenants {
		for _, other := range tenants {
			status, text := e.do(t.Context(), tenant, http.MethodPost, "/v1/tickets", fmt.Sprintf(`{"session":"of-%s"}`, other))
			if want := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[other == tenant]; status != want {
				t.Errorf("%s gets a ticket for the session of %s: %d %s, want %d", tenant, other, status, text, want)
			}
			var got struct {
				Ticket string `json:"ticket"`
			}
			if status != http.StatusOK || json.Unmarshal([]byte(text), &got) != nil {
				continue
			}
			for _, want := range []int{http.StatusOK, http.StatusUnauthorized} {
				if err := wantStatus(e.do(t.Context(), "", http.MethodGet, "/v1/sessions/of-"+tenant+"/events?ticket="+got.Ticket, ""))(want); err != nil {
					t.Errorf("the ticket of %s: %v", tenant, err)
				}
			}
		}
	}
	for path, want := range map[string]int{"/v1/sessions": 401, "/v1/sessions/same/events": 401, "/api/chat/same": 401, "/healthz": 200, "/nothing": 404} {
		if err := wantStatus(e.do(t.Context(), "", http.MethodGet, path, ""))(want); err != nil {
			t.Errorf("%s without a credential: %v", path, err)
		}
	}
	if err := wantStatus(e.do(t.Context(), "acme", http.MethodDelete, "/v1/sessions/same", ""))(http.StatusNoContent); err != nil {
		t.Error(err)
	}
	for tenant, want := range map[string]int{"acme": 404, "globex": 200, "other": 200} {
		if err := wantStatus(e.do(t.Context(), tenant, http.MethodGet, "/v1/sessions/same/snapshot", ""))(want); err != nil {
			t.Errorf("%s after acme has deleted its session: %v", tenant, err)
		}
	}
	_, metrics := get(t, e.ops+"/metrics", "")
	for _, want := range []string{"tailrace_nats_up 1", `tailrace_nats_up{account="acme"} 1`, `tailrace_edge_connects_total{account="globex",outcome="opened"} 3`, `tailrace_requests_total{code="200",route="tree"} 3`, `tailrace_dependency_up{account="acme",dependency="feeds"}`} {
		if !strings.Contains(metrics, want+"\n") && !strings.Contains(metrics, want+" ") {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// The credential of a worker of one tenant reads nothing of another one: its account has streams of the same names, and they have its own sessions alone.
func TestAccountsIsolateReaders(t *testing.T) {
	e := newAccountsEnv(t)
	e.chat("acme", "of-acme")
	e.chat("globex", "of-globex")
	js := e.connect(natsauth.Worker, "acme", natsauth.InboxPrefix(natsauth.Worker))
	request := func(subject, body string) string {
		t.Helper()
		msg, err := js.Conn().Request(subject, []byte(body), 10*time.Second)
		if err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
		return fmt.Sprint(msg.Header, string(msg.Data))
	}
	info := request("$JS.API.STREAM.INFO.TR_CHUNKS_0", `{"subjects_filter": ">"}`)
	if !strings.Contains(info, "tr.chunks.0.acme.of-acme.of-acme") || strings.Contains(info, "globex") {
		t.Errorf("the subjects of the log: %s", info)
	}
	for _, stream := range []string{"TR_CHUNKS_0", "KV_TR_SNAPSHOTS"} {
		at, err := js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		for seq := uint64(1); seq <= at.CachedInfo().State.LastSeq+100; seq++ { // the other account has about as many
			for _, api := range []string{"STREAM.MSG.GET.", "DIRECT.GET."} {
				if got := request("$JS.API."+api+stream, fmt.Sprintf(`{"seq": %d}`, seq)); strings.Contains(got, "globex") {
					t.Fatalf("message %d of %s: %s", seq, stream, got)
				}
			}
		}
	}
	for _, subject := range []string{"tr.chunks.0.globex.of-globex.of-globex", "$KV.TR_SNAPSHOTS.h.globex.of-globex.of-globex"} {
		stream := "TR_CHUNKS_0"
		if strings.HasPrefix(subject, "$KV.") {
			stream = "KV_TR_SNAPSHOTS"
		}
		for _, api := range []string{"STREAM.MSG.GET.", "DIRECT.GET."} {
			if got := request("$JS.API."+api+stream, fmt.Sprintf(`{"last_by_subj": %q}`, subject)); !strings.Contains(got, "404") && !strings.Contains(got, "no message found") {
				t.Errorf("%s: %s", subject, got)
			}
		}
	}
}

// Records of another tenant in the account of a tenant are never served: not to the other tenant, whose sessions come from its own account, nor to
// the tenant of the account, whose sessions have its name.
func TestRecordsOfAnotherTenantAreNotServed(t *testing.T) {
	e := newAccountsEnv(t)
	js := e.operator("acme")
	writer, err := producers.New(js, producers.Config{Positions: producers.NoPositions})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := writer.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, tenant := range []string{"globex", "other", "acme"} {
		run, err := writer.Start(t.Context(), chunk.RootSession(tenant, "forged"+tenant), chunk.RunStarted{Mode: "execute"})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(run.End(t.Context(), nil), run.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, tenant := range []string{"globex", "other", "acme"} { // the projector of the account has saved all of them
		natstest.Eventually(t, "the snapshot of "+tenant, func(ctx context.Context) error {
			kv, err := js.KeyValue(ctx, "TR_SNAPSHOTS")
			if err != nil {
				return err
			}
			_, err = kv.Get(ctx, "h."+tenant+".forged"+tenant+".forged"+tenant)
			return err
		})
	}
	for _, reader := range []string{"acme", "globex", "other"} {
		for _, tenant := range []string{"globex", "other"} {
			for _, path := range []string{"/v1/sessions/forged" + tenant + "/events", "/v1/sessions/forged" + tenant + "/snapshot", "/v1/sessions/forged" + tenant + "/messages", "/v1/sessions/forged" + tenant + "/tree"} {
				if err := wantStatus(e.do(t.Context(), reader, http.MethodGet, path, ""))(http.StatusNotFound); err != nil {
					t.Errorf("%s of %s: %v", path, reader, err)
				}
			}
		}
		if status, list := e.do(t.Context(), reader, http.MethodGet, "/v1/sessions", ""); status != http.StatusOK || strings.Contains(list, "forgedglobex") || strings.Contains(list, "forgedother") {
			t.Errorf("list of %s: %d %s", reader, status, list)
		}
	}
	if err := wantStatus(e.do(t.Context(), "acme", http.MethodGet, "/v1/sessions/forgedacme/snapshot", ""))(http.StatusOK); err != nil {
		t.Errorf("acme reads its own session: %v", err)
	}
}

// An account without JetStream, and one that refuses its users for a while, affect neither the other tenants nor the readiness of the edge. Their tenants
// are refused at once and asked to retry, and served again when the account is.
func TestAccountsFailAlone(t *testing.T) {
	e := newAccountsEnv(t)
	wantOthers := func(id string, tenants ...string) {
		t.Helper()
		for _, tenant := range tenants {
			e.chat(tenant, id)
			if status, text := e.do(t.Context(), tenant, http.MethodGet, "/v1/sessions/"+id+"/events", ""); status != http.StatusOK || !strings.Contains(text, `"type":"end"`) {
				t.Errorf("stream of %s: %d %s", tenant, status, text)
			}
		}
		for path, want := range map[string]int{"/readyz": 200, "/startupz": 200, "/livez": 200} {
			if status, body := get(t, e.ops+path, ""); status != want {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
		if err := wantStatus(e.do(t.Context(), "initech", http.MethodGet, "/v1/sessions", ""))(http.StatusServiceUnavailable); err != nil {
			t.Errorf("initech, whose account has no JetStream: %v", err)
		}
	}
	wantOthers("before", "acme", "globex", "other")
	e.server.Reload(t, e.config("GLOBEX"))
	natstest.Eventually(t, "globex to be refused", func(ctx context.Context) error {
		return wantStatus(e.do(ctx, "globex", http.MethodGet, "/v1/sessions/before/snapshot", ""))(http.StatusServiceUnavailable)
	})
	wantOthers("meanwhile", "acme", "other")
	e.server.Reload(t, e.config())
	natstest.Eventually(t, "globex to be served", func(ctx context.Context) error {
		return wantStatus(e.do(ctx, "globex", http.MethodGet, "/v1/sessions/before/snapshot", ""))(http.StatusOK)
	})
	wantOthers("after", "acme", "globex", "other")
}

// A revocation of a tenant with an account is in the account of the settings, and ends the streams that its account serves.
func TestRevocationInAccounts(t *testing.T) {
	e := newAccountsEnv(t)
	writer, err := producers.New(e.operator("acme"), producers.Config{Positions: producers.NoPositions, Pace: producers.Off})
	if err != nil {
		t.Fatal(err)
	}
	run, err := writer.Start(t.Context(), chunk.RootSession("acme", "open"), chunk.RunStarted{Mode: "execute"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(run.Close(), writer.Close()); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	open := func() (*http.Response, error) {
		return do(ctx, http.MethodGet, e.url+"/v1/sessions/open/events", "", bearer(e.token("acme", "stolen")))
	}
	stream, err := open()
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", stream, err)
	}
	defer stream.Body.Close()
	if err := wantStatus(e.do(ctx, "acme", http.MethodDelete, "/v1/tokens/stolen", ""))(http.StatusNoContent); err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, stream.Body)
	if ctx.Err() != nil {
		t.Errorf("the stream does not end: %v", err)
	}
	again, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Body.Close(); err != nil || again.StatusCode != http.StatusUnauthorized {
		t.Errorf("the revoked token gets %d, %v", again.StatusCode, err)
	}
	for tenant, want := range map[string]uint64{"": 1, "acme": 0, "globex": 0} {
		stream, err := e.operator(tenant).Stream(t.Context(), "KV_TR_CREDENTIALS")
		if err != nil {
			t.Fatal(err)
		}
		if last := stream.CachedInfo().State.LastSeq; last != want {
			t.Errorf("the account of %q has %d messages of credentials, want %d", tenant, last, want)
		}
	}
}

func TestInvalidAccounts(t *testing.T) {
	for want, text := range map[string]string{
		"want creds or nkey":                     `{"acme": {}}`,
		"acme: want creds":                       `{"acme": {"creds": "a", "nkey": "b"}}`,
		"acme.password: there is no such member": `{"acme": {"nkey": "a", "password": "b"}}`,
		"tenant":                                 `{"a.b": {"nkey": "a"}}`,
		"Partitions is 5000":                     `{"acme": {"nkey": "a", "partitions": 5000}}`,
		"unknown context":                        `{"acme": {"creds": "/does/not/exist", "context": "nowhere"}}`,
		"nkey /does/not/exist:":                  `{"acme": {"nkey": "/does/not/exist"}}`,
	} {
		file := writeFile(t, "accounts.json", text)
		if out := tailrace(t, exitUsage, "edge", "--accounts", file, "--listen", "127.0.0.1:0", "--ops-listen", ""); !strings.Contains(out, want) {
			t.Errorf("%s: %s, want %q", text, out, want)
		}
	}
	if out := tailrace(t, exitUsage, "edge", "--accounts", "/does/not/exist", "--listen", "127.0.0.1:0", "--ops-listen", ""); !strings.Contains(out, "no such file") {
		t.Errorf("a missing file: %s", out)
	}
	file := writeFile(t, "accounts.json", `{"acme": {"nkey": "a"}}`)
	for want, args := range map[string][]string{
		"only the command edge": {"up", "--nats-url", "nats://127.0.0.1:1"},
		"want a url":            {"edge", "--nats-url", "nats://me:secret@127.0.0.1:1"},
	} {
		if out := tailrace(t, exitUsage, append(args, "--accounts", file, "--listen", "127.0.0.1:0", "--ops-listen", "")...); !strings.Contains(out, want) || strings.Contains(out, "secret") {
			t.Errorf("%v: %s, want %q", args, out, want)
		}
	}
}
