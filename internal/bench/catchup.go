package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// catchUp is a benchmark of clients that resume after a long absence.
type catchUp struct {
	harness *harness
	clients int
	session string
	events  int
	bytes   singleWrite // response of the baseline
}

const took = "ms"

// catchUps measures the delivery of 10,000 missed chunks: from the memory of
// the hub, and from the log through a hub with empty memory.
func (l *harness) catchUps(ctx context.Context) ([]pair, error) {
	const session = "catchup"
	events := l.cfg.size(10_000)
	if err := l.fill(ctx, events, 1, rootSession(session)); err != nil {
		return nil, err
	}
	all, err := frames(session, 0, events)
	if err != nil {
		return nil, err
	}
	var pairs []pair
	for _, clients := range []int{1, 20} {
		c := catchUp{harness: l, clients: clients, session: session, events: events, bytes: slices.Concat(all...)}
		hot, cold := target{figure: took, atMost: 15}, []target{{figure: took, ratioAtMost: 1.3}}
		if clients > 1 {
			hot.atMost, cold = 100, nil
		}
		pairs = append(pairs,
			pair{name: fmt.Sprintf("catchup-%d-hot-%d", events, clients), baseline: "net/http, one write of all frames", targets: []target{hot}, ours: c.hot, raw: c.bareWrite},
			pair{name: fmt.Sprintf("catchup-%d-cold-%d", events, clients), baseline: "one bare ordered consumer", targets: cold, ours: c.cold, raw: c.consumer})
	}
	return pairs, nil
}

// burst connects the clients repeat times and returns the median time.
func (c catchUp) burst(ctx context.Context, addr, path string, clients, repeat int) (figures, error) {
	out, err := loadClients(ctx, job{
		Addr: addr, Events: c.events, Burst: true, Repeat: repeat,
		Groups: []group{{Session: c.session, Path: path, Clients: clients}},
	}, nil)
	return figures{{took, ms(out.Took)}, {cost, out.perDelivery()}}, err
}

func (c catchUp) repeat() int { return max(3, 20/c.clients) }

// hot has one client read everything first, so that the frames are in memory.
func (c catchUp) hot(ctx context.Context, _ int) (figures, error) {
	edge, err := c.harness.edge(ctx, nil)
	if err != nil {
		return nil, err
	}
	if _, err := c.burst(ctx, edge.addr, eventsOf(c.session), 1, 1); err != nil {
		return nil, errors.Join(err, edge.close())
	}
	figures, err := c.burst(ctx, edge.addr, eventsOf(c.session), c.clients, c.repeat())
	return figures, errors.Join(err, edge.close())
}

func (c catchUp) bareWrite(ctx context.Context, _ int) (figures, error) {
	site, err := serve(ctx, plainServer(c.bytes))
	if err != nil {
		return nil, err
	}
	figures, err := c.burst(ctx, site.addr, "/", c.clients, c.repeat())
	return figures, errors.Join(err, site.close())
}

func (c catchUp) cold(ctx context.Context, _ int) (figures, error) {
	edge, err := c.harness.edge(ctx, nil)
	if err != nil {
		return nil, err
	}
	figures, err := c.burst(ctx, edge.addr, eventsOf(c.session), c.clients, 1)
	return figures, errors.Join(err, edge.close())
}

// consumer reads the same chunks once in this process and discards them.
func (c catchUp) consumer(ctx context.Context, _ int) (figures, error) {
	start := time.Now()
	_, err := c.harness.rawRead(ctx, rootSession(c.session), c.events)
	return figures{{took, ms(time.Since(start))}}, err
}

// reconnectBurst measures clients of many sessions that connect at the same time to an
// edge that has just started, as after a restart.
type reconnectBurst struct {
	harness         *harness
	groups          []group
	missed, written int
}

const (
	burstSessions = 20
	reads         = "log reads/session"
)

func (l *harness) reconnectBurst(ctx context.Context) ([]pair, error) {
	s := reconnectBurst{harness: l, missed: l.cfg.size(200)}
	s.written = 2 * s.missed
	clients := l.cfg.size(2000 / burstSessions)
	for i := range burstSessions {
		id := fmt.Sprintf("storm-%d", i)
		after, err := l.fillTo(ctx, s.written, s.written-s.missed, rootSession(id))
		if err != nil {
			return nil, err
		}
		s.groups = append(s.groups, group{Session: id, Path: eventsOf(id), After: after, Clients: clients})
	}
	return []pair{{
		name: fmt.Sprintf("storm-%d-clients", clients*burstSessions), baseline: "net/http, one write of all frames",
		targets: []target{{figure: took, atMost: 5000}, {figure: reads, atMost: 1}},
		ours:    s.ours, raw: s.bare,
	}}, nil
}

func (s reconnectBurst) job(addr string) job {
	return job{Addr: addr, Burst: true, Repeat: 1, First: s.written - s.missed, Events: s.missed, Groups: s.groups}
}

func (s reconnectBurst) ours(ctx context.Context, _ int) (figures, error) {
	edge, err := s.harness.edge(ctx, nil)
	if err != nil {
		return nil, err
	}
	out, err := loadClients(ctx, s.job(edge.addr), nil)
	read := float64(edge.hub.Stats().Reads) / burstSessions
	return figures{{took, ms(out.Took)}, {cost, out.perDelivery()}, {reads, read}}, errors.Join(err, edge.close())
}

func (s reconnectBurst) bare(ctx context.Context, _ int) (figures, error) {
	frames, err := frames("bare", s.written-s.missed, s.missed)
	if err != nil {
		return nil, err
	}
	site, err := serve(ctx, plainServer(singleWrite(bytes.Join(frames, nil))))
	if err != nil {
		return nil, err
	}
	out, err := loadClients(ctx, s.job(site.addr), nil)
	return figures{{took, ms(out.Took)}, {cost, out.perDelivery()}}, errors.Join(err, site.close())
}
