package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/tailrace/tailrace/subjects"
)

// loadClientsVariable marks a process that runs the load clients of a benchmark:
// the clients and the writers. They run in a separate process so that processor
// time and memory of this process are those of the serving side, and so that
// 10,000 connections take 10,000 descriptors of each process instead of 20,000 of
// one.
const loadClientsVariable = "TRTEST_BENCH_CROWD"

// The process reads a job from its standard input and opens its connections; it
// starts the job when it reads another line. It writes JSON lines. It exits when
// its standard input ends, so that it does not outlive the benchmark.

// job is the work of a process of load clients.
type job struct {
	Addr   string   `json:"addr"`   // address of the server under test
	More   []string `json:"more"`   // addresses of more servers: the clients of each session connect to all of them in turn
	Groups []group  `json:"groups"` // the clients of each session
	First  int      `json:"first"`  // each client gets the events First …
	Events int      `json:"events"` // … to First+Events-1 of its session, in order and once, or the job fails

	Tokens []string `json:"tokens"` // bearer tokens, one for each client in the order of the groups; empty for none

	// A burst has no writer. All clients connect at the same time; the time is
	// measured from the first dial to the last event. It is repeated Repeat times;
	// the median counts.
	Burst  bool `json:"burst"`
	Repeat int  `json:"repeat"`

	// Otherwise the time starts when all clients are connected and have
	// received an event with data and without a number; with AfterFirst when each has
	// also received the first event of its session, which does not count.
	AfterFirst bool          `json:"afterFirst"`
	Writer     string        `json:"writer"`     // one of the constants below; empty writes nothing
	Token      string        `json:"token"`      // events are repetitions of this token, which may be merged; empty if they are numbered
	NATS       string        `json:"nats"`       // URL of the server to write to
	Prefix     string        `json:"prefix"`     // of the log that a producers.Run writes
	Partitions int           `json:"partitions"` // of that log
	Notifier   string        `json:"notifier"`   // address of the notifier of the baseline
	Pace       time.Duration `json:"pace"`       // interval between two events of all groups together; 0 is unpaced
	Window     int           `json:"window"`     // unpaced: maximum number of events that the writer is ahead of the slowest client
}

// The writers of a job.
const (
	writerChunks       = "chunks"        // a producers.Run for each group
	writerMessages     = "messages"      // bare JetStream, the same messages
	writerTokens       = "tokens"        // a producers.Run for each group, which emits a token without waiting for the log
	writerNotifyOnly   = "notify"        // notifies the baseline immediately
	writerChunksNotify = "chunks+notify" // a producers.Run for each group; notifies the baseline when a chunk is stored
)

// group is the set of clients of one session.
type group struct {
	Session string `json:"session"`
	Path    string `json:"path"`
	After   uint64 `json:"after"` // Last-Event-ID that they send, 0 for none
	Clients int    `json:"clients"`
}

func (j job) clients() int {
	n := 0
	for _, g := range j.Groups {
		n += g.Clients
	}
	return n
}

// outcome is the result of a job.
type outcome struct {
	Took       time.Duration `json:"took"` // to the last event of the last client
	Deliveries int           `json:"deliveries"`
	P50        time.Duration `json:"p50"` // from before the event is passed to the writer until the client has read it
	P99        time.Duration `json:"p99"`

	Processor time.Duration `json:"-"` // of this process during the job
}

// perDelivery returns the processor time of the serving side per delivery in
// us.
func (o outcome) perDelivery() float64 {
	return float64(o.Processor.Nanoseconds()) / 1e3 / float64(o.Deliveries)
}

func (j job) layout() subjects.Layout {
	return subjects.Layout{Prefix: j.Prefix, Partitions: j.Partitions}
}

// client returns the k-th client of a group.
func (j job) client(g group, k int) *client {
	addr := j.Addr
	if k %= len(j.More) + 1; k > 0 {
		addr = j.More[k-1]
	}
	return &client{group: g, addr: addr, token: []byte(j.Token), next: j.First, end: j.First + j.Events}
}

// report is a line from the process of load clients.
type report struct {
	Open    bool     `json:"open,omitempty"`
	Done    bool     `json:"done,omitempty"`
	Outcome *outcome `json:"outcome,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// loadClients runs a job in a process of load clients. opened, if not nil, is called
// when all clients are connected, before the time starts.
func loadClients(ctx context.Context, j job, opened func() error) (outcome, error) {
	if err := checkDescriptors(j.clients()); err != nil {
		return outcome{}, err
	}
	childCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := startLoadClients(childCtx)
	if err != nil {
		return outcome{}, err
	}
	out, err := c.run(j, opened)
	if err != nil {
		cancel()
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx) // the reason for the end of the output
	}
	return out, errors.Join(err, c.wait(err != nil))
}

type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	stderr bytes.Buffer
}

func startLoadClients(ctx context.Context) (*child, error) {
	return startChild(ctx, loadClientsVariable+"=1")
}

// startChild starts this program with a variable that tells what it should do.
func startChild(ctx context.Context, variable string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self)} //nolint:gosec // this program
	c.cmd.Env = append(os.Environ(), variable)
	c.cmd.Stderr = &c.stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = json.NewDecoder(stdout)
	return c, c.cmd.Start()
}

func (c *child) run(j job, opened func() error) (outcome, error) {
	if err := json.NewEncoder(c.in).Encode(j); err != nil {
		return outcome{}, err
	}
	if _, err := c.read(); err != nil { // all clients are connected
		return outcome{}, err
	}
	if opened != nil {
		if err := opened(); err != nil {
			return outcome{}, err
		}
	}
	before, err := processorTime()
	if err != nil {
		return outcome{}, err
	}
	if _, err := io.WriteString(c.in, "go\n"); err != nil {
		return outcome{}, err
	}
	if _, err := c.read(); err != nil { // all events are delivered
		return outcome{}, err
	}
	after, err := processorTime()
	if err != nil {
		return outcome{}, err
	}
	last, err := c.read()
	if err != nil {
		return outcome{}, err
	}
	last.Outcome.Processor = after - before
	return *last.Outcome, nil
}

func (c *child) read() (report, error) {
	var r report
	if err := c.out.Decode(&r); err != nil {
		return r, fmt.Errorf("load clients: %w", err)
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

// wait ends the child. Its exit status is ignored if it failed before.
func (c *child) wait(failed bool) error {
	closed := c.in.Close()
	err := c.cmd.Wait()
	if failed {
		err, closed = nil, nil
	}
	if text := strings.TrimSpace(c.stderr.String()); text != "" {
		err = errors.Join(err, errors.New(text))
	}
	return errors.Join(err, closed)
}
