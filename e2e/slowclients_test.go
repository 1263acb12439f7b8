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

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

const (
	slowClients   = 200
	normalClients = 50
	slowTimeout   = 3 * time.Second  // of the edge: a client that reads nothing for this long is disconnected
	slowLife      = 10 * time.Second // lifetime of a connection of a slow client: longer than slowTimeout
	soonEnough    = 5 * time.Millisecond
	slowMost      = 256 << 10 // maximum memory of a slow client in bytes
	memorySlack   = 8 << 20   // tolerance for garbage not collected yet
)

// Two hundred clients read 500 bytes per second of sessions with forty times
// that rate, alongside fifty normal clients of the same and other sessions. The
// memory of the edge stays constant. The fifty receive events as fast as fifty
// clients of another edge without slow clients, measured at the same time on
// the same machine. The slow clients are disconnected. No client misses an
// event: when their connections become fast at the end, the slow clients
// reconnect and receive the rest.
func TestSlowClientsBesideNormal(t *testing.T) {
	server := natstest.StartProcess(t)
	rec := startPaddedWriters(t, server.URL, 8, 40*time.Millisecond, 600)
	edge := startEdge(t, server.URL, "--write-timeout", slowTimeout.String(), "--memory", "4194304", "--log-level", "info")
	quiet := startEdge(t, server.URL, "--memory", "4194304")
	var beside, apart lateness
	normal := rec.startReaders(t, edge.addr, normalClients, beside.watch)
	others := rec.startReaders(t, quiet.addr, normalClients, apart.watch)
	dialer := newSlowDialer(edge.addr)
	slow := rec.startReaders(t, edge.addr, slowClients, func(i int, f *follower) {
		f.root = rec.writers[i%4].root
		f.dial, f.onEvent = dialer.dial, f.keepHash
	})
	normal.awaitAll(t)
	others.awaitAll(t)

	dialer.open()
	rising := watchMemory(t, edge, 8*time.Second) // connections and filling buffers
	var memory [8]int64
	var ratios [8]float64 // p99 alongside slow clients / p99 without
	for i := range ratios {
		beside.forget()
		apart.forget()
		memory[i] = watchMemory(t, edge, 2*time.Second, &beside, &apart)
		p99, p99Apart := beside.p99(), apart.p99()
		ratios[i] = float64(p99) / float64(max(p99Apart, soonEnough))
		t.Logf("%d MiB; p99 alongside slow clients %s, without %s", memory[i]>>20, p99, p99Apart)
	}
	first, second := slices.Max(memory[:4]), slices.Max(memory[4:])
	without := residentBytes(t, quiet.cmd.Process.Pid)
	t.Logf("memory in MiB: %d during the start, then %d, %d; edge without slow clients: %d",
		rising>>20, first>>20, second>>20, without>>20)
	if second > without+slowClients*slowMost {
		t.Errorf("memory is %d bytes, %d without slow clients: want at most %d per slow client", second, without, slowMost)
	}
	if second > first*12/10+memorySlack {
		t.Errorf("memory grew from %d to %d bytes", first, second)
	}
	// Other load on the machine may slow one edge temporarily. An effect of the
	// slow clients would be permanent, so the median is checked.
	slices.Sort(ratios[:])
	if median := ratios[len(ratios)/2]; median > 2 {
		t.Errorf("the p99 alongside slow clients is %.1f times the p99 without", median)
	}

	dialer.speedUp()
	for _, c := range []*readers{normal, others, slow} {
		c.kept = sseEvent.hashed
		c.checkAll(t)
	}
	edge.terminate(t)
	cut := strings.Count(fmt.Sprint(edge.cmd.Stderr), "reason=slow")
	t.Logf("%d streams cut as slow", cut)
	if cut < slowClients {
		t.Errorf("%d streams were cut as slow, want at least one per slow client", cut)
	}
}

// watchMemory samples the process for a while, and until each of the records has enough events for its p99, and returns the maximum.
func watchMemory(t *testing.T, edge *edgeProcess, d time.Duration, events ...*lateness) int64 {
	t.Helper()
	over, limit := time.After(d), time.After(d+time.Minute)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var peak int64
	for {
		select {
		case <-tick.C:
			peak = max(peak, residentBytes(t, edge.cmd.Process.Pid))
			if over == nil && !slices.ContainsFunc(events, (*lateness).short) {
				return peak
			}
		case <-over:
			over = nil
		case <-limit:
			t.Fatal("timeout: too few events for a p99")
		}
	}
}

// lateness records the latency of events.
type lateness struct {
	mu   sync.Mutex // guards took
	took []time.Duration
}

// note computes the latency from the timestamp of the event, in milliseconds.
func (l *lateness) note(e sseEvent) {
	now := time.Now().UnixMilli()
	_, rest, found := strings.Cut(e.data, `"timestamp":`)
	if !found {
		return // event of the stream, not of an agent
	}
	digits, _, _ := strings.Cut(rest, ",")
	sentAt, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		sentAt = 0 // counts as very late
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, time.Duration(now-sentAt)*time.Millisecond)
}

// watch records the latency of a follower.
func (l *lateness) watch(_ int, f *follower) {
	f.onEvent = func(e sseEvent) { f.keepHash(e); l.note(e) }
}

// forget resets the record.
func (l *lateness) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = nil
}

// short reports whether there are too few events for a p99.
func (l *lateness) short() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.took) < 1000
}

func (l *lateness) p99() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.took)
	return l.took[len(l.took)*99/100]
}

// keepHash keeps a hash of the text: the events of 250 clients take a hundred
// megabytes.
func (f *follower) keepHash(e sseEvent) { f.got = append(f.got, e.hashed()) }

var hashSeed = maphash.MakeSeed()

func (e sseEvent) hashed() sseEvent {
	return sseEvent{seq: e.seq, data: strconv.FormatUint(maphash.String(hashSeed, e.data), 36)}
}

// slowDialer connects to the edge once it is open, with slow connections until
// speedUp.
type slowDialer struct {
	addr         string
	opened, fast chan struct{} // closed by open and speedUp
}

func newSlowDialer(addr string) *slowDialer {
	return &slowDialer{addr: addr, opened: make(chan struct{}), fast: make(chan struct{})}
}

func (r *slowDialer) open()    { close(r.opened) }
func (r *slowDialer) speedUp() { close(r.fast) }

// dial waits until the dialer is open. Buffers are small, as for a distant
// client: on loopback the kernel would otherwise use megabytes for each.
func (r *slowDialer) dial(ctx context.Context) (net.Conn, error) {
	select {
	case <-r.opened:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-r.fast:
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
	return &slowConn{Conn: conn, over: time.After(slowLife), fast: r.fast, tick: time.NewTicker(slowTick)}, nil
}

// slowTick and slowBytes are a rate of 500 bytes per second.
const (
	slowTick  = 250 * time.Millisecond
	slowBytes = 125
)

// slowConn reads slowly and closes after slowLife, because a client with full
// buffers does not detect that it was disconnected.
type slowConn struct {
	net.Conn

	over <-chan time.Time
	fast <-chan struct{}
	tick *time.Ticker
}

func (c *slowConn) Read(b []byte) (int, error) {
	select {
	case <-c.tick.C:
		return c.Conn.Read(b[:min(len(b), slowBytes)])
	case <-c.over:
	case <-c.fast:
	}
	return 0, net.ErrClosed
}
