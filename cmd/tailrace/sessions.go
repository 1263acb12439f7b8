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
	"github.com/tailrace/tailrace/internal/jsapi"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/projector/natssource"
	"github.com/tailrace/tailrace/subjects"
)

// chosen are the sessions that `verify` and `rebuild` work on.
type chosen struct {
	session string
	all     bool
	json    bool
}

// work does something to every chosen session, prints what it says about them,
// and counts it. A session that cannot be worked on is counted as failed; one
// that was deleted meanwhile is left out.
func (c *chosen) work(ctx context.Context, t terminal, f *folds, do func(context.Context, chunk.Session) (line, error)) (*tally, error) {
	done := &tally{out: t.out, progress: t.err, json: c.json, all: c.all}
	stop := done.report(ctx)
	err := f.each(ctx, c.under(f.b.cfg.Tenant), func(ctx context.Context, s chunk.Session) error {
		l, err := do(ctx, s)
		switch {
		case errors.Is(err, chunk.ErrUnknownSession), ctx.Err() != nil:
			return ctx.Err() // deleted meanwhile; or we stop
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
		return done, fmt.Errorf("no session %q of tenant %q", c.session, f.b.cfg.Tenant)
	}
	return done, nil
}

func (c *chosen) register(flags *flag.FlagSet) {
	flags.StringVar(&c.session, "session", "", "this session of the tenant and the sub-agents under it")
	flags.BoolVar(&c.all, "all", false, "every session of every tenant, in the log or in the bucket")
	flags.BoolVar(&c.json, "json", false, "a JSON line for each session")
}

func (c *chosen) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return errors.New("want no arguments")
	case c.all == (c.session != ""):
		return errors.New("want either --session or --all")
	case c.all:
		return nil
	}
	return subjects.CheckToken("session", c.session)
}

// under is the tree that is meant, the zero Session for all.
func (c *chosen) under(tenant string) chunk.Session {
	if c.all {
		return chunk.Session{}
	}
	return chunk.RootSession(tenant, c.session)
}

// folds is what the two commands need: the log, the bucket and who is in them.
type folds struct {
	b      *backbone
	reader *consumers.Reader
	log    natssource.Log
	store  *kvstore.Store
}

func (b *backbone) newFolds() (*folds, error) {
	reader, err := b.reader()
	if err != nil {
		return nil, err
	}
	store, err := kvstore.New(b.js, kvstore.Config{Layout: b.cfg.layout(), Log: b.log})
	return &folds{b: b, reader: reader, log: natssource.Log{Reader: reader}, store: store}, err
}

// inHand is how many sessions are worked on at the same time: each is in memory
// as a whole.
const inHand = 4

// each does something to every session of a tree, or to all: first those in the
// log, then those that only the bucket knows. It ends with the first error of do.
func (f *folds) each(ctx context.Context, under chunk.Session, do func(context.Context, chunk.Session) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inHand)
	err := f.walk(ctx, under, func(s chunk.Session) {
		group.Go(func() error { return do(ctx, s) })
	})
	return errors.Join(group.Wait(), err)
}

func (f *folds) walk(ctx context.Context, under chunk.Session, found func(chunk.Session)) error {
	layout := f.b.cfg.layout()
	for p := range layout.PartitionCount() {
		filter := layout.AllFilter(p)
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

func (f *folds) walkLog(ctx context.Context, stream, filter string, found func(chunk.Session)) error {
	api := jsapi.New(f.b.js)
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

// failed is the line of a session that could not be worked on.
func failed(s chunk.Session, err error) line {
	type failure struct {
		Session string `json:"session"`
		Result  string `json:"result"`
		Error   string `json:"error"`
	}
	return line{Session: s.String(), Result: "failed", Worth: true, Text: err.Error(), JSON: failure{s.String(), "failed", err.Error()}}
}

// tally prints what was found about sessions and counts it.
type tally struct {
	out, progress io.Writer
	json, all     bool // all: of many sessions, those are told of that are worth it

	mu    sync.Mutex // guards what follows
	done  int
	count map[string]int
	err   error // the first that writing gave
}

// line is one session: shown as JSON if asked for, else as text, among many only
// if it is worth telling.
type line struct {
	Session string
	Result  string
	Worth   bool
	Text    string
	JSON    any
}

func (t *tally) add(l line) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == nil {
		t.count = make(map[string]int)
	}
	t.done++
	t.count[l.Result]++
	var err error
	switch {
	case t.json:
		err = json.NewEncoder(t.out).Encode(l.JSON)
	case l.Worth || !t.all:
		_, err = fmt.Fprintf(t.out, "%-10s  %s  %s\n", l.Result, l.Session, l.Text)
	}
	t.err = errors.Join(t.err, err)
	return t.err
}

// report tells how far it is, now and then, until stop is called.
func (t *tally) report(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() {
		for pause(ctx, 2*time.Second) == nil {
			t.mu.Lock()
			fmt.Fprintf(t.progress, "%s so far\n", t.summary())
			t.mu.Unlock()
		}
	})
	return func() {
		cancel()
		telling.Wait()
	}
}

// summary is one line; the caller holds the mutex, or is alone.
func (t *tally) summary() string {
	parts := []string{fmt.Sprintf("%d sessions", t.done)}
	for _, result := range []string{"same", "older", "unsaved", "unprovable", "different", "unreadable", "unchanged", "replaced", "copied", "kept", "failed"} {
		if n := t.count[result]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, result))
		}
	}
	return strings.Join(parts, ", ")
}
