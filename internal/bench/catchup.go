package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// catchUp is a benchmark of clients that come back and were away for long.
type catchUp struct {
	lab     *lab
	clients int
	session string
	events  int
	bytes   page // what the floor sends
}

const took = "ms"

// catchUps measures 10,000 chunks that a client missed: from the frames in
// memory of the hub, and from the log through a hub that has seen nothing.
func (l *lab) catchUps(ctx context.Context) ([]pair, error) {
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
		c := catchUp{lab: l, clients: clients, session: session, events: events, bytes: slices.Concat(all...)}
		hot, cold := aim{figure: took, atMost: 15}, []aim{{figure: took, ratioUpTo: 1.3}}
		if clients > 1 {
			hot.atMost, cold = 100, nil
		}
		pairs = append(pairs,
			pair{name: fmt.Sprintf("catchup-%d-hot-%d", events, clients), floor: "net/http, one write of all frames", aims: []aim{hot}, ours: c.hot, raw: c.page},
			pair{name: fmt.Sprintf("catchup-%d-cold-%d", events, clients), floor: "one bare ordered consumer", aims: cold, ours: c.cold, raw: c.consumer})
	}
	return pairs, nil
}

// rushes lets the clients come as often as repeat says, and returns the median time.
func (c catchUp) rushes(ctx context.Context, addr, path string, clients, repeat int) (figures, error) {
	out, err := c.lab.crowd(ctx, job{
		Addr: addr, Events: c.events, Rush: true, Repeat: repeat,
		Groups: []group{{Session: c.session, Path: path, Clients: clients}},
	}, nil)
	return figures{{took, ms(out.Took)}, {cost, out.perDelivery()}}, err
}

func (c catchUp) repeat() int { return max(3, 20/c.clients) }

// hot has one client read everything before, so that the frames are in memory.
func (c catchUp) hot(ctx context.Context, _ int) (figures, error) {
	edge, err := c.lab.edge(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := c.rushes(ctx, edge.addr, eventsOf(c.session), 1, 1); err != nil {
		return nil, errors.Join(err, edge.close())
	}
	figures, err := c.rushes(ctx, edge.addr, eventsOf(c.session), c.clients, c.repeat())
	return figures, errors.Join(err, edge.close())
}

func (c catchUp) page(ctx context.Context, _ int) (figures, error) {
	site, err := serve(ctx, plainServer(c.bytes))
	if err != nil {
		return nil, err
	}
	figures, err := c.rushes(ctx, site.addr, "/", c.clients, c.repeat())
	return figures, errors.Join(err, site.close())
}

func (c catchUp) cold(ctx context.Context, _ int) (figures, error) {
	edge, err := c.lab.edge(ctx)
	if err != nil {
		return nil, err
	}
	figures, err := c.rushes(ctx, edge.addr, eventsOf(c.session), c.clients, 1)
	return figures, errors.Join(err, edge.close())
}

// consumer reads the same chunks once, in this process, for nobody.
func (c catchUp) consumer(ctx context.Context, _ int) (figures, error) {
	start := time.Now()
	_, err := c.lab.rawRead(ctx, rootSession(c.session), c.events)
	return figures{{took, ms(time.Since(start))}}, err
}

// storm measures clients of many sessions that come back at once to an edge that
// was just started, as they do after a restart.
type storm struct {
	lab             *lab
	groups          []group
	missed, written int
}

const (
	stormSessions = 20
	reads         = "log reads/session"
)

func (l *lab) storm(ctx context.Context) ([]pair, error) {
	s := storm{lab: l, missed: l.cfg.size(200)}
	s.written = 2 * s.missed
	clients := l.cfg.size(2000 / stormSessions)
	for i := range stormSessions {
		id := fmt.Sprintf("storm-%d", i)
		after, err := l.fillTo(ctx, s.written, s.written-s.missed, rootSession(id))
		if err != nil {
			return nil, err
		}
		s.groups = append(s.groups, group{Session: id, Path: eventsOf(id), After: after, Clients: clients})
	}
	return []pair{{
		name: fmt.Sprintf("storm-%d-clients", clients*stormSessions), floor: "net/http, one write of all frames",
		aims: []aim{{figure: took, atMost: 5000}, {figure: reads, atMost: 1}},
		ours: s.ours, raw: s.bare,
	}}, nil
}

func (s storm) job(addr string) job {
	return job{Addr: addr, Rush: true, Repeat: 1, First: s.written - s.missed, Events: s.missed, Groups: s.groups}
}

func (s storm) ours(ctx context.Context, _ int) (figures, error) {
	edge, err := s.lab.edge(ctx)
	if err != nil {
		return nil, err
	}
	out, err := s.lab.crowd(ctx, s.job(edge.addr), nil)
	read := float64(edge.hub.Stats().Reads) / stormSessions
	return figures{{took, ms(out.Took)}, {cost, out.perDelivery()}, {reads, read}}, errors.Join(err, edge.close())
}

func (s storm) bare(ctx context.Context, _ int) (figures, error) {
	frames, err := frames("bare", s.written-s.missed, s.missed)
	if err != nil {
		return nil, err
	}
	site, err := serve(ctx, plainServer(page(bytes.Join(frames, nil))))
	if err != nil {
		return nil, err
	}
	out, err := s.lab.crowd(ctx, s.job(site.addr), nil)
	return figures{{took, ms(out.Took)}, {cost, out.perDelivery()}}, errors.Join(err, site.close())
}
