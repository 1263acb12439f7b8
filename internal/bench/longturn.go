package bench

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// longTurn measures one turn that grows: an agent that works for hours has one
// user message and thousands of tool calls. In "steps" each call is a step of its
// own, in "calls" all calls are in one step.
func (l *harness) longTurn(ctx context.Context) ([]pair, error) {
	sizes := []int{1000}
	for size := 10_000; size < l.cfg.LongTurn; size *= 10 {
		sizes = append(sizes, size)
	}
	if l.cfg.LongTurn > sizes[0] {
		sizes = append(sizes, l.cfg.LongTurn)
	}
	if l.cfg.Quick {
		sizes = []int{200, 1000}
	}
	var pairs []pair
	for _, kind := range []string{"steps", "calls"} {
		w, err := l.env(ctx)
		if err != nil {
			return nil, err
		}
		session := w.sessionWriter("long-turn")
		session.next = func() { session.longTurn(kind == "steps") }
		g := &longTurn{env: w, session: session, folder: fold.New(session.session), head: longSession{env: w, session: session}}
		if err := g.grow(ctx, sizes); err != nil {
			return nil, err
		}
		for i, size := range sizes {
			p := pair{
				name: fmt.Sprintf("longturn-%s-%d", kind, size), baseline: fmt.Sprintf("the first %d chunks", sizes[0]), once: true,
				ours: g.grown[i].figures(), raw: g.grown[0].figures(),
			}
			if i > 0 {
				p.targets = []target{{figure: kvBytes, ratioAtMost: 1.2}, {figure: snapshotSize, ratioAtMost: 1.2}}
			}
			pairs = append(pairs, p)
		}
		last := sizes[len(sizes)-1]
		pairs = append(pairs, pair{
			name: fmt.Sprintf("longturn-%s-page-%d", kind, last), baseline: "the head alone",
			targets: []target{{figure: took, atMost: 50}}, ours: g.page, raw: g.head.head,
		})
	}
	return pairs, nil
}

// longTurn adds the next call of a turn that never ends.
func (s *sessionWriter) longTurn(steps bool) {
	add := func(body chunk.Body) { s.pending = append(s.pending, body) }
	if s.turns == 0 {
		s.epoch++
		add(chunk.RunStarted{RunID: "run", Epoch: int64(s.epoch), Mode: "execute", Input: []chunk.InputMessage{{Content: "Work for hours."}}})
	}
	if steps {
		add(chunk.StepStart{})
	}
	call := fmt.Sprintf("call-%08d", s.turns)
	add(chunk.ToolStart{ToolCallID: call, ToolName: "search", Arguments: chunk.Value(`{"query":"chunks per second"}`)})
	add(chunk.ToolEnd{ToolCallID: call, ToolName: "search", Result: chunk.Value(`{"hits":[1,2,3]}`)})
	for range 6 {
		add(chunk.TextDelta{Delta: "a few words "})
	}
	if steps {
		add(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "100", OutputTokens: "20"}})
	}
	s.turns++
}

// longTurn is a turn that is folded and saved as a Runner does it, after every 200
// chunks. A Runner itself would save more rarely on a fast machine, because it
// saves what has arrived in the meantime.
type longTurn struct {
	env      *env
	session  *sessionWriter
	folder   *fold.Folder
	revision projector.Revision
	head     longSession
	grown    []growth // for each size
}

// growth is the cost of the chunks between one size and the next one.
type growth struct {
	bytes   float64 // to the buckets, per chunk
	saves   int
	slowest time.Duration // of a save
	memory  int           // bytes of the snapshot, before its last save
	heap    int           // bytes of the process with it
}

// The figures of a growing turn.
const (
	saveCount    = "saves"
	slowestSave  = "ms of the slowest save"
	snapshotSize = "KiB of the snapshot in memory"
	heapSize     = "KiB of the heap"
)

func (g growth) figures() work {
	return func(context.Context, int) (figures, error) {
		return figures{
			{kvBytes, g.bytes}, {saveCount, float64(g.saves)}, {slowestSave, ms(g.slowest)},
			{snapshotSize, float64(g.memory) / 1024}, {heapSize, float64(g.heap) / 1024},
		}, nil
	}
}

func (g *longTurn) grow(ctx context.Context, sizes []int) error {
	const saveRecords = 200 // the default of a Runner
	for i, n := 0, 0; i < len(sizes); i++ {
		from := n
		before := g.sent()
		var now growth
		for n < sizes[i] {
			for range saveRecords {
				if err := g.add(); err != nil {
					return err
				}
			}
			if err := awaitPublishes(ctx, g.env.harness.raw); err != nil {
				return err
			}
			n += saveRecords
			now.memory = g.folder.MemoryBytes()
			took, err := g.save(ctx)
			if err != nil {
				return err
			}
			now.saves, now.slowest = now.saves+1, max(now.slowest, took)
		}
		sent := g.sent() - before
		runtime.GC()
		var heap runtime.MemStats
		runtime.ReadMemStats(&heap)
		now.bytes, now.heap = float64(sent)/float64(n-from), int(heap.HeapAlloc)
		g.grown = append(g.grown, now)
	}
	return nil
}

// add publishes the next chunk and folds it.
func (g *longTurn) add() error {
	c := g.session.chunk()
	data, err := c.AppendJSON(nil)
	if err != nil {
		return err
	}
	if err := g.session.publishChunk(c); err != nil {
		return err
	}
	return g.folder.Apply(chunk.Record{
		Seq: chunk.Seq(g.session.ordinal), Session: g.session.session, Epoch: g.session.epoch, Ordinal: g.session.ordinal, Type: c.Type(), Data: data,
	})
}

func (g *longTurn) save(ctx context.Context) (took time.Duration, err error) {
	start := time.Now()
	g.revision, err = g.env.store.Save(ctx, g.folder.Snapshot(), g.revision)
	g.folder.Trim()
	return time.Since(start), err
}

// sent returns the number of bytes that the connection of the store has sent:
// the log is written over the other one.
func (g *longTurn) sent() uint64 { return g.env.harness.nc.Stats().OutBytes }

// page reads the last 200 parts of the last message, which contains the open turn.
func (g *longTurn) page(ctx context.Context, _ int) (figures, error) {
	start := time.Now()
	page, err := g.head.reader().MessagePage(ctx, g.session.session, fold.PageQuery{Limit: 50, Parts: 200, Partial: true})
	if err != nil {
		return nil, err
	}
	_, _ = page.Messages()
	return figures{{took, ms(time.Since(start))}}, g.head.exact(page.Current().Position.Ordinal)
}
