package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/subjects"
)

// sessionSelection selects the sessions for `verify` and `rebuild`.
type sessionSelection struct {
	session string
	all     bool
	json    bool
}

// work calls do for every selected session, prints and counts the results. A
// session with an error counts as failed; a session that was deleted meanwhile
// is skipped.
func (c *sessionSelection) work(ctx context.Context, t terminal, f *sessionWalker, do func(context.Context, chunk.Session) (line, error)) (*tally, error) {
	done := &tally{out: t.out, progress: t.err, json: c.json, all: c.all, count: map[string]int{}}
	stop := done.report(ctx)
	err := f.each(ctx, c.under(f.b.cfg.Tenant), func(ctx context.Context, s chunk.Session) error {
		l, err := do(ctx, s)
		switch {
		case errors.Is(err, chunk.ErrUnknownSession), ctx.Err() != nil:
			return ctx.Err() // deleted meanwhile, or canceled
		case err != nil:
			l = failed(s, err)
		}
		return done.add(l)
	})
	stop()
	if err != nil {
		return done, err
	}
	fmt.Fprintln(t.err, done.summary())
	if done.done == 0 && !c.all {
		return done, fmt.Errorf("unknown session %q of tenant %q", c.session, f.b.cfg.Tenant)
	}
	return done, nil
}

func (c *sessionSelection) register(flags *flag.FlagSet) {
	flags.StringVar(&c.session, "session", "", "this session of the tenant, with its sub-agents")
	flags.BoolVar(&c.all, "all", false, "all sessions of all tenants, in the log and in the bucket")
	flags.BoolVar(&c.json, "json", false, "print a JSON line per session")
}

func (c *sessionSelection) check(config) error {
	switch {
	case c.all == (c.session != ""):
		return errors.New("want --session or --all")
	case c.all:
		return nil
	}
	return subjects.CheckID("session", c.session)
}

// under returns the selected tree, the zero Session for all.
func (c *sessionSelection) under(tenant string) chunk.Session {
	if c.all {
		return chunk.Session{}
	}
	return chunk.RootSession(tenant, c.session)
}

// sessionWalker lists the sessions of the log and the bucket for both commands.
type sessionWalker struct {
	b      *app
	reader *consumers.Reader
	store  *jssnapshots.Store
}

func (b *app) newSessionWalker() (*sessionWalker, error) {
	reader, store, err := b.NewReaders()
	return &sessionWalker{b: b, reader: reader, store: store}, err
}

// maxParallel is the number of sessions processed concurrently: each is in memory
// completely.
const maxParallel = 4

// each calls do for every session of a tree, or for all sessions: first those in
// the log, then those that only the bucket has. It ends with the first error of
// do.
func (f *sessionWalker) each(ctx context.Context, under chunk.Session, do func(context.Context, chunk.Session) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxParallel)
	err := f.walk(ctx, under, func(s chunk.Session) {
		group.Go(func() error { return do(ctx, s) })
	})
	return errors.Join(group.Wait(), err)
}

func (f *sessionWalker) walk(ctx context.Context, under chunk.Session, found func(chunk.Session)) error {
	layout := f.b.cfg.layout()
	for p := range layout.PartitionCount() {
		filter := names.Layout(layout).AllFilter(p)
		if under != (chunk.Session{}) {
			if p != layout.Partition(under) {
				continue
			}
			var err error
			if filter, err = layout.Tree(under); err != nil {
				return err
			}
		}
		if err := f.walkLog(ctx, layout.Stream(p), filter, found); err != nil {
			return err
		}
	}
	for s, err := range f.store.Each(ctx, under) {
		if err != nil {
			return err
		}
		if _, err := f.reader.Last(ctx, s); errors.Is(err, chunk.ErrUnknownSession) {
			found(s)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (f *sessionWalker) walkLog(ctx context.Context, stream, filter string, found func(chunk.Session)) error {
	api := jsclient.New(f.b.js)
	for offset := 0; ; {
		page, next, err := api.Subjects(ctx, stream, filter, offset)
		if err != nil {
			return fmt.Errorf("list the sessions in %s: %w", stream, err)
		}
		for _, subject := range page {
			if s, err := f.b.cfg.layout().Parse(subject); err == nil {
				found(s)
			}
		}
		if offset = next; offset == 0 {
			return ctx.Err()
		}
	}
}

// failed returns the line of a session with an error.
func failed(s chunk.Session, err error) line {
	type failure struct {
		Session string `json:"session"`
		Result  string `json:"result"`
		Error   string `json:"error"`
	}
	return line{Session: s.String(), Result: "failed", Notable: true, Text: err.Error(), JSON: failure{s.String(), "failed", err.Error()}}
}

// tally prints and counts the results of sessions.
type tally struct {
	out, progress io.Writer
	json, all     bool // all: print only notable sessions

	mu    sync.Mutex // guards the fields below
	done  int
	count map[string]int
	err   error // write errors
}

// line is the result of one session: printed as JSON or as text. With many
// sessions only notable lines are printed as text.
type line struct {
	Session string
	Result  string
	Notable bool
	Text    string
	JSON    any
}

func (t *tally) add(l line) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done++
	t.count[l.Result]++
	var err error
	switch {
	case t.json:
		err = json.NewEncoder(t.out).Encode(l.JSON)
	case l.Notable || !t.all:
		_, err = fmt.Fprintf(t.out, "%-10s  %s  %s\n", l.Result, l.Session, printable(l.Text))
	}
	t.err = errors.Join(t.err, err)
	return t.err
}

// report prints the progress every two seconds until stop is called.
func (t *tally) report(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var reporting sync.WaitGroup
	reporting.Go(func() {
		for wait.Sleep(ctx, 2*time.Second) == nil {
			t.mu.Lock()
			fmt.Fprintf(t.progress, "%s so far\n", t.summary())
			t.mu.Unlock()
		}
	})
	return func() {
		cancel()
		reporting.Wait()
	}
}

// summary returns one line. The caller holds the mutex or is the only user.
func (t *tally) summary() string {
	parts := []string{fmt.Sprintf("%d sessions", t.done)}
	for _, result := range []string{"same", "unsaved", "unprovable", "different", "unreadable", "unchanged", "replaced", "copied", "kept", "failed"} {
		if n := t.count[result]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, result))
		}
	}
	return strings.Join(parts, ", ")
}
