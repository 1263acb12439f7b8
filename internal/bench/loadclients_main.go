package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/producers"
)

// IsChild reports whether this process was started by a benchmark, to run its load
// clients, a server or an edge. It must call RunChild and nothing else.
func IsChild() bool { return os.Getenv(loadClientsVariable) != "" || os.Getenv(siteVariable) != "" }

// RunChild does what this process was started for, until in ends.
func RunChild(ctx context.Context, in io.Reader, out io.Writer) error {
	if what := os.Getenv(siteVariable); what != "" {
		return runSite(ctx, what, in, out)
	}
	return runLoadClients(ctx, in, out)
}

// runLoadClients runs the job read from in and writes reports to out. A returned
// error has been reported as well.
func runLoadClients(ctx context.Context, in io.Reader, out io.Writer) error {
	debug.SetGCPercent(1000) // its memory is not measured, and its processor time disturbs the measurement
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	enc := json.NewEncoder(out)
	m := &loadClientsMain{in: bufio.NewReader(in), enc: enc, end: cancel}
	if err := m.run(ctx); err != nil {
		return errors.Join(err, enc.Encode(report{Error: err.Error()}))
	}
	return nil
}

type loadClientsMain struct {
	job  job
	in   *bufio.Reader
	enc  *json.Encoder
	end  context.CancelFunc
	base time.Time
}

func (m *loadClientsMain) run(ctx context.Context) error {
	line, err := m.in.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, &m.job); err != nil {
		return err
	}
	m.base = time.Now()
	var out outcome
	if m.job.Burst {
		out, err = m.burst(ctx)
	} else {
		out, err = m.watch(ctx)
	}
	if err != nil {
		return err
	}
	return m.enc.Encode(report{Outcome: &out})
}

// start reports that all clients are connected and waits for the start of the
// job.
func (m *loadClientsMain) start() error {
	if err := m.enc.Encode(report{Open: true}); err != nil {
		return err
	}
	if _, err := m.in.ReadBytes('\n'); err != nil {
		return err
	}
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, m.in) // an error means the end, too
		m.end()
	}()
	return nil
}

// burst connects all clients at the same time.
func (m *loadClientsMain) burst(ctx context.Context) (outcome, error) {
	if err := m.start(); err != nil {
		return outcome{}, err
	}
	var took []time.Duration
	for range m.job.Repeat {
		var clients []*client
		for _, g := range m.job.Groups {
			for k := range g.Clients {
				clients = append(clients, m.job.client(g, k))
			}
		}
		began := time.Now()
		if err := readAll(ctx, clients); err != nil {
			return outcome{}, err
		}
		took = append(took, time.Since(began))
	}
	deliveries := m.job.Repeat * m.job.clients() * m.job.Events
	return outcome{Took: median(took), Deliveries: deliveries}, m.enc.Encode(report{Done: true})
}

// watch connects all clients, then writes, and waits until each has received
// everything.
func (m *loadClientsMain) watch(ctx context.Context) (outcome, error) {
	write, closeWriter, err := m.writer(ctx)
	if err != nil {
		return outcome{}, err
	}
	defer closeWriter()
	var (
		clients   []*client
		latencies = make([]time.Duration, 0, m.job.clients()*m.job.Events)
		logs      = make([]*deliveryLog, len(m.job.Groups))
		opened    = make(chan struct{})
		opening   = m.job.clients()
		first     = 0 // event that counts
	)
	if m.job.AfterFirst {
		first = 1
	}
	onOpen := func() {
		if opening--; opening == 0 {
			close(opened)
		}
	}
	for i, g := range m.job.Groups {
		logs[i] = newDeliveryLog(m.base, m.job.Events, g.Clients)
		onEvent := func(n int, read time.Time) {
			if latency := logs[i].recordDelivery(n, read); n >= first {
				latencies = append(latencies, latency)
			}
		}
		for k := range g.Clients {
			c := m.job.client(g, k)
			c.onOpen, c.onEvent = onOpen, onEvent
			if len(m.job.Tokens) > 0 {
				c.bearer = m.job.Tokens[len(clients)]
			}
			clients = append(clients, c)
		}
	}
	group, ctx := errgroup.WithContext(ctx) // the first error ends the round for all
	group.Go(func() error { return readAll(ctx, clients) })
	select {
	case <-opened:
	case <-ctx.Done():
		return outcome{}, group.Wait()
	}
	if err := writeBefore(ctx, logs, first, write); err != nil {
		return outcome{}, err
	}
	if err := m.start(); err != nil {
		return outcome{}, err
	}
	began := time.Now()
	group.Go(func() error { return m.write(ctx, logs, first, write) })
	if err := group.Wait(); err != nil {
		return outcome{}, err
	}
	out := outcome{Took: time.Since(began), Deliveries: len(latencies)}
	if err := m.enc.Encode(report{Done: true}); err != nil {
		return outcome{}, err
	}
	slices.Sort(latencies)
	out.P50, out.P99 = latencies[len(latencies)/2], latencies[len(latencies)*99/100]
	return out, nil
}

// writeBefore writes the events of all groups before the first one that counts, and returns when the clients have received them.
func writeBefore(ctx context.Context, logs []*deliveryLog, first int, write func(ctx context.Context, group, n int) error) error {
	for n := range first {
		for i, log := range logs {
			log.write(n)
			if err := write(ctx, i, n); err != nil {
				return err
			}
		}
		for _, log := range logs {
			select {
			case <-log.all[n]:
			case <-ctx.Done():
				return context.Cause(ctx) // the error of a client
			}
		}
	}
	return nil
}

