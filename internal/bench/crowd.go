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
)

// crowdVariable marks a process that is to be the crowd of a benchmark: its
// clients, and the writers that give them something to read. They live in a
// process of their own so that processor time and memory of this one are those
// of the side that serves, and so that 10,000 connections take 10,000 descriptors
// of each process and not 20,000 of one.
const crowdVariable = "TAILRACE_BENCH_CROWD"

// The crowd reads a job from its standard input and opens what is to be open;
// when it is told so by a line more it does its job. It speaks JSON lines. The
// end of its standard input is its end, so that it does not outlive the benchmark.

// job is what a crowd has to do.
type job struct {
	Addr   string  `json:"addr"`   // of the server under test
	Groups []group `json:"groups"` // who reads what
	First  int     `json:"first"`  // each client gets the events First …
	Events int     `json:"events"` // … to First+Events-1 of its session, in order and once, or the job fails

	// A rush has no writer. All clients come at once, and the time runs from
	// the first dial to the last event. It is done Repeat times; the median counts.
	Rush   bool `json:"rush"`
	Repeat int  `json:"repeat"`

	// Without a rush all clients are open, and have seen an event with data
	// and without a number, before the time runs.
	Writer string        `json:"writer"` // one of those below; empty: nothing is written
	Token  string        `json:"token"`  // events are tokens of a text, this one each time, and may come merged; empty: they have numbers
	NATS   string        `json:"nats"`   // URL of the server to write to
	Bell   string        `json:"bell"`   // address of the bell
	Pace   time.Duration `json:"pace"`   // between two events of all groups together; 0 is flat out
	Window int           `json:"window"` // flat out: how many events the writer is ahead of the slowest client at most
}

// The writers of a job.
const (
	writesChunks   = "chunks"   // a producers.Run for each group
	writesMessages = "messages" // bare JetStream, the same messages
	saysTokens     = "tokens"   // a producers.Run for each group, that says a token and does not wait for the log
	onlyRings      = "only"     // tells the bell of the floor at once
	ringsBell      = "bell"     // a producers.Run for each group, too; when a chunk is stored it tells the bell of the floor
)

// group is the clients of one session.
type group struct {
	Session string `json:"session"`
	Path    string `json:"path"`
	After   uint64 `json:"after"` // what they say they have seen, 0 for nothing
	Clients int    `json:"clients"`
}

func (j job) clients() int {
	n := 0
	for _, g := range j.Groups {
		n += g.Clients
	}
	return n
}

// outcome is what a crowd saw.
type outcome struct {
	Took       time.Duration `json:"took"` // to the last event of the last client
	Deliveries int           `json:"deliveries"`
	P50        time.Duration `json:"p50"` // from before the event is given to the writer to when the client has read it
	P99        time.Duration `json:"p99"`

	Processor time.Duration `json:"-"` // of this process meanwhile
}

// perDelivery is processor time of the serving side, in us.
func (o outcome) perDelivery() float64 {
	return float64(o.Processor.Nanoseconds()) / 1e3 / float64(o.Deliveries)
}

// report is a line of the crowd.
type report struct {
	Open    bool     `json:"open,omitempty"`
	Done    bool     `json:"done,omitempty"`
	Outcome *outcome `json:"outcome,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// crowd lets a crowd do its job. opened, if not nil, is called when all clients
// are open, before the time runs.
func (l *lab) crowd(ctx context.Context, j job, opened func() error) (outcome, error) {
	if err := checkDescriptors(j.clients()); err != nil {
		return outcome{}, err
	}
	crowdCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := startCrowd(crowdCtx)
	if err != nil {
		return outcome{}, err
	}
	out, err := c.run(j, opened)
	if err != nil {
		cancel()
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx) // which is why the crowd fell silent
	}
	return out, errors.Join(err, c.wait(err != nil))
}

type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	stderr bytes.Buffer
}

func startCrowd(ctx context.Context) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, "bench")} //nolint:gosec // this very program
	c.cmd.Env = append(os.Environ(), crowdVariable+"=1")
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
	if _, err := c.read(); err != nil { // all are open
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
	if _, err := c.read(); err != nil { // all is delivered
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
		return r, fmt.Errorf("the clients' process: %w", err)
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

// wait ends the child. How it ended says nothing if it was made to.
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
