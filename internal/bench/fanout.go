package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailrace/tailrace/auth"
)

// live is a benchmark of clients that follow new chunks.
type live struct {
	harness  *harness
	name     string
	sessions int
	clients  int // of each session
	events   int // of each session
	pace     time.Duration

	authenticator auth.Authenticator // of the edge; nil for none
	tokens        []string           // of the clients; empty for none
}

// fanout measures one session with many clients, in two modes: 50 chunks per
// second, and unpaced, where the writer emits the next chunk as soon as the log
// has stored the previous one. An unpaced writer is at most a window ahead of
// the slowest client, so that the latency measures work and not queueing.
func (l *harness) fanout(clients int) []pair {
	name := fmt.Sprintf("fanout-%d", clients)
	flat := live{harness: l, name: name + "-flat", sessions: 1, clients: clients, events: l.cfg.size(max(60, 400_000/clients))}
	paced := live{harness: l, name: name + "-50/s", sessions: 1, clients: clients, events: l.cfg.size(200), pace: 20 * time.Millisecond}
	targets := []target{{figure: perSecond, atLeast: 150_000, ratioAtLeast: 0.9}, {figure: cost, atMost: 7}, {figure: slowest, atMost: 25}}
	if clients != fanoutClients {
		targets = nil // the targets apply to a thousand clients
	}
	return []pair{
		{name: flat.name, baseline: "net/http, frames made before, same log", targets: targets, ours: flat.ours, raw: flat.bare},
		{name: flat.name, baseline: "net/http behind an ordered consumer", targets: targets[:min(1, len(targets))], ours: flat.ours, raw: flat.bareFeed},
		{name: paced.name, baseline: "net/http, frames made before, same log", ours: paced.ours, raw: paced.bare},
	}
}

// many measures many sessions with two clients each, 1,000 chunks per second in
// total.
func (l *harness) many() []pair {
	var pairs []pair
	for _, sessions := range []int{500, 5000} {
		sessions = l.cfg.size(sessions)
		m := live{
			harness: l, name: fmt.Sprintf("many-%d-sessions", sessions), sessions: sessions, clients: 2,
			events: max(1, l.cfg.size(4000)/sessions), pace: time.Millisecond,
		}
		pairs = append(pairs, pair{name: m.name, baseline: "net/http, frames made before, same log", ours: m.ours, raw: m.bare})
	}
	return pairs
}

// The figures of clients that follow.
const (
	perSecond = "deliveries/s"
	cost      = "processor us/delivery"
	middle    = "p50 ms"
	slowest   = "p99 ms"
)

func (b live) figures(o outcome) figures {
	latencies := figures{{cost, o.perDelivery()}, {middle, ms(o.P50)}, {slowest, ms(o.P99)}}
	if b.pace > 0 {
		return latencies
	}
	return append(figures{{perSecond, float64(o.Deliveries) / o.Took.Seconds()}}, latencies...)
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// job returns the job of one round: new sessions, with the paths that path
// returns.
func (b live) job(addr string, path func(i int, session string) string) job {
	j := job{Addr: addr, Events: b.events, NATS: b.harness.server.ClientURL(), Pace: b.pace, Window: b.harness.cfg.Window}
	for i := range b.sessions {
		id := fmt.Sprintf("%s-%d-%d", "live", time.Now().UnixNano(), i)
		j.Groups = append(j.Groups, group{Session: id, Path: path(i, id), Clients: b.clients})
	}
	return j
}

func byNumber(i int, _ string) string { return fmt.Sprintf("/%d", i) }

func (b live) ours(ctx context.Context, _ int) (figures, error) {
	out, err := b.watchEdge(ctx, nil)
	return b.figures(out), err
}

func (b live) bare(ctx context.Context, _ int) (figures, error) {
	out, err := b.watchBare(ctx, nil)
	return b.figures(out), err
}

// watchEdge runs one round against the edge. It calls opened, if not nil, when
// all clients are connected.
func (b live) watchEdge(ctx context.Context, opened func() error) (outcome, error) {
	edge, err := b.harness.edge(ctx, b.authenticator)
	if err != nil {
		return outcome{}, err
	}
	j := b.job(edge.addr, func(_ int, session string) string { return eventsOf(session) })
	j.Writer, j.Tokens = writerChunks, b.tokens
	out, err := loadClients(ctx, j, opened)
	return out, errors.Join(err, edge.close())
}

// watchBare runs one round without Tailrace between the log and the client: the
// frames are prepared. The load clients store each chunk as they do for Tailrace,
// so that both sides wait for the log and pay its cost, and then send a
// notification for its frame.
func (b live) watchBare(ctx context.Context, opened func() error) (outcome, error) {
	tails := newBroadcast(b.sessions)
	site, err := serve(ctx, plainServer(tails))
	if err != nil {
		return outcome{}, err
	}
	j := b.job(site.addr, byNumber)
	notifier, err := startFrameNotifier(ctx, tails, j)
	if err != nil {
		return outcome{}, errors.Join(err, site.close())
	}
	j.Writer, j.Notifier = writerChunksNotify, notifier.listener.Addr().String()
	out, err := loadClients(ctx, j, opened)
	return out, errors.Join(err, notifier.close(), site.close())
}

// bareFeed runs one round without Tailrace through NATS: a bare ordered
// consumer hands each message to the broadcast.
func (b live) bareFeed(ctx context.Context, _ int) (figures, error) {
	tails := newBroadcast(b.sessions)
	site, err := serve(ctx, plainServer(tails))
	if err != nil {
		return nil, err
	}
	j := b.job(site.addr, byNumber)
	j.Writer = writerMessages
	stop, err := b.harness.rawFeed(ctx, rootSession(j.Groups[0].Session), tails[0])
	if err != nil {
		return nil, errors.Join(err, site.close())
	}
	out, err := loadClients(ctx, j, nil)
	return b.figures(out), errors.Join(err, stop(), site.close())
}
