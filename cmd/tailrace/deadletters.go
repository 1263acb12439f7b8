package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/retention"
)

// deadLetterFlags holds the flags of `tailrace deadletters`.
type deadLetterFlags struct {
	tenant  string
	session string
	all     bool
	json    bool
	raw     bool
}

func (f *deadLetterFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&f.tenant, "tenant", "", "list, and --all: sessions of this tenant only; if empty, of all tenants")
	flags.StringVar(&f.session, "session", "", "list, and --all: this session, or the sessions of this root, only")
	flags.BoolVar(&f.all, "all", false, "show, replay, drop: all entries that match --tenant and --session")
	flags.BoolVar(&f.json, "json", false, "list, show: JSON lines; show adds header and data in base64")
	flags.BoolVar(&f.raw, "raw", false, "show: the stored bytes of the message only, headers first")
}

func (f *deadLetterFlags) wants(entry retention.DeadLetter) bool {
	s := entry.Session
	return (f.tenant == "" || s.Tenant == f.tenant) && (f.session == "" || s.ID == f.session || s.Root == f.session)
}

func runDeadLetters(ctx context.Context, t terminal, args []string) error {
	var f deadLetterFlags
	cfg, rest, err := arguments(t, "deadletters", args, f.register)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return usageError{errors.New("want list, show, replay or drop")}
	}
	do, numbers := rest[0], rest[1:]
	if err := f.check(do, numbers); err != nil {
		return usageError{err}
	}
	b, err := connectCommand(ctx, t, natsauth.Operator, cfg)
	if err != nil {
		return err
	}
	defer b.close()
	box, err := retention.NewDeadLetters(b.js, retention.DeadLetterConfig{Layout: cfg.layout()})
	if err != nil {
		return err
	}
	if do == "list" {
		return f.list(ctx, t, box)
	}
	entries, err := f.choose(ctx, box, numbers)
	if err != nil {
		return err
	}
	switch do {
	case "show":
		return f.show(t.out, entries)
	case "drop":
		return drop(ctx, t.out, box, entries)
	default:
		return b.replay(ctx, t.out, box, entries)
	}
}

// check rejects invalid combinations of arguments.
func (f *deadLetterFlags) check(do string, numbers []string) error {
	switch do {
	case "list":
		if len(numbers) > 0 || f.all {
			return errors.New("list: want no numbers; --tenant and --session select entries")
		}
	case "show", "replay", "drop":
		if f.all == (len(numbers) > 0) {
			return fmt.Errorf("%s: want entry numbers, or --all", do)
		}
		if len(numbers) > 0 && (f.tenant != "" || f.session != "") {
			return fmt.Errorf("%s: --tenant and --session require --all", do)
		}
	default:
		return fmt.Errorf("%q: want list, show, replay or drop", do)
	}
	return nil
}

// choose returns the selected entries.
func (f *deadLetterFlags) choose(ctx context.Context, box *retention.DeadLetters, numbers []string) ([]retention.DeadLetter, error) {
	var entries []retention.DeadLetter
	for _, text := range numbers {
		number, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, usageError{fmt.Errorf("entry %q: want a number from list", text)}
		}
		entry, err := box.Get(ctx, number)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	if !f.all {
		return entries, nil
	}
	for entry, err := range box.All(ctx) {
		if err != nil {
			return nil, err
		}
		if f.wants(entry) {
			entries = append(entries, entry)
		}
	}
	return entries, nil
}

func (f *deadLetterFlags) list(ctx context.Context, t terminal, box *retention.DeadLetters) error {
	lines := json.NewEncoder(t.out)
	table := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	if !f.json {
		fmt.Fprintln(table, "NUMBER\tADDED\tREASON\tSESSION\tSEQUENCE\tDETAIL")
	}
	for entry, err := range box.All(ctx) {
		switch {
		case err != nil:
			return errors.Join(err, table.Flush())
		case !f.wants(entry):
		case f.json:
			if err := lines.Encode(lineOf(entry)); err != nil {
				return err
			}
		default:
			fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%d\t%s\n", entry.Seq, entry.AddedAt.Format(time.RFC3339),
				entry.Reason, sessionText(entry.Session), entry.Origin.Seq, oneLine(entry.Detail))
		}
	}
	return table.Flush()
}

