package natsauth_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
)

func natsOptions(public string, sign func([]byte) ([]byte, error), inbox string) []nats.Option {
	return []nats.Option{nats.Nkey(public, sign), nats.CustomInboxPrefix(inbox)}
}

// Short names of the roles in the table.
const (
	setup     = natsauth.Setup
	edge      = natsauth.Edge
	projector = natsauth.Projector
	worker    = natsauth.Worker
	analytics = natsauth.Analytics
	operator  = natsauth.Operator
)

// act is something that a client asks the server for, and the only roles that may.
type act struct {
	name    string
	subject string // of a publish or a request; with the prefix "sub " of a subscription
	allowed []natsauth.Role
}

// acts is the table of the acts. The worker serves the agent type support.
var acts = []act{
	{"create any stream", "$JS.API.STREAM.CREATE.OTHER", []natsauth.Role{operator}},
	{"create the log", "$JS.API.STREAM.CREATE.TR_CHUNKS_0", []natsauth.Role{setup, operator}},
	{"change the log", "$JS.API.STREAM.UPDATE.TR_CHUNKS_0", []natsauth.Role{operator}},
	{"delete the log", "$JS.API.STREAM.DELETE.TR_CHUNKS_0", []natsauth.Role{operator}},
	{"delete the queue", "$JS.API.STREAM.DELETE.TR_COMMANDS", []natsauth.Role{operator}},
	{"delete the snapshots", "$JS.API.STREAM.DELETE.KV_TR_SNAPSHOTS", []natsauth.Role{operator}},
	{"copy the log", "$JS.API.STREAM.SNAPSHOT.TR_CHUNKS_0", []natsauth.Role{operator}},
	{"confirm a piece of a copy", "$JS.SNAPSHOT.ACK.TR_CHUNKS_0.x", []natsauth.Role{operator}},
	{"restore the log", "$JS.SNAPSHOT.RESTORE.TR_CHUNKS_0.x", []natsauth.Role{operator}},
	{"replace the log", "$JS.API.STREAM.RESTORE.TR_CHUNKS_0", []natsauth.Role{operator}},
	{"move the leader of the log", "$JS.API.STREAM.LEADER.STEPDOWN.TR_CHUNKS_0", []natsauth.Role{operator}},
	{"list the streams", "$JS.API.STREAM.LIST", []natsauth.Role{operator}},
	{"read about a stream of another program", "$JS.API.STREAM.INFO.OTHER", []natsauth.Role{operator}},
	{"list the consumers", "$JS.API.CONSUMER.LIST.TR_CHUNKS_0", []natsauth.Role{operator}},

	{"purge the log", "$JS.API.STREAM.PURGE.TR_CHUNKS_0", []natsauth.Role{projector, operator}},
	{"purge the queue", "$JS.API.STREAM.PURGE.TR_COMMANDS", []natsauth.Role{operator}},
	{"purge the deadlines", "$JS.API.STREAM.PURGE.TR_DEADLINES", []natsauth.Role{operator}},
	{"purge the inbox", "$JS.API.STREAM.PURGE.KV_TR_INBOX", []natsauth.Role{projector, operator}},
	{"purge the snapshots", "$JS.API.STREAM.PURGE.KV_TR_SNAPSHOTS", []natsauth.Role{projector, operator}},
	{"purge the objects", "$JS.API.STREAM.PURGE.OBJ_TR_OBJECTS", []natsauth.Role{projector, operator}},
	{"purge the dead letters", "$JS.API.STREAM.PURGE.TR_DEADLETTERS", []natsauth.Role{projector, operator}},
	{"delete a message of the log", "$JS.API.STREAM.MSG.DELETE.TR_CHUNKS_0", []natsauth.Role{worker, operator}},
	{"delete a command", "$JS.API.STREAM.MSG.DELETE.TR_COMMANDS", []natsauth.Role{projector, operator}},
	{"purge the revocations", "$JS.API.STREAM.PURGE.KV_TR_CREDENTIALS", []natsauth.Role{operator}},
	{"delete a revocation", "$JS.API.STREAM.MSG.DELETE.KV_TR_CREDENTIALS", []natsauth.Role{operator}},
	{"delete a dead letter", "$JS.API.STREAM.MSG.DELETE.TR_DEADLETTERS", []natsauth.Role{operator}},
	{"delete an answer", "$JS.API.STREAM.MSG.DELETE.KV_TR_INBOX", []natsauth.Role{operator}},

	{"write the lease of a projector", "$KV.TR_SNAPSHOTS.turn.projector-x", []natsauth.Role{projector, operator}},

	{"write a session of a tenant", "tr.chunks.0.acme.s1.s1", []natsauth.Role{edge, projector, worker, operator}},
	{"write a subject that is not of a session", "tr.chunks.0.acme.s1.s1.more", nil},
	{"send a command of a tenant", "tr.commands.acme.support.s1", []natsauth.Role{edge, projector, worker, operator}},
	{"set a deadline of a tenant", "tr.deadlines.set.acme.support.s1.r1.1", []natsauth.Role{worker, operator}},
	{"make a deadline due", "tr.deadlines.due.acme.support.s1.r1.1", []natsauth.Role{operator}},
	{"answer a call of a tenant", "$KV.TR_INBOX.acme.s1.s1.r1.stop", []natsauth.Role{edge, projector, worker, operator}},
	{"forge a hint", "tr.inbox.acme.s1.s1.r1.stop", nil},
	{"revoke a token of a tenant", "$KV.TR_CREDENTIALS.revoked.acme.token.t1", []natsauth.Role{edge, operator}},
	{"write a ticket", "$KV.TR_CREDENTIALS.ticket.t1", []natsauth.Role{edge, operator}},
	{"write anything else among the credentials", "$KV.TR_CREDENTIALS.other", []natsauth.Role{operator}},
	{"count tokens of a tenant", "$KV.TR_USAGE.acme.2026-11-25", []natsauth.Role{worker, operator}},
	{"read the used tokens", "$JS.API.STREAM.MSG.GET.KV_TR_USAGE", []natsauth.Role{worker, operator}},
	{"follow the used tokens", "$JS.API.CONSUMER.CREATE.KV_TR_USAGE.x.$KV.TR_USAGE.acme.*", []natsauth.Role{operator}},
	{"read the used tokens as they are written", "sub $KV.TR_USAGE.>", nil},
	{"purge the used tokens", "$JS.API.STREAM.PURGE.KV_TR_USAGE", []natsauth.Role{operator}},
	{"delete used tokens", "$JS.API.STREAM.MSG.DELETE.KV_TR_USAGE", []natsauth.Role{operator}},
	{"delete the bucket of used tokens", "$JS.API.STREAM.DELETE.KV_TR_USAGE", []natsauth.Role{operator}},
	{"create the bucket of used tokens", "$JS.API.STREAM.CREATE.KV_TR_USAGE", []natsauth.Role{setup, operator}},
	{"write a snapshot", "$KV.TR_SNAPSHOTS.h.acme.s1.s1", []natsauth.Role{projector, operator}},
	{"note a fork", "$KV.TR_SNAPSHOTS.fork.acme.s1.f1", []natsauth.Role{edge, projector, worker, operator}},
	{"take a lease", "$KV.TR_SNAPSHOTS.turn.sweep", []natsauth.Role{projector, operator}},
	{"write an object", "$O.TR_OBJECTS.C.m-1", []natsauth.Role{projector, operator}},
	{"write a large value of a session", "$O.TR_OBJECTS.C.v.acme.s1.s1.1.tool_end.result.x.0", []natsauth.Role{edge, projector, worker, operator}},
	{"write another bucket", "$KV.OTHER.key", []natsauth.Role{operator}},
	{"write a dead letter", "tr.deadletters.acme.s1.s1.1", []natsauth.Role{projector, operator}},

	{"write an audit event of a tenant", "tr.audit.tenant.acme.approve", []natsauth.Role{edge, worker, operator}},
	{"write an audit event of a client that is not authenticated", "tr.audit.none.none.access", []natsauth.Role{edge, operator}},
	{"purge the audit log", "$JS.API.STREAM.PURGE.TR_AUDIT", []natsauth.Role{operator}}, // and the stream refuses it, see TestAuditIsAppendOnly
	{"delete an audit event", "$JS.API.STREAM.MSG.DELETE.TR_AUDIT", []natsauth.Role{operator}},
	{"delete the audit log", "$JS.API.STREAM.DELETE.TR_AUDIT", []natsauth.Role{operator}},
	{"change the audit log", "$JS.API.STREAM.UPDATE.TR_AUDIT", []natsauth.Role{operator}},
	{"read an audit event", "$JS.API.STREAM.MSG.GET.TR_AUDIT", []natsauth.Role{operator}},
	{"follow the audit log", "$JS.API.CONSUMER.CREATE.TR_AUDIT.x.tr.audit.tenant.acme.*", []natsauth.Role{operator}},
	{"read audit events as they are written", "sub tr.audit.>", nil},

	{"take commands", "$JS.API.CONSUMER.MSG.NEXT.TR_COMMANDS.agent-support", []natsauth.Role{worker, operator}},
	{"take commands of another agent type", "$JS.API.CONSUMER.MSG.NEXT.TR_COMMANDS.agent-billing", []natsauth.Role{operator}},
	{"follow the commands", "$JS.API.CONSUMER.CREATE.TR_COMMANDS.agent-support.tr.commands.*.support.*", []natsauth.Role{worker, operator}},
	{"follow all commands", "$JS.API.CONSUMER.CREATE.TR_COMMANDS.x", []natsauth.Role{operator}},
	{"inspect the consumer of the workers", "$JS.API.CONSUMER.INFO.TR_COMMANDS.agent-support", []natsauth.Role{worker, operator}},
	{"acknowledge a command", "$JS.ACK.TR_COMMANDS.agent-support.1.1.1.1.0", []natsauth.Role{worker, operator}},
	{"delete the consumer of the workers", "$JS.API.CONSUMER.DELETE.TR_COMMANDS.agent-support", []natsauth.Role{operator}},
	{"pause the consumer of the workers", "$JS.API.CONSUMER.PAUSE.TR_COMMANDS.agent-support", []natsauth.Role{operator}},
	{"read a command", "$JS.API.STREAM.MSG.GET.TR_COMMANDS", []natsauth.Role{edge, projector, worker, operator}},
	{"read an answer", "$JS.API.STREAM.MSG.GET.KV_TR_INBOX", []natsauth.Role{edge, projector, worker, operator}},
	{"read a dead letter", "$JS.API.STREAM.MSG.GET.TR_DEADLETTERS", []natsauth.Role{projector, operator}},

	{"follow the log of a tenant", "$JS.API.CONSUMER.CREATE.TR_CHUNKS_0.x.tr.chunks.0.acme.*.*", []natsauth.Role{edge, projector, worker, analytics, operator}},
	{"follow all of the log", "$JS.API.CONSUMER.CREATE.TR_CHUNKS_0.x", []natsauth.Role{edge, operator}},
	{"follow all of the log by its filter", "$JS.API.CONSUMER.CREATE.TR_CHUNKS_0.x.tr.chunks.0.*.*.*", []natsauth.Role{edge, projector, worker, analytics, operator}},
	{"read a ticket", "$JS.API.STREAM.MSG.GET.KV_TR_CREDENTIALS", []natsauth.Role{edge, operator}},
	{"follow the revocations", "$JS.API.CONSUMER.CREATE.KV_TR_CREDENTIALS.x.$KV.TR_CREDENTIALS.revoked.>", []natsauth.Role{edge, operator}},
	{"follow the tickets", "$JS.API.CONSUMER.CREATE.KV_TR_CREDENTIALS.x.$KV.TR_CREDENTIALS.ticket.*", []natsauth.Role{operator}},
	{"create the bucket of credentials", "$JS.API.STREAM.CREATE.KV_TR_CREDENTIALS", []natsauth.Role{setup, operator}},
	{"follow the inbox", "$JS.API.CONSUMER.CREATE.KV_TR_INBOX.x", []natsauth.Role{operator}},
	{"change the consumer of the projectors", "$JS.API.CONSUMER.CREATE.TR_CHUNKS_0.projector.tr.chunks.0.acme.*.*", []natsauth.Role{projector, operator}},
	{"delete the consumer of the projectors", "$JS.API.CONSUMER.DELETE.TR_CHUNKS_0.projector", []natsauth.Role{projector, operator}},
	{"take records from the projectors", "$JS.API.CONSUMER.MSG.NEXT.TR_CHUNKS_0.projector", []natsauth.Role{projector, operator}},
	{"reset the consumer of the projectors", "$JS.API.CONSUMER.RESET.TR_CHUNKS_0.projector", []natsauth.Role{projector, operator}},
	{"acknowledge for the projectors", "$JS.ACK.TR_CHUNKS_0.projector.1.1.1.1.0", []natsauth.Role{projector, operator}},
	{"acknowledge for the projectors, second form", "$JS.ACK.hub.acc.TR_CHUNKS_0.projector.1.1.1.1.0.x", []natsauth.Role{projector, operator}},
	{"acknowledge a firehose", "$JS.ACK.TR_CHUNKS_0.lake.1.1.1.1.0", []natsauth.Role{analytics, operator}},

	{"read all subjects", "sub >", nil},
	{"read the sessions as they are written", "sub tr.chunks.>", nil},
	{"read the commands as they are sent", "sub tr.commands.>", nil},
	{"read the answers as they are given", "sub $KV.TR_INBOX.>", nil},
	{"read the tickets as they are written", "sub $KV.TR_CREDENTIALS.>", nil},
	{"read the hints", "sub tr.inbox.>", []natsauth.Role{edge, projector, worker, operator}},
	{"read the inboxes of clients without a prefix", "sub _INBOX.>", nil},
	{"read the inboxes of workers", "sub _INBOX_worker.>", []natsauth.Role{worker}},
	{"read the inboxes of edges", "sub _INBOX_edge.>", []natsauth.Role{edge}},
	{"read the inboxes of setup", "sub _INBOX_setup.>", []natsauth.Role{setup}},
	{"read the requests of JetStream", "sub $JS.API.>", nil},
	{"read the events of JetStream", "sub $JS.EVENT.>", nil},
	{"read the system", "$SYS.REQ.SERVER.PING", nil},
	{"write anything else", "orders.created", nil},
}

