package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
)

const (
	// maxUnconfirmed is the number of lines that a reader may have without having confirmed them.
	maxUnconfirmed = 10_000

	// readerGrace is the time that a reader has to store and confirm what it got, after the last line.
	readerGrace = 10 * time.Second
)

// firehoseOutput prints the records of all partitions, each of which has its own goroutine.
type firehoseOutput struct {
	signal  context.Context //nolint:containedctx // no line is begun after its end
	printer firehosePrinter
	to      io.Writer
	failed  chan error // the first error of a write, if a reader confirms the lines; nil otherwise

	mu     sync.Mutex // guards printer and closed
	closed bool       // no line is written any more
}

func (o *firehoseOutput) print(ctx context.Context, rec chunk.Record) error {
	return o.write(ctx, func() error { return o.printer.print(rec) })
}

func (o *firehoseOutput) gap(ctx context.Context, g consumers.Gap) error {
	return o.write(ctx, func() error { return o.printer.gap(g) })
}

// write calls printing, unless the output is closed. An output whose reader confirms the lines stays open on the side of the firehose until ctx ends: the last
// confirmations may still come. Such a reader may also end its confirmations and leave a full pipe open: the write is left to itself then.
func (o *firehoseOutput) write(ctx context.Context, printing func() error) error {
	if o.failed == nil {
		return o.writeOpen(printing)
	}
	written := make(chan error, 1)
	go func() { written <- o.writeOpen(printing) }()
	select {
	case err := <-written:
		if err == nil {
			return nil
		}
		select {
		case o.failed <- err:
		default: // another partition has reported it
		}
		<-ctx.Done()
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// errClosed reports an output to which no line is written any more.
var errClosed = errors.New("output closed")

func (o *firehoseOutput) writeOpen(printing func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.signal.Err() != nil {
		return errClosed
	}
	err := printing()
	o.closed = err != nil // a line may have been written in part
	return err
}

// confirmedReader is who reads the lines, stores them and confirms that.
type confirmedReader struct {
	output        *firehoseOutput
	confirmations io.Reader
	command       *exec.Cmd // nil if standard input has the confirmations
	input         io.Closer // of the reader; nil if the output is none
	responses     io.Closer
	handled       chan struct{} // is closed when all lines of a range that ends are written
}

// newConfirmedReader starts a command, or reads the confirmations from standard input without one.
func newConfirmedReader(ctx context.Context, t terminal, command string, output *firehoseOutput) (*confirmedReader, error) {
	output.failed = make(chan error, 1)
	r := &confirmedReader{output: output, confirmations: t.in, handled: make(chan struct{})}
	if command == "" {
		output.to = t.out
		r.input, _ = t.out.(io.Closer)
		return r, nil
	}
	r.command = exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", command) //nolint:gosec // the command of the caller; a signal closes its input
	r.command.Stderr, r.command.WaitDelay = t.err, readerGrace
	input, err := r.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	responses, err := r.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.command.Start(); err != nil {
		return nil, err
	}
	output.to, r.input, r.confirmations, r.responses = input, input, responses, responses
	return r, nil
}

// run passes the confirmations to the firehose until they end, and returns why: never nil. After the signal, or when the firehose has ended, the command gets no
// more lines, and run takes what it still confirms. At the end of the range the reader gets the end of its input: it may be one that confirms only then.
func (r *confirmedReader) run(signal, running context.Context, firehose *consumers.Firehose) error {
	ended := make(chan error, 1)
	go func() { ended <- confirm(r.confirmations, firehose) }() // blocked on standard input, it ends with the process
	var reason error
	broken := false
	for handled := r.handled; reason == nil; {
		select {
		case <-handled:
			handled = nil
			r.closeInput()
		case err := <-ended:
			if err != nil || handled != nil || !firehose.AllConfirmed() {
				return r.end(err)
			}
			<-running.Done() // the firehose ends by itself
			return errors.Join(running.Err(), r.end(nil))
		case reason = <-r.output.failed:
			broken = true
		case <-signal.Done():
			reason = signal.Err()
		case <-running.Done():
			reason = running.Err()
		}
	}
	if r.command == nil && !broken {
		return reason
	}
	late := time.NewTimer(readerGrace)
	defer late.Stop()
	if r.command != nil {
		go r.closeInput()
	}
	select {
	case err := <-ended:
		return errors.Join(reason, r.end(err))
	case <-late.C:
		return errors.Join(reason, r.end(fmt.Errorf("no end of the confirmations within %s", readerGrace)))
	}
}

// closeInput ends the lines, after the present one.
func (r *confirmedReader) closeInput() {
	r.output.mu.Lock()
	defer r.output.mu.Unlock()
	r.output.closed = true
	if r.input != nil {
		_ = r.input.Close() // the reader sees the end of its input in any case
	}
}

// end waits for the end of a command whose confirmations have ended, and returns the reason; err is that of the confirmations.
func (r *confirmedReader) end(err error) error {
	if r.command == nil {
		return cmp.Or(err, errors.New("the confirmations on standard input have ended"))
	}
	if err != nil {
		r.kill()
	}
	_ = r.input.Close() // also while a write waits for the command
	late := time.AfterFunc(readerGrace, r.kill)
	defer late.Stop()
	_ = r.command.Wait() // the state has the result
	return cmp.Or(err, fmt.Errorf("the command of --exec has ended: %s", r.command.ProcessState))
}

// failed returns the error of a command that has failed after it had confirmed everything.
func (r *confirmedReader) failed() error {
	if r == nil || r.command == nil || r.command.ProcessState.Success() {
		return nil
	}
	return fmt.Errorf("the command of --exec has confirmed all lines, and ended: %s", r.command.ProcessState)
}

// kill ends a command that does not end. Its children may still have its pipes.
func (r *confirmedReader) kill() {
	_ = r.command.Process.Kill() // it may have ended
	_ = r.input.Close()
	_ = r.responses.Close()
}

// confirm reads a position on each line, and confirms it. A last line without its end is none: its writer was killed.
func confirm(positions io.Reader, firehose *consumers.Firehose) error {
	lines := bufio.NewReader(positions)
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read a confirmation: %w", err)
		}
		at, err := consumers.ParsePartitionPosition(strings.TrimRight(string(line), "\r\n"))
		if err == nil {
			err = firehose.Confirm(at)
		}
		if err != nil {
			return fmt.Errorf("confirmation of a reader: %w", err)
		}
	}
}