// write writes all events of all groups from the first one that counts, round robin. The
// time of an event is when it is passed to the writer of its session, which waits for the log.
func (m *loadClientsMain) write(ctx context.Context, logs []*deliveryLog, first int, write func(ctx context.Context, group, n int) error) error {
	const workers = 16
	group, ctx := errgroup.WithContext(ctx)
	var queues [workers]chan [2]int
	for i := range queues {
		queues[i] = make(chan [2]int, m.job.Events*(len(logs)/workers+1))
		group.Go(func() error {
			for next := range queues[i] {
				if err := write(ctx, next[0], next[1]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := paced(ctx, (m.job.Events-first)*len(logs), m.job.Pace, func(k int) error {
		i, n := k%len(logs), first+k/len(logs)
		if m.job.Pace == 0 {
			if n >= m.job.Window {
				select {
				case <-logs[i].all[n-m.job.Window]:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			logs[i].write(n)
			return write(ctx, i, n)
		}
		logs[i].write(n)
		queues[i%workers] <- [2]int{i, n}
		return nil
	})
	for _, queue := range queues {
		close(queue)
	}
	return errors.Join(err, group.Wait())
}

// paced calls step for each of n events when it is due.
func paced(ctx context.Context, n int, pace time.Duration, step func(k int) error) error {
	began := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for k := range n {
		if wait := time.Until(began.Add(time.Duration(k) * pace)); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := step(k); err != nil {
			return err
		}
	}
	return nil
}

// writer returns the function that writes the n-th event of a group and returns
// when it is stored.
func (m *loadClientsMain) writer(ctx context.Context) (write func(ctx context.Context, group, n int) error, done func(), err error) {
	switch m.job.Writer {
	case "":
		return nil, func() {}, nil
	case writerChunks:
		return m.chunkWriter(ctx)
	case writerMessages:
		return m.messageWriter()
	case writerTokens:
		return m.tokenWriter(ctx)
	case writerNotifyOnly:
		return m.notifier(ctx)
	case writerChunksNotify:
		return m.chunkNotifyWriter(ctx)
	}
	return nil, nil, fmt.Errorf("unknown writer %q", m.job.Writer)
}

func (m *loadClientsMain) chunkWriter(ctx context.Context) (func(ctx context.Context, group, n int) error, func(), error) {
	runs, done, err := m.runs(ctx)
	return func(ctx context.Context, group, n int) error {
		_, err := runs[group].Write(ctx, event(rootSession(m.job.Groups[group].Session), n))
		return err
	}, done, err
}

// tokenWriter emits a token as an agent does: it is stored later, possibly merged
// with the next.
func (m *loadClientsMain) tokenWriter(ctx context.Context) (func(ctx context.Context, group, n int) error, func(), error) {
	runs, done, err := m.runs(ctx)
	return func(ctx context.Context, group, _ int) error {
		return runs[group].EmitBody(ctx, chunk.TextDelta{Delta: m.job.Token})
	}, done, err
}

// runs starts a run for each group.
func (m *loadClientsMain) runs(ctx context.Context) ([]*producers.Run, func(), error) {
	nc, js, err := dial(m.job.NATS)
	if err != nil {
		return nil, nil, err
	}
	producer, err := producers.New(js, producers.Config{Layout: m.job.layout(), Positions: jssnapshots.NewPositions(js, m.job.layout()), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	runs := make([]*producers.Run, len(m.job.Groups))
	starting, ctx := errgroup.WithContext(ctx)
	starting.SetLimit(32)
	for i, g := range m.job.Groups {
		starting.Go(func() (err error) {
			runs[i], err = producer.Start(ctx, rootSession(g.Session), chunk.RunStarted{Mode: "execute"}, producers.AgentType("bench"))
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		return nil, nil, err
	}
	return runs, func() {
		for _, run := range runs {
			_ = run.Close() // everything is stored, or the clients have reported a missing event
		}
		_ = producer.Close()
		nc.Close()
	}, nil
}

func (m *loadClientsMain) messageWriter() (func(ctx context.Context, group, n int) error, func(), error) {
	nc, js, err := dial(m.job.NATS)
	if err != nil {
		return nil, nil, err
	}
	writers := make([]*rawWriter, len(m.job.Groups))
	for i, g := range m.job.Groups {
		if writers[i], err = newRawWriter(js, rootSession(g.Session)); err != nil {
			return nil, nil, err
		}
	}
	return func(ctx context.Context, group, n int) error { return writers[group].write(ctx, n) }, nc.Close, nil
}

// chunkNotifyWriter is a chunkWriter that notifies the baseline when the next event of a
// group is stored.
func (m *loadClientsMain) chunkNotifyWriter(ctx context.Context) (func(ctx context.Context, group, n int) error, func(), error) {
	store, closeWriter, err := m.chunkWriter(ctx)
	if err != nil {
		return nil, nil, err
	}
	notify, closeNotifier, err := m.notifier(ctx)
	if err != nil {
		closeWriter()
		return nil, nil, err
	}
	write := func(ctx context.Context, group, n int) error {
		if err := store(ctx, group, n); err != nil {
			return err
		}
		return notify(ctx, group, n)
	}
	return write, func() { closeNotifier(); closeWriter() }, nil
}

// notifier notifies the baseline of the next event of a group with one small write.
// It does not wait for a response, as the log does not wait for its feed.
func (m *loadClientsMain) notifier(ctx context.Context) (func(ctx context.Context, group, n int) error, func(), error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", m.job.Notifier)
	if err != nil {
		return nil, nil, err
	}
	write := func(_ context.Context, group, _ int) error {
		var number [4]byte
		binary.BigEndian.PutUint32(number[:], uint32(group))
		_, err := conn.Write(number[:]) // atomic with concurrent writers
		return err
	}
	return write, func() { _ = conn.Close() }, nil
}