// Each role tries each act. The server refuses it, or, for the roles of the table, accepts it; the requests are malformed, so that an accepted one changes
// nothing. One server and a cluster decide the same.
func TestForbiddenActs(t *testing.T) {
	users := roletest.New(t, natsauth.Config{AgentTypes: []string{"support"}})
	for name, start := range map[string]func(*testing.T) interface {
		JetStream(tb testing.TB, opts ...nats.Option) jetstream.JetStream
		Conn(tb testing.TB, opts ...nats.Option) *nats.Conn
	}{
		"R1": func(t *testing.T) interface {
			JetStream(tb testing.TB, opts ...nats.Option) jetstream.JetStream
			Conn(tb testing.TB, opts ...nats.Option) *nats.Conn
		} {
			t.Helper()
			srv := natstest.Start(t, users.Server())
			streamtest.Ensure(t, srv.JetStream(t), topology.Config{})
			return srv
		},
		"R3": func(t *testing.T) interface {
			JetStream(tb testing.TB, opts ...nats.Option) jetstream.JetStream
			Conn(tb testing.TB, opts ...nats.Option) *nats.Conn
		} {
			t.Helper()
			cluster := natstest.StartCluster(t, 3, users.Server())
			streamtest.Ensure(t, cluster.JetStream(t), topology.Config{Replicas: 3})
			return cluster
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := start(t)
			for _, role := range natsauth.Roles() {
				nc := srv.Conn(t, append(users.Options(t, role), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
				for _, a := range acts {
					if got, want := try(t, nc, a.subject), slices.Contains(a.allowed, role); got != want {
						t.Errorf("%s may %s: %t, want %t (%s)", role, a.name, got, want, a.subject)
					}
				}
			}
			wantUnchanged(t, srv.JetStream(t))
		})
	}
}

// try publishes or subscribes, and reports whether the server accepted that.
func try(t *testing.T, nc *nats.Conn, subject string) bool {
	t.Helper()
	before := nc.LastError()
	if filter, ok := strings.CutPrefix(subject, "sub "); ok {
		sub, err := nc.SubscribeSync(filter)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sub.Unsubscribe() }() // the server may have removed it
	} else {
		msg := &nats.Msg{Subject: subject, Reply: nc.NewInbox(), Data: []byte("x"), Header: nats.Header{jetstream.MsgTTLHeader: {"none"}}}
		if err := nc.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	refused := nc.LastError()
	return refused == before || !errors.Is(refused, nats.ErrPermissionViolation) //nolint:errorlint // a new error value is a new event
}

// wantUnchanged checks that all streams exist, and are empty.
func wantUnchanged(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	streams, err := topology.Streams(topology.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range streams {
		stream, err := js.Stream(t.Context(), s.Name)
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		if state := stream.CachedInfo().State; state.Msgs > 0 || state.Consumers > 0 {
			t.Errorf("%s has %d messages and %d consumers, want none", s.Name, state.Msgs, state.Consumers)
		}
	}
}

// In operator mode, the permissions are part of the user's JWT and hold there too.
func TestUserJWT(t *testing.T) {
	permissions, err := natsauth.Of(natsauth.Worker, natsauth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]nkeys.KeyPair{}
	public := map[string]string{}
	for name, create := range map[string]func() (nkeys.KeyPair, error){
		"operator": nkeys.CreateOperator, "system": nkeys.CreateAccount, "account": nkeys.CreateAccount, "user": nkeys.CreateUser,
	} {
		if keys[name], err = create(); err != nil {
			t.Fatal(err)
		}
		if public[name], err = keys[name].PublicKey(); err != nil {
			t.Fatal(err)
		}
	}
	encoded := func(claims jwt.Claims, by string) string {
		t.Helper()
		token, err := claims.Encode(keys[by])
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	account := jwt.NewAccountClaims(public["account"])
	account.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	claims := jwt.NewUserClaims(public["user"])
	claims.Permissions = permissions
	var problems jwt.ValidationResults
	if claims.Validate(&problems); !problems.IsEmpty() {
		t.Errorf("the claims: %+v", problems.Issues)
	}
	srv := natstest.Start(t, natstest.ServerConfig(`
operator: `+encoded(jwt.NewOperatorClaims(public["operator"]), "operator")+`
resolver: MEMORY
system_account: `+public["system"]+`
resolver_preload: {
  `+public["system"]+`: `+encoded(jwt.NewAccountClaims(public["system"]), "operator")+`
  `+public["account"]+`: `+encoded(account, "operator")+`
}`))
	user := encoded(claims, "account")
	nc := srv.Conn(t, nats.UserJWT(func() (string, error) { return user, nil }, keys["user"].Sign),
		nats.CustomInboxPrefix(natsauth.InboxPrefix(natsauth.Worker)), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	for subject, want := range map[string]bool{
		"tr.chunks.0.acme.s1.s1": true, "tr.chunks.0.acme.s1.s1.more": false, "$JS.API.STREAM.DELETE.TR_CHUNKS_0": false,
		"$JS.API.CONSUMER.DELETE.TR_CHUNKS_0.projector": false, "sub tr.inbox.>": true, "sub _INBOX.>": false,
	} {
		if got := try(t, nc, subject); got != want {
			t.Errorf("%s is accepted: %t, want %t", subject, got, want)
		}
	}
}
