package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/subjects"
)

// ScaleName is the name of the benchmark that Scale runs. It compares sizes and not Tailrace with a baseline.
const ScaleName = "scale"

// size is a size of a deployment.
type size struct {
	Replicas   int // and servers
	Partitions int
	Edges      int
	Rate       int // chunks per second
}

func (s size) String() string {
	return fmt.Sprintf("R%d, P = %d, %d edges, %d/s", s.Replicas, s.Partitions, s.Edges, s.Rate)
}

// usage is the processor time that a size used in one round, in microseconds.
type usage struct {
	Server     float64 // of all servers for each chunk, without what they use when nothing is published
	ServerIdle float64 // of all servers in a second without chunks
	Edge       float64 // of an edge for each chunk, on average over the edges
	EdgeIdle   float64 // of an edge in a second
	Rate       float64 // of chunks that were stored and delivered, in a second
}

// scaleLoad is what is published and read in each size. Each session has readers at every edge, so the edges receive every chunk.
type scaleLoad struct {
	sessions int // a multiple of each number of partitions
	readers  int // of each session at all edges together
	length   time.Duration
	idle     time.Duration // measured before the load
}

// events returns the number of chunks of each session.
func (l scaleLoad) events(s size) int {
	return max(1, int(l.length.Seconds()*float64(s.Rate))/l.sessions)
}

func newScaleLoad(cfg Config) scaleLoad {
	l := scaleLoad{sessions: 32, readers: 8, length: time.Second, idle: 700 * time.Millisecond}
	if cfg.Quick {
		l.length, l.idle = 100*time.Millisecond, 20*time.Millisecond
	}
	return l
}

// The sizes that are measured: those of fitted determine the model, which then predicts heldOut. In those of loaded a partition gets three times as many chunks:
// the more it gets, the more of them share a write, a message between servers, and a wake-up.
var (
	fitted  = sizes([]int{1, 3}, []int{1, 4, 16}, []int{1, 2, 4, 8}, 1000)
	heldOut = sizes([]int{1, 3}, []int{8}, []int{3, 6}, 1000)
	loaded  = sizes([]int{3}, []int{1}, []int{1, 2, 4}, loadedRate)
)

// loadedRate is the number of chunks per second of the one partition of loaded.
const loadedRate = 3000

func sizes(replicas, partitions, edges []int, perSecond int) (all []size) {
	for _, r := range replicas {
		for _, p := range partitions {
			for _, e := range edges {
				all = append(all, size{Replicas: r, Partitions: p, Edges: e, Rate: perSecond})
			}
		}
	}
	return all
}

// Scale measures the processor time of servers and edges for each chunk in deployments of several sizes, each server and each edge in a process of its own. It
// writes the measurements, a model fitted to them, the prediction of sizes that were not used for the fit, and what large deployments need. It returns an
// error if a prediction is wrong by more than predictionBound.
func Scale(ctx context.Context, cfg Config, out io.Writer) error {
	rounds := max(1, cfg.Rounds)
	b, err := newScaleBench(ctx, cfg)
	if err != nil {
		return err
	}
	measured := make(map[size][]usage)
	for range rounds {
		if err := b.round(ctx, slices.Concat(fitted, heldOut, loaded), measured); err != nil {
			return errors.Join(err, b.close(true))
		}
	}
	if err := b.close(false); err != nil {
		return err
	}
	return reportScale(out, b.load, measured)
}

type scaleBench struct {
	cfg      Config
	dir      string
	load     scaleLoad
	clusters map[int]*cluster // by replicas
	streams  int              // layouts created so far
}

func newScaleBench(ctx context.Context, cfg Config) (*scaleBench, error) {
	b := &scaleBench{cfg: cfg, dir: cfg.Dir, load: newScaleLoad(cfg), clusters: make(map[int]*cluster)}
	var err error
	if b.dir == "" {
		if b.dir, err = os.MkdirTemp("", "tailrace-bench-"); err != nil {
			return nil, err
		}
	}
	for _, r := range []int{1, 3} {
		if b.clusters[r], err = startCluster(ctx, filepath.Join(b.dir, "scale"), r); err != nil {
			return nil, errors.Join(err, b.close(true))
		}
	}
	return b, nil
}

func (b *scaleBench) close(failed bool) error {
	var errs []error
	for _, c := range b.clusters {
		if c != nil {
			errs = append(errs, c.stop(failed))
		}
	}
	if b.cfg.Dir == "" {
		errs = append(errs, os.RemoveAll(b.dir))
	}
	return errors.Join(errs...)
}

