package bench

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

// env is a log with buckets that is used by one benchmark only, because a
// projector reads the whole log.
type env struct {
	harness *harness
	layout  subjects.Layout
	reader  *consumers.Reader
	store   *jssnapshots.Store
}

func (l *harness) env(ctx context.Context) (*env, error) {
	l.envs++
	w := &env{harness: l, layout: subjects.Layout{Prefix: fmt.Sprintf("bench%d", l.envs)}}
	if err := topology.Ensure(ctx, l.js, topology.Config{Layout: w.layout}); err != nil {
		return nil, err
	}
	var err error
	if w.reader, err = consumers.New(l.js, consumers.Config{Layout: w.layout, Log: slog.New(slog.DiscardHandler)}); err != nil {
		return nil, err
	}
	w.store, err = jssnapshots.New(l.js, jssnapshots.Config{Layout: w.layout})
	return w, err
}

// stream returns the name of the stream of the log.
func (w *env) stream() string { return w.layout.Stream(0) }

// sessionWriter writes one session as a model does: turns of three steps, each with
// some thinking, a tool call and many short pieces of text.
type sessionWriter struct {
	env     *env
	session chunk.Session
	turns   int
	next    func()       // adds chunks to pending; turn if nil
	pending []chunk.Body // remaining chunks of the turn
	epoch   chunk.Epoch  // of the last run that was started
	ordinal chunk.Ordinal
	bytes   int // size of the messages so far
}

func (w *env) sessionWriter(id string) *sessionWriter {
	return &sessionWriter{env: w, session: rootSession(id)}
}

// turnChunks is the number of chunks of a turn.
const turnChunks = 1 + 3*(1+10+2+80+1) + 1

func (s *sessionWriter) turn() {
	serverSide := true
	s.epoch++
	add := func(body chunk.Body) { s.pending = append(s.pending, body) }
	add(chunk.RunStarted{
		RunID: fmt.Sprint("run-", s.turns), Epoch: int64(s.epoch), Mode: "execute", Input: []chunk.InputMessage{{Content: "What did we measure?"}},
	})
	for step := range 3 {
		call := fmt.Sprintf("call-%d-%d", s.turns, step)
		add(chunk.StepStart{})
		for range 10 {
			add(chunk.Thinking{Content: "a thought of some words "})
		}
		add(chunk.ToolStart{ToolCallID: call, ToolName: "search", Arguments: chunk.Value(`{"query":"chunks per second"}`)})
		add(chunk.ToolEnd{ToolCallID: call, ToolName: "search", Result: chunk.Value(`{"hits":[1,2,3]}`), ProviderExecuted: &serverSide})
		for range 80 {
			add(chunk.TextDelta{Delta: "a few words "})
		}
		add(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "100", OutputTokens: "20"}})
	}
	add(chunk.StreamEnd{StreamID: s.session.ID})
	s.turns++
}

// chunk returns the next chunk of the session.
func (s *sessionWriter) chunk() chunk.Chunk {
	if len(s.pending) == 0 && s.next != nil {
		s.next()
	} else if len(s.pending) == 0 {
		s.turn()
	}
	body := s.pending[0]
	s.pending = s.pending[1:]
	s.ordinal++
	return chunk.Chunk{AgentID: s.session.ID, AgentType: "bench", Timestamp: 1_760_000_000_000, Step: 1, Body: body}
}

// publish publishes the next chunk without waiting for the acknowledgement.
func (s *sessionWriter) publish() error { return s.publishChunk(s.chunk()) }

func (s *sessionWriter) publishChunk(c chunk.Chunk) error {
	subject, err := s.env.layout.Subject(s.session)
	if err != nil {
		return err
	}
	m, err := codec.Encode(codec.Envelope{Session: s.session, Epoch: s.epoch, Ordinal: s.ordinal}, c)
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: subject, Header: nats.Header(m.Header), Data: m.Data}
	s.bytes += msg.Size()
	_, err = s.env.harness.raw.PublishMsgAsync(msg)
	return err
}

// write publishes n chunks, alternating between the sessions, and waits for the
// acknowledgements.
func (w *env) write(ctx context.Context, n int, writers ...*sessionWriter) error {
	for i := range n {
		if err := writers[i%len(writers)].publish(); err != nil {
			return err
		}
		if i%2000 == 1999 {
			if err := awaitPublishes(ctx, w.harness.raw); err != nil {
				return err
			}
		}
	}
	return awaitPublishes(ctx, w.harness.raw)
}

func (w *env) sessionWriters(n int) []*sessionWriter {
	all := make([]*sessionWriter, n)
	for i := range all {
		all[i] = w.sessionWriter(fmt.Sprintf("session-%d", i))
	}
	return all
}
