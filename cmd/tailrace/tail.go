package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/natsauth"
)

// tailFlags holds the flags of `tailrace tail`.
type tailFlags struct {
	after    chunk.Cursor
	since    time.Time
	scope    string
	types    string
	keepOpen bool
	noFollow bool
	verbose  bool
	json     bool
}

func (f *tailFlags) register(flags *flag.FlagSet) {
	flags.Func("after", "start after this `cursor`: a sequence, or one with an anchor such as 559-mwywb8jq; 0 is the start of the session", parseCursor(&f.after))
	flags.Func("since", "leave out records that were stored before this `time`, in RFC 3339, or longer ago than an age such as 10m", timeOrAge(&f.since))
	flags.StringVar(&f.scope, "scope", "tree", "tree (the session with its sub-agents) or session")
	flags.StringVar(&f.types, "types", "", "comma-separated chunk types; if empty, all types")
	flags.BoolVar(&f.keepOpen, "keep-open", false, "wait for the next run when the stream ends")
	flags.BoolVar(&f.noFollow, "no-follow", false, "end at the present end of the log")
	flags.BoolVar(&f.verbose, "verbose", false, "on a terminal: print sequence and time before each record")
	flags.BoolVar(&f.json, "json", false, "print JSON lines on a terminal too")
}

func runTail(ctx context.Context, t terminal, args []string) error {
	var f tailFlags
	cfg, session, err := sessionArgument(t, "tail", args, f.register)
	if err != nil {
		return err
	}
	if f.noFollow && f.keepOpen {
		return usageError{errors.New("want --no-follow or --keep-open, not both")}
	}
	if f.scope != "tree" && f.scope != "session" {
		return usageError{fmt.Errorf("scope is %q, want tree or session", f.scope)}
	}
	b, err := connectCommand(ctx, t, natsauth.Analytics, cfg)
	if err != nil {
		return err
	}
	defer b.close()
	reader, err := b.NewReader()
	if err != nil {
		return err
	}
	return f.show(ctx, f.follow(ctx, reader, session), f.printer(t, session))
}

// follow allows cleanups, because a printed truncation record says what was removed.
func (f *tailFlags) follow(ctx context.Context, reader *consumers.Reader, s chunk.Session) iter.Seq2[chunk.Record, error] {
	records := chunk.Range{
		Session: s, Tree: f.scope == "tree", After: chunk.Position{Seq: f.after.Seq}, Anchor: f.after.Anchor, FromOldest: f.after.Seq == 0, AllowCleanup: true,
	}
	if f.noFollow {
		return reader.Replay(ctx, records)
	}
	records.KeepOpen = f.keepOpen
	return reader.Follow(ctx, records)
}

// printer prints records in one format.
type printer interface {
	print(rec chunk.Record) error
	end() error
}

// show prints the records. A signal is not an error; a failed stream and a
// position that cannot be served are.
func (f *tailFlags) show(ctx context.Context, records iter.Seq2[chunk.Record, error], p printer) error {
	types := splitTypes(f.types)
	for rec, err := range records {
		if err != nil {
			if ctx.Err() != nil {
				return p.end()
			}
			return errors.Join(err, p.end())
		}
		if f.types != "" && !slices.Contains(types, rec.Type) || rec.StoredAt.Before(f.since) {
			continue
		}
		if err := p.print(rec); err != nil {
			return err
		}
	}
	return p.end()
}

func (f *tailFlags) printer(t terminal, root chunk.Session) printer {
	if !f.json && t.isInteractive() {
		return &textPrinter{out: t.out, root: root, verbose: f.verbose}
	}
	return &jsonPrinter{out: t.out}
}

// jsonPrinter writes one JSON line for each record, with the unchanged stored
// chunk.
type jsonPrinter struct {
	out io.Writer
	buf []byte
}

func (p *jsonPrinter) print(rec chunk.Record) error {
	p.buf = fmt.Appendf(p.buf[:0], `{"sequence":%d,"session":%q,"ordinal":%d,"epoch":%d,"chunk":`, rec.Seq, rec.Session.ID, rec.Ordinal, rec.Epoch)
	p.buf = append(p.buf, rec.Data...)
	p.buf = append(p.buf, "}\n"...)
	_, err := p.out.Write(p.buf)
	return err
}

func (*jsonPrinter) end() error { return nil }

func splitTypes(list string) []chunk.Type {
	var types []chunk.Type
	for name := range strings.SplitSeq(list, ",") {
		types = append(types, chunk.Type(strings.TrimSpace(name)))
	}
	return types
}