// round measures each size once, in a random order, so that a drift of the machine's speed does not look like a cost of a size.
func (b *scaleBench) round(ctx context.Context, all []size, measured map[size][]usage) error {
	type group struct{ replicas, partitions int } // share the streams
	within := make(map[group][]size)
	var groups []group
	for _, s := range all {
		g := group{s.Replicas, s.Partitions}
		if within[g] == nil {
			groups = append(groups, g)
		}
		within[g] = append(within[g], s)
	}
	rand.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	for _, g := range groups {
		layout, remove, err := b.create(ctx, g.replicas, g.partitions)
		if err != nil {
			return fmt.Errorf("streams of R%d, P = %d: %w", g.replicas, g.partitions, err)
		}
		for _, i := range rand.Perm(len(within[g])) {
			s := within[g][i]
			u, err := b.measure(ctx, s, layout, fmt.Sprint("s", i))
			if err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
			measured[s] = append(measured[s], u)
		}
		if err := remove(); err != nil {
			return err
		}
	}
	return nil
}

// create creates streams and buckets, and returns the function that removes them: a stream costs its servers processor time also when nothing is published.
func (b *scaleBench) create(ctx context.Context, replicas, partitions int) (_ subjects.Layout, remove func() error, err error) {
	b.streams++
	cfg := topology.Config{Layout: subjects.Layout{Prefix: fmt.Sprint("scale", b.streams), Partitions: partitions}, Replicas: replicas}
	nc, js, err := dial(b.clusters[replicas].urls[0])
	if err != nil {
		return cfg.Layout, nil, err
	}
	remove = func() error {
		defer nc.Close()
		streams, err := topology.Streams(cfg)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, electionTimeout)
		defer cancel()
		for _, s := range streams {
			if err := js.DeleteStream(ctx, s.Name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
				return err
			}
		}
		return nil
	}
	if err := ensure(ctx, js, cfg); err != nil {
		nc.Close()
		return cfg.Layout, nil, err
	}
	return cfg.Layout, remove, nil
}

// measure starts edges with readers and publishes.
func (b *scaleBench) measure(ctx context.Context, s size, layout subjects.Layout, prefix string) (u usage, err error) {
	servers := b.clusters[s.Replicas]
	var edges []*site
	defer func() { err = errors.Join(err, stopSites(edges, err != nil)) }()
	for i := range s.Edges {
		e, err := startSite(ctx, siteEdge, edgeSpec{NATS: servers.urls[i%len(servers.urls)], Prefix: layout.Prefix, Partitions: s.Partitions})
		if err != nil {
			return usage{}, err
		}
		edges = append(edges, e)
	}
	j := job{
		Events: b.load.events(s), Writer: writerChunks, NATS: servers.urls[0], Prefix: layout.Prefix, Partitions: s.Partitions,
		Pace: time.Second / time.Duration(s.Rate),
	}
	for i, e := range edges {
		if err := e.await(); err != nil {
			return usage{}, err
		}
		if i == 0 {
			j.Addr = e.address
			continue
		}
		j.More = append(j.More, e.address)
	}
	for _, id := range evenSessions(layout, prefix, b.load.sessions) {
		j.Groups = append(j.Groups, group{Session: id, Path: eventsOf(id), Clients: b.load.readers})
	}
	var serversBefore, edgesBefore, serversIdle, edgesIdle time.Duration // the last two: used in load.idle
	read := func() (ofServers, ofEdges time.Duration, err error) {
		if ofServers, err = servers.processor(); err != nil {
			return 0, 0, err
		}
		ofEdges, err = processorOf(edges)
		return ofServers, ofEdges, err
	}
	out, err := loadClients(ctx, j, func() (err error) {
		before, edgesAtStart, err := read()
		if err != nil {
			return err
		}
		if err := wait.Sleep(ctx, b.load.idle); err != nil {
			return err
		}
		if serversBefore, edgesBefore, err = read(); err != nil {
			return err
		}
		serversIdle, edgesIdle = serversBefore-before, edgesBefore-edgesAtStart
		return nil
	})
	if err != nil {
		return usage{}, err
	}
	serversAfter, edgesAfter, err := read()
	if err != nil {
		return usage{}, err
	}
	share := out.Took.Seconds() / b.load.idle.Seconds() // of the load's duration and the idle one
	chunks, n := float64(b.load.sessions*j.Events), float64(s.Edges)
	return usage{
		Server:     micros(serversAfter-serversBefore)/chunks - micros(serversIdle)*share/chunks,
		ServerIdle: micros(serversIdle) / b.load.idle.Seconds(),
		Edge:       (micros(edgesAfter-edgesBefore)/chunks - micros(edgesIdle)*share/chunks) / n,
		EdgeIdle:   micros(edgesIdle) / b.load.idle.Seconds() / n,
		Rate:       chunks / out.Took.Seconds(),
	}, nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// evenSessions returns ids of sessions of which each partition has as many.
func evenSessions(layout subjects.Layout, prefix string, n int) (ids []string) {
	of := make([]int, layout.PartitionCount())
	for k := 0; len(ids) < n; k++ {
		id := fmt.Sprint(prefix, "-", k)
		if p := layout.Partition(rootSession(id)); of[p] < n/len(of) {
			of[p]++
			ids = append(ids, id)
		}
	}
	return ids
}
