package bench

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/subjects"
)

// world is a log and buckets that nobody else writes to: a projector reads all
// that there is.
type world struct {
	lab    *lab
	layout subjects.Layout
	reader *consumers.Reader
	store  *kvstore.Store
}

func (l *lab) world(ctx context.Context) (*world, error) {
	l.worlds++
	w := &world{lab: l, layout: subjects.Layout{Prefix: fmt.Sprintf("bench%d", l.worlds)}}
	if err := topology.Ensure(ctx, l.js, topology.Config{Layout: w.layout}); err != nil {
		return nil, err
	}
	var err error
	if w.reader, err = consumers.New(l.nc, l.js, consumers.Config{Layout: w.layout, Log: slog.New(slog.DiscardHandler)}); err != nil {
		return nil, err
	}
	w.store, err = kvstore.New(l.js, kvstore.Config{Layout: w.layout})
	return w, err
}

// stream is that of the log.
func (w *world) stream() string { return w.layout.Stream(0) }

// scribe writes one session as a model does: turns of three steps, in each some
// thinking, a tool and many small pieces of text.
type scribe struct {
	world   *world
	session chunk.Session
	turns   int
	rest    []chunk.Body // of the turn
	ordinal chunk.Ordinal
	bytes   int // of the messages so far
}

func (w *world) scribe(id string) *scribe { return &scribe{world: w, session: rootSession(id)} }

// turnChunks is how many chunks a turn has.
const turnChunks = 1 + 3*(1+10+2+80+1) + 1

func (s *scribe) turn() {
	ours := true
	say := func(body chunk.Body) { s.rest = append(s.rest, body) }
	say(chunk.RunStarted{
		RunID: fmt.Sprint("run-", s.turns), Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "What did we measure?"}},
	})
	for step := range 3 {
		call := fmt.Sprintf("call-%d-%d", s.turns, step)
		say(chunk.StepStart{})
		for range 10 {
			say(chunk.Thinking{Content: "a thought of some words "})
		}
		say(chunk.ToolStart{ToolCallID: call, ToolName: "search", Arguments: chunk.Value(`{"query":"chunks per second"}`)})
		say(chunk.ToolEnd{ToolCallID: call, ToolName: "search", Result: chunk.Value(`{"hits":[1,2,3]}`), ProviderExecuted: &ours})
		for range 80 {
			say(chunk.TextDelta{Delta: "a few words "})
		}
		say(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "100", OutputTokens: "20"}})
	}
	say(chunk.StreamEnd{StreamID: s.session.ID})
	s.turns++
}

// chunk is the next one of the session.
func (s *scribe) chunk() chunk.Chunk {
	if len(s.rest) == 0 {
		s.turn()
	}
	body := s.rest[0]
	s.rest = s.rest[1:]
	s.ordinal++
	return chunk.Chunk{AgentID: s.session.ID, AgentType: "bench", Timestamp: 1_760_000_000_000, Step: 1, Body: body}
}

// publish sends the next chunk to the log and does not wait for it.
func (s *scribe) publish() error {
	subject, err := s.world.layout.Subject(s.session)
	if err != nil {
		return err
	}
	c := s.chunk()
	m, err := codec.Encode(s.session, 1, s.ordinal, c, codec.FormatJSON)
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: subject, Header: nats.Header(m.Header), Data: m.Data}
	s.bytes += msg.Size()
	_, err = s.world.lab.raw.PublishMsgAsync(msg)
	return err
}

// write publishes n chunks, those of the sessions in turn, and waits for the log.
func (w *world) write(ctx context.Context, n int, scribes ...*scribe) error {
	for i := range n {
		if err := scribes[i%len(scribes)].publish(); err != nil {
			return err
		}
		if i%2000 == 1999 {
			if err := settled(ctx, w.lab.raw); err != nil {
				return err
			}
		}
	}
	return settled(ctx, w.lab.raw)
}

func (w *world) scribes(n int) []*scribe {
	all := make([]*scribe, n)
	for i := range all {
		all[i] = w.scribe(fmt.Sprintf("session-%d", i))
	}
	return all
}
