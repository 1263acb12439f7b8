//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/natstest"
)

const (
	slowClients   = 200
	normalClients = 50
	slowTimeout   = 3 * time.Second  // of the edge: a client that takes nothing for so long is cut
	slowLife      = 10 * time.Second // of a connection of a slow client: longer than it takes to be cut
	soonEnough    = 5 * time.Millisecond
	slowMost      = 256 << 10 // bytes of memory that a slow client may cost
	memorySlack   = 8 << 20   // garbage that waits for the collector, at one time and not at another
)

// Two hundred clients read 500 bytes a second of sessions that say forty times
// as much, beside fifty that read as they should, on the same sessions and on
// others. The memory of the edge stays where it is; the fifty get everything as
// soon as fifty others do, who have an edge for themselves at the same time on
// the same machine; the slow ones are cut for it. None of them misses anything:
// when their lines get better in the end, they come back and have all of it.
func TestSlowClientsBesideNormal(t *testing.T) {
	server := natstest.StartProcess(t)
	edge := startEdge(t, server.URL, "--write-timeout", slowTimeout.String(), "--hub-bytes", "1048576", "--log-level", "info")
	quiet := startEdge(t, server.URL, "--hub-bytes", "1048576")
	talk := startLongChatter(t, server.URL, 8, 40*time.Millisecond, 600)
	var beside, apart lateness
	normal := talk.startCrowd(t, edge.addr, normalClients, beside.watch)
	others := talk.startCrowd(t, quiet.addr, normalClients, apart.watch)
	road := newSlowRoad(edge.addr)
	slow := talk.startCrowd(t, edge.addr, slowClients, func(i int, f *follower) {
		f.root = talk.voices[i%4].root
		f.dial, f.take = road.dial, f.keep
	})
	normal.awaitAll(t)
	others.awaitAll(t)

	road.open()
	rising := watchMemory(t, edge, 8*time.Second) // connections, and buffers that fill
	var memory [8]int64
	var ratios [8]float64 // of the late ones among the fifty to those among the others
	for i := range ratios {
		beside.forget()
		apart.forget()
		memory[i] = watchMemory(t, edge, 2*time.Second)
		p99, p99Apart := beside.p99(t), apart.p99(t)
		ratios[i] = float64(p99) / float64(max(p99Apart, soonEnough))
		t.Logf("%d MiB; p99 beside slow clients %s, apart %s", memory[i]>>20, p99, p99Apart)
	}
	first, second := slices.Max(memory[:4]), slices.Max(memory[4:])
	without := residentBytes(t, quiet.cmd.Process.Pid)
	t.Logf("memory, in MiB: %d while it rises, then %d, %d; of the edge without slow clients %d",
		rising>>20, first>>20, second>>20, without>>20)
	if second > without+slowClients*slowMost {
		t.Errorf("%d bytes of memory, of the edge without slow clients %d: a slow client costs more than %d", second, without, slowMost)
	}
	if second > first*12/10+memorySlack {
		t.Errorf("memory went on from %d to %d bytes", first, second)
	}
	// The machine is busy with other things now and then, and one edge happens to
	// suffer. What slow clients do to others they would do all the time.
	slices.Sort(ratios[:])
	if median := ratios[len(ratios)/2]; median > 2 {
		t.Errorf("the p99 beside slow clients is %.1f times that without", median)
	}

	road.improve()
	for _, c := range []*crowd{normal, others, slow} {
		c.kept = heard.hashed
		c.judge(t)
	}
	edge.terminate(t)
	cut := strings.Count(fmt.Sprint(edge.cmd.Stderr), "reason=slow")
	t.Logf("%d streams cut as slow", cut)
	if cut < slowClients {
		t.Errorf("%d streams were cut as slow, want each slow client to be, once at least", cut)
	}
}

// watchMemory looks at the process for a while and returns the most it had.
func watchMemory(t *testing.T, edge *edgeProcess, d time.Duration) int64 {
	t.Helper()
	over := time.After(d)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var most int64
	for {
		select {
		case <-tick.C:
			most = max(most, residentBytes(t, edge.cmd.Process.Pid))
		case <-over:
			return most
		}
	}
}

// lateness is how long what is said takes to the clients.
type lateness struct {
	mu   sync.Mutex // guards took
	took []time.Duration
}

// note takes the time from the event: when its agent said it, in milliseconds.
func (l *lateness) note(e heard) {
	now := time.Now().UnixMilli()
	_, rest, found := strings.Cut(e.data, `"timestamp":`)
	if !found {
		return // of the stream, not of an agent
	}
	digits, _, _ := strings.Cut(rest, ",")
	said, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		said = 0 // which is very late
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, time.Duration(now-said)*time.Millisecond)
}

// watch makes a follower tell how late it is.
func (l *lateness) watch(_ int, f *follower) {
	f.take = func(e heard) { f.keep(e); l.note(e) }
}

// forget begins anew.
func (l *lateness) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = nil
}

func (l *lateness) p99(t *testing.T) time.Duration {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.took) < 1000 {
		t.Fatalf("%d events: nothing was put to the test", len(l.took))
	}
	slices.Sort(l.took)
	return l.took[len(l.took)*99/100]
}

// keep remembers what an event was, without all its words: 250 clients get a
// hundred megabytes.
func (f *follower) keep(e heard) { f.got = append(f.got, e.hashed()) }

var hashSeed = maphash.MakeSeed()

func (e heard) hashed() heard {
	return heard{seq: e.seq, data: strconv.FormatUint(maphash.String(hashSeed, e.data), 36)}
}

// slowRoad leads to the edge once it is open, and is as good as any when it has
// been improved.
type slowRoad struct {
	addr             string
	opened, improved chan struct{} // closed when it is
}

func newSlowRoad(addr string) *slowRoad {
	return &slowRoad{addr: addr, opened: make(chan struct{}), improved: make(chan struct{})}
}

func (r *slowRoad) open()    { close(r.opened) }
func (r *slowRoad) improve() { close(r.improved) }

// dial waits until the road is open. Buffers are small, as far from the machine
// as a slow client is: on loopback the kernel would else take megabytes for each.
func (r *slowRoad) dial(ctx context.Context) (net.Conn, error) {
	select {
	case <-r.opened:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-r.improved:
		return new(net.Dialer).DialContext(ctx, "tcp", r.addr)
	default:
	}
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		control := raw.Control(func(fd uintptr) {
			err = errors.Join(
				syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 2<<10),
				syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 536))
		})
		return errors.Join(control, err)
	}}
	conn, err := dialer.DialContext(ctx, "tcp", r.addr)
	if err != nil {
		return nil, err
	}
	return &slowConn{Conn: conn, over: time.After(slowLife), improved: r.improved, tick: time.NewTicker(slowTick)}, nil
}

// slowTick and slowBytes are 500 bytes a second.
const (
	slowTick  = 250 * time.Millisecond
	slowBytes = 125
)

// slowConn is read slowly, and given up after a while: a client with full buffers
// does not learn that it was cut.
type slowConn struct {
	net.Conn

	over     <-chan time.Time
	improved <-chan struct{}
	tick     *time.Ticker
}

func (c *slowConn) Read(b []byte) (int, error) {
	select {
	case <-c.tick.C:
		return c.Conn.Read(b[:min(len(b), slowBytes)])
	case <-c.over:
	case <-c.improved:
	}
	return 0, net.ErrClosed
}
