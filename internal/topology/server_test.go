package topology

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/subjects"
)

// A missing feature of the server is reported in one sentence with the remedy.
func TestMissingServerFeatures(t *testing.T) {
	accounts := natstest.ServerConfig(`
		accounts {
			WITH    { jetstream: enabled, users: [
				{user: with, password: p},
				{user: mute, password: p, permissions: {publish: {deny: ["$JS.>"]}}}
			] }
			WITHOUT { users: [{user: without, password: p}] }
			BOUNDED { jetstream: {max_file: 1G, max_bytes_required: true}, users: [{user: bounded, password: p}] }
		}`)
	tests := map[string]struct {
		server []natstest.Option
		client []nats.Option
		cfg    Config
		want   string
	}{
		"no JetStream": {
			server: []natstest.Option{natstest.WithoutJetStream()},
			want:   "has no JetStream: start it with -js, or enable jetstream in its configuration",
		},
		"no JetStream for the account": {
			server: []natstest.Option{accounts},
			client: []nats.Option{nats.UserInfo("without", "p")},
			want:   "JetStream is not enabled for this account at",
		},
		"no permission": {
			server: []natstest.Option{accounts},
			client: []nats.Option{nats.UserInfo("mute", "p"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})},
			want:   "this user may not publish to $JS.API.>",
		},
		"an account that wants limits": {
			server: []natstest.Option{accounts},
			client: []nats.Option{nats.UserInfo("bounded", "p")},
			want:   "this account wants a size limit for every stream: set all MaxBytes (TAILRACE_STREAMS)",
		},
		"three replicas on one server": {
			cfg:  Config{Replicas: 3},
			want: "is a single server: set Replicas to 1, or connect to a cluster of three",
		},
		"small messages": {
			server: []natstest.Option{natstest.MaxPayload(1000)},
			want:   "nats-server takes messages of 1000 bytes at most, want 1048576: raise max_payload in its configuration, or lower MaxMsgSize and MaxSnapshot",
		},
		"a small disk": {
			server: []natstest.Option{natstest.MaxStore(1 << 20)},
			cfg:    Config{Log: Limits{MaxBytes: 1 << 30}},
			want:   "create stream TR_CHUNKS_0: insufficient storage: raise max_file_store or lower MaxBytes",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			js := natstest.Start(t, test.server...).JetStream(t, test.client...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			wantSentence(t, Ensure(ctx, js, test.cfg), test.want)
		})
	}
}

func wantSentence(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got  %v\nwant one line with %s", err, want)
	}
}

// A server of an older version responds with its API level. None can be started here, so a responder simulates it.
func TestOldServer(t *testing.T) {
	nc := natstest.Start(t, natstest.WithoutJetStream()).Conn(t)
	answer := []byte(`{"type":"io.nats.jetstream.api.v1.account_info_response","api":{"level":1}}`)
	if _, err := nc.Subscribe("$JS.API.INFO", func(m *nats.Msg) {
		if err := m.Respond(answer); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("nats-server %s is too old (JetStream API level 1): want 2.12 or newer (level 2)", nc.ConnectedServerVersion())
	wantSentence(t, Ensure(t.Context(), js, Config{}), want)
}

// An invalid configuration is reported without a request.
func TestConfigIsRefused(t *testing.T) {
	tests := map[string]struct {
		cfg  Config
		want string
	}{
		"layout":       {Config{Layout: subjects.Layout{Prefix: "$JS"}}, `Layout: Prefix "$JS": token`},
		"replicas":     {Config{Replicas: 2}, "Replicas is 2, want 1 or 3"},
		"age":          {Config{Log: Limits{MaxAge: time.Second}}, "Log.MaxAge is 1s, want at least 1m"},
		"message size": {Config{MaxMsgSize: 1}, "MaxMsgSize is 1, want at least 16384"},
		"consumers":    {Config{MaxConsumers: -1}, "MaxConsumers is -1, want at least 1"},
		"command age":  {Config{Commands: Limits{MaxAge: time.Second}}, "Commands.MaxAge is 1s, want at least 2m0s"},
		"fixed age":    {Config{Usage: Limits{MaxAge: time.Hour}}, "Usage.MaxAge is 1h0m0s, want none"},
		"snapshot age": {Config{Snapshots: Limits{MaxAge: time.Hour}}, "Snapshots.MaxAge is 1h0m0s, want unlimited or at least Log.MaxAge, 72h0m0s"},
		"value size":   {Config{MaxSnapshot: 1}, "MaxSnapshot is 1, want at least 16384"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			wantSentence(t, Ensure(t.Context(), nil, test.cfg), test.want)
		})
	}
}

// Off and every other negative number is unlimited, like the default.
func TestConfigOff(t *testing.T) {
	want := Config{}.withDefaults()
	for _, off := range []int64{Off, -7} {
		l := Limits{MaxBytes: off}
		got := Config{Log: l, Commands: l, Deadlines: l, Inbox: l, Credentials: l, Usage: l, Snapshots: l, Objects: l, Audit: l}.withDefaults()
		got.unset = want.unset
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d: got %+v, want %+v", off, got, want)
		}
		if err := got.validate(); err != nil {
			t.Errorf("%d: %v", off, err)
		}
	}
	for _, stream := range want.streams() {
		if stream.Name != names.Layout(want.Layout).DeadLetterStream() && stream.MaxBytes != -1 {
			t.Errorf("%s: max bytes is %d, want -1", stream.Name, stream.MaxBytes)
		}
	}
}

// The server is unavailable: the error has its address and the operation, and the next attempt succeeds.
func TestServerUnavailable(t *testing.T) {
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	srv.Shutdown()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	wantSentence(t, Ensure(ctx, js, Config{}), "read the JetStream account: no response from JetStream")
	srv.Restart(t)
	natstest.Eventually(t, "Ensure after the restart", func(ctx context.Context) error { return Ensure(ctx, js, Config{}) })
}

// Each limit of Config is a limit of its stream, and an account that wants one for every stream gets it.
func TestLimitsOfAllStreams(t *testing.T) {
	js := natstest.Start(t, natstest.ServerConfig(`
		accounts { BOUNDED { jetstream: {max_file: 1G, max_bytes_required: true}, users: [{user: bounded, password: p}] } }`)).JetStream(t, nats.UserInfo("bounded", "p"))
	size := func(mib int64) Limits { return Limits{MaxBytes: mib << 20} }
	cfg := Config{
		Log: size(21), Commands: size(22), Deadlines: size(23), Inbox: size(24), Credentials: size(25), Usage: size(26), Snapshots: size(27), Objects: size(28), DeadLetters: size(29), Audit: size(30),
		Placement: &jetstream.Placement{Tags: []string{"ssd"}},
	}
	streams, err := Streams(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, stream := range streams {
		if want := int64(21+i) << 20; stream.MaxBytes != want {
			t.Errorf("%s: max bytes is %d, want %d", stream.Name, stream.MaxBytes, want)
		}
		if stream.Placement != cfg.Placement {
			t.Errorf("%s: placement %v", stream.Name, stream.Placement)
		}
	}
	cfg.Placement = nil
	if err := Ensure(t.Context(), js, cfg); err != nil {
		t.Error(err)
	}
}
