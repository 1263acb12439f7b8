// Package jspartitions finds the partition of a session in a log whose partitions have grown.
//
//	l := jspartitions.New(client, layout)
//	at, err := l.Locate(ctx, session)
//	subject, err := layout.SubjectIn(at.Partition, session)
//
// A tree stays in the generation of partitions in which it began, and only the log knows which one that is. Without earlier generations its partition is a
// hash, and no request is needed. Otherwise the leader of a partition of each earlier generation is asked once per tree and process, see ADR 0039.
package jspartitions

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/headindex"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/subjects"
)

// budget is the retry budget of a request.
const budget = 10 * time.Second

// maxKnown bounds the trees whose generation is in memory; up to twice as many are.
const maxKnown = 1 << 15

// Location is the place of a tree.
type Location struct {
	Partition int

	// Final is false for a tree without records that may still begin in the next generation: the partition of this one is not closed yet.
	Final bool
}

// Locator finds trees. Its methods may be called concurrently.
type Locator struct {
	client *jsclient.Client
	layout subjects.Layout

	mu           sync.Mutex
	closed       map[int]bool   // partitions of earlier generations that are closed
	known, older map[root]place // of trees; older is the previous known
}

type root struct{ tenant, name string }

type place struct {
	generation int
	since      time.Time
}

// trustedFor is how long a tree is taken to be in an earlier generation without asking again. It begins in the newest one when nothing of it is left there:
// its records have expired, and its snapshot, or the tombstone of its deletion, is removed. For the newest generation there is no limit.
const trustedFor = time.Minute

// New returns a Locator. It does not call the server.
func New(client *jsclient.Client, layout subjects.Layout) *Locator {
	return &Locator{client: client, layout: layout, closed: make(map[int]bool), known: make(map[root]place)}
}

// Locate returns the partition of the tree of s: the one with its records or, if there are none, with the generation that its stored snapshot names, or
// otherwise the one in which it begins.
//
// The mark of the closed partition is read before the records: if it is there, none is stored there any more that the second read could miss.
func (l *Locator) Locate(ctx context.Context, s chunk.Session) (Location, error) {
	if len(l.layout.Earlier) == 0 {
		return Location{Partition: l.layout.Partition(s), Final: true}, nil
	}
	if g, ok := l.remembered(s); ok {
		return Location{Partition: l.layout.PartitionIn(g, s), Final: true}, nil
	}
	return l.find(ctx, s)
}

// find is Locate without what the process remembers.
func (l *Locator) find(ctx context.Context, s chunk.Session) (Location, error) {
	newest := len(l.layout.Earlier)
	previous := l.layout.PartitionIn(newest-1, s)
	closed, err := jsclient.Retry(ctx, l.client.Reading(budget), func(ctx context.Context) (bool, error) { return l.IsClosed(ctx, previous) })
	if err != nil {
		return Location{}, err
	}
	for g := range newest {
		found, err := jsclient.Retry(ctx, l.client.Reading(budget), func(ctx context.Context) (bool, error) { return l.hasRecord(ctx, g, s) })
		if err != nil {
			return Location{}, err
		}
		if found {
			return l.remember(s, g), nil
		}
	}
	g, err := jsclient.Retry(ctx, l.client.Reading(budget), func(ctx context.Context) (int, error) { return l.ofSnapshot(ctx, s) })
	switch {
	case err != nil:
		return Location{}, err
	case g < newest:
		return l.remember(s, g), nil
	case !closed:
		return Location{Partition: previous}, nil
	}
	return l.remember(s, newest), nil
}

// IsClosed reports whether a partition is closed: a later generation has replaced its own, and no tree begins there any more. It makes one request, and none
// if the partition is known to be closed.
func (l *Locator) IsClosed(ctx context.Context, partition int) (bool, error) {
	if l.isKnownClosed(partition) {
		return true, nil
	}
	state, err := l.client.State(ctx, l.layout.Stream(partition), "")
	switch {
	case isNoStream(err): // it was deleted after its last record had expired
	case err != nil || !state.Closed:
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed[partition] = true
	return true, nil
}

func (l *Locator) isKnownClosed(partition int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed[partition]
}

// PublishSubject returns the subject under which s is published to a partition. For one of an earlier generation it asks whether that is closed, unless it is
// known.
func (l *Locator) PublishSubject(ctx context.Context, partition int, s chunk.Session) (string, error) {
	if l.layout.Generation(partition) < len(l.layout.Earlier) {
		if _, err := l.IsClosed(ctx, partition); err != nil {
			return "", err
		}
	}
	return l.publishSubject(partition, s)
}

func (l *Locator) publishSubject(partition int, s chunk.Session) (string, error) {
	if l.isKnownClosed(partition) {
		return l.layout.ClosedSubject(partition, s)
	}
	return l.layout.SubjectIn(partition, s)
}

// hasRecord reports whether the leader has a message of the tree of s in a generation.
func (l *Locator) hasRecord(ctx context.Context, generation int, s chunk.Session) (bool, error) {
	p := l.layout.PartitionIn(generation, s)
	filter, err := l.layout.TreeIn(p, s)
	if err != nil {
		return false, err
	}
	_, err = l.client.Next(ctx, l.layout.Stream(p), filter, 1)
	if errors.Is(err, jsclient.ErrNotFound) || isNoStream(err) {
		return false, nil
	}
	return err == nil, err
}

// ofSnapshot returns the generation in the stored head of the root of s; without one, the newest. The head is in the bucket of the partition of its generation,
// or in that of partition 0, which has all heads if an earlier build has created the log with several partitions.
func (l *Locator) ofSnapshot(ctx context.Context, s chunk.Session) (int, error) {
	newest := len(l.layout.Earlier)
	key, err := subjects.SnapshotHeadKey(s.Tree())
	if err != nil {
		return 0, err
	}
	asked := make(map[string]bool)
	for g := range newest + 2 {
		bucket := l.layout.Snapshots()
		if g <= newest {
			bucket = l.layout.SnapshotsOf(l.layout.PartitionIn(g, s))
		}
		if asked[bucket] {
			continue
		}
		asked[bucket] = true
		m, err := l.client.Last(ctx, "KV_"+bucket, "$KV."+bucket+"."+key)
		if errors.Is(err, jsclient.ErrNotFound) || isNoStream(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if index, ok := headindex.Decode(m.Header.Get(headindex.Header)); ok && index.Generation >= 0 { // otherwise the key was deleted by hand
			return min(index.Generation, newest), nil
		}
	}
	return newest, nil
}

func isNoStream(err error) bool { return errors.Is(err, jetstream.ErrStreamNotFound) }

func (l *Locator) remembered(s chunk.Session) (int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := root{s.Tenant, s.Root}
	at, ok := l.known[k]
	if !ok {
		if at, ok = l.older[k]; ok {
			l.put(k, at)
		}
	}
	return at.generation, ok && (at.generation == len(l.layout.Earlier) || time.Since(at.since) < trustedFor)
}

func (l *Locator) remember(s chunk.Session, g int) Location {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(root{s.Tenant, s.Root}, place{g, time.Now()})
	return Location{Partition: l.layout.PartitionIn(g, s), Final: true}
}

func (l *Locator) put(k root, at place) {
	if len(l.known) >= maxKnown {
		l.known, l.older = make(map[root]place), l.known
	}
	l.known[k] = at
}
