package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// live is a benchmark of clients that wait for what is written now.
type live struct {
	lab      *lab
	name     string
	sessions int
	clients  int // of each session
	events   int // of each session
	pace     time.Duration
}

// fanout measures one session watched by many clients, in two modes: 50 chunks a
// second; and flat out, where the writer gives the next chunk as soon as the log
// has the last one. It is never more than a window ahead of the slowest client:
// the latency shall tell how long the work takes, not how long a queue was made.
func (l *lab) fanout(clients int) []pair {
	name := fmt.Sprintf("fanout-%d", clients)
	flat := live{lab: l, name: name + "-flat", sessions: 1, clients: clients, events: l.cfg.size(max(60, 400_000/clients))}
	paced := live{lab: l, name: name + "-50/s", sessions: 1, clients: clients, events: l.cfg.size(200), pace: 20 * time.Millisecond}
	aims := []aim{{figure: perSecond, atLeast: 150_000, ratioFrom: 0.9}, {figure: cost, atMost: 7}, {figure: slowest, atMost: 25}}
	if clients != fanoutClients {
		aims = nil // they are said for a thousand
	}
	return []pair{
		{name: flat.name, floor: "net/http, frames made before, same log", aims: aims, ours: flat.ours, raw: flat.bare},
		{name: flat.name, floor: "net/http behind an ordered consumer", aims: aims[:min(1, len(aims))], ours: flat.ours, raw: flat.bareFeed},
		{name: paced.name, floor: "net/http, frames made before, same log", ours: paced.ours, raw: paced.bare},
	}
}

// many measures many sessions with two clients each, 1,000 chunks a second in sum.
func (l *lab) many() []pair {
	var pairs []pair
	for _, sessions := range []int{500, 5000} {
		sessions = l.cfg.size(sessions)
		m := live{
			lab: l, name: fmt.Sprintf("many-%d-sessions", sessions), sessions: sessions, clients: 2,
			events: max(1, l.cfg.size(4000)/sessions), pace: time.Millisecond,
		}
		pairs = append(pairs, pair{name: m.name, floor: "net/http, frames made before, same log", ours: m.ours, raw: m.bare})
	}
	return pairs
}

// The figures of clients that wait.
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

// job is one round: sessions of its own, with the paths that path says.
func (b live) job(addr string, path func(i int, session string) string) job {
	j := job{Addr: addr, Events: b.events, NATS: b.lab.server.ClientURL(), Pace: b.pace, Window: b.lab.cfg.Window}
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

// watchEdge calls opened, if not nil, when all clients are there.
func (b live) watchEdge(ctx context.Context, opened func() error) (outcome, error) {
	edge, err := b.lab.edge(ctx)
	if err != nil {
		return outcome{}, err
	}
	j := b.job(edge.addr, func(_ int, session string) string { return eventsOf(session) })
	j.Writer = writesChunks
	out, err := b.lab.crowd(ctx, j, opened)
	return out, errors.Join(err, edge.close())
}

// watchBare does the same with nothing of ours between the log and the client: the
// frames were made before. The crowd stores each chunk as it does for ours, so that
// both sides wait for the log and carry its cost, and then rings for its frame.
func (b live) watchBare(ctx context.Context, opened func() error) (outcome, error) {
	tails := newBroadcast(b.sessions)
	site, err := serve(ctx, plainServer(tails))
	if err != nil {
		return outcome{}, err
	}
	j := b.job(site.addr, byNumber)
	bell, err := ringFor(ctx, tails, j)
	if err != nil {
		return outcome{}, errors.Join(err, site.close())
	}
	j.Writer, j.Bell = ringsBell, bell.listener.Addr().String()
	out, err := b.lab.crowd(ctx, j, opened)
	return out, errors.Join(err, bell.close(), site.close())
}

// bareFeed does the same with nothing of ours, through NATS: a bare ordered
// consumer hands each message to the broadcast.
func (b live) bareFeed(ctx context.Context, _ int) (figures, error) {
	tails := newBroadcast(b.sessions)
	site, err := serve(ctx, plainServer(tails))
	if err != nil {
		return nil, err
	}
	j := b.job(site.addr, byNumber)
	j.Writer = writesMessages
	stop, err := b.lab.rawFeed(ctx, rootSession(j.Groups[0].Session), tails[0])
	if err != nil {
		return nil, errors.Join(err, site.close())
	}
	out, err := b.lab.crowd(ctx, j, nil)
	return b.figures(out), errors.Join(err, stop(), site.close())
}
