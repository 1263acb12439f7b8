package natstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/wait"
)

// pollInterval is the time between two attempts.
const pollInterval = 20 * time.Millisecond

// Backup is a copy of a stream with its consumers, as `nats stream backup` stores it.
type Backup struct {
	Name   string
	Config json.RawMessage
	State  json.RawMessage

	blocks [][]byte
}

// BackUp copies a stream by the snapshot API of JetStream, while it is in use.
func BackUp(tb testing.TB, js jetstream.JetStream, stream string) Backup {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), WaitTimeout)
	defer cancel()
	nc := js.Conn()
	inbox := nc.NewRespInbox()
	blocks, err := nc.SubscribeSync(inbox)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = blocks.Unsubscribe() }()
	b := Backup{Name: stream}
	if err := apiRequest(ctx, nc, "$JS.API.STREAM.SNAPSHOT."+stream, map[string]any{"deliver_subject": inbox}, &b); err != nil {
		tb.Fatalf("back up %s: %v", stream, err)
	}
	for {
		m, err := blocks.NextMsgWithContext(ctx)
		if err != nil {
			tb.Fatalf("back up %s: %v", stream, err)
		}
		if len(m.Data) == 0 {
			if status := m.Header.Get("Status"); status != "" && status != "204" {
				tb.Fatalf("back up %s: %s %s", stream, status, m.Header.Get("Description"))
			}
			return b
		}
		b.blocks = append(b.blocks, m.Data)
		if m.Reply != "" {
			if err := m.Respond(nil); err != nil {
				tb.Fatalf("back up %s: %v", stream, err)
			}
		}
	}
}

// WithReplicas returns the copy with another number of replicas, as the flag --replicas of `nats stream restore` sets it.
func (b Backup) WithReplicas(tb testing.TB, n int) Backup {
	tb.Helper()
	var cfg map[string]any
	if err := json.Unmarshal(b.Config, &cfg); err != nil {
		tb.Fatalf("restore %s: %v", b.Name, err)
	}
	cfg["num_replicas"] = n
	var err error
	if b.Config, err = json.Marshal(cfg); err != nil {
		tb.Fatalf("restore %s: %v", b.Name, err)
	}
	return b
}

// Restore creates the stream from its copy, as `nats stream restore` does. The server must not have it.
func (b Backup) Restore(tb testing.TB, js jetstream.JetStream) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), WaitTimeout)
	defer cancel()
	err := b.restore(ctx, js.Conn())
	for repeated := errors.Is(err, errNoReply); repeated && err != nil && ctx.Err() == nil; {
		// A server that was slow may still be at the attempt before, and both would write the stream.
		if err = js.DeleteStream(ctx, b.Name); err == nil || errors.Is(err, jetstream.ErrStreamNotFound) {
			err = b.restore(ctx, js.Conn())
		}
	}
	if err != nil {
		tb.Fatalf("restore %s: %v", b.Name, err)
	}
}

// replyTimeout is more than the 5 seconds without a block after which a server ends a restore. Its reply to a block is lost if a server of a new cluster does not know
// yet where the client is connected.
const replyTimeout = 6 * time.Second

// errNoReply reports a block without a reply: the server has ended the restore by now, unless it is very slow.
var errNoReply = errors.New("no reply to a block")

func (b Backup) restore(ctx context.Context, nc *nats.Conn) error {
	var to struct {
		Subject string `json:"deliver_subject"`
	}
	query := map[string]any{"config": b.Config, "state": b.State}
	err := apiRequest(ctx, nc, "$JS.API.STREAM.RESTORE."+b.Name, query, &to)
	for isNotReady(err) && wait.Sleep(ctx, pollInterval) == nil {
		err = apiRequest(ctx, nc, "$JS.API.STREAM.RESTORE."+b.Name, query, &to)
	}
	if err != nil {
		return err
	}
	for _, block := range b.blocks {
		m, err := sendBlock(ctx, nc, to.Subject, block)
		if err != nil {
			return err
		}
		if len(m.Data) > 0 { // only an error has a body
			return errors.New(string(m.Data))
		}
	}
	m, err := sendBlock(ctx, nc, to.Subject, nil)
	if err != nil {
		return err
	}
	return decodeResponse(m.Data, &struct{}{})
}

// isNotReady reports whether a cluster has refused a restore because a leader does not know all of its servers yet.
func isNotReady(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	const noPeers = 10005
	return errors.Is(err, nats.ErrNoResponders) || ok && api.ErrorCode == noPeers
}

// sendBlock sends a part of a copy. In a cluster, the server of the connection may not know yet that another one waits for it.
func sendBlock(ctx context.Context, nc *nats.Conn, subject string, block []byte) (*nats.Msg, error) {
	trying, cancel := context.WithCancel(ctx)
	if block != nil { // the reply to the end comes when all is restored
		trying, cancel = context.WithTimeout(ctx, replyTimeout)
	}
	defer cancel()
	m, err := nc.RequestWithContext(trying, subject, block)
	for errors.Is(err, nats.ErrNoResponders) && wait.Sleep(trying, pollInterval) == nil {
		m, err = nc.RequestWithContext(trying, subject, block)
	}
	if err != nil && trying.Err() != nil && ctx.Err() == nil {
		err = errNoReply
	}
	return m, err
}

// apiRequest sends a request to the JetStream API.
func apiRequest(ctx context.Context, nc *nats.Conn, subject string, query, response any) error {
	data, err := json.Marshal(query)
	if err != nil {
		return err
	}
	m, err := nc.RequestWithContext(ctx, subject, data)
	if err != nil {
		return err
	}
	return decodeResponse(m.Data, response)
}

func decodeResponse(data []byte, response any) error {
	var refused struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(data, &refused); err != nil {
		return err
	}
	if refused.Error != nil {
		return fmt.Errorf("rejected: %w", refused.Error)
	}
	return json.Unmarshal(data, response)
}
