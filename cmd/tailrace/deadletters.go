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
	"github.com/tailrace/tailrace/projector/deadletters"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/projector/natssource"
)

// letterFlags are the choices of one `tailrace deadletters`.
type letterFlags struct {
	tenant  string
	session string
	all     bool
	json    bool
	raw     bool
}

func (f *letterFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&f.tenant, "tenant", "", "list, replay --all and drop --all: only sessions of this tenant; empty: all tenants")
	flags.StringVar(&f.session, "session", "", "the same: only this session, or those under this root")
	flags.BoolVar(&f.all, "all", false, "replay and drop: every letter that the two above leave")
	flags.BoolVar(&f.json, "json", false, "list and show: JSON lines, in show with header and data in base64")
	flags.BoolVar(&f.raw, "raw", false, "show: the bytes of the message as they were stored, headers first, and nothing else")
}

func (f *letterFlags) wants(letter deadletters.Letter) bool {
	s := letter.Session
	return (f.tenant == "" || s.Tenant == f.tenant) && (f.session == "" || s.ID == f.session || s.Root == f.session)
}

func runDeadLetters(ctx context.Context, t terminal, args []string) error {
	var f letterFlags
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
	b, err := connect(cfg, cfg.logger(t.err))
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.verifyTopology(ctx); err != nil {
		return err
	}
	box, err := deadletters.New(b.js, deadletters.Config{Layout: cfg.layout()})
	if err != nil {
		return err
	}
	if do == "list" {
		return f.list(ctx, t, box)
	}
	letters, err := f.choose(ctx, box, numbers)
	if err != nil {
		return err
	}
	switch do {
	case "show":
		return f.show(t.out, letters)
	case "drop":
		return drop(ctx, t.out, box, letters)
	default:
		return b.replay(ctx, t.out, box, letters)
	}
}

// check refuses what cannot be meant.
func (f *letterFlags) check(do string, numbers []string) error {
	switch do {
	case "list":
		if len(numbers) > 0 || f.all {
			return errors.New("list: want no numbers; --tenant and --session choose")
		}
	case "show", "replay", "drop":
		if f.all == (len(numbers) > 0) {
			return fmt.Errorf("%s: want the numbers of letters, or --all", do)
		}
		if len(numbers) > 0 && (f.tenant != "" || f.session != "") {
			return fmt.Errorf("%s: --tenant and --session go with --all", do)
		}
	default:
		return fmt.Errorf("%q: want list, show, replay or drop", do)
	}
	return nil
}

// choose gets the letters that are meant.
func (f *letterFlags) choose(ctx context.Context, box *deadletters.Box, numbers []string) ([]deadletters.Letter, error) {
	var letters []deadletters.Letter
	for _, text := range numbers {
		number, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, usageError{fmt.Errorf("letter %q: want a number as list shows it", text)}
		}
		letter, err := box.Get(ctx, number)
		if err != nil {
			return nil, err
		}
		letters = append(letters, letter)
	}
	if !f.all {
		return letters, nil
	}
	for letter, err := range box.All(ctx) {
		if err != nil {
			return nil, err
		}
		if f.wants(letter) {
			letters = append(letters, letter)
		}
	}
	return letters, nil
}

func (f *letterFlags) list(ctx context.Context, t terminal, box *deadletters.Box) error {
	lines := json.NewEncoder(t.out)
	table := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	if !f.json {
		fmt.Fprintln(table, "NUMBER\tBURIED\tREASON\tSESSION\tSEQUENCE\tWHY")
	}
	for letter, err := range box.All(ctx) {
		switch {
		case err != nil:
			return errors.Join(err, table.Flush())
		case !f.wants(letter):
		case f.json:
			if err := lines.Encode(lineOf(letter)); err != nil {
				return err
			}
		default:
			fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%d\t%s\n", letter.Number, letter.Buried.Format(time.RFC3339),
				letter.Reason, sessionText(letter.Session), letter.Origin.Seq, oneLine(letter.Why))
		}
	}
	return table.Flush()
}

func (f *letterFlags) show(out io.Writer, letters []deadletters.Letter) error {
	for _, letter := range letters {
		var err error
		switch {
		case f.raw:
			_, err = out.Write(append(append([]byte(nil), letter.Header...), letter.Data...))
		case f.json:
			line := lineOf(letter)
			line.Header, line.Data = letter.Header, letter.Data
			err = json.NewEncoder(out).Encode(line)
		default:
			err = showLetter(out, letter)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func showLetter(out io.Writer, letter deadletters.Letter) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"letter", strconv.FormatUint(letter.Number, 10)},
		{"buried", letter.Buried.Format(time.RFC3339)},
		{"reason", string(letter.Reason) + ": " + oneLine(letter.Why)},
		{"session", sessionText(letter.Session)},
		{"origin", fmt.Sprintf("%s %d, stored %s", oneLine(letter.Origin.Stream), letter.Origin.Seq, letter.Origin.Stored.Format(time.RFC3339Nano))},
		{"subject", oneLine(letter.Origin.Subject)},
	} {
		fmt.Fprintf(table, "%s\t%s\n", row[0], row[1])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if letter.Missing != deadletters.NothingMissing {
		_, err := fmt.Fprintf(out, "message: %s\n\n", letter.Missing)
		return err
	}
	_, err := fmt.Fprintf(out, "headers: %s\ndata: %s\n\n", quoted(letter.Header), quoted(letter.Data))
	return err
}

// quoted shows what a stranger wrote, so that the terminal obeys none of it.
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

// letterLine is a letter as JSON.
type letterLine struct {
	Number   uint64    `json:"number"`
	Buried   time.Time `json:"buried"`
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

func lineOf(letter deadletters.Letter) letterLine {
	return letterLine{
		Number: letter.Number, Buried: letter.Buried, Reason: string(letter.Reason), Why: letter.Why,
		Tenant: letter.Session.Tenant, Root: letter.Session.Root, Session: letter.Session.ID,
		Stream: letter.Origin.Stream, Subject: letter.Origin.Subject, Sequence: uint64(letter.Origin.Seq), Stored: letter.Origin.Stored,
		Missing: string(letter.Missing),
	}
}

func drop(ctx context.Context, out io.Writer, box *deadletters.Box, letters []deadletters.Letter) error {
	for _, letter := range letters {
		if err := box.Drop(ctx, letter.Number); err != nil {
			return err
		}
		fmt.Fprintf(out, "%d dropped\n", letter.Number)
	}
	return nil
}

// replay folds the sessions of letters anew; one that this build cannot read
// either keeps its letter, and the command fails.
func (b *backbone) replay(ctx context.Context, out io.Writer, box *deadletters.Box, letters []deadletters.Letter) error {
	reader, err := b.reader()
	if err != nil {
		return err
	}
	store, err := kvstore.New(b.js, kvstore.Config{Layout: b.cfg.layout()})
	if err != nil {
		return err
	}
	kept := 0
	for i, err := range box.Replay(ctx, letters, store, natssource.Log{Reader: reader}) {
		if err != nil {
			kept++
			fmt.Fprintf(out, "%d kept: %s\n", letters[i].Number, oneLine(err.Error()))
			continue
		}
		fmt.Fprintf(out, "%d folded, letter dropped\n", letters[i].Number)
	}
	if kept > 0 {
		return fmt.Errorf("%d of %d letters are kept", kept, len(letters))
	}
	return nil
}