func (f *deadLetterFlags) show(out io.Writer, entries []retention.DeadLetter) error {
	for _, entry := range entries {
		var err error
		switch {
		case f.raw:
			_, err = out.Write(append(append([]byte(nil), entry.Header...), entry.Data...))
		case f.json:
			line := lineOf(entry)
			line.Header, line.Data = entry.Header, entry.Data
			err = json.NewEncoder(out).Encode(line)
		default:
			err = showEntry(out, entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func showEntry(out io.Writer, entry retention.DeadLetter) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"entry", strconv.FormatUint(entry.Seq, 10)},
		{"added", entry.AddedAt.Format(time.RFC3339)},
		{"reason", string(entry.Reason) + ": " + oneLine(entry.Detail)},
		{"session", sessionText(entry.Session)},
		{"origin", fmt.Sprintf("%s %d, stored %s", oneLine(entry.Origin.Stream), entry.Origin.Seq, entry.Origin.Stored.Format(time.RFC3339Nano))},
		{"subject", oneLine(entry.Origin.Subject)},
	} {
		fmt.Fprintf(table, "%s\t%s\n", row[0], row[1])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if entry.Missing != retention.MissingNone {
		_, err := fmt.Fprintf(out, "message: %s\n\n", entry.Missing)
		return err
	}
	_, err := fmt.Fprintf(out, "headers: %s\ndata: %s\n\n", quoted(entry.Header), quoted(entry.Data))
	return err
}

// quoted escapes control characters: the content is untrusted, and a terminal would interpret them.
func quoted(data []byte) string {
	if !utf8.Valid(data) || bytes.IndexFunc(data, unicode.IsControl) >= 0 {
		return strconv.QuoteToASCII(string(data))
	}
	return printable(string(data))
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(printable(s)), " ")
}

func sessionText(s chunk.Session) string {
	if s == (chunk.Session{}) {
		return "-"
	}
	return s.String()
}

// deadLetterJSON is the JSON form of an entry.
type deadLetterJSON struct {
	Number   uint64    `json:"number"`
	AddedAt  time.Time `json:"addedAt"`
	Reason   string    `json:"reason"`
	Why      string    `json:"why"`
	Tenant   string    `json:"tenant,omitempty"`
	Root     string    `json:"root,omitempty"`
	Session  string    `json:"session,omitempty"`
	Stream   string    `json:"stream"`
	Subject  string    `json:"subject"`
	Sequence uint64    `json:"sequence"`
	Stored   time.Time `json:"stored"`
	Missing  string    `json:"missing,omitempty"`
	Header   []byte    `json:"header,omitempty"`
	Data     []byte    `json:"data,omitempty"`
}

func lineOf(entry retention.DeadLetter) deadLetterJSON {
	return deadLetterJSON{
		Number: entry.Seq, AddedAt: entry.AddedAt, Reason: string(entry.Reason), Why: entry.Detail,
		Tenant: entry.Session.Tenant, Root: entry.Session.Root, Session: entry.Session.ID,
		Stream: entry.Origin.Stream, Subject: entry.Origin.Subject, Sequence: uint64(entry.Origin.Seq), Stored: entry.Origin.Stored,
		Missing: string(entry.Missing),
	}
}

func drop(ctx context.Context, out io.Writer, box *retention.DeadLetters, entries []retention.DeadLetter) error {
	for _, entry := range entries {
		if err := box.Drop(ctx, entry.Seq); err != nil {
			return err
		}
		fmt.Fprintf(out, "%d dropped\n", entry.Seq)
	}
	return nil
}

// replay refolds the sessions of the entries. An entry whose message this build cannot read either is kept, and the command fails.
func (b *app) replay(ctx context.Context, out io.Writer, box *retention.DeadLetters, entries []retention.DeadLetter) error {
	reader, store, err := b.NewReaders()
	if err != nil {
		return err
	}
	kept := 0
	for i, err := range box.Replay(ctx, entries, store, reader) {
		if err != nil {
			kept++
			fmt.Fprintf(out, "%d kept: %s\n", entries[i].Seq, oneLine(err.Error()))
			continue
		}
		fmt.Fprintf(out, "%d folded, entry dropped\n", entries[i].Seq)
	}
	if kept > 0 {
		return fmt.Errorf("%d of %d entries kept", kept, len(entries))
	}
	return nil
}
